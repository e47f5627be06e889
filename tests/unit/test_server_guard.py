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

PLAN = guard.Plan(
    parent=os.getpid(),
    cpus=[],
    shared_memory="",
    attach=[],
    log_bytes=1000,
    rlimits={"RLIMIT_CORE": 0},
    folder="",
    at_once=True,
)


def guarded(plan: guard.Plan, program: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-I", guard.__file__, plan.dumps(), sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (999, b"x" * 999),
        (1000, b"x" * 1000),
        (1001, b"x" * 1000 + guard.LOG_NOTE % 1000),
        (10**7, b"x" * 1000 + guard.LOG_NOTE % 1000),
    ],
)
def test_a_log_is_kept_up_to_its_limit_and_the_writer_never_waits(
    tmp_path: Path, written: int, kept: bytes
) -> None:
    program = f"import sys; sys.stderr.write('x' * {written}); sys.exit(7)"
    with guarded(PLAN, program, tmp_path / "log") as process:
        assert process.wait(60) == 7

    assert (tmp_path / "log").read_bytes() == kept


def test_the_guard_says_the_process_and_ends_it_when_its_input_closes(tmp_path: Path) -> None:
    with guarded(PLAN, "import time; time.sleep(600)", tmp_path / "log") as process:
        pid = int(process.stdout.readline())
        os.kill(pid, 0)
        process.stdin.close()
        assert process.wait(60) == 128 + 9

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


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
        endpoint.check_listener(path, os.getpid())
        with pytest.raises(ToolFailed, match=f"process {os.getpid()} listens on the model"):
            endpoint.check_listener(path, os.getpid() + 1)

    assert endpoint.listener(path) is None
    with pytest.raises(ToolFailed, match="nobody listens"):
        endpoint.check_listener(path, os.getpid())


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
