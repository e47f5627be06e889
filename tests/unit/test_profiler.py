from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from layers.base import Hotspot, LayerName, StackView
from layers.errors import InvalidInput, Missing, ToolFailed
from layers.manifest import Manifest
from layers.profile import profiler
from layers.profile.collapsed import Frame, Sampled, parse_collapsed
from layers.profile.phases import roles_of
from layers.profile.profiler import OwnFiles, profile, summarise

ROOT = Path("/stack")
MODEL = "/stack/models/f/1/model.py"
UTILS = "/backends/triton_python_backend_utils.py"
MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {"name": "s", "models": "models", "entry": "f"},
        "traffic": {"requests": "r.bin", "arrivals": "a.csv"},
        "slo": {"p99_ms": 10},
    }
)
EXECUTE = Frame("execute", MODEL, 10)


def summary(stacks, cpu_s, *, sampled_s=None, torch=(), roles=None):
    return summarise(
        stacks,
        cpu_s,
        sampled_s or cpu_s,
        requests=7,
        torch=torch,
        own=OwnFiles(ROOT, roles or {}),
        raw=Path("raw"),
    )


def test_parses_frames_counts_and_lines():
    text = "execute (/a b/model.py:12);get (x.py:3) 5\n\n<module> (m.py) 2\n"
    assert parse_collapsed(text) == [
        Sampled((Frame("execute", "/a b/model.py", 12), Frame("get", "x.py", 3)), 5),
        Sampled((Frame("<module>", "m.py", 0),), 2),
    ]


def test_keeps_a_frame_without_a_place_and_semicolons_inside_a_path():
    text = "[unknown] 1\n 9\nf (/odd;name (1)/m.py:4);g (/n.py:2) 3\n"
    assert [stack.frames for stack in parse_collapsed(text)] == [
        (Frame("[unknown]", "", 0),),
        (),
        (Frame("f", "/odd;name (1)/m.py", 4), Frame("g", "/n.py", 2)),
    ]


@pytest.mark.parametrize("line", ["no count here", "f (m.py:1) -3", "f (m.py:1) ²", "7 f"])
def test_names_the_line_that_is_no_stack(line):
    with pytest.raises(InvalidInput, match=r"p\.txt:2: not a collapsed stack"):
        parse_collapsed(f"f (m.py:1) 1\n{line}\n", Path("p.txt"))


def test_shares_are_of_cpu_time_and_what_was_not_sampled_is_outside_python():
    helper = Frame("helper", MODEL, 20)
    stacks = {"f": [Sampled((EXECUTE,), 60), Sampled((EXECUTE, helper), 60)]}  # 0.6 s
    found = summary(stacks, {"tritonserver": 0.2, "f": 0.8})
    assert found.by_process == {"tritonserver": 0.2, "f": 0.8}
    assert {(s.function, s.line, s.inclusive): round(s.share, 6) for s in found.hotspots} == {
        ("execute", 0, True): 0.6,
        ("execute", 10, True): 0.6,
        ("execute", 10, False): 0.3,
        ("helper", 0, True): 0.3,
        ("helper", 20, True): 0.3,
        ("helper", 20, False): 0.3,
        ("(outside Python)", 0, False): 0.2,
    }
    assert {spot.file for spot in found.hotspots} == {"models/f/1/model.py", ""}


def test_samples_of_a_process_that_waited_for_a_core_count_no_more_than_its_cpu_time():
    found = summary({"f": [Sampled((EXECUTE,), 400)]}, {"tritonserver": 0.0, "f": 1.0})
    assert found.hotspots[0] == Hotspot(
        "f", "models/f/1/model.py", "execute", 0, 1.0, inclusive=True
    )


def test_one_sampled_instance_stands_for_all():
    found = summary(
        {"f": [Sampled((EXECUTE,), 100)]},
        {"tritonserver": 1.0, "f": 1.0},
        sampled_s={"f": 0.5},
    )
    assert found.by_layer[LayerName.FEATURES] == 0.5


def test_recursion_counts_once_per_line_and_function():
    found = summary({"f": [Sampled((EXECUTE, EXECUTE, EXECUTE), 200)]}, {"f": 1.0})
    assert [spot.share for spot in found.hotspots] == [1.0, 1.0, 1.0]


