"""The grammar of a git diff, read strictly: files, hunks, modes, binary content. Pure.

`git apply` ignores what it does not know, so that a patch can show a reviewer more than it does.
Here every line belongs to a diff, or the patch is refused with the number of the line.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from layers.errors import InvalidInput, Location

MOST_BINARY_BYTES = 64 * 2**20  # of all files together, unpacked
_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_MODE = re.compile(rb"(?:old mode|new mode|deleted file mode|new file mode) (\d{6})$")
_INDEX = re.compile(rb"index [0-9a-f]{4,64}\.\.[0-9a-f]{4,64}(?: (\d{6}))?$")
_SIMILAR = re.compile(rb"(?:dis)?similarity index \d{1,3}%$")
_RENAME = re.compile(rb"rename (?:from|to) (.+)$")
_BINARY = re.compile(rb"(literal|delta) (\d{1,12})$")
_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13}
_ESCAPED = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PLAIN_MODES = frozenset({b"100644", b"100755"})
_NO_NEWLINE = b"\\"  # "\ No newline at end of file", in whatever language


@dataclass(frozen=True, slots=True)
class Hunk:
    """Where a hunk stands: its line of the patch, and the line of the old file it begins at."""

    line: int
    old_start: int


@dataclass
class Section:
    """What the patch says about one file."""

    line: int
    paths: set[str] = field(default_factory=set)  # old and new, without the a/ and b/
    hunks: list[Hunk] = field(default_factory=list)


def sections(data: bytes, source: Path) -> Iterator[Section]:
    """Yield the files of a diff; text before the first one, as a commit's message, is skipped.

    Raises InvalidInput with the line of `source` where the diff is malformed.
    """
    reader = _Reader(data.split(b"\n"), source)
    found = False
    while reader.skip_to_diff():
        yield reader.section()
        found = True
    if not found:
        raise InvalidInput(
            "there is no diff in the patch",
            at=Location(source),
            hint="`git diff > FILE` makes one; an empty file is a patch that changes nothing",
        )


class _Reader:
    """Reads lines one by one; `_at` is the index of the next one."""

    def __init__(self, lines: list[bytes], source: Path) -> None:
        self._lines = lines
        self._source = source
        self._at = 0
        self._unpacked = 0  # bytes of binary content so far

    def skip_to_diff(self) -> bool:
        """Go to the next header of a file; False at the end."""
        while self._at < len(self._lines) and not self._begins():
            self._at += 1
        return self._at < len(self._lines)

    def section(self) -> Section:
        """Read one file: header, then hunks or binary content."""
        section = Section(self._at + 1)
        if self._line().startswith(b"diff --git "):
            section.paths |= self._git_names(self._line()[11:])
            self._at += 1
            while self._extended(section):
                self._at += 1
        if self._line() == b"GIT binary patch":
            self._at += 1
            self._binary()
        elif self._line().startswith(b"--- "):
            self._names(section)
            self._hunks(section)
        self._check_end()
        if not section.paths:
            self._at = section.line - 1
            self._fail("the header names no file", "a rename needs its `rename from` and `to`")
        return section

    def _line(self, ahead: int = 0) -> bytes:
        index = self._at + ahead
        return self._lines[index] if index < len(self._lines) else b""

    def _begins(self) -> bool:
        """Whether the next line begins a file, in git's form or that of diff -u."""
        if self._line().startswith(b"diff --git "):
            return True
        plain = self._line().startswith(b"--- ") and self._line(1).startswith(b"+++ ")
        return plain and self._line(2).startswith(b"@@ ")

    def _extended(self, section: Section) -> bool:
        """Read one line of git's extended header; False where it is none."""
        line = self._line().removesuffix(b"\r")
        if line.startswith((b"copy from ", b"copy to ")):
            self._fail("copies are not read", "make the diff without --find-copies")
        if line.startswith((b"Binary files ", b"Files ")):
            self._fail(
                "the content of a binary file is not in the patch",
                "make it with `git diff --binary`",
            )
        if renamed := _RENAME.match(line):
            section.paths.add(self._name(renamed[1], prefixed=False))
            return True
        mode = _MODE.match(line) or _INDEX.match(line)
        if mode is not None:
            if mode[1] is not None and mode[1] not in _PLAIN_MODES:
                self._fail(
                    f"mode {mode[1].decode()} is that of a symbolic link, a submodule or nothing",
                    "a patch that is judged changes plain files only",
                )
            return True
        return _SIMILAR.match(line) is not None

    def _names(self, section: Section) -> None:
        """Read the lines `--- a/old` and `+++ b/new`."""
        for mark in (b"--- ", b"+++ "):
            line = self._line().removesuffix(b"\r")
            if not line.startswith(mark):
                self._fail("a `---` line without its `+++` line", "the patch may be cut short")
            name = line[4:].split(b"\t", 1)[0]
            if name != b"/dev/null":
                section.paths.add(self._name(name, prefixed=True))
            self._at += 1
        if not self._line().startswith(b"@@ "):
            self._fail("a file header without a hunk", "the patch may be cut short")

    def _hunks(self, section: Section) -> None:
        while self._line().startswith(b"@@ "):
            header = _HUNK.match(self._line())
            if header is None:
                self._fail("not a hunk header", "it reads `@@ -start,count +start,count @@`")
            section.hunks.append(Hunk(self._at + 1, int(header[1])))
            old, new = (1 if header[n] is None else int(header[n]) for n in (2, 4))
            self._at += 1
            self._hunk(old, new)

    def _hunk(self, old: int, new: int) -> None:
        """Read the lines of one hunk: `old` of the old file and `new` of the new one."""
        while old > 0 or new > 0:
            mark = self._line()[:1]
            last = self._at >= len(self._lines) - 1
            if mark not in (b" ", b"+", b"-", b"", _NO_NEWLINE) or (mark == b"" and last):
                self._fail("the hunk is shorter than its header says", "the patch may be cut short")
            old -= mark in (b" ", b"-", b"")
            new -= mark in (b" ", b"+", b"")
            self._at += 1
        if old < 0 or new < 0:
            self._at -= 1  # the line that is one too many
            self._fail("the hunk does not add up to what its header says", "make the diff anew")
        if self._line()[:1] == _NO_NEWLINE:
            self._at += 1

    def _binary(self) -> None:
        """Read binary content, forward and maybe reverse, and bound what it unpacks to."""
        count = 0
        while kind := _BINARY.match(self._line()):
            began, size = self._at, int(kind[2])
            packed = bytearray()
            self._at += 1
            while self._line():
                packed += self._unpacked_line(self._line())
                self._at += 1
            self._at += 1
            count += 1
            if kind[1] == b"delta":
                size = max(size, self._delta_result(bytes(packed)))
            self._unpacked += size
            if self._unpacked > MOST_BINARY_BYTES:
                self._at = began
                self._fail(
                    f"binary content of {self._unpacked:,} bytes; at most {MOST_BINARY_BYTES:,} "
                    "are unpacked",
                    "leave data files out of the patch",
                )
        if count == 0:
            self._fail("a binary patch without content", "the patch may be cut short")
        self._at -= 1  # the empty line that ends the content

    def _unpacked_line(self, line: bytes) -> bytes:
        """Decode one line of git's base 85: its first letter is the count of bytes."""
        letter = line[:1]
        length = ord(letter) - (ord("A") - 1 if letter.isupper() else ord("a") - 27)
        try:
            if not letter.isalpha():
                raise ValueError
            return base64.b85decode(line[1:])[:length]
        except ValueError:
            self._fail("not a line of a binary patch", "make it anew with `git diff --binary`")

    def _delta_result(self, packed: bytes) -> int:
        """Return the size of what a delta makes: the second number of its header."""
        try:
            head = zlib.decompressobj().decompress(packed, 32)
        except zlib.error:
            self._fail("a binary delta that does not unpack", "make it with `git diff --binary`")
        position = 0
        number = 0
        for _ in range(2):
            number = shift = 0
            while position < len(head):
                byte = head[position]
                position += 1
                number |= (byte & 0x7F) << shift
                shift += 7
                if not byte & 0x80:
                    break
        return number

    def _check_end(self) -> None:
        """After a file comes another one, nothing, or the end of a mail."""
        while self._at < len(self._lines) and not self._line().strip():
            self._at += 1
        ends = self._at >= len(self._lines) or self._begins()
        signature = self._line().rstrip() == b"--"  # that ends a mail; the next one may follow
        if not ends and not signature and not self._line().startswith(b"From "):
            self._fail(
                "a line that belongs to no hunk",
                "git would ignore it: hunk headers must count every line",
            )

    def _git_names(self, rest: bytes) -> set[str]:
        """Return the names of a `diff --git` line where they are one; else others tell them."""
        rest = rest.removesuffix(b"\r")
        quoted = _QUOTED.findall(rest)
        half = len(rest) // 2
        old, new = (quoted[0], quoted[1]) if len(quoted) == 2 else (rest[:half], rest[half + 1 :])
        if old == new:
            self._fail(
                "paths without the a/ and b/ prefixes",
                "make the diff with `git diff --src-prefix=a/ --dst-prefix=b/`",
            )
        found = {self._name(name, prefixed=True) for name in (old, new)} if b"/" in old else set()
        return found if len(found) == 1 else set()

    def _name(self, raw: bytes, *, prefixed: bool) -> str:
        """Return a path as text, its quoting and the a/ or b/ taken off."""
        if _QUOTED.fullmatch(raw):
            raw = _ESCAPED.sub(_unescaped, raw[1:-1])
        if prefixed:
            raw = raw.partition(b"/")[2]
        return raw.decode("utf-8", "surrogateescape")

    def _fail(self, message: str, hint: str) -> NoReturn:
        raise InvalidInput(message, at=Location(self._source, self._at + 1), hint=hint)


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code.isdigit() and len(code) == 3:
        return bytes([int(code, 8)])
    return bytes([_ESCAPES[code]]) if code in _ESCAPES else code
