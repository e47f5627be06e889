"""The referee's real process, and the frames that it speaks."""

import os
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from layers.errors import InvalidInput, ToolFailed
from layers.gates.referee import Referee
from layers.gates.referee_child import HEADER, LENGTH, FrameError, decode, encode

PYTHON = Path(sys.executable)

SOURCE = """
import os
import socket
import sys
import time

import numpy as np

import beside

print("a line on stdout")


def score(request):
    x = request["x"]
    x += 1  # inputs are this call's own
    return {"y": x.astype(np.float64) * beside.FACTOR}


def lengths(request):
    words = request["words"]
    assert words.dtype == object and all(type(w) is bytes for w in words.ravel())
    return {"n": np.array([[len(w) for w in row] for row in words], dtype=np.float64)}


def environment(request):
    print(sorted(os.environ), file=sys.stderr)
    return {"threads": np.array([float(os.environ["OMP_NUM_THREADS"])])}


def single(request):
    return {"y": request["x"].astype(np.float32)}


def nothing(request):
    return None


def broken(request):
    raise ValueError("no such advertiser")


def crash(request):
    print("the last words", file=sys.stderr, flush=True)
    os._exit(3)


def hang(request):
    time.sleep(60)


def reach(request):
    def refused(call):
        try:
            call()
        except OSError:
            return 1.0
        return 0.0

    return {
        "network": np.array(refused(lambda: socket.create_connection(("127.0.0.1", request["port"])))),
        "writing": np.array(refused(lambda: open(__file__, "a"))),
        "others": np.array(refused(lambda: os.kill(int(request["pid"]), 0))),
    }


def clicks(request, outputs):
    return float(request["x"].sum() * 10 + outputs["x"].sum())


def count(request, outputs):
    return len(request)


def not_a_number(request, outputs):
    return float("nan")


def many(request, outputs):
    return outputs["x"]


not_callable = 1
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "referee.py").write_text(SOURCE)
    (tmp_path / "judge" / "beside.py").write_text("FACTOR = 0.1\n")
    return tmp_path


@pytest.fixture
def open_referee(root, sandbox):
    def make(function, **options):
        spec = f"judge/referee.py:{function}"
        return Referee(spec, root, PYTHON, sandbox=sandbox, **options)

    return make


def test_answers_in_float64_as_often_as_asked(open_referee):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with open_referee("score") as referee:
        answers = [referee.answer({"x": x})["y"] for _ in range(3)]
    for answer in answers:
        assert answer.dtype == np.float64
        assert answer.tolist() == ((x + 1).astype(np.float64) * 0.1).tolist()
    assert x[0, 0] == 0


def test_strings_arrive_as_bytes(open_referee):
    words = np.array([[b"", b"nul\0nul\0"], ["ü", b"\xff"]], dtype=object)
    with open_referee("lengths") as referee:
        assert referee.answer({"words": words})["n"].tolist() == [[0, 8], [2, 1]]


def test_large_requests_pass_through_the_pipes(open_referee):
    x = np.random.default_rng(0).normal(size=(1000, 1000))
    with open_referee("score") as referee:
        assert np.array_equal(referee.answer({"x": x})["y"], (x + 1) * 0.1)


def test_the_process_sees_nothing_of_our_environment_and_has_one_thread(
    open_referee, tmp_path, monkeypatch
):
    monkeypatch.setenv("A_TOKEN", "s3cret")
    log = tmp_path / "logs" / "referee.log"
    with open_referee("environment", log=log) as referee:
        assert referee.answer({})["threads"].tolist() == [1.0]
    text = log.read_text()
    assert "a line on stdout" in text
    assert "A_TOKEN" not in text


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("single", "output 'y' must be a float64 array, not float32"),
        ("nothing", "must return a dict of float64 arrays"),
        ("broken", "ValueError: no such advertiser"),
        ("crash", "the last words"),
    ],
)
def test_a_failing_referee_is_a_failed_tool_and_names_the_cause(open_referee, function, message):
    with open_referee(function) as referee:
        with pytest.raises(ToolFailed, match=message):
            referee.answer({"x": np.zeros(2)})
        with pytest.raises(ToolFailed, match="the referee is not running"):
            referee.answer({"x": np.zeros(2)})


def test_a_referee_that_hangs_is_ended(open_referee):
    with open_referee("hang", timeout_s=1.5) as referee:
        pid = referee._jail.pid
        with pytest.raises(ToolFailed, match=r"did not answer in 1\.5 s"):
            referee.answer({})
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_no_process_is_left_after_an_error_inside_the_block(open_referee):
    def fail_inside():
        with open_referee("score") as referee:
            pids.append(referee._jail.pid)
            raise KeyboardInterrupt

    pids = []
    with pytest.raises(KeyboardInterrupt):
        fail_inside()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_the_process_reaches_neither_the_network_nor_the_repository_nor_other_processes(
    open_referee,
):
    with socket.create_server(("127.0.0.1", 0)) as ours, open_referee("reach") as referee:
        request = {"port": np.array(ours.getsockname()[1]), "pid": np.array(os.getpid())}
        answer = referee.answer(request)
    assert {name: float(value) for name, value in answer.items()} == {
        "network": 1.0,
        "writing": 1.0,
        "others": 1.0,
    }


def test_a_metric_gets_inputs_and_outputs_of_the_same_name_and_answers_a_number(open_referee):
    x, y = np.array([1.0, 2.0]), np.array([0.5], dtype=np.float32)
    for function, value in (("clicks", 30.5), ("count", 1.0)):
        with open_referee(function, metric=True) as metric:
            answers = [metric.answer({"x": x}, {"x": y}) for _ in range(2)]
        for answer in answers:
            assert {name: array.tolist() for name, array in answer.items()} == {"metric": value}
            assert answer["metric"].dtype == np.float64


@pytest.mark.parametrize("function", ["not_a_number", "many"])
def test_a_metric_that_is_no_finite_number_is_a_failed_tool(open_referee, function):
    with (
        open_referee(function, metric=True) as metric,
        pytest.raises(ToolFailed, match=r"the metric failed: TypeError: .* a finite number"),
    ):
        metric.answer({"x": np.zeros(2)}, {"x": np.zeros(2)})


def test_a_missing_metric_names_the_key_of_the_manifest(root, sandbox):
    with pytest.raises(InvalidInput, match=r"correctness\.metric in \.github"):
        Referee("absent.py:value", root, PYTHON, sandbox=sandbox, metric=True)


@pytest.mark.parametrize("function", ["missing", "not_callable"])
def test_a_missing_function_is_invalid_input(open_referee, function):
    with pytest.raises(InvalidInput, match=f"has no function {function}") as caught:
        open_referee(function).__enter__()
    assert "referee.py" in str(caught.value)


def test_a_file_that_does_not_load_is_invalid_input_with_the_traceback(root, open_referee):
    (root / "judge" / "referee.py").write_text("import numpy\n\nnumpy.no_such_name\n")
    with pytest.raises(InvalidInput, match="no_such_name") as caught:
        open_referee("score").__enter__()
    assert "line 3" in str(caught.value)


@pytest.mark.parametrize("name", ["absent.py", "../outside.py", "judge", "link.py"])
def test_only_a_file_of_the_repository_is_a_referee(root, sandbox, name):
    inside = root / "repository"
    inside.mkdir()
    (inside / "judge").mkdir()
    (root / "outside.py").write_text("def score(request): ...\n")
    (inside / "link.py").symlink_to(root / "outside.py")
    with pytest.raises(InvalidInput, match="is no file of this repository"):
        Referee(f"{name}:score", inside, PYTHON, sandbox=sandbox)


def test_an_interpreter_that_is_not_there_is_a_failed_tool(root, sandbox, tmp_path):
    with pytest.raises(ToolFailed, match="python: No such file or directory"):
        Referee("judge/referee.py:score", root, tmp_path / "python", sandbox=sandbox).__enter__()


# --- frames

numbers = hnp.arrays(
    st.sampled_from(["<f2", "<f4", "<f8", "|b1", "|i1", "<i4", "<i8", "<u2", "<u8"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
strings = hnp.arrays(
    object, hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4), elements=st.binary()
)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.text(max_size=5), numbers | strings, max_size=4))
def test_frames_keep_names_dtypes_shapes_and_bits(tensors):
    frame = encode(tensors, error=None)
    (size,) = LENGTH.unpack_from(frame)
    assert size == len(frame) - LENGTH.size
    decoded, error = decode(frame[LENGTH.size :])
    assert error is None
    assert list(decoded) == list(tensors)
    for name, array in tensors.items():
        found = decoded[name]
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        if array.dtype == object:
            assert found.ravel().tolist() == array.ravel().tolist()
        else:
            assert found.tobytes() == array.tobytes()


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60), st.integers(0, 80))
def test_a_broken_frame_is_refused_and_nothing_else_happens(noise, cut):
    whole = encode({"x": np.arange(3.0), "s": np.array([b"ab", b""], dtype=object)})[LENGTH.size :]
    for body in (noise, whole[: min(cut, len(whole) - 1)], HEADER.pack(len(noise)) + noise):
        with pytest.raises(FrameError):
            decode(body)


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("|O8", [1], 8),
        ("<f4", [2], 4),
        ("<f4", [-1, -1], 4),
        ("<f4", ["a"], 4),
        ("bytes", [2], 8),
        ("bytes", [1], 9),
    ],
)
def test_a_frame_cannot_name_objects_or_shapes_that_do_not_fit(dtype, shape, size):
    head = f'{{"tensors": [{{"name": "x", "dtype": "{dtype}", "shape": {shape!r}, "bytes": {size}}}], "error": null}}'
    body = HEADER.pack(len(head)) + head.replace("'", '"').encode() + b"\x00" * size
    with pytest.raises(FrameError):
        decode(body)


def test_only_numbers_and_strings_can_be_sent():
    for array in (np.array([1.5, None], dtype=object), np.zeros(1, dtype=np.complex128)):
        with pytest.raises(FrameError):
            encode({"x": array})
