"""What an entry offers: as much as before, or more, whatever the recorded requests use of it."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2, service_pb2

from layers.gates.interface import Offer, interface_gate, sent_otherwise, unknown_outputs

ENTRY = """\
name: "m"
max_batch_size: 8
input [
  { name: "age" data_type: TYPE_FP32 dims: [ 1 ] },
  { name: "title" data_type: TYPE_STRING dims: [ -1 ] },
  { name: "hint" data_type: TYPE_INT64 dims: [ -1 ] optional: true }
]
output [ { name: "score" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
SEQUENCES = "sequence_batching { max_sequence_idle_microseconds: 5 }"


def offer(text: str = ENTRY, *versions: str) -> Offer:
    return Offer(text_format.Parse(text, model_config_pb2.ModelConfig()), versions or ("1",))


def replaced(old: str, new: str) -> str:
    assert ENTRY.count(old) == 1, old
    return ENTRY.replace(old, new)


@pytest.mark.parametrize(
    "text",
    [
        ENTRY,
        replaced("max_batch_size: 8", "max_batch_size: 16"),
        replaced("dims: [ 1 ]", "dims: [ -1 ]"),
        replaced("TYPE_STRING dims: [ -1 ] }", "TYPE_STRING dims: [ -1 ] optional: true }"),
        replaced(
            "input [", 'input [ { name: "more" data_type: TYPE_FP32 dims: 1 optional: true },'
        ),
        replaced("output [", 'output [ { name: "more" data_type: TYPE_FP32 dims: 1 },'),
        f"{ENTRY}dynamic_batching {{}}\ninstance_group [ {{ count: 2 }} ]\n",
        f"{ENTRY}model_transaction_policy {{ decoupled: false }}\n",
    ],
)
def test_as_much_or_more_is_let_through(text):
    assert interface_gate(offer(), offer(text)) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (replaced("max_batch_size: 8", "max_batch_size: 1"), "max_batch_size is 1, was 8"),
        (replaced("max_batch_size: 8", ""), "max_batch_size is 0, was 8"),
        (replaced(" optional: true", ""), "input 'hint' can be left out no more"),
        (
            replaced("TYPE_STRING dims: [ -1 ]", "TYPE_STRING dims: [ 20 ]"),
            "input 'title' has dims [20], had [-1]",
        ),
        (
            replaced("TYPE_STRING dims: [ -1 ]", "TYPE_STRING dims: [ -1, 1 ]"),
            "input 'title' has dims [-1, 1], had [-1]",
        ),
        (
            replaced('"age" data_type: TYPE_FP32', '"age" data_type: TYPE_FP64'),
            "input 'age' is FP64, was FP32",
        ),
        (
            replaced('  { name: "age" data_type: TYPE_FP32 dims: [ 1 ] },\n', ""),
            "input 'age' is gone",
        ),
        (
            replaced("input [", 'input [ { name: "more" data_type: TYPE_FP32 dims: 1 },'),
            "input 'more' is new, and has to be sent",
        ),
        (
            replaced('"score" data_type: TYPE_FP32', '"score" data_type: TYPE_BF16'),
            "output 'score' is BF16, was FP32",
        ),
        (
            replaced("TYPE_FP32 dims: [ -1 ] } ]", "TYPE_FP32 dims: [ 9 ] } ]"),
            "output 'score' has dims [9], had [-1]",
        ),
        (replaced('"score"', '"scores"'), "output 'score' is gone"),
        (
            replaced("dims: [ -1 ] } ]", 'dims: [ -1 ] label_filename: "l" } ]'),
            "output 'score' has the labels of 'l', had ''",
        ),
        (
            f"{ENTRY}model_transaction_policy {{ decoupled: true }}\n",
            "its transaction policy is another: one request may have other than one answer",
        ),
        (ENTRY + SEQUENCES, "its sequence batching is another"),
    ],
)
def test_less_is_told_and_fails(text, told):
    gate = interface_gate(offer(), offer(text))
    assert gate is not None
    assert (gate.name, gate.result.value, gate.reason) == ("interface", "fail", "interface_differs")
    assert gate.detail == told


def test_a_model_that_batches_is_another_than_one_that_does_not():
    single = replaced("max_batch_size: 8", "")
    gate = interface_gate(offer(single), offer())
    assert gate is not None
    assert gate.detail == "max_batch_size is 8, was 0"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (("1",), ("2",), "version 1 is not ready any more"),
        (("1", "2"), ("2",), "version 1 is not ready any more"),
        (("1",), ("1", "2"), "a request that names no version is answered by 2, was 1"),
        (("9",), ("9", "10"), "a request that names no version is answered by 10, was 9"),
        (("2",), ("1", "2"), None),
        (("1",), ("1",), None),
    ],
)
def test_versions_stay_ready_and_the_same_one_answers(before, after, told):
    gate = interface_gate(offer(ENTRY, *before), offer(ENTRY, *after))
    assert (gate.detail if gate else None) == told


def test_of_many_differences_some_are_told():
    gate = interface_gate(offer(), offer(""))
    assert gate is not None
    assert gate.detail.count("; ") == 4
    assert gate.detail.endswith("; and 1 more")


def answer(version: str = "1", datatype: str = "FP32", parameter: str = "") -> bytes:
    message = service_pb2.ModelInferResponse(model_name="m", model_version=version, id="any")
    message.outputs.add(name="score", datatype=datatype, shape=[1])
    message.raw_output_contents.append(b"\0\0\0\0")
    if parameter:
        message.parameters[parameter].bool_param = True
    data: bytes = message.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (answer(), None),
        (answer(version="2"), "an answer's model version: 2, was 1"),
        (answer(datatype="BF16"), "an answer's outputs in BF16: score, was none"),
        (answer(datatype="FP64"), None),  # its array is another, and says so
        (answer(parameter="x"), "an answer's parameters: x, was none"),
        (b"", None),  # nor has it outputs
        (b"\xff\xff\xff", None),
    ],
)
def test_answers_are_alike_in_what_no_array_shows(new, told):
    assert sent_otherwise(answer(), new) == told


def test_names_that_are_no_outputs_are_found():
    config = offer().config
    assert unknown_outputs([], config) == []
    assert unknown_outputs(["score"], config) == []
    assert unknown_outputs(["score", "scores", "age"], config) == ["age", "scores"]
