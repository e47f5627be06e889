"""Patches from outside: a git diff read strictly, and applied to a commit without a working tree.

A patch is hostile input. It is read here first, so that an error says file, line and hint, sizes
are bounded and links are refused; git then applies it to an index of its own. What counts for a
judgement is the difference of the two trees, never the names that the patch shows.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from layers.errors import InvalidInput, Location, ToolFailed
from layers.repository import git
from layers.repository.diffs import Hunk, Section, sections

MOST_BYTES = 8 * 2**20
MOST_FILES = 1000
MODES = frozenset({"000000", "100644", "100755"})  # absent, file, executable file
_MISPLACED = re.compile(r"patch failed: (?P<path>.*):(?P<line>\d+)$", re.MULTILINE)
_REGENERATE = "make it with `git diff --binary BASE` on top of the commit that is judged, {commit}"


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch that could be read; whether it applies is another question."""

    data: bytes
    source: Path  # what errors call it
    sections: tuple[Section, ...]  # one per file

    @property
    def paths(self) -> list[str]:
        """Every path that the patch names, old and new, sorted."""
        return sorted({name for section in self.sections for name in section.paths})


@dataclass(frozen=True, slots=True)
class Applied:
    """A patch as a commit on top of its base."""

    commit: str
    files: tuple[str, ...]  # that differ from the base, both ends of a rename, sorted
    diff: str  # git's own diff of the two commits


def read(data: bytes, source: Path) -> Patch:
    """Return the patch in `data`; `source` is its name in errors. Nothing but white space is one.

    Raises InvalidInput, with the line and a hint: too large, no diff in it, a hunk that is not as
    long as its header says, a line that belongs to no diff, links and submodules, missing or
    oversized binary content, copies, paths without the a/ and b/ prefixes.
    """
    if len(data) > MOST_BYTES:
        raise InvalidInput(
            f"the patch has {len(data):,} bytes; at most {MOST_BYTES:,} are read",
            at=Location(source),
            hint="split it, or leave data files out of it",
        )
    found = tuple(sections(data, source)) if data.strip() else ()
    if len(found) > MOST_FILES:
        raise InvalidInput(
            f"the patch changes {len(found):,} files; at most {MOST_FILES:,} are read",
            at=Location(source, found[MOST_FILES].line),
            hint="split it",
        )
    return Patch(data, source, found)


def commit(root: Path, base: str, patch: Patch, subject: str) -> Applied:
    """Apply the patch to the commit `base` and commit the result; no branch, no working tree.

    `root` is a checkout of the repository, whose files and index stay as they are. The same patch
    of the same base gives the same commit. Raises InvalidInput, naming the hunk, when the patch
    does not apply, or when the result has a link, a submodule or an unprintable name in it.
    """
    with tempfile.TemporaryDirectory(prefix="fvec-patch-") as folder:
        own = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git.git(root, "read-tree", base, env=own)
        if patch.sections:
            _apply(root, base, patch, Path(folder), own)
        tree = git.git(root, "write-tree", env=own).strip()
    files = _changed(root, base, tree, patch.source)
    date = git.git(root, "show", "--no-patch", "--format=%cI", base).strip()
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    made = git.git(root, "commit-tree", tree, "-p", base, "-m", subject, env=dates).strip()
    return Applied(made, files, git.patch_between(root, base, made))


def _apply(root: Path, base: str, patch: Patch, folder: Path, own: dict[str, str]) -> None:
    """Let git apply the patch to the index; InvalidInput where it does not."""
    file = folder / "patch.diff"
    file.write_bytes(patch.data)
    # The user's own settings may forgive white space or look at another place; here they do not.
    strict = ("-c", "apply.ignoreWhitespace=no", "-c", "apply.whitespace=nowarn")
    try:
        git.git(root, *strict, "apply", "--cached", "--whitespace=nowarn", str(file), env=own)
    except ToolFailed as error:
        told = error.message.partition(": ")[2].replace(str(file), str(patch.source))
        _does_not_apply(patch, told, base)


def _does_not_apply(patch: Patch, told: str, base: str) -> NoReturn:
    """Say which hunk of which file does not fit, at its line of the patch."""
    hint = _REGENERATE.format(commit=base[:12])
    failed = _MISPLACED.search(told)
    hunk = _hunk(patch, failed["path"], int(failed["line"])) if failed else None
    if hunk is not None and failed is not None:
        raise InvalidInput(
            f"the patch does not apply: {failed['path']} is not as this hunk expects it from "
            f"line {hunk.old_start} on",
            at=Location(patch.source, hunk.line),
            hint=hint,
        )
    lines = [line.removeprefix("error: ") for line in told.splitlines() if line.strip()]
    raise InvalidInput(
        f"the patch does not apply: {'; '.join(lines[:3])}", at=Location(patch.source), hint=hint
    )


def _hunk(patch: Patch, path: str, old_start: int) -> Hunk | None:
    """Return the hunk that git means by a path and the first line of its old side."""
    hunks = [h for section in patch.sections if path in section.paths for h in section.hunks]
    return next((hunk for hunk in hunks if hunk.old_start == old_start), None)


def _changed(root: Path, base: str, tree: str, source: Path) -> tuple[str, ...]:
    """Return the files that differ between a commit and a tree; refuse what is no plain file."""
    raw = git.git(root, "diff-tree", "-r", "-z", "--no-renames", "--raw", base, tree)
    fields = raw.split("\0")
    files = []
    for entry, name in zip(fields[0::2], fields[1::2], strict=False):
        modes = set(entry.lstrip(":").split(" ")[:2])
        if not modes <= MODES:
            raise InvalidInput(
                f"{name!r} is, or would become, a symbolic link or a submodule",
                at=Location(source),
                hint="a patch that is judged changes plain files only",
            )
        if not name.isprintable() or "\\" in name:
            raise InvalidInput(
                f"{name!r} is no plain file name",
                at=Location(source),
                hint="rename the file: control characters and backslashes are refused",
            )
        files.append(name)
    return tuple(sorted(files))


def name_of(file: Path) -> str:
    """Return what errors and reports call a patch: the end of its path, never a whole one."""
    return file.name or "patch"
