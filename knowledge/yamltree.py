"""YAML read as a tree with places: the strict subset that a person writes by hand.

One document of mappings with string keys, sequences and scalars of the YAML 1.2 core schema.
Duplicate keys, anchors, aliases, tags, merge keys, directives and further documents are refused,
so that a file means what it looks like and cannot be a bomb. Types never change silently: `yes`
is a string and `1e3` a float.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

Scalar: TypeAlias = str | int | float | bool | None
Data: TypeAlias = "dict[str, Data] | list[Data] | Scalar"

MAX_BYTES = 1 << 20
MAX_DEPTH = 32

# https://yaml.org/spec/1.2.2/#1032-tag-resolution
_NULL = re.compile(r"(?:null|Null|NULL|~|)\Z")
_BOOL = re.compile(r"(?:true|True|TRUE|(false|False|FALSE))\Z")
_INT = re.compile(r"[-+]?[0-9]+\Z")
_OCT = re.compile(r"0o[0-7]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_INF = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z")
_NAN = re.compile(r"\.(?:nan|NaN|NAN)\Z")
_MAX_DIGITS = 400  # beyond any float; int() of more is quadratic


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a file; line and column count from 1, None where the file is meant."""

    path: Path
    line: int | None
    column: int | None
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        """Return `path:line:column: message`, the hint on a line of its own."""
        place = [str(self.path), *(str(n) for n in (self.line, self.column) if n is not None)]
        text = f"{':'.join(place)}: {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class YamlError(Exception):
    """A file is not what it has to be. `problems` lists everything found, in file order."""

    def __init__(
        self,
        path: Path,
        line: int | None,
        column: int | None,
        message: str,
        hint: str | None = None,
    ) -> None:
        """Describe one problem; `YamlError.of` takes several."""
        super().__init__(message)
        self.path, self.line, self.column = path, line, column
        self.message, self.hint = message, hint
        self.problems: tuple[Problem, ...] = (Problem(path, line, column, message, hint),)

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> YamlError:
        """Return one error for all `problems` (at least one); its fields are the first one's."""
        first = problems[0]
        error = cls(first.path, first.line, first.column, first.message, first.hint)
        error.problems = tuple(problems)
        return error

    def __str__(self) -> str:
        """Return every problem, one paragraph each."""
        return "\n".join(map(str, self.problems))


@dataclass(frozen=True, slots=True)
class Place:
    """Where something begins and ends in the text; line and column count from 1."""

    line: int
    column: int
    start: int  # offset in characters
    end: int


@dataclass(frozen=True, slots=True)
class Node:
    """A parsed value with its place; exactly one of the three contents is set."""

    place: Place
    raw: str = ""
    scalar: Scalar = None
    mapping: dict[str, Node] | None = None
    keys: dict[str, Place] = field(default_factory=dict)
    sequence: list[Node] | None = None
    flow: bool = False

    @property
    def is_scalar(self) -> bool:
        """Whether this is neither a mapping nor a sequence."""
        return self.mapping is None and self.sequence is None

    def data(self) -> Data:
        """Return the value as plain dict, list and scalars."""
        if self.mapping is not None:
            return {key: node.data() for key, node in self.mapping.items()}
        if self.sequence is not None:
            return [node.data() for node in self.sequence]
        return self.scalar


