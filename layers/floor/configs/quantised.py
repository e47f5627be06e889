"""Quantisation configs: in which format a checkpoint keeps each matrix, and in what it is multiplied.

Read: `quantization_config` of Hugging Face (fp8, mxfp4, gptq, awq, compressed-tensors, modelopt) and
ModelOpt's `hf_quant_config.json`. Anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate

from layers.floor.configs.keys import ConfigError, Keys

MOST_NAMES = 1_000_000
MOST_PATTERNS = 64


@dataclass(frozen=True, slots=True)
class Numbers:
    """How a matrix is stored, and in which dtype it is multiplied."""

    stored: str
    math: str


FP8, FP8_BLOCK = Numbers("fp8", "fp8"), Numbers("fp8_block", "fp8")
NVFP4 = Numbers("nvfp4", "fp4")
# No activations are stated for MXFP4: engines multiply it with MXFP8 ones where they can (gpt-oss on
# Blackwell, DeepSeek-V4), and a floor takes the faster.
MXFP4 = Numbers("mxfp4", "fp8")

MODELOPT = {
    "FP8": FP8,
    "FP8_PER_CHANNEL_PER_TOKEN": FP8,
    "FP8_PB_WO": FP8_BLOCK,
    "FP8_BLOCK_SCALES": FP8_BLOCK,
    "NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4,
    "W4A16_NVFP4": Numbers("nvfp4", "bf16"),
    "W4A8_NVFP4_FP8": Numbers("nvfp4", "fp8"),
    "MXFP8": Numbers("mxfp8", "fp8"),
    "MXFP4": MXFP4,
    "W4A8_MXFP4_FP8": MXFP4,
    "W4A16_AWQ": Numbers("int4", "bf16"),
    "W4A8_AWQ": Numbers("int4", "fp8"),
    "INT8_SQ": Numbers("int8", "int8"),
    "W8A8_SQ_PER_CHANNEL": Numbers("int8", "int8"),
}
CACHES = {"FP8": "fp8", "NVFP4": "nvfp4", "INT8": "int8"}


class Names:
    """Modules that a quantisation config names: by whole parts of a path, `*` and `?`, or `re:`."""

    def __init__(self, patterns: Iterable[object], place: str) -> None:
        """Sort the patterns; ConfigError for one that is no text, or a regex beyond the plain ones."""
        self._plain: set[str] = set()
        self._stems: set[str] = set()
        self._others: list[re.Pattern[str]] = []
        for pattern in patterns:
            if not isinstance(pattern, str) or len(pattern) > 500:
                raise ConfigError(f"{place}: {str(pattern)[:60]!r} is no name of a module")
            self._add(pattern, place)
        if len(self._plain) > MOST_NAMES or len(self._others) > MOST_PATTERNS:
            raise ConfigError(f"{place}: more than {MOST_PATTERNS} patterns or {MOST_NAMES} names")

    def _add(self, pattern: str, place: str) -> None:
        if pattern.startswith("re:"):
            self._others.append(_plain_regex(pattern[3:], place))
        elif pattern.endswith("*") and not set(pattern[:-1]) & set("*?["):
            self._stems.add(pattern[:-1])
        elif set(pattern) & set("*?["):
            self._others.append(re.compile(translate(pattern)))
            self._others.append(re.compile(translate(f"{pattern}.*")))
        else:
            self._plain.add(pattern)

    def __bool__(self) -> bool:
        """Return whether anything is named."""
        return bool(self._plain or self._stems or self._others)

    def __contains__(self, name: object) -> bool:
        """Return whether a module, or one that it is part of, is named."""
        if not isinstance(name, str):
            return False
        if any(name[:end] in self._stems for end in range(len(name) + 1)):
            return True
        if self._plain and any(run in self._plain for run in _runs(name)):
            return True
        return any(pattern.match(name) for pattern in self._others)


def _runs(name: str) -> Iterable[str]:
    """Yield every run of whole parts of a dotted name."""
    parts = name.split(".")
    for start in range(len(parts)):
        for end in range(start + 1, len(parts) + 1):
            yield ".".join(parts[start:end])


# What such configs use: literals, `.*`, digits, alternatives of literals. A pattern from outside that
# could backtrack without end is not compiled.
_PIECE = r"(?:[\w/-]|\\[.\-/]|\.[*+]?|\\d[*+]?|\[0-9\][*+]?|\((?:\?:)?[\w.\\|/-]+\)|\^|\$)"
_REGEX = re.compile(f"{_PIECE}*")
_MOST_REPEATS = 4


def _plain_regex(pattern: str, place: str) -> re.Pattern[str]:
    if not _REGEX.fullmatch(pattern) or len(re.findall(r"[*+]", pattern)) > _MOST_REPEATS:
        raise ConfigError(
            f"{place}: 're:{pattern[:60]}' is not declared",
            f"read are literals, (a|b), \\d+ and at most {_MOST_REPEATS} of .* and the like",
        )
    return re.compile(pattern)


@dataclass(frozen=True, slots=True)
class Scheme:
    """In which format each matrix of a checkpoint is."""

    base: Numbers  # of what is not quantised
    every: Numbers | None = None  # of each linear layer that nothing else says
    experts: Numbers | None = None  # of routed experts, where they differ
    kept: Names = field(default_factory=lambda: Names((), ""))  # in `base`, whatever `every` says
    listed: Sequence[tuple[Names, Numbers]] = ()  # by name, before all others
    cache: str | None = None  # None: not stated

    @property
    def by_name(self) -> bool:
        """Whether a format may depend on a matrix's name."""
        return bool(self.kept) or any(listed for listed, _ in self.listed)

    def numbers(self, names: Sequence[str], *, expert: bool, linear: bool) -> Numbers:
        """Return the format of a matrix by the names that it may have.

        What is not a linear layer of a block (embedding, head, router, convolution) stays in `base`
        unless it is listed by name.
        """
        for listed, found in self.listed:
            if any(name in listed for name in names):
                return found
        if not linear or any(name in self.kept for name in names):
            return self.base
        return (self.experts if expert else None) or self.every or self.base


