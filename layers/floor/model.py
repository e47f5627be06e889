"""A model as a list of declared modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from layers.floor.account import Account, greatest, least
from layers.floor.layout import hand_over
from layers.floor.modules import Module, Place, Step
from layers.floor.precision import Format, bytes_of


@dataclass(frozen=True, slots=True)
class Part:
    """Equal modules of a model."""

    name: str
    module: Module
    count: int
    differs: tuple[tuple[str, Format], ...] = ()  # fields of Precision, where not the deployment's

    def account(self, step: Step, place: Place) -> Account:
        """Return what all of them ask of the busiest device.

        Arithmetic in a dtype that the device lacks is done in the next wider one that it has.
        """
        differs: dict[str, Any] = dict(self.differs)
        own = replace(place.precision, **differs).on(place.hardware.flops_per_s)
        return self.module.account(step, replace(place, precision=own)).times(self.count)


@dataclass(frozen=True, slots=True)
class Model:
    """What is served: embedding, layers and head in parts."""

    name: str
    hidden: int
    parts: Sequence[Part]
    draft: Sequence[Part] = ()  # layers that predict further tokens: a pass of their own
    assumptions: Sequence[str] = ()  # what its configuration leaves open, and what was taken

    def __post_init__(self) -> None:
        """Raise ValueError for two parts of one name: accounts are told apart by it."""
        names = [part.name for part in (*self.parts, *self.draft)]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: parts of one name among {', '.join(names)}")

    def parameters(self) -> float:
        """Return all parameters but the draft's, biases and norms left out."""
        return _parameters(self.parts)

    def active_parameters(self) -> float:
        """Return those that one token meets."""
        return sum(part.count * part.module.active_parameters() for part in self.parts)

    def draft_parameters(self) -> float:
        """Return the parameters of the draft layers alone."""
        return _parameters(self.draft)

    def accounts(self, step: Step, place: Place) -> Iterator[tuple[str, Account]]:
        """Yield what each part asks of the busiest device in one step.

        With stages, a batch passes them as that many smaller ones: each device does its share of
        the layers for each of them, one after another, and hands over what it made. A sequence is
        not divided: it passes all stages in turn.
        """
        stages = place.layout.pp
        share = greatest(step.batch / stages, least(step.batch, 1.0))
        inner = replace(step, batch=share)
        for part in self.parts:
            yield part.name, _of_a_stage(part.account(inner, place), stages)
        if stages > 1:
            size = place.tokens(inner) * self.hidden * bytes_of(place.precision.activations)
            yield "stages", hand_over(size, place.layout, place.hardware).times(stages)

    def draft_accounts(self, step: Step, place: Place) -> Iterator[tuple[str, Account]]:
        """Yield what each draft part asks of the busiest device of the last stage, in one pass."""
        for part in self.draft:
            yield part.name, part.account(step, place)


def _parameters(parts: Sequence[Part]) -> float:
    return sum(part.count * part.module.parameters() for part in parts)


def _of_a_stage(whole: Account, stages: int) -> Account:
    """Return the account of a device of one stage, which all small batches pass in a step."""
    return replace(
        whole,
        resident_bytes=whole.resident_bytes / stages,
        cache_bytes_per_token=whole.cache_bytes_per_token / stages,
        state_bytes_per_sequence=whole.state_bytes_per_sequence / stages,
    )
