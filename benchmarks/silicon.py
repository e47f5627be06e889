"""Every measured operation of aiconfigurator-core against its floor: `python -m benchmarks.silicon [--write]`.

Prints, for each class of operations: rows below the floor, how near the fastest 1 % come, median and 90th percentile of
measured over floor; each row below with its cause; and stop thresholds by class, dtype and hardware family with what
they would have done to shapes and systems that they were not fitted on, beside the flat 1.3. `--write` keeps the
thresholds in the card that `fvec floor` reads. Needs the dependency group `silicon`; takes about two minutes on a core.

What a row contains is in `benchmarks.silicon_rows`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.silicon_rows import Table, installed, measured
from benchmarks.silicon_stop import (
    BEATEN_BY,
    FLAT,
    LEAST_ROWS,
    MOST_FALSE,
    NONE,
    Rates,
    Threshold,
    by_shape,
    by_system,
    compared,
    fit,
    groups,
    with_held_out,
)
from benchmarks.silicon_tables import TABLES
from bot.render.markdown import table
from knowledge.store import builtin_directory

CARD = builtin_directory() / "hardware" / "stop-thresholds.yaml"
NEAR = 1.25  # the fastest 1 % are to lie within

SOFTMAX = (
    "exponentials: 16 a clock and multiprocessor take as long as matrices of 16 bits at width 128 on B200, half as long "
    "on H100, twice that in 8 bits or at width 64; B300, like B200 but for twice the exponentials, comes nearer "
    "(fastest 1 % in FP8: 2.2 against 2.7)"
)
LAUNCH = "calls of a few microseconds: starting and draining a kernel is in no floor"
LINK = "headers and flow control leave about 80 % of a link's rate, and the library adds on devices, not in the switch"
COPIES = "each expert is sent a copy of its own, not each device one"
REASONS = {
    "context attention": SOFTMAX,
    "encoder attention": SOFTMAX,
    "MLA context": SOFTMAX,
    "MLA context module": SOFTMAX,
    "MLA expansion": LAUNCH,
    "experts, wide EP": "the fullest device is only known to have the mean at least",
    "collectives": LINK,
    "expert exchange": LINK,
    "expert dispatch, DeepEP": LINK,
    "expert combine, DeepEP": LINK,
    "expert dispatch, DeepEP low latency": COPIES,
    "expert combine, DeepEP low latency": COPIES,
    "linear attention": "chunks do more arithmetic than the recurrence, and most states are float32, not 16 bits",
}
# Rows below their floor, by what tells them: nothing else may be below.
CAUSES = {
    ("GEMM", "b60", "fp8"): "46 ppm above the peak at 2.4 GHz: tolerance of a clock",
}


UNKNOWN = "unknown"
RATIO = pl.col("ratio")
LONG = pl.col("floor_s") >= 20e-6  # starting a kernel is a small part of it
SPREAD = (
    pl.len().alias("rows"),
    (~(RATIO >= 1)).sum().alias("below"),
    RATIO.min().alias("least"),
    RATIO.quantile(0.01).alias("p1"),
    RATIO.median().alias("median"),
    RATIO.quantile(0.9).alias("p90"),
    LONG.sum().alias("long"),
    RATIO.filter(LONG).median().alias("long_median"),
    RATIO.filter(LONG).quantile(0.9).alias("long_p90"),
)
HEAD = (
    *("rows", "below", "least", "fastest 1 %", "median", "90th"),
    *("floors over 20 us", "their median", "their 90th"),
)
LABELS = ("system", "framework", "version", "kernel_source", "dtype")


@dataclass(frozen=True, slots=True)
class Class:
    """What was found of one class."""

    operation: str
    whole: pl.DataFrame  # one row: how measured over floor is spread
    parts: pl.DataFrame  # the same by dtype and family
    below: pl.DataFrame  # rows faster than their floor
    compared: int  # rows that another backend has, too
    thresholds: Sequence[tuple[str, str, Threshold]]  # by dtype and family
    shapes: tuple[Rates, Rates]  # flat and calibrated, on held-out shapes
    systems: tuple[Rates, Rates]  # and on held-out systems


PROVENANCE = (
    "Each entry is a factor and seconds, by dtype and hardware family, fitted on four in five of the shapes of one "
    "class. A stop is false where another backend of the package is 15 % faster on the same call and system. Of all "
    "pairs the one was taken that stops most rows rightly with at most 5 % of its stops false on each system."
)
CARD_HEAD = (
    "schema: fvec.card/1",
    "kind: hardware",
    f"id: {CARD.stem}",
    "title: When a measured operation is near enough to its floor to leave it alone",
    "facts:",
)
CARD_SOURCES = (
    "sources:",
    "  - title: aiconfigurator-core 0.12.0 (PyPI), systems/data; fitted by benchmarks/silicon.py",
    "    url: https://pypi.org/project/aiconfigurator-core/0.12.0/",
)


def main(argv: Sequence[str]) -> int:
    """Print all tables; return 1 where a row is below its floor without a cause, 2 without the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {CARD.name}")
    options = parser.parse_args(argv)
    root = installed()
    if root is None:
        sys.stderr.write("aiconfigurator-core is not installed: pip install --group silicon\n")
        return 2
    found = [_class(root, entry) for entry in TABLES]
    sys.stdout.write(report(found))
    if options.write:
        CARD.write_text(card(found))
    return 1 if any(_cause(row) == UNKNOWN for each in found for row in _below(each)) else 0


