"""The real model server: started, watched, reconfigured, ended."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from google.protobuf import text_format
from tritonclient.grpc import service_pb2

from layers.base import StackView
from layers.errors import InvalidInput, Missing, ToolFailed
from layers.manifest import SandboxMode, SandboxSection
from layers.record.environment_record import hardware
from layers.sandbox.box import Sandbox
from layers.triton.environment import ServerEnvironment
from layers.triton.guard import SHARED_MEMORY
from layers.triton.remote import RemoteDeployment
from layers.triton.server import Deployment
from tests.tcp_server import OwnedServer

pytestmark = pytest.mark.triton

MODELS = {"tiny_features", "tiny_ranker"}


def wait_until(condition: Callable[[], bool], seconds: float = 40) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def gone(pids: list[int]) -> bool:
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return False
    return True


def regions(owner: int) -> list[Path]:
    return list(SHARED_MEMORY.glob(f"fvec-*-{owner}-*"))


@pytest.fixture(params=[SandboxMode.STRICT, SandboxMode.PROCESS])
def mode(request: pytest.FixtureRequest, sandbox: Sandbox) -> SandboxMode:
    """Modes that differ in how a server ends; all need a strict sandbox to be there."""
    return request.param


@pytest.fixture
def broken_view(tiny_view: StackView, tmp_path: Path) -> StackView:
    """The tiny stack with a model that cannot be imported."""
    root = tmp_path / "broken"
    shutil.copytree(tiny_view.root, root)
    model = root / "models" / "tiny_ranker" / "1" / "model.py"
    model.write_text("raise RuntimeError('weights are nowhere')\n")
    return replace(tiny_view, root=root)


@pytest.fixture
def own_deployment(
    tiny_view: StackView,
    server_env: ServerEnvironment,
    mode: SandboxMode,
    tiny_request: bytes,
    tmp_path: Path,
) -> Iterator[Deployment]:
    """A server for one test to damage."""
    with Deployment(
        tiny_view,
        server_env,
        sandbox=Sandbox.open(SandboxSection(mode=mode)),
        cpus=[0],
        log_dir=tmp_path / "log",
        probe=tiny_request,
    ) as deployment:
        yield deployment


def test_a_request_through_the_ensemble_is_answered(
    tiny_deployment: Deployment, tiny_request: bytes
) -> None:
    answer = service_pb2.ModelInferResponse.FromString(tiny_deployment.client.infer(tiny_request))
    asked = service_pb2.ModelInferRequest.FromString(tiny_request)
    rows = next(i.shape[1] for i in asked.inputs if i.name == "item_title")

    assert [(o.name, o.datatype, list(o.shape)) for o in answer.outputs] == [
        ("score", "FP32", [1, rows])
    ]


def test_cpu_seconds_name_the_server_and_every_python_model_and_grow_with_work(
    tiny_deployment: Deployment, tiny_request: bytes
) -> None:
    before = tiny_deployment.cpu_seconds()
    counts = tiny_deployment.statistics("tiny_ranker")
    for _ in range(50):
        tiny_deployment.client.infer(tiny_request)
    after = tiny_deployment.cpu_seconds()

    assert set(before) == {"tritonserver", *MODELS}
    assert all(after[name] > before[name] for name in before)
    assert tiny_deployment.statistics("tiny_ranker").succeeded == counts.succeeded + 50


def test_pids_are_the_backend_processes(tiny_deployment: Deployment) -> None:
    pids = tiny_deployment.pids()

    assert set(pids) == MODELS
    for model, pid in pids.items():
        assert f"{model}/1/model.py" in psutil.Process(pid).cmdline()[1]


def test_the_server_sees_no_variable_of_ours(tiny_deployment: Deployment) -> None:
    pid = tiny_deployment.pids()["tiny_features"]

    assert set(psutil.Process(pid).environ()) <= {
        *("PATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH"),
        *("PWD", "SHLVL", "_"),  # the backend starts its processes through a shell
        *("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONNOUSERSITE"),
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    }


def test_serving_writes_nothing_into_the_worktree(
    tiny_deployment: Deployment, tiny_view: StackView
) -> None:
    status = ["git", "status", "--porcelain", "--ignored"]
    told = subprocess.run(status, cwd=tiny_view.root, capture_output=True, text=True, check=True)

    assert sorted(told.stdout.split()) == [
        *("!!", "!!"),
        *("traffic/arrivals.csv", "traffic/requests.bin"),
    ]


def test_a_good_configuration_is_taken_and_the_previous_one_put_back(
    tiny_deployment: Deployment, tiny_request: bytes
) -> None:
    before = tiny_deployment.config("tiny_features")
    wanted = tiny_deployment.config("tiny_features")
    wanted.instance_group[0].count = 2

    assert tiny_deployment.try_config("tiny_features", text_format.MessageToString(wanted)) is None
    assert tiny_deployment.config("tiny_features") == before
    assert tiny_deployment.client.infer(tiny_request)
    tiny_deployment.alive()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("max_batch_size: -1", "must be non-negative"),  # said by the server's log alone
        ("instance_group { kind: KIND_GPU }", "no GPUs are available"),
        ("colour: 3", 'no field named "colour"'),
        ('default_model_filename: "other.py"', "cannot be changed in a trial"),
        ('name: "tiny_ranker"', "names the model 'tiny_ranker'"),
    ],
)
def test_a_bad_configuration_is_refused_with_the_reason_and_changes_nothing(
    tiny_deployment: Deployment, tiny_view: StackView, change: str, reason: str
) -> None:
    before = tiny_deployment.config("tiny_features")
    text = (tiny_view.root / "models/tiny_features/config.pbtxt").read_text()
    dropped = change.split()[0].rstrip(":")
    kept = [line for line in text.splitlines() if not line.startswith(dropped)]

    told = tiny_deployment.try_config("tiny_features", "\n".join([*kept, change]))

    assert told is not None
    assert reason in told
    assert tiny_deployment.config("tiny_features") == before
    tiny_deployment.alive()


def test_a_configuration_that_loads_but_cannot_serve_is_refused_by_the_probe(
    tiny_deployment: Deployment, tiny_request: bytes
) -> None:
    wanted = tiny_deployment.config("tiny_features")
    wanted.input[2].data_type = 8  # the ensemble still sends FP32

    assert tiny_deployment.try_config("tiny_features", text_format.MessageToString(wanted))
    assert tiny_deployment.client.infer(tiny_request)


def test_a_running_server_is_read_by_its_address(
    running_server: OwnedServer, tiny_deployment: Deployment, tiny_request: bytes
) -> None:
    with RemoteDeployment(running_server.address, probe=tiny_request) as remote:
        remote.alive()

        assert remote.pids() == running_server.pids()
        assert set(remote.cpu_seconds()) == {"tritonserver", *MODELS}
        assert remote.config("tiny_ranker") == tiny_deployment.config("tiny_ranker")
    assert running_server.process.is_running()


def test_an_address_where_nobody_listens_is_missing() -> None:
    with pytest.raises(Missing, match="no model server answers"), RemoteDeployment("127.0.0.1:1"):
        pass


def test_stopping_leaves_no_process_no_shared_memory_and_no_control_group(
    own_deployment: Deployment, mode: SandboxMode
) -> None:
    pids = [
        *own_deployment.pids().values(),
        own_deployment._server.pid,
        own_deployment._guard.pid,
    ]
    own = [r for r in regions(os.getpid()) if r.name.startswith(own_deployment._prefix)]
    assert len(own) == (len(MODELS) if mode is SandboxMode.PROCESS else 0)
    assert psutil.Process(pids[0]).cpu_affinity() == [0]
    groups = own_deployment._group.places if own_deployment._group else ()
    if own_deployment._group:
        assert set(pids[:-1]) <= set(own_deployment._group.pids())

    own_deployment.stop()

    assert gone(pids)
    assert not any(region.exists() for region in own)
    assert not any(group.exists() for group in groups)
    assert not own_deployment._socket.exists()
    with pytest.raises(ToolFailed, match="not running"):
        own_deployment.alive()


def test_a_stopped_backend_is_noticed_and_so_is_a_killed_one(own_deployment: Deployment) -> None:
    pid = own_deployment.pids()["tiny_features"]
    own_deployment.alive()

    os.kill(pid, signal.SIGSTOP)
    assert wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    with pytest.raises(ToolFailed, match=r"tiny_features \(pid \d+\) is stopped"):
        own_deployment.alive()

    os.kill(pid, signal.SIGCONT)
    assert wait_until(lambda: psutil.Process(pid).status() != psutil.STATUS_STOPPED)
    own_deployment.alive()

    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: gone([pid]))
    with pytest.raises(ToolFailed, match=r"tiny_features \(pid \d+\) has died"):
        own_deployment.alive()


def test_a_killed_guard_is_noticed_and_stopping_still_leaves_nothing(
    own_deployment: Deployment, mode: SandboxMode
) -> None:
    guard = own_deployment._guard
    pids = [*own_deployment.pids().values(), own_deployment._server.pid]
    own = [r for r in regions(os.getpid()) if r.name.startswith(own_deployment._prefix)]

    guard.kill()
    assert wait_until(lambda: guard.poll() is not None)
    with pytest.raises(ToolFailed, match="the model server has ended"):
        own_deployment.alive()
    own_deployment.stop()

    assert wait_until(lambda: gone(pids))
    assert len(own) == (len(MODELS) if mode is SandboxMode.PROCESS else 0)
    assert not any(region.exists() for region in own)


def test_a_model_that_does_not_load_is_reported_with_the_logs_reason(
    broken_view: StackView, server_env: ServerEnvironment, sandbox: Sandbox, tmp_path: Path
) -> None:
    before = set(regions(os.getpid()))
    deployment = Deployment(
        broken_view, server_env, sandbox=sandbox, cpus=None, log_dir=tmp_path / "log"
    )

    with pytest.raises(ToolFailed) as caught:
        deployment.start()

    assert "'tiny_ranker' version 1: Internal: RuntimeError: weights are nowhere" in str(
        caught.value
    )
    assert "models/tiny_ranker/1/model.py(1)" in str(caught.value)
    assert str(tmp_path / "log" / "tritonserver.log") in str(caught.value)
    assert set(regions(os.getpid())) == before


def test_a_cpu_that_is_not_there_is_missing(
    tiny_view: StackView, server_env: ServerEnvironment, sandbox: Sandbox, tmp_path: Path
) -> None:
    with pytest.raises(Missing, match=r"CPUs \[4095\]"):
        Deployment(tiny_view, server_env, sandbox=sandbox, cpus=[4095], log_dir=tmp_path).start()


def test_a_path_that_the_backends_shell_would_split_is_refused(
    tiny_view: StackView, server_env: ServerEnvironment, sandbox: Sandbox, tmp_path: Path
) -> None:
    shutil.copytree(tiny_view.root, tmp_path / "a folder")
    view = replace(tiny_view, root=tmp_path / "a folder")

    with pytest.raises(InvalidInput, match="a folder/models"):
        Deployment(view, server_env, sandbox=sandbox, cpus=None, log_dir=tmp_path).start()


HOLDER = """
import signal, sys, time
from pathlib import Path
from layers.base import StackView
from layers.manifest import SandboxSection
from layers.sandbox.box import Sandbox
from layers.repository.stack import Stack
from layers.triton.environment import ensure
from layers.triton.server import Deployment

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below a shell's "&"
repository, worktree, logs = map(Path, sys.argv[1:4])
sandbox = Sandbox.open(SandboxSection(mode=sys.argv[4]))
env = ensure(None, allow_install=False)
view = StackView(worktree, "0" * 40, Stack.open(repository).manifest, env.python)
with Deployment(view, env, sandbox=sandbox, cpus=None, log_dir=logs) as deployment:
    pids = [*deployment.pids().values(), deployment._server.pid, deployment._guard.pid]
    print(*pids, *(deployment._group.places if deployment._group else ()), end=" ")
    print(deployment._socket.parent, flush=True)
    time.sleep(600)