def test_splits_the_process_of_a_model_into_the_phases_of_a_request():
    source = (
        "def execute(r):\n    a = get(r).as_numpy()\n    b = solve(a)\n    return Tensor('b', b)\n"
    )
    library = Frame("solve", "/site-packages/numpy/linalg.py", 7)
    stacks = {
        "f": [
            Sampled((Frame("deserialize_bytes_tensor", UTILS, 115),), 40),
            Sampled((Frame("execute", MODEL, 2), Frame("get", "/lib/x.py", 1)), 20),
            Sampled((Frame("execute", MODEL, 3), library), 60),
            Sampled((Frame("execute", MODEL, 4), Frame("serialize_byte_tensor", UTILS, 70)), 20),
            Sampled((Frame("threading", "/lib/threading.py", 3),), 20),
        ]
    }
    found = summary(stacks, {"tritonserver": 0.0, "f": 1.0}, roles={MODEL: roles_of(source)})
    assert {
        name: {k: round(v, 6) for k, v in part.items()} for name, part in found.by_phase.items()
    } == {"f": {"receive": 0.2, "compute": 0.4, "assemble": 0.1, "outside": 0.3}}


def test_each_layer_gets_what_it_could_touch():
    lookup = Frame("get_input_tensor_by_name", UTILS, 139)
    conversion = Frame("deserialize_bytes_tensor", UTILS, 115)
    stacks = {
        "f": [Sampled((conversion,), 100), Sampled((EXECUTE, lookup), 40)],
        "r": [Sampled((Frame("execute", "/stack/models/r/1/model.py", 3),), 20)],
    }
    found = summary(stacks, {"tritonserver": 0.2, "f": 0.7, "r": 0.1}, torch={"r"})
    assert {name: round(share, 6) for name, share in found.by_layer.items()} == {
        LayerName.FEATURES: 0.2,
        LayerName.GRAPH: 0.1,
        LayerName.SERVER: 0.7,
        LayerName.CONFIG: 1.0,
    }


def test_a_server_that_did_nothing_has_no_profile():
    with pytest.raises(ToolFailed, match="used no CPU"):
        summary({}, {"tritonserver": 0.0})


BUSY = """\
import time

def burn():
    return sum(i * i for i in range(200_000))

while True:
    burn()
"""


class OneProcess:
    """A deployment of one model whose process is a plain Python program."""

    def __init__(self, pid):
        self._process = psutil.Process(pid)

    def pids(self):
        return {"busy": self._process.pid}

    def cpu_seconds(self):
        if not self._process.is_running():  # as a deployment says it, whichever looks first
            raise ToolFailed("the process of busy has ended")
        used = self._process.cpu_times()
        return {"tritonserver": 0.0, "busy": used.user + used.system}


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[OneProcess]:
    program = tmp_path / "models" / "busy.py"
    program.parent.mkdir()
    program.write_text(BUSY)
    process = subprocess.Popen([sys.executable, str(program)])
    yield OneProcess(process.pid)
    process.kill()
    process.wait()


def test_profiles_a_live_process(busy, tmp_path):
    def load():
        time.sleep(1.0)
        return 3

    stack = StackView(tmp_path, "c", MANIFEST, Path(sys.executable))
    found = profile(busy, load, raw_dir=tmp_path / "raw", stack=stack)
    assert found.requests == 3
    assert found.tool.startswith("py-spy ")
    burn = next(s for s in found.hotspots if (s.function, s.line) == ("burn", 0))
    assert (burn.process, burn.file, burn.inclusive) == ("busy", "models/busy.py", True)
    assert burn.share > 0.5
    assert parse_collapsed(found.raw.read_text())[0].frames[0] == Frame("busy", "process", 0)


def test_a_load_that_outlasts_the_sampling_has_no_profile(busy, tmp_path, monkeypatch):
    monkeypatch.setattr(profiler, "LONGEST_S", 1)

    def load():
        children = psutil.Process().children()
        spies = [child for child in children if "py-spy" in child.name()]
        while any(spy.status() != psutil.STATUS_ZOMBIE for spy in spies):
            time.sleep(0.05)
        return len(spies)

    stack = StackView(tmp_path, "c", MANIFEST, Path(sys.executable))
    with pytest.raises(ToolFailed, match=r"'busy'.* it ended before the load did"):
        profile(busy, load, raw_dir=tmp_path / "raw", stack=stack)


def test_without_py_spy_says_how_to_get_it(busy, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    stack = StackView(tmp_path, "c", MANIFEST, tmp_path / "python")
    with pytest.raises(Missing, match=r"py-spy is not installed\n  hint: pip install"):
        profile(busy, lambda: 0, raw_dir=tmp_path / "raw", stack=stack)


def test_a_process_that_is_gone_is_our_failure_not_a_profile(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as ended:
        deployment = OneProcess(ended.pid)
    stack = StackView(tmp_path, "c", MANIFEST, Path(sys.executable))
    with pytest.raises(ToolFailed, match="busy"):
        profile(deployment, lambda: 0, raw_dir=tmp_path, stack=stack)
