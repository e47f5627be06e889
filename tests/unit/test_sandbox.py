"""What a sandbox asks of the machine, what it refuses to show, and how it reads the kernel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from layers.errors import InvalidInput, Missing
from layers.manifest import SandboxMode, SandboxSection
from layers.sandbox import cgroups, owners
from layers.sandbox.base import GIB, MIB, Confinement, Ending, Limits
from layers.sandbox.box import Sandbox
from layers.sandbox.bubblewrap import Bubblewrap
from layers.sandbox.cgroups import Group, Hierarchy

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Limits(memory_bytes=64 * MIB, processes=32)
BWRAP = Bubblewrap(Path("/usr/bin/bwrap"), "0.8.0")


@pytest.mark.parametrize("mode", [SandboxMode.STRICT, SandboxMode.NO_CGROUP])
def test_a_machine_without_bubblewrap_is_told_how_to_get_it_and_the_weaker_mode(
    mode: SandboxMode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Missing) as raised:
        Sandbox.open(SandboxSection(mode=mode))

    assert raised.value.exit_code == 4
    assert raised.value.message == "bubblewrap (bwrap) is not on PATH"
    assert "apt-get install bubblewrap" in str(raised.value.hint)
    assert "sandbox: {mode: process}" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("bubblewrap 0.4.1", "bubblewrap 0.4.1 is too old"),
        ("what?", "bubblewrap what? is too old"),
    ],
)
def test_an_old_bubblewrap_is_missing(
    said: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Missing) as raised:
        Sandbox.open(SandboxSection())
    assert raised.value.message == message


OPEN = """
from layers.errors import Missing
from layers.manifest import SandboxSection
from layers.sandbox.box import Sandbox
for mode in ("strict", "no-cgroup"):
    try:
        print(Sandbox.open(SandboxSection(mode=mode)).describe())
    except Missing as error:
        print(error)
"""


def test_a_machine_that_confines_nothing_is_found_out() -> None:
    """A sandbox is such a machine: no user namespaces, no control groups."""
    try:
        sandbox = Sandbox.open(SandboxSection(mode=SandboxMode.NO_CGROUP))
    except Missing as error:
        pytest.skip(error.message)
    with sandbox.start(
        [sys.executable, "-c", OPEN],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
        confinement=Confinement([ROOT / "layers", ROOT / "knowledge"], [], sandbox.limits),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as jail:
        said = jail.process.stdout.read().decode()

    assert "the control group controller 'memory' is not mounted\n" in said
    assert "sandbox: {mode: no-cgroup}" in said
    assert "this machine runs no program in a sandbox: bwrap: " in said
    assert "sandbox: {mode: process}" in said


def test_mode_process_needs_nothing_and_changes_no_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox = Sandbox.open(SandboxSection(mode=SandboxMode.PROCESS, memory_gib=2, processes=64))

    assert sandbox.limits == Limits(memory_bytes=2 * GIB, processes=64)
    assert sandbox.argv(["a", "b"], tmp_path, {}, Confinement((), (), LIMITS)) == ["a", "b"]
    assert sandbox.group(LIMITS) is None


def test_endings_are_reason_codes() -> None:
    assert list(Ending) == [
        *("exited", "crashed", "time_limit", "memory_limit", "process_limit", "output_limit")
    ]


@pytest.mark.parametrize("name", ["/", "/proc", "/proc/self", "/dev", "/sys/fs/cgroup", "/usr/.."])
def test_what_would_show_the_machine_is_refused(name: str) -> None:
    for confinement in (
        Confinement([Path(name)], (), LIMITS),
        Confinement((), [Path(name)], LIMITS),
    ):
        with pytest.raises(InvalidInput, match=r"of this machine|without"):
            BWRAP.argv(["true"], Path("/"), {}, confinement)


@pytest.mark.parametrize(
    ("name", "message"), [("relative", "is not an absolute path"), ("/no/such", "is not there")]
)
def test_a_path_that_cannot_be_shown_is_named(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{name}.* {message}"):
        BWRAP.argv(["true"], Path("/"), {}, Confinement([Path(name)], (), LIMITS))


def test_deeper_paths_are_bound_after_those_that_hold_them(tmp_path: Path) -> None:
    deep, deepest = tmp_path / "a", tmp_path / "a" / "b"
    deepest.mkdir(parents=True)

    argv = BWRAP.argv(
        ["program", "--", "x"], deep, {"A": "1"}, Confinement([deepest, tmp_path], [deep], LIMITS)
    )

    binds = [(argv[i], argv[i + 1]) for i in range(len(argv)) if argv[i] in ("--ro-bind", "--bind")]
    own = [(kind, path) for kind, path in binds if path.startswith(str(tmp_path))]
    assert own == [("--ro-bind", str(tmp_path)), ("--bind", str(deep)), ("--ro-bind", str(deepest))]
    tail = ["--chdir", str(deep), "--clearenv", "--setenv", "A", "1", "--", "program", "--", "x"]
    assert argv[-len(tail) :] == tail


def test_the_network_is_shared_where_it_is_asked_for_and_without_private_keys() -> None:
    shut = BWRAP.argv(["true"], Path("/"), {}, Confinement((), (), LIMITS))
    out = BWRAP.argv(["true"], Path("/"), {}, Confinement((), (), LIMITS, network=True))
    shown = {out[i + 1] for i, part in enumerate(out) if part.startswith("--ro-bind")}

    assert "--share-net" not in shut
    assert out.index("--share-net") > out.index("--unshare-all")
    assert {"/etc/resolv.conf", "/etc/ssl/certs"} <= shown - set(shut)
    assert not shown & {"/etc", "/etc/ssl", "/etc/ssl/private", "/etc/pki", "/etc/pki/tls"}


def test_an_owner_that_lives_keeps_its_things() -> None:
    name = owners.new_name()
    _, namespace, pid, start, token = name.split("-")

    assert (int(pid), int(start)) == (os.getpid(), owners.start_ticks(os.getpid()))
    assert not owners.is_orphan(name)
    assert owners.is_orphan(f"fvec-{namespace}-{pid}-{int(start) + 1}-{token}")
    assert owners.is_orphan(f"fvec-{namespace}-{2**22 + 1}-{start}-{token}")
    assert not owners.is_orphan(f"fvec-{int(namespace) + 1}-{pid}-1-{token}")
    assert not owners.is_orphan("fvec-cache")


@pytest.fixture
def version_2(tmp_path: Path) -> Path:
    """A folder that looks like a parent of version 2, where this machine has none to write to."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    return tmp_path


