"""What lies beside a pull request at GitHub: its evidence without secrets, patch, plots, whole body.

All of it is made from checked evidence; no text or drawing of a results folder is passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.render import publication as rendering
from bot.render.again import EVIDENCE, PATCH, Kept
from bot.render.publication import Addresses
from layers.evidence import EvidenceFile
from layers.redact import redact

if TYPE_CHECKING:
    from bot.github.archive import EvidenceBranch
    from bot.publishing.claims import Claim

WHOLE = "body.md"


@dataclass(frozen=True, slots=True)
class Material:
    """The evidence as it is published, and the files by their names in the pull request's folder."""

    evidence: EvidenceFile
    files: Mapping[str, bytes]
    plots: Mapping[str, str]  # names of files, by the plot's name

    def addresses(self, archive: EvidenceBranch, server: str, kept: Kept) -> Addresses:
        """Return where the files lie at GitHub's `server`."""

        def at(name: str) -> str:
            return archive.url(server, kept.commit, f"{kept.folder}/{name}")

        plots = {plot: at(name) for plot, name in self.plots.items()}
        return Addresses(
            evidence=at(EVIDENCE), patch=at(PATCH), whole=at(WHOLE), plots=plots, kept=kept
        )


def of_claim(claim: Claim) -> Material:
    """Return what is published of a checked claim."""
    # matplotlib belongs to the engine: a host that only reads cards does without it.
    from bot.render import plots

    evidence = without_secrets(claim.recorded.evidence)
    drawn = plots.of_evidence(evidence)
    names = {plot: f"plots/{plot}.svg" for plot in drawn}
    files = {
        EVIDENCE: evidence.model_dump_json(by_alias=True, indent=1).encode() + b"\n",
        PATCH: claim.recorded.patch,
        WHOLE: rendering.whole(evidence, names).encode(),
        **{names[plot]: plots.standalone(svg).encode() for plot, svg in drawn.items()},
    }
    return Material(evidence, files, names)


def without_secrets(evidence: EvidenceFile) -> EvidenceFile:
    """Return the evidence with whatever looks like a secret taken out of its texts."""
    document = evidence.model_dump(mode="json", by_alias=True)
    return EvidenceFile.model_validate(_cleaned(document))


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {redact(str(key)): _cleaned(item) for key, item in value.items()}
    return value
