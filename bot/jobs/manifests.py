"""The manifest that counts: that of the default branch, never that of a pull request's head."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge import yamlfile
from layers.errors import InvalidInput, Location
from layers.manifest import MANIFEST_PATH, Manifest, SandboxMode

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


def check_not_weaker(then: str | None, now: Manifest, commit: str) -> None:
    """Refuse a commit whose own manifest shuts code in less than the default branch's does.

    What is measured at a commit obeys the manifest there, and anybody may base a pull request on
    an old commit. `then` is the text of the manifest at `commit`, None where it has none.
    """
    if then is None:
        raise InvalidInput(
            f"commit {commit[:12]}, which this is based on, has no {MANIFEST_PATH}",
            hint="rebase it on the default branch",
        )
    mode = parse(then.encode("utf-8", "surrogateescape")).sandbox.mode
    if _STRENGTH.index(mode) > _STRENGTH.index(now.sandbox.mode):
        raise InvalidInput(
            f"the manifest at {commit[:12]}, which this is based on, names a weaker sandbox "
            f"({mode}) than that of the default branch ({now.sandbox.mode})",
            hint="rebase it on the default branch",
        )


def served_paths(manifest: Manifest) -> list[str]:
    """Return what decides what is served: a change elsewhere leaves evidence as good as it was."""
    built = [name for step in manifest.stack.build for name in step.inputs]
    named = [manifest.stack.models, manifest.stack.requirements, str(MANIFEST_PATH), *built]
    return [name for name in named if name]
