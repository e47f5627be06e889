"""The filter of system calls, run as the kernel runs it."""

from __future__ import annotations

import errno
import struct

import pytest

from layers.sandbox.syscalls import TABLES, program

ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
X86_64, I386, AARCH64 = 0xC000003E, 0x40000003, 0xC00000B7
EVERYWHERE = {"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"}


def run(filter_: bytes, architecture: int, number: int) -> int:
    """Return what a filter answers, by the instructions that it is made of."""
    lines = list(struct.iter_unpack("=HBBI", filter_))
    data = struct.pack("=II", number, architecture)
    accumulator, place = 0, 0
    while True:
        code, if_true, if_false, value = lines[place]
        place += 1
        match code:
            case 0x20:  # load a word
                accumulator = struct.unpack_from("=I", data, value)[0]
            case 0x15:  # equal
                place += if_true if accumulator == value else if_false
            case 0x35:  # at least
                place += if_true if accumulator >= value else if_false
            case 0x06:
                return value


@pytest.mark.parametrize(("machine", "own"), [("x86_64", X86_64), ("aarch64", AARCH64)])
def test_what_reaches_into_other_processes_is_refused_and_nothing_else(machine, own):
    barred = TABLES[machine].barred
    assert set(barred) == EVERYWHERE
    refused = [number for number in range(600) if run(program(machine), own, number) != ALLOW]
    assert refused == sorted(barred.values())
    assert {run(program(machine), own, number) for number in refused} == {REFUSE}


def test_calls_by_another_table_are_refused_whole():
    for number in (0, 1, 26, 59, 438):
        assert run(program("x86_64"), I386, number) == REFUSE
        assert run(program("x86_64"), X86_64, 0x40000000 + number) == REFUSE
        assert run(program("aarch64"), X86_64, number) == REFUSE


def test_the_numbers_are_those_of_the_kernels_tables():
    """asm/unistd_64.h of x86, and asm-generic/unistd.h."""
    assert TABLES["x86_64"].barred == {
        "ptrace": 101,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "pidfd_getfd": 438,
    }
    assert TABLES["aarch64"].barred == {
        "ptrace": 117,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "pidfd_getfd": 438,
    }


def test_a_machine_whose_numbers_are_not_known_has_no_filter():
    assert program("riscv64") == b""
