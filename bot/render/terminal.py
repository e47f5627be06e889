"""Reports as tables for a terminal; untrusted text is never read as rich markup."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bot.render import agents, content, numbers, phases
from bot.render.context import on_top_line
from bot.render.surroundings import why_plain
from bot.render.text import one_line

if TYPE_CHECKING:
    from layers.evidence import (
        Iteration,
        MeasureReport,
        Noise,
        NoiseFloor,
        PlanReport,
        ProfileRecord,
        RunReport,
    )

STYLES = {"accepted": "green", "rejected": "red", "failed": "red", "inconclusive": "yellow"}


def run(report: RunReport, files: Mapping[str, Path]) -> RenderableType:
    """Show the conclusion, what was tried, and where pull requests and report are."""
    parts: list[RenderableType] = [Text(one_line(report.conclusion), style="bold")]
    if report.total:
        total = report.total
        held = numbers.times_between(total.throughput_ratio, total.ci)
        slo = numbers.setting(total.slo_p99_ms)
        parts.append(Text(f"sustained rate at p99 <= {slo} ms, end over start: {held}"))
        if total.p99_ratio is not None:
            p99 = numbers.times(total.p99_ratio)
            if total.p99_ci:
                p99 = numbers.times_between(total.p99_ratio, total.p99_ci)
            parts.append(
                Text(f"p99 at a rate that the start surely sustains, start over end: {p99}")
            )
    if report.iterations:
        head = ["#", "layer", "change", "verdict", "why"]
        parts.append(rich_table(head, map(_iteration, report.iterations), right={0}))
    parts += [Text(on_top_line(found)) for found in report.on_top]
    parts += [Text(f"not tried: {one_line(line)}") for line in report.not_tried]
    parts += _agents(report)
    for pull in report.pull_requests:
        parts.append(Text(f"pull request {pull.number}: {one_line(pull.title)}"))
        parts.append(_indented(pull.body))
    if report.knowledge.branch:
        changed = ", ".join(report.knowledge.cards_changed)
        parts.append(Text(one_line(f"knowledge: branch {report.knowledge.branch}: {changed}")))
    parts.append(Text(f"report: {files['report']}"))
    return Group(*parts)


def _agents(report: RunReport) -> list[RenderableType]:
    """Say how each story of an agent went, one line each, then what every proposer yielded."""
    work = agents.of_run(report)
    if work is None:
        return []
    lines = [*work.tried, *(head for head, _ in work.without), work.ended]
    parts: list[RenderableType] = [Text(content.plain(line)) for line in lines if line]
    if work.yields.rows:
        parts.append(_table(work.yields))
    return parts


def _table(shown: content.Table) -> RenderableType:
    """Return a table that every rendering shows."""
    right = {at for at, column in enumerate(shown.head) if column.kind == "right"}
    rows = ([Text(content.plain(cell)) for cell in cells] for cells in shown.rows)
    return rich_table([column.name for column in shown.head], rows, right=right)


def plan(report: PlanReport) -> RenderableType:
    """Show the hypotheses, best first, with share, expected gain, score and why not."""
    head = [
        "layer",
        "model",
        "change",
        "class",
        "share",
        "gain",
        "score",
        "card",
        "skipped because",
    ]
    ranked = sorted(report.hypotheses, key=lambda h: (h.skip is not None, -h.hypothesis.score))
    rows = [
        [
            Text(str(row.layer)),
            Text(one_line(row.hypothesis.model)),
            Text(one_line(row.hypothesis.title)),
            Text(str(row.hypothesis.change_class)),
            Text(numbers.percent(row.hypothesis.share)),
            Text(numbers.percent(row.hypothesis.expected_gain)),
            Text(numbers.percent(row.hypothesis.score)),
            Text(one_line(row.card)),
            Text(one_line(row.skip or "")),
        ]
        for row in ranked
    ]
    profile = report.profile
    floor = profile.floor
    reason = [] if floor is None else [Text(one_line(floor.reason))]
    if not rows and floor is not None and floor.action == "stop":
        near = Text("no hypothesis: a request is near its floor, no profiler was opened", "bold")
        return Group(near, *reason)
    source = (
        f"{one_line(profile.tool)}: {numbers.number(profile.cpu_s)} CPU seconds over "
        f"{numbers.count(profile.requests)} requests; score = share of server CPU x gain of it"
    )
    split = [*reason, *_phases(profile)]
    if not rows:
        lead = Text("no hypothesis: no card matches this stack", style="bold")
        return Group(lead, Text(source), *split)
    return Group(rich_table(head, rows, right={4, 5, 6}), Text(source, style="dim"), *split)


def _phases(profile: ProfileRecord) -> list[RenderableType]:
    """Show what part of each model's time receives, computes and assembles."""
    rows = [list(map(Text, map(one_line, row))) for row in phases.rows(profile)]
    if not rows:
        return []
    return [rich_table(phases.HEAD, rows, right={1, 2, 3, 4}), Text(phases.NOTE, style="dim")]


