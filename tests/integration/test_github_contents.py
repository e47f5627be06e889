"""What a repository holds, read and committed through the API, on a GitHub on loopback."""

import pytest

from bot.github.client import Conflict
from bot.github.contents import ABSENT
from bot.github.replies import TreeEntry
from bot.github.repository import Repository
from layers.errors import InvalidInput
from tests.github.fake_github import FakeGitHub
from tests.github_bot import log

pytest_plugins = ["tests.github.fixtures", "tests.github_bot_fixtures"]

# Reading


def test_branches_and_files_are_read(fake: FakeGitHub, repository: Repository) -> None:
    sha = fake.seed({".github/fvec.yml": "slo: 1\n", "bin": bytes(range(256)), "empty": b""})

    assert repository.default_branch() == "main"
    assert repository.branch_sha("main") == sha
    assert repository.branch_sha("none") is None
    assert repository.file(".github/fvec.yml", "main") == b"slo: 1\n"
    assert repository.file("bin", sha) == bytes(range(256))
    assert repository.file("empty", "main") == b""
    assert repository.file("none", "main") is None
    assert repository.file("README.md", "no-branch") is None


def test_what_is_no_small_plain_file_is_refused(fake: FakeGitHub, repository: Repository) -> None:
    fake.seed({"folder/a": "a", "large": "x" * (2**20 + 1)})

    with pytest.raises(InvalidInput, match="folder in owner/serve is no plain file"):
        repository.file("folder", "main")
    with pytest.raises(InvalidInput, match="large has 1,048,577 bytes; at most 1,048,576"):
        repository.file("large", "main")
    assert repository.file("large", "main", limit_bytes=2**21) == b"x" * (2**20 + 1)


def test_a_tree_is_read(fake: FakeGitHub, repository: Repository) -> None:
    sha = fake.seed({"folder/a": "a"})
    blob = fake.git("rev-parse", f"{sha}:folder/a").strip()

    tree = repository.read_tree("main") or {}

    assert set(tree) == {"README.md", "folder/a"}
    assert tree["folder/a"] == TreeEntry("folder/a", "100644", blob, 1)


@pytest.mark.parametrize(
    "name", ["", "-x", "a..b", "a b", "a//b", "a/", "refs heads", "a?b", "a[b"]
)
def test_a_branch_that_is_no_name_is_not_asked_for(fake, repository, name: str) -> None:
    with pytest.raises(InvalidInput):
        repository.branch_sha(name)
    with pytest.raises(InvalidInput):
        repository.file("README.md", name)
    assert fake.requests == []


def test_a_path_does_not_leave_the_repository(fake: FakeGitHub, repository: Repository) -> None:
    with pytest.raises(InvalidInput):
        repository.file("../../../other/repo/contents/secret", "main")
    assert fake.requests == []


def test_a_tree_that_github_cuts_off_is_none(fake: FakeGitHub, repository: Repository) -> None:
    fake.commit({f"{n}.txt": "" for n in range(3)})
    fake.world.most_listed = 3
    assert repository.read_tree("main") is None


# Commits through the API


def test_files_are_committed_on_a_branch_of_its_own(fake, repository) -> None:
    first = repository.commit_files("fvec/evidence", {"a/b.json": b"{}", "c": b"\0\xff"}, "First")
    second = repository.commit_files("fvec/evidence", {"d": b"d"}, "Second")

    assert fake.sha("fvec/evidence") == second
    assert log(fake, "fvec/evidence") == ["Second", "First"]
    assert fake.git("ls-tree", "-r", "--name-only", second).split() == ["a/b.json", "c", "d"]
    assert repository.file("c", "fvec/evidence") == b"\0\xff"
    assert fake.git("rev-parse", f"{second}^").strip() == first


def test_the_same_files_make_no_commit(fake: FakeGitHub, repository: Repository) -> None:
    first = repository.commit_files("fvec/evidence", {"a": b"a"}, "First")

    assert repository.commit_files("fvec/evidence", {"a": b"a"}, "Again") == first
    assert log(fake, "fvec/evidence") == ["First"]


def test_a_new_branch_starts_where_it_is_told(fake: FakeGitHub, repository: Repository) -> None:
    main = fake.sha("main")

    made = repository.commit_files("fvec/onboard", {"a": b"a"}, "Add", parent_of_new=main)

    assert fake.git("rev-parse", f"{made}^").strip() == main
    assert fake.git("ls-tree", "--name-only", made).split() == ["README.md", "a"]


