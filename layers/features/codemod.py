"""The frame of a codemod: what is asked of one file, and what comes back.

A codemod reads one parsed file and answers with the places that it would change, those of the
pattern's kind that it leaves, each with the reason, and the edit. The frame parses, so a file that
is not Python is a refusal of every codemod alike, and a file without any of its words is not
parsed at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from layers.base import Hotspot
from layers.features.sites import Found, Refusal, Site
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


Share = Callable[[Sequence[Hotspot], Sequence[Site]], float]


@dataclass(frozen=True, slots=True)
class Codemod:
    """One rewrite, and what part of a profile its sites stand for.

    `words` are texts of which a file must hold at least one to be worth parsing. `explanation` says
    to a reviewer why outputs stay as they were.
    """

    name: str
    words: Sequence[str]
    analyse: Callable[[Source, File], Rewrite]
    share: Share
    explanation: str

    def find(self, file: File) -> list[Found]:
        """Return the places that can be changed, and those that are left, with the reason."""
        if not any(word in file.text for word in self.words):
            return []
        try:
            return list(self.analyse(read(file.text), file).found)
        except UnreadableError as error:
            return [Refusal(str(error), error.line)]

    def apply(self, file: File) -> str:
        """Return the file's text with all its sites changed; as it is where there are none.

        Raises UnreadableError when the file is not Python that can be analysed.
        """
        if not any(word in file.text for word in self.words):
            return file.text
        edit = self.analyse(read(file.text), file).edit
        return file.text if edit is None else edit().code


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
