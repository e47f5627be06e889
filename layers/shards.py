"""A run shared out among runners: whose a hypothesis is, and how many candidates each may try. Pure.

A shard is one runner's part of a run. Hypotheses are dealt by a hash of card and model, so every
one is of exactly one shard of its layer, whichever runner finds it. Both arms of a candidate stay
on one runner; what two shards accept was measured on the same base, not on each other.

False accepts are those of the whole run: its boundaries stay what `budget.candidates` makes them,
and all shards of all layers together try at most that many candidates.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from layers.base import LayerName

MOST_SHARDS = 64
_WRITTEN = re.compile(r"([1-9]\d?)/([1-9]\d?)", re.ASCII)
_NO_CANDIDATE = "{candidates} candidates are too few for {layers} layers: each needs one"


class Change(Protocol):
    """What a hypothesis is dealt by."""

    @property
    def card(self) -> str:
        """Id of its card."""

    @property
    def model(self) -> str:
        """The model that it changes."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `count`, counted from 1. ValueError for a part that there is not."""

    number: int
    count: int

    def __post_init__(self) -> None:
        """Refuse a part that there is not."""
        if not 1 <= self.number <= self.count <= MOST_SHARDS:
            raise ValueError(
                f"{self.number}/{self.count} is no part of a run: 1/1 to {MOST_SHARDS}/{MOST_SHARDS}"
            )

    @classmethod
    def read(cls, text: str) -> Shard:
        """Return the part that `K/N` names; ValueError for anything else."""
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no part of a run: K/N, such as 1/2")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        """Return `K/N`."""
        return f"{self.number}/{self.count}"

    def takes(self, change: Change) -> bool:
        """Say whether a hypothesis is of this part."""
        named = f"{change.card}\0{change.model}".encode("utf-8", "surrogateescape")
        dealt = int.from_bytes(hashlib.sha256(named).digest()[:8], "big")
        return dealt % self.count == self.number - 1

    def allowance(
        self, candidates: int, layers: Iterable[LayerName], own: Collection[LayerName]
    ) -> int:
        """Return how many of a run's `candidates` this part may try in its `own` of all `layers`.

        They are dealt one at a time to the layers, shard after shard, so that all parts of all
        layers together have exactly `candidates`.
        """
        every = list(dict.fromkeys(layers))
        each, over = divmod(candidates, len(every) * self.count)
        first = (self.number - 1) * len(every)
        places = (first + place for place, layer in enumerate(every) if layer in own)
        return sum(each + (place < over) for place in places)


@dataclass(frozen=True, slots=True)
class Job:
    """What one runner of a matrix does; the texts are arguments, empty where there is none."""

    layer: str  # of --layer, comma-separated; empty for all layers of the manifest
    shard: str  # of --shard; empty for a run that is not shared out
    name: str  # of [a-z0-9-], no two alike in a matrix


def matrix(
    candidates: int, layers: Sequence[LayerName], own: Sequence[LayerName], shards: int
) -> list[Job]:
    """Return the jobs that share out a run: every layer of `own`, in `shards` parts each.

    Fewer parts where `candidates` would not leave each job one to try; with 0 shards one job does
    the whole run, later changes being measured on top of earlier ones in all layers. `layers` are
    those of the manifest. ValueError where there are more layers than candidates.
    """
    wanted = list(dict.fromkeys(own))
    if shards == 0:
        narrowed = set(wanted) != set(layers)
        return [Job(layer=",".join(wanted) if narrowed else "", shard="", name="whole")]
    known = len(set(layers))
    if candidates < known:
        raise ValueError(_NO_CANDIDATE.format(candidates=candidates, layers=known))
    count = min(shards, candidates // known, MOST_SHARDS)
    return [
        Job(layer=layer.value, shard=f"{number}/{count}", name=f"{layer}-{number}-of-{count}")
        for layer in wanted
        for number in range(1, count + 1)
    ]
