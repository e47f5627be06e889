"""What a service that speaks the Messages API answers, read strictly: whole, or as a stream. Pure.

Nothing is trusted: what is not a reply ends the try with `Failed`, and `at_most` says what it may
have cost all the same. The input of a tool call that cannot be read does not end it: the model is
told, and may mend it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from layers.agents.service.budget import Usage
from layers.agents.service.transcripts import bounded
from layers.story import Outcome

MOST_TOKENS = 200_000  # of one reply, where nobody says how many it may have
TOKEN_BYTES = 64  # more than all but a few tokens have as text
EVENT_BYTES = 512  # of a token that comes by itself, as an event of a stream
BYTES_BESIDE = 64 * 1024  # in a reply, whatever its length
MOST_BLOCKS = 256  # of one reply
MOST_COUNT = 1_000_000_000  # tokens that a service may say it counted, of each kind
MOST_DEPTH = 40  # of what a reply holds
MOST_SAID = 300  # characters of what a service says about an error
# What passes by itself, as the service calls it; the same as 429, 500, 529 and 504 are.
PASSING = frozenset({"rate_limit_error", "api_error", "overloaded_error", "timeout_error"})
# That a request was wrong in itself is the rest of it; these are about who asks, and whom.
_ABOUT_ACCESS = frozenset({"authentication_error", "permission_error", "not_found_error"})
_PIECES = {  # the field of each kind of delta, which is text that is put together
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class Failed(Exception):
    """One try that gave no usable reply."""

    def __init__(
        self,
        text: str,
        outcome: Outcome = Outcome.UNREACHABLE,
        *,
        again: bool = True,
        billed: bool = True,
        after_s: float | None = None,
    ) -> None:
        """Say why; whether to ask again, and when; and whether it may have been billed."""
        super().__init__(text)
        self.text = text
        self.outcome = outcome
        self.again = again
        self.billed = billed
        self.after_s = after_s


@dataclass(frozen=True, slots=True)
class Read:
    """A reply, as it can be sent back: no empty text, nothing that no request may hold."""

    content: list[dict[str, Any]]
    stop_reason: str
    usage: Usage | None  # None: the service does not say
    unreadable: dict[str, str]  # by the id of a tool call: why its input could not be read


class Whole:
    """A reply that comes in one piece."""

    done = False  # only its end says so

    def __init__(self, max_tokens: int = MOST_TOKENS) -> None:
        """Nothing has come in so far of a reply that may have so many tokens."""
        self._body = bytearray()
        self._most = BYTES_BESIDE + max_tokens * TOKEN_BYTES

    def feed(self, chunk: bytes) -> None:
        """Take in what came."""
        self._body += chunk
        _bound(len(self._body), self._most)

    def finish(self) -> Read:
        """Return the reply; raises Failed where there is none."""
        if not self._body.strip():
            raise Failed("the reply is empty")
        return message_of(_object(bytes(self._body)))

    def at_most(self, most: Usage) -> Usage:
        """Return what it can have cost at most; `most` by what was asked."""
        return most


class Streamed:
    """A reply that comes in as events."""

    def __init__(self, max_tokens: int = MOST_TOKENS) -> None:
        """Nothing has come in so far of a reply that may have so many tokens."""
        self.done = False
        self._size = 0
        self._most = BYTES_BESIDE + max_tokens * EVENT_BYTES
        self._held = 0  # of the size: what the blocks are made of
        self._most_held = BYTES_BESIDE + max_tokens * TOKEN_BYTES
        self._rest = bytearray()  # of a line
        self._kind = ""  # of the event that comes in
        self._data: list[bytes] = []
        self._begun = False
        self._counts: dict[str, int] = {}
        self._counted = False  # the output too, at the end
        self._stop_reason: str | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, dict[str, list[str]]] = {}  # by block, then by field

    def feed(self, chunk: bytes) -> None:
        """Take in what came; `done` says when the rest does not matter."""
        self._size += len(chunk)
        _bound(self._size, self._most)
        start = len(self._rest)
        self._rest += chunk
        while not self.done and (end := self._rest.find(b"\n", start)) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            start = 0
            self._line(line.removesuffix(b"\r"))

    def finish(self) -> Read:
        """Return the reply; raises Failed where it did not come to its end."""
        if not self.done:
            raise Failed("the stream broke off" if self._begun else "the reply is empty")
        return message_of(
            {
                "content": [self._whole(index) for index in sorted(self._blocks)],
                "stop_reason": self._stop_reason,
                "usage": self._counts if self._counted else None,
            }
        )

    def at_most(self, most: Usage) -> Usage:
        """Return what it can have cost at most; `most` by what was asked.

        What the model read is known from the first event; how much it wrote is not.
        """
        told = _usage(self._counts)
        if told is None or not told.tokens_in:
            return most
        return replace(told, output_tokens=max(told.output_tokens, most.output_tokens))

    def _line(self, line: bytes) -> None:
        """Take in one line of an event; an empty one ends it."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._kind = value.decode("utf-8", "replace")
        elif not line:
            data, kind = b"\n".join(self._data), self._kind
            self._data, self._kind = [], ""
            if data:
                self._event(_object(data), kind, len(data))

    def _event(self, event: dict[str, Any], named: str, size: int) -> None:
        """Take in one event; those of other kinds are not for us, as the protocol has it."""
        kind = event.get("type", named)
        if kind == "error":
            raise error_of(event, billed=self._begun)
        if kind == "message_start":
            self._begun = True
            self._count(event.get("message"))
        elif kind == "content_block_start":
            self._blocks[_index(event)] = dict(_part(event, "content_block"))
            _few(len(self._blocks))
            self._hold(size)
        elif kind == "content_block_delta":
            self._delta(_index(event), _part(event, "delta"))
        elif kind == "message_delta":
            self._end(event)
        elif kind == "message_stop":
            self.done = True

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        field = _PIECES.get(str(delta.get("type")))
        if field is None:
            return
        piece = delta.get(field)
        if index not in self._blocks or not isinstance(piece, str):
            raise _malformed("an event of the stream belongs to no block, or holds no text")
        self._pieces.setdefault(index, {}).setdefault(field, []).append(piece)
        self._hold(len(piece.encode("utf-8", "replace")))

    def _hold(self, size: int) -> None:
        self._held += size
        _bound(self._held, self._most_held)

    def _end(self, event: dict[str, Any]) -> None:
        reason = _part(event, "delta").get("stop_reason")
        if isinstance(reason, str):
            self._stop_reason = reason
        self._counted = self._count(event) or self._counted

    def _count(self, holder: object) -> bool:
        """Take in numbers of tokens, which only grow; return whether the output is among them."""
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if not isinstance(usage, dict):
            return False
        for name, number in usage.items():
            if isinstance(number, int):
                self._counts[name] = max(number, self._counts.get(name, 0))
        return isinstance(usage.get("output_tokens"), int)

    def _whole(self, index: int) -> dict[str, Any]:
        """Put a block together; the input of a tool call is left as the text that it came as."""
        block = self._blocks[index]
        for field, pieces in self._pieces.get(index, {}).items():
            text = "".join(pieces)
            if field == "partial_json":
                block["input"] = text
            else:
                block[field] = f"{block.get(field) or ''}{text}"
        return block