def scheme(found: object, base: Numbers, place: str = "quantization_config") -> Scheme:
    """Return what a quantisation config says. Raises ConfigError for a method that is not declared."""
    if found is None:
        return Scheme(base)
    keys = Keys(found, place)
    inner = keys.section("quantization")  # hf_quant_config.json
    if inner is not None:
        return _modelopt(inner, base)
    method = keys.text("quant_method", default="modelopt" if keys.has("quant_algo") else "")
    reader = READERS.get(method)
    if reader is None:
        raise ConfigError(
            f"{keys.at('quant_method')}: {method[:60]!r} is not declared",
            f"declared: {', '.join(READERS)}; declare another in layers/floor/configs/quantised.py",
        )
    return reader(keys, base)


def _names(keys: Keys, *names: str) -> Names:
    value = keys.any(*names)
    if value is None:
        return Names((), "")
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{keys.at(names[0])}: not a list")
    return Names(value, keys.at(names[0]))


def _fp8(keys: Keys, base: Numbers) -> Scheme:
    """Read block or tensor scales; ModelOpt may list other formats for some layers on top."""
    block = keys.any("weight_block_size")
    if block not in (None, [128, 128]):
        raise ConfigError(f"{keys.at('weight_block_size')}: {str(block)[:40]} is not declared")
    every = FP8_BLOCK if block else FP8
    kept = _names(keys, "modules_to_not_convert", "ignored_layers")
    return Scheme(base, every, kept=kept, listed=_listed(keys))


def _mxfp4(keys: Keys, base: Numbers) -> Scheme:
    """Read gpt-oss: experts alone are quantised."""
    return Scheme(base, experts=MXFP4, kept=_names(keys, "modules_to_not_convert"))


def _integers(keys: Keys, base: Numbers) -> Scheme:
    """Read GPTQ and AWQ: whole numbers in groups along a row, multiplied in 16 bits."""
    bits = keys.count("bits", "w_bit", most=16)
    group = keys.count("group_size", "q_group_size", default=128, least=-1)
    keys.refuse("dynamic", unless={})  # another format for some modules
    every = _grouped(keys, bits, group, base.math)
    head = Names(["lm_head"] if keys.flag("lm_head", default=False) else [], "lm_head")
    kept = _names(keys, "modules_to_not_convert")
    return Scheme(base, every, kept=kept, listed=[(head, every)])


def _grouped(keys: Keys, bits: int, group: int, math: str) -> Numbers:
    if bits not in (4, 8) or group == 0:
        raise ConfigError(f"{keys.at('bits')}: integers of {bits} bits in {group} are not declared")
    whole_rows = {4: "int4_row", 8: "int8"}[bits]
    return Numbers(f"int{bits}/{group}" if group > 0 else whole_rows, math)


