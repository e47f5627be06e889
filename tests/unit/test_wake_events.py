import copy

import pytest

from bot.wake.events import (
    MOST_BODY,
    MOST_PATHS,
    MOST_REPOSITORIES,
    NO_COMMIT,
    Event,
    Unusable,
    parse,
)
from tests.wake import event

SHA = "c" * 40
COMMON = {
    "repository": {"full_name": "owner/serve", "default_branch": "main", "private": True},
    "sender": {"login": "maintainer", "type": "User", "id": 1},
    "installation": {"id": 42, "node_id": "x"},
}
AT = "2026-11-30T03:00:00Z"
COMMENT = {
    **COMMON,
    "action": "created",
    "issue": {"number": 7, "pull_request": {"url": "https://api.example.org"}, "title": 3},
    "comment": {"id": 99, "body": "/fvec rerun", "created_at": AT, "user": None},
}
PULL = {
    **COMMON,
    "action": "closed",
    "number": 7,
    "pull_request": {
        "merged": True,
        "head": {"ref": "fvec/x", "sha": SHA, "repo": {"full_name": "owner/serve"}},
        "base": {"ref": "main", "sha": SHA},
    },
}
PUSH = {
    **COMMON,
    "ref": "refs/heads/main",
    "after": SHA,
    "commits": [
        {"added": ["models/a/2/model.py"], "modified": ["b.txt"], "removed": []},
        {"added": [], "modified": ["b.txt", "requirements.txt"], "removed": ["a.txt"]},
    ],
}


def changed(payload, path, value):
    """Return the payload with one field changed, or removed where the value is `...`."""
    whole = copy.deepcopy(payload)
    *parents, last = path.split(".")
    part = whole
    for name in parents:
        part = part[name]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return whole


def test_a_comment_is_read():
    assert parse("issue_comment", COMMENT) == event(
        "comment",
        "created",
        number=7,
        is_pull=True,
        comment_id=99,
        body="/fvec rerun",
        created_at=AT,
    )


def test_a_comment_on_an_issue_is_on_no_pull_request():
    read = parse("issue_comment", changed(COMMENT, "issue.pull_request", ...))
    assert read is not None
    assert not read.is_pull


def test_a_long_comment_is_cut():
    read = parse("issue_comment", changed(COMMENT, "comment.body", "x" * (MOST_BODY + 1)))
    assert read is not None
    assert len(read.body) == MOST_BODY


@pytest.mark.parametrize(
    "sender",
    [
        {"login": "renovate[bot]", "type": "Bot"},
        {"login": "renovate[bot]", "type": "User"},
        {"login": "renovate[bot]"},
        {"login": "Copilot", "type": "Bot"},
    ],
)
def test_a_bot_is_known_by_its_type_and_by_its_name(sender):
    read = parse("issue_comment", {**COMMENT, "sender": sender})
    assert read is not None
    assert read.sender_is_bot


def test_a_pull_request_is_read():
    assert parse("pull_request", PULL) == event(
        "pull_request",
        "closed",
        number=7,
        is_pull=True,
        sha=SHA,
        branch="fvec/x",
        head_repository="owner/serve",
        base="main",
        merged=True,
    )


def test_a_pull_request_whose_fork_is_gone_has_no_head_repository():
    read = parse("pull_request", changed(PULL, "pull_request.head.repo", None))
    assert read is not None
    assert read.head_repository is None


def test_a_push_is_read_with_its_files():
    paths = ("a.txt", "b.txt", "models/a/2/model.py", "requirements.txt")
    assert parse("push", PUSH) == event(
        "push", ref="refs/heads/main", sha=SHA, paths=paths, added=("models/a/2/model.py",)
    )


def test_a_push_that_deletes_a_branch_has_no_commit():
    read = parse("push", {**PUSH, "after": NO_COMMIT, "commits": []})
    assert read == event("push", "deleted", ref="refs/heads/main")


def test_a_push_in_a_workflow_names_no_files():
    read = parse("push", {**PUSH, "commits": [{"id": SHA, "message": "x"}]})
    assert read == event("push", ref="refs/heads/main", sha=SHA)


def test_the_files_of_a_push_are_bounded():
    names = [f"{n:05d}" for n in range(MOST_PATHS + 10)] + ["y" * 2000, ""]
    read = parse("push", {**PUSH, "commits": [{"added": names}]})
    assert read is not None
    assert len(read.paths) == len(read.added) == MOST_PATHS
    assert max(map(len, read.paths)) == 5


def test_a_release_is_read():
    release = {"tag_name": "v1.2", "created_at": "2026-11-01T00:00:00Z", "published_at": AT}
    assert parse("release", {**COMMON, "action": "published", "release": release}) == event(
        "release", "published", ref="v1.2", created_at=AT
    )


