"""Request sets: never repeated, never foreseeable, and watched while they are in use."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.errors import ToolFailed
from layers.measure.fresh import Fresh, RequestSet, write_set
from layers.traffic.envelope import content
from layers.traffic.salting import SALTS, UNSALTED, Salter
from tests.grpc_peer import request

REQUESTS = [request(i, rows=2 + i % 5) for i in range(20)]
AXES = [("s", 1), ("x", 1)]
ORDER = np.array([4, 9, 14], dtype=np.int64)


def fresh(folder, salt=SALTS[0]) -> Fresh:
    return Fresh(Salter(REQUESTS, AXES, salt), folder)


def messages_of(made: RequestSet) -> list[bytes]:
    data = made.path.read_bytes()
    return [data[start : start + size] for start, size in made.spans.tolist()]


def shapes(message: bytes) -> list[tuple[str, list[int]]]:
    parsed = service_pb2.ModelInferRequest.FromString(message)
    return [(tensor.name, list(tensor.shape)) for tensor in parsed.inputs]


def id_of(message: bytes) -> str:
    name: str = service_pb2.ModelInferRequest.FromString(message).id
    return name


def test_a_set_holds_a_new_copy_of_each_request_in_order(tmp_path):
    with fresh(tmp_path).draw(ORDER) as made:
        messages = messages_of(made)
    assert [shapes(message) for message in messages] == [shapes(REQUESTS[i]) for i in ORDER]
    assert not set(map(content, messages)) & set(map(content, REQUESTS))
    assert not set(map(id_of, messages)) & set(map(id_of, REQUESTS))
    assert list(tmp_path.iterdir()) == []  # once it was used


def test_two_draws_of_the_same_requests_differ_from_each_other(tmp_path):
    drawing = Fresh(Salter(REQUESTS, AXES, SALTS[0]), tmp_path)
    first, second = drawing.messages(np.arange(20)), drawing.messages(np.arange(20))
    assert not set(map(content, first)) & set(map(content, second))
    other = Fresh(Salter(REQUESTS, AXES, SALTS[0]), tmp_path).messages(np.arange(20))
    assert not set(map(content, first)) & set(map(content, other))


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
    drawing = Fresh(Salter(two, AXES, SALTS[2]), tmp_path)
    drawing.messages(np.zeros(50, dtype=np.int64))
    assert (drawing.drawn, drawing.repeated) == (50, 49)  # one order of two is new, once


def test_nothing_is_told_where_all_were_new(tmp_path):
    drawing = Fresh(Salter([request(i, rows=50) for i in range(5)], AXES, SALTS[0]), tmp_path)
    drawing.messages(np.arange(5))
    assert drawing.warning() is None


def test_values_that_stay_are_counted_over_all_draws(tmp_path):
    drawing = fresh(tmp_path)
    drawing.messages(np.arange(20))
    elements = sum(2 * (2 + i % 5) for i in range(20))
    assert drawing.elements == elements
    assert drawing.kept == elements / 2  # the strings


def test_draws_follow_from_a_seed_that_is_told_afterwards(tmp_path):
    first, second = fresh(tmp_path), fresh(tmp_path)
    seeds = {first.reseed() for _ in range(5)} | {second.reseed()}
    assert len(seeds) == 6
    seed = first.reseed()
    again = Salter(REQUESTS, AXES, SALTS[0]).salted(4, np.random.default_rng(seed))
    assert first.messages(ORDER[:1]) == [again]


# --- odd requests ------------------------------------------------------------------------------

ODD = [request(1000 + i, rows=3) for i in range(10)]
MARKS = {content(message) for message in ODD}


def odd_places(made: RequestSet) -> set[int]:
    return {i for i, message in enumerate(messages_of(made)) if content(message) in MARKS}


def test_a_few_places_of_every_set_hold_odd_requests(tmp_path):
    drawing = fresh(tmp_path)
    drawing.mix(ODD)
    places = set()
    for _ in range(4):
        with drawing.draw(np.arange(200) % 20) as made:
            assert len(made) == 200
            assert odd_places(made) == made.odd
            assert len(made.odd) == 4
            assert not {id_of(m) for m in messages_of(made)} & {id_of(m) for m in ODD}
            places |= made.odd
    assert len(places) > 8  # they are anywhere
    with drawing.draw(ORDER) as made:
        assert len(made.odd) == 1
    drawing.mix(())
    with drawing.draw(np.arange(200) % 20) as made:
        assert made.odd == odd_places(made) == set()


def test_every_odd_request_comes_once_before_any_comes_again(tmp_path):
    drawing = fresh(tmp_path)
    drawing.mix(ODD)
    seen = [content(drawing._next_odd()) for _ in range(20)]
    assert set(seen[:10]) == set(seen[10:]) == MARKS


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
