"""Comments, check runs and the dashboard, on a GitHub on loopback."""

import pytest

from bot.github.client import Forbidden, GitHubError
from bot.github.replies import Comment
from bot.github.repository import Repository, marker
from layers.errors import InvalidInput
from tests.github.fake_github import FakeGitHub
from tests.github_bot import BRANCH, KEY, SAID, marked, opened

pytest_plugins = ["tests.github.fixtures", "tests.github_bot_fixtures"]

# Comments


def test_one_comment_is_kept_up_to_date(fake, repository, number: int) -> None:
    first = repository.sticky_comment(number, KEY, "accepted")
    writes = len(fake.writes)

    assert first == Comment(first.id, "fvec[bot]", marked("accepted"), first.url)
    assert repository.sticky_comment(number, KEY, "accepted\n") == first
    assert repository.sticky_comment(number, KEY, marked("accepted")) == first
    assert len(fake.writes) == writes

    second = repository.sticky_comment(number, KEY, "rejected")

    assert (second.id, second.body) == (first.id, marked("rejected"))
    assert [c["body"] for c in fake.comments(number)] == [marked("rejected")]
    assert repository.comment_exists(number, KEY) == second
    assert repository.comment_exists(number, "other") is None


def test_a_marker_of_anybody_else_is_nothing(fake, repository, number: int) -> None:
    fake.comment(number, marked("mine now"), login="outsider")
    fake.comment(number, marked("mine too"), login="owner")

    ours = repository.sticky_comment(number, KEY, "accepted")

    assert [(c["user"]["login"], c["body"]) for c in fake.comments(number)] == [
        ("outsider", marked("mine now")),
        ("owner", marked("mine too")),
        ("fvec[bot]", marked("accepted")),
    ]
    repository.sticky_comment(number, KEY, "rejected")
    assert fake.comments(number)[2]["body"] == marked("rejected")
    assert len(fake.comments(number)) == 3
    assert ours.author == "fvec[bot]"


def test_a_marker_within_a_text_is_nothing(fake, repository, number: int) -> None:
    fake.comment(number, f"quoted:\n{marked('old')}", login=fake.login)
    fake.comment(number, f"{marker(KEY)} and more", login=fake.login)
    fake.comment(number, marked("x", f"{KEY}-2"), login=fake.login)

    assert repository.comment_exists(number, KEY) is None


def test_our_comment_is_found_behind_many(fake, repository, number: int) -> None:
    for n in range(120):
        fake.comment(number, f"comment {n}")
    ours = repository.sticky_comment(number, KEY, "accepted")
    for n in range(120):
        fake.comment(number, f"comment {n}")

    assert repository.comment_exists(number, KEY) == ours


def test_a_body_over_the_limit_is_refused_here(fake, repository, number, head) -> None:
    room = 65_536 - len(marked(""))

    with pytest.raises(InvalidInput, match="a body of 65,537 characters; GitHub takes at most"):
        repository.sticky_comment(number, KEY, "x" * (room + 1))
    with pytest.raises(InvalidInput, match="at most 65,536"):
        repository.create_pull(BRANCH, "main", "A title", "x" * 65_537, draft=True)
    assert fake.writes == []
    assert len(repository.sticky_comment(number, KEY, "\u00e9" * room).body) == 65_536


@pytest.mark.parametrize("key", ["", "a-->b", "a\nb", "A", "-a", "a" * 101])
def test_a_marker_has_a_plain_key(key: str) -> None:
    with pytest.raises(ValueError, match="not a key of a marker"):
        marker(key)


def test_a_text_of_ours_under_another_login_is_told(fake, passing, number: int) -> None:
    repository = opened(fake, passing, login="other[bot]")

    with pytest.raises(GitHubError, match=r"is by fvec\[bot\], not other\[bot\]") as caught:
        repository.sticky_comment(number, KEY, "accepted")

    assert caught.value.hint is not None
    assert "FVEC_GITHUB_LOGIN=fvec[bot]" in caught.value.hint


# Check runs


