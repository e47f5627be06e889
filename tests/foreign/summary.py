"""Rows of the runner as text: one line each, and the markdown table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from bot.render import numbers
from bot.render import text as rendered
from bot.render.markdown import table as markdown

Row = Mapping[str, Any]
MOST_REASONS = 2


def is_wrong(row: Row) -> bool:
    """Return whether the codemod crashed, is not stable, or changed an answer."""
    compared = row["compared"]
    return bool(row["complaint"] or (compared and compared["differ"]))


def line(row: Row) -> str:
    """Return one row for the terminal."""
    cells = [row["program"][:40], row["codemod"] or "(nothing found)", exact(row), ratios(row)]
    return "  ".join([*cells, row["complaint"], reason(row)])


def exact(row: Row) -> str:
    """Say over how many requests the rewritten program answered as the original."""
    if not row["rewritten"]:
        return f"not rewritten ({len(row['reasons'])} left)"
    compared = row["compared"]
    if compared is None:
        return "rewritten, not run"
    count = f"{compared['same']} same"
    if compared["raised"]:
        count += f" ({compared['raised']} raise in both)"
    if compared["unsteady"]:
        count += f", {compared['unsteady']} not steady in the original"
    return count + (f", **{len(compared['differ'])} DIFFER**" if compared["differ"] else "")


def ratios(row: Row) -> str:
    """Return original over rewritten CPU seconds: median of the pairs, with its 95 % interval."""
    cells = []
    for rows, pairs in row["timed"].items():
        if len(pairs) < 6:
            continue
        values = np.asarray(pairs, dtype=np.float64)
        each = values[:, 0] / values[:, 1]
        interval = stats.quantile_test(each, p=0.5).confidence_interval(0.95)
        ends = (float(interval.low), float(interval.high))
        cells.append(f"{rows}: {numbers.times_between(float(np.median(each)), ends)}")
    return "; ".join(cells)


def reason(row: Row) -> str:
    """Say why the program did not run, or why places are left as they are."""
    parts = [f"does not run here: {row['failed']}"] if row["failed"] else []
    parts += row["reasons"][:MOST_REASONS]
    if len(row["reasons"]) > MOST_REASONS:
        parts.append(f"and {len(row['reasons']) - MOST_REASONS} more")
    return "; ".join(parts)


def table(rows: Sequence[Row]) -> str:
    """Return all rows as one markdown table."""
    head = ["program", "codemod", "places", "rewritten and exact", "CPU ratio by rows", "reason"]
    cells = [
        [
            rendered.code(row["program"], 80),
            rendered.code(row["codemod"]) if row["codemod"] else "none found anything",
            str(len(row["places"])),
            exact(row),
            ratios(row),
            rendered.inline(reason(row), 400),
        ]
        for row in rows
    ]
    return markdown(head, cells, right="llrlll")


def by_program(rows: Sequence[Row], names: Mapping[str, str]) -> str:
    """Return one line per program as a markdown table: what all codemods together do to it.

    `names` says what a program is called; one without a name keeps that of its folder.
    """
    programs: dict[str, list[Row]] = {}
    for row in rows:
        programs.setdefault(row["program"], []).append(row)
    head = ["program", "places found", "rewritten by", "batches with the same answer"]
    head += ["CPU ratio by rows", "why places are left, or why it does not run"]
    cells = [[names.get(name, name), *_cells(found)] for name, found in programs.items()]
    return markdown(head, cells)


def _cells(rows: Sequence[Row]) -> list[str]:
    rewritten = [row for row in rows if row["rewritten"]]
    codemods = [rendered.code(row["codemod"]) for row in rewritten if row["places"]]
    last = rewritten[-1] if rewritten else None  # all together, or the only one
    places = sum(len(row["places"]) for row in rows)
    left = [reason for row in rows for reason in row["reasons"]]
    return [
        f"{places + len(left)}, {places} to change",
        ", ".join(codemods) or numbers.ABSENT,
        exact(last) if last else numbers.ABSENT,
        ratios(last) if last else "",
        rendered.inline(_why(rows[0]["failed"], left), 300),
    ]


def _why(failed: str, left: Sequence[str]) -> str:
    kinds = list(dict.fromkeys(reason.partition(": ")[2] for reason in left))
    more = [f"and {len(kinds) - MOST_REASONS} more kinds"] if len(kinds) > MOST_REASONS else []
    head = [_needs(failed)] if failed else []
    return "; ".join([*head, *kinds[:MOST_REASONS], *more])


def _needs(failed: str) -> str:
    """Say what a program lacks, without a path of this machine."""
    kind, _, message = failed.partition(": ")
    if kind == "ModuleNotFoundError":
        return f"does not run here: needs {message.rpartition(' ')[2]}"
    if kind in {"FileNotFoundError", "ImportError"}:
        return "does not run here: needs files or packages that are not beside it"
    return f"does not run here: {kind}"
