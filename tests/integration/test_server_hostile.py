"""Model code that attacks: what it sees and reaches, how its server ends, what is left of it."""

import errno
import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from layers.base import StackView
from layers.errors import ToolFailed
from layers.manifest import SandboxSection
from layers.sandbox.base import Ending
from layers.sandbox.box import LimitReached, Sandbox
from layers.triton.client import Client
from layers.triton.endpoint import SHUT_IN, TakenOver
from layers.triton.environment import ServerEnvironment
from layers.triton.guard import LOG_NOTE
from layers.triton.server import Deployment

pytestmark = [pytest.mark.triton, pytest.mark.alone]

MODEL = Path("models") / "tiny_ranker" / "1" / "model.py"
Deploy = Callable[..., Deployment]


@pytest.fixture
def deploy(
    tiny_view: StackView,
    server_env: ServerEnvironment,
    sandbox: Sandbox,
    tiny_request: bytes,
    tmp_path: Path,
) -> Deploy:
    """Returns a server, not yet started, of the tiny stack with code before a model's own."""

    def make(code: str, *, start_timeout_s: float = 60, **section: float) -> Deployment:
        root = tmp_path / "hostile"
        shutil.copytree(tiny_view.root, root)
        (root / MODEL).write_text(f"{code}\n{(root / MODEL).read_text()}")
        limits = {"sandbox": SandboxSection.model_validate(section)}
        return Deployment(
            replace(tiny_view, root=root, manifest=tiny_view.manifest.model_copy(update=limits)),
            server_env,
            sandbox=sandbox,
            cpus=None,
            log_dir=tmp_path / "log",
            start_timeout_s=start_timeout_s,
            probe=tiny_request,
        )

    return make


def watch(deployment: Deployment, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        deployment.alive()
        time.sleep(0.05)


@contextmanager
def nothing_left(deployment: Deployment) -> Iterator[None]:
    """The server's control groups, taken note of as they are made, are gone afterwards."""
    plan, seen = deployment._plan, []

    def noted(folder, **options):
        made = plan(folder, **options)
        seen.extend(deployment._group.places)
        return made

    deployment._plan = noted
    yield
    assert seen
    assert not any(place.exists() for place in seen)


def test_a_model_sees_its_stack_and_nothing_that_judges_it(deploy: Deploy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        code = f"""
import json, os, socket, sys
from pathlib import Path

def attempt(call):
    try:
        return repr(call())
    except OSError as error:
        return error.strerror

ROOT = Path(__file__).parents[3]
seen = {{
    "root": sorted(p.name for p in ROOT.iterdir()),
    "traffic": sorted(p.name for p in (ROOT / "traffic").iterdir()),
    "github": sorted(p.name for p in (ROOT / ".github").iterdir()),
    "git": attempt((ROOT / ".git").read_bytes),
    "write": attempt(lambda: Path(__file__).write_text("")),
    "network": attempt(lambda: socket.create_connection(("127.0.0.1", {port}), 1)),
    "passwords": attempt(Path("/etc/shadow").read_bytes),
    "processes": sorted(int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal())[0],
    "home": os.environ["HOME"],
}}
print("SEEN", json.dumps(seen), file=sys.stderr, flush=True)
"""
        with deploy(code) as deployment:
            deployment.alive()
            text = deployment.log.read_text()

    line = next(line for line in text.splitlines() if line.startswith("SEEN "))
    assert json.loads(line.removeprefix("SEEN ")) == {
        "root": [".git", ".github", ".gitignore", "models", "traffic"],
        "traffic": [],
        "github": [],
        "git": "Permission denied",
        "write": "Read-only file system",
        "network": "Connection refused",
        "passwords": "No such file or directory",
        "processes": 1,
        "home": str(SHUT_IN),
    }


def test_a_full_disk_is_the_models_own(deploy: Deploy, tmp_path: Path) -> None:
    code = """
import os, sys
written = 0
for folder in (os.environ["HOME"], "/dev/shm"):
    try:
        with open(f"{folder}/filler", "wb", buffering=0) as filler:
            while written < 4 << 30:
                written += filler.write(bytes(1 << 20))
    except OSError as error:
        print("ENDED", folder, error.strerror, file=sys.stderr, flush=True)
    os.unlink(f"{folder}/filler")
"""
    with deploy(code) as deployment:
        deployment.alive()
        text = deployment.log.read_text()

    assert {line for line in text.splitlines() if line.startswith("ENDED")} == {
        "ENDED /tmp No space left on device",
        "ENDED /dev/shm No space left on device",
    }


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.kill(os.getpid(), 11)", "a model's process ended while it loaded"),
        ("import os; os._exit(0)", "a model's process ended while it loaded"),
        ("import os; os.kill(os.getppid(), 9)", "ended while it started"),
        ("import os; os.kill(1, 9); os.kill(-1, 9)", "ended while it started"),
    ],
)
def test_a_crash_at_the_start_is_a_server_that_does_not_start(
    deploy: Deploy, code: str, message: str
) -> None:
    deployment = deploy(code, start_timeout_s=30)

    with nothing_left(deployment), pytest.raises(ToolFailed, match=message) as caught:
        deployment.start()

    assert not isinstance(caught.value, LimitReached)


