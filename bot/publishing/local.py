"""The engine's `Publisher`: evidence in, a pull request on a forge out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bot.forge.base import Forge, PullRequest
from bot.forge.local import LocalForge
from bot.render import pull_request
from layers.evidence import EvidenceFile, PullRequestRecord
from layers.redact import known_secrets, redact

if TYPE_CHECKING:
    from layers.record.publishing import Publisher

FORGE_FOLDER = "forge"


class ForgePublisher:
    """Renders evidence and hands body, patch, evidence and plots to a forge."""

    def __init__(self, forge: Forge) -> None:
        """Publish on `forge`."""
        self._forge = forge

    def publish(
        self, evidence: EvidenceFile, patch: str, base: str, branch: str
    ) -> PullRequestRecord:
        """Create the pull request of `branch`, or bring the existing one up to date."""
        plots = _plot_files(evidence)
        shown = {name: self._forge.address_of(path) for name, (path, _) in plots.items()}
        pull = PullRequest(
            branch=branch,
            base=base,
            head_commit=evidence.iteration.commit or "",
            title=pull_request.title(evidence),
            body=pull_request.render(evidence, {n: a for n, a in shown.items() if a}),
            files={**_data_files(evidence, patch), **dict(plots.values())},
        )
        opened = self._forge.open_pull_request(pull)
        return PullRequestRecord(
            forge=self._forge.name,
            number=opened.number,
            branch=branch,
            base=base,
            title=pull.title,
            body=opened.body,
            iterations=[evidence.iteration.n],
        )


def _data_files(evidence: EvidenceFile, patch: str) -> dict[str, bytes]:
    told = redact(evidence.model_dump_json(by_alias=True, indent=1), known_secrets(os.environ))
    return {
        "patch.diff": patch.encode("utf-8", "surrogateescape"),
        "evidence.json": told.encode() + b"\n",
    }


def _plot_files(evidence: EvidenceFile) -> dict[str, tuple[str, bytes]]:
    """Return path and content of every plot, by the plot's name."""
    # matplotlib belongs to the engine: a host that only reads cards does without it.
    from bot.render import plots

    return {
        name: (f"plots/{name}.svg", plots.standalone(svg).encode())
        for name, svg in plots.of_evidence(evidence).items()
    }


def open_local(out: Path) -> Publisher:
    """Open the local forge of the run whose results lie under `out`; a `ForgeOpener`."""
    return ForgePublisher(LocalForge(out / FORGE_FOLDER))
