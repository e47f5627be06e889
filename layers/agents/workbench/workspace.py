"""A copy of the repository for one author of a candidate, and the edit that it becomes.

An agent's tools work in it by name, a program on the disk. Whatever either does there, nothing
outside is read or written (`layers.agents.workbench.below`), and what comes out is contents of files by path:
no links, no modes, nothing that git would not take. What a tool may not write it is told at once; a
program is told by `edit`, and by the gate of paths, which has the last word for both.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from layers.agents.workbench.below import (
    MOST_DEEP,
    Content,
    Entry,
    Folder,
    Kind,
    NotPlain,
    TooLarge,
    TooMany,
)
from layers.agents.workbench.configuration import (
    MOST_BYTES,
    configures_agents,
    may_ask,
)
from layers.agents.workbench.differences import unified
from layers.agents.workbench.named import listed
from layers.errors import ToolFailed
from layers.gates.paths import guarded
from layers.redact import redact
from layers.repository import git

MOST_FILES = 200  # of an edit
MOST_EDIT_BYTES = 2 << 20
MOST_TEXT_BYTES = 1 << 20  # of one file that is read or written as text
MOST_NEW = 20_000  # entries beside those of the repository: a look at them all is bounded
MOST_HITS = 200
MOST_LINE = 300  # characters of a line that was found
MOST_SEARCHED = 64 << 20  # bytes that one search looks at
MOST_SEARCH_S = 20.0  # that it takes: to take out what is secret is slow
_MOST_SHOWN = 200  # characters of a path
_MOST_ASKED = 100  # paths in one question to git: its command line is bounded
_MOST_CONFIGURING = 200  # files that are looked into
_BYTECODE = "__pycache__"  # what running a program leaves; no edit is made of it
_OF_GIT = (".git", "git~1")  # the second is the first where names are cut to eight letters
_SOURCE_MODE, _PROGRAM_MODE = 0o644, 0o755

Hit: TypeAlias = tuple[str, int, str]  # path, number of the line, the line around what was found


class WorkspaceRefused(Exception):
    """What was asked of a workspace, or was done in it, cannot be; the text tells its author."""


class OutOfBounds(WorkspaceRefused):
    """It was to reach what no author of a candidate may: beyond the workspace, or its judges."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found, and what it did not look at."""

    hits: list[Hit]
    too_long: int = 0  # files of more than MOST_TEXT_BYTES, which it passed over
    unread: int = 0  # files that were left when it had found, read or worked enough


