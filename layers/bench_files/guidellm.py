"""Results of GuideLLM: benchmarks.json, a list of benchmarks with one load each.

Schema: guidellm/benchmark/schemas/{report,benchmark,metrics,base}.py and guidellm/scheduler/strategies.py of
GuideLLM 0.8.1 (PyPI); before 0.4 the strategy is under `args`, between them under `scheduler`. Of its metrics
inter_token_latency_ms is a request's decode time over its tokens after the first (TPOT elsewhere), while
time_per_output_token_ms counts the first one too and is not used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from layers.bench_files.fields import Amount, Count, Loose, Place, Positive, milliseconds, validated
from layers.bench_files.result import BenchmarkResult, Latency, Lengths

TOOL = "GuideLLM"
_CLOSED = {"synchronous", "concurrent", "throughput"}


class Percentiles(Loose):
    """The one that is used."""

    p99: Amount | None = None


class Summary(Loose):
    """A distribution over requests."""

    mean: Amount
    median: Amount
    min: Amount | None = None
    max: Amount | None = None
    count: Count
    percentiles: Percentiles = Percentiles()


class ByStatus(Loose):
    """Of requests that succeeded."""

    successful: Summary


class Totals(Loose):
    """How many requests ended how."""

    successful: Count
    errored: Count = 0


class Metrics(Loose):
    """What is used of a benchmark's metrics."""

    request_totals: Totals | None = None
    prompt_token_count: ByStatus
    output_token_count: ByStatus
    inter_token_latency_ms: ByStatus
    time_to_first_token_ms: ByStatus
    iter_tokens_per_iteration: ByStatus | None = None


class Strategy(Loose):
    """How load was made."""

    type_: str = ""
    streams: int | None = Field(default=None, ge=1)
    rate: Positive | None = None
    max_concurrency: int | None = Field(default=None, ge=1)


class Setting(Loose):
    """Where the strategy is written."""

    strategy: Strategy


class Benchmark(Loose):
    """One load."""

    config: Setting | None = None
    scheduler: Setting | None = None
    args: Setting | None = None
    duration: Positive | None = None
    request_totals: Totals | None = None  # before 0.4
    metrics: Metrics


def matches(document: Mapping[str, Any]) -> bool:
    """Whether it is such a report."""
    benchmarks = document.get("benchmarks")
    return isinstance(benchmarks, list) and all(
        isinstance(one, dict) and "metrics" in one for one in benchmarks
    )


def read(document: Mapping[str, Any], place: Place, number: int) -> list[BenchmarkResult]:
    """Return a run for each benchmark; raises InvalidInput."""
    benchmarks = document["benchmarks"]
    if not benchmarks:
        raise place.below("benchmarks").refuse("the report holds no benchmark")
    return [
        _result(one, place.below("benchmarks", index), number + index)
        for index, one in enumerate(benchmarks)
    ]


def _result(document: Mapping[str, Any], place: Place, number: int) -> BenchmarkResult:
    found = validated(Benchmark, document, place, TOOL)
    metrics = found.metrics
    totals = metrics.request_totals or found.request_totals
    completed = totals.successful if totals else metrics.prompt_token_count.successful.count
    if not completed:
        raise place.refuse("no request was completed")
    concurrency, rate, known = _load(found)
    chunk = metrics.iter_tokens_per_iteration
    return BenchmarkResult(
        TOOL,
        place.path,
        number,
        _model(document),
        completed,
        totals.errored if totals else None,
        found.duration,
        _lengths(metrics.prompt_token_count.successful),
        _lengths(metrics.output_token_count.successful),
        _latency(metrics.inter_token_latency_ms.successful),
        Latency(),
        _latency(metrics.time_to_first_token_ms.successful),
        concurrency,
        rate,
        known,
        None,
        chunk.successful.mean if chunk and chunk.successful.count else None,
    )


def _load(found: Benchmark) -> tuple[int | None, float | None, bool]:
    """Return the limit of requests in flight, the rate, and whether the file says them."""
    setting = found.config or found.scheduler or found.args
    if setting is None:
        return None, None, False
    strategy = setting.strategy
    if strategy.type_ in _CLOSED:
        alone = 1 if strategy.type_ == "synchronous" else None
        return strategy.streams or alone or strategy.max_concurrency, None, True
    return strategy.max_concurrency, strategy.rate, strategy.rate is not None


def _model(document: Mapping[str, Any]) -> str:
    """Return the model's name, wherever the version writes it down."""
    for section in ("config", "args"):
        backend = document.get(section)
        backend = backend.get("backend") if isinstance(backend, dict) else None
        model = backend.get("model") if isinstance(backend, dict) else None
        if isinstance(model, str):
            return model
    return ""


def _lengths(summary: Summary) -> Lengths:
    known = summary.min is not None and summary.max is not None
    return Lengths(summary.mean, summary.min == summary.max if known else None)


def _latency(summary: Summary) -> Latency:
    if not summary.count or not math.isfinite(summary.mean):
        return Latency()
    return milliseconds(summary.mean, summary.median, summary.percentiles.p99)
