"""Measured operations of aiconfigurator-core, each row with its floor.

What the tables of aiconfigurator-core 0.12.0 hold, from the data, its SDK and the collectors of
github.com/ai-dynamo/aiconfigurator (`collector/`):

- Time. `latency` is milliseconds of one call, the mean of some (6 to 20) after a warm-up, as CUDA graph where the
  kernel allows; exchange of experts (`moe_a2a`, `*_us`) is in microseconds. A call of GEMM with a dtype under 16 bits
  quantises its activations first: two kernels, 16-bit activations in. Attention of a framework may write the cache too.
  A module (`mla_*_module`, `wideep_*_mla`) is a whole attention layer, projections and norms included.
- Cache. The same operands come again and again, so what fits the last-level cache need not come from HBM. Only GEMM
  takes several weights in turn: six (SGLang; vLLM, but one for fp8_block and nvfp4), or as many as fill the cache, at
  most five (TensorRT-LLM 1.3); the older `int8_wo`, `int4_wo` and `sq` one.
- Attention. `step` tokens are in the cache of a decoding sequence. SGLang's head width 192 is MiMo-V2: values are 128
  wide. Its window of 8192 is Llama-4's: chunks, not a sliding window. TensorRT-LLM 1.0.0 decoded from a cache that holds
  keys only (`CacheType.SELFKONLY`): values are the same bytes. `attn_dtype` says bfloat16 where the cache is fp8 even
  if the kernel then computes in fp8. `num_heads` are those of one device.
- Experts. `num_tokens` are those of all `moe_ep_size` devices; what is measured is the device with most pairs. Routing
  is `balanced` (token t takes experts t + i E/k, spaced evenly where there are few tokens) or a power law of random
  counts. vLLM 0.24 spaces balanced experts in bfloat16: ids above 256 collapse onto fewer. DeepSeek-V3 routes to four
  of eight groups, so at most half of the experts are met. TensorRT-LLM's min_latency kernel reads fewer experts than
  its logits name; only those of one token are taken for certain. Nemotron's experts have no gate: two matrices.
- Collectives. `message_size` counts elements of the whole buffer of one device (nccl-tests: of the larger one), not bytes.
  Exchange of experts (DeepEP): `num_tokens` are those of one device, each sent once to every device that has an expert of it.

Not here: sparse-attention modules (DSA, MSA, DeepSeek-V4), quantisation kernels, hyper-connections, and the
convolution in front of linear attention: rows of some collectors take less time than reading the named input once,
so not all of it was convolved.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from layers.floor.hardware import Hardware
from layers.hardware_cards import read

Array: TypeAlias = NDArray[np.float64]

PACKAGE = "aiconfigurator_core"
CARDS = {
    "a100_sxm": "nvidia-a100-sxm",
    "b200_sxm": "nvidia-b200",
    "b300_sxm": "nvidia-b300",
    "b60": "intel-arc-pro-b60",
    "gb200": "nvidia-gb200",
    "gb300": "nvidia-gb300",
    "h100_sxm": "nvidia-h100-sxm",
    "h200_sxm": "nvidia-h200-sxm",
    "l40s": "nvidia-l40s",
    "rtx_pro_6000_server": "nvidia-rtx-pro-6000",
}
LABELS = ("system", "framework", "version", "kernel_source", "table")
NARROWER = {"fp4": "fp8", "fp8": "bf16", "int8": "bf16"}  # the next dtype where a device lacks one


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one table with equal words: numbers as columns."""

    frame: pl.DataFrame
    words: Mapping[str, str]
    hardware: Hardware

    def __getitem__(self, column: str) -> Array:
        """Return a column of numbers."""
        found: Array = self.frame[column].to_numpy().astype(np.float64)
        return found

    def math(self, dtype: str) -> str:
        """Return the dtype that the device computes in where `dtype` is asked for."""
        while dtype not in self.hardware.flops_per_s:
            dtype = NARROWER[dtype]
        return dtype


Seconds: TypeAlias = Callable[[Rows], Array]


@dataclass(frozen=True, slots=True)
class Table:
    """Tables of one class: which words tell rows apart, and how a floor comes of a row."""

    operation: str
    files: tuple[str, ...]
    dtype: tuple[str, ...]  # words that name the dtype
    words: tuple[str, ...]  # other words that the floor asks for
    shape: tuple[str, ...]  # numbers (and words) that make two rows the same call
    floor_s: Seconds
    latency: tuple[str, ...] = ("latency",)  # columns, added
    unit_s: float = 1e-3  # seconds of one of them
    without: str = "^$"  # kernels left out, a regular expression


def installed() -> Path | None:
    """Return the folder of the package's data, None where it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "systems" / "data"


@cache
def device(system: str) -> Hardware:
    """Return the hardware of one system of the package, from its card."""
    return read(CARDS[system])


def measured(root: Path, table: Table) -> pl.DataFrame:
    """Return all rows of a table with `floor_s`, `latency_s`, `system`, `family`, `dtype`, `backend`, `version`."""
    frame = _read(root, table)
    found = [_with_floor(table, part) for part in _parts(frame, table)]
    return pl.concat(found, how="diagonal_relaxed")


def _with_floor(table: Table, rows: Rows) -> pl.DataFrame:
    """Return what of the rows is compared: times in seconds, and what makes two of them one call."""
    backend = pl.concat_str("framework", "version", "kernel_source", separator=" ")
    shape = pl.struct(*table.shape, *table.dtype) if table.shape else pl.lit(0)
    return rows.frame.select(
        *dict.fromkeys((*LABELS, *table.dtype, *table.shape)),
        operation=pl.lit(table.operation),
        family=pl.lit(rows.hardware.family),
        dtype=pl.lit("/".join(rows.words[word] for word in table.dtype)),
        backend=backend.hash(),
        shape=shape.hash(),
        latency_s=pl.sum_horizontal(table.latency) * table.unit_s,
        floor_s=pl.Series(table.floor_s(rows)),
    )


def _read(root: Path, table: Table) -> pl.DataFrame:
    frames = []
    for path in sorted(p for name in table.files for p in root.rglob(f"{name}_perf.parquet")):
        system, version = path.relative_to(root).parts[0], path.parent.name
        frames.append(
            pl.scan_parquet(path).with_columns(
                system=pl.lit(system), version=pl.lit(version), table=pl.lit(path.stem)
            )
        )
    frame = pl.concat(frames, how="diagonal_relaxed").collect()
    words = {"kernel_source", *table.dtype, *table.words}
    known = [pl.col(name).cast(pl.String).fill_null("") for name in sorted(words)]
    numbers = [pl.col(name).fill_null(0) for name in table.shape if name not in words]
    frame = frame.with_columns(pl.col("framework").str.to_lowercase(), *known, *numbers)
    return frame.filter(~pl.col("kernel_source").str.contains(table.without))


def _parts(frame: pl.DataFrame, table: Table) -> Iterator[Rows]:
    names = ["system", "framework", "version", "table", *table.dtype, *table.words]
    devices = {system: device(system) for system in frame["system"].unique()}
    for key, part in frame.group_by(names, maintain_order=True):
        words = dict(zip(names, map(str, key), strict=True))
        yield Rows(part, words, devices[words["system"]])
