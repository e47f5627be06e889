"""What goes wrong on purpose, and the record of every exchange."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from tests.github.rest import DOCS, Reply

WRITES = ("POST", "PATCH", "PUT", "DELETE")
Kind = Literal[
    "500",
    "502",
    "502 after",
    "cut",
    "cut after",
    "403 permission",
    "403 secondary",
    "403 primary",
    "429",
    "404",
    "409",
    "422",
]
_MESSAGES: dict[str, tuple[int, str]] = {
    "500": (500, "Server Error"),
    "502": (502, "Server Error"),
    "502 after": (502, "Server Error"),
    "403 permission": (403, "Resource not accessible by integration"),
    "403 secondary": (
        403,
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
    ),
    "403 primary": (403, "API rate limit exceeded for installation ID 77001."),
    "429": (429, "Too Many Requests"),
    "404": (404, "Not Found"),
    "409": (409, "Conflict"),
    "422": (422, "Validation Failed"),
}


@dataclass(slots=True)
class Exchange:
    """One request and what the client got; `status` 0: the connection was cut.

    `login` is who asked ("" where nobody was recognised); tokens are never kept. `performed` says
    whether the request did its work, whatever the client was told. `reply` is JSON, or None for git.
    """

    method: str
    path: str
    query: dict[str, str]
    body: Any
    status: int = 0
    reply: Any = None
    login: str = ""
    fault: str | None = None
    performed: bool = False

    @property
    def is_git(self) -> bool:
        """Say whether it is one of git's, not REST."""
        return ".git/" in self.path

    @property
    def is_write(self) -> bool:
        """Say whether it changes what people see: no token is minted, no pack only read."""
        if self.is_git:
            return self.method == "POST" and self.path.endswith("/git-receive-pack")
        return self.method in WRITES and not self.path.startswith("/app/")


@dataclass(slots=True)
class Fault:
    """A fault in the queue."""

    kind: Kind
    method: str
    path: str
    nth: int
    times: int
    retry_after_s: int | None
    seen: int = 0
    hits: int = 0

    @property
    def after(self) -> bool:
        """Say whether the request is performed before it fails."""
        return self.kind.endswith(" after")

    @property
    def cuts(self) -> bool:
        """Say whether the client gets no reply at all."""
        return self.kind.startswith("cut")

    def matches(self, exchange: Exchange) -> bool:
        """Say whether this fault is about such a request."""
        methods = WRITES if self.method == "WRITE" else (self.method,)
        if self.method != "*" and exchange.method not in methods:
            return False
        if exchange.is_git and ".git/" not in self.path:
            return False
        return fnmatchcase(exchange.path, self.path)

    def reply(self, reset_at: int) -> Reply:
        """Return the answer, as GitHub words it; `reset_at`: seconds since 1970."""
        status, message = _MESSAGES[self.kind]
        headers = {}
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(self.retry_after_s)
        if self.kind == "403 primary":
            headers |= {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset_at)}
        body = {"message": message, "documentation_url": DOCS, "status": str(status)}
        return Reply(status, body, headers)


@dataclass(slots=True)
class Faults:
    """The queue; faults are independent of each other, the first that strikes wins."""

    after: Callable[[Exchange], None] | None = None
    _queue: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self,
        kind: Kind,
        method: str = "WRITE",
        path: str = "*",
        *,
        nth: int = 1,
        times: int = 1,
        retry_after_s: int | None = None,
    ) -> Fault:
        """Let the nth matching request from now on, and times - 1 after it, go wrong."""
        if kind not in (*_MESSAGES, "cut", "cut after"):
            raise ValueError(f"no such fault: {kind}")
        fault = Fault(kind, method, path, nth, times, retry_after_s)
        with self._lock:
            self._queue.append(fault)
        return fault

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        with self._lock:
            self._queue.clear()
        self.after = None

    def strike(self, exchange: Exchange) -> Fault | None:
        """Count a request; return the fault that it meets."""
        struck = None
        with self._lock:
            for fault in self._queue:
                if not fault.matches(exchange):
                    continue
                fault.seen += 1
                if struck is None and fault.nth <= fault.seen < fault.nth + fault.times:
                    fault.hits += 1
                    struck = fault
        return struck
