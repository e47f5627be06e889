"""A model as a list of declared modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from layers.floor.account import Account
from layers.floor.layout import hand_over
from layers.floor.modules import Module, Place, Step
from layers.floor.precision import bytes_of


@dataclass(frozen=True, slots=True)
class Part:
    """Equal modules of a model."""

    name: str
    module: Module
    count: int


@dataclass(frozen=True, slots=True)
class Model:
    """What is served: embedding, layers and head in parts."""

    name: str
    hidden: int
    parts: Sequence[Part]

    def parameters(self) -> float:
        """Return all parameters, biases and norms left out."""
        return sum(part.count * part.module.parameters() for part in self.parts)

    def active_parameters(self) -> float:
        """Return those that one token meets."""
        return sum(part.count * part.module.active_parameters() for part in self.parts)

    def accounts(self, step: Step, place: Place) -> Iterator[tuple[str, Account]]:
        """Yield what each part asks of the busiest device in one step.

        With stages, a batch passes them as that many smaller ones: each device does its share of
        the layers for each of them, one after another, and hands over what it made.
        """
        stages = place.layout.pp
        inner = Step(step.batch / stages, step.context, step.new_tokens)
        for part in self.parts:
            a_stage = part.module.account(inner, place).times(part.count)
            yield part.name, _of_a_stage(a_stage, stages)
        if stages > 1:
            across = place.layout.per_stage >= place.hardware.devices_per_node
            size = place.tokens(inner) * self.hidden * bytes_of(place.precision.activations)
            yield "stages", hand_over(size, place.hardware, across=across).times(stages)


def _of_a_stage(whole: Account, stages: int) -> Account:
    """Return the account of a device of one stage, which all small batches pass in a step."""
    return replace(
        whole,
        resident_bytes=whole.resident_bytes / stages,
        cache_bytes_per_token=whole.cache_bytes_per_token / stages,
        state_bytes_per_sequence=whole.state_bytes_per_sequence / stages,
    )