"""


def test_killed_owners_leave_nothing_behind(
    tiny_repo: Path, tiny_view: StackView, tmp_path: Path, mode: SandboxMode
) -> None:
    argv = [sys.executable, "-c", HOLDER, str(tiny_repo), str(tiny_view.root)]
    owners = {
        killer: subprocess.Popen(
            [*argv, str(tmp_path / killer.name), mode.value],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for killer in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    }
    left, groups = {}, {}
    for killer, owner in owners.items():
        with owner:
            words = owner.stdout.readline().split()
            groups[killer] = [Path(word) for word in words if word.startswith("/")]
            left[killer] = [int(word) for word in words if word.isdecimal()]
            assert len(left[killer]) == len(MODELS) + 2
            assert (len(groups[killer]) > 1) == (mode is SandboxMode.STRICT)
            assert all(map(Path.is_dir, groups[killer]))
            assert len(regions(owner.pid)) == (len(MODELS) if mode is SandboxMode.PROCESS else 0)
            owner.send_signal(killer)

    for killer, owner in owners.items():
        assert wait_until(partial(gone, left[killer])), killer
        assert wait_until(lambda pid=owner.pid: not regions(pid)), killer
        assert wait_until(lambda of=killer: not any(map(Path.exists, groups[of]))), killer


def test_the_environment_record_holds_the_servers_packages(server_env: ServerEnvironment) -> None:
    record = hardware(server_env, sandbox="none", server_cpus=[0], generator_cpus=[1])

    assert record.sandbox == "none"
    assert record.server == "Triton Inference Server 2.51.0"
    assert record.packages["numpy"] == "1.26.4"
    assert record.packages["nvidia-pytriton"] == "0.7.0"
    assert (record.server_cpus, record.generator_cpus) == ([0], [1])
    assert record.cores >= 1
    assert record.memory_gib > 0
