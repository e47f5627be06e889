"""Pure: the system calls that nothing confined may make, as a program for the kernel's filter.

They reach into other processes of the same user. Model code shares its cell with the server that
judges it: with them it could take over the server's listening socket, or rewrite its memory.
Each of them fails with EPERM, as it does on a machine that does not allow it.

https://docs.kernel.org/userspace-api/seccomp_filter.html; `bwrap --seccomp` loads such a program.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_STATEMENT = struct.Struct("=HBBI")  # struct sock_filter: code, jump if true, jump if false, value


@dataclass(frozen=True, slots=True)
class Table:
    """One machine's numbers."""

    architecture: int  # AUDIT_ARCH_*
    barred: Mapping[str, int]
    foreign: int | None  # numbers from here on are another table's under the same architecture


TABLES: Mapping[str, Table] = {
    "x86_64": Table(
        0xC000003E,
        {"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd": 438},
        foreign=0x40000000,  # x32
    ),
    "aarch64": Table(
        0xC00000B7,
        {"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "pidfd_getfd": 438},
        foreign=None,
    ),
}


def program(machine: str | None = None) -> bytes:
    """Return the filter for a machine, by default this one; empty where its numbers are not known.

    Calls by another architecture's table (32-bit ones) are refused whole: they have other numbers.
    """
    table = TABLES.get(machine or platform.machine())
    if table is None:
        return b""
    tests = [(_IF_EQUAL, number) for number in sorted(table.barred.values())]
    if table.foreign is not None:
        tests.append((_IF_AT_LEAST, table.foreign))
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 0, len(tests) + 2, table.architecture),  # else to the end: refused
        (_LOAD, 0, 0, _NUMBER),
        *((code, len(tests) - place, 0, value) for place, (code, value) in enumerate(tests)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(_STATEMENT.pack(*line) for line in lines)
