"""The second half of a pull request body, as markdown: what surrounds the case.

Replicas, other attempts, machine and versions, plots. Its tables are those of
`bot.render.surroundings`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bot.render import as_markdown, numbers, surroundings, text
from bot.render.measured import SERVED, Words
from bot.render.text import inline

if TYPE_CHECKING:
    from layers.evidence import EvidenceFile, Iteration, JudgeReport, OnTop, Peak, RunReport

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
    found = as_markdown.table(surroundings.tried(evidence.others))
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
    return as_markdown.line(surroundings.why(iteration))


def environment(
    found: EvidenceFile | JudgeReport, called: Words = SERVED, *, run_id: str = ""
) -> str:
    """List hardware, versions, pins and traffic, and how much the machine's noise is."""
    known = surroundings.facts(found.environment, found.stack, found.seed, run_id)
    floor = as_markdown.table(surroundings.noise_floor(found.noise, called)) if found.noise else ""
    return "\n\n".join(part for part in (as_markdown.facts(known), floor) if part)


def images(plots: Mapping[str, str]) -> str:
    """Embed the plots that the forge can show."""
    shown = (f"![{ALT[name]}]({text.address(plots[name])})" for name in ALT if name in plots)
    return "\n\n".join(shown)


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
    launches = numbers.counted(found.look.k, "launch", "es")
    return f"{what}: {ratio} after {launches}, {said}"
