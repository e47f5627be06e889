"""Which requests count as new: by the content of their inputs, recorded and drawn ones alike."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.events import Silent
from layers.measure.fresh import Fresh
from layers.traffic.mutations import Mutator
from layers.traffic.recorded import Requests, Traffic, write
from layers.traffic.salting import SALTS, UNSALTED, Salter
from layers.traffic.tensors import decode, encode
from layers.trial import calibrate, equivalence
from layers.trial.business_metric import Remembering
from layers.trial.equivalence import Unsent, content
from tests.grpc_peer import request

WIDE = [request(i, rows=8 + i % 3) for i in range(24)]


def whole(index: int) -> bytes:
    """A request that no salt can change: one candidate, whole numbers."""
    message = service_pb2.ModelInferRequest(model_name="m", id=str(index))
    message.inputs.add(name="n", datatype="INT64", shape=[1, 1])
    message.raw_input_contents.append(np.int64(index).tobytes())
    data: bytes = message.SerializeToString()
    return data


def traffic_of(folder, messages) -> Traffic:
    write(folder, messages, [(float(i), i) for i in range(len(messages))])
    requests = Requests(folder / "requests.bin")
    times = np.arange(len(messages), dtype=np.float64)
    return Traffic(requests, times, np.arange(len(messages)), 1.0, "recorded")


def test_the_content_is_that_of_the_inputs_whatever_the_id_and_the_encoding():
    typed = service_pb2.ModelInferRequest(model_name="m", id="typed")
    typed.inputs.add(name="n", datatype="INT64", shape=[1, 1]).contents.int64_contents.append(3)
    assert content(typed.SerializeToString()) == content(whole(3))
    assert content(encode(WIDE[0], decode(WIDE[0]), "another")) == content(WIDE[0])
    assert len({content(message) for message in (*WIDE, whole(1), whole(2))}) == 26
    with pytest.raises(ValueError, match="is not a ModelInferRequest"):
        content(b"\xff\xff")


def unsent(folder, messages, salt=SALTS[0]) -> Unsent:
    traffic = traffic_of(folder, messages)
    axes = Mutator(traffic.requests).candidate_axes
    fresh = Fresh(Salter(traffic.requests, axes, salt), folder)
    return Unsent(traffic, fresh, np.random.default_rng(1))


def test_what_was_recorded_or_drawn_is_never_drawn_again(tmp_path):
    drawing = unsent(tmp_path, WIDE)
    drawn = drawing.draw(12) + drawing.draw(12)
    assert len(drawn) == 24
    marks = {content(message) for message in drawn}
    assert len(marks) == 24
    assert not marks & {content(message) for message in WIDE}


def test_mutated_requests_stand_in_where_no_salt_makes_new_ones(tmp_path):
    drawn = unsent(tmp_path, WIDE, UNSALTED).draw(6)
    assert 6 <= len(drawn) <= 6 * equivalence.MUTATED_SPARE
    assert not {content(m) for m in drawn} & {content(m) for m in WIDE}


def test_nothing_is_drawn_where_nothing_is_new(tmp_path):
    def constant(seed, count):
        return [whole(1)] * count

    drawing = unsent(tmp_path, [whole(1), whole(2)], UNSALTED)
    traffic = SimpleNamespace(requests=drawing._traffic.requests, mutated=constant)
    nothing = Unsent(traffic, None, np.random.default_rng(1))
    assert nothing.draw(12) == []
    assert nothing.draw(0) == []
    kept = Unsent(SimpleNamespace(requests=[], mutated=constant), None, np.random.default_rng(1))
    kept.add([whole(1)])
    assert kept.draw(3) == []


def marks(messages) -> list[bytes]:
    return [content(message) for message in messages]


def test_repeats_of_a_new_request_have_its_content(tmp_path):
    drawing = unsent(tmp_path, WIDE)
    rows = drawing.rows(12)
    assert [len(row) for row in rows] == [3] * 12
    for row in rows:
        assert len(set(marks(row))) == 1
    firsts = set(marks(row[0] for row in rows))
    assert len(firsts) == 12
    assert not firsts & set(marks(WIDE))
    assert not firsts & set(marks(row[0] for row in drawing.rows(12)))


def test_where_columns_stay_one_repeat_is_another_copy_of_the_same_original(tmp_path):
    for first, again, other in unsent(tmp_path, WIDE, SALTS[1]).rows(12):
        assert content(first) == content(again) != content(other)
        names = [sorted(decode(message)["s"].flat) for message in (first, other)]
        assert names[0] == names[1]


def test_where_no_salt_makes_new_ones_the_rest_of_the_recording_stands_in(tmp_path):
    drawing = unsent(tmp_path, WIDE, UNSALTED)
    drawing.add(WIDE[:20])
    rows = drawing.rows(6)
    assert sorted(marks(row[0] for row in rows)) == sorted(marks(WIDE[20:]))
    assert drawing.rows(6) == []


def calibrated(folder, messages, monkeypatch, refused=()) -> tuple[str, list[str]]:
    """Return the salt that calibration picks, and what it notes; `refused` salts fail."""
    notes: list[str] = []

    class Noting(Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    turns = iter(SALTS)
    monkeypatch.setattr(calibrate, "_answers_all", lambda *_: next(turns) not in refused)
    session = SimpleNamespace(
        traffic=traffic_of(folder, messages), out=folder, bench=SimpleNamespace(events=Noting())
    )
    fresh = calibrate._fresh(session, None)
    assert isinstance(fresh, Remembering)
    return str(fresh._salter.salt), notes


def test_the_strongest_salt_that_makes_all_new_and_is_answered_is_picked(tmp_path, monkeypatch):
    salt, notes = calibrated(tmp_path, WIDE, monkeypatch)
    assert (salt, notes) == (
        str(SALTS[0]),
        [f"requests in timed blocks: recorded, with {SALTS[0]}"],
    )


def test_a_salt_that_leaves_requests_as_they_were_is_told(tmp_path, monkeypatch):
    ones = [whole(index) for index in range(24)]
    salt, notes = calibrated(tmp_path, ones, monkeypatch, refused=SALTS[:1])
    assert salt == str(SALTS[1])
    assert notes == [
        f"requests in timed blocks: recorded, with {SALTS[1]}: not all of them are new then"
    ]


def test_a_stack_that_refuses_every_salt_is_sent_its_recording(tmp_path, monkeypatch):
    salt, notes = calibrated(tmp_path, WIDE, monkeypatch, refused=SALTS)
    assert (salt, notes) == (
        str(UNSALTED),
        ["the stack refuses changed requests: blocks send the recording"],
    )


@pytest.mark.parametrize(
    ("messages", "new"),
    [
        ([whole(5), whole(6)], True),
        ([whole(1), whole(6)], False),  # its own original
        ([whole(5), whole(5)], False),  # another of the trial set
        ([encode(whole(1), decode(whole(1)), "salted"), whole(6)], False),  # the id alone is new
    ],
)
def test_a_trial_set_is_new_only_as_a_whole(messages, new):
    assert calibrate._all_new([whole(1), whole(2)], messages) is new
