"""The checks of `fvec doctor`: each answers with what was found and how to get what is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from layers.errors import InvalidInput, Missing, ToolFailed

if TYPE_CHECKING:
    from layers.manifest import Manifest, SandboxSection

PYTHON = (3, 11)
GIT = (2, 33)
FREE_GIB = 4.0  # server environment, worktrees and spooled answers of a run
CORES = 2  # one for the server, one for the load generator
ANSWER_S = 20.0
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_ENGINE = re.compile(r"""extra\s*==\s*["']engine["']""")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `needed` is false for what only makes measuring better."""

    name: str
    ok: bool
    detail: str
    fix: str
    needed: bool = True


def check(path: Path | None, *, install: bool) -> list[Finding]:
    """Check this machine, for the serving repository at `path` if there is one.

    `install` makes the model server's environment if it is absent, which takes a download.
    Raises `InvalidInput` or `YamlError` for a manifest that is absent or wrong.
    """
    manifest, root = _manifest(path) if path is not None else (None, None)
    fix = f"fvec doctor --install{f' {path}' if path else ''}"
    return [
        _python(),
        _git(),
        _program("cc", "apt-get install gcc (native parts of accepted changes are built with it)"),
        _engine(),
        _py_spy(),
        _server(_requirements(manifest, root), fix, install=install),
        _sandbox(manifest.sandbox if manifest is not None else None),
        _cores(),
        _load(),
        _disk(),
    ]


def _python() -> Finding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    wanted = ".".join(map(str, PYTHON))
    ok = sys.version_info[:2] >= PYTHON
    return Finding("python", ok, found, f"python {wanted} or newer")


def _program(name: str, fix: str) -> Finding:
    place = shutil.which(name)
    if place is None:
        return Finding(name, ok=False, detail="not on PATH", fix=fix)
    line = _first_line([place, "--version"])
    return Finding(name, ok=line is not None, detail=line or "does not start", fix=fix)


def _git() -> Finding:
    wanted = ".".join(map(str, GIT))
    found = _program("git", f"apt-get install git ({wanted} or newer)")
    version = re.search(r"(\d+)\.(\d+)", found.detail)
    old = version is not None and (int(version[1]), int(version[2])) < GIT
    return replace(found, ok=found.ok and not old)


def _engine() -> Finding:
    from importlib.metadata import PackageNotFoundError, requires, version

    absent = []
    for line in requires("fvec") or ():
        name = _REQUIREMENT.match(line)
        if name and _OF_ENGINE.search(line):
            try:
                version(name.group())
            except PackageNotFoundError:
                absent.append(name.group())
    detail = f"absent: {', '.join(absent)}" if absent else "all packages of the extra are there"
    return Finding("engine", not absent, detail, "pip install 'fvec[engine]'")


def _py_spy() -> Finding:
    """Let py-spy look at a process of our own: that is what a run needs."""
    fix = "allow ptrace: sysctl kernel.yama.ptrace_scope=0, or docker run --cap-add SYS_PTRACE"
    spy = Path(sys.executable).with_name("py-spy")
    if not spy.is_file():
        return Finding("py-spy", ok=False, detail="not installed", fix="pip install 'fvec[engine]'")
    sleeper = [sys.executable, "-I", "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(sleeper, stdout=subprocess.PIPE) as child:
        try:
            if child.stdout is not None:
                child.stdout.readline()  # the interpreter is up
            line = _first_line([str(spy), "dump", "--pid", str(child.pid)])
        finally:
            child.kill()
    detail = "can read other processes" if line is not None else "cannot read another process"
    return Finding("py-spy", line is not None, detail, fix)


def _server(requirements: Path | None, fix: str, *, install: bool) -> Finding:
    name = "model server"
    try:
        from layers.triton import environment

        found = environment.ensure(requirements, allow_install=install)
    except ModuleNotFoundError as error:
        return Finding(name, ok=False, detail=str(error), fix="pip install 'fvec[engine]'")
    except (InvalidInput, Missing, ToolFailed) as error:
        return Finding(name, ok=False, detail=error.message, fix=error.hint or fix)
    return Finding(name, ok=True, detail=f"Triton {found.version}", fix=fix)


def _sandbox(section: SandboxSection | None) -> Finding:
    """Confine a program that does nothing, as the manifest asks for, strictly without one."""
    from layers.manifest import SandboxSection
    from layers.sandbox.box import Sandbox

    fix = "apt-get install bubblewrap"
    try:
        detail = Sandbox.open(section or SandboxSection()).describe()
    except (Missing, ToolFailed) as error:
        return Finding("sandbox", ok=False, detail=error.message, fix=error.hint or fix)
    return Finding("sandbox", ok=True, detail=detail, fix=fix)


def _manifest(path: Path) -> tuple[Manifest, Path]:
    """Return the manifest of the repository at `path`, and the folder its paths start at."""
    from bot.commands import config

    file, root = config.locate(path)
    return config.load(file), root or path


def _requirements(manifest: Manifest | None, root: Path | None) -> Path | None:
    """Return the requirements file that a manifest names."""
    name = manifest.stack.requirements if manifest is not None else None
    return root / name if root is not None and name is not None else None


def _cores() -> Finding:
    from layers.places import usable_cpus

    cores = usable_cpus()
    return Finding(
        "cores",
        ok=cores >= CORES,
        detail=f"{cores} usable",
        fix=f"{CORES} or more: server and load generator must not share one",
        needed=False,
    )


def _load() -> Finding:
    busy, cores = os.getloadavg()[0], os.cpu_count() or 1
    return Finding(
        "load average",
        ok=busy < 0.25 * cores,
        detail=f"{busy:.2f} on {cores} cores",
        fix="stop what else is running: blocks beside a busy neighbour are void",
        needed=False,
    )


def _disk() -> Finding:
    from layers.programs import cache_root

    place = next(p for p in (cache_root(), *cache_root().parents) if p.exists())
    free_gib = shutil.disk_usage(place).free / 2**30
    return Finding(
        "free disk",
        ok=free_gib >= FREE_GIB,
        detail=f"{free_gib:.1f} GiB under the cache folder",
        fix=f"{FREE_GIB:.0f} GiB, or set XDG_CACHE_HOME to a larger disk",
    )


def _first_line(argv: list[str]) -> str | None:
    """Return the first line of a program's output, None when it fails."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=ANSWER_S, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(done.stdout.splitlines()), "")
