"""What a proposer works with and what it knows; and what it may change of a stack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import Field

from knowledge.memory import Memory
from layers.agent_settings import AgentSettings
from layers.agents.roles.brief import Allowed
from layers.agents.roles.offered import Offered
from layers.agents.service.budget import OutOfBudget, Purse
from layers.agents.workbench.workspace import Workspace
from layers.base import LayerName, StackView
from layers.gates.paths import CONFIG_FILE, judging_modules, protected_files
from layers.manifest import MANIFEST_PATH, judging_paths
from layers.record.results_folder import WORKSPACES
from layers.redact import known_secrets
from layers.story import Cost, Outcome, Told

MOST_MODELS = 200
_MODEL = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass
class Notebook:
    """The memory of a stack, shared by the proposers of a run: each goes on from the other's."""

    memory: Memory
    loaded: Memory  # as the run began with it


class State(Told):
    """What a proposer knows from one request to the next, as the journal keeps it."""

    memory: Memory
    stories: int = Field(default=0, ge=0)
    barren: int = Field(default=0, ge=0)  # of them, the last ones without a candidate
    pending: str = ""  # the issue of a candidate without a verdict
    hints: tuple[str, ...] = ()  # of the evaluator, each with its commit
    diff: str = ""  # of the pending candidate
    rejected: dict[str, str] = Field(default_factory=dict)  # by the judge: see `Drafts.rejected`
    spent: Cost = Cost(usd=0.0)  # by all proposers of the run, as its ledger had it then
    worked_s: float = Field(default=0.0, ge=0)


def _today() -> date:
    return datetime.now(UTC).date()


@dataclass(frozen=True, slots=True)
class Desk:
    """What a proposer works with, beside those who work for it."""

    out: Path  # the results folder
    purse: Purse
    offered: Offered
    layers: tuple[LayerName, ...]  # that the run may change
    redacted: Callable[[str], str]
    file: Callable[[Memory], Mapping[str, bytes]]  # what a memory is kept as
    secrets: tuple[str, ...] = ()  # that no edit may hold
    run: str = ""
    today: Callable[[], date] = _today

    @contextmanager
    def workspace(self, base: StackView) -> Iterator[Workspace]:
        """Yield a copy of a stack to work in; it is gone afterwards."""
        workspace = Workspace.make(
            base.root, self.out / WORKSPACES, protected_in(base), hidden_in(base)
        )
        try:
            yield workspace
        finally:
            workspace.close()

    def allowed(self, base: StackView) -> Allowed:
        """Return what a change of a stack may be."""
        margin = base.manifest.correctness.approximate_margin
        return Allowed(self.layers, served_models(base), margin is not None)

    def spent(self) -> tuple[Outcome, str] | None:
        """Return which limit is reached, None while none is."""
        try:
            self.purse.check()
        except OutOfBudget as limit:
            return limit.outcome, limit.text
        return None


def secrets_of(settings: AgentSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must stand in no text and in no edit; a key by whatever name it has.

    Of the other variables those whose names say that they are secret: a value such as that of USER
    is a word like any other, and text without it would be hard to read.
    """
    key = environ.get(settings.anthropic.api_key_from, "") if settings.anthropic else ""
    return tuple(dict.fromkeys([*known_secrets(environ), *([key] if key.strip() else [])]))


def protected_in(base: StackView) -> tuple[str, ...]:
    """Return what no candidate may touch in a stack, as its paths gate has it."""
    requirements = base.manifest.stack.requirements
    own = (*protected_files(base.manifest), *judging_modules(base.manifest, base.root))
    return own if requirements is None else (*own, requirements)


def hidden_in(base: StackView) -> tuple[str, ...]:
    """Return what no author sees: what the sandbox of a server hides, that is what judges a change.

    The manifest can be read, with what lies beside it: it says what is asked for.
    """
    shown = {".git", MANIFEST_PATH.parts[0]}
    return tuple(name for name in judging_paths(base.manifest) if name not in shown)


def served_models(base: StackView) -> tuple[str, ...]:
    """Return the names of the models of a stack: with a configuration, or named to be loaded.

    A name of other characters is none: names are told among our own words.
    """
    folder = base.root / base.manifest.stack.models
    found = {path.parent.name for path in folder.glob(f"*/{CONFIG_FILE}") if path.is_file()}
    found.update(base.manifest.stack.load)  # a server completes the configuration of one without
    return tuple(sorted(name for name in found if _MODEL.fullmatch(name))[:MOST_MODELS])
