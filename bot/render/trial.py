"""How a change was tried and what it took, a fact a line: what no table of ratios says. Pure.

A fact is left out where the evidence does not hold it: in documents older than its field, and where
a trial ended before it was known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.render import numbers
from bot.render.content import Facts, Line, Span, code, strong, theirs, words
from layers.evidence import GateResult

if TYPE_CHECKING:
    from layers.evidence import (
        Block,
        Costs,
        Iteration,
        JudgeReport,
        TrafficRecord,
        VoidPair,
    )

HEADING = "How it was tried, and what it took"
NOTES = "Notes"
# Kinds of requests that were sent one at a time, besides those of changed ones: the engine's names.
RECORDED, RENEWED = "recorded", "renewed"
AS_RECORDED = (RECORDED, "as recorded")  # where timed requests were not made new
BRIEF = ("requests", "pairs", "other arm", "CPU")  # what a terminal shows
MOST_KINDS = 40  # there are 30
MOST_REASONS = 6
MOST_NAME = 60  # characters of a kind, and of why some were not sent
MOST_RENEWED = 160
MOST_NOTES = 20
MOST_NOTE = 600  # characters
_WHOSE: Sequence[tuple[tuple[str, ...], str]] = (  # arms of a void pair
    (("baseline",), "the baseline's block"),
    (("candidate",), "the candidate's"),
    (("baseline", "candidate"), "both"),
)


def facts(found: Iteration | JudgeReport, blocks: Sequence[Block]) -> Facts:
    """Return what is known of a trial by name; `blocks` are those that were measured for it."""
    traffic, costs = found.traffic, found.costs
    known: list[tuple[str, Line]] = [("requests", requests(found))]
    if traffic is not None:
        known += [
            ("changed", kinds(traffic)),
            ("not sent", not_sent(traffic)),
            ("timed", renewed(traffic)),
        ]
    known += [("pairs", pairs(found)), ("other arm", other_arm(blocks)), ("CPU", cpu(found))]
    if costs is not None:
        known += [("start", start(costs)), ("memory", memory(costs))]
    return tuple((name, line) for name, line in known if line)


def notes(warnings: Sequence[str]) -> list[Line]:
    """Return what a reviewer should know, a line each."""
    shown: list[Line] = [(theirs(line, MOST_NOTE),) for line in warnings[:MOST_NOTES]]
    more = len(warnings) - MOST_NOTES
    return [*shown, (words(f"and {more} more, in the data"),)] if more > 0 else shown


def requests(found: Iteration | JudgeReport) -> Line:
    """Count the requests that both arms were sent one at a time, and those that were refused."""
    if found.traffic is None or not found.traffic.kinds:
        return ()
    sent = {name: seen.answered + seen.refused for name, seen in found.traffic.kinds.items()}
    changed = [count for name, count in sent.items() if name not in (RECORDED, RENEWED)]
    parts = [
        f"{numbers.count(sent[name])} {told}"
        for name, told in ((RECORDED, "as recorded"), (RENEWED, "made new"))
        if name in sent
    ]
    if changed:
        parts.append(
            f"{numbers.count(sum(changed))} changed in {numbers.counted(len(changed), 'kind')}"
        )
    told = f"one at a time to both arms: {', '.join(parts)}; {_refusals(found)}"
    return (words(told),)


def _refusals(found: Iteration | JudgeReport) -> str:
    """Say how many requests were refused; that both arms did so alike only where a gate says it."""
    kinds_of = found.traffic.kinds if found.traffic else {}
    refused = [seen.refused for seen in kinds_of.values() if seen.refused]
    if not refused:
        return "none was refused"
    who = "both arms alike" if _result(found, "refusals") is GateResult.PASS else "an arm"
    return f"{numbers.count(sum(refused))} of them, of {numbers.counted(len(refused), 'kind')}, refused by {who}"


def kinds(traffic: TrafficRecord) -> Line:
    """Name the kinds of changed requests with how many were sent, and how many of them refused."""
    named = []
    for name, seen in traffic.kinds.items():
        if name not in (RECORDED, RENEWED):
            refused = f" ({numbers.count(seen.refused)} refused)" if seen.refused else ""
            told = f" {numbers.count(seen.answered + seen.refused)}{refused}"
            named.append((theirs(name, MOST_NAME), told))
    return _listed(named, MOST_KINDS)


def not_sent(traffic: TrafficRecord) -> Line:
    """Count the kinds of changes that were not sent, by reason."""
    why = Counter(line.rpartition(": ")[2] for line in traffic.not_tried)
    line: list[Span] = []
    for reason, count in why.most_common(MOST_REASONS):
        line += [
            words(f"{'; ' if line else ''}{numbers.counted(count, 'change')}: "),
            theirs(reason, MOST_NAME),
        ]
    rest = len(why) - MOST_REASONS
    return (*line, words(f"; {numbers.counted(rest, 'more reason')}")) if rest > 0 else tuple(line)


def renewed(traffic: TrafficRecord) -> Line:
    """Say how timed requests were made new, and which share of their values was not."""
    if traffic.renewed in AS_RECORDED:
        return (words("as recorded: none was made new"),)
    line = (words("each made new: "), theirs(traffic.renewed, MOST_RENEWED))
    if not traffic.elements:
        return line
    share = traffic.kept / traffic.elements
    kept = f"{numbers.percent(share)} of their values are" if share else "none of their values is"
    return (*line, words(f"; {kept} of the recording"))


def pairs(found: Iteration | JudgeReport) -> Line:
    """Count the pairs of blocks that decided, and those that were void; empty in older evidence."""
    counted, void = len(found.pairs) + len(found.confirm), found.voids
    known = bool(void) or found.costs is not None or _result(found, "voids") is not None
    if not known or not (counted or void):
        return ()
    head = words(f"{numbers.count(counted)} counted, {numbers.count(len(void))} void")
    return (head, *_voids(void), *_sided(found))


def _voids(void: Sequence[VoidPair]) -> Line:
    """Say why pairs were void, whose blocks were, and what they would have said."""
    if not void:
        return ()
    reasons = Counter(each.reason for each in void).most_common()
    named = [(code(reason, MOST_NAME), f" {numbers.count(count)}") for reason, count in reasons]
    whose: Counter[tuple[str, ...]] = Counter(tuple(sorted(set(each.arms))) for each in void)
    by_arm = ", ".join(f"{told} in {whose[arms]}" for arms, told in _WHOSE if whose[arms])
    told = f"; {by_arm})" if by_arm else ")"
    line = (words(" ("), *_listed(named, MOST_REASONS))
    ratios = [each.throughput_ratio for each in void if each.throughput_ratio is not None]
    if not ratios:
        return (*line, words(told))
    low, high = numbers.times(min(ratios)), numbers.times(max(ratios))
    said = low if len(ratios) == 1 else f"{low} to {high}"
    return (*line, words(f"{told}, by themselves, at fixed load, {said} throughput"))


def _sided(found: Iteration | JudgeReport) -> Line:
    """Say what the gates found of whom the void pairs and the load of others favour."""
    named = (("voids", "the void ones"), ("neighbours", "the load of others"))
    even = []
    for gate, who in named:
        result = _result(found, gate)
        if result is GateResult.PASS and (found.voids or gate != "voids"):
            even.append(who)
        elif result not in (None, GateResult.PASS):
            may = strong(f"{who} may favour the change")
            return (words("; "), may, words(": see gate "), code(gate))
    told = f"; no sure sign that {' or '.join(even)} favoured the change"
    return (words(told),) if even else ()


def other_arm(blocks: Sequence[Block]) -> Line:
    """Say whether the arm that was not measured was held still; empty where there was none."""
    known = [block for block in blocks if block.idle_frozen is not None]
    if not known:
        return ()
    moved = [block for block in known if not block.idle_frozen]
    if not moved:
        return (
            words(
                f"held still while one was measured, in each of {numbers.counted(len(known), 'block')}"
            ),
        )
    line = (strong(f"not held still in {len(moved)} of {numbers.counted(len(known), 'block')}"),)
    used = [block.idle_cpu for block in moved if block.idle_cpu is not None]
    if not used:
        return line
    return (*line, words(f", in which it used at most {numbers.number(max(used))} cores"))


def cpu(found: Iteration | JudgeReport) -> Line:
    """Give the CPU per request of the whole candidate as a share of the baseline's."""
    costs = found.costs
    if costs is None or costs.cpu_ratio is None or costs.cpu_ci is None:
        return ()
    low, high = costs.cpu_ci
    if min(costs.cpu_ratio, low, high) <= 0:
        return ()
    share = 1 / costs.cpu_ratio
    launches = len({pair.launch for pair in (*found.pairs, *found.confirm)})
    over = f", over {numbers.counted(launches, 'launch', 'es')}" if launches else ""
    interval = numbers.between((1 / high, 1 / low), share)
    told = (
        f"{numbers.number(share)} of the baseline's per request (95 % interval {interval}), with "
        f"all processes of an arm{over}"
    )
    return (words(told),)


