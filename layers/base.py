"""What passes between the stations of the loop, and the verbs of a layer.

Values are frozen. A layer proposes edits and explains them; it never measures end to end,
never compares outputs and never decides: those belong to `layers.trial.verify`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from knowledge.ground import change_name

if TYPE_CHECKING:
    from knowledge.cards import Card, Finding
    from layers.evidence import FloorRecord, Iteration, LocalGain
    from layers.manifest import Manifest


COOKBOOK = "cookbook"  # the proposer that is no agent: the layers' own rewrites


class LayerName(StrEnum):
    """The layers of a serving stack, bottom to top."""

    KERNEL = "kernel"
    GRAPH = "graph"
    SERVER = "server"
    FEATURES = "features"
    CONFIG = "config"


class ChangeClass(StrEnum):
    """How much of the output a change may move; it selects the correctness gate."""

    EXACT = "exact"
    REORDER = "reorder"
    APPROXIMATE = "approximate"
    CONFIG = "config"


@dataclass(frozen=True, slots=True)
class Hotspot:
    """One place where serving time goes.

    `share` is the part of all server CPU time in the profile, 0 to 1. `function` and `line` are
    those of the innermost frame for self time, or of a caller when `inclusive` is set.
    """

    process: str  # "tritonserver" or the name of the model whose backend process it is
    file: str  # as the profiler names it; relative to the stack where it lies inside
    function: str
    line: int
    share: float
    inclusive: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of the stack goes under load, and the raw file that says so."""

    tool: str  # name and version, e.g. "py-spy 0.4.3"
    raw: Path
    cpu_s: float  # CPU seconds of all server processes during the profile
    requests: int
    by_process: Mapping[str, float]  # share of cpu_s, sums to 1
    by_layer: Mapping[LayerName, float]  # share of cpu_s that each layer could touch
    hotspots: Sequence[Hotspot]
    # share of cpu_s by model and phase of its process: "receive", "compute", "assemble", "outside"
    by_phase: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    floor: FloorRecord | None = None  # held against the stack before it was profiled

    @property
    def near_floor(self) -> str:
        """Why no profiler was opened, empty where one was."""
        return self.floor.reason if self.floor and self.floor.action == "stop" else ""


class Sign(StrEnum):
    """What shows that a new path ran, while the candidate serves under load."""

    RUNS = "runs"  # a function is on a stack of the model's process
    GONE = "gone"  # a function that was there in the baseline is there half as often, or never
    LOADED = "loaded"  # a file of the repository is mapped by the model's process
    SERVED = "served"  # the server reports a value of the model's configuration


@dataclass(frozen=True, slots=True)
class Activation:
    """One sign to look for.

    `subject` is `file:function` (runs, gone), a file (loaded), or a field of the served
    configuration such as `dynamic_batching.max_queue_delay_microseconds` (served).
    """

    sign: Sign
    model: str  # in whose process, or whose configuration
    subject: str
    value: str = ""  # of a served field, as the server reports it


