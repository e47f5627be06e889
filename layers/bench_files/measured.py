"""From a benchmark to the decode step that it measured: batch, context, time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from layers.bench_files.result import BenchmarkResult
from layers.errors import InvalidInput, Location

ONE_TO_ONE = 0.05  # how far chunks may be from one token each
LEAST_SHARE = 0.5  # of the median TPOT: shorter median gaps are chunks that arrived together


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """What `fvec floor` is asked: a step and its time, with how each was found."""

    batch: float  # sequences that decode at once, over all devices
    context: float  # tokens in the cache of each
    new_tokens: float  # of each sequence in a step
    measured_s: float  # median time of a step
    p99_s: float | None  # of the time between tokens, what an SLO is held to
    how: tuple[str, ...]
    doubts: tuple[str, ...]


def measured_step(result: BenchmarkResult) -> MeasuredStep:
    """Return the step that a benchmark measured; raises InvalidInput where it measured none."""
    batch, of_batch = _batch(result)
    context, of_context = _context(result)
    step_s, of_step = _step(result)
    new_tokens = max(1.0, result.tokens_per_step or 1.0)
    how = [of_batch, of_context, of_step]
    if new_tokens > 1:
        how.append(
            f"{new_tokens:.3g} tokens a sequence and step: accepted drafts, at least so many"
        )
    return MeasuredStep(
        batch, context, new_tokens, step_s, result.tpot.p99_s, tuple(how), result.doubts
    )


def _batch(result: BenchmarkResult) -> tuple[float, str]:
    """Return the mean number of sequences in decode by Little's law, at least one.

    Each answer decodes for (tokens - 1) times its TPOT: all of that over the duration is their mean number.
    """
    tpot, gap = result.tpot, result.itl
    each_s = tpot.mean_s or tpot.median_s or gap.mean_s or gap.median_s
    if each_s is not None and result.duration_s:
        decoding_s = result.completed * max(0.0, result.outputs.mean - 1) * each_s
        batch = max(1.0, decoding_s / result.duration_s)
        said = f"batch {batch:.4g}: mean sequences in decode, {decoding_s:.4g} s of decoding in "
        said += f"{result.duration_s:.4g} s"
        if result.concurrency and batch > result.concurrency:
            batch = float(result.concurrency)
            said = f"batch {batch:.4g}: the most that was in flight"
        return batch, said
    if result.concurrency and not result.paced:
        batch = float(result.concurrency)
        return batch, f"batch {batch:.4g}: requests in flight, those in prefill too"
    raise _none(result, "neither duration nor concurrency: how many sequences decoded is unknown")


def _context(result: BenchmarkResult) -> tuple[float, str]:
    """Return the mean tokens in the cache of a sequence in decode: prompt and half the answer."""
    context = result.inputs.mean + result.outputs.mean / 2
    said = f"context {context:.6g}: {result.inputs.mean:.6g} of prompt and half of "
    return context, f"{said}{result.outputs.mean:.6g} of answer"


def _step(result: BenchmarkResult) -> tuple[float, str]:
    """Return the median time of a step: between chunks where each is a token, else from TPOT."""
    tpot, gap = result.tpot.median_s or result.tpot.mean_s, result.itl.median_s
    if gap and (tpot is None or (gap >= LEAST_SHARE * tpot and _is_a_step(result))):
        said = f"step {1e3 * gap:.4g} ms: median between tokens"
        if tpot is None:
            said += ", each chunk taken for one (no TPOT in the file)"
        elif abs(gap / tpot - 1) > ONE_TO_ONE:
            said += f"; median TPOT is {1e3 * tpot:.4g} ms, with the prefill of others in it"
        return gap, said
    if not tpot:
        raise _none(result, "no TPOT: answers of one token, or not streamed, have no decode step")
    accepted = max(1.0, result.tokens_per_step or 1.0)
    said = f"step {1e3 * tpot * accepted:.4g} ms: median TPOT, prefill of others in it"
    if accepted > 1:
        said += f", times {accepted:.3g} tokens a step"
    return tpot * accepted, said


def _is_a_step(result: BenchmarkResult) -> bool:
    """Whether a chunk is one token of one step."""
    if (result.tokens_per_step or 1.0) > 1 + ONE_TO_ONE:
        return False
    if result.tokens_per_chunk is not None:
        return abs(result.tokens_per_chunk - 1) <= ONE_TO_ONE
    gap, token = result.itl.mean_s, result.tpot.mean_s
    return gap is not None and token is not None and abs(gap / token - 1) <= ONE_TO_ONE


def _none(result: BenchmarkResult, reason: str) -> InvalidInput:
    path: Path = result.path
    hint = "give --batch, --context and --measured instead"
    return InvalidInput(f"run {result.number}: {reason}", at=Location(path), hint=hint)
