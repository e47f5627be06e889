"""Checks a tree against a protobuf definition. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from layers.triton.pbtxt.syntax import Block, Field, ListValue, Scalar, Source, Token

_INTEGER_BITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1, "int32"),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1, "int64"),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1, "uint32"),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1, "uint64"),
}
_FLOATS = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)
_BOOLS = frozenset({"true", "false", "True", "False", "t", "f", "0", "1"})
_NON_FINITE = frozenset({"inf", "infinity", "nan"})
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", re.ASCII)


def is_map(field: FieldDescriptor) -> bool:
    """Return whether the field is a map; its entries are then blocks of `key` and `value`."""
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def check_fields(source: Source, block: Block, message: Descriptor) -> None:
    """Check every field of a block, and of the blocks below it, against the definition.

    Raises InvalidInput at the first unknown field, repeated singular field, second member of a
    oneof, or value of the wrong kind. The depth is that of the tree, which its parser bounds.
    """
    first: dict[str, Field] = {}
    for field in block.fields:
        descriptor = message.fields_by_name.get(field.name.text)
        if descriptor is None:
            raise _unknown(source, field, message)
        _check_once(source, field, descriptor, first)
        _check_shape(source, field, descriptor)
        values = field.value.items if isinstance(field.value, ListValue) else (field.value,)
        for value in values:
            if isinstance(value, Scalar):
                _check_scalar(source, value, descriptor)
            elif descriptor.message_type is not None:
                check_fields(source, value, descriptor.message_type)


def _unknown(source: Source, field: Field, message: Descriptor) -> Exception:
    name, known = field.name.text, sorted(message.fields_by_name)
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"it has: {', '.join(known)}"
    return source.error(field.start, f"{message.name} has no field '{name}'", hint)


def _check_once(
    source: Source, field: Field, descriptor: FieldDescriptor, first: dict[str, Field]
) -> None:
    """Refuse a second value for a singular field or for a oneof."""
    if descriptor.is_repeated:
        return
    oneof = descriptor.containing_oneof
    earlier = first.setdefault(oneof.name if oneof else descriptor.name, field)
    if earlier is field:
        return
    line = source.location(earlier.start).line
    if earlier.name.text == field.name.text:
        raise source.error(
            field.start, f"{field.name.text} is given twice", f"the first is in line {line}"
        )
    raise source.error(
        field.start,
        f"{field.name.text} and {earlier.name.text} exclude each other",
        f"{earlier.name.text} is in line {line}",
    )


def _check_shape(source: Source, field: Field, descriptor: FieldDescriptor) -> None:
    """Check that a list, a block or a plain value stands where the definition has one."""
    name, value = field.name.text, field.value
    if isinstance(value, ListValue):
        if not descriptor.is_repeated:
            raise source.error(value.start, f"{name} takes one value, not a list")
        items: Sequence[Scalar | Block] = value.items
    else:
        items = (value,)
    is_message = descriptor.message_type is not None
    if field.colon is None and not is_message:
        raise source.error(value.start, f"expected ':' after {name}", f"write {name}: ...")
    for item in items:
        if is_message and isinstance(item, Scalar):
            text = f"{name} takes a block, got {item.tokens[0]}"
            raise source.error(item.start, text, f"write {name} {{ ... }}")
        if not is_message and isinstance(item, Block):
            raise source.error(item.start, f"{name} takes {wanted(descriptor)}, not a block")


def wanted(descriptor: FieldDescriptor) -> str:
    """Return what values a field takes, in words."""
    if descriptor.cpp_type in _INTEGER_BITS:
        low, high, name = _INTEGER_BITS[descriptor.cpp_type]
        return f"an integer ({name}, {low} to {high})"
    if descriptor.cpp_type in _FLOATS:
        return "a number"
    if descriptor.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return "true or false"
    if descriptor.enum_type is not None:
        return f"one of {', '.join(descriptor.enum_type.values_by_name)}"
    return "a block" if descriptor.message_type is not None else "a string in quotes"


def _check_scalar(source: Source, value: Scalar, descriptor: FieldDescriptor) -> None:
    token = value.tokens[0]
    if _fits(token, descriptor):
        return
    hint = None
    if token.kind == "string" and descriptor.enum_type is not None:
        hint = "remove the quotes"
    elif token.kind == "name" and descriptor.enum_type is not None:
        close = difflib.get_close_matches(token.text, descriptor.enum_type.values_by_name, 1)
        hint = f"did you mean {close[0]}?" if close else None
    elif descriptor.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        hint = f'write "{token.text}"'
    raise source.error(
        token.start, f"{descriptor.name} takes {wanted(descriptor)}, got {token}", hint
    )


def _fits(token: Token, descriptor: FieldDescriptor) -> bool:
    text, is_integer = token.text, bool(_INTEGER.fullmatch(token.text))
    if descriptor.cpp_type in _INTEGER_BITS:
        low, high, _ = _INTEGER_BITS[descriptor.cpp_type]
        return is_integer and len(text) <= 25 and low <= integer(text) <= high
    if descriptor.cpp_type in _FLOATS:
        return token.kind == "number" or text.lower() in _NON_FINITE
    if descriptor.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return text in _BOOLS
    if descriptor.enum_type is not None:
        return text in descriptor.enum_type.values_by_name or is_integer
    return token.kind == "string"


def integer(text: str) -> int:
    """Return a decimal, hexadecimal or octal integer, as the text format writes them."""
    digits = text.removeprefix("-")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits.startswith("0") else 10
    return int(text, base)