def _class(root: Path, entry: Table) -> Class:
    """Return what the rows of one class say."""
    frame = measured(root, entry).with_columns(ratio=pl.col("latency_s") / pl.col("floor_s"))
    both = with_held_out(compared(frame), entry.shape)
    return Class(
        entry.operation,
        frame.select(*SPREAD),
        frame.group_by("dtype", "family").agg(*SPREAD).sort("dtype", "family"),
        frame.filter(~(pl.col("ratio") >= 1)).sort("ratio"),
        len(both),
        _fitted(both),
        by_shape(both),
        by_system(both),
    )


def _fitted(both: pl.DataFrame) -> list[tuple[str, str, Threshold]]:
    """Return the thresholds of the groups that have rows enough, from the shapes that are not held out."""
    seen = both.filter(~pl.col("held_out"))
    return [(d, f, fit(part)) for d, f, part in groups(seen) if len(part) >= LEAST_ROWS]


def report(found: Sequence[Class]) -> str:
    """Return all tables as markdown."""
    parts = (
        ("Measured over floor, by class", _classes(found)),
        ("Measured over floor, by dtype and hardware family", _by_part(found)),
        ("Rows below their floor", _all_below(found)),
        ("Stop rules on shapes that they were not fitted on", _stops(found, "shapes")),
        ("Stop rules on systems that they were not fitted on", _stops(found, "systems")),
        ("Stop thresholds", _thresholds(found)),
    )
    return "\n".join(f"## {title}\n\n{body}\n" for title, body in parts)


def _classes(found: Sequence[Class]) -> str:
    head = ("class", *HEAD, "why not nearer")
    rows = []
    for each in found:
        spread = each.whole.row(0, named=True)
        why = REASONS.get(each.operation, "") if spread["p1"] > NEAR else ""
        rows.append((each.operation, *_spread(spread), why))
    return table(head, rows)


def _by_part(found: Sequence[Class]) -> str:
    head = ("class", "dtype", "family", *HEAD)
    return table(
        head,
        [
            (each.operation, row["dtype"], row["family"], *_spread(row))
            for each in found
            for row in each.parts.iter_rows(named=True)
        ],
    )


def _spread(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['rows']:,}",
        str(row["below"]),
        *(f"{row[name]:.4g}" for name in ("least", "p1", "median", "p90")),
        f"{row['long']:,}",
        *(f"{row[name]:.4g}" if row["long"] else "" for name in ("long_median", "long_p90")),
    )


