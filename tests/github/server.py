"""The HTTP side of the fake: REST and git smart HTTP on one port of 127.0.0.1."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

# The modules of routes register themselves when they are imported.
from tests.github import rest_app, rest_checks, rest_git, rest_issues, rest_pulls, smart_http
from tests.github.app import App
from tests.github.faults import WRITES, Exchange, Faults
from tests.github.rest import Outgoing, Refused, Reply, Request, check_access, error, find
from tests.github.shapes import Site
from tests.github.state import Token, World

ROUTE_MODULES = (rest_app, rest_checks, rest_git, rest_issues, rest_pulls)
_MAX_BODY_BYTES = 200 * 2**20
REQUEST_ID = "X-GitHub-Request-Id"  # here: the place in the record of exchanges


class Cut(Exception):
    """The connection is to be broken without a reply."""


class GitHubServer(ThreadingHTTPServer):
    """Serves one world; every exchange is appended to `exchanges`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, world: World, app: App, faults: Faults) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.world = world
        self.app = app
        self.faults = faults
        self.exchanges: list[Exchange] = []
        self.failures: list[str] = []  # what broke in the fake itself

    @property
    def url(self) -> str:
        """Return the address that it is reached at."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what broke here; a client that went away did so on purpose."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            self.failures.append(traceback.format_exc())

    def outcome(
        self, exchange: Exchange, headers: Mapping[str, str], content: bytes
    ) -> Outgoing | None:
        """Perform one request, or let it go wrong; None: the connection is to be cut."""
        if not exchange.is_git:
            exchange.body = _decoded(content)
        fault = self.faults.strike(exchange)
        answer = None
        if fault is None or fault.after:
            answer = self._performed(exchange, headers, content)
            exchange.performed = answer.status < 400
        if fault is not None:
            exchange.fault = fault.kind
            reset = math.ceil((self.world.now() + timedelta(hours=1)).timestamp())
            answer = None if fault.cuts else _outgoing(exchange, fault.reply(reset))
        exchange.status = answer.status if answer else 0
        number = self._record(exchange)
        if answer is None:
            return None
        return replace(answer, headers={**answer.headers, REQUEST_ID: str(number)})

    def _record(self, exchange: Exchange) -> int:
        """Keep an exchange; return its place in the record."""
        with self.world.lock:
            self.exchanges.append(exchange)
            number = len(self.exchanges) - 1
        if self.faults.after is not None:
            self.faults.after(exchange)
        return number

    def _performed(
        self, exchange: Exchange, headers: Mapping[str, str], content: bytes
    ) -> Outgoing:
        if exchange.is_git:
            token = self._token(smart_http.password(headers.get("Authorization")))
            exchange.login = token.login if token else ""
            return smart_http.serve(self.world, exchange, token, headers, content)
        with self.world.lock:
            try:
                reply = self._rest(exchange, headers, content)
            except Refused as refused:
                reply = refused.reply
        return _outgoing(exchange, reply)

    def _rest(self, exchange: Exchange, headers: Mapping[str, str], content: bytes) -> Reply:
        if content and exchange.body is None:
            raise error(400, "Problems parsing JSON")
        token = self._asker(headers.get("Authorization", ""))
        exchange.login = token.login if token else f"{self.app.slug}[bot]"
        known, params = find(exchange.method, exchange.path)
        request = Request(
            self._site(headers.get("Host", "")),
            self.app,
            params,
            exchange.query,
            exchange.body,
            token,
            exchange.path,
        )
        check_access(known, request)
        return known.handler(request)

    def _site(self, host: str) -> Site:
        """Return the addresses to answer with: those of the host that was asked."""
        if host == "api.github.com":
            return Site(self.world, "https://api.github.com", "https://github.com")
        return Site(self.world, self.url, self.url)

    def _token(self, text: str | None) -> Token | None:
        token = self.world.tokens.get(text or "")
        if token and token.expires_at and token.expires_at <= self.world.now():
            return None
        return token

    def _asker(self, header: str) -> Token | None:
        """Return who asks; None: the App itself. 401 for anybody else."""
        scheme, _, value = header.partition(" ")
        if scheme.lower() not in ("bearer", "token"):
            raise error(401, "Requires authentication")
        if value.count(".") == 2:
            if not self.app.signed(value):
                raise error(401, "A JSON web token could not be decoded")
            return None
        token = self._token(value)
        if token is None:
            raise error(401, "Bad credentials")
        return token


def _decoded(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return None


def _outgoing(exchange: Exchange, reply: Reply) -> Outgoing:
    exchange.reply = reply.body
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "X-RateLimit-Limit": "5000",
        "X-RateLimit-Remaining": "4999",
        "X-RateLimit-Resource": "core",
        **reply.headers,
    }
    content = b"" if reply.body is None else json.dumps(reply.body).encode()
    return Outgoing(reply.status, headers, content)


class _Handler(BaseHTTPRequestHandler):
    server: GitHubServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:
        """Write no access log."""

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        exchange = Exchange(self.command, parts.path, query, None)
        try:
            answer = self.server.outcome(exchange, self.headers, self._content())
        except Cut:
            answer = None
        self.close_connection = True
        if answer is not None:
            self._send(answer)
            return
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _content(self) -> bytes:
        """Read the body; git sends large packs in chunks."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return b"".join(iter(self._chunk, b""))
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MAX_BODY_BYTES:
            raise Cut
        return self.rfile.read(length)

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        chunk = self.rfile.read(size)
        self.rfile.readline()
        return chunk

    def _send(self, answer: Outgoing) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() == "content-length":  # told below, of what is really sent
                continue
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.content)


for _method in ("GET", *WRITES):
    setattr(_Handler, f"do_{_method}", _Handler._answer)
