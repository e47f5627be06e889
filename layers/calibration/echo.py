"""The other end of a loopback connection: gives back single bytes, swallows what it is told to expect.

Started as a file of its own: `python -I echo.py PORT`.
"""

from __future__ import annotations

import socket
import struct
import sys

HEAD = struct.Struct("<Q")  # how many bytes follow; 0: one byte, to be given back


def main() -> None:
    """Serve one connection until it closes."""
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = bytearray(1 << 20)
        while head := _exactly(peer, HEAD.size):
            (left,) = HEAD.unpack(head)
            while left:
                left -= peer.recv_into(buffer, min(left, len(buffer)))
            peer.sendall(b".")


def _exactly(peer: socket.socket, size: int) -> bytes:
    """Return so many bytes, or none at the end."""
    found = b""
    while len(found) < size:
        part = peer.recv(size - len(found))
        if not part:
            return b""
        found += part
    return found


if __name__ == "__main__":
    main()
