"""Whatever bytes a traffic file or a message holds, only the documented errors come out."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from layers.errors import InvalidInput
from layers.manifest import TrafficSection
from layers.traffic import recorded as traffic
from layers.traffic.recorded import Traffic
from layers.traffic.tensors import decode, decode_response, encode
from tests.grpc_peer import request

SECTION = TrafficSection(requests="requests.bin", arrivals="arrivals.csv")
VALID = b"".join(bytes([len(m)]) + m for m in (request(0, 1), request(1, 1)))


def load(requests: bytes, arrivals: bytes) -> Traffic | None:
    """Return the traffic, or None where it was refused as invalid input."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "requests.bin").write_bytes(requests)
        (folder / "arrivals.csv").write_bytes(arrivals)
        try:
            return Traffic.load(folder, SECTION)
        except InvalidInput:
            return None


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(VALID)))
@example(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0)
def test_damaged_request_files_load_or_are_invalid(junk, at):
    loaded = load(VALID[:at] + junk + VALID[at:], b"offset_s,request\n0,0\n1,0\n")
    if loaded is not None:
        lengths = loaded.requests.spans[:, 1]
        assert (lengths > 0).all()
        assert [len(message) for message in loaded.requests] == lengths.tolist()


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=80), st.text("0123456789.,-+eEnaif_\n\"' ", max_size=60)))
def test_damaged_arrivals_load_or_are_invalid(text):
    data = text if isinstance(text, bytes) else text.encode()
    loaded = load(VALID, b"offset_s,request\n" + data)
    if loaded is not None:
        assert np.isfinite(loaded.arrivals_s).all()
        assert (np.diff(loaded.arrivals_s) >= 0).all()
        assert set(loaded.order.tolist()) <= {0, 1}


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([decode, decode_response]))
def test_any_bytes_decode_or_raise_value_error(data, read):
    with suppress(ValueError):
        read(data)


@settings(deadline=None)
@given(st.integers(0, len(request(1)) - 1), st.integers(0, 255))
def test_a_flipped_byte_decodes_or_raises_value_error(at, value):
    data = bytearray(request(1))
    data[at] = value
    with suppress(ValueError):
        decode(bytes(data))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.binary(max_size=20), min_size=2, max_size=2), max_size=5),
    st.sampled_from([np.float16, np.int8, np.uint64, np.float64]),
)
def test_tensors_survive_encoding(strings, dtype):
    names = {np.float16: "FP16", np.int8: "INT8", np.uint64: "UINT64", np.float64: "FP64"}
    template = service_pb2.ModelInferRequest()
    template.inputs.add(name="x", datatype=names[dtype], shape=[0])
    template.inputs.add(name="s", datatype="BYTES", shape=[0])
    words = np.empty((len(strings), 2), dtype=np.object_)
    words[:] = strings or np.empty((0, 2), dtype=np.object_)
    numbers = np.arange(len(strings) * 3, dtype=dtype).reshape(len(strings), 3)
    again = decode(encode(template.SerializeToString(), {"x": numbers, "s": words}, "id"))
    assert again["x"].dtype == dtype
    assert again["x"].tolist() == numbers.tolist()
    assert again["s"].tolist() == words.tolist()


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=400), min_size=1, max_size=6))
def test_written_messages_come_back(messages):
    with tempfile.TemporaryDirectory() as name:
        traffic.write(Path(name), messages, [(0.0, 0), (2.5e-7, 0), (1.0, len(messages) - 1)])
        loaded = Traffic.load(Path(name), SECTION)
        assert list(loaded.requests) == messages
        assert loaded.arrivals_s.tolist() == [0.0, 2.5e-7, 1.0]