class Workspace:
    """The tracked plain files of a worktree, copied; see `make`. Paths are relative to the root.

    All methods but `make`, `reset` and `close` raise WorkspaceRefused. A program works in `root`.
    """

    def __init__(
        self, base: Path, home: Path, protected: Sequence[str], hidden: Sequence[str]
    ) -> None:
        """Take two folders as they are; `make` is what fills one from the other."""
        self._origin = base
        self._home = home
        self._protected = protected
        self._hidden = hidden
        self.root = home / "tree"
        spare = home / "new"
        self._base = Folder(base)
        self.root.mkdir()
        spare.mkdir()
        self._tree = Folder(self.root, spare)
        self._originals: dict[str, Content] = {}
        self._programs: set[str] = set()  # of the originals, those that may be run
        self._folders: set[str] = set()
        self._left_out: set[str] = set()  # what git tracks and a workspace does not hold
        self._configuring: list[str] = []  # what git tracks and configures coding agents
        self._closed = False

    @classmethod
    def make(
        cls, root: Path, under: Path, protected: Sequence[str], hidden: Sequence[str] = ()
    ) -> Workspace:
        """Copy the tracked plain files of the worktree `root` to a new folder in `under`.

        Links, submodules, bytecode and what configures coding agents are left out, and stay as they
        are in the edit. `protected` are files, folders and globs that judge a candidate; of the
        files and folders `hidden` nothing is shown. The worktree must stay until the workspace is
        closed. Raises ToolFailed where it cannot be made.
        """
        try:
            under.mkdir(parents=True, exist_ok=True)
            home = Path(tempfile.mkdtemp(prefix="workspace-", dir=under.resolve()))
            workspace = cls(root.resolve(), home, tuple(protected), tuple(hidden))
            try:
                workspace._fill()
            except BaseException:
                workspace.close()
                raise
        except OSError as error:
            raise ToolFailed(f"no workspace can be made in {under}: {error.strerror}") from error
        return workspace

    def close(self) -> None:
        """Remove the workspace with all that was left in it; a second time does nothing.

        What cannot be removed stays for whoever clears the folder that it was made in.
        """
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):
            self._tree.empty()
            self.root.rmdir()
            (self._home / "new").rmdir()
            self._home.rmdir()
        self._tree.close()
        self._base.close()

    def reset(self) -> None:
        """Make the workspace what it was at first. Raises ToolFailed where that is not possible."""
        try:
            self._tree.empty()
            for name, content in self._originals.items():
                if self._copied(name) != content:
                    raise self._moved(name)
        except (OSError, NotPlain) as error:
            raise ToolFailed(f"the workspace {self.root} cannot be reset: {error}") from error

    @contextmanager
    def lent(self, name: str) -> Iterator[Callable[[int], bytes | None]]:
        """Let a name in the root be a program's for a while: what the repository has there is gone.

        Yields what reads at most so many bytes of what the program put there, None where it put
        nothing; that raises as `Folder.read`. Whatever it is goes, and the repository's comes back.
        """
        self._tree.clear(name)
        try:
            yield lambda most: self._left_at(name, most)
        finally:
            self._tree.clear(name)
            for path in self._originals:
                if path.partition("/")[0] == name:
                    self._copied(path)

    def _left_at(self, name: str, most: int) -> bytes | None:
        self._tree.let_in()
        return None if self._tree.kind((name,)) is None else self._tree.read((name,), most)

    def listing(self, under: str = "") -> list[str]:
        """Return the plain files below a folder, sorted; a file is a listing of itself."""
        return [entry.path for entry in self._below(under) if entry.kind is Kind.FILE]

    def read(self, path: str) -> str:
        """Return the text of a file, with its own line ends."""
        parts = self._reachable(path)
        try:
            with _told(path):
                data = self._tree.read(parts, MOST_TEXT_BYTES)
        except TooLarge as error:
            most = f"at most {MOST_TEXT_BYTES:,} are read"
            raise WorkspaceRefused(f"{_shown(path)} has {error}; {most}") from error
        return _decoded(path, data)

    def search(
        self,
        text: str,
        under: str = "",
        *,
        ignore_case: bool = False,
        shown: Callable[[str], str] = redact,
    ) -> Searched:
        """Return where a text stands, and how much was not looked at.

        The text is taken literally. Binary and very long files are passed over. It ends with the
        first MOST_HITS, or once MOST_SEARCHED bytes are read or MOST_SEARCH_S have passed. Only what
        `shown` leaves of a file is searched: what is secret cannot be guessed letter by letter.
        """
        if not text or "\n" in text:
            raise WorkspaceRefused("search for a part of one line")
        hits: list[Hit] = []
        too_long, read, ends = 0, 0, time.monotonic() + MOST_SEARCH_S
        paths = self.listing(under)
        for number, path in enumerate(paths):
            if len(hits) == MOST_HITS or read >= MOST_SEARCHED or time.monotonic() >= ends:
                return Searched(hits, too_long, len(paths) - number)
            try:
                data = self._tree.read(path.split("/"), MOST_TEXT_BYTES)
            except TooLarge:
                too_long += 1
                continue
            except (OSError, NotPlain):  # gone since it was listed, or a link by now
                continue
            read += len(data)
            lines = _matching(data, text, shown, ignore_case=ignore_case)
            hits += [(path, at, line) for at, line in islice(lines, MOST_HITS - len(hits))]
        return Searched(hits, too_long)

    def check_writable(self, path: str) -> None:
        """Refuse a path that no candidate may change; OutOfBounds says why."""
        self._writable(path)

    def write(self, path: str, text: str) -> None:
        """Make a file hold a text, with the folders above it."""
        parts = self._writable(path)
        data = _encoded(path, text)
        with _told(path):
            kind = self._tree.kind(parts)
        if kind not in (None, Kind.FILE):
            raise WorkspaceRefused(f"{_shown(path)} is {kind}")
        if path not in self._originals and self._ignored([path]):
            raise WorkspaceRefused(f"git ignores {_shown(path)}: no edit is made of it")
        self._put(path, parts, data)

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace a text that stands exactly once in a file.

        Where all lines of the file end in CRLF, those of both texts are taken to do so, too.
        """
        parts = self._writable(path)
        text = self.read(path)
        if _all_crlf(text):
            old, new = _with_crlf(old), _with_crlf(new)
        first = text.find(old)
        if not old or first < 0:
            raise WorkspaceRefused(
                f"the text to replace does not stand in {_shown(path)}: take it as it is there, "
                "blanks and line ends included"
            )
        if text.find(old, first + 1) >= 0:
            raise WorkspaceRefused(
                f"the text to replace stands more than once in {_shown(path)}: take more of what "
                "is around it"
            )
        self._put(path, parts, _encoded(path, text[:first] + new + text[first + len(old) :]))

    def delete(self, path: str) -> None:
        """Remove a file."""
        parts = self._writable(path)
        with _told(path):
            if self._tree.kind(parts) is Kind.FOLDER:
                raise WorkspaceRefused(f"{_shown(path)} is a folder: delete the files in it")
            self._tree.remove(parts)

    def edit(self) -> dict[str, bytes | None]:
        """Return what differs from the repository: new contents by path, None for what is gone.

        What git ignores is no part of it, and modes are not. Protected files are: the gate of paths
        rejects them. Raises WorkspaceRefused, naming what is no plain file, has a name that git
        refuses or takes the place of what was left out, and where the edit is too large.
        """
        entries = {entry.path: entry for entry in self._entries(())}
        gone = sorted(self._originals.keys() - entries.keys())
        changed = self._changed(entries)
        problems = [problem for path in gone if (problem := self._unfit(path))]
        problems += [problem for entry in changed if (problem := self._unfit_entry(entry))]
        if problems:
            raise WorkspaceRefused(listed(problems, "; "))
        count = len(gone) + len(changed)
        if count > MOST_FILES:
            raise WorkspaceRefused(f"{count:,} files are changed; at most {MOST_FILES} may be")
        # What goes comes first: a new file may lie in a folder where a file was.
        return {**dict.fromkeys(gone), **self._contents(changed)}

    def diff(self, shown: Callable[[str], str] = redact) -> str:
        """Return the edit as a unified diff to read; `shown` is what may be seen of a text.

        Raises as `edit`. Git cannot apply it: secrets are taken out, and what is binary is named.
        """
        files = self.edit()
        return "".join(
            unified(path, self.original(path), files[path], shown) for path in sorted(files)
        )

    def configurations(self) -> Iterator[tuple[str, str]]:
        """Yield path and text of what configures agents, or would be settings or a claim of ours.

        First what the repository has and a workspace does not hold, then what lies in it. What is
        no text of at most MOST_BYTES is left out.
        """
        for name in self._configuring[:_MOST_CONFIGURING]:
            if (text := _text_of(self._base, name)) is not None:
                yield name, text
        for entry in islice(filter(self._may_ask, self._entries(())), _MOST_CONFIGURING):
            text = _text_of(self._tree, entry.path)
            if text is not None and may_ask(entry.path, text):
                yield entry.path, text

    def original(self, path: str) -> bytes | None:
        """Return what a file held at first, None where there was none.

        A note in its place where it is too long to be shown. Raises ToolFailed where the worktree
        is not what it was.
        """
        content = self._originals.get(path)
        if content is None:
            return None
        if content.size > MOST_EDIT_BYTES:
            return f"({content.size:,} bytes: too many to show)\n".encode()
        try:
            data = self._base.read(path.split("/"), content.size)
        except (OSError, NotPlain, TooLarge) as error:
            raise self._moved(path) from error
        if hashlib.sha256(data).hexdigest() != content.digest:
            raise self._moved(path)
        return data

    def _fill(self) -> None:
        """Copy what git tracks, and keep what each file holds."""
        for name in dict.fromkeys(git.tracked(self._origin)):
            if self._hides(name):
                continue
            if configures_agents(name):
                self._configuring.append(name)
                continue
            content = None if _stays_out(name) else self._copied(name)
            if content is None:
                self._left_out.add(name)
            else:
                self._originals[name] = content
        parents = (folder for name in self._originals for folder in PurePosixPath(name).parents)
        self._folders = {str(folder) for folder in parents} - {"."}

    def _may_ask(self, entry: Entry) -> bool:
        """Whether what lies in the workspace may configure agents, by its name."""
        path = entry.path
        new = path not in self._originals  # of those none does
        named = path.endswith((".yml", ".yaml")) or (new and configures_agents(path))
        return entry.kind is Kind.FILE and named

    def _copied(self, name: str) -> Content | None:
        """Copy one file of the worktree; None where it is not there as a plain file."""
        parts = name.split("/")
        try:
            with self._base.opened(parts) as (file, status):
                if status.st_mode & 0o100:
                    self._programs.add(name)
                return self._tree.copy(parts, file, self._mode(name))
        except (NotPlain, FileNotFoundError):
            return None

    def _mode(self, name: str) -> int:
        return _PROGRAM_MODE if name in self._programs else _SOURCE_MODE

    def _moved(self, path: str) -> ToolFailed:
        return ToolFailed(f"{self._origin / path} changed while an agent worked on a copy of it")

    def _below(self, under: str) -> list[Entry]:
        """Return what lies below a folder that is named, or the file that is."""
        under = under.removesuffix("/")
        if under in ("", "."):
            return self._entries(())
        parts = self._reachable(under)
        with _told(under):
            kind = self._tree.kind(parts)
        if kind is None:
            raise WorkspaceRefused(f"there is no {_shown(under)}")
        return self._entries(parts) if kind is Kind.FOLDER else [Entry(under, kind, 0)]

    def _entries(self, parts: Sequence[str]) -> list[Entry]:
        most = len(self._originals) + len(self._folders) + MOST_NEW
        try:
            with _told("/".join(parts) or "the workspace"):
                return self._tree.walk(parts, most, _is_of_git, _BYTECODE)
        except TooMany as error:
            raise WorkspaceRefused(
                f"there are more than {MOST_NEW:,} new files and folders in the workspace"
            ) from error

    def _reachable(self, path: str) -> tuple[str, ...]:
        """Return the parts of a plain path; refuse any other, and what was left out."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or path.startswith("~"):
            raise OutOfBounds(f"{_shown(path)} leads out of the workspace")
        if not pure.parts or str(pure) != path or len(pure.parts) > MOST_DEEP:
            raise WorkspaceRefused(f"{_shown(path)} is no path such as models/ranker/1/model.py")
        if problem := self._unfit(path) or self._hides(path):
            raise OutOfBounds(problem)
        return pure.parts

    def _writable(self, path: str) -> tuple[str, ...]:
        parts = self._reachable(path)
        if guarded([path], self._protected):
            raise OutOfBounds(
                f"no candidate may change {_shown(path)}: it belongs to the repository's owners, or "
                "judges the candidate"
            )
        return parts

    def _unfit(self, path: str) -> str | None:
        """Say why a path cannot be of an edit, None where it can."""
        parts = path.split("/")
        for part in parts:
            if why := _odd(part):
                return f"{_shown(path)}: {why}"
        if configures_agents(path):
            return f"{_shown(path)} configures coding agents: none is shown, and none may be made"
        for end in range(1, len(parts) + 1):
            if (above := "/".join(parts[:end])) in self._left_out:
                return (
                    f"{_shown(above)} is no plain file in the repository, but a link, say: none is "
                    "followed, and none may change"
                )
        return None

    def _hides(self, path: str) -> str | None:
        """Say why nothing is shown of a path, None where it may be seen."""
        places = {path, *map(str, PurePosixPath(path).parents)}
        if places.isdisjoint(self._hidden):
            return None
        return (
            f"{_shown(path)} is hidden: it judges a change, and is shown to nobody who writes one"
        )

    def _unfit_entry(self, entry: Entry) -> str | None:
        """Say why what lies in the workspace cannot be of an edit, None where it can."""
        if problem := self._unfit(entry.path):
            return problem
        # What is protected, too, is for the gate of paths to reject.
        hidden = self._hides(entry.path)
        if hidden is not None and not guarded([entry.path], self._protected):
            return hidden
        if entry.kind is Kind.FOLDER:
            return f"{_shown(entry.path)} lies too deep"
        if entry.kind is not Kind.FILE:
            return f"{_shown(entry.path)} is {entry.kind}"
        if entry.path in self._folders:
            return f"{_shown(entry.path)} is a folder of the repository"
        return None

    def _changed(self, entries: dict[str, Entry]) -> list[Entry]:
        """Return what is new or differs, in order, without what git ignores."""
        changed = [entry for entry in entries.values() if not self._as_it_was(entry)]
        new = (entry.path for entry in changed if entry.path not in self._originals)
        ignored = self._ignored(path for path in new if not self._unfit(path))
        return [entry for entry in changed if entry.path not in ignored]

    def _as_it_was(self, entry: Entry) -> bool:
        original = self._originals.get(entry.path)
        if original is None or entry.kind is not Kind.FILE or entry.size != original.size:
            return False
        with _told(entry.path):
            return self._tree.content(entry.path.split("/")) == original

    def _ignored(self, paths: Iterable[str]) -> set[str]:
        """Return those of the paths that git ignores by the repository's own rules.

        Where git cannot say, none is: then an edit holds more than it need, and the gates judge it.
        """
        names = list(paths)
        ignored: set[str] = set()
        for start in range(0, len(names), _MOST_ASKED):
            # A colon at the start of a name would be taken for magic.
            asked = [f"./{name}" for name in names[start : start + _MOST_ASKED]]
            with suppress(ToolFailed):  # its answer, too, where it ignores none of them
                told = git.git(self._origin, "check-ignore", "--no-index", "--", *asked)
                ignored.update(line.removeprefix("./") for line in told.split("\n"))
        return ignored

    def _contents(self, changed: Sequence[Entry]) -> dict[str, bytes | None]:
        room = MOST_EDIT_BYTES
        contents: dict[str, bytes | None] = {}
        for entry in changed:
            try:
                with _told(entry.path):
                    data = self._tree.read(entry.path.split("/"), room)
            except TooLarge as error:
                raise WorkspaceRefused(
                    f"the edit is larger than {MOST_EDIT_BYTES:,} bytes: with "
                    f"{_shown(entry.path)}, {error}"
                ) from error
            room -= len(data)
            contents[entry.path] = data
        return contents

    def _put(self, path: str, parts: Sequence[str], data: bytes) -> None:
        with _told(path):
            self._tree.write(parts, data, self._mode(path))


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn what goes wrong with a file into a refusal that names it."""
    try:
        yield
    except NotPlain as odd:
        # A link, a pipe or a device was put there to be reached through; the rest are mistakes.
        mistake = odd.kind in (Kind.FILE, Kind.FOLDER)
        fault = WorkspaceRefused if mistake else OutOfBounds
        raise fault(f"{_shown(path)}: {odd}") from odd
    except FileNotFoundError as error:
        raise WorkspaceRefused(f"there is no {_shown(path)}") from error
    except OSError as error:
        raise WorkspaceRefused(f"{_shown(path)}: {error.strerror}") from error


def _shown(path: str) -> str:
    """Return a path as it can stand in a sentence: on one line, with nothing unseen in it."""
    return repr(path[:_MOST_SHOWN]) + ("..." if len(path) > _MOST_SHOWN else "")


def _odd(part: str) -> str | None:
    """Say why git, or a file system on which it may be checked out, refuses a name."""
    if not part.isprintable() or "\\" in part:
        return "a name has control, invisible or odd characters, or a backslash"
    if _is_of_git(part):
        return "git keeps that name for itself"
    if part != part.rstrip(" ."):
        return "a name ends in a blank or a dot"
    return "no edit is made of bytecode" if part == _BYTECODE else None


def _is_of_git(part: str) -> bool:
    return part.casefold().partition(":")[0].rstrip(" .") in _OF_GIT


def _stays_out(name: str) -> bool:
    """Whether a tracked file is not copied, whatever it is."""
    parts = name.split("/")
    return _BYTECODE in parts or len(parts) > MOST_DEEP or any(map(_is_of_git, parts))


def _decoded(path: str, data: bytes) -> str:
    if b"\0" in data:
        raise WorkspaceRefused(f"{_shown(path)} is binary: {len(data):,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise WorkspaceRefused(
            f"{_shown(path)} is not UTF-8 text: byte {data[error.start]:#04x} at {error.start:,}"
        ) from error


def _encoded(path: str, text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise WorkspaceRefused(f"what is to be in {_shown(path)} is not UTF-8 text") from error
    if len(data) > MOST_TEXT_BYTES:
        raise WorkspaceRefused(
            f"{_shown(path)} would have {len(data):,} bytes; at most {MOST_TEXT_BYTES:,} are written"
        )
    return data


def _matching(
    data: bytes, text: str, shown: Callable[[str], str], *, ignore_case: bool
) -> Iterator[tuple[int, str]]:
    """Yield the lines of one file in which a text stands, by number."""
    needle = _folded(text, ignore_case=ignore_case)
    content = data.decode("utf-8", "replace")
    # To look is cheap, to take out what is secret is not.
    if "\0" in content or needle not in _folded(content, ignore_case=ignore_case):
        return
    for number, line in enumerate(shown(content).split("\n"), 1):
        at = _folded(line, ignore_case=ignore_case).find(needle)
        if at >= 0:
            yield number, _around(line, at)


def _text_of(folder: Folder, path: str) -> str | None:
    """Return the text of a file, None of what is no file of a size to be looked into."""
    try:
        return folder.read(path.split("/"), MOST_BYTES).decode("utf-8", "replace")
    except (OSError, NotPlain, TooLarge):
        return None


def _folded(text: str, *, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text


def _around(line: str, at: int) -> str:
    """Return a line, or what of a long one is around a place."""
    start = max(0, at - MOST_LINE // 3) if len(line) > MOST_LINE else 0
    return line[start : start + MOST_LINE].removesuffix("\r")


def _all_crlf(text: str) -> bool:
    return text.count("\n") == text.count("\r\n") > 0


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
