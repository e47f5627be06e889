"""Branches that another machine made, taken out of a git bundle."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bot.github.commits import MOST_BUNDLE_BYTES, fetch_bundle
from layers.errors import InvalidInput, ToolFailed
from layers.repository import git
from tests.github_remote import commit, plain_git

BRANCH, OTHER, KNOWLEDGE = "fvec/features/a-ads", "fvec/server/b-ads", "fvec/knowledge"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The checkout that publishes."""
    root = tmp_path / "publishing"
    root.mkdir()
    plain_git(root, "init", "--quiet", "--initial-branch=main")
    (root / "model.py").write_text("slow = True\n")
    plain_git(root, "add", "--all")
    plain_git(root, "commit", "--quiet", "--message", "The stack")
    return root


@pytest.fixture
def runner(root: Path, tmp_path: Path) -> Path:
    """The checkout that measured, with two branches of the bot."""
    runner = tmp_path / "measuring"
    plain_git(tmp_path, "clone", "--quiet", str(root), str(runner))
    for name in (BRANCH, OTHER):
        git.set_branch(runner, name, commit(runner, {"model.py": f"slow = '{name}'\n"}))
    return runner


def bundled(runner: Path, *wanted: str, name: str = "branches.bundle") -> Path:
    file = runner.with_name(name)
    plain_git(runner, "bundle", "create", "--quiet", str(file), *wanted)
    return file


def test_branches_come_out_of_a_bundle_under_their_names(root, runner) -> None:
    bundle = bundled(runner, "--branches=fvec/*", "--not", "main")
    fetch_bundle(root, bundle, [BRANCH, OTHER])
    assert git.tip(root, BRANCH) == git.tip(runner, BRANCH)
    assert git.tip(root, OTHER) == git.tip(runner, OTHER)
    assert plain_git(root, "for-each-ref", "--format=%(refname)").split() == [
        f"refs/heads/{BRANCH}",
        f"refs/heads/{OTHER}",
        "refs/heads/main",
    ]
    fetch_bundle(root, bundle, [BRANCH])  # once more changes nothing
    assert git.tip(root, BRANCH) == git.tip(runner, BRANCH)


def test_what_is_not_asked_for_stays_in_it(root, runner) -> None:
    fetch_bundle(root, bundled(runner, "--branches=fvec/*", "--not", "main"), [OTHER])
    assert git.tip(root, BRANCH) is None


def test_the_branch_of_knowledge_may_be_absent(root, runner) -> None:
    bundle = bundled(runner, BRANCH, "--not", "main")
    fetch_bundle(root, bundle, [BRANCH, KNOWLEDGE])
    fetch_bundle(root, bundle, [KNOWLEDGE])
    assert git.tip(root, KNOWLEDGE) is None
    with pytest.raises(InvalidInput, match=f"the branch {OTHER} is not in it"):
        fetch_bundle(root, bundle, [OTHER])


def test_the_bots_own_branch_is_replaced_and_a_persons_is_not(root, runner) -> None:
    bundle = bundled(runner, "--branches=fvec/*", "--not", "main")
    git.set_branch(root, BRANCH, commit(root, {"model.py": "older = True\n"}))
    plain_git(root, "checkout", "--quiet", "-b", OTHER)
    (root / "model.py").write_text("mine = True\n")
    plain_git(root, "commit", "--quiet", "--all", "--message", "Mine")
    mine = git.tip(root, OTHER)

    fetch_bundle(root, bundle, [BRANCH])
    with pytest.raises(InvalidInput, match="its last commit is not the bot's"):
        fetch_bundle(root, bundle, [OTHER])
    assert git.tip(root, BRANCH) == git.tip(runner, BRANCH)
    assert git.tip(root, OTHER) == mine


def test_a_branch_that_goes_on_from_a_persons_commit_moves_forward(root, runner) -> None:
    plain_git(runner, "checkout", "--quiet", BRANCH)
    (runner / "note.md").write_text("Mine\n")
    plain_git(runner, "add", "--all")
    plain_git(runner, "commit", "--quiet", "--message", "Mine")
    fetch_bundle(root, bundled(runner, BRANCH, "--not", "main"), [BRANCH])
    later = commit(runner, {"model.py": "slow = None\n"}, BRANCH)
    plain_git(runner, "checkout", "--quiet", "main")
    plain_git(runner, "update-ref", f"refs/heads/{BRANCH}", later)
    fetch_bundle(root, bundled(runner, BRANCH, "--not", "main", name="later.bundle"), [BRANCH])
    assert git.tip(root, BRANCH) == later