def read(path: Path) -> str:
    """Return the text of a regular file of at most MAX_BYTES; raises YamlError."""
    try:
        if not path.is_file():  # a fifo would block, a device never end
            raise YamlError(path, None, None, "is not a file" if path.exists() else "not found")
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise YamlError(path, None, None, f"cannot be read: {reason}") from error
    if len(content) > MAX_BYTES:
        raise YamlError(path, None, None, f"is larger than {MAX_BYTES} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise YamlError(path, line, column, "is not UTF-8") from error


def parse(text: str, path: Path) -> Node:
    """Return the document as a tree with places; raises YamlError outside the subset."""
    if len(text) > MAX_BYTES:
        raise YamlError(path, None, None, f"is larger than {MAX_BYTES} bytes")
    try:
        return _Builder(YAML(typ="rt", pure=True).parse(text), path).document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        message = " ".join((error.problem or error.context or "is not YAML").split())
        raise YamlError(path, line, column, message) from error
    except ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        character = text[error.position : error.position + 1]
        raise YamlError(path, line, column, f"unprintable character {character!a}") from error
    except (YAMLError, ValueError) as error:  # ValueError: an escape beyond Unicode
        raise YamlError(path, None, None, f"is not YAML: {error}") from error


class _Builder:
    """Builds the tree from the parser's events; recursion is bounded by MAX_DEPTH."""

    def __init__(self, events: Iterator[Event], path: Path) -> None:
        self._events = events
        self._path = path

    def document(self) -> Node:
        """Return the one document of the stream."""
        root: Node | None = None
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                if root is not None:
                    raise self._error(event, "a second document", "keep one document per file")
                if event.version or event.tags:
                    raise self._error(event, "directives are not allowed", "remove the % line")
                root = self._node(next(self._events), 0)
        if root is None:
            raise YamlError(self._path, 1, 1, "is empty")
        return root

    def _node(self, event: Event, depth: int) -> Node:
        self._refuse_indirection(event)
        if depth > MAX_DEPTH:
            raise self._error(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, MappingStartEvent):
            return self._mapping(event, depth)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(event, depth)
        if not isinstance(event, ScalarEvent):
            raise self._error(event, f"unexpected {type(event).__name__}")
        return Node(_place(event, event), _text(event), self._scalar(event))

    def _mapping(self, start: MappingStartEvent, depth: int) -> Node:
        mapping: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(event, keys)
            keys[key] = _place(event, event)
            mapping[key] = self._node(next(self._events), depth + 1)
        return Node(_place(start, event), mapping=mapping, keys=keys, flow=bool(start.flow_style))

    def _key(self, event: Event, known: dict[str, Place]) -> str:
        self._refuse_indirection(event)
        if not isinstance(event, ScalarEvent):
            raise self._error(event, "a key must be a string")
        value = self._scalar(event)
        if not isinstance(value, str):
            raise self._error(event, f"the key {event.value} is not a string", "quote it")
        if value == "<<":
            raise self._error(event, "merge keys are not allowed", "write the keys out")
        if value in known:
            raise self._error(event, f"duplicate key {value!r}, first in line {known[value].line}")
        return value

    def _sequence(self, start: SequenceStartEvent, depth: int) -> Node:
        items: list[Node] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return Node(_place(start, event), sequence=items, flow=bool(start.flow_style))

    def _scalar(self, event: ScalarEvent) -> Scalar:
        try:
            event.value.encode()  # a lone surrogate is text to YAML and to nothing else
            quoted = not event.implicit[0]  # or a block
            return _text(event) if quoted else _resolve(event.value)
        except UnicodeEncodeError as error:
            raise self._error(event, "a lone surrogate is no character") from error
        except ValueError as error:
            raise self._error(event, str(error)) from error

    def _refuse_indirection(self, event: Event) -> None:
        if isinstance(event, AliasEvent):
            raise self._error(event, "aliases are not allowed", "write the value out")
        if isinstance(event, NodeEvent) and event.anchor:
            raise self._error(event, "anchors are not allowed", "remove the &name")
        if getattr(event, "tag", None):
            raise self._error(event, "tags are not allowed", "remove the !tag")

    def _error(self, event: Event, message: str, hint: str | None = None) -> YamlError:
        mark = event.start_mark
        return YamlError(self._path, mark.line + 1, mark.column + 1, message, hint)


def _text(event: ScalarEvent) -> str:
    """Return the characters of a scalar, without the parser's own marks of where it was folded."""
    # A bell cannot be written in a block: the reader refuses it, and there are no escapes.
    return str(event.value).replace("\a", "") if event.style == ">" else str(event.value)


def _place(start: Event, end: Event) -> Place:
    mark = start.start_mark
    return Place(mark.line + 1, mark.column + 1, mark.index, end.end_mark.index)


def looks_numeric(text: str) -> bool:
    """Whether `text`, unquoted, would be a number."""
    return any(pattern.match(text) for pattern in (_INT, _FLOAT, _OCT, _HEX))


def _resolve(text: str) -> Scalar:
    """Return the plain scalar by the YAML 1.2 core schema; ValueError for an absurd number."""
    if _NULL.match(text):
        return None
    if match := _BOOL.match(text):
        return match[1] is None
    if _INF.match(text) or _NAN.match(text):
        return float(text.replace(".", "", 1))
    return _number(text) if looks_numeric(text) else text


def _number(text: str) -> int | float:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} characters")
    if _INT.match(text):
        return int(text)
    for pattern, base in ((_OCT, 8), (_HEX, 16)):
        if pattern.match(text):
            return int(text[2:], base)
    return float(text)
