"""What a server of ours writes to its log while it is measured, in bytes and lines."""

from __future__ import annotations

from typing import TypedDict

from layers.triton.remote import RemoteDeployment
from layers.triton.server import Deployment

CHUNK = 1 << 20


class Logged(TypedDict):
    """Fields of a block; None of a server whose log is not ours."""

    log_lines: int | None
    log_bytes: int | None


def size(served: Deployment | RemoteDeployment) -> int:
    """Return how many bytes a server has logged so far; 0 of one whose log is not ours."""
    if not isinstance(served, Deployment) or not served.log.exists():
        return 0
    return served.log.stat().st_size


def since(served: Deployment | RemoteDeployment, before: int) -> Logged:
    """Return what a server has logged since its log had `before` bytes.

    Read after a block, when the server has counted its requests: by then its guard has passed on
    what it wrote by itself. What its models print may wait in their own buffers.
    """
    if not isinstance(served, Deployment) or not served.log.exists():
        return Logged(log_lines=None, log_bytes=None)
    lines = read = 0
    with served.log.open("rb") as stream:
        stream.seek(before)
        while chunk := stream.read(CHUNK):
            lines += chunk.count(b"\n")
            read += len(chunk)
    return Logged(log_lines=lines, log_bytes=read)