def _all_below(found: Sequence[Class]) -> str:
    rows = [
        (
            each.operation,
            *(row[name] for name in LABELS),
            _numbers(row),
            f"{row['ratio']:.5f}",
            _cause(row),
        )
        for each in found
        for row in _below(each)
    ]
    return table(("class", *LABELS, "call", "measured / floor", "cause"), rows) if rows else "None."


def _below(each: Class) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = each.below.to_dicts()
    return found


def _numbers(row: Mapping[str, Any]) -> str:
    hidden = {"shape", "backend"}
    return " ".join(f"{k}={v}" for k, v in row.items() if isinstance(v, int) and k not in hidden)


def _cause(row: Mapping[str, Any]) -> str:
    return CAUSES.get((row["operation"], row["system"], row["dtype"]), UNKNOWN)


def _stops(found: Sequence[Class], held_out: str) -> str:
    head = (
        *("class", "rows compared", "held out", "flat 1.3: stops", "false stops"),
        *("false escalations", "calibrated: stops", "false stops", "false escalations"),
    )
    rows, sums = [], (NONE, NONE)
    for each in found:
        flat, calibrated = getattr(each, held_out)
        if flat.rows:
            sums = sums[0] + flat, sums[1] + calibrated
            compared_rows = f"{each.compared:,}"
            rows.append((each.operation, compared_rows, *_rates(flat, calibrated)))
    rows.append(("all", f"{sum(each.compared for each in found):,}", *_rates(*sums)))
    return table(head, rows)


def _rates(flat: Rates, calibrated: Rates) -> tuple[str, ...]:
    shares = [
        f"{100 * share:.1f} %"
        for each in (flat, calibrated)
        for share in (each.stopped, each.false_stop_rate, each.false_escalate_rate)
    ]
    return f"{flat.rows:,}", *shares


def _thresholds(found: Sequence[Class]) -> str:
    rows = [
        (each.operation, dtype, family, f"{limit.factor:.2f}", f"{limit.fixed_s * 1e6:.0f}")
        for each in found
        for dtype, family, limit in each.thresholds
    ]
    return table(("class", "dtype", "family", "factor", "fixed, us"), rows)


def card(found: Sequence[Class]) -> str:
    """Return the thresholds as a card of knowledge: `factor seconds` by dtype and family."""
    facts = [
        "  rule: stop if measured < factor * t_opt + seconds",
        f"  flat_factor: {FLAT}",
        f"  most_false_stops: {MOST_FALSE}",
        f"  beaten_by: {BEATEN_BY}",
    ]
    for each in found:
        if each.thresholds:
            facts.append(f"  {_key(each.operation)}:")
            facts += [
                f"    {dtype or 'any'} {family}: {limit.factor:.2f} {limit.fixed_s:g}"
                for dtype, family, limit in each.thresholds
            ]
    notes = [f"  - {json.dumps(note)}" for note in (PROVENANCE, *_held_out_notes(found))]
    return "\n".join([*CARD_HEAD, *facts, "notes:", *notes, *CARD_SOURCES, ""])


def _key(operation: str) -> str:
    return "_".join(re.findall("[a-z0-9]+", operation.lower()))


def _held_out_notes(found: Sequence[Class]) -> list[str]:
    notes = []
    for name in ("shapes", "systems"):
        flat, calibrated = NONE, NONE
        for each in found:
            flat += getattr(each, name)[0]
            calibrated += getattr(each, name)[1]
        notes.append(
            f"On held-out {name} ({flat.rows:,} rows): {_said(calibrated)}; the flat 1.3 {_said(flat)}."
        )
    return notes


def _said(each: Rates) -> str:
    return (
        f"stops at {100 * each.stopped:.1f} % of the rows, {100 * each.false_stop_rate:.1f} % of the stops false, "
        f"{100 * each.false_escalate_rate:.1f} % of the escalations false"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
