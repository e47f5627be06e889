"""How each answer moves with the inputs that are least certain, each over a stated range, alone.

Where the binding resource or the decision changes within a range, that input is worth a measurement before
anything is done about the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from layers.floor.assumed import unstated
from layers.floor.floors import Floor, floor
from layers.floor.hardware import SCALE_OUT, Hardware
from layers.floor.model import Model
from layers.floor.modules import MixtureOfExperts, Place, Step
from layers.floor.thresholds import Table, part_limits
from layers.floor.triage import PAPER, Decision, Limit, Timeline, combined, triage

LATENCY_S = 20e-6  # upper end where a card states no latency of a link
RESERVED = (0.05, 0.2)  # of the memory: runtime, buffers, graphs, fragmentation
ACHIEVED = (0.8, 1.0)  # of peak HBM bandwidth
IMBALANCE = (1.0, 2.0)  # busiest device of experts over the mean


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked for: a step of a model in a place, and how long it took."""

    model: Model
    step: Step
    place: Place
    measured_s: float | None = None
    limit: Limit | None = None  # None: by the table, the paper's where that has nothing
    timeline: Timeline | None = None
    drafts: int = 0  # passes of the model's own draft layers in a step
    table: Table = field(default_factory=dict)

    def answer(self) -> Answer:
        """Return all answers. Raises what `floor` does."""
        found = floor(self.model, self.step, self.place, drafts=self.drafts)
        if self.measured_s is None:
            return Answer(found)
        budgets = part_limits(found, (*self.model.parts, *self.model.draft), self.table)
        limit = self.limit or combined(found, budgets)
        decisions = (
            triage(found, self.measured_s, one, timeline=self.timeline, budgets=own)
            for one, own in ((limit, budgets), (PAPER, {}))
        )
        return Answer(found, *decisions)


@dataclass(frozen=True, slots=True)
class Answer:
    """A floor and what it says about a measurement, if there is one."""

    floor: Floor
    decision: Decision | None = None
    flat: Decision | None = None  # by the paper's threshold

    def told(self) -> dict[str, float | str | None]:
        """Return what a person reads of it, by name."""
        return {
            "t_opt_s": float(self.floor.times.t_opt_s),
            "binding": self.floor.times.binding,
            "decision": self.decision.action if self.decision else None,
            "capacity_requests": max(0.0, float(self.floor.most_sequences)),
        }


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The answers at both ends of one input's range."""

    name: str
    unit: str
    low: float
    high: float
    at_low: Answer
    at_high: Answer
    flips: tuple[str, ...]  # the names of answers in words that differ from the given ones


@dataclass(frozen=True, slots=True)
class _Input:
    name: str
    unit: str
    low: float
    high: float
    at: Callable[[Question, float], Question]


def sensitivity(question: Question) -> list[Sensitivity]:
    """Return what each uncertain input does, those first that change an answer in words."""
    given = question.answer().told()
    found = []
    for varied in _inputs(question):
        low, high = (varied.at(question, end).answer() for end in (varied.low, varied.high))
        flips = tuple(
            name
            for name in ("binding", "decision")
            if {low.told()[name], high.told()[name]} != {given[name]}
        )
        found.append(
            Sensitivity(varied.name, varied.unit, varied.low, varied.high, low, high, flips)
        )
    return sorted(found, key=lambda one: -len(one.flips))


def _inputs(question: Question) -> Iterator[_Input]:
    """Yield the inputs that this question depends on at all, with their ranges."""
    hardware, layout = question.place.hardware, question.place.layout
    if layout.devices > 1:
        stated = max((link.latency_s for link in hardware.links.values()), default=0.0)
        most = 2 * stated if stated else LATENCY_S
        yield _Input("message latency", "s", stated / 2, most, _latency)
        if stated and SCALE_OUT in unstated(question.place):
            yield _Input("latency across nodes", "s", 0.0, LATENCY_S, _latency_out)
    low, high = (share * hardware.memory_bytes for share in RESERVED)
    yield _Input("reserve", "bytes", low, high, _reserve)
    low, high = (share * hardware.hbm_bytes_per_s for share in ACHIEVED)
    yield _Input("HBM bandwidth", "bytes/s", low, high, _bandwidth)
    if layout.ep > 1 and any(isinstance(p.module, MixtureOfExperts) for p in question.model.parts):
        yield _Input("expert imbalance", "times the mean", *IMBALANCE, _imbalance)
    context = float(question.step.context)
    if context > 1:  # a new prompt has none
        yield _Input("context", "tokens", context / 2, 2 * context, _context)


def _latency(question: Question, slowest_s: float) -> Question:
    """Return the question with the slowest link at a latency, the others in proportion."""
    hardware = question.place.hardware
    stated = max(link.latency_s for link in hardware.links.values())
    varied = {
        name: replace(link, latency_s=slowest_s * (link.latency_s / stated if stated else 1.0))
        for name, link in hardware.links.items()
    }
    return _on(question, replace(hardware, links=varied))


def _latency_out(question: Question, latency_s: float) -> Question:
    """Return the question with a latency of the link that the card states none of."""
    hardware = question.place.hardware
    link = replace(hardware.links[SCALE_OUT], latency_s=latency_s)
    return _on(question, replace(hardware, links={**hardware.links, SCALE_OUT: link}))


def _reserve(question: Question, size: float) -> Question:
    return _on(question, replace(question.place.hardware, reserve_bytes=size))


def _bandwidth(question: Question, bytes_per_s: float) -> Question:
    return _on(question, replace(question.place.hardware, hbm_bytes_per_s=bytes_per_s))


def _imbalance(question: Question, factor: float) -> Question:
    parts = [
        replace(part, module=replace(part.module, imbalance=factor))
        if isinstance(part.module, MixtureOfExperts)
        else part
        for part in question.model.parts
    ]
    return replace(question, model=replace(question.model, parts=parts))


def _context(question: Question, tokens: float) -> Question:
    return replace(question, step=replace(question.step, context=tokens))


def _on(question: Question, hardware: Hardware) -> Question:
    return replace(question, place=replace(question.place, hardware=hardware))
