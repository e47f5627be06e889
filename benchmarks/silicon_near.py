"""Expected times of measured rows from other rows: an efficiency of a class, corrected by what was measured near by.

For a shape that was not measured on a system: on lines through it, along which one number of the shape varies and all
else (system, framework, version, kernel, dtype and the other numbers) is equal, or along which an equal amount of work
is cut otherwise, the next lower and higher measured call. How much each way to read
such a line counts (see `silicon_lines`) is learned from training rows that are left out: alone, with their layers, and by fifths of the sizes.

For a system that was not measured: what the same call took over expected on others, of its own hardware family and
with the same kernel where there are such rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import polars as pl
from scipy.optimize import least_squares

from benchmarks.silicon_lines import End, Line, Said, learned
from benchmarks.silicon_rows import Array, Rows, Seconds, Table, measured
from layers.floor.expected import Efficiency, Terms

CALL = ("operation", "dtype", "shape")  # of the same call on any system
SAMPLE, SEED = 3000, 1  # rows of a fit
REHEARSED = 12_000  # rows that readings of lines are tried on
LEAST_ROWS = 50  # fewer are not fitted
FIFTHS = 5
Side: TypeAlias = Literal["backward", "forward"]
NEVER = 1e60  # a rate that nothing waits for
PRIMES = (1_000_003, 10_007, 100_003, 7, 31, 1_009, 65_537, 127)  # spread shapes
WITHIN = {"m", "isl", "step", "batch_size", "num_tokens", "message_size"}  # vary within one layer

# Numbers of a shape that vary along lines, by class; the first is the size.
AXES = {
    "GEMM": ("m", "n", "k"),
    "context attention": ("isl", "batch_size", "num_heads", "num_key_value_heads", "head_dim"),
    "decode attention": ("step", "batch_size", "num_heads", "num_key_value_heads", "head_dim"),
    "encoder attention": ("isl", "batch_size", "num_heads", "head_dim"),
    "MLA context": ("isl", "batch_size", "num_heads"),
    "MLA decode": ("step", "batch_size", "num_heads"),
    "MLA expansion": ("num_tokens", "num_heads"),
    "experts": ("num_tokens", "moe_ep_size", "inter_size", "hidden_size", "num_experts"),
    "collectives": ("message_size",),
    "custom all-reduce": ("message_size",),
}


# Attention works on each head of keys of each sequence alone, so calls with as many of both together do equal work:
# the heads of keys, and those of queries where they are others.
HEADS = {
    "context attention": ("num_key_value_heads", "num_heads"),
    "decode attention": ("num_key_value_heads", "num_heads"),
    "encoder attention": ("num_heads",),
    "MLA context": ("num_heads",),
}


def with_terms(root: Path, table: Table) -> pl.DataFrame:
    """Return a table's measured rows with `moved_s`, `kept_s` and `math_s` (see `layers.floor.expected`).

    A floor is the greatest of its terms: on a device whose other rates are endless it is the one that is left.
    """
    frame = measured(root, table)
    warm, cold, math = (
        measured(root, replace(table, floor_s=_only(table.floor_s, kept)))["floor_s"]
        for kept in ("memory", "all memory", "math")
    )
    frame = frame.with_columns(moved_s=warm, kept_s=(cold - warm).clip(0.0), math_s=math)
    if table.operation == "GEMM":
        return frame.with_columns(outputs=pl.col("m") * pl.col("n"))
    heads = HEADS.get(table.operation)
    if heads is None:
        return frame
    whole = pl.col(heads[0])
    return frame.with_columns(
        lanes=pl.col("batch_size") * whole, group=pl.col(heads[-1]).cast(pl.Float64) / whole
    )


def axes(operation: str) -> list[Axis]:
    """Return the lines of a class."""
    found = [Axis(name) for name in AXES[operation]]
    if operation == "GEMM":  # as many outputs of the same depth: as many tiles
        found.append(Axis("n", ("m",), ("outputs",)))
    heads = HEADS.get(operation)
    if heads is not None:
        found.append(Axis(heads[0], ("batch_size", *heads[1:]), ("lanes", "group")))
        if heads[1:]:
            found.append(Axis(heads[0], heads[1:], ("group",)))
    return found


def _only(floor_s: Seconds, kept: str) -> Seconds:
    """Return the floor on a device that waits for memory (less what its cache keeps), all memory, or arithmetic."""

    def found(rows: Rows) -> Array:
        hardware = replace(rows.hardware, cache_bytes_per_s=0.0)
        if kept == "math":
            links = {
                name: replace(link, bytes_per_s=NEVER, latency_s=0.0)
                for name, link in hardware.links.items()
            }
            hardware = replace(hardware, hbm_bytes_per_s=NEVER, links=links)
        else:
            hardware = replace(hardware, flops_per_s=dict.fromkeys(hardware.flops_per_s, NEVER))
        if kept == "all memory":
            hardware = replace(hardware, cache_bytes=0.0)
        return floor_s(Rows(rows.frame, rows.words, hardware))

    return found


def fit(frame: pl.DataFrame) -> Efficiency:
    """Return the efficiency with the least error in logarithms, outliers counted linearly."""
    part = frame.sample(min(SAMPLE, len(frame)), seed=SEED)
    asked, took = _terms(part), np.log(part["latency_s"].to_numpy())

    def missed(logs: Array) -> Array:
        found: Array = np.log(Efficiency(*np.exp(logs)).expected_s(asked)) - took
        return found

    start = np.array([0.3, 0.0, 0.5, took.min()])
    least, most = np.array([-2.0, -4.0, -2.0, -18.0]), np.array([5.0, 5.0, 5.0, -4.0])
    start = np.clip(start, least + 0.01, most - 0.01)
    found = least_squares(missed, start, bounds=(least, most), loss="soft_l1", f_scale=0.1)
    return Efficiency(*(float(value) for value in np.exp(found.x)))


def _terms(frame: pl.DataFrame) -> Terms:
    return Terms(*(frame[name].to_numpy() for name in ("moved_s", "kept_s", "math_s")))


def fits(frame: pl.DataFrame, groups: Sequence[str]) -> dict[tuple[str, ...], Efficiency]:
    """Return the efficiency of each group of rows that has enough."""
    parts = frame.group_by(*groups)
    found = {tuple(map(str, k)): fit(part) for k, part in parts if len(part) >= LEAST_ROWS}
    return dict(sorted(found.items()))


def expected(
    frame: pl.DataFrame, found: Mapping[tuple[str, ...], Efficiency], groups: Sequence[str]
) -> Array:
    """Return the expected seconds of each row, NaN where its group has no efficiency."""
    seconds = np.full(len(frame), np.nan)
    for key, part in frame.drop("place", strict=False).with_row_index("place").group_by(*groups):
        efficiency = found.get(tuple(map(str, key)))
        if efficiency is not None:
            seconds[part["place"].to_numpy()] = efficiency.expected_s(_terms(part))
    return seconds


def by_lines(train: pl.DataFrame, test: pl.DataFrame, operation: str) -> Array:
    """Return measured over expected for each test row from training rows, on lines; 1 where none is near.

    Both have `expected_s`. How much each reading of a line counts is learned from training rows alone.
    """
    return said(train, test, operation).factors(learned(rehearsed(train, operation)))


def said(train: pl.DataFrame, rows: pl.DataFrame, operation: str) -> Said:
    """Return what the lines of a class say of rows; of training rows without themselves."""
    lines = [
        (_through(train, rows, axis), axis.number in WITHIN and not axis.free)
        for axis in axes(operation)
    ]
    return Said.of(lines, rows["expected_s"].to_numpy())


def rehearsed(train: pl.DataFrame, operation: str) -> list[tuple[Said, Array]]:
    """Return what lines say of training rows, and what these took: log of measured over expected.

    Each row is left out alone; with the rest of its layer; and with all rows of the sizes that make
    up a fifth of them, each fifth in turn.
    """
    alone = train.sample(min(REHEARSED, len(train)), seed=SEED)
    heard, took = said(train, alone, operation), _factors(alone)
    cases = [(heard, took), (heard.of_other_layers(), took)]
    parts = list(_by_sizes(train, operation))
    if parts:
        heard_of, took_by = zip(*parts, strict=True)
        cases.append((Said.joined(heard_of), np.concatenate(took_by)))
    return cases


def _by_sizes(train: pl.DataFrame, operation: str) -> Iterator[tuple[Said, Array]]:
    """Yield what lines say of some rows of each fifth of the sizes, from the others; and what these took."""
    part = fifth(AXES[operation][:1], train)
    for number in range(FIFTHS):
        sized = train.filter(part == number)
        if len(sized) >= LEAST_ROWS:
            sized = sized.sample(min(REHEARSED // FIFTHS, len(sized)), seed=SEED)
            yield said(train.filter(part != number), sized, operation), _factors(sized)


def fifth(names: Sequence[str], frame: pl.DataFrame) -> pl.Expr:
    """Return which of five parts, 0 to 4, a row of a frame belongs to by numbers of its shape."""
    mixed = pl.lit(0, dtype=pl.Int64)
    for name, prime in zip(names, PRIMES, strict=False):
        if name in frame.columns:  # absent is 0, in a table as in all of them together
            mixed = mixed + pl.col(name).fill_null(0).cast(pl.Int64) * prime
    return (mixed % 8191) % FIFTHS


def _factors(frame: pl.DataFrame) -> Array:
    """Return the log of measured over expected of rows."""
    found: Array = np.log((frame["latency_s"] / frame["expected_s"]).to_numpy())
    return found


@dataclass(frozen=True, slots=True)
class Axis:
    """A line through calls: one number varies along it, and what is `free` with it so that `held` stays as it is."""

    number: str
    free: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


def _through(train: pl.DataFrame, rows: pl.DataFrame, axis: Axis) -> Line:
    """Return the lines along `axis` through rows; calls of equal place on it do not count."""
    fixed = _fixed(train, axis)
    low, high = (_end(train, rows, axis.number, fixed, side) for side in ("backward", "forward"))
    return Line(rows[axis.number].to_numpy() + 1.0, rows["expected_s"].to_numpy(), low, high)


def own_table(frame: pl.DataFrame) -> list[str]:
    """Return the columns that tell tables apart: system, framework, version, kernel, dtypes."""
    words = [name for name in frame.columns if frame[name].dtype == pl.String]
    return sorted(set(words) - {"operation", "family"})


def _fixed(train: pl.DataFrame, axis: Axis) -> list[str]:
    """Return what is equal along a line: all words, and all numbers but one."""
    numbers = {name for axes in AXES.values() for name in axes} | {
        "window_size",
        "topk",
        "moe_tp_size",
    }
    words = {name for name in train.columns if train[name].dtype == pl.String}
    equal = (numbers & set(train.columns)) | words
    return sorted((equal - {axis.number, *axis.free, "family", "operation"}) | set(axis.held))


def _end(
    train: pl.DataFrame, rows: pl.DataFrame, number: str, fixed: Sequence[str], side: Side
) -> End:
    """Return the next training row below or above."""
    line = pl.struct(*fixed).hash().alias("line")
    asked = rows.select(line, pl.col(number)).with_row_index("place").sort(number)
    ends = train.select(
        line,
        pl.col(number),
        at=pl.col(number) + 1.0,
        seconds="latency_s",
        end_expected_s="expected_s",
    )
    ends = ends.join(asked, on="line", how="semi").sort(number)
    next_one = 1 if side == "backward" else -1
    ends = ends.with_columns(
        beyond_at=pl.col("at").shift(next_one).over("line"),
        beyond=(pl.col("seconds") / pl.col("end_expected_s")).shift(next_one).over("line"),
    )
    found = asked.join_asof(
        ends,
        on=number,
        by="line",
        strategy=side,
        allow_exact_matches=False,
        check_sortedness=False,
    ).sort("place")
    return End(
        *(
            found[name].fill_null(np.nan).to_numpy()
            for name in ("at", "seconds", "end_expected_s", "beyond_at", "beyond")
        )
    )


def by_systems(train: pl.DataFrame, test: pl.DataFrame) -> Array:
    """Return measured over expected of the same call on other systems: those most alike first; 1 where there are none."""
    found = pl.Series([None] * len(test), dtype=pl.Float64)
    for level in _levels():
        keys = [*CALL, *level]
        factor = pl.col("latency_s") / pl.col("expected_s")
        means = train.group_by(*keys).agg(found=factor.median())
        joined = test.select(*keys).join(means, on=keys, how="left", maintain_order="left")
        found = found.zip_with(found.is_not_null(), joined["found"])
    filled: Array = found.fill_null(1.0).to_numpy()
    return filled


def _levels() -> Iterator[tuple[str, ...]]:
    yield "family", "framework", "kernel_source"
    yield "family", "framework"
    yield "framework", "kernel_source"
    yield ("framework",)
    yield ()


def numbers_of(efficiency: Efficiency) -> tuple[float, ...]:
    """Return the numbers of an efficiency in order."""
    found: tuple[float, ...] = astuple(efficiency)
    return found
