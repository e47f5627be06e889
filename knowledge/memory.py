"""What agents remember of one stack: the backlog, what was found, and notes; one bounded file.

It is rewritten in place when a run ends, on the branch of the cards, and reviewed like them. Its
texts come from models: data, kept short and printable, quoted wherever they are shown. Pure.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, field_validator

from knowledge.cards import Ratio, Slug, Strict
from knowledge.yamlfile import YamlError, loads

MOST_BYTES = 24 * 1024  # of the file: a model reads all of it
MOST_TITLE, MOST_WHY, MOST_FINDING, MOST_NOTES = 120, 300, 160, 6000  # characters
SHORT_NOTES = 1500  # what is left of notes once space is short
CLOSED = frozenset({"done", "abandoned"})

Found: TypeAlias = Literal["accepted", "refuted"]

_HEAD = """\
# What agents tried on this stack, and what is left to try. The bot rewrites this file after a run;
# what is removed here stays removed.
"""
_PLAIN = re.compile(r"[a-z][a-z0-9_-]*|[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NOT_STRINGS = frozenset({"null", "true", "false"})
_WIDTH = 84


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of printable characters")
    return text


def _printable_lines(text: str) -> str:
    if not all(line.isprintable() for line in text.split("\n")):
        raise ValueError("must be lines of printable characters")
    return text


def _tidy(text: str) -> str:
    """Return lines without spaces at their ends, and without any in front of the first."""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


Title = Annotated[str, Field(min_length=1, max_length=MOST_TITLE), AfterValidator(_printable)]
Why = Annotated[str, Field(max_length=MOST_WHY), AfterValidator(_printable)]
ShortWhy = Annotated[str, Field(max_length=MOST_FINDING), AfterValidator(_printable)]
Name = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
Commit = Annotated[str, Field(max_length=64), AfterValidator(_printable)]
Notes = Annotated[
    str, Field(max_length=MOST_NOTES), AfterValidator(_printable_lines), AfterValidator(_tidy)
]


class Issue(Strict):
    """One direction to try, and where it stands.

    Parked: no implementation passed the checks, which says nothing against the direction.
    Abandoned: it was measured, its signs were seen, and `why` is the reason in the mechanism.
    """

    id: Slug
    title: Title
    layer: Literal["kernel", "graph", "server", "features", "config"]
    model: Name
    status: Literal["open", "in_progress", "done", "parked", "abandoned"]
    why: Why = ""  # as it stands: the claim, or what the last attempt came to
    attempts: int = Field(default=0, ge=0)  # that failed their checks
    commit: Commit | None = None  # of the last candidate that was accepted
    run: Name = ""  # that worked on it last


class MemoryFinding(Strict):
    """What one candidate showed; gain and interval belong to its commit and to no other."""

    issue: Slug
    change: Title
    verdict: Found
    gain: Ratio | None = None  # end-to-end throughput ratio
    ci: tuple[Ratio, Ratio] | None = None
    why: ShortWhy = ""  # the mechanism, where one was named
    commit: Commit
    date: date
    skill: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9-]{0,62})?$")] = ""

    @field_validator("ci")
    @classmethod
    def _ordered(cls, ci: tuple[float, float] | None) -> tuple[float, float] | None:
        if ci is not None and ci[0] > ci[1]:
            raise ValueError("the lower end comes first")
        return ci

    @property
    def key(self) -> tuple[str, str]:
        """What a later finding replaces this one by: the same candidate judged again."""
        return (self.issue, self.commit)


class Earlier(Strict):
    """What is left of the oldest findings: issues by verdict; of still older ones, counts."""

    accepted: tuple[Slug, ...] = ()
    refuted: tuple[Slug, ...] = ()
    more_accepted: int = Field(default=0, ge=0)
    more_refuted: int = Field(default=0, ge=0)


class Memory(Strict):
    """All that agents remember of one stack: issues oldest first, findings newest first."""

    schema_: Literal["fvec.memory/1"] = Field(default="fvec.memory/1", alias="schema")
    issues: list[Issue] = Field(default_factory=list)
    findings: list[MemoryFinding] = Field(default_factory=list)
    earlier: Earlier = Earlier()
    notes: Notes = ""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )

    @field_validator("issues")
    @classmethod
    def _one_of_each_id(cls, issues: list[Issue]) -> list[Issue]:
        _check_unique((issue.id for issue in issues), "issue")
        return issues

    @field_validator("findings")
    @classmethod
    def _one_of_each_key(cls, findings: list[MemoryFinding]) -> list[MemoryFinding]:
        _check_unique((" at ".join(finding.key) for finding in findings), "finding of")
        return findings

    def issue(self, name: str) -> Issue | None:
        """Return the issue of that id, or None."""
        return next((issue for issue in self.issues if issue.id == name), None)

    def named(self, verdict: Found) -> frozenset[str]:
        """Return the issues that have a finding of that verdict, however old."""
        old = self.earlier.accepted if verdict == "accepted" else self.earlier.refuted
        return frozenset([*old, *(f.issue for f in self.findings if f.verdict == verdict)])


class _File(Memory):
    """A memory as it is read: a file says which schema it has."""

    schema_: Literal["fvec.memory/1"] = Field(alias="schema")


def _check_unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the {what} {name} is there twice")
        seen.add(name)


# --- texts ------------------------------------------------------------------------------------


def one_line(text: str, most: int | None = None) -> str:
    """Return any text as one line of printable characters, of at most `most`."""
    return _cut(" ".join(_visible(text).split()), most)


def several_lines(text: str, most: int | None = None) -> str:
    """Return any text as lines of printable characters, of at most `most` characters in all."""
    return _cut(_tidy("\n".join(map(_visible, text.splitlines()))), most)


def _visible(text: str) -> str:
    """Return the text with white space as spaces and without what cannot be seen."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)


