"""The manifest that counts: that of the default branch, never that of a pull request's head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bot.jobs import checkouts
from knowledge import yamlfile
from layers.errors import InvalidInput, Location
from layers.manifest import MANIFEST_PATH, CorrectnessSection, Manifest, SandboxMode

if TYPE_CHECKING:
    from bot.github.repository import Repository

# From the strictest to the weakest.
_STRENGTH = (SandboxMode.STRICT, SandboxMode.NO_CGROUP, SandboxMode.PROCESS)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A manifest and the default branch that it was read from."""

    manifest: Manifest
    branch: str


def load(repository: Repository) -> Loaded | None:
    """Return the manifest of the default branch, None where it has none.

    Raises InvalidInput, with line, column and hint, for one that is wrong.
    """
    branch = repository.default_branch()
    content = repository.file(str(MANIFEST_PATH), branch)
    return None if content is None else Loaded(parse(content), branch)


def needed(repository: Repository) -> Loaded:
    """Return the manifest of the default branch; InvalidInput where it has none."""
    found = load(repository)
    if found is None:
        raise InvalidInput(
            f"there is no {MANIFEST_PATH} on the default branch",
            hint="`fvec init` writes a first one; so does the onboarding pull request",
        )
    return found


def parse(content: bytes) -> Manifest:
    """Return a manifest; raises InvalidInput with the place of the first problem."""
    path = Path(MANIFEST_PATH)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput("is not UTF-8", at=Location(path)) from error
    try:
        return yamlfile.loads(text, path, Manifest)
    except yamlfile.YamlError as error:
        place = Location(path, error.line, error.column)
        more = "".join(f"\n{problem}" for problem in error.problems[1:])
        raise InvalidInput(f"{error.message}{more}", at=place, hint=error.hint) from error


def check_floor(mirror: Path, commit: str, weakest: SandboxMode) -> None:
    """Refuse a commit whose manifest names a weaker sandbox than this machine lends to anybody.

    Raises InvalidInput.
    """
    text = checkouts.text_at(mirror, commit, str(MANIFEST_PATH))
    if text is None:
        return  # nothing is measured without one
    mode = parse(text.encode("utf-8", "surrogateescape")).sandbox.mode
    if _STRENGTH.index(mode) > _STRENGTH.index(weakest):
        raise InvalidInput(
            f"`sandbox.mode: {mode}` is weaker than {weakest}, which is the least here",
            at=Location(Path(MANIFEST_PATH)),
            hint="whoever runs the service allows it by `fvec serve --weakest-sandbox`, for all "
            "repositories that have its App",
        )


def check_base(mirror: Path, base: str, now: Loaded) -> None:
    """Refuse a commit that judges by looser rules than the default branch, or by another judge.

    What is measured at a commit obeys the manifest, the referee and the metric there, and anybody
    may base a pull request on an old commit. The mirror has both; raises InvalidInput.
    """
    check_not_weaker(checkouts.text_at(mirror, base, str(MANIFEST_PATH)), now.manifest, base)
    section = now.manifest.correctness
    judges = [spec.rpartition(":")[0] for spec in (section.referee, section.metric) if spec]
    if judges and checkouts.changed(mirror, base, checkouts.branch_ref(now.branch), *judges):
        raise _old(base, f"has another {' or '.join(judges)} than the default branch")


def check_not_weaker(then: str | None, now: Manifest, commit: str) -> None:
    """Refuse a commit whose own manifest shuts code in less, or asks less, than the present one.

    `then` is the text of the manifest at `commit`, None where it has none. Raises InvalidInput.
    """
    if then is None:
        raise _old(commit, f"has no {MANIFEST_PATH}")
    looser = next(_looser(parse(then.encode("utf-8", "surrogateescape")), now), None)
    if looser is not None:
        raise _old(commit, f"has a manifest that {looser}")


def _looser(then: Manifest, now: Manifest) -> Iterator[str]:
    """Yield where one manifest allows what the other does not."""
    mode = then.sandbox.mode
    if _STRENGTH.index(mode) > _STRENGTH.index(now.sandbox.mode):
        yield (
            f"names a weaker sandbox ({mode}) than that of the default branch ({now.sandbox.mode})"
        )
    old, new = then.correctness, now.correctness
    for name, before, most in (
        ("sandbox.memory_gib", then.sandbox.memory_gib, now.sandbox.memory_gib),
        ("sandbox.processes", then.sandbox.processes, now.sandbox.processes),
        ("slo.p99_ms", then.slo.p99_ms, now.slo.p99_ms),
        ("correctness.reorder.abs", old.reorder.abs, new.reorder.abs),
        ("correctness.approximate_margin", old.approximate_margin, new.approximate_margin),
    ):
        if before is not None and (most is None or before > most):
            there = "none" if most is None else f"{most:g}"
            yield f"sets {name} to {before:g}, and the default branch to {there}"
    for name, judge, present in (
        ("referee", old.referee, new.referee),
        ("metric", old.metric, new.metric),
    ):
        if judge is not None and judge != present:
            yield f"names another {name} than that of the default branch"
    free = _freer(old, new) if old.approximate_margin is not None else None
    if free is not None:
        yield f"lets approximations move {free}, and the default branch does not"


def _freer(old: CorrectnessSection, new: CorrectnessSection) -> str | None:
    """Say which outputs one section alone leaves to the metric, None where there is none."""
    if old.approximate_outputs is None:
        return None if new.approximate_outputs is None else "every float"
    more = set(old.approximate_outputs) - set(new.approximate_outputs or ())
    return ", ".join(sorted(more)) or None


def _old(commit: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"commit {commit[:12]}, which this is based on, {what}",
        hint="rebase it on the default branch; one that fvec opened is made anew there by "
        "`/fvec recreate`",
    )


def served_paths(manifest: Manifest) -> list[str]:
    """Return what decides what is served: a change elsewhere leaves evidence as good as it was."""
    built = [name for step in manifest.stack.build for name in step.inputs]
    named = [manifest.stack.models, manifest.stack.requirements, str(MANIFEST_PATH), *built]
    return [name for name in named if name]
