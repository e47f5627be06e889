"""Places of a machine, in no text that leaves it; and the CPUs that a process may keep busy."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from layers.places import usable_cpus, without_places


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/somebody/.cache")
    monkeypatch.setattr(sys, "prefix", "/srv/venv")
    monkeypatch.setattr(sys, "base_prefix", "/usr")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/home/somebody/.cache/fvec/env/lib: no such file", "CACHE/env/lib: no such file"),
        ("File '/home/somebody/ads/x.py', line 3", "File 'HOME/ads/x.py', line 3"),
        ("/srv/venv/lib/python3.11/site-packages/a.py", "PYTHON/lib/python3.11/site-packages/a.py"),
        ("cwd=/home/somebody", "cwd=HOME"),
        ("/data/run/out/worktrees/7", "RESULTS/worktrees/7"),
        ("/usr/lib/libm.so, /home/somebody-else/x", "/usr/lib/libm.so, /home/somebody-else/x"),
        ("models/home/somebody/1", "models/home/somebody/1"),
    ],
)
def test_places_are_named_and_what_only_looks_like_one_is_let_be(text: str, told: str) -> None:
    more = {Path("/data/run/out"): "RESULTS"}

    assert without_places(text, more) == told
    assert without_places(told, more) == told


SECOND = "35 24 0:30 {root} {point} rw,nosuid shared:9 - {system} {system} rw,{options}\n"


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 64 cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))


def told(own: Path, group: str, *, root: str, point: str, system: str, options: str = "") -> Path:
    """Write what the kernel tells of a process in a control group; return the folder."""
    own.mkdir()
    mount = SECOND.format(root=root, point=point, system=system, options=options)
    disk = "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    (own / "mountinfo").write_text(disk + mount)
    (own / "cgroup").write_text(group)
    return own


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(
    ("inner", "outer", "cpus"),
    [
        ("400000 100000", "max 100000", 4),
        ("max 100000", "250000 100000", 2),  # a part of a CPU is none
        ("600000 100000", "300000 100000", 3),  # the least of all that are above
        ("10000 100000", "max 100000", 1),  # there is always one
        ("max 100000", "max 100000", 64),
        ("9900000 100000", "max 100000", 64),
        ("", "400000 0", 64),
    ],
)
def test_a_quota_of_a_control_group_or_of_one_above_bounds_the_cpus(
    tmp_path: Path, inner: str, outer: str, cpus: int
) -> None:
    folder = tmp_path / "a mount" / "outer" / "inner"
    folder.mkdir(parents=True)
    (folder / "cpu.max").write_text(inner + "\n")
    (folder.parent / "cpu.max").write_text(outer + "\n")
    point = str(tmp_path / "a mount").replace(" ", "\\040")
    own = told(tmp_path / "own", "0::/outer/inner\n", root="/", point=point, system="cgroup2")

    assert usable_cpus(own) == cpus


@pytest.mark.usefixtures("many")
def test_quotas_of_the_older_control_groups_count_too(tmp_path: Path) -> None:
    folder = tmp_path / "cpu" / "job"
    folder.mkdir(parents=True)
    for place, quota in ((folder, "-1"), (folder.parent, "500000")):
        (place / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (place / "cpu.cfs_period_us").write_text("100000\n")
    group = "3:memory:/elsewhere\n2:cpu,cpuacct:/docker/1/job\n1:name=systemd:/x\n"
    point, options = str(tmp_path / "cpu"), "cpu,cpuacct"
    own = told(
        tmp_path / "own", group, root="/docker/1", point=point, system="cgroup", options=options
    )

    assert usable_cpus(own) == 5


@pytest.mark.usefixtures("many")
def test_a_system_that_tells_of_no_groups_limits_nothing(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path / "absent") == 64
