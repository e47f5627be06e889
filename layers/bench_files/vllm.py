"""Results of `vllm bench serve --save-result` (formerly benchmark_serving.py): one JSON object a run.

Schema: `main_async` and `benchmark` in vllm/benchmarks/serve.py of vllm-project/vllm. `--append-result` puts
further objects on lines of their own, `--save-detailed` adds lists of each request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field

from layers.bench_files.fields import Amount, Count, Loose, Place, Positive, milliseconds, validated
from layers.bench_files.result import BenchmarkResult, Latency, Lengths

TOOL = "vLLM"


class Run(Loose):
    """What is used of a run."""

    model_id: str | None = None
    request_rate: Positive | Literal["inf", "trace"] | None = None
    max_concurrency: int | None = Field(default=None, ge=1)
    duration: Positive
    completed: Count
    failed: Count | None = None
    total_input_tokens: Amount
    total_output_tokens: Amount
    mean_ttft_ms: Amount | None = None
    median_ttft_ms: Amount | None = None
    p99_ttft_ms: Amount | None = None
    mean_tpot_ms: Amount | None = None
    median_tpot_ms: Amount | None = None
    p99_tpot_ms: Amount | None = None
    mean_itl_ms: Amount | None = None
    median_itl_ms: Amount | None = None
    p99_itl_ms: Amount | None = None
    spec_decode_acceptance_length: Positive | None = None
    input_lens: list[Count] | None = None
    output_lens: list[Count] | None = None

    def latency(self, name: str) -> Latency:
        """Return `ttft`, `tpot` or `itl`."""
        mean, median, p99 = (
            getattr(self, f"{kind}_{name}_ms") for kind in ("mean", "median", "p99")
        )
        return milliseconds(mean, median, p99)


R = TypeVar("R", bound=Run)


def matches(document: Mapping[str, Any]) -> bool:
    """Whether it is such a result; that of SGLang has other keys for the same."""
    return (
        "total_output_tokens" in document
        and {"model_id", "tokenizer_id"} & document.keys() != set()
    )


def read(document: Mapping[str, Any], place: Place, number: int) -> list[BenchmarkResult]:
    """Return the run of a document; raises InvalidInput."""
    run = checked(Run, document, place, TOOL)
    found = (
        lengths(run.total_input_tokens, run.completed, run.input_lens),
        lengths(run.total_output_tokens, run.completed, run.output_lens),
    )
    drafts = run.spec_decode_acceptance_length
    return [result(TOOL, document, place, number, run, found, drafts)]


def result(
    tool: str,
    document: Mapping[str, Any],
    place: Place,
    number: int,
    run: Run,
    found: tuple[Lengths, Lengths],
    drafts: float | None,
) -> BenchmarkResult:
    """Return a run of either tool; `found` are its lengths in and out."""
    return BenchmarkResult(
        tool,
        place.path,
        number,
        run.model_id or "",
        run.completed,
        run.failed,
        run.duration,
        *found,
        run.latency("tpot"),
        run.latency("itl"),
        run.latency("ttft"),
        run.max_concurrency,
        asked(run),
        "request_rate" in document or run.max_concurrency is not None,
        drafts,
    )


def lengths(total: float, requests: int, each: list[int] | None) -> Lengths:
    """Return mean lengths; whether they are all alike is known where each is listed."""
    return Lengths(total / requests, len(set(each)) == 1 if each else None)


def checked(model: type[R], document: Mapping[str, Any], place: Place, tool: str) -> R:
    """Return a run that completed a request; an infinite rate becomes the text that newer versions write."""
    rate = document.get("request_rate")
    endless = isinstance(rate, float) and math.isinf(rate) and rate > 0
    run = validated(model, {**document, "request_rate": "inf" if endless else rate}, place, tool)
    if not run.completed:
        raise place.below("completed").refuse("no request was completed")
    return run


def asked(run: Run) -> float | None:
    """Return the rate; a trace's is what was achieved, as it is replayed whatever the server does."""
    if run.request_rate == "trace":
        return run.completed / run.duration
    return math.inf if run.request_rate == "inf" else run.request_rate
