"""What an accepted verdict rests on, held to itself. Pure.

A verdict that comes from elsewhere may say `accepted` and hold nothing of what that takes. What
contradicts itself here no trial of ours has left; what does not may still be false.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from layers.base import COOKBOOK, ChangeClass
from layers.evidence import (
    Block,
    EndToEnd,
    GateResult,
    Iteration,
    JudgeReport,
    LoadTest,
    Look,
    OutputRow,
    Pair,
    Verdict,
)

GATES = ("paths", "refusals", "correctness", "memory", "gain", "commit", "confirm")  # of any class
GATES_OF_AGENTS = ("plan", "activation")  # of a change that an agent wrote
GATES_OF_METRIC = ("metric", "metric under load")  # of an approximation besides
SAME = 1e-6  # relative; what JSON and a sum in another order may move


def contradictions(
    found: Iteration | JudgeReport,
    change_class: ChangeClass,
    blocks: Sequence[Block],
    slo_p99_ms: float,
) -> Iterator[str]:
    """Yield what speaks against an accepted verdict in its own record, in words.

    Nothing is yielded where every gate of its class passed and comparison, looks, fresh pairs,
    blocks and load test bear it out. The interval of the last look lies above 1; that of the fresh
    pairs need not: they are few, and only what they measured has to be a gain.
    """
    end = found.end_to_end
    if found.verdict is not Verdict.ACCEPTED or end is None:
        yield f"it claims no gain: its verdict is {found.verdict} ({found.reason})"
        return
    yield from _of_gates(found, change_class)
    yield from _of_signs(found)
    yield from _of_outputs(found.equivalence, change_class)
    yield from _of_looks(found.looks, found.pairs)
    yield from _of_gain(end, found.confirm)
    yield from _of_load(found.load_test, end, slo_p99_ms)
    yield from _of_blocks(found.confirm, blocks)


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


def _of_looks(looks: Sequence[Look], pairs: Sequence[Pair]) -> Iterator[str]:
    last = looks[-1] if looks else None
    if last is None or last.decision != "accept":
        yield "no look accepted its gain"
        return
    if last.ci[0] <= 1:
        yield f"the interval of its last look begins at {last.ci[0]:.3f}, which is no gain"
    launches: defaultdict[int, list[float]] = defaultdict(list)
    for pair in pairs:
        launches[pair.launch].append(pair.throughput_ratio)
    means = [_mean(ratios) for ratios in launches.values()]
    again = _mean([mean for mean in means if mean is not None])
    if again is None or None in means:
        yield "a throughput ratio of a pair is not positive, or no pair is there"
    elif not math.isclose(again, last.estimate, rel_tol=SAME):
        yield f"its last look says {last.estimate:.6g}, and its pairs give {again:.6g}"


def _of_gain(end: EndToEnd, confirm: Sequence[Pair]) -> Iterator[str]:
    if len(confirm) != end.pairs or end.pairs < 2:
        yield f"the gain is of {end.pairs} fresh pairs, and {len(confirm)} are there"
        return
    throughput = [pair.throughput_ratio for pair in confirm]
    yield from _of_printed("throughput", end.throughput_ratio, end.ci, throughput)
    yield from _of_printed("CPU", end.cpu_ratio, end.cpu_ci, [pair.cpu_ratio for pair in confirm])
    if end.throughput_ratio <= 1:
        yield f"its fresh pairs show no gain: {end.throughput_ratio:.3f} times"


def _of_printed(
    what: str, ratio: float, ci: tuple[float, float], values: Sequence[float]
) -> Iterator[str]:
    """Hold a printed ratio to the pairs that it was made from, and its interval to be around it."""
    again = _mean(values)
    if again is None:
        yield f"a {what} ratio of a pair is not positive"
    elif not math.isclose(again, ratio, rel_tol=SAME):
        yield f"the {what} ratio is printed as {ratio:.6g}, and its pairs give {again:.6g}"
    if not 0 < ci[0] <= ratio <= ci[1]:
        yield f"the interval of the {what} ratio does not hold the ratio"


def _of_load(test: LoadTest | None, end: EndToEnd, slo_p99_ms: float) -> Iterator[str]:
    if test is None or test.void is not None:
        yield "it is accepted without a load test that counts"
        return
    old, new = test.baseline, test.candidate
    if test.slo_p99_ms != slo_p99_ms:
        yield f"its load test is at {test.slo_p99_ms:g} ms, and the SLO is {slo_p99_ms:g} ms"
    if new.requests < 1 or new.requests != old.requests:
        yield "its load test sent the two arms other requests, or none"
    if new.errors > old.errors:
        yield "its load test has more errors than the baseline's"
    if end.p99_ratio != test.p99_ratio:
        yield "the p99 ratio that is printed is not that of the load test"


def _of_blocks(confirm: Sequence[Pair], blocks: Sequence[Block]) -> Iterator[str]:
    """Hold every fresh pair to the blocks that it was made from."""
    rates = {
        (block.launch, block.pair, block.arm): block.rate
        for block in blocks
        if block.measure == "work" and block.void is None
    }
    for pair in confirm:
        old = rates.get((pair.launch, pair.pair, "baseline"))
        new = rates.get((pair.launch, pair.pair, "candidate"))
        name = f"pair {pair.launch}.{pair.pair}"
        if not old or not new:
            yield f"the blocks of the fresh {name} are not there"
        elif not math.isclose(new / old, pair.throughput_ratio, rel_tol=SAME):
            yield f"the fresh {name} says {pair.throughput_ratio:.6g}, its blocks {new / old:.6g}"


def _mean(ratios: Sequence[float]) -> float | None:
    """Return the geometric mean, None of nothing and of what is not positive."""
    if not ratios or min(ratios) <= 0:
        return None
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
