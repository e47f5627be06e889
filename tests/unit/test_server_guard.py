"""What stands around a model server: its guard, its log's relay, its socket, what it may see."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from layers.errors import ToolFailed
from layers.manifest import Manifest, judging_paths
from layers.triton import endpoint, guard
from layers.triton.endpoint import Endpoint, TakenOver

PLAN = guard.Plan(
    parent=os.getpid(),
    cpus=[],
    shared_memory="",
    attach=[],
    log_bytes=1000,
    rlimits={"RLIMIT_CORE": 0},
    folder="",
    at_once=True,
    thaw=[],
    barred="",
)


def guarded(plan: guard.Plan, program: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-I", guard.__file__, plan.dumps(), sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )


@pytest.mark.parametrize("written", [0, 999, 1000])
def test_a_log_below_its_limit_is_kept_whole(tmp_path: Path, written: int) -> None:
    program = f"import sys; sys.stderr.write('x' * {written}); sys.exit(7)"
    with guarded(PLAN, program, tmp_path / "log") as process:
        assert process.wait(60) == 7

    assert (tmp_path / "log").read_bytes() == b"x" * written


@pytest.mark.parametrize("written", [1001, 10**7])
def test_a_program_that_prints_more_than_the_limit_is_ended(tmp_path: Path, written: int) -> None:
    program = f"import os, time; os.write(2, b'x' * {written}); time.sleep(600)"
    with guarded(PLAN, program, tmp_path / "log") as process:
        assert process.wait(60) != 0

    assert (tmp_path / "log").read_bytes() == b"x" * 1000 + guard.LOG_NOTE % 1000


def test_a_program_that_prints_nothing_any_more_goes_on(tmp_path: Path) -> None:
    program = f"""
import os, time
from pathlib import Path
for standard in (1, 2):
    os.close(standard)
time.sleep(0.5)
Path({str(tmp_path / "went on")!r}).touch()
"""
    with guarded(PLAN, program, tmp_path / "log") as process:
        assert process.wait(60) == 0

    assert (tmp_path / "went on").exists()


def test_the_relay_is_attached_before_the_program_and_is_not_the_guard(tmp_path: Path) -> None:
    fifo = tmp_path / "procs"
    os.mkfifo(fifo)
    attached = os.open(fifo, os.O_RDWR)  # so that reading never meets its end
    plan = guard.Plan(**{**vars(PLAN), "attach": [str(fifo)]})
    with guarded(plan, "import time; time.sleep(600)", tmp_path / "log") as process:
        read = b""
        while read.count(b"\n") < 2:
            read += os.read(attached, 100)
        told = [int(word) for word in process.stdout.readline().split()]
        process.stdin.close()
        process.wait(60)
    os.close(attached)

    assert told == [int(word) for word in reversed(read.split())]
    assert process.pid not in told


def test_the_guard_says_the_process_and_ends_it_when_its_input_closes(tmp_path: Path) -> None:
    with guarded(PLAN, "import time; time.sleep(600)", tmp_path / "log") as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        for pid in pids:
            os.kill(pid, 0)
        process.stdin.close()
        assert process.wait(60) == 128 + 9

    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_what_stands_still_is_let_go_to_be_ended(tmp_path: Path) -> None:
    plan = guard.Plan(**{**vars(PLAN), "thaw": [str(tmp_path / "state"), "THAWED"]})
    with guarded(plan, "import time; time.sleep(600)", tmp_path / "log") as process:
        process.stdout.readline()
        assert not (tmp_path / "state").exists()
        process.stdin.close()
        process.wait(60)

    assert (tmp_path / "state").read_text() == "THAWED"


def test_the_process_is_attached_and_limited_before_it_runs(tmp_path: Path) -> None:
    plan = guard.Plan(**{**vars(PLAN), "attach": [str(tmp_path / "procs")], "log_bytes": 10**6})
    program = """
