"""The first half of a pull request body, as markdown: the case that it makes.

Its tables are those of `bot.render.measured`. A section is an empty string where nothing was
measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.render import as_markdown, measured, numbers, surroundings, text
from bot.render.text import code, inline
from layers.base import ChangeClass

if TYPE_CHECKING:
    from layers.evidence import EvidenceFile, Iteration

MOST_HOTSPOTS = 8
CLASSES = {
    "exact": "outputs must be equal bit for bit",
    "reorder": "outputs may move by floating-point reordering, within the stated limits",
    "approximate": "outputs may move; the business metric must not be worse",
    "config": "no code changes; outputs held to those of the unmodified stack",
}


def summary(evidence: EvidenceFile) -> str:
    """Say what changed: gain with interval against the noise floor, class and verdict."""
    iteration, floor = evidence.iteration, evidence.noise.work.floor_pct
    gain = iteration.end_to_end
    headline = inline(iteration.hypothesis.title)
    if gain:
        headline = (
            f"**{headline}: {numbers.times(gain.throughput_ratio)} throughput** (95 % interval "
            f"{numbers.between(gain.ci, gain.throughput_ratio)}, {gain.pairs} fresh pairs; "
            f"noise floor {numbers.points(floor)})."
        )
    kind = str(iteration.hypothesis.change_class)
    stack = f"{code(evidence.stack.name)} at {code(numbers.short(evidence.stack.commit))}"
    lines = [
        headline,
        f"Class `{kind}`: {CLASSES[kind]}; {_outputs(iteration)}. "
        f"Verdict: **{iteration.verdict}** ({code(iteration.reason)}). Stack: {stack}.",
    ]
    if iteration.base_commit and iteration.base_commit != evidence.stack.commit:
        lines.append(
            f"Measured on top of {code(numbers.short(iteration.base_commit))}, itself a change of "
            "this run: merge that one first. The baseline below is that commit."
        )
    return "\n\n".join(lines)


def why_slow(evidence: EvidenceFile) -> str:
    """Give the reason for the hypothesis and the profile that it came from."""
    hypothesis, record = evidence.iteration.hypothesis, evidence.profile
    parts = [text.prose(hypothesis.why), as_markdown.line(measured.expected(hypothesis))]
    if record:
        profiled = "on the baseline of this change"
        hotspots = surroundings.hotspots(record, profiled, MOST_HOTSPOTS)
        parts += map(as_markdown.table, (hotspots, surroundings.by_phase(record)))
    return "\n\n".join(part for part in parts if part)


def change(evidence: EvidenceFile) -> str:
    """Give the explanation, the files, the gates and the equivalence of every output."""
    iteration = evidence.iteration
    parts = [
        text.prose(iteration.explanation),
        *map(as_markdown.line, measured.places(iteration)),
        as_markdown.table(measured.gates(iteration.gates)),
        as_markdown.table(measured.equivalence(iteration)),
    ]
    return "\n\n".join(part for part in parts if part)


def _outputs(iteration: Iteration) -> str:
    """Say in a few words what was seen of the outputs."""
    rows = iteration.equivalence
    if not rows:
        return "no outputs were compared"
    requests = numbers.count(max(row.requests for row in rows))
    differing = sum(row.differing for row in rows)
    if not differing and iteration.hypothesis.change_class is ChangeClass.EXACT:
        compared = numbers.count(iteration.outputs_compared)
        return f"every output is bit-identical on {compared} answers, every timed one among them"
    if not differing:
        return f"every output is bit-identical on {requests} requests"
    elements = numbers.count(sum(row.elements for row in rows))
    return (
        f"{numbers.count(differing)} of {elements} elements differ in bits on {requests} requests"
    )
