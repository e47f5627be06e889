"""Who sent a delivery: HMAC-SHA256 over its raw bytes, as GitHub signs them. Pure."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable

HEADER = "X-Hub-Signature-256"
PREFIX = "sha256="
SHORTEST = 16  # bytes of a secret; fewer can be guessed
_LINES = re.compile(r"[\r\n]")


class Secrets:
    """The webhook's secrets: several while one is being exchanged for another. Shows none."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[str]) -> None:
        """Keep the secrets; raises ValueError where there is none, or an empty one."""
        self._values = tuple(value.encode() for value in values)
        if not all(self._values) or not self._values:
            raise ValueError("a webhook needs a secret that is not empty")

    @classmethod
    def parse(cls, text: str) -> Secrets:
        """Read secrets, one a line, without the white space around them.

        A comma may be part of a secret, so a line with commas is one as it stands; what is between
        them counts too where all of it is long enough, as several secrets on one line.
        Raises ValueError where there is none.
        """
        return cls(secret for line in _LINES.split(text) for secret in _of_line(line.strip()))

    @property
    def shortest(self) -> int:
        """Return the length of the shortest one, in bytes."""
        return min(map(len, self._values))

    def signed(self, body: bytes, header: str | None) -> bool:
        """Say whether `header` is the signature of `body` by one of the secrets.

        Every secret is tried and compared in constant time. Any text is an answer of False, for
        bytes are compared: text that is not ASCII would raise.
        """
        if header is None:
            return False
        given = header.encode("utf-8", "surrogatepass")
        matches = [hmac.compare_digest(given, _sign(body, secret)) for secret in self._values]
        return any(matches)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<{len(self)} webhook secrets>"


def sign(body: bytes, secret: str) -> str:
    """Return the header that a sender who knows `secret` adds to `body`."""
    return _sign(body, secret.encode()).decode()


def _of_line(line: str) -> list[str]:
    if not line.replace(",", "").strip():
        return []
    parts = [part.strip() for part in line.split(",") if part.strip()]
    several = len(parts) > 1 and all(len(part.encode()) >= SHORTEST for part in parts)
    return [line, *parts] if several else [line]


def _sign(body: bytes, secret: bytes) -> bytes:
    return PREFIX.encode() + hmac.digest(secret, body, "sha256").hex().encode()
