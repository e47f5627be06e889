"""Comments, check runs, dashboard and onboarding: whole texts, every verdict, hostile content."""

import re
from dataclasses import replace

import pytest
from ruamel.yaml import YAML

from bot.render import again, check, comment, dashboard, onboarding
from bot.render.again import Kept
from layers.evidence import Verdict
from tests.github_markdown import parts, references, spans
from tests.golden_files import assert_golden
from tests.unit.test_judge_rendering import accepted, rejected
from tests.unit.test_verify_command import verified

HEAD = "91c22e7f3f6a2b55f0d1c7be2e0c8b8a93f4d102"
BASE = "4be1c60b0c8f0d7a1d1f4b6f0f5e6a77c2a9d310"
DATA = f"https://github.com/owner/serve/blob/{BASE}/pulls/fvec/x/verify.json?raw=true"
OCCASION = comment.Occasion(HEAD, BASE, "maintainer", DATA, claimed=True)
HOSTILE = "@maintainer #1 fixes #2 <img src=x> <!-- fvec:report --> ![x](//x) `|` \n\n## http://x.y"
EARLIER = [
    comment.Told(
        "2026-01-02T03:04:05+00:00", HEAD, "accepted", "reproduced", "1.41 times", "owner"
    ),
    comment.Told("2026-01-01T03:04:05+00:00", BASE, "rejected", "gain_differs", "", "maintainer"),
]


def inert(text: str) -> bool:
    """Say that nothing of HOSTILE came out as markup, mention or reference."""
    html = [part.content for part in parts(text) if part.type in ("html_block", "html_inline")]
    foreign = [part for part in html if not re.match(r"</?(details|summary)", part.strip())]
    return not (foreign or references(text) or "image" in spans(text))


# Comments


def test_a_report_is_one_comment_with_what_was_said_before() -> None:
    assert_golden("comment_rerun.md", comment.report(verified(), OCCASION, EARLIER))
    occasion = replace(OCCASION, claimed=False, data_url=DATA.replace("verify", "judge"))
    assert_golden("comment_judge.md", comment.report(rejected(), occasion))


def test_what_is_below_the_gates_starts_collapsed() -> None:
    text = comment.report(accepted(), replace(OCCASION, claimed=False))
    open_parts = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert "## Gates" in open_parts
    assert "## Run it again" in open_parts
    assert "| output | type |" in text
    assert "| output | type |" not in open_parts
    assert len(open_parts.splitlines()) < len(text.splitlines()) / 2


def test_a_report_has_the_commands_that_work_where_it_is_read() -> None:
    kept = Kept(BASE, "judged/7")
    told = again.kept(rejected(), kept, HEAD)
    text = comment.report(rejected(), replace(OCCASION, claimed=False, run_again=told))
    assert f'git show {BASE}:judged/7/judged.diff > "$at/judged.diff"' in text
    assert f'git checkout {HEAD}\nfvec judge . --patch "$at/judged.diff" --class exact' in text
    assert "their.diff --class" not in text
    again_told = again.kept(verified(), Kept(BASE, "pulls/fvec/x"), HEAD)
    text = comment.report(verified(), replace(OCCASION, run_again=again_told))
    assert '\nfvec verify "$at"\n' in text
    assert check.verified(verified(), HEAD, again_told).text.count("fvec verify") == 1


def test_only_so_many_earlier_reports_are_shown() -> None:
    text = comment.report(verified(), OCCASION, EARLIER * 20)
    assert "<summary>Earlier (40)</summary>" in text
    assert "and 30 before that, in `history.json`." in text


def test_the_longest_comment_fits() -> None:
    long = accepted().model_copy(update={"warnings": ["word " * 400] * 400, "detail": "x" * 90_000})
    told = comment.Told("x" * 500, "y" * 500, "z" * 500, "`" * 500, "g" * 500, "l" * 500)
    text = comment.report(long, replace(OCCASION, asked_by="l" * 500), [told] * 50)
    assert len(text) < 65_000


def test_a_refusal_keeps_its_code_spans_and_nothing_else() -> None:
    text = comment.help_text("say `/fvec judge`")
    assert text.startswith("Refused: say `/fvec judge`.\n\n| command | what it does |\n")
    assert inert(comment.help_text(HOSTILE))
    assert "Refused" not in comment.help_text()


def test_a_report_that_is_not_made_says_why() -> None:
    assert comment.moved(HEAD, BASE) == (
        "**Not reported**: `91c22e7f3f` was to be measured, and the head moved to `4be1c60b0c` "
        "meanwhile. A report belongs to one commit, so nothing is said about another.\n\n"
        "Say `/fvec rerun` or `/fvec judge` again for the new head.\n"
    )
    assert "the pull request was closed meanwhile" in comment.moved(HEAD, None)


