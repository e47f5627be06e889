"""The operating system's view of processes, on ordinary ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from layers.errors import Missing, ToolFailed
from layers.triton import processes
from layers.triton.guard import SHARED_MEMORY


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    program = "import sys; print(sum(range(10**6)), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_cpu_time_is_that_of_the_process(child: subprocess.Popen[bytes]) -> None:
    times = psutil.Process(child.pid).cpu_times()

    # The process waits for input: both clocks stand still; /proc counts ticks of 10 ms.
    assert processes.cpu_time_s(child.pid) == pytest.approx(times.user + times.system, abs=0.03)


def test_cpu_time_of_a_process_that_is_gone_is_an_error(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()

    with pytest.raises(ToolFailed, match="is gone"):
        processes.cpu_time_s(child.pid)


def test_a_running_process_is_alive(child: subprocess.Popen[bytes]) -> None:
    processes.check_alive(child.pid, "it", psutil.Process(child.pid).create_time())


def test_a_stopped_process_is_not_alive(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)

    with pytest.raises(ToolFailed, match=r"it \(pid \d+\) is stopped"):
        processes.check_alive(child.pid, "it")


def test_neither_a_zombie_nor_a_reused_process_id_is_alive(
    child: subprocess.Popen[bytes],
) -> None:
    with pytest.raises(ToolFailed, match="has died"):
        processes.check_alive(child.pid, "it", started=1.0)

    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ToolFailed, match="has died"):
        processes.check_alive(child.pid, "it")


def test_shared_memory_of_a_dead_owner_is_removed_and_of_a_live_one_kept(
    child: subprocess.Popen[bytes],
) -> None:
    live = processes.new_prefix()
    namespace, owner, ticks, token = live.split("-")[1:5]
    child.kill()
    child.wait()
    kept = [
        SHARED_MEMORY / f"{live}region",
        SHARED_MEMORY / f"fvec-1-{child.pid}-{ticks}-{token}-other-namespace",
        SHARED_MEMORY / f"fvec-{namespace}-not-of-ours-{token}",
    ]
    removed = [
        SHARED_MEMORY / f"fvec-{namespace}-{child.pid}-{ticks}-{token}-region",
        SHARED_MEMORY / f"fvec-{namespace}-{owner}-{int(ticks) + 1}-{token}-earlier-life",
    ]
    try:
        for region in (*kept, *removed):
            region.touch()
        processes.remove_leftovers()

        assert [region.exists() for region in (*kept, *removed)] == [True] * 3 + [False] * 2
    finally:
        for region in (*kept, *removed):
            region.unlink(missing_ok=True)


def test_a_port_where_nobody_listens_has_no_process() -> None:
    with pytest.raises(Missing, match="listens on port 1 "):
        processes.listener(1)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/models/ranker/1/model.py", "ranker"),
        ("models/ranker/1/model.py", "ranker"),
        ("", "triton_python_backend_stub"),
        ("x", "triton_python_backend_stub"),
        ("/1/model.py", "triton_python_backend_stub"),
    ],
)
def test_a_command_line_that_a_model_rewrote_still_has_a_name(path: str, model: str) -> None:
    assert processes._model_of(path) == model


def test_a_stub_whose_command_line_was_rewritten_is_listed() -> None:
    program = "import time; print(flush=True); time.sleep(600)"
    argv = ["triton_python_backend_stub", "-c", program]
    with subprocess.Popen(argv, executable=sys.executable, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        found = processes.stubs_of(psutil.Process())
        child.kill()
    assert [(stub.model, stub.pid) for stub in found] == [("triton_python_backend_stub", child.pid)]


def test_a_thread_that_may_run_elsewhere_is_named(child: subprocess.Popen[bytes]) -> None:
    allowed = os.sched_getaffinity(child.pid)
    few = {min(allowed)}
    expected = f"thread {child.pid} of process {child.pid} may run on CPUs {sorted(allowed - few)}"

    assert processes.outside([child.pid], allowed) is None
    assert processes.outside([child.pid], few) == (expected if allowed - few else None)
    os.sched_setaffinity(child.pid, few)
    assert processes.outside([child.pid], few) is None
    assert processes.outside([2**22 + 1], few) is None  # it has ended
