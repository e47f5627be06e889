"""What a request is besides its tensors: ids of one kind, content whatever the id."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.traffic.envelope import ID_LENGTH, addressed, content, new_id
from layers.traffic.tensors import decode, encode, make_raw, make_typed, parse
from tests.grpc_peer import request


def test_ids_are_of_one_length_and_alphabet_and_new_each_time():
    rng = np.random.default_rng(1)
    ids = {new_id(rng) for _ in range(500)}
    assert len(ids) == 500
    assert all(len(one) == ID_LENGTH and re.fullmatch("[0-9a-f-]+", one) for one in ids)


def test_a_new_id_is_all_that_changes():
    rng = np.random.default_rng(1)
    old = service_pb2.ModelInferRequest.FromString(request(7))
    old.outputs.add(name="y")
    old.parameters["k"].string_param = "v"
    new = service_pb2.ModelInferRequest.FromString(addressed(old.SerializeToString(), rng))
    assert new.id != old.id
    new.id = old.id
    assert new == old
    with pytest.raises(ValueError, match="is not a ModelInferRequest"):
        addressed(b"\xff\xff", rng)


def test_the_content_is_that_of_the_inputs():
    assert content(addressed(request(7), np.random.default_rng(1))) == content(request(7))
    assert content(request(7)) != content(request(8))


def test_contents_become_typed_and_raw_again():
    message = parse(service_pb2.ModelInferRequest, request(7, rows=3))
    make_typed(message)
    assert not message.raw_input_contents
    assert message.inputs[0].contents.fp32_contents == [0.25, 1.25, 2.25]
    assert message.inputs[1].contents.bytes_contents == [b"7-0", b"7-1", b"7-2"]
    assert content(message.SerializeToString()) == content(request(7, rows=3))
    make_raw(message)
    assert message.SerializeToString(deterministic=True) == request(7, rows=3)


def test_a_datatype_without_typed_contents_stays_raw():
    message = service_pb2.ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype="FP16", shape=[1])
    half = encode(message.SerializeToString(), {"x": np.array([0.5], dtype=np.float16)}, "")
    with pytest.raises(ValueError, match="needs raw contents"):
        make_typed(parse(service_pb2.ModelInferRequest, half))


def test_some_inputs_alone_are_decoded_where_no_more_are_wanted():
    assert list(decode(request(7), ["s"])) == ["s"]
    assert decode(request(7), []) == {}