def test_no_branch_moves_under_a_persons_checkout(root, runner) -> None:
    git.set_branch(root, BRANCH, git.resolve(root, "main"))
    plain_git(root, "checkout", "--quiet", BRANCH)
    with pytest.raises(InvalidInput, match=f"the branch {BRANCH} is checked out in "):
        fetch_bundle(root, bundled(runner, BRANCH, "--not", "main"), [BRANCH])
    assert git.tip(root, BRANCH) == git.tip(root, "main")


@pytest.mark.parametrize("name", ["main", "feature/x", "fvec/.a"])
def test_only_branches_of_the_bot_are_asked_for(root, runner, name) -> None:
    with pytest.raises(InvalidInput, match="no branch of the bot"):
        fetch_bundle(root, bundled(runner, BRANCH, "--not", "main"), [name])
    with pytest.raises(InvalidInput, match="no branch is asked for"):
        fetch_bundle(root, bundled(runner, BRANCH, "--not", "main"), [])


def test_a_bundle_with_another_branch_in_it_is_refused(root, runner) -> None:
    git.git(runner, "update-ref", "refs/heads/main", commit(runner, {"model.py": "x = 1\n"}))
    with pytest.raises(InvalidInput, match="'refs/heads/main' is no branch of the bot"):
        fetch_bundle(root, bundled(runner, "main", BRANCH, "--not", "main^"), [BRANCH])
    with pytest.raises(InvalidInput, match="'HEAD' is no branch of the bot"):
        fetch_bundle(root, bundled(runner, "HEAD", BRANCH, "--not", "main^"), [BRANCH])
    assert git.tip(root, BRANCH) is None


def test_a_bundle_that_needs_more_than_there_is_is_refused(root, runner) -> None:
    later = commit(runner, {"model.py": "x = 1\n"}, BRANCH)
    git.set_branch(runner, OTHER, later)
    with pytest.raises(InvalidInput, match="lacks these prerequisite commits"):
        fetch_bundle(root, bundled(runner, OTHER, "--not", BRANCH), [OTHER])


def test_what_is_no_bundle_is_refused(root, runner, tmp_path) -> None:
    good = bundled(runner, BRANCH, "--not", "main")
    cut = tmp_path / "cut.bundle"
    cut.write_bytes(good.read_bytes()[:-40])
    for content in (b"", b"# v2 git bundle\n", b"PK\x03\x04", b"# v2 git bundle\n\nPACK"):
        odd = tmp_path / "odd.bundle"
        odd.write_bytes(content)
        with pytest.raises(InvalidInput) as caught:
            fetch_bundle(root, odd, [BRANCH])
        assert str(odd) in caught.value.message
    with pytest.raises(InvalidInput, match="not a bundle that can be read here"):
        fetch_bundle(root, cut, [BRANCH])
    assert git.tip(root, BRANCH) is None


def test_what_is_no_plain_file_of_bounded_size_is_refused(root, runner, tmp_path) -> None:
    link, large, pipe = tmp_path / "link", tmp_path / "large", tmp_path / "pipe"
    link.symlink_to(bundled(runner, BRANCH, "--not", "main"))
    large.touch()
    os.truncate(large, MOST_BUNDLE_BYTES + 1)
    os.mkfifo(pipe)
    for path, words in (
        (link, "cannot be read: Too many levels of symbolic links"),
        (tmp_path, "not a plain file|Is a directory"),
        (pipe, "not a plain file"),
        (large, "more than 67,108,864 bytes"),
        (tmp_path / "absent", "cannot be read: No such file"),
    ):
        with pytest.raises(InvalidInput, match=words):
            fetch_bundle(root, path, [BRANCH])


def test_a_malformed_object_in_a_bundle_never_reaches_the_checkout(root, runner) -> None:
    blob = git.git(runner, "rev-parse", "HEAD:model.py").strip()
    raw = runner.with_name("raw-tree")
    raw.write_bytes(b"100644 .git\0" + bytes.fromhex(blob))
    options = ("-t", "tree", "--literally", "-w")
    tree = plain_git(runner, "hash-object", *options, str(raw))
    odd = git.git(runner, "commit-tree", tree, "-p", "main", "-m", "Odd").strip()
    git.set_branch(runner, BRANCH, odd)
    with pytest.raises(InvalidInput, match="hasDotgit"):
        fetch_bundle(root, bundled(runner, BRANCH, "--not", "main"), [BRANCH])
    with pytest.raises(ToolFailed):
        git.resolve(root, odd)
    assert git.tip(root, BRANCH) is None
