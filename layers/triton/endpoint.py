"""The unix socket of a model server of our own: where it lies, and who listens on it.

Model code shares the server's folder, so the socket's name may come to lead to another one. We hold
on to the socket itself, from the first time that the server listens on it, and connect to that.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from layers.errors import ToolFailed

SOCKET = "8001"  # the server takes a port number as the name of a socket in its current folder
SHUT_IN = Path("/") / "tmp"  # private to a sandbox: home and current folder of its server
_CONNECT_TIMEOUT_S = 2.0
_LONGEST_FOLDER = 80  # characters
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def own_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a new short folder for a server that is not shut in: home, and place of its socket."""
    base = tempfile.gettempdir()
    # The name of a unix socket has 108 bytes at most.
    folder = base if len(base) < _LONGEST_FOLDER else str(SHUT_IN)
    return tempfile.TemporaryDirectory(prefix="fvec-", dir=folder, ignore_cleanup_errors=True)


def socket_of(folder: Path, server_pid: int, *, shut_in: bool) -> Path:
    """Return the socket's path for us; `folder` is the server's current folder as it sees it.

    A sandbox has a private, bounded folder for it, so that nothing of this machine is writable
    from inside; we look into it through the server's own root.
    """
    root = Path(f"/proc/{server_pid}/root") if shut_in else Path("/")
    return root / folder.relative_to("/") / SOCKET


def listener(path: Path) -> int | None:
    """Return the id of the process that listens on a unix socket, None where nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
        own.settimeout(_CONNECT_TIMEOUT_S)
        try:
            own.connect(str(path))
            told = own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    pid: int = _CREDENTIALS.unpack(told)[0]
    return pid


class TakenOver(ToolFailed):
    """Something else than the server wants to answer in its place."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The socket that a server listens on, whatever becomes of its name."""

    path: Path  # its name, as the server made it
    descriptor: int  # of the socket's inode; ours to close
    server_pid: int

    @classmethod
    def of(cls, path: Path, server_pid: int) -> Self | None:
        """Return the socket at `path`, None while nobody listens there.

        Raises TakenOver where another process than the server does.
        """
        try:
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        except OSError:
            return None
        found = cls(path, descriptor, server_pid)
        with ExitStack() as undo:
            undo.callback(found.close)
            if listener(found.place) is None:
                return None
            found.check()
            undo.pop_all()
        return found

    @property
    def place(self) -> Path:
        """A path that leads to this socket and to no other, for any process of this user."""
        return Path(f"/proc/{os.getpid()}/fd/{self.descriptor}")

    def check(self) -> None:
        """Raise ToolFailed unless the server listens, and its socket's name still leads to it."""
        who = listener(self.place)
        if who is None:
            raise ToolFailed("nobody listens on the model server's socket")
        if who != self.server_pid:
            raise TakenOver(f"process {who} listens on the model server's socket, not the server")
        try:
            named = os.path.samestat(self.path.lstat(), os.fstat(self.descriptor))
        except OSError:
            named = False
        if not named:
            raise TakenOver("the name of the model server's socket leads to something else now")

    def close(self) -> None:
        """Let go of the socket; once."""
        os.close(self.descriptor)
