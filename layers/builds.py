"""The files that git does not hold: build steps of the manifest, cached by content.

A step's result depends on its argv, the content of its inputs, the server's environment and the
processor (native code is built for it). Results are copied into a worktree, never linked, so that
nothing done there reaches the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from layers.errors import InvalidInput, ToolFailed
from layers.git import tracked
from layers.manifest import BuildStep, Manifest
from layers.programs import (
    ONE_THREAD,
    Command,
    cache_root,
    exclusive,
    run_logged,
    scrubbed_environment,
)

NATIVE_BUILD = "fvec_native/build.py"  # of native sources that an accepted candidate brought
_NATIVE_TIMEOUT_S = 300.0
_BYTECODE = "__pycache__"


class BuildEnvironment(Protocol):
    """What a build needs of the model server's environment."""

    @property
    def python(self) -> Path:
        """The interpreter that 'python' stands for."""

    @property
    def digest(self) -> str:
        """Equal digests behave alike."""


def build(worktree: Path, manifest: Manifest, env: BuildEnvironment, log: Path) -> None:
    """Run the manifest's steps and every tracked `fvec_native/build.py`; output goes to `log`.

    Raises InvalidInput for inputs or outputs that do not fit the checkout and ToolFailed when a
    program fails, hangs or does not write what it promised.
    """
    for step in manifest.stack.build:
        _build_step(worktree, step, env, log)
    for name in tracked(worktree, manifest.stack.models):
        if name.endswith(f"/{NATIVE_BUILD}"):
            script = _plain_file(worktree, name)
            argv = [str(env.python), script.name]
            command = _command(argv, script.parent, env, _NATIVE_TIMEOUT_S)
            run_logged(command, log, f"the native build {name}")


def _build_step(worktree: Path, step: BuildStep, env: BuildEnvironment, log: Path) -> None:
    held = tracked(worktree, *step.outputs)
    if held:
        raise InvalidInput(
            f"git tracks {held[0]}, which a build step writes",
            hint="stack.build[].outputs names files that git ignores",
        )
    key = _key(worktree, step, env)
    entry = cache_root() / "build" / key
    with exclusive(entry.with_suffix(".lock")):
        if not entry.is_dir():
            _run_step(worktree, step, env, log)
            _store(worktree, step, entry)
    _restore(entry, worktree)


def _key(worktree: Path, step: BuildStep, env: BuildEnvironment) -> str:
    """Digest of all that a step's result depends on."""
    digest = hashlib.sha256()
    head = [list(step.run), list(step.outputs), env.digest, platform.machine(), _processor()]
    digest.update(json.dumps(head).encode())
    for name in _matching(worktree, step.inputs):
        path = worktree / name
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{name}\0{os.access(path, os.X_OK)}\0{content}\n".encode())
    return digest.hexdigest()[:32]


def _processor() -> str:
    """Return what the processor can do: a shared home folder may serve several machines."""
    text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    return next((line for line in text.splitlines() if line.startswith("flags")), "")


def _matching(worktree: Path, patterns: Iterable[str]) -> list[str]:
    """Return the files that the patterns name, folders with all below them, sorted."""
    names: set[str] = set()
    for pattern in patterns:
        found = [
            path
            for hit in worktree.glob(pattern)
            for path in (hit.rglob("*") if hit.is_dir() else [hit])
            if not path.is_dir() and _BYTECODE not in path.parts
        ]
        if not found:
            raise InvalidInput(
                f"no file matches {pattern!r} of a build step",
                hint="stack.build[].inputs and outputs are files or globs of the repository",
            )
        names.update(str(path.relative_to(worktree)) for path in found)
    return [str(_plain_file(worktree, name).relative_to(worktree)) for name in sorted(names)]


def _plain_file(worktree: Path, name: str) -> Path:
    """Return a file of the worktree; InvalidInput when links lead out of it or it is no file."""
    path = worktree / name
    if not path.resolve().is_relative_to(worktree.resolve()) or not path.is_file():
        raise InvalidInput(f"{name} of a build step is not a file of the repository")
    return path


def _run_step(worktree: Path, step: BuildStep, env: BuildEnvironment, log: Path) -> None:
    program, *arguments = step.run
    argv = [str(env.python) if program == "python" else program, *arguments]
    for name in step.outputs:
        (worktree / name).parent.mkdir(parents=True, exist_ok=True)
    command = _command(argv, worktree, env, step.timeout_s)
    run_logged(command, log, f"the build step {' '.join(step.run)!r}")


def _command(argv: list[str], cwd: Path, env: BuildEnvironment, timeout_s: float) -> Command:
    """Return a build's command: the server's programs first on PATH, nothing of ours in sight."""
    home = cache_root() / "build" / "home"
    home.mkdir(parents=True, exist_ok=True)
    variables = scrubbed_environment(path_first=env.python.parent, home=home)
    return Command(argv, cwd, {**variables, **ONE_THREAD}, timeout_s)


def _store(worktree: Path, step: BuildStep, entry: Path) -> None:
    """Copy a step's outputs to the cache: complete under another name, then renamed."""
    try:
        names = _matching(worktree, step.outputs)
    except InvalidInput as error:
        raise ToolFailed(
            f"the build step {' '.join(step.run)!r} did not write its outputs: {error.message}"
        ) from error
    with tempfile.TemporaryDirectory(prefix="new-", dir=entry.parent) as folder:
        staged = Path(folder) / "entry"
        for name in names:
            _copy(worktree / name, staged / name)
        staged.rename(entry)


def _restore(entry: Path, worktree: Path) -> None:
    """Copy a cached result into a worktree, read-only."""
    for source in sorted(entry.rglob("*")):
        if source.is_file():
            target = worktree / source.relative_to(entry)
            if not target.parent.resolve().is_relative_to(worktree.resolve()):
                raise InvalidInput(f"{source.relative_to(entry)} leads out of the repository")
            target.unlink(missing_ok=True)
            _copy(source, target)
            target.chmod(target.stat().st_mode & ~0o222)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)
