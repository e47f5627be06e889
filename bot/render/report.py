"""The report of a run: one HTML file that needs nothing but a browser.

No script, no font, no request to anywhere: a content security policy in the page says so too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from bot.render import numbers, phases
from bot.render.context import replicas_of_run, why_line_plain
from bot.render.text import code_spans, one_line, visible

if TYPE_CHECKING:
    from layers.evidence import Block, Iteration, RunReport

MOST_BLOCKS = 400  # rows; the journal holds all


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
    page = _environment().get_template("report.html.j2")
    return page.render(
        run=report,
        blocks={n: list(rows)[:MOST_BLOCKS] for n, rows in (blocks or {}).items()},
        plots=plots or {},
        links=links or {},
        refused=[i for i in report.iterations if i.verdict != "accepted"],
        tried=[i for i in report.iterations if _has_details(i)],
        again=_again(report),
        phases=phases.rows(report.profile) if report.profile else [],
        phases_head=phases.HEAD,
        phases_note=phases.NOTE,
        peak=replicas_of_run(report),
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bot.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "count", "setting", "times", "percent", "points", "ms", "per_second"):
        environment.filters[name] = getattr(numbers, name)
    environment.filters.update(
        duration=numbers.duration, short=numbers.short, line=one_line, prose=_prose
    )
    environment.globals.update(between=numbers.between, why=why_line_plain, absent=numbers.ABSENT)
    return environment


def _has_details(iteration: Iteration) -> bool:
    return bool(iteration.gates or iteration.equivalence or iteration.looks or iteration.pairs)


def _again(report: RunReport) -> str:
    """Return the commands that run it again on the same commit with the same seed."""
    commit = shlex.quote(one_line(report.stack.commit, 64))
    shard = f" --shard {report.shard}" if report.shard else ""
    return f"git checkout {commit}\nfvec run . --seed {report.seed}{shard}"


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