def test_an_installation_names_its_repositories():
    added = [{"full_name": f"owner/r{n}"} for n in range(MOST_REPOSITORIES + 5)]
    payload = {**COMMON, "action": "added", "repositories_added": added}
    del payload["repository"]
    read = parse("installation_repositories", payload)
    assert read == event(
        "installation",
        "added",
        repository="",
        default_branch=None,
        repositories=tuple(f"owner/r{n}" for n in range(MOST_REPOSITORIES)),
    )


def test_a_schedule_needs_nobody_and_no_repository():
    assert parse("schedule", {"schedule": "0 3 * * *"}) == Event(
        "schedule", "", "", None, sender="", sender_is_bot=False
    )


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("workflow_dispatch", {"ref": "refs/heads/main", "inputs": {"x": "y"}}),
        ("repository_dispatch", {"action": "analyse", "branch": "main", "client_payload": {}}),
    ],
)
def test_a_dispatch_is_read(name, fields):
    read = parse(name, {**COMMON, **fields})
    assert read == event("dispatch", fields.get("action", ""), ref="refs/heads/main")


def test_a_ping_is_about_no_repository():
    read = parse("ping", {"zen": "x", "hook_id": 1, **COMMON})
    assert read == event("ping", repository="", default_branch=None)


@pytest.mark.parametrize("name", ["star", "workflow_run", "", "../push", "PUSH"])
def test_other_events_are_not_used(name):
    assert parse(name, {"anything": 1}) is None


@pytest.mark.parametrize(
    ("name", "payload", "field", "value"),
    [
        ("issue_comment", COMMENT, "action", 7),
        ("issue_comment", COMMENT, "comment", ...),
        ("issue_comment", COMMENT, "comment.body", None),
        ("issue_comment", COMMENT, "comment.id", "99"),
        ("issue_comment", COMMENT, "comment.id", True),
        ("issue_comment", COMMENT, "comment.created_at", "yesterday"),
        ("issue_comment", COMMENT, "comment.created_at", "2026-13-01T00:00:00Z"),
        ("issue_comment", COMMENT, "comment.created_at", "2026-11-01T00:00:00"),
        ("issue_comment", COMMENT, "issue.number", -1),
        ("issue_comment", COMMENT, "issue.pull_request", "yes"),
        ("issue_comment", COMMENT, "repository", ...),
        ("issue_comment", COMMENT, "repository.full_name", "owner/../serve"),
        ("issue_comment", COMMENT, "repository.full_name", "owner/serve\n"),
        ("issue_comment", COMMENT, "sender", ...),
        ("issue_comment", COMMENT, "sender.login", "a b"),
        ("issue_comment", COMMENT, "installation.id", 0),
        ("pull_request", PULL, "pull_request.head.sha", "abc"),
        ("pull_request", PULL, "pull_request.head.ref", "a\nb"),
        ("pull_request", PULL, "pull_request.merged", "true"),
        ("push", PUSH, "after", SHA.upper()),
        ("push", PUSH, "ref", "x" * 2000),
        ("push", PUSH, "commits", {"0": 1}),
    ],
)
def test_a_payload_that_is_not_what_its_name_says_is_unusable_and_the_field_is_named(
    name, payload, field, value
):
    with pytest.raises(Unusable) as caught:
        parse(name, changed(payload, field, value))
    told = str(caught.value)
    assert told.startswith(f"{name}: {field}")
    assert "\n" not in told


@pytest.mark.parametrize("payload", [None, [], "x", 7, {}])
def test_no_payload_at_all_is_unusable(payload):
    with pytest.raises(Unusable):
        parse("push", payload)


def test_the_message_repeats_no_content():
    canary = "canary-of-a-payload"
    with pytest.raises(Unusable) as caught:
        parse("issue_comment", changed(COMMENT, "repository.full_name", canary))
    assert str(caught.value) == "issue_comment: repository.full_name: string_pattern_mismatch"
    assert caught.value.__cause__ is None
    assert canary not in str(caught.value)


def test_a_repository_whose_name_is_no_argument_is_left_out_and_the_others_stay():
    named = [{"full_name": "owner/-serve"}, {"full_name": "owner/serve"}]
    payload = {**COMMON, "action": "created", "repositories": named}
    del payload["repository"]
    read = parse("installation", payload)
    assert read is not None
    assert read.repositories == ("owner/serve",)


@pytest.mark.parametrize("named", [[{"full_name": 7}], [{}], ["owner/serve"], "owner/serve"])
def test_a_list_of_repositories_that_is_none_is_unusable(named):
    with pytest.raises(Unusable, match="installation: repositories"):
        parse("installation", {**COMMON, "action": "created", "repositories": named})
