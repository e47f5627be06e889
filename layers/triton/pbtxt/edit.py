"""The spans of text that carry out one edit. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from google.protobuf.descriptor import FieldDescriptor

from layers.triton.pbtxt.path import Element, Place, Step
from layers.triton.pbtxt.schema import is_map
from layers.triton.pbtxt.syntax import Block, Field, ListValue, Scalar, Source
from layers.triton.pbtxt.write import (
    Style,
    Value,
    indent_of,
    is_first,
    items_of,
    line_end,
    line_start,
    newline_at,
    write_field,
    write_item,
    write_list,
    write_scalar,
)

_BLANK = re.compile(r"[ \t]*(?:#[^\n]*)?")


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` of the old text become `text`."""

    start: int
    end: int
    text: str = ""


def apply(text: str, spans: Sequence[Span]) -> str:
    """Return the text with all spans replaced; only removals may overlap, at a line break."""
    parts, offset = [], 0
    for span in sorted(spans, key=lambda s: (s.start, s.end)):
        parts += [text[offset : span.start], span.text]
        offset = max(offset, span.end)
    return "".join([*parts, text[offset:]])


def _at(offset: int, text: str) -> Span:
    return Span(offset, offset, text)


class Editor:
    """Writes spans in the style of one file. All methods raise ValueError for a wrong value."""

    def __init__(self, source: Source, root: Block, style: Style) -> None:
        """Keep the file that is edited."""
        self._text = source.text
        self._root = root
        self._style = style

    def write(self, place: Place, value: Value) -> list[Span]:
        """Write a value where the path leads, with the blocks that are missing on the way."""
        step = place.steps[0]
        if place.found:
            if step.descriptor.is_repeated and step.key is None:
                return self._replace_all(place, value)
            return [self._replace(place.found[-1], step.descriptor, value)]
        literal = _nest(place.steps, value)
        if step.descriptor.is_repeated:
            return self.add(place.block, step.descriptor, items_of(step.descriptor, literal))
        return self._insert(place.block, step.descriptor, literal)

    def add(self, block: Block, descriptor: FieldDescriptor, items: Sequence[Value]) -> list[Span]:
        """Append items to a repeated field, in the form that it has in the file."""
        fields = [field for field in block.fields if field.name.text == descriptor.name]
        if not fields:
            return self._insert(block, descriptor, items)
        last = fields[-1]
        if isinstance(last.value, ListValue):
            return self._extend(last.value, descriptor, items)
        style = replace(self._style, lists=False, colon=last.colon is not None)
        if descriptor.message_type is not None:
            return self._insert(block, descriptor, items, last, style)
        # Plain values repeated by name: a list of the new ones is the same field once more.
        return self._insert(block, descriptor, items, last)

    def remove(self, found: Sequence[Element]) -> list[Span]:
        """Take values away, and with the last value of a list the field itself."""
        spans: list[Span] = []
        for _, group in groupby(found, key=lambda element: element.field.start):
            taken = list(group)
            field, gone = taken[0].field, {e.index for e in taken if e.index is not None}
            if isinstance(field.value, ListValue) and len(gone) < len(field.value.items):
                spans += self._remove_items(field.value, gone)
            else:
                spans.append(self._cut(field.start, field.end))
        return spans

    def _replace(self, old: Element, descriptor: FieldDescriptor, value: Value) -> Span:
        start, end = old.value.start, old.value.end
        if isinstance(old.value, Scalar):
            quote = "'" if old.value.tokens[0].text.startswith("'") else '"'
            return Span(start, end, write_scalar(descriptor, value, quote))
        indent = indent_of(self._text, start) if "\n" in self._text[start:end] else None
        return Span(start, end, write_item(descriptor, value, self._style, indent))

    def _replace_all(self, place: Place, value: Value) -> list[Span]:
        """Write the whole of a repeated field into its first occurrence, and cut the others."""
        descriptor = place.steps[0].descriptor
        fields = [f for f in place.block.fields if f.name.text == descriptor.name]
        first = fields[0].value
        style = self._style
        if isinstance(first, ListValue) and descriptor.message_type is None:
            style = replace(style, pad=" " if self._text[first.opener.end] == " " else "")
        indent = indent_of(self._text, fields[0].start)
        if descriptor.message_type is not None and "\n" not in self._text[first.start : first.end]:
            written = write_list(descriptor, value, style, None)
        else:
            written = write_list(descriptor, value, style, indent)
        return [
            Span(first.start, first.end, written),
            *(self._cut(field.start, field.end) for field in fields[1:]),
        ]

    def _insert(
        self,
        block: Block,
        descriptor: FieldDescriptor,
        value: Value,
        after: Field | None = None,
        style: Style | None = None,
    ) -> list[Span]:
        """Insert a field into a block, after its last field unless told otherwise."""
        style = style or self._style
        anchor = after or (block.fields[-1] if block.fields else None)
        if anchor is None:
            return [self._insert_into_empty(block, descriptor, value)]
        separator = _separator(block)
        own, behind = (separator, "") if anchor.separator else ("", separator)
        end = anchor.end
        if not self._is_last_on_line(end):
            written = write_field(descriptor, value, style, None)
            return [_at(end, f"{behind} {written}{own}")]
        indent, stop = self._indent_beside(anchor, block), line_end(self._text, end)
        style = replace(style, newline=newline_at(self._text, stop) or style.newline)
        written = write_field(descriptor, value, style, indent) + own
        line = _at(stop, f"{style.newline}{indent}{written}")
        if not behind or line.start != end:
            return [*([_at(end, behind)] if behind else []), line]
        return [replace(line, text=behind + line.text)]

    def _insert_into_empty(self, block: Block, descriptor: FieldDescriptor, value: Value) -> Span:
        text, style = self._text, self._style
        if block is self._root:
            gap = style.newline if text and not text.endswith("\n") else ""
            written = write_field(descriptor, value, style, "")
            return Span(len(text), len(text), f"{gap}{written}{style.newline}")
        start = block.opener.end
        if self._is_last_on_line(start):
            indent, stop = indent_of(text, start) + style.unit, line_end(text, start)
            style = replace(style, newline=newline_at(text, stop))
            return _at(stop, style.newline + indent + write_field(descriptor, value, style, indent))
        pad = "" if text[start] in " \t" else " "
        return _at(start, f" {write_field(descriptor, value, style, None)}{pad}")

    def _extend(
        self, old: ListValue, descriptor: FieldDescriptor, items: Sequence[Value]
    ) -> list[Span]:
        """Append items to a list between brackets."""
        text, style = self._text, self._style
        if not old.items:
            written = ", ".join(write_item(descriptor, item, style, None) for item in items)
            pad = "" if text[old.opener.end] in " \t\r\n" else style.pad
            return [_at(old.opener.end, f"{style.pad}{written}{pad}")]
        last = old.items[-1]
        if not (is_first(text, last.start) and self._is_last_on_line(last.end)):
            gap = text[old.commas[-1].end : last.start] if old.commas else " "
            comma = ", " if gap.strip(" ") else f",{gap}"
            written = "".join(comma + write_item(descriptor, i, style, None) for i in items)
            return [_at(last.end, written)]
        indent, end = indent_of(text, last.start), line_end(text, last.end)
        style = replace(style, newline=newline_at(text, end))
        lines = [
            f"{style.newline}{indent}{write_item(descriptor, item, style, indent)}"
            for item in items
        ]
        if end == last.end:
            return [_at(end, "," + ",".join(lines))]
        return [_at(last.end, ","), _at(end, ",".join(lines))]

    def _remove_items(self, value: ListValue, gone: set[int]) -> list[Span]:
        last_kept = max(set(range(len(value.items))) - gone)
        spans = []
        for index in gone:
            item = value.items[index]
            comma = value.commas[index if index < last_kept else index - 1]
            if index < last_kept and not self._text[item.end : comma.start].strip():
                spans.append(self._cut(item.start, comma.end))
            else:
                spans += [Span(comma.start, comma.end), self._cut(item.start, item.end)]
        return spans

    def _cut(self, start: int, end: int) -> Span:
        """Return the removal of some text, with its line where nothing else is on it."""
        text = self._text
        begin, stop = line_start(text, start), line_end(text, end)
        if is_first(text, start) and not text[end:stop].strip(" \t"):
            if stop < len(text):
                return Span(begin, stop + len(newline_at(text, stop)))
            return Span(line_end(text, begin - 1) if begin else 0, stop)
        if end == len(text) or text[end] in " \t\r\n}>],;#":
            before = text[begin:start].rstrip(" \t")
            start = begin + len(before) if before else start
        return Span(start, end)

    def _is_last_on_line(self, offset: int) -> bool:
        """Return whether only white space or a comment follows, then a line break or the end."""
        match = _BLANK.match(self._text, offset)
        end = match.end() if match else offset
        return end == len(self._text) or self._text[end] in "\r\n"

    def _indent_beside(self, field: Field, block: Block) -> str:
        indent = indent_of(self._text, field.start)
        if block is self._root or is_first(self._text, field.start):
            return indent
        return indent + self._style.unit


def _separator(block: Block) -> str:
    """Return what stands between the fields of a block: `,`, `;` or nothing."""
    separators = [f.separator for f in block.fields[:-1]] or [block.fields[-1].separator]
    first = separators[0]
    return first.text if first is not None and all(separators) else ""


def _nest(steps: Sequence[Step], value: Value) -> Value:
    """Return the value of the first step's field that holds `value` at the end of the steps."""
    first, rest = steps[0], steps[1:]
    inner: Value = {rest[0].name: _nest(rest, value)} if rest else value
    if first.key is None:
        return inner
    if is_map(first.descriptor):
        entry: dict[str, Value] = {"key": first.key, "value": _nest(rest, value)}
        return [entry]
    return [inner]
