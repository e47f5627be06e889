"""Which diffs a commit holds, in real git objects."""

from pathlib import Path

import pytest

from bot.publishing.superseding import held
from layers.repository import git as ours
from tests.e2e.proposals import git

LINES = [f"line {n}\n" for n in range(20)]


class Checkout:
    """A repository with one file; every change of it is a commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        git(root, "init", "--quiet", "--initial-branch=main")
        self.base = self.commit(LINES)

    def commit(self, lines: list[str], at: str | None = None) -> str:
        if at is not None:
            git(self.root, "checkout", "--quiet", "--detach", at)
        (self.root / "model.py").write_text("".join(lines))
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", "Change")
        return git(self.root, "rev-parse", "HEAD").strip()

    def diff(self, old: str, new: str) -> bytes:
        return ours.patch_between(self.root, old, new).encode()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def changed(lines: list[str], at: int, text: str) -> list[str]:
    return [*lines[:at], text, *lines[at + 1 :]]


def test_a_change_is_held_where_all_of_it_is_there(checkout) -> None:
    first = checkout.commit(changed(LINES, 5, "fast\n"))
    diff = checkout.diff(checkout.base, first)
    both = checkout.commit(changed(changed(LINES, 5, "fast\n"), 15, "more\n"), checkout.base)
    other = checkout.commit(changed(LINES, 15, "more\n"), checkout.base)

    assert held(checkout.root, both, {1: diff}) == {1}
    assert held(checkout.root, other, {1: diff}) == set()
    assert held(checkout.root, checkout.base, {1: diff}) == set()


def test_half_of_a_change_is_not_held(checkout) -> None:
    both = checkout.commit(changed(changed(LINES, 2, "fast\n"), 15, "more\n"))
    half = checkout.commit(changed(LINES, 2, "fast\n"), checkout.base)
    assert held(checkout.root, half, {1: checkout.diff(checkout.base, both)}) == set()


def test_a_change_that_takes_lines_out_is_held_only_where_they_are_gone(checkout) -> None:
    shorter = checkout.commit([*LINES[:5], *LINES[7:]])
    diff = checkout.diff(checkout.base, shorter)
    assert held(checkout.root, checkout.base, {1: diff}) == set()
    assert held(checkout.root, shorter, {1: diff}) == {1}


def test_changes_that_stand_on_one_another_are_held_together(checkout) -> None:
    first = checkout.commit(changed(LINES, 5, "fast\n"))
    second = checkout.commit(changed(changed(LINES, 5, "fast\n"), 6, "faster\n"))
    both = checkout.commit(changed(changed(LINES, 5, "fast\n"), 6, "faster\n"), checkout.base)
    diffs = {4: checkout.diff(checkout.base, first), 7: checkout.diff(first, second)}

    assert held(checkout.root, both, diffs) == {4, 7}
    assert held(checkout.root, second, diffs) == {4, 7}


@pytest.mark.parametrize("diff", [b"", b"words\n", b"diff --git a/../x b/../x\n"])
def test_what_is_no_diff_is_not_held_and_nothing_of_the_checkout_moves(checkout, diff) -> None:
    before = (git(checkout.root, "status", "--porcelain"), git(checkout.root, "for-each-ref"))
    assert held(checkout.root, checkout.base, {1: diff}) == set()
    held(checkout.root, checkout.base, {})
    after = (git(checkout.root, "status", "--porcelain"), git(checkout.root, "for-each-ref"))
    assert after == before
