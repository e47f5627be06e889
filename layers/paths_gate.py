"""Which files a candidate may not touch, and the gate that holds it to that. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from layers.base import Candidate, ChangeClass
from layers.evidence import Gate, GateResult
from layers.manifest import MANIFEST_PATH, Manifest

OF_GIT = frozenset({".git", ".gitattributes", ".gitmodules"})
OWNERS = ".github"
CONFIG_FILE = "config.pbtxt"
MOST_NAMED = 8  # files in a detail


def protected_files(manifest: Manifest) -> tuple[str, ...]:
    """Return files and globs that judge a candidate, relative to the root: it may not touch them.

    What a build step makes the traffic of counts where it lies in the folder of the traffic.
    """
    specs = (manifest.correctness.referee, manifest.correctness.metric)
    judges = [spec.partition(":")[0] for spec in specs if spec]
    folder = PurePosixPath(manifest.traffic.requests).parent
    inputs = [name for step in manifest.stack.build for name in step.inputs]
    return (
        str(MANIFEST_PATH),
        manifest.traffic.requests,
        manifest.traffic.arrivals,
        *judges,
        *(name for name in inputs if folder.parts and folder in PurePosixPath(name).parents),
    )


def guarded(paths: Iterable[str], evaluators: Sequence[str]) -> list[str]:
    """Return the paths that no candidate may touch, sorted.

    Those are git's own files, anything in `.github/`, and `evaluators`: files, folders and globs
    of what judges the candidate, relative to the root.
    """
    return sorted({path for path in paths if _is_guarded(path, evaluators)})


def _is_guarded(path: str, evaluators: Sequence[str]) -> bool:
    pure = PurePosixPath(path)
    parts = [part.casefold() for part in pure.parts]
    if OF_GIT.intersection(parts) or parts[:1] == [OWNERS]:
        return True
    places = [path, *map(str, pure.parents)]
    return any(fnmatchcase(place, pattern) for pattern in evaluators for place in places)


def touched(files: Iterable[str], protected: Sequence[str]) -> Gate | None:
    """Return the gate that fails where a file may not be touched by any candidate, else None."""
    found = guarded(files, protected)
    if not found:
        return None
    more = len(found) - MOST_NAMED
    detail = ", ".join(found[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return _gate(GateResult.FAIL, "touches_protected_files", detail)


def paths_gate(candidate: Candidate, protected: Sequence[str]) -> Gate:
    """Refuse no patch, one that touches what judges it, and a config change that is code."""
    files = sorted(candidate.edit.files)
    if not candidate.patch:
        return _gate(GateResult.FAIL, "no_op_edit", "")
    refused = touched(files, protected)
    if refused is not None:
        return refused
    code = [f for f in files if PurePosixPath(f).name != CONFIG_FILE]
    if candidate.hypothesis.change_class is ChangeClass.CONFIG and code:
        return _gate(GateResult.FAIL, "config_change_is_a_code_patch", ", ".join(code))
    return _gate(GateResult.PASS, "paths_allowed", ", ".join(files))


def _gate(result: GateResult, reason: str, detail: str) -> Gate:
    return Gate(name="paths", result=result, reason=reason, detail=detail)
