"""What aiconfigurator-core itself estimates for rows of its tables, by its own code.

Version 0.12.0 computes in its native module alone. `EngineHandle.evaluate_ops_json` takes a list of operations and one
shape and answers in milliseconds, offline, from the tables in a folder that the caller names: in a copy of that folder
without some rows it shows what it would have said, had these never been measured. Its modes (`DatabaseMode`):

- SILICON interpolates in the tables. By default the tables of older versions fill gaps (`enable_shared_layer`).
- EMPIRICAL divides SOL by the utilisation of rows near by; without rows of the system it refuses ("no empirical
  utilisation data"), so for a system that it has no rows of only the next is left.
- SOL is its analytic mode: greatest of FLOPs over peak and bytes over bandwidth.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from aiconfigurator_core import _aiconfigurator_core as native
from aiconfigurator_core.sdk import common, engine, perf_database
from aiconfigurator_core.sdk.operations import attention, communication, gemm, mla, moe

from benchmarks.silicon_rows import Array

Row: TypeAlias = Mapping[str, Any]
Foreign: TypeAlias = Any  # an object of the package


@dataclass(frozen=True, slots=True)
class Question:
    """How a row of one class is asked for."""

    fields: tuple[str, ...]  # that make the operation
    made: Callable[..., Any]  # of those
    shape: Callable[[Row], dict[str, int]]
    is_context: bool = True


def _tokens(column: str) -> Callable[[Row], dict[str, int]]:
    return lambda row: {"batch_size": 1, "s": 1, "x": row[column]}


def _sequences(column: str) -> Callable[[Row], dict[str, int]]:
    return lambda row: {"batch_size": row["batch_size"], "s": row[column]}


def _gemm(dtype: str, n: int, k: int) -> Foreign:
    return gemm.GEMM("op", 1.0, n, k, common.GEMMQuantMode[dtype])


def _context(
    lane: str, computed: str, cached: str, heads: int, shared: int, width: int, window: int
) -> Foreign:
    return attention.ContextAttention(
        "op",
        1.0,
        heads,
        shared,
        common.KVCacheQuantMode[cached],
        common.FMHAQuantMode[computed],
        window,
        width,
        lane_order=[lane],
    )


def _decode(lane: str, cached: str, heads: int, shared: int, width: int, window: int) -> Foreign:
    return attention.GenerationAttention(
        "op",
        1.0,
        heads,
        shared,
        common.KVCacheQuantMode[cached],
        window,
        width,
        lane_order=[lane],
    )


def _encoder(dtype: str, heads: int, width: int) -> Foreign:
    return attention.EncoderAttention("op", 1.0, heads, width, common.FMHAQuantMode[dtype])


def _latent_context(cached: str, heads: int) -> Foreign:
    # Their tables of MLA are keyed by the dtype of the arithmetic too; all rows here have bfloat16.
    return mla.ContextMLA(
        "op", 1.0, heads, common.KVCacheQuantMode[cached], common.FMHAQuantMode.bfloat16
    )


def _latent_decode(cached: str, heads: int) -> Foreign:
    return mla.GenerationMLA("op", 1.0, heads, common.KVCacheQuantMode[cached])


def _expansion(dtype: str, heads: int, name: str) -> Foreign:
    return mla.MLABmm("op", 1.0, heads, common.GEMMQuantMode[dtype], name.endswith("pre"))


def _experts(
    dtype: str,
    hidden: int,
    inner: int,
    top_k: int,
    experts: int,
    split: int,
    spread: int,
    routing: str,
) -> Foreign:
    return moe.MoE(
        "op",
        1.0,
        hidden,
        inner,
        top_k,
        experts,
        split,
        spread,
        common.MoEQuantMode[dtype],
        routing,
        1,
        # Nemotron's experts have no gate.
        is_gated=not ((hidden, inner) == (2688, 1856) or top_k == 22),
    )


def _collective(dtype: str, name: str, devices: str) -> Foreign:
    return communication.NCCL("op", 1.0, name, 1.0, int(devices), common.CommQuantMode[dtype])


def _all_reduce(devices: str) -> Foreign:
    return communication.CustomAllReduce("op", 1.0, 1, int(devices))


QUESTIONS = {
    "GEMM": Question(("gemm_dtype", "n", "k"), _gemm, _tokens("m")),
    "context attention": Question(
        (
            *("kernel_source", "attn_dtype", "kv_cache_dtype"),
            *("num_heads", "num_key_value_heads", "head_dim", "window_size"),
        ),
        _context,
        _sequences("isl"),
    ),
    "decode attention": Question(
        (
            *("kernel_source", "kv_cache_dtype"),
            *("num_heads", "num_key_value_heads", "head_dim", "window_size"),
        ),
        _decode,
        lambda row: {"batch_size": row["batch_size"], "s": row["step"] + 1},
        is_context=False,
    ),
    "encoder attention": Question(
        ("attn_dtype", "num_heads", "head_dim"), _encoder, _sequences("isl")
    ),
    "MLA context": Question(("kv_cache_dtype", "num_heads"), _latent_context, _sequences("isl")),
    "MLA decode": Question(
        ("kv_cache_dtype", "num_heads"),
        _latent_decode,
        lambda row: {"batch_size": row["batch_size"], "s": row["step"] + 1},
        is_context=False,
    ),
    "MLA expansion": Question(
        ("bmm_dtype", "num_heads", "op_name"),
        _expansion,
        lambda row: {"batch_size": row["num_tokens"], "s": 1},
        is_context=False,
    ),
    "experts": Question(
        (
            *("moe_dtype", "hidden_size", "inter_size", "topk", "num_experts"),
            *("moe_tp_size", "moe_ep_size", "distribution"),
        ),
        _experts,
        _tokens("num_tokens"),
    ),
    "collectives": Question(
        ("nccl_dtype", "op_name", "num_gpus"), _collective, _tokens("message_size")
    ),
    "custom all-reduce": Question(("num_gpus",), _all_reduce, _tokens("message_size")),
}


def estimates(frame: pl.DataFrame, operation: str, systems: Path, mode: str) -> Array:
    """Return its seconds for each row, NaN where it refuses; `systems`: folder of its yaml files and tables."""
    question, found = QUESTIONS[operation], np.full(len(frame), np.nan)
    places = frame.with_row_index("place")
    for key, part in places.group_by("system", "framework", "version", maintain_order=True):
        handle = _handle(*map(str, key), systems, mode)
        found[part["place"].to_numpy()] = list(_answers(part, question, handle))
    return found * 1e-3


def _answers(part: pl.DataFrame, question: Question, handle: Foreign) -> Iterator[float]:
    """Yield milliseconds, row by row."""

    @cache
    def spelt(*fields: Foreign) -> str:
        text: str = engine.build_ops_json([question.made(*fields)])
        return text

    for row in part.iter_rows(named=True):
        try:
            operation = spelt(*(row[name] for name in question.fields))
            answers = handle.evaluate_ops_json(
                operation, is_context=question.is_context, **question.shape(row)
            )
        except (KeyError, ValueError, RuntimeError):  # a dtype or a shape that it has nothing of
            yield float("nan")
        else:
            yield answers[0][1]


@lru_cache(maxsize=64)
def _handle(system: str, framework: str, version: str, systems: Path, mode: str) -> Foreign:
    """Return its engine over the tables of one framework, of any where the rows are of a library (NCCL)."""
    if not any(systems.glob(f"data/{system}/*/{framework}/{version}/[!n]*_perf.parquet")):
        framework, version = min(systems.glob(f"data/{system}/gemm/*/*")).parts[-2:]
    view = perf_database.get_database_view(
        system,
        framework,
        version,
        systems_paths=str(systems),
        allow_missing_data=True,
        database_mode=mode,
        allow_unlisted_version=True,
    )
    spec = engine.build_database_probe_spec_json(view, systems_path=str(systems))
    return engine.EngineHandle(
        native.engine_spec_bincode_from_json(spec), systems_path=str(systems)
    )


def without(
    systems: Path, target: Path, held_out: Mapping[str, Callable[[pl.DataFrame], pl.Series]]
) -> None:
    """Copy the folder to `target`; of each table (by its name) leave out the rows that `held_out` says."""
    shutil.copytree(systems, target, ignore=shutil.ignore_patterns("*.parquet"))
    for path in systems.rglob("*.parquet"):
        name = path.stem.removesuffix("_perf")
        if name in held_out:
            frame = pl.read_parquet(path)
            frame.filter(~held_out[name](frame)).write_parquet(target / path.relative_to(systems))
