"""Writes protobuf text in the style of the file that it goes into. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from layers.triton.pbtxt.schema import is_map, wanted
from layers.triton.pbtxt.syntax import Block, Field, ListValue

Value: TypeAlias = "int | float | str | Sequence[Value] | Mapping[str, Value] | Mapping[int, Value]"

_ESCAPES = {
    **{code: f"\\{code:03o}" for code in (*range(32), 127)},
    **{ord(character): f"\\{character}" for character in "\\\"'"},
    ord("\n"): r"\n",
    ord("\r"): r"\r",
    ord("\t"): r"\t",
}
_FLOATS = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)
_NOT_INTEGERS = (
    FieldDescriptor.CPPTYPE_BOOL,
    FieldDescriptor.CPPTYPE_STRING,
    FieldDescriptor.CPPTYPE_MESSAGE,
)


@dataclass(frozen=True, slots=True)
class Style:
    """How a file is written: what most of it does, or Triton's documentation where it is mute."""

    newline: str = "\n"
    unit: str = "  "  # one level of indentation
    colon: bool = False  # `name: {` rather than `name {`
    lists: bool = True  # repeated blocks as `name [ { ... } ]` rather than repeated names
    pad: str = " "  # inside the brackets of a list of plain values


def style_of(text: str, root: Block) -> Style:
    """Return the style of a file."""
    fields = list(_all_fields(root))
    holders = [f for f in fields if _blocks(f)]
    plain = [f.value for f in fields if isinstance(f.value, ListValue) and not _blocks(f)]
    repeated = [f for f in holders if f.name.text in ("input", "output", "instance_group", "step")]
    padded = [v for v in plain if text[v.opener.end] in " \t\r\n"]
    return Style(
        newline="\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n",
        unit=_unit(text, fields),
        colon=_most(f.colon is not None for f in holders),
        lists=not repeated or _most(isinstance(f.value, ListValue) for f in repeated),
        pad=" " if not plain or 2 * len(padded) >= len(plain) else "",
    )


def _all_fields(block: Block) -> Iterator[Field]:
    for field in block.fields:
        yield field
        for inner in _blocks(field):
            yield from _all_fields(inner)


def _blocks(field: Field) -> list[Block]:
    items = field.value.items if isinstance(field.value, ListValue) else (field.value,)
    return [item for item in items if isinstance(item, Block)]


def _most(answers: Iterable[bool]) -> bool:
    known = list(answers)
    return 2 * sum(known) > len(known)


def _unit(text: str, fields: Sequence[Field]) -> str:
    """Return by how much fields are indented, mostly, against the block that holds them."""
    steps = Counter(
        indent_of(text, inner.start).removeprefix(indent_of(text, block.start))
        for field in fields
        for block in _blocks(field)
        for inner in block.fields
        if is_first(text, inner.start)
    )
    del steps[""]
    default = "\t" if "\n\t" in text else Style().unit
    return steps.most_common(1)[0][0] if steps else default


def line_start(text: str, offset: int) -> int:
    """Return where the line of an offset begins."""
    return text.rfind("\n", 0, offset) + 1


def line_end(text: str, offset: int) -> int:
    """Return where the line of an offset ends, before its line break."""
    end = text.find("\n", offset)
    if end < 0:
        return len(text)
    return end - 1 if text[end - 1 : end] == "\r" else end


def newline_at(text: str, offset: int) -> str:
    """Return the line break at an offset; empty where there is none."""
    return "\r\n" if text.startswith("\r\n", offset) else "\n" * text.startswith("\n", offset)


def indent_of(text: str, offset: int) -> str:
    """Return the white space that the line of an offset begins with."""
    match = re.compile(r"[ \t]*").match(text, line_start(text, offset))
    return match.group() if match else ""


def is_first(text: str, offset: int) -> bool:
    """Return whether only white space precedes an offset on its line."""
    while offset and text[offset - 1] in " \t":
        offset -= 1
    return offset == 0 or text[offset - 1] == "\n"


