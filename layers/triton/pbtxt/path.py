"""Paths such as `instance_group[0].count`, and where they lead in a tree. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf import text_encoding
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from layers.triton.pbtxt.schema import integer, is_map
from layers.triton.pbtxt.syntax import Block, Field, ListValue, Scalar
from layers.triton.pbtxt.write import field_of

_STEP = re.compile(r'([A-Za-z_]\w*)(?:\[(?:(\d{1,20})|"((?:[^"\\]|\\.)*)")\])?(\.|$)', re.ASCII)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: a field, and which of its items or entries.

    A map is a repeated field of entries, so `parameters["x"]` takes two steps: to the entry,
    then to its field `value`.
    """

    descriptor: FieldDescriptor
    key: int | str | None = None

    @property
    def name(self) -> str:
        """Return the name of the field."""
        return self.descriptor.name

    @property
    def in_entry(self) -> bool:
        """Return whether this is the step into the value of a map's entry."""
        holder = self.descriptor.containing_type
        return holder is not None and bool(holder.GetOptions().map_entry)


@dataclass(frozen=True, slots=True)
class Element:
    """One value of a field; `index` is its place in a list, None outside of one."""

    field: Field
    value: Scalar | Block
    index: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """How far a path leads into a file: the last block on the way, and the steps from there."""

    block: Block
    steps: tuple[Step, ...]
    found: tuple[Element, ...]  # what the path names; empty: the first of the steps is missing


def steps_of(path: str, message: Descriptor) -> tuple[Step, ...]:
    """Return the steps of a path. Raises ValueError where no such field can exist."""
    steps: list[Step] = []
    offset, more = 0, "."
    while more:
        match = _STEP.match(path, offset)
        if match is None:
            raise ValueError(f"'{path}' is not a path such as instance_group[0].count")
        name, index, text, more = match.groups()
        key = int(index) if index else None if text is None else re.sub(r"\\(.)", r"\1", text)
        found = _steps(message, name, key)
        steps.extend(found)
        offset, kind = match.end(), found[-1].descriptor.message_type
        if more and kind is None:
            raise ValueError(f"{name} holds no other fields")
        if more and kind is not None:
            if found[-1].descriptor.is_repeated and found[-1].key is None:
                raise ValueError(f"{name} is repeated: say which, as in {name}[0]")
            message = kind
    return tuple(steps)


def _steps(message: Descriptor, name: str, key: int | str | None) -> tuple[Step, ...]:
    descriptor = field_of(message, name)
    if key is not None and not descriptor.is_repeated:
        raise ValueError(f"{name} is not repeated: it has no [{key}]")
    if key is not None and is_map(descriptor) and descriptor.message_type is not None:
        return Step(descriptor, key), Step(descriptor.message_type.fields_by_name["value"])
    if isinstance(key, str):
        raise ValueError(f"{name} is not a map: it has no entry '{key}'")
    return (Step(descriptor, key),)


def walk(root: Block, steps: Sequence[Step]) -> Place:
    """Follow the steps as far as the file has them.

    Raises ValueError for an index beyond the one after the last item.
    """
    block = root
    for number, step in enumerate(steps):
        found = tuple(_matching(block, step))
        if number == len(steps) - 1 or not found:
            return Place(block, tuple(steps[number:]), found)
        value = found[-1].value
        if not isinstance(value, Block):  # the schema was checked: cannot be
            raise TypeError(f"{step.name} is not a block")
        block = value
    return Place(block, (), ())


def elements(block: Block, name: str) -> list[Element]:
    """Return all values of a field, whether repeated by name or in a list."""
    return [
        element for field in block.fields if field.name.text == name for element in _elements(field)
    ]


def _elements(field: Field) -> Iterator[Element]:
    if isinstance(field.value, ListValue):
        for index, item in enumerate(field.value.items):
            yield Element(field, item, index)
    else:
        yield Element(field, field.value, None)


def _matching(block: Block, step: Step) -> list[Element]:
    found = elements(block, step.name)
    if step.key is None:
        return found
    if is_map(step.descriptor):
        return [e for e in found if isinstance(e.value, Block) and entry_key(e.value) == step.key]
    if not isinstance(step.key, int) or step.key > len(found):
        raise ValueError(f"there is no {step.name}[{step.key}]: the file has {len(found)}")
    return found[step.key : step.key + 1]


def entry_key(entry: Block) -> int | str | None:
    """Return the key of a map's entry as written; None where it has none."""
    for element in elements(entry, "key"):
        if isinstance(element.value, Scalar):
            tokens = element.value.tokens
            if tokens[0].kind != "string":
                return integer(tokens[0].text)
            return b"".join(text_encoding.CUnescape(t.text[1:-1]) for t in tokens).decode()
    return None
