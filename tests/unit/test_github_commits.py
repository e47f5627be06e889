"""What a branch of the bot may hold, in real git objects; hostile ones are written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.github import commits
from bot.github.commits import Change, Stored, changes, check_branch
from layers.base import Edit
from layers.errors import InvalidInput
from layers.repository import git
from tests.github.git_store import BareRepository, Content, Gitlink, Link, Script

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
BOT = "fvec"  # its address is that of the bot
FILES: Mapping[str, Content] = {
    "models/ads/1/model.py": "slow = True\n",
    "models/ads/config.pbtxt": "name: 'ads'\n",
    "run.sh": Script("#!/bin/sh\n"),
    "data": Link("/srv/data"),
    "vendored": Gitlink("1" * 40),
}


class Store(BareRepository):
    """A repository with one commit of a person."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "main")
        self.base = self.commit_files(None, FILES, "The stack", "owner", NOW)
        self.update_ref("refs/heads/main", self.base)

    def made(
        self, files: Mapping[str, Content], parent: str | None = None, *, login: str = BOT
    ) -> str:
        """Commit files on top of a commit; return the commit."""
        return self.commit_files(parent or self.base, files, "Change a file\n", login, NOW)

    def grown(self, path: bytes, mode: str = "100644", sha: str = "") -> str:
        """Commit the base's files and one more entry, under a name that git would not write."""
        folder, _, name = path.rpartition(b"/")
        tree = self.raw_tree((name, mode, sha or self.write_blob(b"x\n")))
        for part in reversed([part for part in folder.split(b"/") if part]):
            tree = self.raw_tree((part, "40000", tree))
        lines = self.run("ls-tree", "-z", self.base) + self.run("ls-tree", "-z", tree)
        whole = self.run("mktree", "-z", "--missing", stdin=lines).decode().strip()
        return self.write_commit(whole, [self.base], "Add a file\n", BOT, NOW)

    def raw_commit(self, *lines: str, message: str = "Change\n") -> str:
        """Store a commit with the headers that are given."""
        content = "\n".join([*lines, "", message]).encode()
        options = ("-t", "commit", "--literally", "-w", "--stdin")
        return self.run("hash-object", *options, stdin=content).decode().strip()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "owner" / "serve.git")


def refused(store: Store, commit: str, words: str, base: str = "") -> InvalidInput:
    with pytest.raises(InvalidInput, match=words) as caught:
        check_branch(store.path, base or store.base, commit)
    return caught.value


def told(store: Store, message: str) -> str:
    """Commit the base's files again, with a message; return the commit."""
    tree = store.text("rev-parse", f"{store.base}^{{tree}}")
    return store.write_commit(tree, [store.base], f"Change\n\n{message}\n", BOT, NOW)


# What may be pushed


def test_plain_changes_of_plain_files_may_be_pushed(store) -> None:
    first = store.made(
        {
            "models/ads/1/model.py": "slow = False\n",
            "models/ads/1/été.py": "x = 1\n",
            "models/ads/1/with blank.py": "x = 1\n",
            "-rf": "no option\n",
            "run.sh": Script("#!/bin/sh\necho\n"),
            "models/ads/config.pbtxt": None,
        }
    )
    second = store.made({"models/ads/1/model.py": "slow = None\n"}, first)
    check_branch(store.path, store.base, first)
    check_branch(store.path, store.base, second)
    check_branch(store.path, first, second)


def test_the_commit_of_a_run_may_be_pushed(store, tmp_path) -> None:
    root = tmp_path / "checkout"
    git.git(store.path, "worktree", "add", "--quiet", "--detach", str(root), store.base)
    edit = Edit({"models/ads/1/model.py": b"fast = True\n"}, "Work less", "It is the same.")
    made, _ = git.commit_edit(root, edit)
    check_branch(root, store.base, made)


