"""The tools of agents: to read and to write in a workspace, and to have the public checks run.

None runs a program, reaches the network or sees a credential. What a tool shows of the repository
is quoted, without secrets, and bounded to whole lines so that no quotation loses its end. What an
agent was not let do is noted for the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from layers.agents.service.conversation import Tool, ToolRefused
from layers.agents.workbench.configuration import configures_agents
from layers.agents.workbench.quoting import Seen
from layers.agents.workbench.workspace import (
    MOST_EDIT_BYTES,
    MOST_FILES,
    MOST_HITS,
    MOST_SEARCH_S,
    MOST_SEARCHED,
    MOST_TEXT_BYTES,
    OutOfBounds,
    Searched,
    Workspace,
    WorkspaceRefused,
)
from layers.loop.proposing import Checked
from layers.story import Role

MOST_SHOWN = 16_000  # characters of one result, its markers and the words around it aside
LONGEST_LINE = 1000
MOST_NAMES = 500
MOST_LINES = 2000
_MOST_PATH = 1000
_NUMBERED = 10  # characters that a number, what is behind it and the line's end take
_PATH = "relative to the repository's root, such as models/ranker/1/model.py"


class _Arguments(BaseModel):
    """What a model gives a tool: nothing unknown among it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ListFiles(_Arguments):
    """Of `list_files`."""

    under: str = Field(default="", max_length=_MOST_PATH, description="a folder; empty: all files")


class ReadFile(_Arguments):
    """Of `read_file`."""

    path: str = Field(max_length=_MOST_PATH, description=_PATH)
    start: int = Field(default=1, ge=1, description="number of the first line")
    lines: int = Field(default=400, ge=1, le=MOST_LINES, description="how many lines at most")


class Search(_Arguments):
    """Of `search`."""

    text: str = Field(min_length=1, max_length=500, description="part of one line, literally")
    under: str = Field(
        default="", max_length=_MOST_PATH, description="a folder or a file; empty: all files"
    )
    ignore_case: bool = Field(default=False, description="take capital and small letters alike")


class WriteFile(_Arguments):
    """Of `write_file`."""

    path: str = Field(max_length=_MOST_PATH, description=_PATH)
    content: str = Field(description=f"all of the file, at most {MOST_TEXT_BYTES:,} bytes of UTF-8")


class ReplaceInFile(_Arguments):
    """Of `replace_in_file`."""

    path: str = Field(max_length=_MOST_PATH, description=_PATH)
    old: str = Field(
        min_length=1, description="stands exactly once in the file; without the line numbers"
    )
    new: str = Field(description="what is to stand there instead")


class DeleteFile(_Arguments):
    """Of `delete_file`."""

    path: str = Field(max_length=_MOST_PATH, description=_PATH)


class NoArguments(_Arguments):
    """Of a tool that takes nothing."""


def reading_tools(workspace: Workspace, seen: Seen, role: Role) -> list[Tool]:
    """Return the tools of whoever may look at the workspace."""
    desk = _Desk(workspace, seen, role)
    return [
        Tool(
            name="list_files",
            description=f"Lists the repository's files, sorted; the first {MOST_NAMES}.",
            parameters=ListFiles,
            run=desk.list_files,
        ),
        Tool(
            name="read_file",
            description="Reads lines of a text file, each behind its number and `| `. Lines of "
            f"more than {LONGEST_LINE} characters are cut.",
            parameters=ReadFile,
            run=desk.read_file,
        ),
        Tool(
            name="search",
            description="Finds the lines in which a text stands literally, as path:line: text; the "
            f"first {MOST_HITS}. Binary files and those of more than {MOST_TEXT_BYTES:,} bytes are "
            "passed over; what else was not looked at is said.",
            parameters=Search,
            run=desk.search,
        ),
    ]


