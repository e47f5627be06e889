"""Tokens and tree of a protobuf text file, with the place of every part.

Pure and without a schema: which fields exist is the business of `schema`. The grammar is
that of the protobuf text format specification; extension names and signs apart from their
number are refused, as no Triton configuration has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from layers.errors import InvalidInput, Location

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 32  # the deepest path of ModelConfig has 7 levels

# What both of protobuf's parsers read alike; octal and hexadecimal escapes name bytes.
_ESCAPE = r"""\\(?:[abfnrtv\\'"]|[0-3][0-7]{2}|[0-7]{1,2}(?![0-7])|x[0-9a-fA-F]{1,2})"""
_TOKEN = re.compile(
    rf"""
    (?P<blank>[ \t\r\n\v\f]+|\#[^\n]*)
  | (?P<string>"(?:[^"\\\n]|{_ESCAPE})*"|'(?:[^'\\\n]|{_ESCAPE})*')
  | (?P<number>-?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)(?![\w.])
              |-(?:infinity|inf|nan)\b)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark>[{{}}<>\[\]:,;])
    """,
    re.VERBOSE | re.ASCII,
)
_WORD_END = re.compile(r"[\s,;{}<>\[\]]")
_CLOSER = {"{": "}", "<": ">"}
_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb"


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the file that it came from; knows where an offset lies."""

    text: str
    path: Path

    def location(self, offset: int) -> Location:
        """Return line and column, from 1, of a character offset."""
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return Location(self.path, line, column)

    def error(self, offset: int, message: str, hint: str | None = None) -> InvalidInput:
        """Return (not raise) the error of one place."""
        return InvalidInput(message, at=self.location(offset), hint=hint)


@dataclass(frozen=True, slots=True)
class Token:
    """One lexical unit; `kind` is string, number, name, mark or end."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Return the offset after its last character."""
        return self.start + len(self.text)

    def __str__(self) -> str:
        """Return how an error message names the token."""
        return "the end of the file" if self.kind == "end" else f"'{self.text[:40]}'"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, a name, or one or several adjacent strings that form one value."""

    tokens: tuple[Token, ...]

    @property
    def start(self) -> int:
        """Return the offset of its first character."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """Return the offset after its last character."""
        return self.tokens[-1].end


@dataclass(frozen=True, slots=True)
class Block:
    """The fields of one message. The file itself is a block whose marks are empty."""

    opener: Token
    fields: tuple[Field, ...]
    closer: Token

    @property
    def start(self) -> int:
        """Return the offset of its opening mark."""
        return self.opener.start

    @property
    def end(self) -> int:
        """Return the offset after its closing mark."""
        return self.closer.end


@dataclass(frozen=True, slots=True)
class ListValue:
    """Items between brackets; `commas` has one less than `items`."""

    opener: Token
    items: tuple[Scalar | Block, ...]
    commas: tuple[Token, ...]
    closer: Token

    @property
    def start(self) -> int:
        """Return the offset of its opening bracket."""
        return self.opener.start

    @property
    def end(self) -> int:
        """Return the offset after its closing bracket."""
        return self.closer.end


@dataclass(frozen=True, slots=True)
class Field:
    """One `name: value`, with the separator (`,` or `;`) that may follow it."""

    name: Token
    colon: Token | None
    value: Scalar | Block | ListValue
    separator: Token | None

    @property
    def start(self) -> int:
        """Return the offset of its name."""
        return self.name.start

    @property
    def end(self) -> int:
        """Return the offset after its value or separator."""
        return (self.separator or self.value).end


def parse_tree(source: Source) -> Block:
    """Return the file as a tree.

    Raises InvalidInput with line, column and a hint where the text is not well formed, too
    long (MAX_CHARACTERS) or too deep (MAX_DEPTH).
    """
    if len(source.text) > MAX_CHARACTERS:
        raise InvalidInput(f"longer than {MAX_CHARACTERS:,} characters", at=Location(source.path))
    try:
        source.text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise source.error(error.start, "half of a surrogate pair is not valid Unicode") from error
    return _Parser(source).file()


def _tokens(source: Source) -> Iterator[Token]:
    text, offset = source.text, 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None or match.lastgroup is None:
            raise _unexpected_character(source, offset)
        if match.lastgroup != "blank":
            yield Token(match.lastgroup, match.group(), offset)
        offset = match.end()
    yield Token("end", "", offset)


def _unexpected_character(source: Source, offset: int) -> InvalidInput:
    character, rest = source.text[offset], source.text[offset : offset + 80]
    message, hint = f"unexpected character {character!r}", None
    if character == "$":
        name = re.match(r"\$\{[^}\n]*\}?|\$\w*", rest)
        message = f"unfilled template placeholder {name.group() if name else '$'}"
        hint = "this file is a template: fill it in and commit the result, or point to the result"
    elif character in "\"'":
        return _bad_string(source, offset)
    elif character in _QUOTES:
        message = f"typographic quotation mark {character}"
        hint = "write a plain \" or '; a word processor may have replaced it"
    elif rest.startswith(("//", "/*")):
        hint = "a comment starts with #"
    elif character == "=":
        hint = "a name and its value are joined by ':'"
    elif character == "%" or rest.startswith("@"):
        hint = "is this an unfilled template?"
    elif character == "\ufeff":
        message, hint = "a byte order mark", "save it without one: Triton's parser refuses it"
    elif character.isspace() or not character.isprintable():
        message, hint = f"unexpected character U+{ord(character):04X}", "write a plain space"
    elif re.match(r"[-+.\d]", character):
        message = f"'{_WORD_END.split(rest)[0]}' is not a number"
    return source.error(offset, message, hint)


def _bad_string(source: Source, offset: int) -> InvalidInput:
    """Return what is wrong with a string: an escape that does not exist, or no end."""
    quote, end = source.text[offset], offset + 1
    part = re.compile(rf"[^\\\n{quote}]+|{_ESCAPE}")
    while match := part.match(source.text, end):
        end = match.end()
    if source.text[end : end + 1] == "\\" and source.text[end + 1 : end + 2] not in ("", "\n"):
        escape = source.text[end : end + 2]
        return source.error(
            end, f"there is no escape {escape}", f"write \\{escape} for a backslash"
        )
    return source.error(offset, "this string is not closed on its line", f"close it with {quote}")


class _Parser:
    """Recursive descent with one token of look-ahead; depth is bounded."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._stream = _tokens(source)
        self._next = next(self._stream)

    def file(self) -> Block:
        opener = Token("mark", "", 0)
        fields = self._fields(opener, 0)
        return Block(opener, fields, self._next)

    def _advance(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._stream)
        return token

    def _take(self, *marks: str) -> Token | None:
        return self._advance() if self._next.kind == "mark" and self._next.text in marks else None

    def _error(self, message: str, hint: str | None = None) -> InvalidInput:
        return self._source.error(self._next.start, message, hint)

    def _fields(self, opener: Token, depth: int) -> tuple[Field, ...]:
        """Read fields up to the closing mark of `opener` or the end; the mark is not taken."""
        closer, fields = _CLOSER.get(opener.text), []
        while not (self._next.kind == "end" if closer is None else self._next.text == closer):
            if closer is not None and self._next.kind == "end":
                raise self._source.error(opener.start, f"this '{opener.text}' is never closed")
            fields.append(self._field(depth))
        return tuple(fields)

    def _field(self, depth: int) -> Field:
        if self._next.kind != "name":
            raise self._error(f"expected the name of a field, got {self._next}", self._name_hint())
        name = self._advance()
        colon = self._take(":")
        if self._next.text == "[" and self._next.kind == "mark":
            value: Scalar | Block | ListValue = self._list(depth)
        else:
            value = self._item(depth, name, colon)
        return Field(name, colon, value, self._take(",", ";"))

    def _name_hint(self) -> str | None:
        start = self._next.start
        if self._source.text[start - 1 : start + 1] == "{{":
            return "'{{' looks like an unfilled template: fill it in and commit the result"
        if self._next.text in ("{", "["):
            return "put a name before it; the items of a list are separated by ','"
        if self._next.text in ("}", ">", "]"):
            return f"there is a '{self._next.text}' too many, or its opening mark is missing"
        return "names are not quoted" if self._next.kind == "string" else None

    def _item(self, depth: int, name: Token, colon: Token | None) -> Scalar | Block:
        if self._next.kind == "mark" and self._next.text in _CLOSER:
            return self._block(depth + 1)
        if self._next.kind not in ("string", "number", "name"):
            raise self._error(f"expected a value for {name.text}, got {self._next}")
        if colon is None:
            raise self._error(
                f"expected ':' after {name.text}, got {self._next}", f"write {name.text}: ..."
            )
        return self._scalar()

    def _scalar(self) -> Scalar:
        tokens = [self._advance()]
        while tokens[0].kind == "string" and self._next.kind == "string":
            tokens.append(self._advance())
        return Scalar(tuple(tokens))

    def _block(self, depth: int) -> Block:
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels")
        opener = self._advance()
        fields = self._fields(opener, depth)
        return Block(opener, fields, self._advance())

    def _list(self, depth: int) -> ListValue:
        opener = self._advance()
        items: list[Scalar | Block] = []
        commas: list[Token] = []
        closer = self._take("]")
        while closer is None:
            items.append(self._list_item(opener, commas, depth))
            closer = self._take("]")
            if closer is None:
                commas.append(self._comma(opener))
        return ListValue(opener, tuple(items), tuple(commas), closer)

    def _list_item(self, opener: Token, commas: list[Token], depth: int) -> Scalar | Block:
        if self._next.kind == "mark" and self._next.text in _CLOSER:
            return self._block(depth + 1)
        if self._next.kind in ("string", "number", "name"):
            return self._scalar()
        if self._next.text == "]" and commas:
            message = "nothing follows this ',' in the list"
            raise self._source.error(commas[-1].start, message, "remove the ','")
        if self._next.kind == "end":
            raise self._source.error(opener.start, "this '[' is never closed")
        raise self._error(f"expected an item of the list, got {self._next}")

    def _comma(self, opener: Token) -> Token:
        comma = self._take(",")
        if comma is not None:
            return comma
        if self._next.kind == "end":
            raise self._source.error(opener.start, "this '[' is never closed")
        hint = "separate the items of a list by ','" if self._next.text != ";" else None
        raise self._error(f"expected ',' or ']' in a list, got {self._next}", hint)