def _cut(text: str, most: int | None) -> str:
    if most is None or len(text) <= most:
        return text
    return f"{text[: most - 1].rstrip()}…"


# --- the file ---------------------------------------------------------------------------------


def parsed(text: str, path: Path) -> Memory:
    """Return the memory that a file's text holds; raises YamlError, also above MOST_BYTES.

    `path` is only named in errors.
    """
    if len(text.encode("utf-8", "surrogateescape")) > MOST_BYTES:
        message = f"is larger than the {MOST_BYTES} bytes of a memory"
        raise YamlError(path, None, None, message, "shorten its notes, or remove closed issues")
    return Memory.model_validate(loads(text, path, _File).model_dump(by_alias=True))


def rendered(memory: Memory) -> str:
    """Return the text of the file: always the same, and read back as the same memory."""
    parts = [_HEAD, f"schema: {memory.schema_}\n"]
    if memory.issues:
        parts += ["issues:\n", *map(_entry, memory.issues)]
    if memory.findings:
        parts += ["findings:\n", *map(_entry, memory.findings)]
    parts.append(_earlier(memory.earlier))
    if memory.notes:
        lines = memory.notes.split("\n")
        parts += ["notes: |-\n", *(f"  {line}\n" if line else "\n" for line in lines)]
    return "".join(parts)


@lru_cache(maxsize=4096)  # to bound a memory is to write it many times over
def _entry(entry: Issue | MemoryFinding) -> str:
    values = entry.model_dump(mode="json", exclude_defaults=True)
    lines = "\n    ".join(f"{key}: {_value(value)}" for key, value in values.items())
    return f"  - {lines}\n"


def _value(value: object) -> str:
    """Return a value as YAML: plain where that stays what it is, else as JSON writes it."""
    plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _NOT_STRINGS
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=64)
def _earlier(earlier: Earlier) -> str:
    values = earlier.model_dump(exclude_defaults=True)
    lines = [f"  {key}: {_listed(value)}\n" for key, value in values.items()]
    return "".join(["earlier:\n", *lines]) if lines else ""


def _listed(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value)
    lines = textwrap.wrap(
        ", ".join(map(_value, value)), _WIDTH, break_long_words=False, break_on_hyphens=False
    )
    return "[" + "\n    ".join(lines) + "]"


# --- its size ---------------------------------------------------------------------------------


def bounded(memory: Memory, most: int = MOST_BYTES) -> Memory:
    """Return the memory as a file of at most `most` bytes; itself where it is that small.

    What goes, oldest first, and only as much of it as is needed: most of long notes; the whys of
    closed issues; closed issues that a finding names; the whys of findings; the rest of the notes;
    the whys of other issues; of findings all but issue and verdict; issues, closed before parked,
    before open. Every finding keeps issue and verdict; only where the bare names fill the file by
    themselves, which takes hundreds of them, are the oldest counted by verdict.
    """
    for step in _STEPS:
        while len(rendered(memory).encode()) > most:
            smaller = step(memory)
            if smaller is None:
                break
            memory = smaller
    return memory


def _short_notes(memory: Memory) -> Memory | None:
    if len(memory.notes) <= SHORT_NOTES:
        return None
    return memory.model_copy(update={"notes": several_lines(memory.notes, SHORT_NOTES)})


def _no_notes(memory: Memory) -> Memory | None:
    return memory.model_copy(update={"notes": ""}) if memory.notes else None


def _silent_closed_issue(memory: Memory) -> Memory | None:
    return _silenced(memory, lambda issue: issue.status in CLOSED)


