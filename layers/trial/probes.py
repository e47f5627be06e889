"""What a trial sends one at a time, drawn after the candidate was written, and the record of it.

Recorded, salted and mutated requests come in one random order. What each of them is for is known by
its place here, and to nobody else.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np

from layers.base import ChangeClass
from layers.evidence import KindCount, TrafficRecord
from layers.measure.fresh import Fresh
from layers.measure.launch import Bench
from layers.traffic.mutations import EXACT_ONLY, WHY, Mutator
from layers.trial import equivalence
from layers.trial.equivalence import Probe, Unsent

RENEWED = "renewed"  # kind of a probe
MOST_NAMED = 8  # kinds that a warning names
EXPECTED = (EXACT_ONLY, WHY["absent"])  # why a kind is not tried where nobody need wonder


class Probes:
    """The draws of one trial."""

    def __init__(self, bench: Bench, change_class: ChangeClass) -> None:
        """Begin draws that nobody can foresee; only an exact change is held to far values."""
        traffic, seed = bench.load.traffic, secrets.randbits(128)
        self._bench, self._far = bench, change_class is ChangeClass.EXACT
        self._seeds = {"probes": f"{seed:x}", "blocks": bench.reseed()}
        if bench.fresh is not None:
            self._seeds["renewed"] = f"{bench.fresh.reseed():x}"
        self.rng = np.random.default_rng(seed)
        self._mutator = bench.mutator or Mutator(traffic.requests, traffic.optional)
        self.unsent = Unsent(traffic, bench.fresh, self.rng)

    def drawn(self, observed: int = 0) -> list[Probe]:
        """Draw the probes, at least `observed` of them recorded or salted, as far as there are any."""
        recorded = equivalence.recorded(self._bench.load.traffic, self.rng)
        new = self.unsent.salted(equivalence.RENEWED)
        new += self.unsent.draw(observed - len(recorded) - len(new))
        mutated = self._mutator.draw(self.rng, equivalence.MUTATED, far=self._far)
        self.unsent.add([*recorded, *(one.message for one in mutated)])
        half, some = equivalence.REFEREED // 2, equivalence.REFEREED // 4
        usual = [place for place, one in enumerate(mutated) if one.kind.usual and not one.kind.far]
        refereed = {usual[place] for place in self.rng.permutation(len(usual))[:some].tolist()}
        probes = [
            Probe(message, refereed=place < half, observed=True)
            for place, message in enumerate(recorded)
        ]
        probes += [
            Probe(message, RENEWED, refereed=place < some, observed=True, far=self._far)
            for place, message in enumerate(new)
        ]
        probes += [
            Probe(
                one.message,
                one.kind.name,
                refereed=place in refereed,
                odd=not one.kind.sized,
                far=self._far,
            )
            for place, one in enumerate(mutated)
        ]
        return [probes[place] for place in self.rng.permutation(len(probes)).tolist()]

    def record(self, counts: Mapping[str, KindCount]) -> TrafficRecord:
        """Return what was sent, once it was: by then the seeds foretell nothing of this trial."""
        fresh = self._bench.fresh
        return TrafficRecord(
            kinds=dict(sorted(counts.items())),
            not_tried=self._mutator.not_tried(counts, far=self._far),
            renewed=str(fresh.salt) if fresh is not None else equivalence.AS_RECORDED,
            seeds=self._seeds,
        )


def completed(record: TrafficRecord | None, fresh: Fresh | None) -> TrafficRecord | None:
    """Return the record of a finished trial, with what could not be new in all that was timed."""
    if record is None or fresh is None:
        return record
    return record.model_copy(update={"elements": fresh.elements, "kept": fresh.kept})


def warnings_of(record: TrafficRecord | None) -> list[str]:
    """Return what a reviewer should know of a trial's traffic, one line each."""
    if record is None:
        return []
    lines = []
    left = [line for line in record.not_tried if not line.endswith(EXPECTED)]
    if left:
        rest = [f"and {len(left) - MOST_NAMED} more"] if len(left) > MOST_NAMED else []
        named = "; ".join([*left[:MOST_NAMED], *rest])
        lines.append(f"changes of requests that were not tried: {named}")
    if record.kept:
        share = record.kept / record.elements
        lines.append(
            f"{share:.0%} of the values in renewed requests are values of the recording, in other "
            "rows (strings, integers, whole numbers): a table of them would show as a gain"
        )
    return lines
