"""The unix socket of a model server of our own: where it lies, and who listens on it."""

from __future__ import annotations

import socket
import struct
import tempfile
from pathlib import Path

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


def check_listener(path: Path, server_pid: int) -> None:
    """Raise ToolFailed when another process than the server listens on its socket.

    Model code shares the server's folder: it could answer in the server's name.
    """
    found = listener(path)
    if found != server_pid:
        who = "nobody" if found is None else f"process {found}"
        raise ToolFailed(f"{who} listens on the model server's socket, not the server itself")
