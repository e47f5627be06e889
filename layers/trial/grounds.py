"""What an accepted verdict rests on, held to itself. Pure.

A verdict that comes from elsewhere may say `accepted` and hold nothing of what that takes. What
contradicts itself here no trial of ours has left; what does not may still be false.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layers.base import COOKBOOK, ChangeClass
from layers.evidence import (
    Block,
    EndToEnd,
    GateResult,
    Interval,
    Iteration,
    JudgeReport,
    LoadTest,
    Look,
    NoiseFloor,
    OutputRow,
    Pair,
    Verdict,
)
from layers.measure import stats

GATES = ("paths", "refusals", "correctness", "memory", "gain", "commit", "confirm")  # of any class
GATES_OF_AGENTS = ("plan", "activation")  # of a change that an agent wrote
GATES_OF_METRIC = ("metric", "metric under load")  # of an approximation besides
SAME = 1e-6  # relative; what JSON and a sum in another order may move


@dataclass(frozen=True, slots=True)
class Ground:
    """What a verdict says that it was measured by."""

    change_class: ChangeClass
    noise: NoiseFloor | None
    blocks: Sequence[Block]
    slo_p99_ms: float


def contradictions(found: Iteration | JudgeReport, ground: Ground) -> Iterator[str]:
    """Yield what speaks against an accepted verdict in its own record, in words.

    Nothing is yielded where every gate of its class passed and comparison, looks, fresh pairs,
    blocks and load test bear it out, each number made again from what it was made from. The
    interval of the last look lies above 1; that of the fresh pairs need not: they are few, and
    only what they measured has to be a gain.
    """
    end = found.end_to_end
    if found.verdict is not Verdict.ACCEPTED or end is None:
        yield f"it claims no gain: its verdict is {found.verdict} ({found.reason})"
        return
    if ground.noise is None:
        yield "it is accepted, and says nothing of the noise"
        return
    yield from _of_gates(found, ground.change_class)
    yield from _of_signs(found)
    yield from _of_outputs(found.equivalence, ground.change_class)
    yield from _of_looks(found.looks, found.pairs, ground.noise)
    yield from _of_gain(end, found.confirm, ground.noise)
    yield from _of_load(found.load_test, end, ground.slo_p99_ms)
    yield from _of_blocks([*found.pairs, *found.confirm], ground.blocks)


def _of_gates(found: Iteration | JudgeReport, change_class: ChangeClass) -> Iterator[str]:
    names = {gate.name for gate in found.gates}
    needed = list(GATES)
    if change_class is ChangeClass.APPROXIMATE:
        needed += GATES_OF_METRIC
    if change_class is ChangeClass.REORDER and any(row.differing for row in found.equivalence):
        needed.append("referee")
    for gate in found.gates:
        if gate.result is not GateResult.PASS:
            yield f"it is accepted, and the gate {gate.name} did not pass"
    for name in needed:
        if name not in names:
            yield f"it is accepted, and the gate {name} is not there"


def _of_signs(found: Iteration | JudgeReport) -> Iterator[str]:
    """Hold a change that was claimed by a contract to the signs that its author named."""
    if not isinstance(found, Iteration):
        return
    contract = found.hypothesis.contract
    if contract is None and found.hypothesis.proposer == COOKBOOK:
        return
    there = {gate.name for gate in found.gates}
    for name in GATES_OF_AGENTS:
        if name not in there:
            yield f"it is accepted, and the gate {name} is not there"
    if contract is None or not contract.activation:
        yield "it is accepted, and names no sign by which its new path could be seen"
        return
    for sign in contract.activation:
        if not sign.seen:
            yield f"it is accepted, and its sign {sign.sign} {sign.subject!r} was not seen"


def _of_outputs(rows: Sequence[OutputRow], change_class: ChangeClass) -> Iterator[str]:
    if not rows or min(row.requests for row in rows) < 1:
        yield "it is accepted, and no outputs were compared"
    exact = change_class is ChangeClass.EXACT
    for row in rows:
        bound = change_class is not ChangeClass.APPROXIMATE and (exact or row.limit is None)
        if bound and row.differing:
            yield f"output {row.output!r} differs, which a change of class {change_class} may not do"


def _of_looks(looks: Sequence[Look], pairs: Sequence[Pair], noise: NoiseFloor) -> Iterator[str]:
    last = looks[-1] if looks else None
    if last is None or last.decision != "accept":
        yield "no look accepted its gain"
        return
    if last.ci[0] <= 1:
        yield f"the interval of its last look begins at {last.ci[0]:.3f}, which is no gain"
    if not pairs or min(pair.throughput_ratio for pair in pairs) <= 0:
        yield "a throughput ratio of a pair is not positive, or no pair is there"
        return
    # Of how many candidates it was one is not recorded: of one is the least that a look may ask.
    plan = stats.LookPlan(candidates=1)
    launches = stats.by_launch(pairs)
    if len(launches) != last.k or last.k not in plan.looks:
        yield f"its last look is at {last.k} launches, and its pairs are of {len(launches)}"
        return
    again = stats.look(launches, noise, plan)
    yield from _of_interval("last look", (last.estimate, last.ci), (again.estimate, again.ci))
    if again.decision != "accept":
        yield f"its pairs make no gain that a look accepts: {again.reason}"
    if last.boundary < again.boundary * (1 - SAME) or last.floor < again.floor * (1 - SAME):
        yield "its last look asked for less than looks ask"


def _of_gain(end: EndToEnd, confirm: Sequence[Pair], noise: NoiseFloor) -> Iterator[str]:
    if len(confirm) != end.pairs or end.pairs < 2:
        yield f"the gain is of {end.pairs} fresh pairs, and {len(confirm)} are there"
        return
    if min(min(pair.throughput_ratio, pair.cpu_ratio) for pair in confirm) <= 0:
        yield "a ratio of a fresh pair is not positive"
        return
    gain = stats.confirm(stats.by_launch(confirm), noise)
    yield from _of_interval(
        "throughput ratio", (end.throughput_ratio, end.ci), (gain.ratio, gain.ci)
    )
    cpu = stats.ratio_ci([pair.cpu_ratio for pair in confirm])
    yield from _of_interval("CPU ratio", (end.cpu_ratio, end.cpu_ci), (cpu.ratio, cpu.ci))
    if end.throughput_ratio <= 1:
        yield f"its fresh pairs show no gain: {end.throughput_ratio:.3f} times"


def _of_interval(
    what: str, printed: tuple[float, Interval], again: tuple[float, Interval]
) -> Iterator[str]:
    """Hold a printed ratio and its interval to what its pairs give."""
    (ratio, ci), (made, made_ci) = printed, again
    if not math.isclose(ratio, made, rel_tol=SAME):
        yield f"the {what} is printed as {ratio:.6g}, and its pairs give {made:.6g}"
    for side, ours in zip(ci, made_ci, strict=True):
        if not math.isclose(side, ours, rel_tol=SAME):
            yield f"an end of the interval of the {what} is {side:.6g}, and its pairs give {ours:.6g}"


def _of_load(test: LoadTest | None, end: EndToEnd, slo_p99_ms: float) -> Iterator[str]:
    if test is None or test.void is not None:
        yield "it is accepted without a load test that counts"
        return
    old, new = test.baseline, test.candidate
    if test.slo_p99_ms != slo_p99_ms:
        yield f"its load test is at {test.slo_p99_ms:g} ms, and the SLO is {slo_p99_ms:g} ms"
    if new.requests < 1 or new.requests != old.requests:
        yield "its load test sent the two arms other requests, or none"
        return
    if new.errors > old.errors:
        yield "its load test has more errors than the baseline's"
    if not 0 <= old.over_slo <= old.requests or not 0 <= new.over_slo <= new.requests:
        yield "its load test has more requests over the SLO than requests"
        return
    difference, ci, result, reason = stats.commit_gate(
        old.over_slo, old.requests, new.over_slo, new.requests
    )
    told = (test.over_slo_difference, *test.over_slo_ci)
    if not all(map(_same_share, told, (difference, *ci))):
        yield "the shares over the SLO are not those of its load test"
    if result is not GateResult.PASS:
        yield f"its load test does not pass: {reason}"
    if test.p99_ci is not None and not _holds(test.p99_ci, test.p99_ratio or 0.0):
        yield "the interval of the p99 ratio does not hold the ratio"
    if end.p99_ratio != test.p99_ratio:
        yield "the p99 ratio that is printed is not that of the load test"


def _same_share(told: float, made: float) -> bool:
    return math.isclose(told, made, rel_tol=SAME, abs_tol=SAME)


def _holds(ci: Interval, ratio: float) -> bool:
    """Whether an interval is one of a ratio, and holds it."""
    return 0 < ci[0] <= ratio <= ci[1]


def _of_blocks(pairs: Sequence[Pair], blocks: Sequence[Block]) -> Iterator[str]:
    """Hold every pair to the blocks that it was made from."""
    rates = {
        (block.launch, block.pair, block.arm): block.rate
        for block in blocks
        if block.measure == "work" and block.void is None
    }
    for pair in pairs:
        old = rates.get((pair.launch, pair.pair, "baseline"))
        new = rates.get((pair.launch, pair.pair, "candidate"))
        name = f"pair {pair.launch}.{pair.pair}"
        if not old or not new:
            yield f"the blocks of {name} are not there"
        elif not math.isclose(new / old, pair.throughput_ratio, rel_tol=SAME):
            yield f"{name} says {pair.throughput_ratio:.6g}, its blocks {new / old:.6g}"
