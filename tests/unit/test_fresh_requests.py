"""Request sets: never repeated, never foreseeable, and watched while they are in use."""

from __future__ import annotations

import numpy as np
import pytest

from layers.errors import ToolFailed
from layers.measure.fresh import Fresh, write_set
from layers.traffic.salting import SALTS, UNSALTED, Salter
from tests.grpc_peer import request

REQUESTS = [request(i, rows=2 + i % 5) for i in range(20)]
AXES = [("s", 1), ("x", 1)]
ORDER = np.array([4, 9, 14], dtype=np.int64)


def fresh(folder, salt=SALTS[0]) -> Fresh:
    return Fresh(Salter(REQUESTS, AXES, salt), folder)


def test_a_set_holds_a_new_copy_of_each_request_in_order(tmp_path):
    with fresh(tmp_path).draw(ORDER) as made:
        data = made.path.read_bytes()
        messages = [data[start : start + size] for start, size in made.spans.tolist()]
    assert [len(message) for message in messages] == [len(REQUESTS[i]) for i in ORDER]
    assert not set(messages) & set(REQUESTS)
    assert list(tmp_path.iterdir()) == []  # once it was used


def test_two_draws_of_the_same_requests_differ_from_each_other(tmp_path):
    drawing = Fresh(Salter(REQUESTS, AXES, SALTS[0]), tmp_path)
    first, second = drawing.messages(np.arange(20)), drawing.messages(np.arange(20))
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 10
    assert Fresh(Salter(REQUESTS, AXES, SALTS[0]), tmp_path).messages(ORDER) != first[:3]


def test_what_could_not_be_made_new_is_counted_and_told(tmp_path):
    drawing = fresh(tmp_path, UNSALTED)
    drawing.draw(ORDER)
    assert (drawing.drawn, drawing.repeated) == (3, 3)
    assert drawing.warning() == (
        "3 of 3 requests could not be made new (as recorded): "
        "a memo of whole requests would show as a gain in them"
    )


def test_a_second_draw_of_what_cannot_vary_counts_as_repeated(tmp_path):
    two = [request(0, rows=2)]
    drawing = Fresh(Salter(two, AXES, SALTS[1]), tmp_path)
    drawing.messages(np.zeros(50, dtype=np.int64))
    assert (drawing.drawn, drawing.repeated) == (50, 49)  # one order of two is new, once


def test_nothing_is_told_where_all_were_new(tmp_path):
    drawing = Fresh(Salter([request(i, rows=50) for i in range(5)], AXES, SALTS[0]), tmp_path)
    drawing.messages(np.arange(5))
    assert drawing.warning() is None


@pytest.mark.parametrize("change", ["edited", "shorter", "gone"])
def test_a_request_file_that_was_touched_is_no_measurement(tmp_path, change):
    made = write_set(tmp_path / "fresh.bin", REQUESTS[:3])
    match change:
        case "edited":
            made.path.write_bytes(b"\x00" + made.path.read_bytes()[1:])
        case "shorter":
            made.path.write_bytes(made.path.read_bytes()[:-1])
        case "gone":
            made.path.unlink()
    with pytest.raises(ToolFailed, match=r"fresh\.bin was changed while it was in use"):
        made.close()


def test_an_error_inside_is_not_hidden_by_the_check(tmp_path):
    made = write_set(tmp_path / "fresh.bin", REQUESTS[:3])
    made.path.write_bytes(b"")
    with pytest.raises(RuntimeError, match="first"), made:
        raise RuntimeError("first")
    assert not made.path.exists()
