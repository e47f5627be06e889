"""What a sandbox asks of the machine, what it refuses to show, and how it reads the kernel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from layers.errors import InvalidInput, Missing, ToolFailed
from layers.manifest import SandboxMode, SandboxSection
from layers.sandbox import cgroups, owners, syscalls
from layers.sandbox.base import GIB, MIB, Confinement, Ending, Limits
from layers.sandbox.box import Sandbox
from layers.sandbox.bubblewrap import Bubblewrap
from layers.sandbox.cgroups import Group, Hierarchy, Memory, Waits

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
        "pids.max": "35",  # two are bubblewrap's own, one relays a server's log
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


def test_a_group_of_version_2_stands_still_once_the_kernel_says_so(version_2: Path) -> None:
    group = Group(dict.fromkeys(cgroups.NEEDED, version_2), version=2)
    assert not group.freezes
    (version_2 / "cgroup.freeze").write_text("0\n")
    (version_2 / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    assert group.freezes

    group.freeze()
    assert (version_2 / "cgroup.freeze").read_text() == "1"
    group.thaw()
    assert (version_2 / "cgroup.freeze").read_text() == "0"


def test_a_group_that_does_not_come_to_stand_still_is_let_go(
    version_2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "_STILL_S", 0.0)
    group = Group(dict.fromkeys(cgroups.NEEDED, version_2), version=2)
    (version_2 / "cgroup.freeze").write_text("0\n")
    (version_2 / "cgroup.events").write_text("populated 1\nfrozen 0\n")

    with pytest.raises(ToolFailed, match="cannot be held still"):
        group.freeze()
    assert (version_2 / "cgroup.freeze").read_text() == "0"


def test_a_group_of_version_1_stands_still_by_its_freezer(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in (*cgroups.NEEDED, "freezer")}
    for folder in folders.values():
        folder.mkdir()
    group = Group(folders, version=1)
    assert not group.freezes
    (tmp_path / "freezer" / "freezer.state").write_text("THAWED\n")

    group.freeze()
    assert (tmp_path / "freezer" / "freezer.state").read_text() == "FROZEN"
    group.thaw()
    assert (tmp_path / "freezer" / "freezer.state").read_text() == "THAWED"


def test_a_group_that_is_gone_cannot_be_held_still_and_needs_no_letting_go(tmp_path: Path) -> None:
    group = Group(dict.fromkeys(cgroups.NEEDED, tmp_path / "gone"), version=2)

    group.thaw()
    with pytest.raises(ToolFailed, match="cannot be held still"):
        group.freeze()


def test_memory_that_cannot_be_dropped_is_told_by_both_versions(tmp_path: Path) -> None:
    (tmp_path / "memory.stat").write_text("anon 300\nrss 7\nfile 5000\nshmem 40\npgmajfault 9\n")
    old = Group(dict.fromkeys(cgroups.NEEDED, tmp_path), version=1)
    new = Group(dict.fromkeys(cgroups.NEEDED, tmp_path), version=2)
    assert (old.memory(), new.memory()) == (Memory(47, None), Memory(340, None))
    assert new.waits() == Waits(9, None)

    (tmp_path / "memory.max_usage_in_bytes").write_text("6000\n")
    (tmp_path / "memory.peak").write_text("7000\n")
    (tmp_path / "memory.pressure").write_text(
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    )
    assert (old.memory(), new.memory()) == (Memory(47, 6000), Memory(340, 7000))
    assert new.waits() == Waits(9, 1.5)


@pytest.mark.parametrize(
    ("available", "each"),
    [
        (None, 8.0),  # not told
        (24.0, 8.0),
        (17.0, 8.0),
        (15.0, 7.0),
        (1.0, 0.5),  # never less
    ],
)
def test_programs_that_run_together_share_what_memory_there_is(
    available: float | None, each: float, tmp_path: Path
) -> None:
    asked = Limits(memory_bytes=8 * GIB, processes=32)
    room = None if available is None else int(available * GIB)
    hierarchy = Hierarchy(dict.fromkeys(cgroups.NEEDED, tmp_path), version=2)
    sandbox = Sandbox(SandboxMode.STRICT, asked, BWRAP, hierarchy, room)

    assert sandbox.shared(asked, 2) == Limits(memory_bytes=int(each * GIB), processes=32)
    assert sandbox.shared(LIMITS, 2) == LIMITS
    told = "" if each == 8.0 else f", {each:g} GiB where two run"
    assert f"limits (8 GiB{told}, 32 processes)" in sandbox.describe()


def test_nothing_but_a_control_group_shares_memory() -> None:
    asked = Limits(memory_bytes=8 * GIB, processes=32)
    for mode, program in ((SandboxMode.NO_CGROUP, BWRAP), (SandboxMode.PROCESS, None)):
        assert Sandbox(mode, asked, program, None, GIB).shared(asked, 2) == asked


def test_timers_and_system_calls_are_bounded_where_bubblewrap_shuts_in() -> None:
    shut, free = (
        Sandbox(SandboxMode.NO_CGROUP, LIMITS, BWRAP, None),
        Sandbox(SandboxMode.PROCESS, LIMITS, None, None),
    )
    assert shut.rlimits(LIMITS)["RLIMIT_SIGPENDING"] == 64
    assert "RLIMIT_SIGPENDING" not in free.rlimits(LIMITS)
    assert shut.barred == syscalls.program()
    assert free.barred == b""


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
