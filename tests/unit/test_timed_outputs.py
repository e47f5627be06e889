"""Every answer of a timed pair is compared: what an arm can send instead of its outputs."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.base import ChangeClass
from layers.errors import ToolFailed
from layers.gates.correctness import compare
from layers.measure.launch import DoesNotServe
from layers.measure.records import RECORD
from layers.trial import equivalence


def response(values: np.ndarray, name: str = "score", datatype: str = "FP32") -> bytes:
    message = service_pb2.ModelInferResponse(model_name="m")
    message.outputs.add(name=name, datatype=datatype, shape=values.shape)
    message.raw_output_contents.append(values.tobytes())
    data: bytes = message.SerializeToString()
    return data


@dataclass
class Block:
    """A timed block as `LoadResult` has it."""

    answers: list[bytes]
    order: list[int]
    request_set: str = "one"

    @property
    def records(self) -> np.ndarray:
        records = np.zeros(len(self.order), RECORD)
        records["index"] = self.order
        return records

    def response(self, position: int) -> bytes:
        return self.answers[position]


VALUES = [np.arange(4, dtype=np.float32) + i for i in range(3)]
HONEST = [response(values) for values in VALUES]


def reason(answers: list[bytes], change_class: ChangeClass = ChangeClass.EXACT) -> str:
    pair = equivalence.timed(Block(HONEST, [0, 1, 2]), Block(answers, [0, 1, 2]))
    return compare(pair, change_class, referee_required=False).gates[0].reason


@pytest.mark.parametrize("change_class", list(ChangeClass))
@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (b"", "output_missing"),
        (HONEST[2][:-3], "output_missing"),
        (b"\xff\xff\xff", "output_missing"),
        (response(VALUES[2][:3]), "shape_differs"),
        (response(VALUES[2][:0]), "shape_differs"),
        (response(VALUES[2].astype(np.float16), datatype="FP16"), "dtype_differs"),
        (response(VALUES[2], name="other"), "output_missing"),
        (response(np.where(VALUES[2] > 3, np.nan, VALUES[2])), "non_finite"),
    ],
)
def test_an_answer_that_is_not_whole_is_caught_in_every_class(change_class, last, expected):
    assert reason([*HONEST[:2], last], change_class) == expected


def test_one_answer_for_every_request_is_caught():
    assert reason([HONEST[0]] * 3) == "outputs_differ"
    assert reason([HONEST[0]] * 3, ChangeClass.REORDER) == "beyond_ten_times"


def test_answers_that_belong_to_other_requests_are_caught():
    assert reason([HONEST[1], HONEST[0], HONEST[2]]) == "outputs_differ"


def test_arms_that_were_sent_different_requests_are_not_compared():
    for candidate in (
        Block(HONEST, [0, 1, 2], "another"),
        Block(HONEST[:2], [0, 1]),
        Block(HONEST[::-1], [2, 1, 0]),
        Block([*HONEST, HONEST[0]], [0, 1, 2, 0]),
    ):
        with pytest.raises(ToolFailed, match="were sent different requests"):
            list(equivalence.timed(Block(HONEST, [0, 1, 2]), candidate))


def versioned(values: np.ndarray, version: str, datatype: str = "FP32") -> bytes:
    message = service_pb2.ModelInferResponse.FromString(response(values, datatype=datatype))
    message.model_version = version
    data: bytes = message.SerializeToString()
    return data


HALVES = np.array([0x3F80, 0x4000, 0x4040, 0x4080], dtype=np.uint16)  # 1, 2, 3 and 4 in BF16


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (versioned(VALUES[2], "2"), "an answer's model version: 2, was none"),
        (versioned(HALVES, "", "BF16"), "an answer's outputs in BF16: score, was none"),
    ],
)
def test_what_no_array_of_an_answer_shows_is_seen(last, told):
    with pytest.raises(DoesNotServe, match=re.escape(told)) as caught:
        reason([*HONEST[:2], last])
    assert caught.value.reason == "interface_differs"


def test_answers_of_the_same_version_are_compared_by_their_arrays():
    answers = [versioned(values, "3") for values in VALUES]
    pair = equivalence.timed(Block(answers, [0, 1, 2]), Block(answers, [0, 1, 2]))
    assert compare(pair, ChangeClass.EXACT).gates[0].reason == "outputs_identical"
