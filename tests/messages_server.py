"""A server on loopback that speaks the Messages API, streaming and not, and breaks when told to.

It objects to what the service objects to, keeps a cache of prompts as the service does, and counts
what it bills: also for replies that nobody saw.
"""

import gzip
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

from layers.agents.service.budget import Usage

Block = dict[str, Any]
UNSEEN = ("timeout", "drip", "half_stream", "no_end", "malformed_json", "disconnect", "empty")
STALLING = ("slow_headers", "early_hints")  # unseen, too: an answer that never begins
MOST_DRIPS = 1000  # of what has no end: so that a test fails where nothing else ends it
_STATUS = {
    "429": (429, "rate_limit_error"),
    "529": (529, "overloaded_error"),
    "500": (500, "api_error"),
    "504": (504, "timeout_error"),
    "401": (401, "authentication_error"),
    "400": (400, "invalid_request_error"),
}


@dataclass(frozen=True)
class Say:
    """A reply. The input of a tool may be text: it is sent as it is, where it is a stream."""

    text: str = ""
    tools: list[tuple[str, dict[str, Any] | str]] = field(default_factory=list)
    stop_reason: str | None = None
    usage: Usage | None = None
    blocks: list[Block] = field(default_factory=list)  # before the text, as they are


@dataclass(frozen=True)
class Fault:
    """What breaks.

    timeout: no answer. drip: one that never ends. half_stream: the connection breaks within a
    reply. no_end: a stream that ends properly, and too early. malformed_json, empty: what they say.
    disconnect: the connection ends without an answer. error_event: an error after the first event.
    redirect: to `retry_after`, which is an address then. slow_headers: they come byte by byte.
    early_hints: one announcement of an answer after the other. endless_error, slow_error: a status
    whose body has no end. packed: a reply that is compressed. The rest are statuses.
    """

    kind: Literal[
        "429",
        "529",
        "500",
        "504",
        "401",
        "400",
        "timeout",
        "drip",
        "half_stream",
        "no_end",
        "malformed_json",
        "disconnect",
        "empty",
        "error_event",
        "redirect",
        "slow_headers",
        "early_hints",
        "endless_error",
        "slow_error",
        "packed",
    ]
    retry_after: float | str | None = None


@dataclass(frozen=True)
class Asked:
    """What came in."""

    body: dict[str, Any]
    headers: dict[str, str]  # by name in lower case

    @property
    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools", [])]

    @property
    def answer_tool(self) -> str:
        """The tool that ends the conversation: it is offered last."""
        return self.tools[-1] if self.tools else ""

    @property
    def last_text(self) -> str:
        """What the last message says: its text, and what its results of tools hold."""
        blocks = _blocks(self.body["messages"][-1])
        return "\n".join(str(block.get("text", block.get("content", ""))) for block in blocks)

    @property
    def turn(self) -> int:
        """How many times the model has spoken before."""
        return sum(message["role"] == "assistant" for message in self.body["messages"])


Script = Callable[[Asked], Say | Fault]


