"""The first half of a pull request body, as markdown: the case that it makes.

Its tables are those of `bot.render.measured`. A section is an empty string where nothing was
measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.render import agents, as_markdown, measured, numbers, surroundings, text
from bot.render.markdown import details
from bot.render.text import code, inline
from layers.base import ChangeClass

if TYPE_CHECKING:
    from layers.evidence import EvidenceFile, Iteration

MOST_HOTSPOTS = 8
MOST_QUOTED = 240  # characters of what one step of a story said
CLASSES = {
    "exact": "outputs must be equal bit for bit",
    "reorder": "outputs may move by floating-point reordering, within the stated limits",
    "approximate": "outputs may move; the business metric must not be worse",
    "config": "no code changes; outputs held to those of the unmodified stack",
}
_KEPT = "Transcripts, without secrets, lie in the results of the run."


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
    if agents.of_iteration(iteration) is not None:
        proposer = code(iteration.hypothesis.proposer, agents.MOST_NAME)
        lines.append(
            f"Written by {proposer}, no rule of a card. It measured and decided nothing; what it "
            "claimed beforehand, and how it came about, stands below."
        )
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
        parts += [as_markdown.table(surroundings.floor(record.floor))] if record.floor else []
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


def written(evidence: EvidenceFile) -> str:
    """Give what an agent claimed, the signs that were looked for and the cost; empty for a card."""
    found = agents.of_iteration(evidence.iteration)
    if found is None:
        return ""
    parts = (as_markdown.facts(found.facts), as_markdown.table(found.signs))
    return "\n\n".join(part for part in parts if part)


def story(evidence: EvidenceFile) -> str:
    """Give an agent's story step by step, and what was seen and refused meanwhile, collapsed."""
    found = agents.of_iteration(evidence.iteration)
    if found is None:
        return ""
    parts = []
    if found.chapters:
        told = as_markdown.story(found.chapters, MOST_QUOTED)
        parts.append(details(f"Step by step ({len(found.chapters)})", f"{told}\n\n{_KEPT}"))
    parts.append(as_markdown.folded(found.seen))
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