def test_the_row_of_a_report_has_its_gain() -> None:
    assert comment.told(verified(), "now", HEAD, "owner") == comment.Told(
        "now", HEAD, "accepted", "reproduced", "1.40\N{MULTIPLICATION SIGN} (1.37 to 1.43)", "owner"
    )
    assert comment.told(rejected(), "now", HEAD, "owner").gain == ""


# Check runs


@pytest.mark.parametrize(
    ("verdict", "conclusion"),
    [
        (Verdict.ACCEPTED, "success"),
        (Verdict.REJECTED, "failure"),
        (Verdict.INCONCLUSIVE, "neutral"),
        (Verdict.FAILED, "neutral"),
    ],
)
def test_the_conclusion_of_every_verdict(verdict, conclusion) -> None:
    told = rejected().model_copy(update={"verdict": verdict})
    assert check.judged(told, HEAD).conclusion == conclusion
    again = verified().model_copy(update={"verdict": verdict})
    assert check.verified(again, HEAD).conclusion == conclusion


def test_a_check_says_verdict_and_gain_in_its_title() -> None:
    told = check.verified(verified(), HEAD)
    assert told.title == (
        "accepted: 1.40\N{MULTIPLICATION SIGN} (1.37 to 1.43) throughput, 4 fresh pairs"
    )
    assert told.summary == (
        "**accepted**: `reproduced`, at `91c22e7f3f`.\n\nThat is: the evidence holds: every gate "
        f"passes, and the gain is not surely lower.\n\n{check.NEVER_PROMOTES}"
    )
    assert check.judged(rejected(), HEAD).title == "rejected: the outputs are not the same"


@pytest.mark.parametrize(
    "told",
    [
        check.broken(f"{HOSTILE}\n{HOSTILE} ```", HOSTILE),
        check.broken(HOSTILE * 500, None, fault_of_input=True),
        check.stale(HEAD, HOSTILE, BASE),
        check.current(HEAD, "accepted", HOSTILE),
        check.ended(HOSTILE, HOSTILE, 2),
        check.judged(rejected().model_copy(update={"detail": HOSTILE, "reason": HOSTILE}), HEAD),
    ],
    ids=["broken", "long", "stale", "current", "ended", "judged"],
)
def test_hostile_words_stay_words_in_a_check(told: check.Check) -> None:
    assert len(told.title) <= check.TITLE_LIMIT + 40  # zero-width spaces are added
    assert "\n" not in told.title
    assert inert(told.summary)
    assert max(len(told.summary), len(told.text)) < 65_535


def test_an_error_is_neutral_unless_a_file_is_wrong() -> None:
    told = check.broken("the tool broke\nline of its log", "look at it")
    assert told == check.Check(
        "neutral",
        "Nothing was decided: the tool broke",
        "the tool broke\n\n```text\nline of its log\n```\n\nWhat to do: look at it\n\n"
        "This says nothing about the change.",
    )
    wrong = check.broken(".github/fvec.yml:3:1: slow: unknown key", "slo?", fault_of_input=True)
    assert (wrong.conclusion, wrong.title) == (
        "failure",
        "Cannot work here: .github/fvec.yml:3:1: slow: unknown key",
    )


def test_secrets_do_not_come_out() -> None:
    token = "ghp_" + "a1B2" * 9
    report = rejected().model_copy(update={"detail": f"log: {token}"})
    told = check.judged(report, HEAD)
    assert token not in told.summary + told.text + comment.report(report, OCCASION)


# Dashboard

RUN = dashboard.RunLine(
    at="2026-01-02T03:04:05+00:00",
    job="analyse-1f-7",
    kind="analyse",
    state="done",
    why="release v2 was published",
    summary="run 0a1b2c3d4e5f: 2 changes accepted",
    commit=BASE,
)
FAILED = replace(
    RUN, job="rerun-2f-6", kind="rerun", state="failed", summary="bwrap is not on PATH",
    why="maintainer asked for `/fvec rerun`", number=3, hint="apt-get install bubblewrap",
)  # fmt: skip
SHOWN = dashboard.Dashboard(
    runs=[RUN, FAILED],
    pulls=[
        dashboard.PullLine("fvec/config/x", "closed", "config: One instance", 4),
        dashboard.PullLine("fvec/features/y", "open", "features: One pass", 3),
        dashboard.PullLine("fvec/server/z", "awaiting", "", None, "2 are open, and 2 may be"),
    ],
    nothing="the last analysis is 3.0 days old; it is stale at 2026-01-30 06:00 UTC",
)


