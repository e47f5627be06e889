"""The frame of a codemod: what is asked of one file, and what comes back.

A codemod reads one parsed file and answers with the places that it would change, those of the
pattern's kind that it leaves, each with the reason, and the edit. The frame parses, so a file that
is not Python is a refusal of every codemod alike, and a file without any of its words is not
parsed at all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst

from layers.base import Hotspot
from layers.features.compiled import compiled_lines
from layers.features.module_names import served_lines
from layers.features.names import changed_meaning
from layers.features.sites import Found, Refusal, Site, sites
from layers.features.source import Source, UnreadableError, read


@dataclass(frozen=True, slots=True)
class File:
    """One Python file of a model.

    `inputs` and `outputs` are what the model's config.pbtxt declares: data type (TYPE_STRING, ...)
    by tensor name; empty where it does not say.
    """

    path: str  # from the root of the checkout
    text: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a codemod found in one file; `edit` makes the changed module, None without a site."""

    found: Sequence[Found]
    edit: Callable[[], cst.Module] | None = None


@dataclass(frozen=True, slots=True)
class Package:
    """A package that a rewritten file imports and that goes beside it; `folder` holds it here."""

    name: str
    folder: Path

    def files(self) -> dict[str, bytes]:
        """Return its files by path below the package, without what a build leaves there."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.suffix in _SHIPPED or path.name == ".gitignore"
        }


_SHIPPED = frozenset({".py", ".c", ".h"})

Share = Callable[[Sequence[Hotspot], Sequence[Site]], float]


@dataclass(frozen=True, slots=True)
class Codemod:
    """One rewrite, and what part of a profile its sites stand for.

    `words` are texts of which a file must hold at least one to be worth parsing. `explanation` says
    to a reviewer why outputs stay as they were. `package` goes beside every file that is changed.
    """

    name: str
    words: Sequence[str]
    analyse: Callable[[Source, File], Rewrite]
    share: Share
    explanation: str
    package: Package | None = None

    def find(self, file: File) -> list[Found]:
        """Return the places that can be changed, and those that are left, with the reason."""
        if not any(word in file.text for word in self.words):
            return []
        try:
            return list(self._rewrite(file).found)
        except UnreadableError as error:
            return [Refusal(str(error), error.line)]

    def apply(self, file: File) -> str:
        """Return the file's text with all its sites changed; as it is where there are none.

        Raises UnreadableError when the file is not Python that can be analysed.
        """
        if not any(word in file.text for word in self.words):
            return file.text
        edit = self._rewrite(file).edit
        return file.text if edit is None else edit().code

    def _rewrite(self, file: File) -> Rewrite:
        source = read(file.text)
        rewrite = self.analyse(source, file)
        matched = sites(rewrite.found)
        if not matched or rewrite.edit is None:
            return rewrite
        hindrance = _hindrance(source, matched)
        return _left(rewrite, hindrance) if hindrance else _carried_out(rewrite, rewrite.edit)


def _hindrance(source: Source, matched: Sequence[Site]) -> str:
    """Say why no codemod may write its code here, "" where it may."""
    compiled = compiled_lines(source)
    inside = [compiled[site.line] for site in matched if site.line in compiled]
    if inside:
        return f"a function that {inside[0]} compiles, which knows no helper of ours"
    if not {site.line for site in matched} <= served_lines(source):
        return "it may run while the file is imported, before a helper of ours is there"
    return changed_meaning(source)


def _carried_out(rewrite: Rewrite, edit: Callable[[], cst.Module]) -> Rewrite:
    """Return the rewrite with its edit made, or refusals where that does not give Python."""
    try:
        module = edit()
        ast.parse(module.code)
    except Exception as error:  # noqa: BLE001  # whatever it is, the file stays as it is
        return _left(rewrite, f"the code to be written is not valid ({type(error).__name__})")
    return Rewrite(rewrite.found, lambda: module)


def _left(rewrite: Rewrite, reason: str) -> Rewrite:
    """Return refusals alone: one edit makes all sites of a file."""
    return Rewrite([Refusal(reason, f.line) if isinstance(f, Site) else f for f in rewrite.found])


def share_of_lines(spots: Sequence[Hotspot], matched: Sequence[Site]) -> float:
    """Return the self time of the sites' lines: C functions have no frame of their own."""
    lines = {(site.path, line) for site in matched for line in site.lines}
    return on_lines(spots, lines, inclusive=False)


def share_of_calls(spots: Sequence[Hotspot], matched: Sequence[Site]) -> float:
    """Return the time of the sites' lines with all that they call."""
    lines = {(site.path, line) for site in matched for line in site.lines}
    return on_lines(spots, lines, inclusive=True)


def on_lines(spots: Sequence[Hotspot], lines: set[tuple[str, int]], *, inclusive: bool) -> float:
    """Return the share of the (path, line) pairs, 0 to 1."""
    share = sum(
        spot.share
        for spot in spots
        if spot.line and spot.inclusive is inclusive and (spot.file, spot.line) in lines
    )
    return min(1.0, share)
