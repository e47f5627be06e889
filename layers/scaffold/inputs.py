"""What requests hold: sizes and values of every input, guessed from names, types and dimensions.

Pure. A rule is one line of a table; the first that fits an input decides.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from layers.scaffold.entry import Certainty
from layers.scaffold.generator import png
from layers.scaffold.models import Message, Model
from layers.scaffold.vocabulary import Vocabulary, generic, match, tokens
from layers.traffic.recorded import InputSpec, input_specs

Draw = tuple[Any, ...]
Dims = tuple[int | str, ...]
BATCH = "batch"
MAX_REQUEST_BYTES = 1 << 27  # of one request that is made up
BATCH_BYTES = 1 << 24  # of one, where a smaller batch makes it smaller
_STRING_BYTES = 64  # of one element, for the estimate
IMAGE = (224, 224)  # height and width
PNG_BYTES = len(png(np.random.default_rng(0), *IMAGE))  # the same for every image of that size
_CHANNELS = (1, 3, 4)
_INTEGERS = frozenset({"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"})
_WIDE = frozenset({"INT32", "INT64", "UINT32", "UINT64"})
_FLOATS = frozenset({"FP16", "FP32", "FP64", "BF16"})
_STRINGS = frozenset({"BYTES"})
_ANY = _INTEGERS | _FLOATS


@dataclass(frozen=True, slots=True)
class Input:
    """One input of the entry model, and what it is filled with."""

    name: str
    datatype: str  # KServe name
    dims: Dims  # without the batch; a name stands for a size that requests draw
    draw: Draw  # a kind of `generator`, and its arguments
    certainty: Certainty
    why: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    """A dimension that varies, from the smallest to the largest size."""

    name: str
    low: int
    high: int
    certainty: Certainty
    why: str


class Rule(NamedTuple):
    """Inputs of these datatypes with one of these words in their name are filled by `draw`."""

    datatypes: frozenset[str]
    words: frozenset[str]
    draw: Draw
    why: str


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RULES = (
    Rule(_ANY, _words("mask"), ("value", 1), "a mask: nothing is masked"),
    Rule(_INTEGERS, _words("segment type"), ("value", 0), "one segment or type"),
    Rule(_WIDE, _words("max"), ("value", 16), "a limit"),
    Rule(_ANY, _words("temperature"), ("value", 1), "a sampling parameter"),
    Rule(_FLOATS, _words("penalty"), ("value", 1.0), "a sampling parameter"),
    Rule(_FLOATS, _words("threshold conf confidence iou"), ("value", 0.5), "a threshold"),
    Rule(_WIDE, _words("seed"), ("integers", 0, 100_000), "a seed"),
    Rule(_WIDE, _words("timestamp ts time date epoch"), ("times", 60), "epoch seconds"),
    Rule(_WIDE, _words("token"), ("integers", 1, 1000), "token ids, small enough for any"),
    Rule(_WIDE, _words("height width"), ("value", IMAGE[0]), "an image's size"),
    Rule(_INTEGERS, _words("id idx index"), ("integers", 1, 100), "ids, small enough for any"),
    Rule(_INTEGERS, _words("count impression click view session install purchase visit"),
         ("integers", 0, 100), "a count"),
    Rule(_INTEGERS, _words("age"), ("integers", 18, 80), "an age"),
    Rule(_INTEGERS, _words("k top beam num output"), ("value", 1), "a count asked for"),
    Rule(_FLOATS, _words("audio wav wave waveform speech pcm sample signal"),
         ("normal", 0.0, 0.1), "audio samples"),
    Rule(_FLOATS, _words("rate ctr cvr prob probability share ratio score pct"),
         ("uniform", 0.0, 1.0), "a share"),
    Rule(_FLOATS, _words("price amount usd spend bid cost income salary value revenue"),
         ("lognormal", 1.0, 1.0), "an amount"),
    Rule(_FLOATS, _words("duration second sec minute hour"), ("uniform", 0.1, 10.0), "a duration"),
    Rule(_FLOATS, _words("image img pixel frame"), ("uniform", 0.0, 1.0), "pixels from 0 to 1"),
    Rule(_STRINGS, _words("url uri link"), ("numbered", "https://example.com/", 1000), "addresses"),
    Rule(_STRINGS, _words("uuid id key"), ("numbered", "id-", 1000), "identifiers"),
)  # fmt: skip
_FALLBACK = {
    "BOOL": ("choice", [False, True]),
    "INT8": ("integers", 0, 100),
    "UINT8": ("integers", 0, 255),
    "BYTES": ("words", 3, 12),
    **dict.fromkeys(_FLOATS, ("normal", 0.0, 1.0)),
}
_TEXT = _words("text sentence query prompt document doc passage title description input question")
_IMAGE = _words("image img frame photo picture jpeg jpg png")
_NAMES = _words("url uri link path name id")  # of an image, not the image itself
_AUDIO = _words("audio wav wave waveform speech pcm")
_PNG = ("png", "png_base64")
_LENGTH = re.compile(r"^(.+?)[_.]?(lens?|lengths?|sizes?)$", re.IGNORECASE)


def plan(
    model: Model, vocabularies: Sequence[Vocabulary], aliases: Mapping[str, str], *, ragged: bool
) -> tuple[list[Input], list[Size]]:
    """Return what a model's requests hold.

    `aliases` gives the further names that an input goes by, in the models behind an ensemble;
    `ragged` says that one of them batches requests of different sizes.
    """
    specs = input_specs(model.config)
    batched = model.config.max_batch_size > 0
    dims = {name: spec.dims[1:] if batched else spec.dims for name, spec in specs.items()}
    named = name_dims({**dims, **_pictures(specs, dims)}, batched=batched)
    strings = [name for name, spec in specs.items() if spec.datatype == "BYTES"]
    made = []
    for name, spec in specs.items():
        known = match(name, vocabularies) or match(aliases.get(name, ""), vocabularies)
        if known is None and len(strings) == 1 and not set(tokens(name)) & _TEXT:
            known = generic(vocabularies)
        made.append(_input(name, spec, named, known, model))
    return made, _bounded(made, _sizes(made, model.config, ragged=ragged))


def largest_bytes(inputs: Sequence[Input], sizes: Sequence[Size]) -> int:
    """Return about how large a request becomes when every size is the largest."""
    highest = {size.name: size.high for size in sizes}
    rows = highest.get(BATCH, 1)
    return sum(_row_bytes(entry, highest) * rows for entry in inputs)


def _row_bytes(entry: Input, sizes: Mapping[str, int]) -> int:
    elements = prod(sizes[size] if isinstance(size, str) else size for size in entry.dims)
    if entry.draw[0] in _PNG:
        return elements * 2 * PNG_BYTES
    widths = {"BYTES": _STRING_BYTES, "BOOL": 1, "FP16": 2, "BF16": 2}
    bits = entry.datatype.lstrip("UINTFP")
    return elements * (widths.get(entry.datatype) or int(bits) // 8)


def _bounded(inputs: Sequence[Input], sizes: Sequence[Size]) -> list[Size]:
    """Lower the largest batch until a request has at most BATCH_BYTES."""
    row_bytes = largest_bytes(inputs, [size for size in sizes if size.name != BATCH])
    most = max(1, BATCH_BYTES // max(1, row_bytes))
    return [
        replace(size, high=most, why=f"{size.why}; a row has {row_bytes} bytes")
        if size.name == BATCH and size.high > most
        else size
        for size in sizes
    ]


def _pictures(
    specs: Mapping[str, InputSpec], dims: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Return the dims of images of which no dimension is given, with three channels."""
    found = {}
    for name, size in dims.items():
        pixels = specs[name].datatype == "UINT8"
        if size[-3:] == (-1, -1, -1) and (pixels or set(tokens(name)) & _IMAGE):
            found[name] = (*size[:-3], *((-1, -1, 3) if pixels else (3, -1, -1)))
    return found


