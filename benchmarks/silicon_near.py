"""Expected times of measured rows from other rows: an efficiency of a class, corrected by what was measured near by.

For a shape that was not measured on a system: on lines through it, along which one number of the shape varies and all
else (system, framework, version, kernel, dtype and the other numbers) is equal, the next lower and higher measured
call. Measured over expected is taken to be a straight line between both in logarithms; lines count by how well they
predict training rows that are left out in turn.

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
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.silicon_rows import Array, Rows, Seconds, Table, measured
from layers.floor.expected import Efficiency, Terms, between, blended, share

CALL = ("operation", "dtype", "shape")  # of the same call on any system
SAMPLE, SEED = 3000, 1  # rows of a fit, and of judging a line
LEAST_ROWS = 50  # fewer are not fitted
Side: TypeAlias = Literal["backward", "forward"]
NEVER = 1e60  # a rate that nothing waits for
NOISE = 0.01  # of one measured row: no line is trusted more
SHARPNESS = 1.5  # 1 weighs lines by the inverse of their variance; more prefers the better ones

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


def with_terms(root: Path, table: Table) -> pl.DataFrame:
    """Return a table's measured rows with `moved_s`, `kept_s` and `math_s` (see `layers.floor.expected`).

    A floor is the greatest of its terms: on a device whose other rates are endless it is the one that is left.
    """
    frame = measured(root, table)
    warm, cold, math = (
        measured(root, replace(table, floor_s=_only(table.floor_s, kept)))["floor_s"]
        for kept in ("memory", "all memory", "math")
    )
    return frame.with_columns(moved_s=warm, kept_s=(cold - warm).clip(0.0), math_s=math)


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

    Both have `expected_s`. Each axis gives two lines: of factors over doublings, and of seconds over the number itself.
    """
    axes = AXES[operation]
    judged = train.sample(min(SAMPLE, len(train)), seed=SEED)
    factors, weights = [], []
    for axis in axes:
        shown, line = Line.through(train, judged, axis), Line.through(train, test, axis)
        for known, asked in zip(shown.factors, line.factors, strict=True):
            error = NOISE**2 + (_curvature(shown, known, judged) * line.span) ** 2
            factors.append(np.where(line.inside, asked, 1.0))
            weights.append(np.where(line.inside, error**-SHARPNESS, 0.0))
    apart = Line.through(train, test, axes[0])
    factors.append(np.where(np.isfinite(apart.nearest), apart.nearest, 1.0))
    weights.append(1e-6 + np.where(np.isfinite(apart.nearest), 1e-3 / (1 + apart.distance), 0.0))
    found: Array = blended(factors, weights)
    return found


def _curvature(line: Line, factor: Array, judged: pl.DataFrame) -> float:
    """Return the error of lines in logarithms, by the product of the doublings to both ends."""
    inside = line.inside
    if inside.sum() < LEAST_ROWS:
        return 1.0
    took = (judged["latency_s"] / judged["expected_s"]).to_numpy()
    missed = np.abs(np.log(factor[inside] / took[inside]))
    return float(np.sqrt(np.mean(np.minimum(missed / line.span[inside], 2.0) ** 2)))


@dataclass(frozen=True, slots=True)
class Line:
    """What the next measured calls along one number say of each row."""

    # Between both: of factors over doublings, of seconds over the number.
    factors: tuple[Array, Array]
    inside: NDArray[np.bool_]  # there are both
    span: Array  # product of the doublings to each
    nearest: Array  # factor of the nearest, NaN where there is none
    distance: Array  # doublings to it

    @classmethod
    def through(cls, train: pl.DataFrame, rows: pl.DataFrame, axis: str) -> Line:
        """Return the lines along `axis` through rows; rows of equal place on it do not count."""
        fixed = _fixed(train, axis)
        low_at, low_s, low = _end(train, rows, axis, fixed, "backward")
        high_at, high_s, high = _end(train, rows, axis, fixed, "forward")
        at, expected_s = rows[axis].to_numpy() + 1.0, rows["expected_s"].to_numpy()
        inside = np.isfinite(low) & np.isfinite(high)
        down, up = np.log2(at / low_at), np.log2(high_at / at)
        with np.errstate(invalid="ignore"):
            curved = between(low, high, share(low_at, high_at, at))
            way = (at - low_at) / (high_at - low_at)
            straight = ((1.0 - way) * low_s + way * high_s) / expected_s
        nearest = np.where(
            np.nan_to_num(down, nan=np.inf) <= np.nan_to_num(up, nan=np.inf), low, high
        )
        distance = np.fmin(down, up)
        return cls((curved, straight), inside, down * up, nearest, distance)


def own_table(frame: pl.DataFrame) -> list[str]:
    """Return the columns that tell tables apart: system, framework, version, kernel, dtypes."""
    words = [name for name in frame.columns if frame[name].dtype == pl.String]
    return sorted(set(words) - {"operation", "family"})


def _fixed(train: pl.DataFrame, axis: str) -> list[str]:
    """Return what is equal along a line: all words, and all numbers but one."""
    numbers = {name for axes in AXES.values() for name in axes} | {
        "window_size",
        "topk",
        "moe_tp_size",
    }
    words = {name for name in train.columns if train[name].dtype == pl.String}
    return sorted(((numbers & set(train.columns)) | words) - {axis, "family", "operation"})


def _end(
    train: pl.DataFrame, rows: pl.DataFrame, axis: str, fixed: Sequence[str], side: Side
) -> tuple[Array, Array, Array]:
    """Return place (plus one), seconds and factor of the next training row below or above, NaN where there is none."""
    line = pl.struct(*fixed).hash().alias("line")
    asked = rows.select(line, pl.col(axis)).with_row_index("place").sort(axis)
    factor = pl.col("latency_s") / pl.col("expected_s")
    ends = train.select(
        line, pl.col(axis), end_at=pl.col(axis) + 1.0, end_s="latency_s", end=factor
    )
    ends = ends.join(asked, on="line", how="semi").sort(axis)
    found = asked.join_asof(
        ends,
        on=axis,
        by="line",
        strategy=side,
        allow_exact_matches=False,
        check_sortedness=False,
    ).sort("place")
    at, seconds, factors = (
        found[name].fill_null(np.nan).to_numpy() for name in ("end_at", "end_s", "end")
    )
    return at, seconds, factors


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
