"""Measured operations of aiconfigurator-core against their floors: the small tables; `benchmarks.silicon` has all."""

from __future__ import annotations

from pathlib import Path

import pytest

pl = pytest.importorskip("polars", reason="needs the dependency group silicon")

from benchmarks.silicon_rows import installed, measured  # noqa: E402
from benchmarks.silicon_stop import (  # noqa: E402
    MOST_FALSE,
    Threshold,
    compared,
    fit,
    groups,
    rates,
)
from benchmarks.silicon_tables import TABLES  # noqa: E402

SMALL = (
    *("MLA context", "MLA decode", "MLA expansion", "experts, wide EP"),
    *("collectives", "custom all-reduce", "expert exchange", "linear attention"),
)


@pytest.fixture(scope="module")
def root() -> Path:
    found = installed()
    if found is None:
        pytest.skip("aiconfigurator-core is not installed: pip install --group silicon")
    return found


@pytest.mark.parametrize("operation", SMALL)
def test_nothing_measured_is_faster_than_its_floor(root: Path, operation: str) -> None:
    table = next(each for each in TABLES if each.operation == operation)
    rows = measured(root, table)
    assert len(rows) > 1000
    assert (rows["latency_s"] >= rows["floor_s"]).all()


def test_a_fitted_threshold_keeps_to_the_share_of_false_stops_on_what_it_was_fitted_on(
    root: Path,
) -> None:
    table = next(each for each in TABLES if each.operation == "MLA decode")
    both = compared(measured(root, table))
    for _, _, part in groups(both):
        if len(part) >= 1000:
            assert rates(part, fit(part)).false_stop_rate <= MOST_FALSE


def test_a_row_is_beaten_by_others_alone() -> None:
    call = {"operation": "a", "system": "b", "dtype": "c", "shape": 1}
    rows = [
        {**call, "backend": 1, "latency_s": 1.0, "floor_s": 0.9},
        {**call, "backend": 1, "latency_s": 2.0, "floor_s": 0.9},
        {**call, "backend": 2, "latency_s": 1.5, "floor_s": 0.9},
        {**call, "shape": 2, "backend": 2, "latency_s": 9.0, "floor_s": 0.9},
    ]
    found = compared(pl.DataFrame(rows)).sort("latency_s")
    assert found["latency_s"].to_list() == [1.0, 1.5, 2.0]
    assert found["beaten"].to_list() == [False, True, True]
    asked = rates(found, Threshold(1.3))
    assert (asked.stops, asked.false_stops, asked.false_escalations) == (1, 0, 0)
