"""What the service refuses to begin with, and whom it does not wait for."""

import socket
from pathlib import Path

import pytest
import requests
from fastapi import FastAPI

from bot.service.host import MOST_CONNECTIONS, Hurried, Options, serve
from bot.service.signature import Secrets
from layers.errors import InvalidInput
from layers.manifest import SandboxMode
from tests.service_on_loopback import served

PATIENCE_S = 60.0
HEAD = b"POST /well HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n"


@pytest.fixture
def url(monkeypatch):
    monkeypatch.setattr(Hurried, "patience_s", 0.2)
    app = FastAPI()

    @app.api_route("/well", methods=["GET", "POST"])
    def well() -> str:
        return "well"

    with served(app) as address:
        yield address


def _connected(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def _read_to_its_end(connection: socket.socket) -> bytes:
    """Read until the other side closes; a test in which it never does fails by the time-out."""
    got = b""
    while more := connection.recv(4096):
        got += more
    return got


def _well(url: str) -> bool:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(f"{url}/well", timeout=PATIENCE_S).ok


def test_connections_on_which_nothing_comes_keep_nobody_out_for_long(url):
    idle = [_connected(url) for _ in range(MOST_CONNECTIONS)]
    try:
        assert [_read_to_its_end(connection) for connection in idle] == [b""] * len(idle)
        assert _well(url)
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"GET /wel", False),
        (HEAD, False),
        (HEAD + b"\r\n", True),  # answered without its body, which never comes
        (b"GET /well HTTP/1.1\r\nHost: here\r\n\r\nG", True),  # and the next one never ends
    ],
)
def test_what_does_not_come_to_its_end_is_not_waited_for(url, sent, answered):
    with _connected(url) as connection:
        connection.sendall(sent)
        got = _read_to_its_end(connection)
    assert got.startswith(b"HTTP/1.1 200") == answered
    assert _well(url)


def test_a_secret_that_can_be_guessed_is_refused_before_anything_is_made(tmp_path: Path):
    options = Options(
        host="127.0.0.1",
        port=0,
        database=tmp_path / "there" / "jobs.sqlite3",
        work=tmp_path / "work",
        server_url="https://github.com",
        worker=False,
        weakest=SandboxMode.STRICT,
        commands_per_hour=1,
    )
    with pytest.raises(InvalidInput, match="fewer than 16 bytes"):
        serve(options, Secrets(["long-enough-to-be-one", "aZ"]), ())
    assert list(tmp_path.iterdir()) == []
