"""The report of a run: one HTML file that needs nothing but a browser.

Its tables are those of a pull request's body (`bot.render.measured`, `bot.render.surroundings`).
No script, no font, no request to anywhere: a content security policy in the page says so too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from bot.render import again, agents, measured, numbers, surroundings, trial
from bot.render.agents import Written
from bot.render.content import Facts, Line, Span, Table, code, theirs, verdict, words
from bot.render.context import replicas_of_run
from bot.render.text import code_spans, one_line, visible

if TYPE_CHECKING:
    from layers.evidence import Block, Iteration, OnTop, RunReport

MOST_BLOCKS = 400  # rows; the journal holds all
MOST_HOTSPOTS = 20  # of a candidate


@dataclass(frozen=True, slots=True)
class Change:
    """The evidence of one iteration, as the page shows it."""

    n: int
    accepted: bool
    summary: Line
    by: Line  # who wrote it, and where the page says how; empty for a card's rewrite
    why: str
    expected: Line
    explanation: str
    places: Sequence[Line]
    notes: Sequence[Line]  # what a reviewer should know
    tried: Facts  # how it was tried, and what it took
    committed: Line
    figures: Table | None  # of a confirmed gain
    tables: Sequence[Table]
    written: Written | None
    folded: Sequence[Table]  # raw data, collapsed


def render(
    report: RunReport,
    blocks: Mapping[int, Sequence[Block]] | None = None,
    plots: Mapping[str, str] | None = None,
    links: Mapping[int, str] | None = None,
) -> str:
    """Return the report as HTML.

    `blocks` holds the measured blocks by iteration, `plots` inline SVG by name as
    `bot.render.plots.of_run` makes it: it is put into the page as it is. `links` says, by number
    of the pull request, where its body is, relative to the page.
    """
    detailed = [iteration for iteration in report.iterations if _has_details(iteration)]
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            run=report,
            plots=plots or {},
            pull_requests=surroundings.pull_requests(report.pull_requests, links or {}),
            tried=surroundings.tried(report.iterations, {iteration.n for iteration in detailed}),
            on_top=surroundings.on_top(report.on_top),
            agents=agents.of_run(report),
            profile=_profile(report),
            noise=_noise(report),
            changes=[_change(each, report, (blocks or {}).get(each.n, ())) for each in detailed],
            looks_mean=_looks_mean(report),
            refused=surroundings.refused(report),
            known=surroundings.facts(
                report.environment, report.stack, report.seed, run_id=report.run_id
            ),
            again=_again(report),
            peak=replicas_of_run(report),
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bot.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("setting", "times", "per_second", "duration", "short"):
        environment.filters[name] = getattr(numbers, name)
    environment.filters.update(line=one_line, prose=_prose)
    environment.globals.update(between=numbers.between, how_it_was_written=agents.WRITTEN)
    environment.globals.update(notes=trial.NOTES, how_it_was_tried=trial.HEADING)
    return environment


def _has_details(iteration: Iteration) -> bool:
    measured_of_it = iteration.gates or iteration.equivalence or iteration.looks or iteration.pairs
    told_of_it = iteration.story is not None or iteration.hypothesis.contract is not None
    return bool(measured_of_it) or told_of_it


def _profile(report: RunReport) -> list[Table]:
    record = report.profile
    if record is None:
        return []
    floor = [surroundings.floor(record.floor)] if record.floor else []
    return [
        *floor,
        surroundings.hotspots(record, "before the first change"),
        surroundings.by_phase(record),
    ]


def _noise(report: RunReport) -> Table | None:
    return surroundings.noise_floor(report.noise, void=report.blocks_void) if report.noise else None


def _looks_mean(report: RunReport) -> Line:
    """Explain the tables of looks once for all of them; empty where there are none."""
    looked = any(iteration.looks for iteration in report.iterations)
    return measured.looks_mean(measured.RUN_RATE) if looked else ()


def _change(iteration: Iteration, report: RunReport, blocks: Sequence[Block]) -> Change:
    on_top: dict[int, OnTop] = {found.n: found for found in report.on_top}
    gain = measured.gain(iteration, report.noise, on_top=on_top.get(iteration.n))
    written = agents.of_iteration(iteration)
    title = theirs(iteration.hypothesis.title)
    return Change(
        iteration.n,
        accepted=iteration.verdict == "accepted",
        summary=(words(f"{iteration.n}. "), title, words(" "), verdict(iteration.verdict)),
        by=_by(iteration) if written else (),
        why=iteration.hypothesis.why,
        expected=measured.expected(iteration.hypothesis),
        explanation=iteration.explanation,
        places=measured.places(iteration),
        notes=trial.notes(iteration.warnings),
        tried=trial.facts(iteration, blocks),
        committed=_committed(iteration),
        figures=gain if iteration.end_to_end else None,
        tables=(
            measured.gates(iteration.gates),
            measured.equivalence(iteration),
            gain,
            measured.looks(iteration),
            measured.load_test(iteration),
        ),
        written=written,
        folded=(
            *_profiled(iteration),
            measured.pairs(iteration),
            measured.blocks(blocks, MOST_BLOCKS),
        ),
    )


def _by(iteration: Iteration) -> Line:
    there = Span("words", "how, and on what claim", f"#w{iteration.n}")
    return words("Written by "), code(iteration.hypothesis.proposer, 80), words(": "), there


def _profiled(iteration: Iteration) -> tuple[Table, ...]:
    """Return where the time went with the change, where its signs were looked for."""
    if iteration.profile is None:
        return ()
    spots = surroundings.hotspots(iteration.profile, "with the change", MOST_HOTSPOTS)
    return (replace(spots, title="Where the time went with the change"),)


def _committed(iteration: Iteration) -> Line:
    """Say which commit holds the change, on which one and on which branch; empty for none."""
    if not iteration.commit:
        return ()
    line = [words("Commit "), code(numbers.short(iteration.commit))]
    if iteration.base_commit:
        line += [words(" on "), code(numbers.short(iteration.base_commit))]
    if iteration.branch:
        line += [words(", branch "), code(iteration.branch)]
    return (*line, words("."))


def _again(report: RunReport) -> str:
    """Return the commands that run it again on the same commit, with the same seed and options."""
    commit = shlex.quote(one_line(report.stack.commit, 64))
    return "\n".join([f"git checkout {commit}", *again.line(report.reproduce)])


def _prose(text: str) -> Markup:
    """Return paragraphs and lists with their code spans as HTML; everything else is escaped."""
    paragraphs = re.split(r"\n\s*\n", visible(text).strip())
    return Markup("\n").join(map(_paragraph, paragraphs))


def _paragraph(paragraph: str) -> Markup:
    lines = paragraph.split("\n")
    if all(line.startswith("- ") for line in lines):
        items = (Markup("<li>{}</li>").format(_line(line[2:])) for line in lines)
        return Markup("<ul>{}</ul>").format(Markup("\n").join(items))
    return Markup("<p>{}</p>").format(Markup("<br>\n").join(map(_line, lines)))


def _line(line: str) -> Markup:
    parts = (
        Markup("<code>{}</code>").format(part) if is_code else escape(part)
        for part, is_code in code_spans(line)
    )
    return Markup("").join(parts)
