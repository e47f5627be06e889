"""The second half of a pull request body, as markdown: what surrounds the case.

Replicas, other attempts, machine and versions, raw data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bot.render import numbers, text
from bot.render.markdown import bullets, details, table
from bot.render.text import code, inline

if TYPE_CHECKING:
    from layers.evidence import (
        Block,
        Environment,
        EvidenceFile,
        Iteration,
        Noise,
        OnTop,
        Pair,
        Peak,
        RunReport,
        StackRecord,
    )

REPLICAS = 10  # where the manifest names no peak
ALT = {
    "pairs": "Throughput ratio of every pair against the noise floor",
    "latency": "Latency percentiles of both arms against the SLO",
    "time": "Server CPU per request by process, both arms",
}


def replicas(evidence: EvidenceFile) -> str:
    """Say what the gain is in machines, rounded up from the lower end of the interval."""
    low, what = _capacity(evidence)
    if low <= 0:
        return ""
    peak = evidence.stack.peak
    today, needed = _needed(peak, low)
    where = f"At {numbers.per_second(peak.rate)} peak" if peak else f"Per {REPLICAS} replicas"
    parts = [
        f"{where}: **{today} -> {needed} replicas**. That is {today} / {numbers.number(low)}, rounded "
        f"up; {numbers.times(low)} is the lower end of the interval of {what}."
    ]
    if needed == today:
        parts.append("So the gain is headroom, not a machine.")
    parts.append(
        "It holds for replicas bound by CPU like the one measured, at the same utilisation."
    )
    if not peak:
        parts.append("The manifest names no peak (`slo.peak`), so these are not your replicas.")
    return " ".join(parts)


def replicas_of_run(report: RunReport) -> str:
    """Say in plain text what a whole run is in machines; empty without a peak or a total."""
    peak, total = report.stack.peak, report.total
    if peak is None or total is None or total.ci[0] <= 0:
        return ""
    today, needed = _needed(peak, total.ci[0])
    return (
        f"At {numbers.per_second(peak.rate)} peak: {today} -> {needed} replicas, by the lower end of "
        "the interval of the rate held at the SLO, rounded up."
    )


def _needed(peak: Peak | None, low: float) -> tuple[int, int]:
    """Return the replicas of today, and those that carry the same with `low` times the capacity."""
    today = peak.replicas if peak else REPLICAS
    return today, min(today, math.ceil(today / low - 1e-9))


def _capacity(evidence: EvidenceFile) -> tuple[float, str]:
    """Return the ratio to count replicas by, and what it is of; 0 where none was measured."""
    if evidence.total is not None:
        what = (
            "the rate held at the SLO, end of the run over start, with this change alone accepted"
        )
        return evidence.total.ci[0], what
    end = evidence.iteration.end_to_end
    return (end.ci[0] if end else 0.0), "throughput at fixed load in flight"


def tried(evidence: EvidenceFile) -> str:
    """List what else the run tried, with the verdict and its reason."""
    rows = [
        [
            str(other.n),
            str(other.layer),
            inline(other.hypothesis.title, 100),
            str(other.verdict),
            why_line(other),
        ]
        for other in evidence.others
    ]
    found = table(["#", "layer", "change", "verdict", "why"], rows, right="r") if rows else ""
    return "\n\n".join(part for part in (found, _shared(evidence.shard)) if part)


def _shared(shard: str | None) -> str:
    """Say what is elsewhere where this was one part of a run; nothing for a run by itself."""
    if shard is None:
        return ""
    return (
        f"This was shard {inline(shard)} of a run that several runners shared. The others tried other "
        "changes on the same base; their gains are not in these numbers, and are not added to them. "
        "The rate of false accepts is that of all shards together."
    )


def why_line(iteration: Iteration) -> str:
    """Return the reason code with the number or detail that goes with it, as markdown."""
    return f"{code(iteration.reason)} {inline(why_line_plain(iteration))}".rstrip()


def why_line_plain(iteration: Iteration) -> str:
    """Return the number or detail that goes with the reason code, as one line of plain text."""
    if iteration.detail:
        return text.one_line(iteration.detail, 200)
    if iteration.end_to_end:
        end = iteration.end_to_end
        return f"{numbers.times_between(end.throughput_ratio, end.ci)} throughput"
    if iteration.looks:
        look = iteration.looks[-1]
        seen = numbers.times_between(look.estimate, look.ci)
        return f"{seen} throughput, floor {numbers.percent(look.floor)}"
    return ""


def environment(
    machine: Environment, stack: StackRecord | None, noise: Noise | None, seed: int
) -> str:
    """List hardware, versions, pins, traffic and noise."""
    versions = [f"{inline(k)} {inline(v)}" for k, v in sorted(machine.packages.items())]
    lines = [
        f"{inline(machine.cpu)}, {machine.cores} cores, {numbers.number(machine.memory_gib)} GiB, "
        f"{inline(machine.kernel)}",
        f"{inline(machine.server)}, Python {inline(machine.python)}"
        + (f"; {', '.join(versions)}" if versions else ""),
    ]
    if machine.sandbox:
        lines.append(f"candidates ran in {inline(machine.sandbox, 300)}")
    if stack:
        lines += [
            f"server on {_cpus(machine.server_cpus)}, load generator on "
            f"{_cpus(machine.generator_cpus)}; seed {seed}",
            f"recorded traffic: {numbers.count(stack.requests)} requests at "
            f"{numbers.per_second(stack.recorded_rate)}"
            + (
                f", {numbers.number(stack.candidates_mean)} candidates each on average"
                if stack.candidates_mean
                else ""
            ),
        ]
    else:
        lines.append(f"seed {seed}")
    if noise:
        what = "the unmodified stack" if stack else "the reference"
        lines.append(
            f"noise of {what} against itself, throughput: "
            f"{numbers.points(noise.work.floor_pct)} over {noise.work.pairs} pairs in "
            f"{noise.work.launches} launch{'es' if noise.work.launches > 1 else ''}"
        )
    return bullets(lines)


def images(plots: Mapping[str, str]) -> str:
    """Embed the plots that the forge can show."""
    shown = (f"![{ALT[name]}]({text.address(plots[name])})" for name in ALT if name in plots)
    return "\n\n".join(shown)


def raw_pairs(looked: Sequence[Pair], fresh: Sequence[Pair]) -> str:
    """List every pair, collapsed: those of the looks, and the fresh ones."""
    kinds = [("look", looked), ("fresh", fresh)]
    rows = [
        [kind, str(p.launch), str(p.pair), f"{p.throughput_ratio:.4f}", f"{p.cpu_ratio:.4f}"]
        for kind, pairs in kinds
        for p in pairs
    ]
    head = ["kind", "launch", "pair", "throughput ratio", "CPU ratio"]
    name = f"Every pair ({len(rows)})"
    return details(name, table(head, rows, right="lrrrr")) if rows else ""


def raw_blocks(blocks: Sequence[Block]) -> str:
    """List every block, collapsed."""
    rows = [
        [
            b.measure,
            b.arm,
            f"{b.launch}.{b.pair}.{b.position}",
            numbers.count(b.completed),
            numbers.count(b.errors),
            f"{b.wall_s:.3f}",
            f"{b.rate:.3f}",
            f"{1000 * sum(b.cpu_s.values()) / b.completed:.3f}" if b.completed else numbers.ABSENT,
            f"{b.generator_cpu:.2f}",
            f"{b.neighbour_cpu:.2f}",
            code(b.void or ""),
        ]
        for b in blocks
    ]
    head = ["measure", "arm", "launch.pair.place", "completed", "errors", "wall s", "req/s"]
    head += ["CPU ms / request", "generator cores", "neighbour cores", "void"]
    name = f"Every block ({len(rows)})"
    return details(name, table(head, rows, right="llrrrrrrrrl")) if rows else ""


def _cpus(cpus: list[int]) -> str:
    return f"CPU {', '.join(map(str, cpus))}" if cpus else "any CPU"


def on_top_line(found: OnTop) -> str:
    """Say what an accepted change gains on top of the others, in one line of plain text."""
    others = ", ".join(map(str, found.others))
    what = f"change {found.n} on top of {others}" if others else f"change {found.n} alone"
    said = {
        "pays": "pays",
        "dropped": "no longer pays, taken out",
        "inconclusive": "it cannot be told whether it still pays, so it stays for what it gained "
        "when it was accepted",
        "not_separable": f"cannot be taken out alone ({found.reason})",
        "not_measured": f"not measured ({found.reason})",
    }[found.verdict]
    if found.look is None:
        return f"{what}: {said}"
    ratio = numbers.times_between(found.look.estimate, found.look.ci)
    launches = f"{found.look.k} launch{'es' if found.look.k != 1 else ''}"
    return f"{what}: {ratio} after {launches}, {said}"