def test_a_folder_that_becomes_a_file_is_two_changes(store) -> None:
    blob = store.write_blob(b"x\n")
    made = store.made({"models/ads/1/model.py": None})
    lines = store.run("ls-tree", "-z", f"{made}:models/ads") + f"100644 blob {blob}\t1\0".encode()
    ads = store.run("mktree", "-z", stdin=lines).decode().strip()
    models = store.raw_tree((b"ads", "40000", ads))
    top = store.run("ls-tree", "-z", store.base).replace(
        store.text("rev-parse", f"{store.base}:models").encode(), models.encode()
    )
    tree = store.run("mktree", "-z", "--missing", stdin=top).decode().strip()
    commit = store.write_commit(tree, [store.base], "Replace a folder\n", BOT, NOW)
    old = store.text("rev-parse", f"{store.base}:models/ads/1/model.py")
    assert changes(store.path, store.base, commit) == [
        Change("models/ads/1", None, Stored("100644", blob)),
        Change("models/ads/1/model.py", Stored("100644", old), None),
    ]
    check_branch(store.path, store.base, commit)


# Modes


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"new": Link("/etc/passwd")}, "'new' is, or would become, a symbolic link"),
        ({"models/ads/1/model.py": Link("../../..")}, "model.py' is, or would become, a symbolic"),
        ({"data": "now a file\n"}, "'data' is, or would become, a symbolic link"),
        ({"data": None}, "'data' is, or would become, a symbolic link"),
        ({"lib": Gitlink("2" * 40)}, "'lib' is, or would become, a submodule"),
        ({"vendored": None}, "'vendored' is, or would become, a submodule"),
        ({"new.sh": Script("id\n")}, "'new.sh' goes from mode 100644 to 100755"),
        (
            {"models/ads/1/model.py": Script("slow = True\n")},
            "'models/ads/1/model.py' goes from mode 100644 to 100755",
        ),
        ({"run.sh": "#!/bin/sh\n"}, "'run.sh' goes from mode 100755 to 100644"),
    ],
)
def test_links_submodules_and_new_modes_are_refused(store, files, words) -> None:
    refused(store, store.made(files), words)


# Names


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        ".GitHub/workflows/ci.yml",
        "CODEOWNERS",
        "docs/codeowners",
        ".gitattributes",
        "extra/.gitattributes",
        ".gitmodules",
        ".lfsconfig",
        "extra/.LfsConfig",
        ".gitlab-ci.yml",
        "Jenkinsfile",
        ".circleci/config.yml",
        "azure-pipelines.yml",
        ".git/config",
        "extra/.GIT/hooks/post-checkout",
    ],
)
def test_what_is_gits_or_the_owners_is_refused(store, path) -> None:
    refused(store, store.grown(path.encode()), "is git's, or the repository's owners'")


@pytest.mark.parametrize(
    "path",
    [
        ".gitignored",
        "extra/.github/x",
        "git~1/config",
        "extra/GIT~1/config",
        "gi7eba~1",
        ".git ",
        ".git.",
        ".git::$INDEX_ALLOCATION/config",
        ".g\N{ZERO WIDTH NON-JOINER}it/config",
        ".git\N{ZERO WIDTH NON-JOINER}/config",
    ],
)
def test_what_another_file_system_takes_for_gits_is_refused(store, path) -> None:
    refused(store, store.grown(path.encode()), "may be taken for a file of git|not a plain path")


@pytest.mark.parametrize(
    "path",
    [
        b"extra/..",
        b"..",
        b".",
        b"extra/a\\b",
        b"extra/a\nb",
        b"extra/a\x1b[2J",
        b"extra/\xff\xfe",
        "extra/\N{RIGHT-TO-LEFT OVERRIDE}gpj.py".encode(),
        b"a" * 256,
        b"/".join([b"a" * 200] * 6),
    ],
)
def test_a_name_that_is_not_plain_is_refused(store, path) -> None:
    error = refused(store, store.grown(path), "is not a plain path|is too long a name")
    assert "\x1b" not in error.message
    assert "\n" not in error.message


# History