def _compressed_tensors(keys: Keys, base: Numbers) -> Scheme:
    keys.refuse("sparsity_config", unless={})
    groups = keys.section("config_groups")
    if groups is None:
        raise ConfigError(f"{keys.at('config_groups')} is missing")
    every: Numbers | None = None
    listed: list[tuple[Names, Numbers]] = []
    for name in groups.names():
        group = groups.section(name)
        if group is None:
            continue
        numbers = _group(group, base)
        if group.any("targets") in (None, ["Linear"]):
            every = numbers
        else:
            listed.append((_names(group, "targets"), numbers))
    kept = _names(keys, "ignore")
    return Scheme(base, every, kept=kept, listed=listed, cache=_cache(keys, "kv_cache_scheme"))


def _group(keys: Keys, base: Numbers) -> Numbers:
    """Return the format of a group: weights, and activations unless they stay in 16 bits."""
    weights = keys.section("weights")
    if weights is None:
        raise ConfigError(f"{keys.at('weights')} is missing")
    inputs = keys.section("input_activations")
    bits, kind = weights.count("num_bits", most=16), weights.text("type")
    group = weights.count("group_size", default=-1, least=-1)
    packed = keys.text("format", default="")
    if kind == "float" and bits == 4:
        if "mxfp4" in packed or group == 32:
            return MXFP4
        return NVFP4 if inputs else Numbers("nvfp4", base.math)
    if kind == "float" and bits == 8:
        stored = "fp8_block" if weights.text("strategy", default="") == "block" else "fp8"
        return Numbers(stored, "fp8" if inputs else base.math)
    if kind != "int":
        raise ConfigError(f"{weights.at('type')}: {kind[:40]!r} of {bits} bits is not declared")
    if inputs is None:
        return _grouped(weights, bits, group, base.math)
    math = "int8" if inputs.text("type", default="int") == "int" else "fp8"
    return _grouped(weights, bits, group, math)


def _modelopt(keys: Keys, base: Numbers) -> Scheme:
    algorithm = keys.any("quant_algo")
    kept = _names(keys, "exclude_modules", "ignore")
    cache = _cache(keys, "kv_cache_quant_algo") or _cache(keys, "kv_cache_scheme")
    listed = _listed(keys)
    every = None
    if algorithm not in (None, "MIXED_PRECISION"):
        every = _algorithm(algorithm, keys.at("quant_algo"))
    return Scheme(base, every, kept=kept, listed=listed, cache=cache)


def _algorithm(name: object, place: str) -> Numbers:
    found = MODELOPT.get(name) if isinstance(name, str) else None
    if found is None:
        raise ConfigError(
            f"{place}: {str(name)[:60]!r} is not declared", f"declared: {', '.join(MODELOPT)}"
        )
    return found


def _listed(keys: Keys) -> list[tuple[Names, Numbers]]:
    """Return the layers that are listed one by one, by their format."""
    found = keys.any("quantized_layers")
    if found is None:
        return []
    if not isinstance(found, Mapping):
        raise ConfigError(f"{keys.at('quantized_layers')}: not a mapping")
    by_format: dict[Numbers, list[object]] = {}
    for name, one in found.items():
        algorithm = Keys(one, keys.at("quantized_layers")).any("quant_algo")
        by_format.setdefault(_algorithm(algorithm, keys.at(name)), []).append(name)
    place = keys.at("quantized_layers")
    return [(Names(names, place), numbers) for numbers, names in by_format.items()]


def _cache(keys: Keys, name: str) -> str | None:
    """Return the format of the cache: an algorithm's name, or bits and type."""
    value = keys.any(name)
    if value is None:
        return None
    if isinstance(value, Mapping):
        scheme = Keys(value, keys.at(name))
        value = f"{'FP' if scheme.text('type') == 'float' else 'INT'}{scheme.count('num_bits')}"
        value = "NVFP4" if value == "FP4" else value
    if not isinstance(value, str) or value not in CACHES:
        raise ConfigError(
            f"{keys.at(name)}: {str(value)[:60]!r} is not declared",
            f"declared: {', '.join(CACHES)}",
        )
    return CACHES[value]


READERS = {
    "fp8": _fp8,
    "mxfp4": _mxfp4,
    "gptq": _integers,
    "awq": _integers,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
}
