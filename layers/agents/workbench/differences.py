"""What an edit changes, as a unified diff for people and agents to read. Pure.

git's own diff is for `git apply`; this one is for whoever must find what a change hides: nothing is
left out as binary that an interpreter would take for text. Its time is bounded, whatever the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, TypeAlias

CONTEXT = 3  # lines around a change
MOST_COMPARED = 1_000_000  # pairs of lines; beyond, all old lines go and all new ones come
_Step: TypeAlias = tuple[str, int, int, int, int]  # as difflib has it: what, from and to, twice
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # as Python decodes such a byte


def unified(path: str, old: bytes | None, new: bytes | None, shown: Callable[[str], str]) -> str:
    """Return the diff of one file; None is a file that is not there.

    `shown` is what may be seen of a text: it takes out what is secret, before lines are compared.
    """
    head = f"--- {_name('a', path, old)}\n+++ {_name('b', path, new)}\n"
    if _binary(old) or _binary(new):
        return f"{head}Binary: {_size(old)} before, {_size(new)} after\n"
    before, after = _lines(shown(_text(old))), _lines(shown(_text(new)))
    if before == after:
        differs = "an empty file" if not old and not new else "differs where nothing can be shown"
        return f"{head}({differs})\n"
    return head + "".join(
        line for steps in _groups(before, after) for line in _hunk(steps, before, after)
    )


def _name(side: str, path: str, content: bytes | None) -> str:
    return "/dev/null" if content is None else f"{side}/{path}"


def _binary(content: bytes | None) -> bool:
    return content is not None and b"\0" in content


def _size(content: bytes | None) -> str:
    return "no file" if content is None else f"{len(content):,} bytes"


def _text(content: bytes | None) -> str:
    """Return a file's text; a byte that is not UTF-8 is named in its place."""
    text = "" if content is None else content.decode("utf-8", "surrogateescape")
    return _NOT_UTF8.sub(lambda hit: f"<U+{ord(hit[0]):04X}>", text)


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; a line feed alone ends one, as in git."""
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, rest] if rest else lines


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterator[list[_Step]]:
    """Yield the steps of each hunk. What is alike at both ends is not compared again."""
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    old_end, new_end = len(old) - end, len(new) - end
    lead, trail = min(CONTEXT, start), min(CONTEXT, end)
    if (old_end - start) * (new_end - start) > MOST_COMPARED:
        yield [
            ("equal", start - lead, start, start - lead, start),
            ("replace", start, old_end, start, new_end),
            ("equal", old_end, old_end + trail, new_end, new_end + trail),
        ]
        return
    between = SequenceMatcher(None, old[start:old_end], new[start:new_end]).get_opcodes()
    # Around that, not within: a match of the lines that follow could end a hunk without any of them.
    steps = [
        ("equal", start - lead, start, start - lead, start),
        *((what, a + start, b + start, c + start, d + start) for what, a, b, c, d in between),
        ("equal", old_end, old_end + trail, new_end, new_end + trail),
    ]
    yield from _Steps(steps).get_grouped_opcodes(CONTEXT)


class _Steps(SequenceMatcher[str]):
    """Steps that are known, to be grouped as difflib groups its own."""

    def __init__(self, steps: Sequence[_Step]) -> None:
        super().__init__()
        self._steps = [step for step in steps if step[1] < step[2] or step[3] < step[4]]

    def get_opcodes(self) -> Any:  # noqa: ANN401  # as the base class has it
        return list(self._steps)


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines are alike from the start on."""
    count = 0
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        count += 1
    return count


def _hunk(steps: Sequence[_Step], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    first, last = steps[0], steps[-1]
    yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
    for what, old_start, old_end, new_start, new_end in steps:
        if what == "equal":
            yield from (_marked(" ", line) for line in old[old_start:old_end])
        else:
            yield from (_marked("-", line) for line in old[old_start:old_end])
            yield from (_marked("+", line) for line in new[new_start:new_end])


def _marked(mark: str, line: str) -> str:
    whole = f"{mark}{line}"
    return whole if line.endswith("\n") else f"{whole}\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> str:
    """Return a range of lines as hunk headers tell it; of none, the line before it."""
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start if count == 0 else start + 1},{count}"
