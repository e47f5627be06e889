"""Results of SGLang's bench_serving: one JSON object a line and run, appended to a JSONL file.

Schema: `result` in sglang/benchmark/serving.py of SGLang 0.5.23 (PyPI); python/sglang/bench_serving.py before.
`request_rate` is infinite without a rate, "trace" where timestamps of a trace are replayed. Its ITL divides
the time between chunks by their tokens, TPOT excludes the first token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from layers.bench_files.fields import Place
from layers.bench_files.result import BenchmarkResult, Lengths
from layers.bench_files.vllm import Run, checked, lengths, result

TOOL = "SGLang"
_OWN = {"total_output_tokens_retokenized", "mean_e2e_latency_ms", "accept_length"}


class SglangRun(Run):
    """What is used of a run; most keys are those of vLLM, from which the script began."""

    random_input_len: int | None = Field(default=None, ge=0)
    random_output_len: int | None = Field(default=None, ge=0)
    random_range_ratio: float | None = Field(default=None, ge=0)
    dataset_name: str | None = None
    accept_length: float | None = Field(default=None, ge=0)


def matches(document: Mapping[str, Any]) -> bool:
    """Whether it is such a result."""
    return "total_output_tokens" in document and bool(_OWN & document.keys())


def read(document: Mapping[str, Any], place: Place, number: int) -> list[BenchmarkResult]:
    """Return the run of a document; raises InvalidInput."""
    run = checked(SglangRun, document, place, TOOL)
    drafts = run.accept_length if run.accept_length and run.accept_length > 1 else None
    found = (
        _lengths(run, run.total_input_tokens, run.input_lens),
        _lengths(run, run.total_output_tokens, run.output_lens),
    )
    return [result(TOOL, document, place, number, run, found, drafts)]


def _lengths(run: SglangRun, total: float, each: list[int] | None) -> Lengths:
    """Return mean lengths; random ones are all alike where they are drawn from one length on."""
    found = lengths(total, run.completed, each)
    drawn = (run.dataset_name or "").startswith("random") and run.random_range_ratio is not None
    if found.constant is None and drawn:
        return Lengths(found.mean, run.random_range_ratio == 1)
    return found
