"""All model configurations of aiconfigurator-core, each accounted or refused: `model_configs.py [FOLDER]`.

A line says how many parameters a configuration comes to, how many of them one token meets, and whether
that is what the model's name or its publisher states. Names state rounded numbers, so a line says how it
agrees: within 1 %, by rounding to the digits stated, or by cutting them off.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from layers.floor.account import Account
from layers.floor.configs import ConfigError, read
from layers.floor.floors import floor
from layers.floor.hardware import Hardware
from layers.floor.layout import Layout
from layers.floor.model import Model
from layers.floor.modules import Embedding, Head, Place, Step, Tower
from layers.floor.precision import Format, Precision

PACKAGE = "aiconfigurator_core"
SUFFIX, QUANTISED = "_config.json", "_hf_quant_config.json"
UNITS = {"B": 1e9, "T": 1e12}
ROOMY = Hardware("any", 1e15, 1e12, {"fp4": 1e15, "fp8": 1e15, "int8": 1e15, "bf16": 1e15})

# Totals and active parameters that publishers state where a name does not, or where it does so with
# fewer digits: model cards of the repositories on huggingface.co, and announcements.
PUBLISHED = {
    "Qwen--Qwen3-30B-A3B": ("30.5B", "3.3B"),
    "Qwen--Qwen3-32B": ("32.8B", None),
    "Qwen--Qwen3-8B": ("8.2B", None),
    "deepseek-ai--DeepSeek-R1": ("671B", "37B"),
    "deepseek-ai--DeepSeek-V3": ("671B", "37B"),
    "nvidia--DeepSeek-V3": ("671B", "37B"),
    "deepseek-ai--DeepSeek-V4-Flash": ("284B", "13B"),
    "nvidia--DeepSeek-V4-Flash": ("284B", "13B"),
    "sgl-project--DeepSeek-V4-Flash": ("284B", "13B"),
    "deepseek-ai--DeepSeek-V4-Pro": ("1.6T", "49B"),
    "nvidia--DeepSeek-V4-Pro": ("1.6T", "49B"),
    "sgl-project--DeepSeek-V4-Pro": ("1.6T", "49B"),
    "meta-llama--Llama-4-Maverick": ("400B", "17B"),
    "meta-llama--Llama-4-Scout": ("109B", "17B"),
    "mistralai--Mixtral-8x22B": ("141B", "39B"),  # mistral.ai/news/mixtral-8x22b
    "mistralai--Mixtral-8x7B": ("46.7B", "12.9B"),  # mistral.ai/news/mixtral-of-experts
    "moonshotai--Kimi-K2": ("1T", "32B"),
    "nvidia--Kimi-K2": ("1T", "32B"),
    "moonshotai--Kimi-K3": ("2.8T", None),  # aiconfigurator-core 0.12.0, sdk/models/kimi_k3.py
    "MiniMaxAI--MiniMax-M2": ("230B", "10B"),
    "nvidia--MiniMax-M2": ("230B", "10B"),
    "MiniMaxAI--MiniMax-M3": ("428B", "23B"),
    "nvidia--MiniMax-M3": ("428B", "23B"),
    "XiaomiMiMo--MiMo-V2-Flash": ("309B", "15B"),
    "stepfun-ai--Step-3.7-Flash": ("196B", "11B"),  # of the language model
    "zai-org--GLM-5": ("744B", "40B"),  # arXiv 2602.15763
    "nvidia--GLM-5": ("744B", "40B"),
    "nvidia--NVIDIA-Nemotron-3-Nano-30B": ("31.6B", "3.2B"),
    "nvidia--NVIDIA-Nemotron-3.5-Lightning-30B": ("31.6B", "3.2B"),  # the same layers
    "openai--gpt-oss-120b": ("117B", "5.1B"),
    "openai--gpt-oss-20b": ("21B", "3.6B"),
}
# Figures that a file cannot come to, and why.
LEFT_OUT = {
    "meta-llama--Llama-4-Scout": "the package's file leaves out the vision tower, 0.87 B of the 109 B",
}
# `-235B-A22B`; not `-8x7B`, not `-17B-128E`, whose figures are of an expert or of what is active.
_IN_NAME = re.compile(
    r"-(\d+(?:\.\d+)?)B(?:-A(\d+(?:\.\d+)?)B)?(?!-\d+E)(?![0-9a-z])", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Line:
    """One configuration: what it comes to and what is stated, or why it is refused."""

    name: str
    model: Model | None = None
    precision: Precision | None = None
    refused: str = ""

    @property
    def stated(self) -> tuple[str | None, str | None]:
        """Total and active parameters as published, else as the name says them."""
        known = [prefix for prefix in PUBLISHED if self.name.startswith(prefix)]
        if known:
            return PUBLISHED[max(known, key=len)]
        found = _IN_NAME.search(self.name)
        if found is None:
            return None, None
        return f"{found[1]}B", f"{found[2]}B" if found[2] else None

    @property
    def total(self) -> str:
        """How the total agrees, empty where none is stated."""
        if self.model is None or self.stated[0] is None:
            return ""
        whole = self.model.parameters()
        towers = _sum(self.model, Tower)
        readings = {"": whole}
        if towers:
            readings["without vision"] = whole - towers
        return agreement(self.stated[0], readings)

    @property
    def active(self) -> str:
        """How the active parameters agree: publishers count the tables of tokens, or not."""
        if self.model is None or self.stated[1] is None:
            return ""
        met = self.model.active_parameters()
        return agreement(
            self.stated[1],
            {
                "": met,
                "with the embedding": met + _sum(self.model, Embedding),
                "without the head": met - _sum(self.model, Head),
            },
        )


def agreement(stated: str, readings: dict[str, float]) -> str:
    """Return how one of several readings is the figure that is stated, `off by ..` where none is.

    `12B` is a figure of no digits after the point; the closest kind of agreement is named.
    """
    figure, unit = float(stated[:-1]), UNITS[stated[-1]]
    step = 10.0 ** -len(stated[:-1].partition(".")[2])
    kinds: dict[str, Callable[[float], bool]] = {
        "1 %": lambda value: abs(value / figure - 1) <= 0.01,
        "rounded": lambda value: abs(value - figure) <= step / 2,
        "cut off": lambda value: figure <= value < figure + step,
    }
    for kind, agrees in kinds.items():
        for reading, value in readings.items():
            if agrees(value / unit):
                return f"{kind}, {reading}" if reading else kind
    return f"off by {next(iter(readings.values())) / unit / figure - 1:+.1%}"


def installed() -> Path | None:
    """Return the package's folder of configurations, None where it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "model_configs"


