"""Whatever breaks at GitHub or on the way there, everything is there once."""

import contextlib
from collections.abc import Callable

import pytest

from bot.github.client import (
    Conflict,
    Forbidden,
    GitHubError,
    NotFound,
    RateLimited,
    Unavailable,
)
from bot.github.repository import Repository
from tests.github.fake_github import FakeGitHub
from tests.github_bot import BRANCH, KEY, SAID, log, marked, opened

pytest_plugins = ["tests.github.fixtures", "tests.github_bot_fixtures"]

# Whatever breaks, there is one of everything


def _one_pull(fake: FakeGitHub, repository: Repository) -> object:
    repository.create_pull(BRANCH, "main", "A title", "A body", draft=True)
    return [(p["title"], p["state"], p["draft"]) for p in fake.pulls() if p["number"] != 1]


def _one_edit(fake: FakeGitHub, repository: Repository) -> object:
    pull = repository.update_pull(1, title="Another", state="closed")
    return [(p["title"], p["state"]) for p in fake.pulls()], pull.title, pull.state


def _one_comment(fake: FakeGitHub, repository: Repository) -> object:
    comment = repository.sticky_comment(1, KEY, "accepted")
    return [(c["id"] == comment.id, c["body"]) for c in fake.comments(1)]


def _one_comment_edited(fake: FakeGitHub, repository: Repository) -> object:
    comment = repository.sticky_comment(1, "edited", "rejected")
    return [(c["id"] == comment.id, c["body"]) for c in fake.comments(1)]


def _one_check(fake: FakeGitHub, repository: Repository) -> object:
    sha = fake.sha(BRANCH) or ""
    run = repository.check_run(sha, "fvec", "run-1", **SAID)
    return [(r["id"] == run.id, r["conclusion"]) for r in fake.check_runs(sha)]


def _one_dashboard(fake: FakeGitHub, repository: Repository) -> object:
    number = repository.dashboard("Dashboard", "nothing yet")
    return [(i["number"] == number, i["title"]) for i in fake.issues()], fake.labels(number)


def _labels(fake: FakeGitHub, repository: Repository) -> object:
    repository.add_labels(1, ["fvec", "fvec:stale"])
    return fake.labels(1)


def _no_label(fake: FakeGitHub, repository: Repository) -> object:
    fake.world.issues[1].labels = ["fvec"]
    repository.remove_label(1, "fvec")
    return fake.labels(1)


def _one_reaction(fake: FakeGitHub, repository: Repository) -> object:
    comment = fake.comment(1, "/fvec help")
    repository.react(comment, "eyes")
    return fake.reactions(comment)


def _one_commit(fake: FakeGitHub, repository: Repository) -> object:
    made = repository.commit_files("fvec/evidence", {"a": b"a"}, "First")
    return log(fake, "fvec/evidence"), fake.sha("fvec/evidence") == made


def _one_more_commit(fake: FakeGitHub, repository: Repository) -> object:
    made = repository.commit_files(BRANCH, {"a": b"a"}, "More")
    return log(fake, BRANCH), fake.sha(BRANCH) == made


OPERATIONS: dict[str, tuple[Callable[[FakeGitHub, Repository], object], int, object]] = {
    "pull": (_one_pull, 1, [("A title", "open", True)]),
    "edit": (_one_edit, 1, ([("Another", "closed")], "Another", "closed")),
    "comment": (_one_comment, 1, [(False, marked("old", "edited")), (True, marked("accepted"))]),
    "comment edited": (_one_comment_edited, 1, [(True, marked("rejected", "edited"))]),
    "check": (_one_check, 1, [(True, "success")]),
    "dashboard": (_one_dashboard, 1, ([(True, "Dashboard")], ["fvec"])),
    "labels": (_labels, 1, ["fvec", "fvec:stale"]),
    "no label": (_no_label, 1, []),
    "reaction": (_one_reaction, 1, ["eyes"]),
    "commit": (_one_commit, 4, (["First"], True)),
    "one more commit": (
        _one_more_commit,
        4,
        (["More", "Change by hand", "The first commit"], True),
    ),
}
CASES = [(name, nth) for name, (_, writes, _) in OPERATIONS.items() for nth in range(1, writes + 1)]


@pytest.fixture
def scene(fake: FakeGitHub, repository: Repository, number: int, head: str) -> FakeGitHub:
    """A person's pull request with an older comment of ours, and a branch of ours."""
    fake.comment(number, marked("old", "edited"), login=fake.login)
    return fake


@pytest.mark.parametrize("name", OPERATIONS)
def test_undisturbed_it_is_there_once(scene, repository, name: str) -> None:
    operation, writes, expected = OPERATIONS[name]

    assert operation(scene, repository) == expected
    assert len(scene.writes) == writes
    assert operation(scene, repository) == expected


@pytest.mark.parametrize("kind", ["502 after", "cut after", "502", "cut", "500"])
@pytest.mark.parametrize(("name", "nth"), CASES)
def test_whatever_breaks_it_is_there_once(scene, repository, name, nth, kind) -> None:
    operation, _, expected = OPERATIONS[name]
    fault = scene.faults.add(kind, nth=nth)

    assert operation(scene, repository) == expected
    assert fault.hits == 1


@pytest.mark.parametrize("kind", ["502 after", "cut after"])
@pytest.mark.parametrize(("name", "nth"), CASES)
def test_done_again_after_it_broke_for_good_it_is_there_once(
    scene, repository, passing, name, nth, kind
) -> None:
    operation, _, expected = OPERATIONS[name]
    scene.faults.add(kind, nth=nth)
    scene.faults.after = lambda told: told.fault == kind and scene.faults.add("502", "GET", times=3)

    with contextlib.suppress(Unavailable):
        operation(scene, repository)
    scene.faults.clear()

    assert operation(scene, opened(scene, passing)) == expected


@pytest.mark.parametrize(("name", "nth"), CASES)
def test_a_secondary_limit_is_waited_for(scene, repository, passing, name, nth) -> None:
    operation, writes, expected = OPERATIONS[name]
    scene.faults.add("403 secondary", nth=nth, retry_after_s=9)

    assert operation(scene, repository) == expected
    assert passing.slept == [9.0]
    assert len(scene.writes) == writes + 1


@pytest.mark.parametrize(
    ("kind", "error", "slept"),
    [
        ("403 permission", Forbidden, []),
        ("403 primary", RateLimited, []),
        ("404", NotFound, []),
        ("409", Conflict, []),
        ("422", Conflict, []),
    ],
)
def test_a_refused_comment_is_an_error_of_its_own(
    scene, repository, passing, kind, error, slept
) -> None:
    scene.faults.add(kind)

    with pytest.raises(GitHubError) as caught:
        repository.sticky_comment(1, KEY, "accepted")

    assert type(caught.value) is error
    assert passing.slept == slept
    assert len(scene.writes) == 1
    assert len(scene.comments(1)) == 1


def test_too_many_requests_are_waited_for(scene, repository, passing) -> None:
    scene.faults.add("429", retry_after_s=3)
    scene.faults.add("429", "GET")

    repository.sticky_comment(1, KEY, "accepted")

    assert passing.slept == [60.0, 3.0]
    assert len(scene.comments(1)) == 2
