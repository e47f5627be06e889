"""What the benchmarks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeAlias, TypeVar

from pytest_benchmark.fixture import BenchmarkFixture

# Called with a title, a head and rows of markdown cells: the table is printed at the end.
Show: TypeAlias = Callable[[str, Sequence[str], Sequence[Sequence[str]]], None]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def once(
    benchmark: BenchmarkFixture,
    function: Callable[Parameters, Result],
    *args: Parameters.args,
    **kwargs: Parameters.kwargs,
) -> Result:
    """Run what measures or simulates by itself, once, and return its result."""
    benchmark.group = "what makes the tables below"
    pedantic: Callable[..., Result] = benchmark.pedantic
    return pedantic(function, args=args, kwargs=kwargs, rounds=1, iterations=1)