def _silent_issue(memory: Memory) -> Memory | None:
    return _silenced(memory, lambda _: True)


def _no_named_issue(memory: Memory) -> Memory | None:
    named = memory.named("accepted") | memory.named("refuted")
    gone = (issue for issue in memory.issues if issue.status in CLOSED and issue.id in named)
    return _without(memory, next(gone, None))


def _fewer_issues(memory: Memory) -> Memory | None:
    least = min(memory.issues, key=lambda issue: _WORTH.index(issue.status), default=None)
    return _without(memory, least)


def _silent_finding(memory: Memory) -> Memory | None:
    at = next((n for n, f in reversed(list(enumerate(memory.findings))) if f.why), None)
    if at is None:
        return None
    findings = list(memory.findings)
    findings[at] = findings[at].model_copy(update={"why": ""})
    return memory.model_copy(update={"findings": findings})


def _finding_by_name(memory: Memory) -> Memory | None:
    """Return the memory with the oldest finding as a name in `earlier`."""
    if not memory.findings:
        return None
    *findings, last = memory.findings
    names: tuple[str, ...] = getattr(memory.earlier, last.verdict)
    if last.issue not in names:
        names = (*names, last.issue)
    earlier = memory.earlier.model_copy(update={last.verdict: names})
    return memory.model_copy(update={"findings": findings, "earlier": earlier})


def _fewer_names(memory: Memory) -> Memory | None:
    earlier = memory.earlier
    if earlier.refuted:
        change = {"refuted": earlier.refuted[1:], "more_refuted": earlier.more_refuted + 1}
    elif earlier.accepted:
        change = {"accepted": earlier.accepted[1:], "more_accepted": earlier.more_accepted + 1}
    else:
        return None
    return memory.model_copy(update={"earlier": earlier.model_copy(update=change)})


def _silenced(memory: Memory, wanted: Callable[[Issue], bool]) -> Memory | None:
    """Return the memory without the why of the oldest issue that is wanted, None without one."""
    at = next((n for n, issue in enumerate(memory.issues) if issue.why and wanted(issue)), None)
    if at is None:
        return None
    issues = list(memory.issues)
    issues[at] = issues[at].model_copy(update={"why": ""})
    return memory.model_copy(update={"issues": issues})


def _without(memory: Memory, gone: Issue | None) -> Memory | None:
    if gone is None:
        return None
    return memory.model_copy(update={"issues": [i for i in memory.issues if i is not gone]})


_WORTH = ("done", "abandoned", "parked", "open", "in_progress")  # of an issue, the least first
_STEPS: tuple[Callable[[Memory], Memory | None], ...] = (
    _short_notes,
    _silent_closed_issue,
    _no_named_issue,
    _silent_finding,
    _no_notes,
    _silent_issue,
    _finding_by_name,
    _fewer_issues,
    _fewer_names,
)


# --- two at once ------------------------------------------------------------------------------


def onto(memory: Memory, base: Memory, now: Memory) -> Memory:
    """Return `now` with what a run made of `base`: reviewers may have edited the file meanwhile.

    What they changed or removed stays so, but for an issue that the run changed too. Notes are the
    run's where it rewrote them.
    """
    if now == base:
        return bounded(memory)
    before = {issue.id: issue for issue in base.issues}
    ours = {i.id: i for i in memory.issues if not _same(i, before.get(i.id))}
    issues = [ours.pop(issue.id, issue) for issue in now.issues]
    known = {finding.key for finding in [*base.findings, *now.findings]}
    fresh = [finding for finding in memory.findings if finding.key not in known]
    earlier = Earlier(
        accepted=_joined(now.earlier.accepted, memory.earlier.accepted, base.named("accepted")),
        refuted=_joined(now.earlier.refuted, memory.earlier.refuted, base.named("refuted")),
        more_accepted=now.earlier.more_accepted,
        more_refuted=now.earlier.more_refuted,
    )
    return bounded(
        now.model_copy(
            update={
                "issues": [*issues, *ours.values()],
                "findings": [*fresh, *now.findings],
                "earlier": earlier,
                "notes": now.notes if memory.notes == base.notes else memory.notes,
            }
        )
    )


def _same(issue: Issue, before: Issue | None) -> bool:
    """Whether an issue is as it was; the why may be gone, for want of space."""
    if before is None or issue == before:
        return before is not None
    return not issue.why and issue == before.model_copy(update={"why": ""})


def _joined(now: tuple[str, ...], ours: tuple[str, ...], known: frozenset[str]) -> tuple[str, ...]:
    """Return the names of old findings, with those of a run that lost their text in it already."""
    return tuple(dict.fromkeys([*now, *(name for name in ours if name not in known)]))
