"""git smart HTTP: `git http-backend` as a CGI program, behind the token check of the host."""

from __future__ import annotations

import base64
import binascii
import subprocess
from collections.abc import Mapping

from tests.github.faults import Exchange
from tests.github.git_store import BareRepository
from tests.github.rest import Outgoing
from tests.github.state import RANKS, Token, World


def password(header: str | None) -> str | None:
    """Return the password of a Basic Authorization header."""
    scheme, _, value = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None


def _plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> Outgoing:
    return Outgoing(
        status, {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}, text.encode()
    )


def serve(
    world: World,
    exchange: Exchange,
    token: Token | None,
    headers: Mapping[str, str],
    content: bytes,
) -> Outgoing:
    """Answer one request of git."""
    if token is None:
        message = "Invalid username or token. Password authentication is not supported.\n"
        return _plain(401, message, {"WWW-Authenticate": 'Basic realm="GitHub"'})
    if not exchange.path.startswith(f"/{world.full_name}.git/"):
        return _plain(404, "Repository not found.\n")
    writes = "git-receive-pack" in (exchange.query.get("service"), exchange.path.rsplit("/", 1)[1])
    if not _may(world, token, "write" if writes else "read"):
        return _plain(403, f"Permission to {world.full_name}.git denied to {token.login}.\n")
    answer = _backend(world.git, exchange, token.login, headers, content)
    if exchange.is_write:
        with world.lock:
            world.sync()
    return answer


def _may(world: World, token: Token, wanted: str) -> bool:
    if token.grants is not None:
        return token.grants.get("contents") in (wanted, "write")
    permission = world.person(token.login).permission
    return RANKS.index(permission) >= RANKS.index(wanted)


def _backend(
    git: BareRepository, exchange: Exchange, login: str, headers: Mapping[str, str], content: bytes
) -> Outgoing:
    root = git.path.parent.parent
    query = "&".join(f"{key}={value}" for key, value in exchange.query.items())
    environment = {
        **git.environment(root),
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
        "REQUEST_METHOD": exchange.method,
        "PATH_INFO": exchange.path,
        "QUERY_STRING": query,
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_USER": login,
        "CONTENT_TYPE": headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(content)),
        "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
    }
    done = subprocess.run(
        ["git", "http-backend"],
        cwd=root,
        env=environment,
        input=content,
        capture_output=True,
        check=False,
    )
    return _from_cgi(done.stdout)


def _from_cgi(output: bytes) -> Outgoing:
    """Take a CGI answer apart: headers, an empty line, the body."""
    head, _, body = output.partition(b"\r\n\r\n")
    lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n") if line)
    headers = {name: value for name, _, value in lines}
    status = int(headers.pop("Status", "200").split()[0])
    return Outgoing(status, headers, body)
