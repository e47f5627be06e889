"""Judgements and verifications for a terminal: the verdict first, untrusted text never markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bot.render import judgement, numbers, trial
from bot.render.content import plain
from bot.render.measured import folded
from bot.render.terminal import STYLES, rich_table
from bot.render.text import one_line

if TYPE_CHECKING:
    from layers.evidence import Gate, JudgeReport, LoadTest, OutputRow, Verdict, VerifyReport

MOST_DETAIL = 400
GATE_DETAIL = 160
MOST_OUTPUTS = 12
LABEL = 10  # columns
RESULTS = {"pass": "green", "fail": "red", "inconclusive": "yellow"}


def judge(report: JudgeReport, files: Mapping[str, Path]) -> RenderableType:
    """Show the verdict and why, the gates, the gain against the floor, and what was resolvable."""
    return Group(
        _verdict(report.verdict, report.reason, report.subject, str(report.change_class)),
        _why(judgement.meaning(report.verdict, report.reason)),
        _why(report.detail),
        *_tables(report),
        _labelled([*_grounds(report), *_places(files)]),
    )


def verify(report: VerifyReport, files: Mapping[str, Path]) -> RenderableType:
    """Show whether the evidence holds again, both estimates, then the new judgement's grounds."""
    judged = report.judged
    estimates = [
        ("recorded", judgement.end_line(report.recorded)),
        ("again", judgement.end_line(report.again)),
        ("difference", judgement.difference_line(report)),
    ]
    return Group(
        _verdict(report.verdict, report.reason, report.evidence, str(judged.change_class)),
        _why(judgement.meaning(report.verdict, report.reason)),
        _why(report.detail),
        Padding(_labelled([row for row in estimates if row[1]]), (1, 0, 0, 0)),
        *_tables(judged),
        _labelled([*_grounds(judged), *_places(files)]),
    )


def _verdict(verdict: Verdict, reason: str, subject: str, change_class: str) -> RenderableType:
    line = Text(f"{verdict}: {one_line(reason)}", style=f"bold {STYLES[verdict]}")
    return line.append(f"  {one_line(subject)}, class {change_class}", style="not bold default")


def _why(detail: str) -> RenderableType:
    return Padding(Text(one_line(detail, MOST_DETAIL)), (0, 0, 0, 2)) if detail else Group()


def _tables(report: JudgeReport) -> list[RenderableType]:
    """Return the gates, and the outputs that moved."""
    parts = []
    if report.gates:
        head = ["gate", "result", "reason", "detail"]
        rows = [_gate(gate, shown=report.detail) for gate in folded(report.gates)]
        parts.append(rich_table(head, rows))
    moved = [row for row in report.equivalence if row.differing][:MOST_OUTPUTS]
    if moved:
        head = ["output", "elements", "bits differ", "largest difference", "limit", "beyond it"]
        parts.append(rich_table(head, map(_output, moved), right={1, 2, 3, 4, 5}))
    return parts


def _grounds(report: JudgeReport) -> list[tuple[str, str]]:
    """Return what the verdict rests on, labelled; of each part only what was measured."""
    compared = f"{numbers.count(report.outputs_compared)} answers of both held against each other"
    rows = [
        ("gain", judgement.gain_line(report)),
        ("outputs", compared if report.outputs_compared else ""),
        *_trial(report),
        ("SLO", _slo(report.load_test) if report.load_test else ""),
        ("resolution", judgement.resolution_line(report)),
        *(("note", one_line(line)) for line in report.warnings),
    ]
    return [row for row in rows if row[1]]


def _trial(report: JudgeReport) -> list[tuple[str, str]]:
    """Say in brief how it was tried: the body has the rest."""
    known = trial.facts(report, report.blocks)
    return [(name, plain(line)) for name, line in known if name in trial.BRIEF]


def _slo(test: LoadTest) -> str:
    """Count the requests over the SLO, before and after."""
    before, after = (
        f"{numbers.count(arm.over_slo)} of {numbers.count(arm.requests)}"
        for arm in (test.baseline, test.candidate)
    )
    slo = f"{numbers.setting(test.slo_p99_ms)} ms at {numbers.per_second(test.rate)}"
    return f"{before} requests over {slo} before, {after} after"


def _labelled(rows: Sequence[tuple[str, str]]) -> RenderableType:
    """Return lines with a label each, wrapped under themselves."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", min_width=LABEL)
    grid.add_column()
    for label, told in rows:
        grid.add_row(Text(label), Text(told))
    return grid


def _gate(gate: Gate, *, shown: str) -> list[Text]:
    """Return a gate's row; a detail that is `shown` above already is not said again."""
    detail = "see above" if gate.detail and gate.detail == shown else gate.detail
    return [
        Text(one_line(gate.name)),
        Text(gate.result, style=RESULTS[gate.result]),
        Text(one_line(gate.reason)),
        Text(one_line(detail, GATE_DETAIL)),
    ]


def _output(row: OutputRow) -> list[Text]:
    return [
        Text(one_line(row.output)),
        Text(numbers.count(row.elements)),
        Text(numbers.count(row.differing)),
        Text(numbers.number(row.max_abs)),
        Text("bits" if row.limit is None else numbers.setting(row.limit)),
        Text(numbers.count(row.outliers)),
    ]


def _places(files: Mapping[str, Path]) -> list[tuple[str, str]]:
    return [(name, str(path)) for name, path in files.items()]
