"""Tensors in messages: both ways of carrying them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.traffic.tensors import decode, decode_response, encode
from tests.grpc_peer import request


def typed(datatype: str, field: str, values: list) -> bytes:
    message = service_pb2.ModelInferRequest()
    tensor = message.inputs.add(name="x", datatype=datatype, shape=[len(values)])
    getattr(tensor.contents, field).extend(values)
    return message.SerializeToString()


def raw(datatype: str, shape: list[int], data: bytes) -> bytes:
    message = service_pb2.ModelInferRequest()
    message.inputs.add(name="x", datatype=datatype, shape=shape)
    message.raw_input_contents.append(data)
    return message.SerializeToString()


def test_raw_numbers_and_strings_decode():
    tensors = decode(request(3, rows=2))
    assert tensors["x"].dtype == np.float32
    assert tensors["x"].tolist() == [[0.25, 1.25]]
    assert tensors["s"].tolist() == [[b"3-0", b"3-1"]]


@pytest.mark.parametrize(
    ("datatype", "field", "values", "dtype"),
    [
        ("INT8", "int_contents", [-3, 4], np.int8),
        ("UINT64", "uint64_contents", [2**63], np.uint64),
        ("FP64", "fp64_contents", [0.1], np.float64),
        ("BOOL", "bool_contents", [True, False], np.bool_),
    ],
)
def test_typed_contents_decode(datatype, field, values, dtype):
    decoded = decode(typed(datatype, field, values))["x"]
    assert decoded.dtype == dtype
    assert decoded.tolist() == values


def test_typed_strings_decode():
    assert decode(typed("BYTES", "bytes_contents", [b"", b"\xff"]))["x"].tolist() == [b"", b"\xff"]


def test_a_typed_value_out_of_range_is_refused():
    with pytest.raises(ValueError, match="'x': a value does not fit INT8"):
        decode(typed("INT8", "int_contents", [300]))


def test_bf16_decodes_exactly_and_encodes_back():
    message = raw("BF16", [3], np.array([0x3F80, 0xC000, 0x7F80], dtype="<u2").tobytes())
    decoded = decode(message)
    assert decoded["x"].tolist() == [1.0, -2.0, np.inf]
    assert decode(encode(message, decoded, "id"))["x"].tolist() == [1.0, -2.0, np.inf]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (raw("FP32", [1], b"\x00" * 5), "5 bytes are no whole number of FP32"),
        (raw("BF16", [1], b"\x00" * 3), "no whole number of BF16"),
        (raw("FP9", [1], b"\x00"), "unknown datatype 'FP9'"),
        (raw("BYTES", [1], b"\x01\x00"), "string 0 ends beyond"),
        (raw("BYTES", [1], b"\xff\xff\xff\xffab"), "string 0 ends beyond"),
        (raw("FP32", [2**40, 2**40], b"\x00" * 4), "1 elements do not fill"),
        (raw("FP32", [-1], b"\x00" * 4), "negative size"),
        (b"\xff", "is not a ModelInferRequest message"),
    ],
)
def test_malformed_tensors_are_refused(message, problem):
    with pytest.raises(ValueError, match=problem):
        decode(message)


def test_a_tensor_twice_is_refused():
    message = service_pb2.ModelInferRequest()
    for _ in range(2):
        message.inputs.add(name="x", datatype="FP32", shape=[0])
        message.raw_input_contents.append(b"")
    with pytest.raises(ValueError, match="'x' appears twice"):
        decode(message.SerializeToString())


def test_a_response_decodes():
    message = service_pb2.ModelInferResponse()
    message.outputs.add(name="score", datatype="FP32", shape=[1, 2])
    message.raw_output_contents.append(np.array([0.5, 0.25], dtype=np.float32).tobytes())
    assert decode_response(message.SerializeToString())["score"].tolist() == [[0.5, 0.25]]


def test_encoding_what_was_decoded_changes_only_the_id():
    message = service_pb2.ModelInferRequest.FromString(request(5))
    again = encode(request(5), decode(request(5)), "other")
    message.id = "other"
    assert again == message.SerializeToString()