def test_a_check_run_is_made_once_and_updated(fake, repository, head: str) -> None:
    first = repository.check_run(head, "fvec", "run-1", **SAID)
    writes = len(fake.writes)
    assert repository.check_run(head, "fvec", "run-1", **SAID) == first
    assert len(fake.writes) == writes

    told = {**SAID, "conclusion": "neutral", "text": "more", "details_url": "https://example.com/x"}
    second = repository.check_run(head, "fvec", "run-1", **told)
    assert repository.check_run(head, "fvec", "run-1", **told) == second

    (run,) = fake.check_runs(head)
    assert (first.id, second.id, run["id"]) == (run["id"],) * 3
    assert (second.status, second.conclusion, second.head_sha) == ("completed", "neutral", head)
    assert (run["name"], run["external_id"], run["details_url"]) == (
        "fvec",
        "run-1",
        "https://example.com/x",
    )
    assert {k: run["output"][k] for k in ("title", "summary", "text")} == {
        "title": "accepted",
        "summary": "1.4 times",
        "text": "more",
    }


def test_a_check_run_starts_and_ends(fake, repository, head: str) -> None:
    begun = {**SAID, "status": "in_progress", "conclusion": None}

    first = repository.check_run(head, "fvec", "run-1", **begun)
    assert repository.check_run(head, "fvec", "run-1", **begun) == first
    second = repository.check_run(head, "fvec", "run-1", **SAID)
    third = repository.check_run(head, "fvec", "run-1", **begun)

    assert [(run.id, run.status, run.conclusion) for run in (first, second, third)] == [
        (first.id, "in_progress", None),
        (first.id, "completed", "success"),
        (first.id, "in_progress", None),
    ]


def test_check_runs_are_told_apart(fake, repository, head: str) -> None:
    repository.check_run(head, "fvec", "run-1", **SAID)
    repository.check_run(head, "fvec", "run-2", **SAID)
    repository.check_run(head, "fvec other", "run-1", **SAID)
    repository.check_run(fake.sha("main") or "", "fvec", "run-1", **SAID)

    assert len(fake.check_runs(head)) == 3


def test_the_limits_of_a_check_run_are_kept_here(fake, repository, head: str) -> None:
    for field_name in ("summary", "text"):
        with pytest.raises(InvalidInput, match="65,536 characters; GitHub takes at most 65,535"):
            repository.check_run(head, "fvec", "run-1", **{**SAID, field_name: "x" * 65_536})
    with pytest.raises(ValueError, match="a conclusion when it is completed, and only then"):
        repository.check_run(head, "fvec", "run-1", **{**SAID, "conclusion": None})
    assert fake.writes == []


def test_a_personal_token_makes_no_check_run(fake, passing, head: str) -> None:
    token = fake.user("somebody", "admin")
    repository = opened(fake, passing, token, "somebody")

    with pytest.raises(Forbidden, match="GitHub App") as caught:
        repository.check_run(head, "fvec", "run-1", **SAID)

    assert caught.value.hint is not None
    assert "checks: write" in caught.value.hint


# The dashboard


def test_there_is_one_dashboard(fake: FakeGitHub, repository: Repository) -> None:
    fake.open_issue("Dashboard", marked("spoofed", "dashboard"), login="outsider")

    number = repository.dashboard("Dashboard", "nothing yet")
    writes = len(fake.writes)
    assert repository.dashboard("Dashboard", "nothing yet") == number
    assert len(fake.writes) == writes
    assert repository.dashboard("Dashboard", "one run") == number

    ours = [issue for issue in fake.issues() if issue["number"] == number]
    assert [(i["title"], i["body"], i["state"]) for i in ours] == [
        ("Dashboard", marked("one run", "dashboard"), "open")
    ]
    assert fake.labels(number) == ["fvec"]
    assert len(fake.issues()) == 2


def test_a_closed_dashboard_is_not_opened_again(fake: FakeGitHub, repository: Repository) -> None:
    number = repository.dashboard("Dashboard", "nothing yet")
    fake.close_issue(number)

    assert repository.dashboard("Dashboard", "one run") == number

    assert [(i["state"], i["body"]) for i in fake.issues()] == [
        ("closed", marked("one run", "dashboard"))
    ]
