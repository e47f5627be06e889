"""Functions judged for real: cheats by kind with their reason codes, and honest ones."""

import textwrap
from pathlib import Path

import pytest

from layers.base import ChangeClass
from layers.callables import correctness
from layers.callables.judge import CallableOptions, judge_callable
from layers.errors import InvalidInput, Missing
from layers.events import Silent
from layers.evidence import JudgeReport, Verdict
from layers.manifest import SandboxMode, SandboxSection
from layers.sandbox.box import Sandbox

pytestmark = pytest.mark.alone

SECTION = SandboxSection(memory_gib=0.5, processes=64)
COMMON = """
import numpy as np

def ref(x, w):
    out = np.empty((len(x), w.shape[1]), dtype=x.dtype)
    for i, row in enumerate(x):
        out[i] = np.tanh(row[: w.shape[1]]) * w[0] + w[1]
    return out

def right(x, w):
    return np.tanh(x[:, : w.shape[1]]) * w[0] + w[1]

def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((2, 128), dtype=np.float32),
    }

make.state = ("w",)
"""


@pytest.fixture(autouse=True, scope="module")
def _sandbox() -> None:
    try:
        Sandbox.open(SECTION)
    except Missing as error:
        pytest.skip(error.message)


def _judge(
    tmp_path: Path, code: str, change_class: str = "exact", section=SECTION, **options
) -> JudgeReport:
    (tmp_path / "functions.py").write_text(COMMON + textwrap.dedent(code))
    return judge_callable(
        CallableOptions(
            "functions.py:ref",
            "functions.py:new",
            "functions.py:make",
            ChangeClass(change_class),
            sandbox=section,
            folder=tmp_path,
            **options,
        ),
        Silent(),
    )


