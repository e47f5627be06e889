"""An HTTP server on loopback that answers what a test tells it to, one answer after the other."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CUT = "cut"  # an answer: the connection ends without one


@dataclass(frozen=True)
class Said:
    """What the server answers once; a text is sent as it is, all else as JSON, None as nothing."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class ScriptedServer(ThreadingHTTPServer):
    """Gives `answers` away, then empty objects; `asked` is what came in."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Said | str] = []
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def lines(self) -> list[str]:
        return [f"{asked.method} {asked.path}" for asked in self.asked]


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer

    def log_message(self, *args: object) -> None:
        """Write no access log."""

    def _answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(content) if content else None
        self.server.asked.append(Asked(self.command, self.path, dict(self.headers), body))
        said = self.server.answers.pop(0) if self.server.answers else Said(body={})
        if isinstance(said, str):
            return
        text = said.body if isinstance(said.body, str) else json.dumps(said.body)
        data = b"" if said.body is None else text.encode()
        self.send_response(said.status)
        for name, value in {**said.headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


for _method in ("GET", "POST", "PATCH", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler._answer)


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Serve while the block runs."""
    with ScriptedServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