def message_of(message: dict[str, Any]) -> Read:
    """Read a message; raises Failed where it is none, or tells of an error."""
    if message.get("type") == "error":
        raise error_of(message, billed=False)
    content, reason = message.get("content"), message.get("stop_reason")
    if not isinstance(content, list) or not isinstance(reason, str):
        raise _malformed("the reply is no message: it has no list of content or no stop_reason")
    _few(len(content))
    unreadable: dict[str, str] = {}
    try:
        blocks = [read for block in content if (read := _block(block, unreadable)) is not None]
    except ValueError as error:
        raise _malformed(f"the reply is no message: {error}") from None
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if len(set(ids)) < len(ids):
        raise _malformed("two tool calls of the reply have one id")
    return Read(blocks, reason, _usage(message.get("usage")), unreadable)


def error_of(event: dict[str, Any], *, billed: bool) -> Failed:
    """Return what an error says that came where a reply was expected."""
    kind, said = error_text(event)
    again = kind in PASSING
    outcome = Outcome.UNREACHABLE if again or kind in _ABOUT_ACCESS else Outcome.REFUSED
    return Failed(f"the service says {kind}: {said}", outcome, again=again, billed=billed)


def error_text(body: object) -> tuple[str, str]:
    """Return the kind of an error and what the service says about it, from its body."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "error", bounded(str(body), MOST_SAID) if body else "nothing more"
    return str(error.get("type", "error"))[:64], bounded(str(error.get("message")), MOST_SAID)


def clean(value: object, depth: int = 0) -> Any:  # noqa: ANN401  # plain data of any shape
    """Return plain data as a request may hold it: no lone surrogates; ValueError for the rest."""
    if depth > MOST_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it holds a number that is not finite")
    if isinstance(value, dict):
        return {clean(name): clean(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner, depth + 1) for inner in value]
    return value


def _block(block: object, unreadable: dict[str, str]) -> dict[str, Any] | None:
    """Read one block; None where it is text without any. ValueError where it is no block."""
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        raise ValueError("a block of it has no type")
    if block["type"] == "tool_use":
        return _call(block, unreadable)
    if block["type"] == "text":
        text = clean(block.get("text"))
        if not isinstance(text, str):
            raise ValueError("a block of text has none")
        return {"type": "text", "text": text} if text.strip() else None
    read: dict[str, Any] = clean(block)
    return read


def _call(block: dict[str, Any], unreadable: dict[str, str]) -> dict[str, Any]:
    """Read a tool call; where its input cannot be read, it stands there as empty."""
    name, number = block.get("name"), block.get("id")
    if not isinstance(name, str) or not isinstance(number, str) or not number:
        raise ValueError("a tool call of it has no name or no id")
    given: dict[str, Any] = {}
    try:
        given = _input(block.get("input"))
    except ValueError as error:
        unreadable[number] = str(error)
    return {"type": "tool_use", "id": number, "name": clean(name), "input": given}


def _input(value: object) -> dict[str, Any]:
    """Return the input of a tool call; ValueError, with the place, where it is not one."""
    if isinstance(value, str):
        value = _parsed(value) if value.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("the input is not a JSON object")
    read: dict[str, Any] = clean(value)
    return read


def _parsed(text: str) -> Any:  # noqa: ANN401  # plain data of any shape
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        around = text[max(0, error.pos - 40) : error.pos + 40]
        raise ValueError(
            f"the input is not JSON: {error.msg} at character {error.pos + 1}, near {around!r}"
        ) from None
    except RecursionError:
        raise ValueError("the input is nested too deeply") from None


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise _malformed("the reply is not JSON") from None
    if not isinstance(found, dict):
        raise _malformed("the reply is not a JSON object")
    return found


class _Counts(BaseModel):
    """Numbers of tokens, as a reply has them."""

    model_config = ConfigDict(extra="ignore")

    input_tokens: int = Field(ge=0, le=MOST_COUNT)
    output_tokens: int = Field(ge=0, le=MOST_COUNT)
    cache_read_input_tokens: int | None = Field(default=None, ge=0, le=MOST_COUNT)
    cache_creation_input_tokens: int | None = Field(default=None, ge=0, le=MOST_COUNT)


def _usage(counts: object) -> Usage | None:
    """Return what a reply says that it cost; None where it does not, or says what cannot be."""
    try:
        told = _Counts.model_validate(counts)
    except ValidationError:
        return None
    return Usage(
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        cache_read_tokens=told.cache_read_input_tokens or 0,
        cache_write_tokens=told.cache_creation_input_tokens or 0,
    )


def _index(event: dict[str, Any]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise _malformed("an event of the stream has no index")
    return index


def _part(event: dict[str, Any], name: str) -> dict[str, Any]:
    part = event.get(name)
    if not isinstance(part, dict):
        raise _malformed(f"an event of the stream has no {name}")
    return part


def _bound(size: int, most: int) -> None:
    if size > most:
        raise _malformed(f"the reply is longer than {most:,} bytes")


def _few(blocks: int) -> None:
    if blocks > MOST_BLOCKS:
        raise _malformed(f"the reply has more than {MOST_BLOCKS} blocks")


def _malformed(text: str) -> Failed:
    return Failed(text, Outcome.MALFORMED)
