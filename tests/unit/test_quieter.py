"""A candidate that logs less than the baseline is named, with the numbers; it decides nothing."""

from __future__ import annotations

import pytest

from layers.evidence import Block
from layers.gates.quieter import warning


def block(arm: str, lines: int | None, size: int | None, completed: int = 100) -> Block:
    return Block(
        arm=arm,
        measure="work",
        launch=1,
        pair=1,
        position=1,
        requests=100,
        completed=completed,
        errors=100 - completed,
        wall_s=1.0,
        rate=100.0,
        generator_cpu=0.1,
        neighbour_cpu=0.0,
        log_lines=lines,
        log_bytes=size,
    )


def told(*pairs: tuple[tuple[int, int], tuple[int, int]]) -> str | None:
    return warning(
        [{"baseline": block("baseline", *old), "candidate": block("candidate", *new)}
         for old, new in pairs]
    )  # fmt: skip


def test_fewer_lines_are_told_per_request():
    assert told(((200, 9000), (0, 0)), ((200, 9000), (100, 4500))) == (
        "it logs less: 0.5 lines and 22 bytes a request, 2 and 90 before (2 pairs of blocks): is the "
        "log training data, an audit trail or the ground of an alert?"
    )


def test_shorter_lines_are_less_too():
    assert told(*[((100, 9000), (100, 1000))] * 2) is not None


@pytest.mark.parametrize(
    "pairs",
    [
        [((100, 9000), (100, 9000))] * 4,
        [((100, 9000), (95, 8500))] * 4,
        [((100, 9000), (0, 0))],  # a single pair
        [((100, 9000), (0, 0)), ((100, 9000), (150, 9000))],  # in lumps
        [((0, 0), (0, 0))] * 4,
        [((0, 500), (0, 0))] * 4,  # the baseline does not log what it is asked
        [((100, 9000), (300, 20000))] * 4,
    ],
)
def test_as_much_or_too_little_to_tell_is_not(pairs):
    assert told(*pairs) is None


def test_blocks_of_a_log_that_is_not_known_say_nothing():
    unknown = {"baseline": block("baseline", None, None), "candidate": block("candidate", 0, 0)}
    assert warning([unknown] * 4) is None
    assert warning([]) is None
    known = {"baseline": block("baseline", 100, 900), "candidate": block("candidate", 0, 0)}
    assert warning([unknown, known]) is None
    assert warning([unknown, known, known]) is not None