def measure(report: MeasureReport) -> RenderableType:
    """Show the noise floor of each measure, and what gain it can resolve in how long."""
    work = report.noise.work
    lead = (
        f"noise floor of throughput: {numbers.points(work.floor_pct)}; after one launch a smaller "
        "gain cannot be told from nothing"
    )
    head = ["measure", "floor", "SD of pairs", "SD of launches", "seen", "pairs", "launches"]
    parts: list[RenderableType] = [
        Text(lead, style="bold"),
        rich_table(head, _noise(report.noise), right={1, 2, 3, 4, 5, 6}),
        Text(
            "floor: 95 % half-width of the unmodified stack's difference from itself after one "
            "launch; it falls with the square root of the launches. seen: that difference itself",
            style="dim",
        ),
    ]
    if report.resolvable:
        rows = [
            [Text(numbers.percent(gain)), Text(str(launches)), Text(numbers.duration(60 * minutes))]
            for gain, launches, minutes in report.resolvable
        ]
        reach = ["gain in reach", "launches", "time per candidate"]
        parts.append(rich_table(reach, rows, right={0, 1, 2}))
        parts.append(
            Text(
                "gain in reach: the smallest, as 1 - 1/speedup, that a run accepts nine times in "
                "ten by that look",
                style="dim",
            )
        )
    void = sum(1 for block in report.blocks if block.void)
    told = f"{numbers.count(len(report.blocks))} blocks, {numbers.count(void)} void"
    parts.append(Text(f"{told}; {one_line(_machine(report))}"))
    return Group(*parts)


def _machine(report: MeasureReport) -> str:
    """Name the machine that the floor belongs to."""
    machine = report.environment
    sandbox = f", in {machine.sandbox}" if machine.sandbox else ""
    return f"{machine.cpu}, {machine.cores} cores{sandbox}"


def _iteration(iteration: Iteration) -> list[Text]:
    why = f"{one_line(iteration.reason)}  {why_plain(iteration)}".rstrip()
    verdict = str(iteration.verdict)
    return [
        Text(str(iteration.n)),
        Text(str(iteration.layer)),
        Text(one_line(iteration.hypothesis.title)),
        Text(verdict, style=STYLES[verdict]),
        Text(why),
    ]


def _noise(noise: Noise) -> list[list[Text]]:
    floors = (("work", noise.work), ("sustained", noise.sustained), ("tail", noise.tail))
    return [_floor(name, floor) for name, floor in floors if floor]


def _floor(name: str, floor: NoiseFloor) -> list[Text]:
    launch_sd = floor.launch_sd_pct
    return [
        Text(name),
        Text(numbers.points(floor.floor_pct)),
        Text(numbers.points(floor.pair_sd_pct)),
        Text(numbers.ABSENT if launch_sd is None else numbers.points(launch_sd)),
        Text(numbers.points(floor.median_pct)),
        Text(str(floor.pairs)),
        Text(str(floor.launches)),
    ]


def plain_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()
) -> RenderableType:
    """Return a table of untrusted strings."""
    cells = [[Text(one_line(cell)) for cell in row] for row in rows]
    return rich_table(head, cells, right=right)


def rich_table(
    head: Sequence[str], rows: Iterable[Sequence[Text]], *, right: Collection[int] = ()
) -> RenderableType:
    """Return a table of texts; `right` are the columns of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
    for column, name in enumerate(head):
        table.add_column(Text(name), justify="right" if column in right else "left")
    for row in rows:
        table.add_row(*row)
    return Padding(table, (1, 0))


def _indented(text: str) -> RenderableType:
    return Padding(Text(one_line(text), no_wrap=True, overflow="ignore"), (0, 0, 0, 2))