@dataclass(frozen=True, slots=True)
class Contract:
    """What the author of a change claims before it is tried, so that a trial can prove it wrong."""

    claim: str  # what costs time, and why the change takes it away
    expected: tuple[float, float]  # throughput ratio of the stack, low and high
    activation: tuple[Activation, ...]
    falsifier: str  # the observation that would show the claim to be wrong
    skill: str = ""  # id of the skill that it applies, where there is one


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A possible change, ranked by share x expected gain before anything is written."""

    layer: LayerName
    card: str  # id of the knowledge card
    model: str  # the Triton model it changes
    title: str
    why: str  # one sentence with the numbers that led here
    share: float  # of total server CPU time, 0 to 1
    expected_gain: float  # of that share, 1 - 1/speedup, from the card and its findings
    best_gain: float  # the same, at the optimistic end of the card's range
    change_class: ChangeClass
    transform: str  # the layer's rewrite, from the card
    sites: Sequence[str] = field(default_factory=tuple)  # "file:line" that the edit will touch
    on_top: Sequence[str] = ()  # changes that this run accepted before: see `change`
    together: Sequence[Hypothesis] = ()  # that this one carries out as one candidate, in order
    proposer: str = COOKBOOK  # what wrote it
    contract: Contract | None = None  # of what an agent wrote; a card's claim is the card

    @property
    def change(self) -> str:
        """Name of the change, as findings know it."""
        return change_name(self.card, self.model)

    @property
    def changes(self) -> tuple[str, ...]:
        """Names of all changes that the candidate makes: its own, or those it joins."""
        return tuple(h.change for h in self.together) or (self.change,)

    @property
    def branch(self) -> str:
        """Name of the branch that carries it out; no two models share one."""
        model = re.sub(r"[^A-Za-z0-9_-]+", "-", self.model)  # not all that git refuses
        if model != self.model:
            model += f"-{hashlib.sha256(self.model.encode()).hexdigest()[:8]}"
        return f"fvec/{self.layer}/{self.card}-{model}"

    @property
    def score(self) -> float:
        """Share of total time that the change is expected to save."""
        return self.share * self.expected_gain

    @property
    def best_case(self) -> float:
        """Share of total time saved if the optimistic end of the range comes true."""
        return self.share * self.best_gain


@dataclass(frozen=True, slots=True)
class Edit:
    """New contents of files, by path relative to the repository root; None deletes a file."""

    files: Mapping[str, bytes | None]
    summary: str  # one imperative line: the commit's subject and the pull request's title
    explanation: str  # why the change is right, for the reviewer


@dataclass(frozen=True, slots=True)
class Candidate:
    """A committed edit in a working tree of its own."""

    hypothesis: Hypothesis
    edit: Edit
    branch: str
    base_commit: str
    commit: str
    worktree: Path
    patch: str  # git diff base_commit..commit


@dataclass(frozen=True, slots=True)
class StackView:
    """What a layer may read of the stack under test: a checkout at one commit, built."""

    root: Path
    commit: str
    manifest: Manifest
    server_python: Path  # the interpreter of the model server's environment


@dataclass(frozen=True, slots=True)
class Ground:
    """What a finding stands on: when, where and on which versions a run happened."""

    date: date
    stack: str
    commit: str  # the baseline of the run
    hardware: str
    versions: Mapping[str, str] = field(default_factory=dict)
    workload: str = ""  # fingerprint of model and traffic shape
    run: str = ""
    fvec: str = ""  # version of the bot
    code: Mapping[str, str] = field(default_factory=dict)  # digest by model, at `commit`


class Layer(Protocol):
    """One layer of the serving stack: five verbs over the values above, and its refusals.

    Implementations live in `layers/<name>/layer.py`, are listed in `layers/registry.py` and
    held to `tests/contract/test_layers.py`.
    """

    name: LayerName

    def profile(self, profile: Profile, stack: StackView) -> Sequence[Hotspot]:
        """Return the hotspots of the live process profile that this layer could change."""

    def diagnose(
        self, hotspots: Sequence[Hotspot], stack: StackView, cards: Sequence[Card]
    ) -> Sequence[Hypothesis]:
        """Match hotspots and source against the cards; unranked, possibly empty."""

    def refusals(self, stack: StackView, cards: Sequence[Card]) -> Sequence[str]:
        """Say, one line each, where a card fits but its change cannot be made, and why."""

    def optimize(self, hypothesis: Hypothesis, stack: StackView) -> Edit | None:
        """Write the change, or return None when the code is not of a shape that can be changed."""

    def verify(
        self, candidate: Candidate, baseline: StackView, patched: StackView
    ) -> LocalGain | None:
        """Measure the layer's own local gain, or None where only the stack can tell."""

    def refine(self, iteration: Iteration, ground: Ground) -> Finding | None:
        """Say what one iteration taught about its card, or None when nothing was learned."""