def test_the_dashboard_reads_as_expected() -> None:
    assert_golden("dashboard.md", dashboard.body(SHOWN))


def test_an_error_is_shown_until_its_kind_went_well() -> None:
    assert "What went wrong" in dashboard.body(SHOWN)
    mended = replace(FAILED, state="done", job="rerun-2f-8")
    assert "What went wrong" not in dashboard.body(replace(SHOWN, runs=[mended, RUN, FAILED]))


def test_a_dashboard_of_nothing_says_so() -> None:
    assert dashboard.body(dashboard.Dashboard()).startswith("Nothing has happened yet.\n")
    assert "#7 proposes one" in dashboard.body(dashboard.Dashboard(onboarding=7))


def test_hostile_words_stay_words_on_the_dashboard() -> None:
    run = dashboard.RunLine(*[HOSTILE] * 6, hint=HOSTILE)
    failed = replace(run, state="failed")
    pull = dashboard.PullLine(HOSTILE, "open", HOSTILE, None, HOSTILE)
    text = dashboard.body(dashboard.Dashboard([run, failed] * 40, [pull] * 90, HOSTILE))
    assert inert(text)
    assert len(text) <= 60_000


def test_a_claim_that_was_taken_back_comes_first_on_the_dashboard() -> None:
    taken = dashboard.PullLine("fvec/server/q", "taken back", "server: Native strings", 9)
    rows = dashboard.body(replace(SHOWN, pulls=[*SHOWN.pulls, taken])).split("## Pull requests")[1]
    assert rows.splitlines()[4] == (
        "| #9 | taken back | server: Native strings | its last rerun was rejected: close it, or "
        "`/fvec recreate` |"
    )


def test_every_moment_is_written_alike() -> None:
    text = dashboard.body(SHOWN)
    assert "2026-01-02 03:04 UTC" in text
    assert "+00:00" not in text + comment.report(verified(), OCCASION, EARLIER)
    hostile = dashboard.Dashboard(runs=[replace(RUN, at=HOSTILE)])
    assert inert(dashboard.body(hostile))


# Onboarding

FOUND = onboarding.Found(
    models="models",
    entry="ensemble",
    files=["traffic/generate.py", ".github/fvec.yml"],
    guesses=[onboarding.Guessed("slo.p99_ms", "100", "guess", "nothing was measured")],
    correct_first=["slo.p99_ms in .github/fvec.yml: your service's objective"],
    skipped=[("models/x", "a link that leads out of the repository")],
)


def test_the_onboarding_reads_as_expected() -> None:
    assert_golden("onboarding.md", onboarding.body(FOUND, "name: fvec\non: push\n"))


@pytest.mark.parametrize(
    ("branch", "filtered"),
    [
        ("on", "on"),
        ("null", "null"),
        ("1e3", "1e3"),
        ("主", "主"),
        ("a, b]", "a, b\\]"),
        ("dev+gpu", "dev\\+gpu"),
        ("!x", "\\!x"),
        ('a"b', 'a"b'),
    ],
)
def test_a_default_branch_of_any_name_means_itself_in_the_workflow(branch, filtered) -> None:
    made = onboarding.caller("on: {push: {branches: [main]}}\n", branch)
    read = YAML(typ="safe").load(made)
    assert read["on"]["push"]["branches"] == [filtered]


def test_the_onboarding_names_the_default_branch_and_what_to_replace() -> None:
    template = "on:\n  push: {branches: [main]} # the default branch\n    uses: OWNER/fvec@COMMIT\n"
    made = onboarding.caller(template, "master")
    assert 'push: {branches: ["master"]} #' in made
    body = onboarding.body(FOUND, made)
    assert "Replace OWNER by" in body
    assert "COMMIT by the full name of the commit" in body


def test_the_onboarding_prints_no_workflow_where_one_is_there() -> None:
    body = onboarding.body(FOUND, None)
    assert "add this file yourself" not in body
    assert "## How to say no" in body


def test_hostile_words_stay_words_in_the_onboarding() -> None:
    found = onboarding.Found(
        HOSTILE,
        HOSTILE,
        [HOSTILE],
        [onboarding.Guessed(HOSTILE, HOSTILE, HOSTILE, HOSTILE)] * 300,
        [HOSTILE] * 300,
        [(HOSTILE, HOSTILE)] * 300,
    )
    text = onboarding.body(found, "name: fvec\n")
    assert inert(text)
    assert len(text) <= 60_000
