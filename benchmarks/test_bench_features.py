"""The published functions with ours beside them, local: see `benchmarks/published.py`."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import published
from benchmarks.support import Show, once


@pytest.mark.parametrize("case", published.CASES, ids=lambda case: case.shape)
def test_rewritten_function(benchmark: BenchmarkFixture, case: published.Case) -> None:
    """Time the rewritten program against the original; an answer that changes is an error."""
    if not published.is_here(case):
        pytest.skip(f"{case.needs or case.codemod} is not here")
    measured = once(benchmark, published.measure, case, max(published.ROWS))
    benchmark.extra_info["ratio"] = measured.ratio


def test_table_of_the_published_functions(benchmark: BenchmarkFixture, show: Show) -> None:
    """Show the table."""
    rows = once(benchmark, published.rows_of_table)
    show(
        "**Published functions** and code of their shape as the codemods rewrite it: CPU time of "
        f"`execute`, original over rewritten, {published.PAIRS} interleaved pairs a cell; median "
        "with its 95 % interval.",
        published.HEAD,
        rows,
    )