def test_what_an_earlier_commit_holds_counts_too(store) -> None:
    first = store.made({"new": Link("/etc/passwd")})
    second = store.write_commit(
        store.text("rev-parse", f"{store.base}^{{tree}}"), [first], "Take it back\n", BOT, NOW
    )
    assert refused(store, second, "symbolic link").message.startswith(f"commit {first[:12]}")


def test_a_merge_is_refused(store) -> None:
    one, other = store.made({"a": "1"}), store.made({"b": "1"})
    tree = store.text("rev-parse", f"{one}^{{tree}}")
    refused(store, store.write_commit(tree, [one, other], "Merge\n", BOT, NOW), "it is a merge")


def test_a_commit_of_somebody_else_is_refused(store) -> None:
    theirs = store.made({"a": "1"}, login="maintainer")
    refused(store, theirs, "it is not the bot's")
    refused(store, store.made({"b": "1"}, theirs), f"commit {theirs[:12]} may not be pushed")


def test_a_commit_in_the_name_of_somebody_else_is_refused(store) -> None:
    tree = store.text("rev-parse", f"{store.base}^{{tree}}")
    bot = f"{git.BOT_NAME} <{git.BOT_EMAIL}> 1767225600 +0000"
    person = "maintainer <maintainer@example.com> 1767225600 +0000"
    for author, committer in ((person, bot), (bot, person), (f"{bot} x", bot)):
        lines = (
            f"tree {tree}",
            f"parent {store.base}",
            f"author {author}",
            f"committer {committer}",
        )
        refused(store, store.raw_commit(*lines), "it is not the bot's")


def test_a_base_that_the_branch_is_not_built_on_is_refused(store) -> None:
    other = store.made({"c": "1"}, login="owner")
    refused(store, store.made({"a": "1"}), "it is not the bot's: on top of", base=other)


def test_a_branch_without_a_commit_or_a_beginning_is_refused(store) -> None:
    refused(store, store.base, "there is no commit on top of")
    refused(store, "1" * 40, "there is no such commit")
    alone = store.commit_files(None, {"a": "1"}, "Alone\n", BOT, NOW)
    refused(store, alone, "it has no parent")
    for name in ("main", store.base[:12], f"{store.base}^", "--all"):
        with pytest.raises(InvalidInput, match="not the full name of a commit"):
            check_branch(store.path, store.base, name)


def test_more_in_the_head_of_a_commit_is_refused(store) -> None:
    tree = store.text("rev-parse", f"{store.base}^{{tree}}")
    bot = f"{git.BOT_NAME} <{git.BOT_EMAIL}> 1767225600 +0000"
    lines = [f"tree {tree}", f"parent {store.base}", f"author {bot}", f"committer {bot}"]
    check_branch(store.path, store.base, store.raw_commit(*lines))
    for extra in ("gpgsig x\n y", "encoding latin-1", f"mergetag object {store.base}"):
        refused(store, store.raw_commit(*lines, extra), "more in its head")


@pytest.mark.parametrize(
    "message",
    [
        "Fixes #1",
        "It closes: owner/serve#12",
        "RESOLVED GH-3",
        "fix https://github.com/owner/serve/issues/4",
        "@org/team see it",
        "as in other/repo#5",
        "Read www.example.com",
        "Tune it [skip ci]",
        "Tune it [ci skip]",
        "Tune it ***NO_CI***",
        "skip-checks: true",
        "Co-authored-by: Somebody <somebody@example.com>",
    ],
)
def test_a_message_that_a_forge_acts_on_is_refused(store, message) -> None:
    refused(store, told(store, message), "holds what a forge acts on")


@pytest.mark.parametrize(
    "hidden",
    [
        "\N{RIGHT-TO-LEFT OVERRIDE}",
        "\N{ZERO WIDTH SPACE}",
        "\x1b[2J",
        "\t",
        "\r",
        "\N{HANGUL FILLER}",
    ],
)
def test_a_message_with_what_nobody_sees_is_refused(store, hidden) -> None:
    refused(store, told(store, f"It {hidden} is"), "characters that nobody sees")