import json, os, resource
from pathlib import Path
attached = Path(ATTACH).read_text() == f"{os.getpid()}\\n"
print(json.dumps([attached, resource.getrlimit(resource.RLIMIT_CORE)]))
""".replace("ATTACH", repr(str(tmp_path / "procs")))
    with guarded(plan, program, tmp_path / "log") as process:
        assert process.wait(60) == 0

    assert json.loads((tmp_path / "log").read_text()) == [True, [0, 0]]


def test_a_process_that_cannot_be_attached_does_not_run(tmp_path: Path) -> None:
    plan = guard.Plan(**{**vars(PLAN), "attach": [str(tmp_path / "absent" / "procs")]})
    marker = tmp_path / "ran"
    program = f"open({str(marker)!r}, 'w')"
    with guarded(plan, program, tmp_path / "log") as process:
        assert process.wait(60) != 0
        assert process.stdout.read() == b""

    assert not marker.exists()


def test_the_listener_of_a_socket_is_known_by_its_process(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(path))
        own.listen()
        assert endpoint.listener(path) == os.getpid()
        with pytest.raises(TakenOver, match=f"process {os.getpid()} listens on the model"):
            Endpoint.of(path, os.getpid() + 1)
        held = Endpoint.of(path, os.getpid())
        held.check()

    assert endpoint.listener(path) is None
    assert Endpoint.of(path, os.getpid()) is None
    with pytest.raises(ToolFailed, match="nobody listens"):
        held.check()
    held.close()


def serving(path: Path) -> socket.socket:
    own = socket.socket(socket.AF_UNIX)
    own.bind(str(path))
    own.listen()
    return own


def accepts(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def reached(place: Path, server: socket.socket) -> bool:
    """Whether a connection to `place` is one to `server`."""
    server.settimeout(0)
    while accepts(server):  # those of others
        continue
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(str(place))
        return accepts(server)


@pytest.mark.parametrize("away", ["renamed", "removed"])
def test_a_socket_is_reached_whatever_its_name_leads_to(tmp_path: Path, away: str) -> None:
    path = tmp_path / "s"
    with serving(path) as server:
        held = Endpoint.of(path, os.getpid())
        assert reached(held.place, server)
        path.rename(tmp_path / "other") if away == "renamed" else path.unlink()
        with pytest.raises(TakenOver, match="leads to something else"):
            held.check()
        with serving(path) as thief:
            assert reached(path, thief)
            assert reached(held.place, server)
            assert not reached(held.place, thief)
            with pytest.raises(TakenOver, match="leads to something else"):
                held.check()
        held.close()


def test_a_link_in_a_sockets_place_is_not_followed(tmp_path: Path) -> None:
    with serving(tmp_path / "elsewhere"):
        (tmp_path / "s").symlink_to(tmp_path / "elsewhere")
        assert Endpoint.of(tmp_path / "s", os.getpid()) is None


def test_a_socket_that_is_only_bound_is_not_taken_yet(tmp_path: Path) -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(tmp_path / "s"))
        assert Endpoint.of(tmp_path / "s", os.getpid()) is None
    assert Endpoint.of(tmp_path / "absent", os.getpid()) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_the_folder_of_a_socket_is_short_enough_for_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("d" * 90)
    long.mkdir()
    for folder in (tmp_path, long):
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        with endpoint.own_folder() as own:
            path = endpoint.socket_of(Path(own), 1, shut_in=False)
            assert len(str(path)) < 108
            assert path.parent == Path(own)


def manifest(**changes: dict[str, object]) -> Manifest:
    base = {
        "schema": "fvec.manifest/1",
        "stack": {"name": "s", "models": "models", "entry": "e"},
        "traffic": {"requests": "traffic/r.bin", "arrivals": "traffic/a.csv"},
        "slo": {"p99_ms": 10},
    }
    return Manifest.model_validate(base | changes)


@pytest.mark.parametrize(
    ("changes", "judging"),
    [
        ({}, [".git", ".github", "traffic"]),
        (
            {"correctness": {"referee": "judge/ref.py:f", "metric": "./m.py:g"}},
            [".git", ".github", "judge/ref.py", "m.py", "traffic"],
        ),
        (
            {"correctness": {"referee": "traffic/ref.py:f"}},
            [".git", ".github", "traffic"],
        ),
        (
            {"traffic": {"requests": "r.bin", "arrivals": "models/a.csv"}},
            [".git", ".github", "models/a.csv", "r.bin"],
        ),
        (
            {
                "stack": {"name": "s", "models": "all/models", "entry": "e"},
                "traffic": {"requests": "all/r.bin", "arrivals": "all/a.csv"},
            },
            [".git", ".github", "all/a.csv", "all/r.bin"],
        ),
    ],
)
def test_what_judges_is_named_and_never_the_models(
    changes: dict[str, dict[str, object]], judging: list[str]
) -> None:
    assert judging_paths(manifest(**changes)) == judging
