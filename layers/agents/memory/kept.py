"""Where the memory of agents lies: beside the cards, on their branch, committed with them.

What is read was written by a model and edited by people: it is validated whole, and a file that is
no memory is named with line and column (`YamlError`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from knowledge.memory import (
    MOST_BYTES,
    MOST_FINDING,
    MOST_NOTES,
    MOST_TITLE,
    MOST_WHY,
    Issue,
    Memory,
    MemoryFinding,
    bounded,
    one_line,
    onto,
    rendered,
    several_lines,
)
from knowledge.store import MEMORY_FILE, load_memory
from knowledge.yamlfile import YamlError
from layers.agents.memory.backlog import LONGEST_MODEL, at_rest
from layers.agents.service import broken
from layers.errors import RunStopped
from layers.loop import learning
from layers.places import without_places
from layers.redact import redact
from layers.repository.stack import Stack

BESIDE = "memory-*.unmerged"  # of a run, beside the cards: no run reads it
MOST_REASON = 300  # characters of why a memory was not put into the one there is
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def read(path: Path) -> Memory:
    """Return the memory in a file, an empty one where there is none; raises YamlError."""
    try:
        there = path.exists() or path.is_symlink()
    except OSError as error:
        raise YamlError(path, None, None, f"cannot be read: {error.strerror}") from error
    return load_memory(path) if there else Memory()


def load(stack: Stack, out: Path, tip: str | None) -> Memory:
    """Return the memory of a stack, from where `layers.loop.learning.cards` takes its cards.

    `tip` is the commit of the knowledge branch that counts, None where the stack has all of it.
    Raises YamlError, for a file on the branch with its place there.
    """
    folder = learning.folders_at(stack, out, tip)[-1]
    place = PurePosixPath(stack.manifest.knowledge) / MEMORY_FILE
    try:
        return read(_plain_file(folder.parents[len(place.parts) - 2], place))
    except YamlError as error:
        if tip is None:
            raise
        shown = Path(f"{learning.KNOWLEDGE_BRANCH}:{place}")
        raise YamlError.of([replace(p, path=shown) for p in error.problems]) from error


def current(stack: Stack, out: Path, memory: Memory, loaded: Memory) -> Memory:
    """Return a run's memory on top of what reviewers made of it since it was `loaded`.

    Raises YamlError where what they left is no memory: it is theirs to mend, and not overwritten.
    """
    return onto(memory, loaded, load(stack, out, learning.knowledge_tip(stack)))


def files(
    stack: Stack, out: Path, memory: Memory, *, loaded: Memory, run: str, secrets: Sequence[str]
) -> Mapping[str, bytes]:
    """Return the file that keeps a memory, on top of what reviewers made of it since it was `loaded`.

    Where that cannot be read it is theirs to mend, and is not overwritten: ours lies beside it then,
    and nothing is lost. The report names the file, and its first line says why it is there.
    """
    try:
        now = current(stack, out, memory, loaded)
    except RunStopped:
        raise
    except (YamlError, *broken.BROKEN) as error:
        places = {out.resolve(): "RESULTS", stack.root: "STACK"}
        why = without_places(broken.told(error), places)
        return dict([beside(memory, run, why, secrets)])
    return dict([file_for(now, secrets)])


def file_for(memory: Memory, secrets: Sequence[str] = ()) -> tuple[str, bytes]:
    """Return path, below the folder of the cards, and content of the file that holds a memory.

    Nothing is in progress in it, and no secret: none of `secrets`, and nothing that looks like one.
    """
    return MEMORY_FILE, rendered(bounded(_redacted(at_rest(memory), secrets))).encode()


def beside(memory: Memory, run: str, why: str, secrets: Sequence[str] = ()) -> tuple[str, bytes]:
    """Return the file of a memory that cannot be put into the one there is: beside it, for a person.

    No run reads it. Its first line says why it is there; it is a memory whole, to be renamed.
    """
    head = f"# not merged: {one_line(redact(why, secrets), MOST_REASON)}\n"
    room = MOST_BYTES - len(head.encode())
    whole = bounded(_redacted(at_rest(memory), secrets), room)
    name = BESIDE.replace("*", _NOT_IN_A_NAME.sub("-", run) or "run")
    return name, f"{head}{rendered(whole)}".encode()


def _plain_file(root: Path, place: PurePosixPath) -> Path:
    """Return a file of the repository; raises YamlError where it is reached through a link."""
    path = root
    for part in place.parts:
        path = path / part
        if path.is_symlink():
            raise YamlError(path, None, None, "is a symbolic link", "put the memory itself here")
    return path


def _redacted(memory: Memory, secrets: Sequence[str]) -> Memory:
    """Return the memory without secrets in its texts; a mark may be longer than what it hides."""

    def clean(text: str, most: int) -> str:
        return one_line(redact(text, secrets), most)

    def of_issue(issue: Issue) -> Issue:
        texts = {
            "title": clean(issue.title, MOST_TITLE),
            "model": clean(issue.model, LONGEST_MODEL),
            "why": clean(issue.why, MOST_WHY),
        }
        return issue.model_copy(update=texts)

    def of_finding(finding: MemoryFinding) -> MemoryFinding:
        texts = {
            "change": clean(finding.change, MOST_TITLE),
            "why": clean(finding.why, MOST_FINDING),
        }
        return finding.model_copy(update=texts)

    return memory.model_copy(
        update={
            "issues": [of_issue(issue) for issue in memory.issues],
            "findings": [of_finding(finding) for finding in memory.findings],
            "notes": several_lines(redact(memory.notes, secrets), MOST_NOTES),
        }
    )