def name_dims(dims: Mapping[str, tuple[int, ...]], *, batched: bool) -> dict[str, Dims]:
    """Name the dimensions that vary; equal names are equal sizes.

    Those in the same place are one size, unless names fall into families (`cand_`, `hist_`).
    """
    every_first = bool(dims) and all(size[:1] == (-1,) for size in dims.values())
    families = _families([name for name, size in dims.items() if size[:1] == (-1,)])
    named: dict[str, Dims] = {}
    for name, size in dims.items():
        image = len(size) >= 3 and (size[-1] in _CHANNELS or size[-3] in _CHANNELS)
        labels: list[int | str] = list(size)
        for place in [place for place, length in enumerate(size) if length == -1]:
            if image and place >= len(size) - 3:
                from_end = place - len(size) + (1 if size[-3] in _CHANNELS else 2)
                labels[place] = "height" if from_end == -1 else "width"
            elif place == 0:
                labels[place] = "rows" if every_first and not batched else families.get(name, "n")
            else:
                labels[place] = "length" if place == 1 else f"length_{place}"
        named[name] = tuple(labels)
    return named


def _families(names: Sequence[str]) -> dict[str, str]:
    """Return the size each input has by the first word of its name, where such words recur."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[tokens(name)[0] if tokens(name) else ""].append(name)
    recurring = {word: members for word, members in groups.items() if len(members) > 1 and word}
    if len(recurring) < 2:
        return {}
    return {name: f"n_{word}" for word, members in recurring.items() for name in members}


def _input(
    name: str,
    spec: InputSpec,
    named: Mapping[str, Dims],
    known: Vocabulary | None,
    model: Model,
) -> Input:
    """Decide what one input is filled with."""
    dims = named[name]
    words = set(tokens(name))
    kind: tuple[Draw, Certainty, str]
    if spec.datatype == "BYTES" and known is not None:
        draw = ("lines", known.file) if known.file else ("one_of", list(known.values))
        kind = draw, Certainty.LIKELY, f"values of {known.where}"
    elif (length := _length_of(name, spec, named)) is not None:
        kind = ("size", length[1]), Certainty.LIKELY, f"the length of {length[0]}"
    elif _is_encoded(spec, dims, words):
        kind = _encoded_image(spec, model)
        dims = (PNG_BYTES,) if spec.datatype == "UINT8" else dims
    else:
        kind = _by_rules(spec, dims, words)
    return Input(name, spec.datatype, dims, *kind, optional=spec.optional)


def _by_rules(spec: InputSpec, dims: Dims, words: set[str]) -> tuple[Draw, Certainty, str]:
    if spec.datatype == "BYTES" and words & _TEXT:
        return ("words", 3, 24), Certainty.GUESS, "English words"
    if {"sample", "rate"} <= words:
        return ("value", 16_000), Certainty.LIKELY, "a usual sample rate"
    for rule in _RULES:
        if spec.datatype in rule.datatypes and words & rule.words:
            return rule.draw, Certainty.LIKELY, rule.why
    if spec.datatype in _FLOATS and _is_image(dims):
        return ("uniform", 0.0, 1.0), Certainty.LIKELY, "dimensions of an image: from 0 to 1"
    draw = _FALLBACK.get(spec.datatype, ("integers", 0, 100))
    return draw, Certainty.GUESS, "nothing says what it holds"


def _is_image(dims: Dims) -> bool:
    return len(dims) >= 3 and (dims[-1] in _CHANNELS or dims[-3] in _CHANNELS)


def _length_of(name: str, spec: InputSpec, named: Mapping[str, Dims]) -> tuple[str, str] | None:
    """Return the input whose length an integer input holds, and the name of that size."""
    found = _LENGTH.match(name)
    if found is None or spec.datatype not in _INTEGERS:
        return None
    stem = found.group(1).lower()
    for other, dims in named.items():
        sizes = [size for size in dims if isinstance(size, str)]
        if other != name and sizes and re.fullmatch(rf"{re.escape(stem)}s?(_.*)?", other.lower()):
            return other, sizes[0 if sizes[0] != "rows" else -1]
    return None


def _is_encoded(spec: InputSpec, dims: Dims, words: set[str]) -> bool:
    """Return whether an input is an image as a file: a string, or any number of bytes."""
    if spec.datatype == "BYTES":
        return bool(words & _IMAGE) and not words & _NAMES
    return spec.datatype == "UINT8" and len(dims) == 1 and isinstance(dims[0], str)


def _encoded_image(spec: InputSpec, model: Model) -> tuple[Draw, Certainty, str]:
    coded = any("b64decode" in name for name in model.source.functions)
    kind = "png_base64" if coded else "png"
    draw = ("png_bytes" if spec.datatype == "UINT8" else kind, *IMAGE)
    return draw, Certainty.GUESS, "an encoded image: PNG files of noise"


def _sizes(inputs: Sequence[Input], config: Message, *, ragged: bool) -> list[Size]:
    """Return the range of each dimension that varies, the batch among them."""
    sizes = [_batch_size(config, ragged=ragged)] if config.max_batch_size > 0 else []
    users: dict[str, list[Input]] = defaultdict(list)
    for entry in inputs:
        for size in entry.dims:
            if isinstance(size, str):
                users[size].append(entry)
        if entry.draw[0] == "size":
            users[entry.draw[1]].append(entry)
    for name, entries in users.items():
        words = {word for entry in entries for word in tokens(entry.name)}
        others = [entry.name for entry in entries]
        shared = f"shared by {len(others)} inputs" if len(others) > 1 else f"of {others[0]}"
        images = any(entry.draw[0] in _PNG for entry in entries)
        low, high, certainty = (1, 4, Certainty.GUESS) if images else _range(name, words, entries)
        sizes.append(Size(name, low, high, certainty, f"-1 in config.pbtxt, {shared}"))
    return sizes


def _range(name: str, words: set[str], entries: Sequence[Input]) -> tuple[int, int, Certainty]:
    if name in ("height", "width"):
        return IMAGE[0], IMAGE[0], Certainty.GUESS
    if name == "rows" and any(len(entry.dims) > 1 for entry in entries):
        return 1, 8, Certainty.GUESS
    if words & _AUDIO:
        return 16_000, 80_000, Certainty.GUESS
    if words & {"token", "mask", "segment"}:
        return 8, 128, Certainty.GUESS
    return 1, 8 if name == "rows" else 64, Certainty.GUESS


def _batch_size(config: Message, *, ragged: bool) -> Size:
    """Guess how many rows one request holds: few where the server itself gathers batches."""
    if ragged:
        high, why = 1, "allow_ragged_batch: each request brings one row of its own length"
    elif config.HasField("dynamic_batching"):
        high = min(4, config.max_batch_size)
        why = f"dynamic_batching gathers requests, which then are small; up to {config.max_batch_size}"
    else:
        high = min(32, config.max_batch_size)
        why = f"no dynamic_batching, so requests bring their rows; up to {config.max_batch_size}"
    return Size(BATCH, 1, high, Certainty.GUESS, why)
