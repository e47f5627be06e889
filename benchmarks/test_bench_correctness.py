"""The correctness gate over the outputs of 1,000 requests, shaped like the example's."""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from layers.base import ChangeClass
from layers.gates.correctness import Comparison, Outputs, Triple, compare

REQUESTS = 1_000
SEED = 7
MEDIAN_ROWS, SIGMA, MOST_ROWS = 400, 0.7, 2_000  # candidates of a request: about 500 on average
GROUP = f"compare the outputs of {REQUESTS:,} requests"


def triples(*, moved: bool) -> list[Triple]:
    """Return scores and identifiers of both arms, and the referee's scores where any moved."""
    rng = np.random.default_rng(SEED)
    made: list[Triple] = []
    for _ in range(REQUESTS):
        rows = min(MOST_ROWS, 1 + int(rng.lognormal(np.log(MEDIAN_ROWS), SIGMA)))
        truth = rng.random(rows)
        score = (truth * (1 + rng.normal(0, 1e-7, rows))).astype(np.float32)
        other = (truth * (1 + rng.normal(0, 1e-7, rows))).astype(np.float32)
        item = rng.integers(10**6, 10**7, rows)
        baseline: Outputs = {"score": score, "item_id": item}
        candidate: Outputs = {"score": other if moved else score.copy(), "item_id": item.copy()}
        made.append((baseline, candidate, {"score": truth} if moved else None))
    return made


@pytest.mark.parametrize("change_class", [ChangeClass.EXACT, ChangeClass.REORDER])
def test_compare(benchmark: BenchmarkFixture, change_class: ChangeClass) -> None:
    """Time the comparison: bits only, and limits with the float64 referee for every request."""
    benchmark.group = GROUP
    requests = triples(moved=change_class is ChangeClass.REORDER)
    found: Comparison = benchmark(compare, requests, change_class)
    if not found.passed or {row.requests for row in found.rows} != {REQUESTS}:
        pytest.fail(f"the comparison says {found.gates}")