def write_field(descriptor: FieldDescriptor, value: Value, style: Style, indent: str | None) -> str:
    """Return a whole field; `indent` is that of its first line, None asks for a single line.

    Raises ValueError where the value is not of the field's kind.
    """
    name = descriptor.name
    head = f"{name}:" if style.colon or descriptor.message_type is None else name
    if not descriptor.is_repeated:
        return f"{head} {write_item(descriptor, value, style, indent)}"
    if descriptor.message_type is None or (style.lists and not is_map(descriptor)):
        return f"{head} {write_list(descriptor, value, style, indent)}"
    gap = " " if indent is None else style.newline + indent
    blocks = (write_item(descriptor, item, style, indent) for item in items_of(descriptor, value))
    return gap.join(f"{head} {block}" for block in blocks)


def items_of(descriptor: FieldDescriptor, value: Value) -> Sequence[Value]:
    """Return the items of a repeated field; those of a map are its entries."""
    if is_map(descriptor) and isinstance(value, Mapping):
        return [{"key": key, "value": item} for key, item in value.items()]
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise ValueError(f"{descriptor.name} takes a list, not {value!r}")
    return value


def write_list(descriptor: FieldDescriptor, value: Value, style: Style, indent: str | None) -> str:
    """Return the items of a repeated field between brackets."""
    items = items_of(descriptor, value)
    if not items:
        return "[ ]"
    if descriptor.message_type is None or indent is None:
        pad = style.pad if descriptor.message_type is None else " "
        written = ", ".join(write_item(descriptor, item, style, None) for item in items)
        return f"[{pad}{written}{pad}]"
    inner = style.newline + indent + style.unit
    blocks = (write_item(descriptor, item, style, indent + style.unit) for item in items)
    return f"[{inner}{(',' + inner).join(blocks)}{style.newline}{indent}]"


def write_item(descriptor: FieldDescriptor, value: Value, style: Style, indent: str | None) -> str:
    """Return one block or plain value of a field, without the name."""
    if descriptor.message_type is None:
        return write_scalar(descriptor, value)
    if not isinstance(value, Mapping):
        raise ValueError(f"{descriptor.name} takes a mapping of fields, not {value!r}")
    return _write_block(descriptor.message_type, value, style, indent)


def _write_block(
    message: Descriptor,
    value: Mapping[str, Value] | Mapping[int, Value],
    style: Style,
    indent: str | None,
) -> str:
    if not value:
        return "{ }"
    inner = None if indent is None else indent + style.unit
    fields = [
        write_field(field_of(message, str(name)), item, style, inner)
        for name, item in value.items()
    ]
    if inner is None:
        return f"{{ {' '.join(fields)} }}"
    lines = "".join(f"{style.newline}{inner}{field}" for field in fields)
    return f"{{{lines}{style.newline}{indent}}}"


def field_of(message: Descriptor, name: str) -> FieldDescriptor:
    """Return a field's definition. Raises ValueError where the message has no such field."""
    descriptor = message.fields_by_name.get(name)
    if descriptor is None:
        raise ValueError(f"{message.name} has no field '{name}'")
    return descriptor


def write_scalar(descriptor: FieldDescriptor, value: Value, quote: str = '"') -> str:
    """Return a plain value as the text format writes it.

    Whether a number is in range is left to the check of the whole text. Raises ValueError where
    the value is not of the field's kind.
    """
    kind, is_bool = descriptor.cpp_type, isinstance(value, bool)
    if kind == FieldDescriptor.CPPTYPE_BOOL and is_bool:
        return "true" if value else "false"
    if kind == FieldDescriptor.CPPTYPE_STRING and isinstance(value, str):
        return f"{quote}{value.translate(_ESCAPES)}{quote}"
    if descriptor.enum_type is not None and isinstance(value, str):
        if value in descriptor.enum_type.values_by_name:
            return value
    elif kind in _FLOATS and isinstance(value, int | float) and not is_bool:
        return repr(value)
    elif isinstance(value, int) and not is_bool and kind not in _NOT_INTEGERS:
        return str(value)
    raise ValueError(f"{descriptor.name} takes {wanted(descriptor)}, not {value!r}")