def test_a_message_that_is_not_utf_8_is_refused(store) -> None:
    tree = store.text("rev-parse", f"{store.base}^{{tree}}")
    bot = f"{git.BOT_NAME} <{git.BOT_EMAIL}> 1767225600 +0000"
    head = f"tree {tree}\nparent {store.base}\nauthor {bot}\ncommitter {bot}\n\n"
    options = ("-t", "commit", "--literally", "-w", "--stdin")
    made = store.run("hash-object", *options, stdin=head.encode() + b"\xff\n").decode().strip()
    refused(store, made, "characters that nobody sees")


def test_a_message_with_a_secret_is_refused_without_saying_it(store) -> None:
    canary = "ghp" + "_" + "canary0" * 6
    error = refused(store, told(store, f"as {canary} said"), "holds what looks like a secret")
    assert canary not in str(error)


def test_a_message_that_speaks_of_fixing_is_none_that_closes(store) -> None:
    message = (
        "Fix the shape at 3 inputs\n\nThis closes the file: a[0] @ b. It resolves 12 % of it.\n"
    )
    made = store.commit_files(store.base, {"a": "1"}, message, BOT, NOW)
    check_branch(store.path, store.base, made)


def test_whatever_an_edit_says_its_commit_may_be_pushed(store, tmp_path) -> None:
    root = tmp_path / "checkout"
    git.git(store.path, "worktree", "add", "--quiet", "--detach", str(root), store.base)
    said = "Fixes #1 for @org, [skip ci]\tsee\u202e https://example.com\r\n\nskip-checks: true"
    made, _ = git.commit_edit(root, Edit({"models/ads/1/model.py": b"x = 1\n"}, said, said))
    check_branch(root, store.base, made)


def test_what_a_repository_puts_in_the_place_of_an_object_is_not_looked_at(store) -> None:
    hostile, harmless = store.made({"a": Link("/etc/passwd")}), store.made({"a": "1"})
    store.text("replace", hostile, harmless)
    refused(store, hostile, "symbolic link")


# Sizes


def test_too_many_files_are_refused(store) -> None:
    files = {f"many/{n}": "x" for n in range(commits.MOST_FILES)}
    check_branch(store.path, store.base, store.made(files))
    refused(store, store.made({**files, "one/more": "x"}), "more than 200 files")


def test_too_many_commits_are_refused(store) -> None:
    tip = store.base
    for _ in range(commits.MOST_COMMITS):
        tree = store.text("rev-parse", f"{tip}^{{tree}}")
        tip = store.write_commit(tree, [tip], "Again\n", BOT, NOW)
    check_branch(store.path, store.base, tip)
    tree = store.text("rev-parse", f"{tip}^{{tree}}")
    refused(store, store.write_commit(tree, [tip], "Again\n", BOT, NOW), "more than 64 commits")


def test_too_large_files_are_refused(store) -> None:
    most = b"\0" * commits.MOST_FILE_BYTES
    check_branch(store.path, store.base, store.made({"a": most}))
    refused(store, store.made({"a": most + b"\0"}), r"'a' has 8,388,609 bytes, more than 8,388,608")
    files = dict.fromkeys("abcd", most)
    check_branch(store.path, store.base, store.made(files))
    refused(store, store.made({**files, "e": b"\0"}), "its files have 33,554,433 bytes")


def test_a_message_that_is_too_long_is_refused(store) -> None:
    made = store.commit_files(store.base, {"a": "1"}, "x" * 70_000, BOT, NOW)
    refused(store, made, "more than 65,536 characters")


def test_a_tree_that_unfolds_without_end_is_refused_unread(store) -> None:
    inside = store.unfolding(12)
    made = store.grown(b"bomb", "40000", inside)
    refused(store, made, "more than 200 files or folders")


# Names of branches


@pytest.mark.parametrize(
    "name", ["fvec/onboard", "fvec/features/lookups-one-pass-ads", "fvec/A.b_c-2"]
)
def test_branches_of_the_bot(name) -> None:
    assert commits.check_own_branch(name) == name