def writing_tools(workspace: Workspace, seen: Seen, role: Role) -> list[Tool]:
    """Return the tools of whoever writes the change."""
    desk = _Desk(workspace, seen, role)
    bounds = f"An edit has at most {MOST_FILES} files and {MOST_EDIT_BYTES:,} bytes."
    return [
        Tool(
            name="write_file",
            description="Writes a whole text file, new or in the place of an old one; folders are "
            f"made. {bounds}",
            parameters=WriteFile,
            run=desk.write_file,
        ),
        Tool(
            name="replace_in_file",
            description="Replaces a text that stands exactly once in a file.",
            parameters=ReplaceInFile,
            run=desk.replace_in_file,
        ),
        Tool(
            name="delete_file",
            description="Deletes a file.",
            parameters=DeleteFile,
            run=desk.delete_file,
        ),
    ]


def check_tool(check: Callable[[], Checked], seen: Seen) -> Tool:
    """Return the tool that has the framework run its public checks on the workspace as it is."""

    def run(_: NoArguments) -> str:
        try:
            checked = check()
        except WorkspaceRefused as refused:  # it may name what the repository or a program made
            raise ToolRefused(seen.fenced(str(refused), "the workspace")) from refused
        return _told(checked, seen)

    return Tool(
        name="run_public_checks",
        description="Has the public checks run on the workspace as it is now: allowed paths, the "
        "build, serving, and the outputs for recorded requests. It takes minutes. The trial after "
        "it has further checks.",
        parameters=NoArguments,
        run=run,
    )


@dataclass(frozen=True, slots=True)
class _Desk:
    """What the tools of one role work on."""

    workspace: Workspace
    seen: Seen
    role: Role

    def list_files(self, asked: ListFiles) -> str:
        with self._noting(f"list {asked.under}"):
            names = self.workspace.listing(asked.under)
        if not names:
            return "There are no files."
        place = "the names of files"
        shown = _fitting(self._lines("\n".join(map(_on_one_line, names[:MOST_NAMES]))))
        self.seen.noted("\n".join(names[: len(shown)]), place)
        told = self.seen.fenced("\n".join(shown), place)
        more = len(names) - len(shown)
        return f"{told}\nAnd {more:,} more: name a folder." if more else told

    def read_file(self, asked: ReadFile) -> str:
        with self._noting(f"read {asked.path}"):
            text = self.workspace.read(asked.path)
        # All of the file is redacted before it is cut: half a secret is not known for one.
        clean = self.seen.redacted(text).replace("\r\n", "\n").removesuffix("\n")
        if not clean:
            return "The file is empty."
        lines = clean.split("\n")
        if asked.start > len(lines):
            raise ToolRefused(f"the file has {len(lines):,} lines")
        first = asked.start - 1
        wanted = lines[first : first + asked.lines]
        shown = _fitting(self._lines("\n".join(wanted)))
        last = first + len(shown)
        self.seen.noted("\n".join(wanted[: len(shown)]), asked.path, asked.start)
        numbered = (f"{number:>5}| {line}" for number, line in enumerate(shown, asked.start))
        told = self.seen.fenced("\n".join(numbered), asked.path)
        more = f"; go on with start={last + 1}" if last < len(lines) else ""
        return f"{told}\nLines {asked.start:,} to {last:,} of {len(lines):,}{more}."

    def search(self, asked: Search) -> str:
        with self._noting(f"search {asked.under}"):
            found = self.workspace.search(
                asked.text,
                asked.under,
                ignore_case=asked.ignore_case,
                shown=self.seen.redacted,
            )
        left = _not_looked_at(found)
        if not found.hits:
            return f"The text was not found. {left}" if left else "The text stands nowhere."
        lines = [f"{_on_one_line(path)}:{number}: {line}" for path, number, line in found.hits]
        shown = _fitting([self.seen.legible(line) for line in lines])
        for path, number, line in found.hits[: len(shown)]:
            self.seen.noted(line, f"{path}:{number}")
        told = self.seen.fenced("\n".join(shown), "what was found")
        if len(shown) < len(found.hits) or len(found.hits) == MOST_HITS:
            return f"{told}\nThere may be more: search below a folder."
        return f"{told}\n{left}" if left else told

    def write_file(self, asked: WriteFile) -> str:
        if configures_agents(asked.path):
            self.seen.configured(asked.content, asked.path)
        with self._noting(f"write {asked.path}"):
            self.workspace.check_writable(asked.path)
            if self._hides_something(asked.path):
                raise WorkspaceRefused(
                    "what is secret in this file was not shown to you and would be lost: use "
                    "replace_in_file on the rest of it"
                )
            self.workspace.write(asked.path, asked.content)
        return "Written."

    def replace_in_file(self, asked: ReplaceInFile) -> str:
        with self._noting(f"change {asked.path}"):
            self.workspace.replace(asked.path, asked.old, asked.new)
        return "Replaced."

    def delete_file(self, asked: DeleteFile) -> str:
        with self._noting(f"delete {asked.path}"):
            self.workspace.delete(asked.path)
        return "Deleted."

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        """Tell the model why something is refused; note it where it was to leave its bounds."""
        try:
            yield
        except OutOfBounds as refused:
            self.seen.refused(self.role, what, str(refused))
            raise ToolRefused(str(refused)) from refused
        except WorkspaceRefused as refused:
            raise ToolRefused(str(refused)) from refused

    def _hides_something(self, path: str) -> bool:
        """Whether a file holds what was taken out of all that was shown of it."""
        try:
            text = self.workspace.read(path)
        except WorkspaceRefused:  # new, or nothing of it was ever shown
            return False
        return self.seen.redacted(text) != text

    def _lines(self, text: str) -> list[str]:
        return self.seen.legible(text).split("\n")


