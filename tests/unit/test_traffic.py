"""Recorded traffic: what loads, what is refused, and where the error points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2, service_pb2

from layers.errors import InvalidInput
from layers.manifest import TrafficSection
from layers.traffic import recorded as traffic
from layers.traffic.recorded import InputSpec, Traffic
from tests.grpc_peer import request

SECTION = TrafficSection(requests="requests.bin", arrivals="arrivals.csv")


def written(folder: Path, messages: list[bytes] | None = None) -> Path:
    kept = [request(i) for i in range(3)] if messages is None else messages
    traffic.write(folder, kept, [(0.0, 0), (0.5, 2), (1.0, 1)])
    return folder


def test_what_was_written_loads_as_it_was(tmp_path):
    loaded = Traffic.load(written(tmp_path), SECTION)
    assert list(loaded.requests) == [request(0), request(1), request(2)]
    assert loaded.requests[-1:] == [request(2)]
    assert loaded.arrivals_s.tolist() == [0.0, 0.5, 1.0]
    assert loaded.order.tolist() == [0, 2, 1]
    assert loaded.rate == 2.0
    assert loaded.arrivals_s.dtype == np.float64
    assert loaded.order.dtype == np.int64


def test_the_digest_follows_the_content(tmp_path):
    first = Traffic.load(written(tmp_path), SECTION).digest
    assert Traffic.load(written(tmp_path), SECTION).digest == first
    assert Traffic.load(written(tmp_path, [request(7)] * 3), SECTION).digest != first


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], r"byte \d+: the message has \d+ bytes but the file ends"),
        (lambda data: b"", "holds no request"),
        (lambda data: data + b"\x00", r"byte \d+: a message of 0 bytes"),
        (lambda data: data + b"\xff", r"byte \d+: the length is not a complete varint"),
        (lambda data: b"\xff" * 11 + data, "byte 0: the length is not a complete varint"),
        (lambda data: b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + data, "byte 0: a message of 9223"),
    ],
)
def test_damaged_requests_name_the_byte(tmp_path, damage, message):
    path = written(tmp_path) / "requests.bin"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InvalidInput, match=message) as caught:
        Traffic.load(tmp_path, SECTION)
    assert caught.value.at is not None
    assert caught.value.at.path == path
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "header must be"),
        ("time,index\n0,0\n", 1, "header must be"),
        ("offset_s,request\n", 1, "holds no arrival"),
        ("offset_s,request\n0,0\n0.5\n", 3, "expected 2 fields, found 1"),
        ("offset_s,request\n0,0\nnan,1\n", 3, "'nan' is not a finite number"),
        ("offset_s,request\n-0.1,0\n", 2, "'-0.1' is not a finite number"),
        ("offset_s,request\ninf,0\n", 2, "'inf' is not a finite number"),
        ("offset_s,request\n1_0,0\n", 2, "'1_0' is not a finite number"),
        ("offset_s,request\n0,3\n", 2, "'3' is not an index from 0 to 2"),
        ("offset_s,request\n0,-1\n", 2, "'-1' is not an index"),
        ("offset_s,request\n0,1.0\n", 2, "'1.0' is not an index"),
        ("offset_s,request\n2,0\n1,1\n", 3, "1.0 comes after 2.0: not sorted"),
        ('offset_s,request\n0,0\n"1,1\n', 3, "unexpected end of data"),
    ],
)
def test_bad_arrivals_name_the_line(tmp_path, text, line, message):
    path = written(tmp_path) / "arrivals.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message) as caught:
        Traffic.load(tmp_path, SECTION)
    assert caught.value.at is not None
    assert (caught.value.at.path, caught.value.at.line) == (path, line)


def test_arrivals_that_are_not_text_are_refused(tmp_path):
    (written(tmp_path) / "arrivals.csv").write_bytes(b"offset_s,request\n\xff\xfe,0\n")
    with pytest.raises(InvalidInput, match="utf-8"):
        Traffic.load(tmp_path, SECTION)


def test_arrivals_all_at_once_have_no_rate(tmp_path):
    traffic.write(tmp_path, [request(0)], [(1.0, 0), (1.0, 0)])
    with pytest.raises(InvalidInput, match="span no time"):
        Traffic.load(tmp_path, SECTION)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"requests\.bin: traffic file not found"):
        Traffic.load(tmp_path, SECTION)


def test_a_link_out_of_the_repository_is_refused(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    written(tmp_path)
    (root / "requests.bin").symlink_to(tmp_path / "requests.bin")
    with pytest.raises(InvalidInput, match="leads out of the repository"):
        Traffic.load(root, SECTION)


def config() -> model_config_pb2.ModelConfig:
    entry = model_config_pb2.ModelConfig(name="m", max_batch_size=8)
    for name, kind in (("x", "TYPE_FP32"), ("s", "TYPE_STRING")):
        entry.input.add(name=name, data_type=kind, dims=[-1], allow_ragged_batch=True)
    return entry


def test_traffic_that_fits_the_config_passes(tmp_path):
    Traffic.load(written(tmp_path), SECTION).check(config())


def test_traffic_that_fits_a_plain_mapping_passes(tmp_path):
    specs = {"x": ("FP32", (-1, -1)), "s": ("BYTES", (-1, -1)), "o": ("BOOL", (1,), True)}
    Traffic.load(written(tmp_path), SECTION).check(specs)


def test_the_specs_of_a_config_include_the_batch():
    assert traffic.input_specs(config()) == {
        "x": InputSpec("FP32", (-1, -1), ragged=True),
        "s": InputSpec("BYTES", (-1, -1), ragged=True),
    }


def edited(change) -> bytes:
    message = service_pb2.ModelInferRequest.FromString(request(1))
    change(message)
    return message.SerializeToString()


def add_input(message):
    message.inputs.add(name="y", datatype="FP32")
    message.raw_input_contents.append(b"")


def drop_input(message):
    del message.inputs[1]
    del message.raw_input_contents[1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (add_input, "input 'y' is unknown"),
        (drop_input, "input 's' is missing"),
        (lambda m: setattr(m, "model_name", "other"), "is for model 'other', the entry is 'm'"),
        (lambda m: setattr(m.inputs[0], "datatype", "INT32"), "input 'x': datatype INT32"),
        (lambda m: m.inputs[0].shape.append(1), r"input 'x': shape \[1, 4, 1\] has rank 3"),
        (lambda m: m.inputs[0].shape.__setitem__(0, 9), "input 'x': batch 9 exceeds 8"),
        (lambda m: m.inputs[0].shape.__setitem__(1, 5), "'x': 4 elements do not fill"),
        (lambda m: m.inputs[0].shape.__setitem__(1, -1), "'x': negative size"),
        (lambda m: m.raw_input_contents.append(b""), "2 tensors but 3 raw contents"),
        (lambda m: m.raw_input_contents.__setitem__(1, b"\x09\x00\x00\x00a"), "'s': string 0 ends"),
    ],
)
def test_a_request_that_does_not_fit_is_named(tmp_path, change, problem):
    messages = [request(0), edited(change), request(2)]
    loaded = Traffic.load(written(tmp_path, messages), SECTION)
    with pytest.raises(InvalidInput, match=rf"request 1 \(byte \d+\): .*{problem}"):
        loaded.check(config())


def test_a_fixed_dimension_must_match(tmp_path):
    loaded = Traffic.load(written(tmp_path), SECTION)
    with pytest.raises(InvalidInput, match=r"shape \[1, 4\] does not fit the model's \[-1, 5\]"):
        loaded.check({"x": ("FP32", (-1, 5)), "s": ("BYTES", (-1, -1))})


def test_bytes_that_are_no_message_are_refused(tmp_path):
    loaded = Traffic.load(written(tmp_path, [request(0), b"\xff\xff\xff", request(2)]), SECTION)
    with pytest.raises(InvalidInput, match=r"request 1 .*is not a ModelInferRequest message"):
        loaded.check(config())
