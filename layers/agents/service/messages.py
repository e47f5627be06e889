"""Asking a service that speaks the Messages API: within the budget, again where that may help.

Each try is promised to the purse before it is made and charged after it. A reply that was paid for
and not seen, because of a time-out or half a stream, is charged with the most that it can cost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from layers.agents.service.budget import Purse, Usage
from layers.agents.service.replies import MOST_DEPTH, Failed, Read, Streamed, Whole, clean
from layers.agents.service.transcripts import bounded
from layers.errors import InvalidInput, Missing
from layers.redact import redact
from layers.story import Cost, Outcome, Role

if TYPE_CHECKING:
    from types import ModuleType

    from layers.agent_settings import AnthropicSection, ModelSection, Prices

ADDRESS = "https://api.anthropic.com"
TOKENS_BESIDE = 1024  # that a service may add to a request: what it tells the model about tools
MOST_ERROR = 600  # characters
MOST_REQUEST = 8 * 2**20  # bytes: no model reads as much
_CACHED = {"cache_control": {"type": "ephemeral"}}


class ServiceFailed(Exception):
    """There is no reply, after all tries that may help."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        """Keep how it failed and a sentence about it.

        UNREACHABLE, REFUSED, MALFORMED; OUT_OF_TURNS where the conversation has become too long.
        """
        super().__init__(text)
        self.outcome = outcome
        self.text = text


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model replied, as it can be sent back, and what it cost with all tries."""

    content: list[dict[str, Any]]
    stop_reason: str
    cost: Cost
    # by the id of a tool call, why its input could not be read: it stands in `content` as empty
    unreadable: Mapping[str, str] = field(default_factory=dict)


class MessagesClient:
    """Asks one service, with one key."""

    def __init__(
        self,
        section: AnthropicSection,
        api_key: str,
        purse: Purse,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raise Missing without a key or the packages, InvalidInput for what is no key."""
        self._section = section
        self._key = _checked(api_key, section.api_key_from)
        self._purse = purse
        self._sleep = sleep
        self._wire = _wire()
        self._address = section.base_url or ADDRESS  # never one of the environment

    def __repr__(self) -> str:
        """Return which service it is, and no more: the key is in here."""
        return f"MessagesClient({self._address})"

    def ask(
        self,
        model: ModelSection,
        role: Role,
        system: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
    ) -> Reply:
        """Return the reply to a conversation; raises ServiceFailed or OutOfBudget.

        `messages` and `tools` are as the Messages API has them, without marks for its cache.
        """
        mark = self._purse.mark()

        def once() -> Read:
            return self._once(model, role, _request(system, messages, tools))

        try:
            read: Read = self._wire.persistent(once, self._section.tries, self._sleep)
        except Failed as error:
            failed = ServiceFailed(error.outcome, self._safe(error.text))
        else:
            cost = self._purse.since(mark)
            return Reply(read.content, read.stop_reason, cost, read.unreadable)
        raise failed

    def _once(self, model: ModelSection, role: Role, request: dict[str, Any]) -> Read:
        """Try once; whatever comes of it, the purse is charged."""
        self._purse.check()
        request |= {
            "model": model.name,
            "max_tokens": self._purse.affordable_tokens(model),
            "stream": self._section.stream,
        }
        most = _most(request, model.prices)
        longest = request["max_tokens"]
        reply: Whole | Streamed
        reply = Streamed(longest) if self._section.stream else Whole(longest)
        usage = most  # where anything else ends the try
        began = time.monotonic()
        self._purse.promise(role, most, model.prices)
        try:
            self._wire.send(request, self._address, self._key, self._section.timeout_s, reply)
            read = reply.finish()
            usage = read.usage or most
        except Failed as failed:
            usage = reply.at_most(most) if failed.billed else Usage()
            raise
        finally:
            self._purse.charge(role, usage, model.prices, time.monotonic() - began)
        return read

    def _safe(self, text: str) -> str:
        """Return what a service said, without the key that it may have repeated."""
        return bounded(redact(text, (self._key,)), MOST_ERROR)


def _wire() -> ModuleType:
    """Return what talks to the service; raises Missing where its packages are not installed."""
    try:
        from layers.agents.service import wire
    except ModuleNotFoundError as error:
        raise Missing(
            f"a model is to be asked, and the package {error.name!r} is not installed",
            hint="pip install 'fvec[agents]'",
        ) from error
    return wire


def _checked(key: str, name: str) -> str:
    key = key.strip()
    if not key:
        raise Missing(f"there is no key for the service: ${name} is not set", hint=f"set {name}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput(f"what ${name} holds is not a key: it has blanks or other characters")
    return key


def _request(
    system: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what is asked, with the marks up to which a service keeps what it has read.

    They are after the tools, after the system prompt, and after the newest of the conversation.
    """
    request: dict[str, Any] = {"messages": _marked(messages)}
    if system.strip():
        request["system"] = [{"type": "text", "text": system, **_CACHED}]
    if tools:
        request["tools"] = [*tools[:-1], {**tools[-1], **_CACHED}]
    cleaned: dict[str, Any] = clean(request, -MOST_DEPTH)  # a reply in it may be as deep
    return cleaned


def _marked(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Mark the last block that the user said."""
    marked = list(messages)
    for place in range(len(marked) - 1, -1, -1):
        message = marked[place]
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        marked[place] = {**message, "content": [*blocks[:-1], {**blocks[-1], **_CACHED}]}
        break
    return marked


def _most(request: Mapping[str, Any], prices: Prices | None) -> Usage:
    """Return the most that a request can cost: no token is shorter than a byte.

    What the model reads is counted at the dearest price that reading has. Raises Failed for a
    request that is longer than any may be: a service may say of each reply that it cost nothing.
    """
    size = len(json.dumps(request, ensure_ascii=False).encode())
    if size > MOST_REQUEST:
        told = f"the conversation has become longer than {MOST_REQUEST:,} bytes"
        raise Failed(told, Outcome.OUT_OF_TURNS, again=False, billed=False)
    size += TOKENS_BESIDE
    dearest = "input_tokens"
    if prices is not None:
        _, dearest = max(
            (prices.cache_read, "cache_read_tokens"),
            (prices.cache_write, "cache_write_tokens"),
            (prices.input, "input_tokens"),
        )
    return Usage(**{dearest: size, "output_tokens": request["max_tokens"]})
