"""The diff that people and agents read: what it says is what happened, whatever the files."""

from pathlib import Path

import pytest

from layers.agents.workbench.differences import unified
from tests.agents_workspace import applied


def as_it_is(text: str) -> str:
    return text


def lines(count: int, word: str) -> str:
    return "".join(f"{word} {number}\n" for number in range(count))


def test_files_that_differ_all_over_are_told_whole(tmp_path: Path) -> None:
    old = f"first\n{lines(1100, 'old')}last\n"
    new = f"first\n{lines(1200, 'new')}last\n"

    diff = unified("file", old.encode(), new.encode(), as_it_is)

    assert diff.startswith(
        "--- a/file\n+++ b/file\n@@ -1,1102 +1,1202 @@\n first\n-old 0\n-old 1\n"
    )
    assert diff.endswith("+new 1199\n last\n")
    assert applied(tmp_path, old, diff) == new


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    old = lines(100, "line")
    new = old.replace("line 50\n", "")

    assert unified("file", old.encode(), new.encode(), as_it_is) == (
        "--- a/file\n+++ b/file\n@@ -48,7 +48,6 @@\n line 47\n line 48\n line 49\n-line 50\n"
        " line 51\n line 52\n line 53\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (None, b"", "--- /dev/null\n+++ b/file\n(an empty file)\n"),
        (b"", None, "--- a/file\n+++ /dev/null\n(an empty file)\n"),
        (b"a\x00", b"b", "--- a/file\n+++ b/file\nBinary: 2 bytes before, 1 bytes after\n"),
        (None, b"\x00", "--- /dev/null\n+++ b/file\nBinary: no file before, 1 bytes after\n"),
        (b"\xe9\n", b"\xe8\n", "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-<U+DCE9>\n+<U+DCE8>\n"),
    ],
)
def test_what_has_no_lines_to_show_is_named(
    old: bytes | None, new: bytes | None, told: str
) -> None:
    assert unified("file", old, new, as_it_is) == told


def test_what_may_not_be_seen_is_not_compared() -> None:
    def shown(text: str) -> str:
        return text.replace("one", "?").replace("two", "?")

    assert unified("file", b"a\none\n", b"b\ntwo\n", shown) == (
        "--- a/file\n+++ b/file\n@@ -1,2 +1,2 @@\n-a\n+b\n ?\n"
    )
    assert "(differs where nothing can be shown)" in unified("file", b"one\n", b"two\n", shown)


def test_a_line_feed_alone_ends_a_line() -> None:
    old, new = "a\x0cb\u2028c\rd\n".encode(), b"x\n"

    assert "@@ -1 +1 @@\n" in unified("file", old, new, as_it_is)