def test_limits_of_version_2_are_written_where_the_kernel_reads_them(version_2: Path) -> None:
    hierarchy = Hierarchy(dict.fromkeys(cgroups.NEEDED, version_2), version=2)
    group = hierarchy.group(LIMITS)
    (folder,) = group.places
    for name in ("memory.swap.max", "memory.oom.group"):
        (folder / name).touch()

    group.limit(LIMITS)

    assert not owners.is_orphan(folder.name)
    assert group.attach_paths == (folder / "cgroup.procs",)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "memory.max": str(64 * MIB),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "34",  # two are bubblewrap's own
    }


def test_a_group_of_version_2_is_held_to_cpus_where_asked(version_2: Path) -> None:
    parents = dict.fromkeys([*cgroups.NEEDED, cgroups.CPUSET], version_2)
    hierarchy = Hierarchy(parents, version=2)

    pinned, free = hierarchy.group(LIMITS, [3, 1]), hierarchy.group(LIMITS)

    assert (pinned.places[0] / "cpuset.cpus").read_text() == "1,3"
    assert not (free.places[0] / "cpuset.cpus").exists()


def test_a_group_of_version_1_gets_its_memory_nodes_before_its_cpus(tmp_path: Path) -> None:
    parents = {name: tmp_path / name for name in (*cgroups.NEEDED, cgroups.CPUSET)}
    for folder in parents.values():
        folder.mkdir()
    (parents["cpuset"] / "cpuset.mems").write_text("0-1\n")
    hierarchy = Hierarchy(parents, version=1)

    pinned, free = hierarchy.group(LIMITS, [0]), hierarchy.group(LIMITS)

    folder = pinned.folders["cpuset"]
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "cpuset.mems": "0-1\n",
        "cpuset.cpus": "0",
    }
    assert pinned.attach_paths[-1] == folder / "cgroup.procs"
    assert "cpuset" not in free.folders


def test_counters_of_version_2_say_what_was_reached_and_used(version_2: Path) -> None:
    group = Group(dict.fromkeys(cgroups.NEEDED, version_2), version=2)
    (version_2 / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n")
    (version_2 / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 0\n")
    (version_2 / "pids.events").write_text("max 3\n")

    assert group.cpu_seconds() == 1.5
    assert not group.memory_killed()
    assert group.processes_refused()
    (version_2 / "memory.events").write_text("max 7\noom_kill 1\noom_group_kill 1\n")
    assert group.memory_killed()


def test_killing_a_group_of_version_2_is_one_write(version_2: Path) -> None:
    group = Group(dict.fromkeys(cgroups.NEEDED, version_2), version=2)
    (version_2 / "cgroup.kill").touch()

    group._kill_once()

    assert (version_2 / "cgroup.kill").read_text() == "1"


def test_the_own_group_is_looked_for_below_the_mount_point(tmp_path: Path) -> None:
    (tmp_path / "user" / "session").mkdir(parents=True)

    at_root = list(cgroups._upwards((tmp_path, "/"), "/user/session"))
    in_container = list(cgroups._upwards((tmp_path, "/docker/1"), "/docker/1/user"))
    elsewhere = list(cgroups._upwards((tmp_path, "/docker/1"), "/other"))

    assert at_root == [tmp_path / "user" / "session", tmp_path / "user", tmp_path]
    assert in_container == [tmp_path / "user", tmp_path]
    assert elsewhere == [tmp_path]
