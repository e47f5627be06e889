"""The body of a pull request, from its evidence alone.

Sections in the order a reviewer asks: what it brings, what was slow, what changed and why it is
right, how an agent wrote it where one did, how sure the gain is, what the SLO says, what it means
in replicas, what else was tried, on what machine, how to run it again, and the raw data,
collapsed. Before all of it stands what a reviewer should know, where there is anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bot.render import (
    again,
    agents,
    as_markdown,
    context,
    measured,
    numbers,
    sections,
    surroundings,
    text,
    trial,
)
from bot.render.again import Kept
from bot.render.body import LIMIT, Ending, Section, fit
from bot.render.markdown import bullets

if TYPE_CHECKING:
    from layers.evidence import EvidenceFile

TITLE_LIMIT = 120
SHED_FIRST = (
    "blocks",
    "pairs",
    "story",
    "plots",
    "tried",
    "environment",
    "why_slow",
    "replicas",
    "looks",
    "trial",
)
_FOOTER = (
    "Opened by `fvec`, run {run}. {owner} It does not merge, and it pushes to no branch but its "
    "own. Every number above is in `evidence.json`."
)


def title(evidence: EvidenceFile) -> str:
    """Return the title: layer, change and, where it was measured, the gain."""
    iteration = evidence.iteration
    gain = iteration.end_to_end
    suffix = f" ({numbers.times(gain.throughput_ratio)} throughput)" if gain else ""
    subject = f"{iteration.layer}: {iteration.hypothesis.title}"
    return text.title(subject, TITLE_LIMIT - len(suffix)) + suffix


def render(
    evidence: EvidenceFile,
    plots: Mapping[str, str] | None = None,
    *,
    kept: Kept | None = None,
    limit: int = LIMIT,
) -> str:
    """Return the body in GitHub-flavoured markdown, at most `limit` characters.

    `plots` maps a plot's name (`pairs`, `latency`, `time`) to the address that the body may show
    it by. `kept` says where evidence and patch are fetched from; without it they lie
    beside the body. A body over the limit sheds sections in the order of `SHED_FIRST` and says so.
    """
    ending = Ending(_footer(evidence), "evidence.json", SHED_FIRST)
    return fit(_sections(evidence, plots or {}, kept), ending, limit)


def _sections(evidence: EvidenceFile, plots: Mapping[str, str], kept: Kept | None) -> list[Section]:
    iteration, table = evidence.iteration, as_markdown.table
    gain = measured.gain(iteration, evidence.noise, on_top=evidence.on_top)
    looks = measured.looks(iteration, measured.looks_mean(measured.RUN_RATE))
    where = context.environment(evidence, run_id=evidence.run_id)
    tried = as_markdown.facts(trial.facts(iteration, evidence.blocks))
    notes = bullets(map(as_markdown.line, trial.notes(iteration.warnings)))
    return [
        Section("summary", "", sections.summary(evidence)),
        Section("notes", trial.NOTES, notes),
        Section("why_slow", "What was slow, and how we know", sections.why_slow(evidence)),
        Section("change", "What changed, and why it is right", sections.change(evidence)),
        Section("written", agents.WRITTEN, sections.written(evidence)),
        Section("story", "", sections.story(evidence)),
        Section("gain", measured.GAIN, table(gain)),
        Section("looks", "", table(looks)),
        Section("plots", "", context.images(plots)),
        Section("load_test", measured.LOAD_TEST, table(measured.load_test(iteration))),
        Section("trial", trial.HEADING, tried),
        Section("replicas", "What it means in replicas", context.replicas(evidence)),
        Section("tried", "What else this run tried", context.tried(evidence)),
        Section("environment", surroundings.MACHINE, where),
        Section("reproduce", "Run it again", again.evidence(evidence, kept)),
        Section("pairs", "", as_markdown.folded(measured.pairs(iteration))),
        Section("blocks", "", as_markdown.folded(measured.blocks(evidence.blocks))),
    ]


def _footer(evidence: EvidenceFile) -> str:
    owner = evidence.stack.owner
    who = f"{text.inline(owner, 100)} answers for it." if owner else "No owner is named."
    return _FOOTER.format(run=text.code(evidence.run_id, 100), owner=who)