def lines(folder: Path) -> Iterator[Line]:
    """Yield a line for each configuration in a folder, with the quantisation config beside it."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if path.name.endswith(QUANTISED):
            continue
        name = path.name.removesuffix(SUFFIX)
        beside = folder / f"{name}{QUANTISED}"
        quantised = json.loads(beside.read_text()) if beside.is_file() else None
        try:
            model, precision = read(json.loads(path.read_text()), quantised, name=name)
        except ConfigError as error:
            yield Line(name, refused=str(error).replace("\n", " "))
        else:
            yield Line(name, model, precision)


def _sum(model: Model, kind: type[Embedding] | type[Head] | type[Tower]) -> float:
    """Return the parameters of a kind of part; of a tied head, those of the table that it shares."""
    return sum(
        part.module.active_parameters()
        if isinstance(part.module, Head)
        else part.module.parameters()
        for part in model.parts
        if isinstance(part.module, kind)
    )


def kept_bytes(line: Line) -> float:
    """Return the bytes of all weights on one device; a line that was refused has none."""
    if line.model is None or line.precision is None:
        return 0.0
    return float(_account(line.model, line.precision).resident_bytes)


def _account(model: Model, precision: Precision) -> Account:
    return floor(model, Step(1.0, 8192.0), Place(Layout(), ROOMY, precision)).whole


def _row(line: Line) -> list[str]:
    if line.model is None or line.precision is None:
        return [line.name, f"refused: {line.refused}"]
    model, precision, whole = line.model, line.precision, _account(line.model, line.precision)
    total, active = line.stated
    return [
        line.name,
        f"{model.parameters() / 1e9:.2f}",
        f"{total} ({line.total})" if total else "",
        f"{model.active_parameters() / 1e9:.2f}",
        f"{active} ({line.active})" if active else "",
        f"{model.draft_parameters() / 1e9:.2f}" if model.draft else "",
        "/".join(map(_shown, (precision.weights, precision.experts, precision.cache))),
        f"{whole.resident_bytes / 1e9:.1f}",
        f"{whole.cache_bytes_per_token:.0f}",
        f"{whole.state_bytes_per_sequence / 1e6:.1f}",
    ]


def _shown(stored: Format) -> str:
    return stored if isinstance(stored, str) else "mixed"


HEADINGS = (
    "configuration",
    "billions",
    "stated",
    "active",
    "stated active",
    "draft",
    "weights/experts/cache",
    "weights GB",
    "cache B/token",
    "state MB/sequence",
)


def table(rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    body = [HEADINGS, ["---"] * len(HEADINGS), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in body)


def main(argv: list[str]) -> int:
    """Print the table and its sums; return 1 where a stated number is missed, 2 for no folder."""
    folder = Path(argv[0]) if argv else installed()
    if folder is None or not folder.is_dir():
        sys.stderr.write(
            f"{folder or PACKAGE}: no configurations; pip install aiconfigurator-core\n"
        )
        return 2
    found = list(lines(folder))
    sys.stdout.write(f"{table(map(_row, found))}\n\n")
    beside = len(list(folder.glob(f"*{QUANTISED}")))
    sys.stdout.write(f"{len(found)} configurations, {beside} quantisation configs beside them\n")
    for word, seen in (("total", [x.total for x in found]), ("active", [x.active for x in found])):
        kinds = Counter(text.partition(",")[0] or "not stated" for text in seen)
        sys.stdout.write(f"{word}: {', '.join(f'{n} {kind}' for kind, n in kinds.most_common())}\n")
    sys.stdout.write(f"refused: {sum(line.model is None for line in found)}\n")
    return _tell_missed(found)


def _tell_missed(found: Iterable[Line]) -> int:
    """Print what is stated and missed, with the reason where there is one; return 1 where there is none."""
    code = 0
    for line in found:
        if not (line.total.startswith("off") or line.active.startswith("off")):
            continue
        why = [reason for prefix, reason in LEFT_OUT.items() if line.name.startswith(prefix)]
        sys.stdout.write(f"missed: {line.name}{': ' if why else ''}{' '.join(why)}\n")
        code = code if why else 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
