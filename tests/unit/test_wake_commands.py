import pytest

from bot.wake.commands import VERBS, Command, Refused, parse, who_may

SHA = "0123456789abcdef0123456789abcdef01234567"
RERUN, JUDGE = Command("rerun"), Command("judge")


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/fvec rerun", Command("rerun")),
        ("/fvec RERUN", Command("rerun")),
        ("/fvec\trerun  ", Command("rerun")),
        ("/fvec rerun\r\n", Command("rerun")),
        ("/fvec rerun\n \t\r\n\n", Command("rerun")),
        (f"/fvec rerun {SHA}", Command("rerun", SHA)),
        (f"/fvec rerun {SHA.upper()}", Command("rerun", SHA)),
        ("/fvec judge", Command("judge")),
        ("/fvec judge exact", Command("judge", None, "exact")),
        ("/fvec Judge Reorder", Command("judge", None, "reorder")),
        (f"/fvec judge approximate {SHA}", Command("judge", SHA, "approximate")),
        (f"/fvec judge {SHA} config", Command("judge", SHA, "config")),
        ("/fvec recreate", Command("recreate")),
        ("/fvec help", Command("help")),
    ],
)
def test_a_command_is_read(body, command):
    assert parse(body) == command


@pytest.mark.parametrize(
    "body",
    [
        "",
        "please /fvec rerun",
        " /fvec rerun",
        "\n/fvec rerun",
        "> /fvec rerun",
        "`/fvec rerun`",
        "/fvecs rerun",
        "/fvec-rerun",
        "/fvec/rerun",
        "/fvec\u00a0rerun",
        "/FVEC rerun",
        "\u200b/fvec rerun",
    ],
)
def test_a_comment_that_does_not_start_with_the_word_is_not_for_us(body):
    assert parse(body) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("/fvec", "no command is named"),
        ("/fvec merge", "`merge` is no command"),
        ("/fvec $(id)", "that is no command"),
        ("/fvec `rerun`", "that is no command"),
        ("/fvec @everyone", "that is no command"),
        (f"/fvec {'a' * 40}", "that is no command"),
        ("/fvec rerun; rm", "that is no command"),
        ("/fvec rerun now", "`/fvec rerun` takes one commit at most, of 40 digits"),
        ("/fvec rerun exact", "`/fvec rerun` takes one commit at most, of 40 digits"),
        (f"/fvec rerun {SHA} {SHA}", "`/fvec rerun` takes one commit at most, of 40 digits"),
        ("/fvec rerun 0123abc", "a commit is named by all its 40 digits"),
        ("/fvec judge fast", "`/fvec judge` takes a class (exact, reorder, approximate, config)"),
        ("/fvec judge exact config", "`/fvec judge` takes a class"),
        (f"/fvec recreate {SHA}", "`/fvec recreate` stands alone"),
        ("/fvec help me", "`/fvec help` stands alone"),
        ("/fvec rerun\n/fvec judge", "a command is one line, and nothing may stand below it"),
        ("/fvec rerun\n\n\nthanks", "a command is one line, and nothing may stand below it"),
        ("/fvec rerun\rjudge", "that is no command"),
        ("/fvec rerun" + " " * 5_000, "a command is one short line"),
    ],
)
def test_what_starts_like_a_command_and_is_none_is_refused_with_the_reason(body, reason):
    refused = parse(body)
    assert isinstance(refused, Refused)
    assert reason in refused.reason
    assert "\n" not in refused.reason


def test_an_unknown_verb_names_all_that_there_are():
    refused = parse("/fvec frobnicate")
    assert isinstance(refused, Refused)
    assert [verb for verb in VERBS if f"`/fvec {verb}`" in refused.reason] == list(VERBS)


@pytest.mark.parametrize("permission", ["admin", "maintain", "write"])
def test_who_may_write_may_command(permission):
    assert who_may(RERUN, permission, is_fork=False, own_branch=True) is None


@pytest.mark.parametrize("permission", ["triage", "read", "none", "", "ADMIN", "owner"])
@pytest.mark.parametrize("verb", VERBS)
def test_nobody_else_may(permission, verb):
    command = Command(verb, SHA)
    refused = who_may(command, permission, is_fork=False, own_branch=True)
    assert refused == "commands are taken from people who may write to this repository"


@pytest.mark.parametrize("verb", VERBS)
def test_a_bot_never_may(verb):
    refused = who_may(Command(verb), "admin", is_fork=False, own_branch=True, is_bot=True)
    assert refused == "commands are taken from people only"


def test_a_fork_is_judged_only_at_a_named_commit():
    assert who_may(Command("judge", SHA), "write", is_fork=True, own_branch=False) is None
    assert who_may(JUDGE, "admin", is_fork=True, own_branch=False) == (
        "this comes from a fork: look at the commit and name it, `/fvec judge SHA` with all 40 digits"
    )


@pytest.mark.parametrize("command", [JUDGE, Command("judge", SHA), RERUN, Command("recreate")])
def test_in_a_workflow_the_first_answer_about_a_fork_names_what_does_work(command):
    fork = {"is_fork": True, "own_branch": False}
    refused = who_may(command, "admin", **fork, in_workflow=True)
    assert refused == (
        "this comes from a fork, whose code a workflow would run on your runners: push the branch "
        "to this repository and open a pull request from there"
    )
    assert who_may(Command("help"), "write", **fork, in_workflow=True) is None


@pytest.mark.parametrize("verb", ["rerun", "recreate"])
def test_only_our_own_pull_requests_are_measured_again_or_started_over(verb):
    refused = who_may(Command(verb), "admin", is_fork=False, own_branch=False)
    assert refused == (
        f"`/fvec {verb}` is for pull requests that fvec opened; `/fvec judge` judges any"
    )


@pytest.mark.parametrize("command", [JUDGE, Command("help")])
def test_any_pull_request_may_be_judged_and_help_asked_for_anywhere(command):
    assert who_may(command, "write", is_fork=False, own_branch=False) is None