class MessagesServer:
    """Serves while the block runs; an error of the script is raised at its end."""

    def __init__(self, script: Script) -> None:
        self.asked: list[Asked] = []
        self.billed = Usage()
        self.bills: list[Usage] = []  # one for each reply, in order
        self.errors: list[BaseException] = []
        self.closing = threading.Event()
        self.dripped = 0  # pieces of an answer without end
        self._script = script
        self._cache: set[str] = set()
        self._arrived = threading.Condition()

    def __enter__(self) -> Self:
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        if self.errors:
            raise self.errors[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def wait_for(self, count: int) -> None:
        """Return once that many requests have come in and are billed."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.bills) >= count, timeout=60)

    def answer(self, asked: Asked) -> tuple[Say | Fault | str, Usage]:
        """Return what to say to a request, or an objection; and what it is billed with."""
        with self._arrived:
            self.asked.append(asked)
            if objection := _objection(asked):
                return objection, Usage()
            said = self._script(asked)
            bill = self._bill(asked, said)
            self.billed += bill
            self.bills.append(bill)
            self._arrived.notify_all()
            return said, bill

    def _bill(self, asked: Asked, said: Say | Fault) -> Usage:
        most = asked.body["max_tokens"]
        if isinstance(said, Say):
            if said.usage is not None:
                return said.usage
            written = sum(_tokens(json.dumps(block)) for block in _content(said, 0))
            return self._read(asked.body, min(written, most))
        if said.kind in (*UNSEEN, *STALLING) or (
            said.kind == "error_event" and asked.body.get("stream")
        ):
            return self._read(asked.body, most)  # the longest reply, which nobody sees
        return Usage()

    def _read(self, body: dict[str, Any], written: int) -> Usage:
        """Return what is read from the cache, into it, and past it."""
        prefix, total = hashlib.sha256(), 0
        ends: list[tuple[str, int, bool]] = []
        for piece, marked in _pieces(body):
            prefix.update(piece.encode())
            total += _tokens(piece)
            ends.append((prefix.hexdigest(), total, marked))
        read = max((at for digest, at, _ in ends if digest in self._cache), default=0)
        kept = max((at for _, at, marked in ends if marked), default=0)
        self._cache |= {digest for digest, _, marked in ends if marked}
        return Usage(
            input_tokens=total - max(read, kept),
            output_tokens=written,
            cache_read_tokens=read,
            cache_write_tokens=max(0, kept - read),
        )


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, world: MessagesServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.world = world

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep what the script raised; that a client went away is its own affair."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.world.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Write no access log."""

    def _answer(self) -> None:
        self.close_connection = True
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/messages":
            self._error(404, "not_found_error", self.path)
            return
        asked = Asked(body, {name.lower(): value for name, value in self.headers.items()})
        said, bill = self.server.world.answer(asked)
        if isinstance(said, str):
            self._error(400, "invalid_request_error", said)
        elif isinstance(said, Say):
            self._say(asked, said, bill)
        elif said.kind in _STATUS:
            self._status(asked, said)
        else:
            self._break(said, bill, streams=bool(body.get("stream")))

    def _status(self, asked: Asked, fault: Fault) -> None:
        status, kind = _STATUS[fault.kind]
        headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        # A careless service repeats the key that it was given.
        self._error(status, kind, f"not for {asked.headers.get('x-api-key')}", headers)

    def _error(
        self, status: int, kind: str, text: str, headers: dict[str, str] | None = None
    ) -> None:
        error = {"type": "error", "error": {"type": kind, "message": text}}
        self._whole(status, json.dumps(error).encode(), headers)

    def _say(self, asked: Asked, say: Say, bill: Usage) -> None:
        number = len(self.server.world.asked)
        if asked.body.get("stream"):
            self._begin_stream()
            for event in _events(say, bill, number):
                self._chunk(event)
            self._chunk(b"")
        else:
            message = _message(say, bill, number, _content(say, number, whole=True))
            self._whole(200, json.dumps(message, ensure_ascii=False).encode())

    def _break(self, fault: Fault, bill: Usage, *, streams: bool) -> None:
        if fault.kind == "timeout":
            self.server.world.closing.wait()
        elif fault.kind == "redirect":
            self._whole(307, b"", {"Location": str(fault.retry_after)})
        elif fault.kind == "empty":
            self._whole(200, b"")
        elif fault.kind == "packed":
            self._whole(200, gzip.compress(b"{}"), {"Content-Encoding": "gzip"})
        elif fault.kind in (*STALLING, "endless_error", "slow_error"):
            self._without_end(fault.kind)
        elif fault.kind != "disconnect" and streams:
            self._break_stream(fault, bill)
        elif fault.kind != "disconnect":
            self._break_whole(fault)

    def _break_stream(self, fault: Fault, bill: Usage) -> None:
        events = list(_events(Say("Half a sentence, and", [("half", {"a": 1})]), bill, 0))
        self._begin_stream()
        if fault.kind == "half_stream":
            text = b"".join(events)
            self._chunk(text[: len(text) // 2])
            return  # no last chunk: the connection breaks
        if fault.kind == "no_end":
            for event in events[: len(events) // 2]:
                self._chunk(event)
        elif fault.kind == "error_event":
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
            self._chunk(events[0] + _event("error", error))
        elif fault.kind == "malformed_json":
            self._chunk(events[0] + b'event: content_block_start\ndata: {"type": "conte\n\n')
        else:
            self._drip(events[0], _event("ping", {"type": "ping"}))
        self._chunk(b"")

    def _break_whole(self, fault: Fault) -> None:
        if fault.kind in ("half_stream", "no_end"):
            self._head(200, {"Content-Length": "1000"})
            self.wfile.write(b'{"id": "msg_1", "type": "message", "content": [{"type": "text", "te')
        elif fault.kind == "error_event":
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
            self._whole(200, json.dumps(error).encode())
        elif fault.kind == "malformed_json":
            self._whole(200, b'{"id": "msg_1", "type": "message", "content": [{"type": "te')
        else:
            self._head(200, {"Transfer-Encoding": "chunked"})
            self._drip(b" ", b" ")

    def _drip(self, first: bytes, then: bytes) -> None:
        """Say something all the time, and never come to an end."""
        self._chunk(first)
        while not self.server.world.closing.wait(0.02):
            self._chunk(then)

    def _without_end(self, kind: str) -> None:
        """Begin an answer that never comes to its body, or a body of an error without end."""
        if kind == "slow_headers":
            self._slowly(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a")
        elif kind == "early_hints":
            self._slowly(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n")
        else:
            self._head(500, {"Transfer-Encoding": "chunked"})
            piece = b"x" * (32 * 1024 if kind == "endless_error" else 1)
            self._slowly(b"", f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

    def _slowly(self, first: bytes, then: bytes) -> None:
        self.wfile.write(first)
        for _ in range(MOST_DRIPS):
            if self.server.world.closing.wait(0.02):
                return
            self.wfile.write(then)
            self.server.world.dripped += 1

    def _whole(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self._head(status, {**(headers or {}), "Content-Length": str(len(body))})
        self.wfile.write(body)

    def _begin_stream(self) -> None:
        self._head(200, {"Transfer-Encoding": "chunked"}, "text/event-stream; charset=utf-8")

    def _head(self, status: int, headers: dict[str, str], kind: str = "application/json") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Type": kind, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


for _method in ("POST",):
    setattr(_Handler, f"do_{_method}", _Handler._answer)


def _message(say: Say, bill: Usage, number: int, content: list[Block]) -> Block:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": say.stop_reason or ("tool_use" if say.tools else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": bill.input_tokens,
            "output_tokens": bill.output_tokens,
            "cache_read_input_tokens": bill.cache_read_tokens,
            "cache_creation_input_tokens": bill.cache_write_tokens,
        },
    }


def _content(say: Say, number: int, *, whole: bool = False) -> list[Block]:
    """Return the blocks of a reply; what was cut off of an input is not in a whole one."""
    text = [{"type": "text", "text": say.text}] if say.text else []
    calls: list[Block] = []
    for place, (name, given) in enumerate(say.tools):
        cut = whole and isinstance(given, str) and say.stop_reason == "max_tokens"
        calls.append(
            {
                "type": "tool_use",
                "id": f"toolu_{number}_{place}",
                "name": name,
                "input": {} if cut else given,
            }
        )
    return [*say.blocks, *text, *calls]


def _events(say: Say, bill: Usage, number: int) -> Iterator[bytes]:
    """Return a reply as a stream: as the service sends it, in small pieces."""
    message = _message(say, bill, number, [])
    usage = {**message["usage"], "output_tokens": 1}
    start = {**message, "stop_reason": None, "usage": usage}
    yield _event("message_start", {"type": "message_start", "message": start})
    yield _event("ping", {"type": "ping"})
    for index, block in enumerate(_content(say, number)):
        opened, deltas = _in_pieces(block)
        yield _event("content_block_start", {"index": index, "content_block": opened})
        for delta in deltas:
            yield _event("content_block_delta", {"index": index, "delta": delta})
        yield _event("content_block_stop", {"index": index})
        yield _event("content_block_admired", {"index": index})  # one that is yet to be invented
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    written = {"output_tokens": bill.output_tokens}
    yield _event("message_delta", {"delta": delta, "usage": written})
    yield _event("message_stop", {})


def _event(kind: str, data: Block) -> bytes:
    text = json.dumps({"type": kind, **data}, ensure_ascii=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()


def _in_pieces(block: Block) -> tuple[Block, list[Block]]:
    """Return how a block begins in a stream, and what is added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [
            {"type": "text_delta", "text": piece} for piece in _cut(block["text"], 7)
        ]
    if block["type"] == "tool_use":
        given = block["input"]
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        return {**block, "input": {}}, [
            {"type": "input_json_delta", "partial_json": piece} for piece in ["", *_cut(text, 5)]
        ]
    if block["type"] == "thinking":
        return {**block, "thinking": "", "signature": ""}, [
            *({"type": "thinking_delta", "thinking": p} for p in _cut(block["thinking"], 9)),
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    return block, []


def _cut(text: str, length: int) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]


def _blocks(message: dict[str, Any]) -> list[Block]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _pieces(body: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Return what a cache goes by, in its order; and whether a piece is marked to be kept."""
    said = [(m["role"], block) for m in body["messages"] for block in _blocks(m)]
    before = [("", block) for block in [*body.get("tools", []), *body.get("system", [])]]
    for role, block in [*before, *said]:
        plain = {name: value for name, value in block.items() if name != "cache_control"}
        yield json.dumps([role, plain], sort_keys=True), "cache_control" in block


def _tokens(text: str) -> int:
    return len(text.encode()) // 4 + 1


def _objection(asked: Asked) -> str:
    """Return what the service would find wrong with a request."""
    body, messages = asked.body, asked.body.get("messages") or [{}]
    if "x-api-key" not in asked.headers or "anthropic-version" not in asked.headers:
        return "a header is missing"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        return "max_tokens: not a positive number"
    if messages[0].get("role") != "user":
        return "messages: the first is not the user's"
    if sum(marked for _, marked in _pieces(body)) > 4:
        return "cache_control: more than four"
    for message in messages:
        for block in _blocks(message):
            if block["type"] == "text" and not block["text"].strip():
                return "messages: a text is empty"
        if not message["content"]:
            return "messages: one is empty"
    return _unanswered(messages)


def _unanswered(messages: list[dict[str, Any]]) -> str:
    """Return what is wrong with results of tools: one for each call, right after it."""
    called: set[str] = set()
    for message in messages:
        results = {b["tool_use_id"] for b in _blocks(message) if b["type"] == "tool_result"}
        if results != called:
            return f"messages: tool_use {sorted(called)}, and tool_result {sorted(results)}"
        called = {b["id"] for b in _blocks(message) if b["type"] == "tool_use"}
    return ""