@pytest.mark.parametrize(
    ("code", "section", "reason"),
    [
        ("import time; time.sleep(600)", {}, Ending.TIME_LIMIT),
        (
            "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
            {"processes": 64},
            Ending.PROCESS_LIMIT,
        ),
        (
            "hog = [bytearray(1 << 24) for _ in range(200)]",
            {"memory_gib": 0.5},
            Ending.MEMORY_LIMIT,
        ),
        (
            "import sys\nwhile True:\n    sys.stderr.write('x' * 10**6 + chr(10))",
            {},
            Ending.OUTPUT_LIMIT,
        ),
    ],
    ids=lambda value: value.value if isinstance(value, Ending) else "",
)
def test_a_limit_that_ends_a_start_is_named(
    deploy: Deploy, code: str, section: dict[str, float], reason: Ending
) -> None:
    # Most end long before: only what is ended by its time may be.
    start_timeout_s = 6 if reason is Ending.TIME_LIMIT else 60
    deployment = deploy(code, start_timeout_s=start_timeout_s, **section)

    with nothing_left(deployment), pytest.raises(LimitReached) as caught:
        deployment.start()

    assert caught.value.reason is reason


def test_a_server_that_floods_its_log_while_it_serves_is_ended(
    deploy: Deploy, tiny_request: bytes
) -> None:
    code = """
import sys, threading, time
def later():
    time.sleep(8)
    while True:
        sys.stderr.write('x' * 10**6 + chr(10))
threading.Thread(target=later, daemon=True).start()
"""
    with deploy(code) as deployment:
        assert deployment.client.infer(tiny_request)
        with pytest.raises(LimitReached, match=r"ended|died") as caught:
            watch(deployment)
        deployment.stop()
        size = deployment.log.stat().st_size
        with deployment.log.open("rb") as log:
            log.seek(64 << 20)
            end = log.read()

    assert caught.value.reason is Ending.OUTPUT_LIMIT
    assert caught.value.hint == "a server may print 64 MiB in all: have its models log less"
    assert (64 << 20) < size < (65 << 20)
    assert end == LOG_NOTE % (64 << 20)


def test_a_log_below_its_limit_is_no_reason_to_end_a_server(
    deploy: Deploy, tiny_request: bytes
) -> None:
    # Triton reads a model's code twice: once to complete its configuration.
    code = "import sys\nfor _ in range(25):\n    sys.stderr.write('x' * 10**6 + chr(10))"
    with deploy(code) as deployment:
        deployment.alive()
        assert deployment.client.infer(tiny_request)


def test_a_limit_reached_under_load_is_named_afterwards(
    deploy: Deploy, tiny_request: bytes
) -> None:
    code = """
import threading, time
def later():
    time.sleep(8)
    hog = [bytearray(1 << 24) for _ in range(200)]
threading.Thread(target=later, daemon=True).start()
"""
    with deploy(code, memory_gib=0.5) as deployment:
        deployment.alive()
        with pytest.raises(LimitReached) as caught:
            watch(deployment)

    assert caught.value.reason is Ending.MEMORY_LIMIT


def test_a_model_that_answers_in_the_servers_place_is_noticed_and_reached_by_nobody(
    deploy: Deploy, tiny_request: bytes
) -> None:
    code = """
import os, socket, threading, time
def replace():
    while not os.path.exists("/tmp/8001"):
        time.sleep(0.01)
    time.sleep(8)
    os.unlink("/tmp/8001")
    own = socket.socket(socket.AF_UNIX)
    own.bind("/tmp/8001")
    own.listen()
    time.sleep(600)
threading.Thread(target=replace, daemon=True).start()
"""
    with deploy(code) as deployment:
        deployment.alive()
        with pytest.raises(TakenOver, match="leads to something else"):
            watch(deployment)
        with Client(deployment.grpc) as client:  # a new connection, after the name was taken
            assert client.infer(tiny_request)


def test_a_model_that_takes_the_servers_place_before_anybody_looks_does_not_start(
    deploy: Deploy,
) -> None:
    code = """
import os, socket, threading, time
def replace():
    while not os.path.exists("/tmp/8001"):
        pass
    os.rename("/tmp/8001", "/tmp/server")
    own = socket.socket(socket.AF_UNIX)
    own.bind("/tmp/8001")
    own.listen()
    time.sleep(600)
threading.Thread(target=replace, daemon=True).start()
"""
    deployment = deploy(code, start_timeout_s=30)
    with nothing_left(deployment), pytest.raises(TakenOver), deployment:
        watch(deployment)  # where it was not noticed before


def test_a_model_reaches_into_no_other_process(deploy: Deploy) -> None:
    code = """
import ctypes, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
PTRACE, READ, WRITE, GETFD = (101, 310, 311, 438) if X86 else (117, 270, 271, 438)
server = os.getppid()
def asked(*arguments):
    ctypes.set_errno(0)
    return libc.syscall(*arguments), ctypes.get_errno()
told = [
    asked(PTRACE, 16, server, 0, 0),  # PTRACE_ATTACH
    asked(PTRACE, 0x4206, server, 0, 0),  # PTRACE_SEIZE
    asked(READ, server, 0, 0, 0, 0, 0),
    asked(WRITE, server, 0, 0, 0, 0, 0),
    asked(GETFD, os.pidfd_open(server), 0, 0),
]
try:
    open(f"/proc/{server}/mem", "r+b")
except OSError as error:
    told.append(error.errno)
print("TOLD", told, file=sys.stderr, flush=True)
"""
    with deploy(code) as deployment:
        deployment.alive()
        lines = deployment.log.read_text().splitlines()

    told = next(line for line in lines if line.startswith("TOLD "))
    refused = f"(-1, {errno.EPERM})"
    assert told == f"TOLD [{', '.join([refused] * 5)}, {errno.EROFS}]"