def test_whoever_comes_first_stays(fake: FakeGitHub, repository: Repository) -> None:
    repository.commit_files("fvec/evidence", {"a": b"a"}, "First")
    others = iter(["x", "y"])

    def interfere(exchange) -> None:
        if exchange.path.endswith("/git/commits") and (name := next(others, None)):
            fake.commit({name: name}, branch="fvec/evidence", message=f"Person's {name}")

    fake.faults.after = interfere
    made = repository.commit_files("fvec/evidence", {"b": b"b"}, "Second")

    assert fake.sha("fvec/evidence") == made
    assert log(fake, "fvec/evidence") == ["Second", "Person's y", "Person's x", "First"]
    assert fake.git("ls-tree", "--name-only", made).split() == ["a", "b", "x", "y"]


def test_a_new_branch_that_somebody_made_first_is_built_on(fake, repository) -> None:
    others = iter(["x"])

    def interfere(exchange) -> None:
        if exchange.path.endswith("/git/commits") and (name := next(others, None)):
            fake.commit({name: name}, branch="fvec/evidence", message="Person's")

    fake.faults.after = interfere
    repository.commit_files("fvec/evidence", {"b": b"b"}, "Ours")

    assert log(fake, "fvec/evidence")[:2] == ["Ours", "Person's"]


def test_a_commit_on_an_expected_head_is_made_there_or_not_at_all(fake, repository) -> None:
    with pytest.raises(Conflict, match="has moved meanwhile"):
        repository.commit_files("fvec/evidence", {"a": b"a"}, "No", expected_head="1" * 40)
    first = repository.commit_files("fvec/evidence", {"a": b"a"}, "First", expected_head=ABSENT)
    second = repository.commit_files("fvec/evidence", {"a": b"b"}, "Second", expected_head=first)
    for stale in (ABSENT, first):
        with pytest.raises(Conflict, match="has moved meanwhile"):
            repository.commit_files("fvec/evidence", {"a": b"c"}, "No", expected_head=stale)
    assert log(fake, "fvec/evidence") == ["Second", "First"]
    assert fake.sha("fvec/evidence") == second


def test_somebody_who_comes_in_between_is_not_built_on_where_a_head_is_expected(
    fake, repository
) -> None:
    first = repository.commit_files("fvec/evidence", {"a": b"a"}, "First")
    others = iter(["x"])

    def interfere(exchange) -> None:
        if exchange.path.endswith("/git/commits") and (name := next(others, None)):
            fake.commit({name: name}, branch="fvec/evidence", message="Person's")

    fake.faults.after = interfere
    with pytest.raises(Conflict, match="has moved meanwhile"):
        repository.commit_files("fvec/evidence", {"a": b"b"}, "Ours", expected_head=first)
    assert log(fake, "fvec/evidence") == ["Person's", "First"]


def test_a_race_that_is_always_lost_ends(fake: FakeGitHub, repository: Repository) -> None:
    repository.commit_files("fvec/evidence", {"a": b"a"}, "First")
    count = iter(range(100))

    def interfere(exchange) -> None:
        if exchange.path.endswith("/git/commits"):
            fake.commit({"x": str(next(count))}, branch="fvec/evidence", message="Person's")

    fake.faults.after = interfere
    with pytest.raises(Conflict, match="not a fast forward"):
        repository.commit_files("fvec/evidence", {"b": b"b"}, "Second")

    assert "Second" not in log(fake, "fvec/evidence")


def test_a_rule_that_forbids_the_branch_is_told_at_once(fake, repository) -> None:
    repository.commit_files("fvec/evidence", {"a": b"a"}, "First")
    fake.protect("fvec/evidence")

    with pytest.raises(Conflict, match="protected"):
        repository.commit_files("fvec/evidence", {"b": b"b"}, "Second")

    assert [w.method for w in fake.writes].count("PATCH") == 1


@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "../a", "a/../b", ".git/config", "a/.GIT/x", "a\nb", "x" * 1001]
)
def test_a_path_that_is_none_is_not_committed(fake, repository, path: str) -> None:
    with pytest.raises(InvalidInput, match="not a path for a file"):
        repository.commit_files("fvec/evidence", {path: b"a"}, "First")
    assert fake.requests == []


def test_a_commit_has_a_size(fake: FakeGitHub, repository: Repository) -> None:
    for files in ({}, {f"f{n}": b"" for n in range(201)}, {"a": b"x" * (32 * 2**20 + 1)}):
        with pytest.raises(InvalidInput, match="no commit of the bot: at most 200 with 33,554,432"):
            repository.commit_files("fvec/evidence", files, "First")
    assert fake.requests == []
