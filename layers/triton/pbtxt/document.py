"""Parsing, and the document that edits are asked of. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from layers.errors import InvalidInput, Location
from layers.triton.pbtxt.edit import Editor, Span, apply
from layers.triton.pbtxt.path import Step, steps_of, walk
from layers.triton.pbtxt.schema import check_fields, is_map
from layers.triton.pbtxt.syntax import Block, Source, parse_tree
from layers.triton.pbtxt.write import Value, style_of

T = TypeVar("T")
Protobuf: TypeAlias = Any  # tritonclient's message classes, and their values, come without types


def decode(data: bytes, path: Path) -> str:
    """Return the text of a file's bytes, its line breaks kept.

    Raises InvalidInput with the place of the first byte that is not UTF-8.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        place = Source(before, path).location(len(before))
        raise InvalidInput(
            f"byte 0x{data[error.start]:02x} is not UTF-8", at=place, hint="save it as UTF-8"
        ) from error


def parse(text: str, path: Path) -> Document:
    """Read a model configuration; `path` is only named in errors.

    Raises InvalidInput with line, column and, where one is known, a hint: bad syntax, unknown
    field, wrong type or range, wrong enum, a singular field given twice.
    """
    source = Source(text, path)
    root = parse_tree(source)
    check_fields(source, root, model_config_pb2.ModelConfig.DESCRIPTOR)
    return Document(source, root, _message(source))


def _message(source: Source) -> Protobuf:
    """Return what protobuf itself reads; its answer is the last word."""
    try:
        return text_format.Parse(source.text, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        # protobuf puts the place in front of its message too
        message = re.sub(r"^\d+:\d+ : ", "", str(error))
        place = Location(source.path, error.GetLine(), error.GetColumn())
        raise InvalidInput(message, at=place) from error
    except ValueError as error:  # a string that is not UTF-8 once its escapes are read
        raise InvalidInput(str(error), at=Location(source.path)) from error


class Document:
    """A parsed configuration. Immutable: every edit returns another document."""

    __slots__ = ("_message", "_root", "_source")

    def __init__(self, source: Source, root: Block, message: Protobuf) -> None:
        """Keep the parts; use `parse` to get a document."""
        self._source = source
        self._root = root
        self._message = message

    @property
    def text(self) -> str:
        """Return the whole file."""
        return self._source.text

    @property
    def path(self) -> Path:
        """Return the path that errors name."""
        return self._source.path

    @property
    def message(self) -> Protobuf:
        """Return a copy of the `inference.ModelConfig` that the file says."""
        copy = model_config_pb2.ModelConfig()
        copy.CopyFrom(self._message)
        return copy

    def get(self, path: str) -> Protobuf:
        """Return what the file says at a path, or None where it says nothing.

        Numbers, strings and booleans as such, an enum as its name, a repeated field as a list, a
        map as a dict, a block as a copy of its message. Raises InvalidInput for a bad path.
        """
        steps = self._steps(path)
        if not self._guard(lambda: walk(self._root, steps).found):
            return None
        value = self._message
        for step in steps:
            if step.in_entry:
                continue  # the entry's value was picked together with its key
            value = getattr(value, step.name)
            if step.key is not None:
                value = value[step.key]
        return _plain(value, steps[-1])

    def location(self, path: str) -> Location:
        """Return where a field starts; for a missing one, the field that it would follow."""
        place = self._guard(lambda: walk(self._root, self._steps(path)))
        if place.found:
            first = place.found[0]
            return self._source.location(
                first.field.start if first.index is None else first.value.start
            )
        nearest = place.block.fields[-1] if place.block.fields else place.block
        return self._source.location(nearest.start)

    def set(self, path: str, value: Value) -> Document:
        """Write a value; what is missing on the way is created in the style of the file.

        A block is given as a mapping (empty: only its presence), a repeated field as a list. A
        file that says so already is returned as it is. Raises InvalidInput for a path or a value
        that the definition does not allow, and nothing is changed.
        """
        steps = self._steps(path)
        place = self._guard(lambda: walk(self._root, steps))
        repeated = steps[-1].descriptor.is_repeated and steps[-1].key is None
        if repeated and not value:
            return self.remove(path)
        spans = self._guard(lambda: self._editor().write(place, value))
        edited = self._edited(spans)
        return self if place.found and edited.message == self._message else edited

    def add(self, path: str, value: Value) -> Document:
        """Append one item to a repeated field; raises InvalidInput as `set` does."""
        steps = self._steps(path)
        last = steps[-1]
        if not last.descriptor.is_repeated or last.key is not None or is_map(last.descriptor):
            raise self._error(f"'{path}' is not a list that could be added to")
        place = self._guard(lambda: walk(self._root, steps))
        if len(place.steps) > 1:
            return self.set(path, [value])
        return self._edited(
            self._guard(lambda: self._editor().add(place.block, last.descriptor, [value]))
        )

    def remove(self, path: str) -> Document:
        """Take a field, an item or an entry away; a path that the file lacks changes nothing.

        Comments stay, except those inside what is removed.
        """
        steps = self._steps(path)
        if steps[-1].in_entry:
            steps = steps[:-1]  # the whole entry, not only its value
        place = self._guard(lambda: walk(self._root, steps))
        return self._edited(self._editor().remove(place.found)) if place.found else self

    def _editor(self) -> Editor:
        return Editor(self._source, self._root, style_of(self.text, self._root))

    def _edited(self, spans: list[Span]) -> Document:
        return parse(apply(self.text, spans), self.path)

    def _steps(self, path: str) -> tuple[Step, ...]:
        return self._guard(lambda: steps_of(path, model_config_pb2.ModelConfig.DESCRIPTOR))

    def _guard(self, action: Callable[[], T]) -> T:
        """Run a pure step; what it finds wrong becomes an error that names the file."""
        try:
            return action()
        except ValueError as error:
            raise self._error(str(error)) from error

    def _error(self, message: str) -> InvalidInput:
        return InvalidInput(message, at=Location(self.path))


def _plain(value: Protobuf, step: Step) -> Protobuf:
    """Return a protobuf value as Python's own types."""
    descriptor = step.descriptor
    if is_map(descriptor):
        return dict(value)
    if descriptor.is_repeated and step.key is None:
        return [_plain_item(item, step) for item in value]
    return _plain_item(value, step)


def _plain_item(value: Protobuf, step: Step) -> Protobuf:
    if step.descriptor.message_type is not None:
        copy = type(value)()
        copy.CopyFrom(value)
        return copy
    if step.descriptor.enum_type is not None:
        known = step.descriptor.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
