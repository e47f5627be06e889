"""The files that git does not hold: build steps of the manifest, cached by content.

A step's result depends on its argv, the content of its inputs, the server's environment and the
processor (native code is built for it), and on nothing else: it runs in the sandbox, in a folder
that holds copies of its inputs alone, with neither network nor cache in sight. Results are copied
into a worktree, never linked, so that nothing done there reaches the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from layers.errors import InvalidInput, ToolFailed
from layers.manifest import BuildStep, Manifest, judging_paths
from layers.programs import (
    ONE_THREAD,
    Command,
    cache_root,
    exclusive,
    scrubbed_environment,
)
from layers.repository.git import tracked
from layers.sandbox.base import Confinement, Limits
from layers.sandbox.box import Sandbox
from layers.sandbox.run import run_logged

NATIVE_BUILD = "fvec_native/build.py"  # of native sources that an accepted candidate brought
_NATIVE_TIMEOUT_S = 300.0
_OUTPUT_BYTES = 8 << 30  # of all files that one program writes
_BYTECODE = "__pycache__"


class BuildEnvironment(Protocol):
    """What a build needs of the model server's environment."""

    @property
    def python(self) -> Path:
        """The interpreter that 'python' stands for."""

    @property
    def digest(self) -> str:
        """Equal digests behave alike."""


@dataclass(frozen=True, slots=True)
class _Site:
    """What the programs of one build run on."""

    worktree: Path
    manifest: Manifest
    env: BuildEnvironment
    log: Path
    sandbox: Sandbox

    def run(self, command: Command, what: str, read_only: Sequence[Path], writable: Path) -> None:
        """Run one program of the build; see `layers.sandbox.run.run_logged` for what it raises."""
        seen = Confinement(
            read_only=[self.env.python.parent.parent, *read_only],
            writable=[writable, Path(command.env["HOME"])],
            limits=replace(Limits.of(self.manifest.sandbox), tmp_bytes=_OUTPUT_BYTES),
            hidden=[self.worktree / name for name in judging_paths(self.manifest)],
        )
        run_logged(self.sandbox, command, self.log, what, seen)

    def command(self, argv: list[str], cwd: Path, timeout_s: float, home: Path) -> Command:
        """Return a program's command: the server's programs first on PATH, nothing of ours."""
        variables = scrubbed_environment(path_first=self.env.python.parent, home=home)
        return Command(argv, cwd, {**variables, **ONE_THREAD}, timeout_s)


def build(
    worktree: Path, manifest: Manifest, env: BuildEnvironment, log: Path, sandbox: Sandbox
) -> None:
    """Run the manifest's steps and every tracked `fvec_native/build.py`; output goes to `log`.

    Raises InvalidInput for inputs or outputs that do not fit the checkout and ToolFailed when a
    program fails, hangs or does not write what it promised: LimitReached where a limit of the
    sandbox ended it.
    """
    site = _Site(worktree.resolve(), manifest, env, log, sandbox)
    for step in manifest.stack.build:
        _build_step(site, step)
    for name in tracked(worktree, manifest.stack.models):
        if name.endswith(f"/{NATIVE_BUILD}"):
            _build_native(site, name)


def _build_native(site: _Site, name: str) -> None:
    """Run a native build in its own folder, the one thing it may write to."""
    script = _plain_file(site.worktree, name)
    with _private_folder() as home:
        argv = [str(site.env.python), script.name]
        command = site.command(argv, script.parent, _NATIVE_TIMEOUT_S, home)
        site.run(command, f"the native build {name}", [site.worktree], script.parent)


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Yield an empty folder that goes at the end, whatever a program left in it."""
    with tempfile.TemporaryDirectory(prefix="fvec-build-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def _build_step(site: _Site, step: BuildStep) -> None:
    held = tracked(site.worktree, *(f":(glob){output}" for output in step.outputs))
    if held:
        raise InvalidInput(
            f"git tracks {held[0]}, which a build step writes",
            hint="stack.build[].outputs names files that git ignores",
        )
    key = _key(site.worktree, step, site.env)
    entry = cache_root() / "build" / key
    with exclusive(entry.with_suffix(".lock")):
        if not entry.is_dir():
            with _private_folder() as stage, _private_folder() as home:
                _run_step(site, step, stage, home)
                _store(stage, step, entry)
    _restore(entry, site.worktree)


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
            for path in (hit.rglob("*") if hit.is_dir() and not hit.is_symlink() else [hit])
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


def _run_step(site: _Site, step: BuildStep, stage: Path, home: Path) -> None:
    """Run a step on copies of its inputs in the empty folder `stage`."""
    for name in _matching(site.worktree, step.inputs):
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(site.worktree / name, stage / name)
    for name in step.outputs:
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
    program, *arguments = step.run
    argv = [str(site.env.python) if program == "python" else program, *arguments]
    command = site.command(argv, stage, step.timeout_s, home)
    site.run(command, f"the build step {' '.join(step.run)!r}", [], stage)


def _store(stage: Path, step: BuildStep, entry: Path) -> None:
    """Copy a step's outputs to the cache: complete under another name, then renamed."""
    try:
        names = _matching(stage, step.outputs)
    except InvalidInput as error:
        raise ToolFailed(
            f"the build step {' '.join(step.run)!r} did not write its outputs: {error.message}",
            hint="it sees its inputs alone: stack.build[].inputs of the manifest",
        ) from error
    with tempfile.TemporaryDirectory(prefix="new-", dir=entry.parent) as folder:
        staged = Path(folder) / "entry"
        for name in names:
            _copy(stage / name, staged / name)
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
