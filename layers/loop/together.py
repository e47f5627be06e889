"""Several changes as one candidate: what earlier runs accepted is measured again in one trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from knowledge.cards import Card, Finding
from layers import findings
from layers.base import (
    Candidate,
    Edit,
    Ground,
    Hotspot,
    Hypothesis,
    Layer,
    LayerName,
    Profile,
    StackView,
)
from layers.errors import InvalidInput
from layers.evidence import Iteration, LocalGain
from layers.repository import git
from layers.repository.stack import Stack


@dataclass
class Together:
    """Carries out a joint hypothesis by the layers of its members; proposes none itself."""

    layers: Mapping[LayerName, Layer]
    stack: Stack
    under: Path  # where a worktree to write in may stand
    name: LayerName = LayerName.FEATURES

    def profile(self, profile: Profile, stack: StackView) -> Sequence[Hotspot]:
        """Return all hotspots: each is some member's."""
        del stack
        return profile.hotspots

    def diagnose(
        self, hotspots: Sequence[Hotspot], stack: StackView, cards: Sequence[Card]
    ) -> Sequence[Hypothesis]:
        """Return nothing: members come from their own layers."""
        del hotspots, stack, cards
        return ()

    def refusals(self, stack: StackView, cards: Sequence[Card]) -> Sequence[str]:
        """Return nothing: what is refused alone is told by its own layer."""
        del stack, cards
        return ()

    def optimize(self, hypothesis: Hypothesis, stack: StackView) -> Edit | None:
        """Write one member's change on top of the other; None where one cannot be written."""
        worktree = self.stack.worktree(stack.commit, self.under)
        try:
            view, edits = replace(stack, root=worktree), list[Edit]()
            for member in hypothesis.together:
                edit = self.layers[member.layer].optimize(member, view)
                if edit is None:
                    return None
                git.commit_edit(worktree, edit)  # on no branch: the next member reads it there
                edits.append(edit)
        except InvalidInput:  # a path that may not be edited; tried alone, the member says so
            return None
        finally:
            self.stack.remove_worktree(worktree)
        return _joined(hypothesis, edits)

    def verify(
        self, candidate: Candidate, baseline: StackView, patched: StackView
    ) -> LocalGain | None:
        """Return None: a local gain is that of one change."""
        del candidate, baseline, patched
        return None

    def refine(self, iteration: Iteration, ground: Ground) -> Finding | None:
        """Return what the iteration says about its members as one candidate."""
        return findings.finding(iteration, ground)


def _joined(hypothesis: Hypothesis, edits: Sequence[Edit]) -> Edit:
    """Return the edits as one; of a file that several write, the last has all changes."""
    files = {path: content for edit in edits for path, content in edit.files.items()}
    parts = [
        f"{edit.summary} ({member.card})\n\n{edit.explanation}".strip()
        for member, edit in zip(hypothesis.together, edits, strict=True)
    ]
    head = (
        "Earlier runs accepted each of these changes by itself, on this stack, traffic, hardware "
        "and versions. Here they are one candidate, measured and checked anew; nothing is taken "
        "over from those runs. Its members were not measured one by one in this run: the gain is "
        "that of all of them, and one alone may gain nothing, or cost. Where pull requests of single "
        "ones are still open, this one replaces them."
    )
    return Edit(files, hypothesis.title, "\n\n".join([head, *parts]))
