"""The seam through which the engine hands accepted candidates to a forge.

`layers` may not import `bot`, so whoever starts a run passes in what publishes: it renders the
evidence and opens, or updates, the pull request.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from layers.evidence import EvidenceFile, PullRequestRecord


class Publisher(Protocol):
    """Turns one accepted iteration into a pull request."""

    def publish(
        self, evidence: EvidenceFile, patch: str, base: str, branch: str
    ) -> PullRequestRecord:
        """Find or create the pull request of `branch` and bring it up to date.

        `patch` is the git diff from the commit that `base` names to the head of `branch`. Calling
        it again with the same branch updates the same pull request. Raises `FvecError`.
        """


class ForgeOpener(Protocol):
    """Opens the forge of a run once the run has something to publish."""

    def __call__(self, out: Path) -> Publisher:
        """Return the publisher of the run whose results lie under `out`."""
