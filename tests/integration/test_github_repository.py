"""Pull requests, labels, reactions and permissions, on a GitHub on loopback."""

import pytest

from bot.github.client import Conflict
from bot.github.replies import Pull
from bot.github.repository import Repository
from layers.errors import InvalidInput
from tests.github.fake_github import FakeGitHub
from tests.github_bot import BRANCH

pytest_plugins = ["tests.github.fixtures", "tests.github_bot_fixtures"]

# Pull requests


def test_a_pull_request_is_opened(fake: FakeGitHub, repository: Repository, head: str) -> None:
    pull = repository.create_pull(BRANCH, "main", "A title", "A body", draft=True)

    assert pull == Pull(
        number=1,
        url=pull.url,
        state="open",
        merged=False,
        draft=True,
        branch=BRANCH,
        head_sha=head,
        head_repository="owner/serve",
        base="main",
        base_sha=fake.sha("main") or "",
        title="A title",
        body="A body",
        author="fvec[bot]",
        labels=(),
    )
    assert repository.pull(1) == pull
    assert repository.pulls_of(BRANCH) == [pull]
    assert repository.open_pulls() == [pull]


def test_a_pull_request_that_is_open_is_found(fake, repository, head) -> None:
    first = repository.create_pull(BRANCH, "main", "A title", "A body", draft=True)
    writes = len(fake.writes)

    assert repository.create_pull(BRANCH, "main", "Another", "Other", draft=False) == first
    assert len(fake.writes) == writes


def test_a_closed_pull_request_is_not_the_open_one(fake, repository, head) -> None:
    first = repository.create_pull(BRANCH, "main", "A title", "A body", draft=True)
    fake.close(first.number)

    second = repository.create_pull(BRANCH, "main", "A title", "A body", draft=True)

    assert [(p.number, p.state) for p in repository.pulls_of(BRANCH)] == [
        (second.number, "open"),
        (first.number, "closed"),
    ]


def test_a_fork_with_our_branch_name_is_not_ours(fake: FakeGitHub, repository: Repository) -> None:
    fake.open_pull(BRANCH, login="outsider", fork="outsider/serve", files={"a": "b"})

    assert repository.pulls_of(BRANCH) == []
    assert repository.open_pulls() == []


def test_a_merged_pull_request_says_so(fake: FakeGitHub, repository: Repository, head) -> None:
    pull = repository.create_pull(BRANCH, "main", "A title", "A body", draft=False)
    fake.merge(pull.number)

    (merged,) = repository.pulls_of(BRANCH)

    assert (merged.state, merged.merged) == ("closed", True)
    assert repository.open_pulls() == []


def test_a_pull_request_is_changed_where_it_differs(fake, repository, head) -> None:
    fake.commit({"b": "b"}, branch="release")
    pull = repository.create_pull(BRANCH, "main", "A title", "A body", draft=True)
    writes = len(fake.writes)

    assert (
        repository.update_pull(pull.number, title="A title", body="A body\n", base="main") == pull
    )
    assert len(fake.writes) == writes

    changed = repository.update_pull(pull.number, title="Another", body="A body", base="release")

    assert (changed.title, changed.base) == ("Another", "release")
    assert fake.writes[-1].body == {"title": "Another", "base": "release"}
    assert repository.update_pull(pull.number, state="closed").state == "closed"


def test_a_branch_without_a_change_is_a_conflict(fake: FakeGitHub, repository: Repository) -> None:
    fake.git("branch", BRANCH, "main")

    with pytest.raises(Conflict, match=f"No commits between main and {BRANCH}"):
        repository.create_pull(BRANCH, "main", "A title", "A body", draft=True)


def test_a_title_is_one_line(fake: FakeGitHub, repository: Repository, head: str) -> None:
    for title in ("", "  ", "two\nlines", "x" * 257):
        with pytest.raises(InvalidInput):
            repository.create_pull(BRANCH, "main", title, "A body", draft=True)
    assert fake.writes == []


# Labels, reactions, permissions


def test_labels_are_put_on_and_taken_off(fake, repository, number: int) -> None:
    repository.add_labels(number, ["fvec", "fvec:stale"])
    repository.add_labels(number, ["fvec"])
    repository.add_labels(number, [])
    assert fake.labels(number) == ["fvec", "fvec:stale"]
    assert repository.pull(number).labels == ("fvec", "fvec:stale")

    repository.remove_label(number, "fvec:stale")
    repository.remove_label(number, "fvec:stale")
    assert fake.labels(number) == ["fvec"]


def test_a_reaction_is_there_once(fake: FakeGitHub, repository: Repository, number: int) -> None:
    comment = fake.comment(number, "/fvec rerun")

    repository.react(comment, "eyes")
    repository.react(comment, "eyes")
    repository.react(comment, "rocket")

    assert fake.reactions(comment) == ["eyes", "rocket"]


@pytest.mark.parametrize("permission", ["admin", "maintain", "write", "triage", "read", "none"])
def test_a_permission_is_the_role(fake, repository, permission: str) -> None:
    fake.user("somebody", permission)

    assert repository.permission("somebody") == permission


def test_a_stranger_has_no_permission(fake: FakeGitHub, repository: Repository) -> None:
    assert repository.permission("stranger-9") == "none"


@pytest.mark.parametrize("login", ["", "a/b", "../x", "a b", "a\n", "-a", "a?x"])
def test_what_is_no_login_is_not_asked_for(fake, repository, login: str) -> None:
    with pytest.raises(InvalidInput, match="not a login"):
        repository.permission(login)
    assert fake.requests == []