def start(costs: Costs) -> Line:
    """Give the time from an arm's start to its first answer."""
    new, old = (
        f"{numbers.number(arm.ready_s)}{numbers.NO_BREAK}s"
        for arm in (costs.candidate, costs.baseline)
    )
    over = (
        f"medians of {numbers.counted(costs.launches, 'launch', 'es')}"
        if costs.launches > 1
        else "1 launch"
    )
    return (words(f"{new} to the first answer, {old} before ({over})"),)


def memory(costs: Costs) -> Line:
    """Give the memory of both arms before the load, after it, and at most."""
    new, old = costs.candidate, costs.baseline
    rows = (
        ("before the load", new.memory_begin_mib, old.memory_begin_mib),
        ("after it", new.memory_end_mib, old.memory_end_mib),
        ("at most, with files that were read,", new.memory_peak_mib, old.memory_peak_mib),
    )
    told = [
        f"{when} {_mib(after)} (baseline {_mib(before)})"
        for when, after, before in rows
        if after is not None and before is not None
    ]
    return (words(", ".join(told)),) if told else ()


def _mib(size: float) -> str:
    return f"{numbers.number(size)}{numbers.NO_BREAK}MiB"


def _listed(named: Sequence[tuple[Span, str]], most: int) -> Line:
    """Join the first `most` names, each with our words behind it, and count the others."""
    line: list[Span] = []
    for span, told in named[:most]:
        line += [words(", "), span, words(told)] if line else [span, words(told)]
    more = len(named) - most
    return (*line, words(f" and {more} more")) if more > 0 else tuple(line)


def _result(found: Iteration | JudgeReport, name: str) -> GateResult | None:
    """Return what a gate answered, the last time that it was asked; None where it was not."""
    answers = [gate.result for gate in found.gates if gate.name == name]
    return answers[-1] if answers else None