def _told(checked: Checked, seen: Seen) -> str:
    """Return what the checks say. Names and reasons are ours; a detail may hold a log's words."""
    head = "passed" if checked.passed else f"did not pass: {checked.reason}"
    gates = [f"- {gate.name}: {gate.result}, {gate.reason}" for gate in checked.gates]
    details = [f"{gate.name}: {gate.detail}" for gate in checked.gates if gate.detail]
    detail = checked.detail or "\n".join(details)
    told = [f"The public checks {head}.", *gates]
    if detail.strip():
        place = "the public checks"
        seen.noted(detail, place)
        lines = seen.legible(detail).split("\n")
        told.append(seen.fenced("\n".join(_both_ends(lines)), place))
    return "\n".join(told)


def _not_looked_at(found: Searched) -> str:
    """Say what a search left out, so that nobody takes it for searched; empty where nothing was."""
    said = []
    if found.too_long:
        said.append(
            f"Files passed over, as longer than {MOST_TEXT_BYTES:,} bytes: {found.too_long:,}."
        )
    if found.unread:
        said.append(
            f"Files not looked at, for one search reads {MOST_SEARCHED:,} bytes and takes "
            f"{MOST_SEARCH_S:g} s: {found.unread:,}. Search below a folder."
        )
    return " ".join(said)


def _fitting(lines: Sequence[str], room: int = MOST_SHOWN) -> list[str]:
    """Return the first lines that fit together, at least one; each may be cut, none is halved.

    They are legible already: nothing makes them longer afterwards.
    """
    kept: list[str] = []
    for line in lines:
        cut = line if len(line) <= LONGEST_LINE else _cut(line)
        room -= len(cut) + _NUMBERED
        if room < 0 and kept:
            break
        kept.append(cut)
    return kept


def _cut(line: str) -> str:
    return f"{line[:LONGEST_LINE]} ({len(line) - LONGEST_LINE:,} more characters)"


def _both_ends(lines: Sequence[str]) -> list[str]:
    """Return the lines, or the first and the last ones of too many: a log tells most at its end."""
    whole = _fitting(lines)
    if len(whole) == len(lines):
        return whole
    head = _fitting(lines, MOST_SHOWN // 3)
    tail = _fitting(lines[: len(head) - 1 : -1], MOST_SHOWN // 2)[::-1]
    return [*head, f"({len(lines) - len(head) - len(tail):,} lines are left out)", *tail]


def _on_one_line(name: str) -> str:
    """Return a file's name, which may hold a line feed, as one line."""
    return name.replace("\r", "<U+000D>").replace("\n", "<U+000A>")
