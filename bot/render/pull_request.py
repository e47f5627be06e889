"""The body of a pull request, from its evidence alone.

Sections in the order a reviewer asks: what it brings, what was slow, what changed and why it is
right, how sure the gain is, what the SLO says, what it means in replicas, what else was tried,
on what machine, how to run it again, and the raw data, collapsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.render import context, numbers, sections, text

if TYPE_CHECKING:
    from layers.evidence import EvidenceFile

LIMIT = 60_000  # characters; GitHub refuses a body of more than 65,536
TITLE_LIMIT = 120
SHED_FIRST = ("blocks", "pairs", "plots", "tried", "environment", "why_slow", "replicas", "looks")
_SHED = "Left out for its size: {names}. All of it is in `evidence.json`."
_FOOTER = (
    "Opened by `fvec`, run `{run}`. {owner} It does not merge, and it pushes to no branch but its "
    "own. Every number above is in `evidence.json`."
)


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the body; `name` is its key in `SHED_FIRST`."""

    name: str
    heading: str
    body: str

    def __str__(self) -> str:
        """Return the section with its heading, if it has one."""
        return f"## {self.heading}\n\n{self.body}" if self.heading else self.body


def title(evidence: EvidenceFile) -> str:
    """Return the title: layer, change and, where it was measured, the gain."""
    iteration = evidence.iteration
    gain = iteration.end_to_end
    suffix = f" ({numbers.times(gain.throughput_ratio)} throughput)" if gain else ""
    subject = f"{iteration.layer}: {iteration.hypothesis.title}"
    return text.title(subject, TITLE_LIMIT - len(suffix)) + suffix


def render(evidence: EvidenceFile, plots: Mapping[str, str] | None = None) -> str:
    """Return the body in GitHub-flavoured markdown, at most `LIMIT` characters.

    `plots` maps a plot's name (`pairs`, `latency`, `time`) to the address that the body may show
    it by. A body over the limit sheds sections in the order of `SHED_FIRST` and says so.
    """
    return _fit(_sections(evidence, plots or {}), _footer(evidence))


def _sections(evidence: EvidenceFile, plots: Mapping[str, str]) -> list[Section]:
    candidates = [
        Section("summary", "", sections.summary(evidence)),
        Section("why_slow", "What was slow, and how we know", sections.why_slow(evidence)),
        Section("change", "What changed, and why it is right", sections.change(evidence)),
        Section("gain", "How much faster, and how sure", sections.gain(evidence)),
        Section("looks", "", sections.looks(evidence)),
        Section("plots", "", context.images(plots)),
        Section("load_test", "Load test at the SLO", sections.load_test(evidence)),
        Section("replicas", "What it means in replicas", context.replicas(evidence)),
        Section("tried", "What else this run tried", context.tried(evidence)),
        Section("environment", "Where it was measured", context.environment(evidence)),
        Section("reproduce", "Run it again", context.reproduce(evidence)),
        Section("pairs", "", context.raw_pairs(evidence)),
        Section("blocks", "", context.raw_blocks(evidence)),
    ]
    return [section for section in candidates if section.body]


def _fit(kept: Sequence[Section], footer: str) -> str:
    """Join sections, shedding by name until the body is within the limit."""
    shed: list[str] = []
    body = _join(kept, shed, footer)
    for name in SHED_FIRST:
        if len(body) <= LIMIT:
            return body
        if any(section.name == name for section in kept):
            kept = [section for section in kept if section.name != name]
            shed.append(name)
            body = _join(kept, shed, footer)
    if len(body) <= LIMIT:
        return body
    # What is left is the summary, the explanation and the tables that decide: only absurd texts
    # get here, so the summary and the pointer to the evidence are what a reader can use.
    summary = [section for section in kept if section.name in {"summary", "reproduce"}]
    return _join(summary, [*shed, "change", "gain", "load_test"], footer)[:LIMIT]


def _join(kept: Sequence[Section], shed: Sequence[str], footer: str) -> str:
    names = ", ".join(name.replace("_", " ") for name in shed)
    note = [_SHED.format(names=names)] if shed else []
    return "\n\n".join([*map(str, kept), *note, "---", footer]) + "\n"


def _footer(evidence: EvidenceFile) -> str:
    owner = evidence.stack.owner
    who = f"{text.inline(owner, 100)} answers for it." if owner else "No owner is named."
    return _FOOTER.format(run=text.one_line(evidence.run_id, 100).replace("`", ""), owner=who)
