"""One function in a process for real: what it sees of us, and what the kernel tells of it."""

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from layers.callables import codec
from layers.callables.cell import Cell, Ended, laid_out
from layers.callables.process import Process
from layers.callables.spec import Spec
from layers.manifest import SandboxMode, SandboxSection
from layers.sandbox.box import Sandbox

pytestmark = pytest.mark.alone

Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return what starts the process of `f`, loaded; without a sandbox, as on any machine."""
    sandbox = Sandbox.open(SandboxSection(mode=SandboxMode.PROCESS))
    (tmp_path / "app").mkdir()
    caller = laid_out(tmp_path / "app")
    with ExitStack() as stack:

        def started(code: str, role: str = "candidate", **settings: object) -> Process:
            (tmp_path / "functions.py").write_text("import os, sys\n" + textwrap.dedent(code))
            cell = Cell(
                sandbox,
                Path(sys.executable),
                sandbox.limits,
                tmp_path,
                cpu=max(os.sched_getaffinity(0)),
                spin=False,
                caller=caller,
                **settings,
            )
            spec = Spec.parse("functions.py:f", tmp_path, "--candidate")
            return stack.enter_context(Process(cell, role, spec))

        yield started


def _returned(process: Process, **arguments: object) -> list[object]:
    process.put(codec.encode(arguments))
    answer = process.call()
    assert answer.raised is None, answer.raised
    return codec.revive(answer.outputs())


NAMES = """
    def f():
        return ["\\n".join(sys.modules), " ".join(sys.argv), os.environ.get("OMP_NUM_THREADS", "")]
    """


def test_code_sees_no_name_of_ours_and_two_environments(start: Start) -> None:
    usual, other = start(NAMES), start(NAMES, elsewhere=True)
    seen = []
    for process in (usual, other):
        process.load()
        modules, *rest = _returned(process)
        assert not [name for name in str(modules).split() if "fvec" in name]
        assert not {"codec", "memory", "snapshot"} & set(str(modules).split())
        seen.append(rest)
    assert seen == [["main", "1"], ["serve", ""]]


def test_a_call_is_over_before_its_result_is_copied_out(start: Start) -> None:
    process = start(
        """
        import numpy as np
        def f():
            return (number for number in range(3))  # cannot travel
        """
    )
    process.load()
    process.put(codec.encode({"nothing": 0}), left_out=["nothing"])
    process._send(b"G")
    assert process._receive(b"D") == (b"D", b"")
    process._send(b"F")
    assert process._receive(b"V", b"U")[0] == b"U"


LEAF = """
    import numpy as np
    def f():
        frame = sys._getframe(1)
        while "codec" not in frame.f_globals:
            frame = frame.f_back
        return frame.f_globals["codec"].Leaf("ndarray", "<f8", np.zeros(3))
    """


def test_a_leaf_of_ours_is_no_result(start: Start) -> None:
    process = start(LEAF)
    process.load()
    process.put(codec.encode({}))
    with pytest.raises(Ended, match="leaf") as caught:
        process.call()
    assert caught.value.reason == "dtype_differs"


PATCHED = """
    class f:
        def __init__(self):
            frame = sys._getframe(1)
            while "codec" not in frame.f_globals:
                frame = frame.f_back
            codec = frame.f_globals["codec"]
            slow = codec._array
            codec._array = lambda *args: slow(*args)
        def __call__(self):
            return 1
    """


def test_a_hidden_function_of_ours_that_is_replaced_is_told(start: Start) -> None:
    loaded = start(PATCHED).load()
    assert any(name.startswith("the caller.codec _array") for name in loaded.changes)
    assert not [n for n in start("def f():\n    return 1\n").load().changes if "caller" in n]


def test_a_call_that_does_nothing_hands_out_the_last_result_again(start: Start) -> None:
    process = start("def f(x):\n    return x + 1\n")
    process.load()
    process.put(codec.encode({"x": np.arange(3)}))
    first = process.call()
    assert process.call(no_op=True).body == first.body


CHILDREN = """
    import signal
    def f(fork):
        if fork:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            if os.fork() == 0:
                os._exit(0)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                pass
        return 1
    """


def test_children_that_nobody_waits_for_are_told_by_the_kernel(start: Start) -> None:
    process = start(CHILDREN)
    process.load()
    if not process.births():
        pytest.skip("this kernel does not tell the last process id")
    before = process.births()
    _returned(process, fork=True)
    assert process.births() != before


def test_where_a_process_may_run_is_asked_of_the_kernel(start: Start) -> None:
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip("one CPU")
    process = start(f"def f():\n    os.sched_setaffinity(0, {sorted(cpus)!r})\n    return 1\n")
    process.load()
    assert process.cpus() == {max(cpus)}
    _returned(process)
    assert process.cpus() == cpus


def test_memory_that_a_call_keeps_is_seen(start: Start) -> None:
    process = start("kept = []\ndef f():\n    kept.append(b'1' * (16 << 20))\n    return 1\n")
    process.load()
    before = process.resident_bytes()
    _returned(process)
    assert process.resident_bytes() > before + (12 << 20)


def test_what_has_travelled_once_may_do_so_again_under_a_smaller_limit(start: Start) -> None:
    process = start("def f(x):\n    return x.copy()\n")
    process.load()
    large, small = codec.encode({"x": np.zeros(1 << 20)}), codec.encode({"x": np.zeros(2)})
    process.put(large)
    answer = process.call()
    process.keep()
    process.frame_limit = 1 << 10
    assert process.arguments() == large
    process.put(small)
    process.call()
    assert process.earlier() == process.kept(0) == answer.body
    process.put(large)
    with pytest.raises(Ended, match="announced an answer"):
        process.call()


def test_arguments_are_handed_over_by_position_and_left_out(start: Start) -> None:
    process = start("def f(a, b=5, c=7):\n    return [a, b, c]\n")
    assert [name for name, _, _ in process.load().parameters] == ["a", "b", "c"]
    body = codec.encode({"a": 1, "b": 2, "c": 3})
    process.put(body, by_position=["b", "a"], left_out=["c"])
    assert codec.revive(process.call().outputs()) == [2, 1, 7]
    process.put(body)
    assert codec.revive(process.call().outputs()) == [1, 2, 3]