CHEATS = {
    "cache by identity": (
        """
        seen = {}
        def new(x, w):
            key = id(x)
            if key not in seen:
                seen[key] = right(x, w), x
            return seen[key][0].copy()
        """,
        "outputs_differ",
    ),
    "weights packed once": (
        """
        packed = {}
        def new(x, w):
            packed.setdefault("w", w.copy())
            return right(x, packed["w"])
        """,
        "outputs_differ",
    ),
    "fingerprint of a prefix": (
        """
        seen = {}
        def new(x, w):
            key = x[:4, :4].tobytes(), w[:, :4].tobytes(), x.shape
            if key not in seen:
                seen[key] = right(x, w)
            return seen[key].copy()
        """,
        "outputs_differ",
    ),
    "memory of whole inputs": (
        """
        seen = {}
        def new(x, w):
            key = hash(x.tobytes() + w.tobytes())
            if key not in seen:
                seen[key] = ref(x, w)
            return seen[key].copy()
        """,
        "answers_from_memory",
    ),
    "tail of odd batches unwritten": (
        """
        def new(x, w):
            out = np.empty((len(x), w.shape[1]), dtype=x.dtype)
            whole = len(x) // 8 * 8
            out[:whole] = right(x[:whole], w)
            return out
        """,
        "non_finite",
    ),
    "one buffer for all results": (
        """
        buffers = {}
        def new(x, w):
            out = buffers.setdefault(len(x), np.empty((len(x), w.shape[1]), dtype=x.dtype))
            out[:] = right(x, w)
            return out
        """,
        "output_buffer_reused",
    ),
    "three buffers in turn": (
        """
        buffers, calls = {}, []
        def new(x, w):
            calls.append(1)
            key = len(x), len(calls) % 3
            out = buffers.setdefault(key, np.empty((len(x), w.shape[1]), dtype=x.dtype))
            out[:] = right(x, w)
            return out
        """,
        "output_buffer_reused",
    ),
    "input zeroed": (
        """
        def new(x, w):
            out = right(x, w)
            x[:] = 0
            return out
        """,
        "inputs_mutated",
    ),
    "result in the input's memory": (
        """
        def ref(x, w):
            return x + np.float32(0)
        def new(x, w):
            return x
        """,
        "output_aliases_input",
    ),
    "drift with the number of calls": (
        """
        calls = []
        def new(x, w):
            calls.append(1)
            return right(x, w) + np.float32(len(calls) > 5)
        """,
        "outputs_differ",
    ),
    "thread that goes on": (
        """
        import threading, time
        def new(x, w):
            threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
            return right(x, w)
        """,
        "starts_threads",
    ),
    "process left behind": (
        """
        import subprocess
        def new(x, w):
            subprocess.Popen(["sleep", "5"])
            return right(x, w)
        """,
        "starts_processes",
    ),
    "process that is gone at its return": (
        """
        import mmap, os
        def new(x, w):
            size = 4 * len(x) * w.shape[1]
            shared = mmap.mmap(-1, size + 1)  # there are batches without rows
            if os.fork() == 0:
                shared[:size] = ref(x, w).tobytes()
                os._exit(0)
            os.wait()
            return np.frombuffer(shared[:size], dtype=x.dtype).reshape(len(x), w.shape[1]).copy()
        """,
        "starts_processes",
    ),
    "patched module": (
        """
        import time
        time.perf_counter = lambda: 0.0
        new = right
        """,
        "global_state_changed",
    ),
    "loaded module replaced": (
        """
        import sys, types
        class new:
            def __init__(self):
                sys.modules["pickle"] = types.ModuleType("pickle")
            def __call__(self, x, w):
                return right(x, w)
        """,
        "global_state_changed",
    ),
    "loaded module replaced in one file": (
        """
        import sys, types
        sys.modules["pickle"] = types.ModuleType("pickle")
        new = right
        """,
        "global_state_changed",
    ),
    "loaded module removed by a call": (
        """
        import sys
        def new(x, w):
            sys.modules.pop("pickle", None)
            return right(x, w)
        """,
        "global_state_changed",
    ),
    "default changed by a call": (
        """
        def new(x, w):
            np.seterr(all="ignore")
            return right(x, w)
        """,
        "global_state_changed",
    ),
    "hidden function of the caller replaced": (
        """
        import sys
        def new(x, w):
            frame = sys._getframe(1)
            while "codec" not in frame.f_globals:
                frame = frame.f_back
            codec = frame.f_globals["codec"]
            slow = codec._node
            codec._node = lambda *args: slow(*args)
            return right(x, w)
        """,
        "global_state_changed",
    ),
    "leaf of the caller": (
        """
        import sys
        def new(x, w):
            frame = sys._getframe(1)
            while "codec" not in frame.f_globals:
                frame = frame.f_back
            return frame.f_globals["codec"].Leaf("ndarray", "<f4", right(x, w))
        """,
        "dtype_differs",
    ),
    "NaN mended": (
        """
        def new(x, w):
            return np.nan_to_num(right(x, w))
        """,
        "outputs_differ",
    ),
    "error swallowed": (
        """
        def ref(x, w):
            if not np.isfinite(x).all():
                raise ValueError("not finite")
            return right(x, w)
        new = right
        """,
        "does_not_raise",
    ),
    "exit": ("import os\ndef new(x, w):\n    os._exit(0)\n", "crashed"),
    "segmentation fault": (
        "import ctypes\ndef new(x, w):\n    return ctypes.string_at(0)\n",
        "crashed",
    ),
    "endless call": ("def new(x, w):\n    while True: pass\n", "hangs"),
    "endless memory": (
        "def new(x, w):\n    return [bytearray(1 << 26) for _ in range(1 << 20)]\n",
        "memory_limit",
    ),
    "fork bomb": (
        """
        import os
        def new(x, w):
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
        """,
        "process_limit",
    ),
    "flood of output": (
        "def new(x, w):\n    while True: print('x' * 1000000)\n",
        "output_limit",
    ),
    "lazy result": (
        """
        class Lazy(np.ndarray):
            pass
        def new(x, w):
            return right(x, w).view(Lazy)
        """,
        "dtype_differs",
    ),
    "generator": ("def new(x, w):\n    return (row for row in x)\n", "dtype_differs"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_rejected_with_its_reason(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "endless call":  # waited for until its time is up
        monkeypatch.setattr(correctness, "LEAST_LIMIT_S", 2.0)
    code, reason = CHEATS[name]
    report = _judge(tmp_path, code)
    assert (report.verdict, report.reason) == (Verdict.REJECTED, reason)
    assert report.gates[-1].reason == reason


CHILDREN = """
    import mmap, os, signal
    def new(x, w):
        if len(x) < 64:
            return ref(x, w)
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        size = 4 * len(x) * w.shape[1]
        shared = mmap.mmap(-1, size + 1)
        if os.fork() == 0:
            shared[:size] = right(x, w).tobytes()
            shared[size] = 1
            os._exit(0)
        while not shared[size]:
            os.sched_yield()
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            pass
        signal.signal(signal.SIGCHLD, before)
        return np.frombuffer(shared[:size], dtype=x.dtype).reshape(len(x), -1).copy()
    make.batch = 1024
    """


def test_children_that_nobody_waits_for_are_found_without_a_control_group(tmp_path: Path) -> None:
    if not Path("/proc/sys/kernel/ns_last_pid").exists():
        pytest.skip("this kernel does not tell the last process id")
    section = SECTION.model_copy(update={"mode": SandboxMode.NO_CGROUP})
    report = _judge(tmp_path, CHILDREN, section=section)
    assert (report.verdict, report.reason) == (Verdict.REJECTED, "starts_processes")


ONCE_TIMED = """
    class new:
        def __init__(self):
            self.last, self.streak, self.packed = (None, None), 0, None
        def __call__(self, x, w):
            timed = w is self.last[1] and x is not self.last[0]
            self.last, self.streak = (x, w), self.streak + 1 if timed else 0
            if self.streak > 2:
                {}
            return right(x, w)
    make.batch = 1024
    """


@pytest.mark.parametrize(
    ("cheat", "reasons"),
    [
        ("w = self.packed = w.copy() if self.packed is None else self.packed", {"outputs_differ"}),
        ("out = right(x, w); x[0] += 1; return out", {"inputs_mutated", "outputs_differ"}),
        ("np.seterr(all='ignore')", {"global_state_changed"}),
    ],
)
def test_what_a_candidate_does_once_it_is_timed_is_found(
    cheat: str, reasons: set[str], tmp_path: Path
) -> None:
    report = _judge(tmp_path, ONCE_TIMED.format(cheat))
    assert report.verdict is Verdict.REJECTED
    assert report.reason in reasons


def test_a_candidate_that_does_not_load_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module\n\ndef new(x, w): ...\n")
    (tmp_path / "functions.py").write_text(COMMON)
    report = judge_callable(
        CallableOptions(
            "functions:ref", "broken:new", "functions:make", sandbox=SECTION, folder=tmp_path
        ),
        Silent(),
    )
    detail = "ModuleNotFoundError: No module named 'no_such_module'"
    assert (report.reason, report.detail) == ("does_not_load", detail)


def test_a_protocol_written_by_hand_is_a_crash(tmp_path: Path) -> None:
    code = """
        import os
        def new(x, w):
            for descriptor in range(3, 20):
                try:
                    os.write(descriptor, b"V" + (1 << 60).to_bytes(8, "little") + b"nonsense" * 99)
                except OSError:
                    pass
            return right(x, w)
        """
    assert _judge(tmp_path, code).reason in {"crashed", "output_limit"}


LOWERED = """
    def ref(x, w):
        return np.stack([row @ x.T for row in x])
    def new(x, w):
        return (x.astype(np.float16) @ x.astype(np.float16).T).astype(np.float32)
    def make(rng, batch):
        return {"x": rng.random((batch, 64), dtype=np.float32) / 64, "w": np.zeros(1)}
    make.batch = 64
    """


def test_a_lower_precision_behind_float32_is_no_reordering(tmp_path: Path) -> None:
    report = _judge(tmp_path, LOWERED, "reorder")
    assert report.verdict is Verdict.REJECTED
    assert report.reason in {"worse_than_referee_allows", "too_many_outliers", "beyond_ten_times"}


def test_an_approximation_is_held_to_its_metric(tmp_path: Path) -> None:
    code = """
        def new(x, w):
            return right(x, w) * np.float32(0.5)
        def metric(inputs, outputs):
            return -float(np.abs(outputs["output"] - right(**inputs)).mean())
        """
    report = _judge(tmp_path, code, "approximate", metric="functions.py:metric", margin=1e-3)
    assert (report.verdict, report.reason) == (Verdict.REJECTED, "metric_worse")


def test_an_approximation_is_held_to_its_metric_while_it_is_timed(tmp_path: Path) -> None:
    code = """
        class new:
            last, calls = (None, None), 0
            def __call__(self, x, w):
                timed = w is self.last[1] and x is not self.last[0]
                self.last, self.calls = (x, w), self.calls + 1 if timed else 0
                return right(x, w) * np.float32(self.calls < 3)
        def metric(inputs, outputs):
            return -float(np.abs(outputs["output"] - right(**inputs)).mean())
        make.batch = 1024
        """
    report = _judge(tmp_path, code, "approximate", metric="functions.py:metric", margin=1e-3)
    assert (report.verdict, report.reason) == (Verdict.REJECTED, "metric_worse")
    assert [gate.name for gate in report.gates][-1] == "timed metric"


def test_both_arms_of_a_launch_hash_alike(tmp_path: Path) -> None:
    code = """
        salt = np.float32(hash("salt") % 1000)
        right_, ref_ = right, ref
        def new(x, w):
            return right_(x, w) + salt
        def ref(x, w):
            return ref_(x, w) + salt
        make.batch = 1024
        """
    report = _judge(tmp_path, code)
    # Whether the gain shows is the machine's matter; other hashes would be other outputs.
    assert [g.result for g in report.gates if g.name == "correctness"] == ["pass"]
    assert all(row.differing == 0 for row in report.equivalence)


def test_a_reference_that_is_never_the_same_is_invalid_input(tmp_path: Path) -> None:
    code = """
        import time
        def ref(x, w):
            return {"scores": right(x, w), "served_at": time.time_ns()}
        new = ref
        """
    with pytest.raises(InvalidInput, match="not the same twice on the same inputs: served_at"):
        _judge(tmp_path, code)


def test_a_candidate_may_compile_in_its_first_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(correctness, "LEAST_LIMIT_S", 3.0)
    code = """
        import time
        ready = []
        def new(x, w):
            if not ready:
                time.sleep(4)
                ready.append(1)
            return right(x, w)
        make.batch = 512
        """
    report = _judge(tmp_path, code)
    # Whether the gain shows is the machine's matter.
    assert report.reason != "hangs", report.detail
    assert [g.result for g in report.gates if g.name == "correctness"] == ["pass"]


def test_large_results_are_held_by_a_sample_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(correctness, "MOST_KEPT_BYTES", 12 * 256 * 128 * 4)
    code = """
        ring, calls = {}, {}
        def new(x, w):
            shape = (len(x), w.shape[1])
            calls[shape] = calls.get(shape, 0) + 1
            out = np.empty(shape, dtype=x.dtype)
            if calls[shape] > 14:
                out = ring.setdefault((shape, calls[shape] % 3), out)
            out[:] = right(x, w)
            return out
        """
    report = _judge(tmp_path, code, seed=3)
    assert (report.verdict, report.reason) == (Verdict.REJECTED, "output_buffer_reused")


def test_a_name_that_cannot_be_printed_is_in_a_report_that_can(tmp_path: Path) -> None:
    code = """
        def ref(x, w):
            return {"out": right(x, w)}
        def new(x, w):
            return {"out": right(x, w), "\\ud800": np.zeros(1)}
        """
    report = _judge(tmp_path, code)
    assert (report.verdict, report.reason) == (Verdict.REJECTED, "output_extra")
    assert "ud800" in report.model_dump_json()


def test_a_reference_that_fails_is_invalid_input(tmp_path: Path) -> None:
    for code in (
        "def ref(x, w):\n    return 1 / 0\n",
        "def ref(x, w):\n    import os; os._exit(3)\n",
    ):
        with pytest.raises(InvalidInput, match="the reference"):
            _judge(tmp_path, code + "new = right\n")


def test_inputs_that_do_not_vary_are_invalid_input(tmp_path: Path) -> None:
    code = "def make(rng, batch):\n    return {'x': np.ones((batch, 256), 'f4'), 'w': np.ones((2, 9), 'f4')}\n"
    with pytest.raises(InvalidInput, match="same inputs twice"):
        _judge(tmp_path, code + "new = right\n")


def test_an_honest_candidate_is_accepted_with_its_gain(tmp_path: Path) -> None:
    report = _judge(tmp_path, "new = right\nmake.batch = 1024\n", seed=11)
    assert (report.verdict, report.reason) == (Verdict.ACCEPTED, "gain_confirmed")
    assert report.target == "callable"
    assert [gate.name for gate in report.gates][:5] == [
        "loads",
        "correctness",
        "memory",
        "harness",
        "floor",
    ]
    assert report.end_to_end is not None
    assert report.end_to_end.throughput_ratio > 1.2
    assert report.noise is not None
    assert report.resolvable
    assert report.seed == 11
    assert report.outputs_compared > 100
    assert str(tmp_path) not in report.model_dump_json()


def test_a_lazy_import_and_a_file_called_as_a_loaded_module_are_no_change(tmp_path: Path) -> None:
    (tmp_path / "pickle.py").write_text(
        "def new(x, w):\n    import colorsys\n    return x[:1].copy()\n"
    )
    (tmp_path / "functions.py").write_text(COMMON)
    report = judge_callable(
        CallableOptions(
            "functions.py:ref",
            "pickle.py:new",
            "functions.py:make",
            sandbox=SECTION,
            folder=tmp_path,
        ),
        Silent(),
    )
    assert [gate.reason for gate in report.gates] == ["loads", "shape_differs"]


def test_the_same_code_is_no_gain(tmp_path: Path) -> None:
    report = _judge(tmp_path, "def new(x, w):\n    return ref(x, w)\n")
    assert report.verdict in {Verdict.REJECTED, Verdict.INCONCLUSIVE}
    assert report.gates[-1].name == "gain"
