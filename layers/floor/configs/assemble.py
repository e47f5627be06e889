"""From the layers of a plan and the formats of a checkpoint to a model's parts and its precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from layers.floor.configs.matrices import matrices, places_of
from layers.floor.configs.plan import Layer, Plan
from layers.floor.configs.quantised import Numbers, Scheme
from layers.floor.model import Model, Part
from layers.floor.modules import (
    Attention,
    CompressedAttention,
    DeltaNet,
    Embedding,
    GatedMLP,
    Head,
    LatentAttention,
    Matrices,
    MixtureOfExperts,
    Module,
    StateSpace,
    Tower,
)
from layers.floor.precision import TRAVELS, Format, Mix, Precision

_ROOTS = (
    "",
    "model.",
    "backbone.",
    "language_model.",
    "language_model.model.",
    "model.language_model.",
)
_PLAIN_NAMES: dict[type[Module], str] = {
    DeltaNet: "linear attention",
    GatedMLP: "feed-forward",
    MixtureOfExperts: "experts",
    StateSpace: "state space",
    Embedding: "embedding",
    Head: "head",
}


@dataclass(frozen=True, slots=True)
class Whole:
    """What all families state alike."""

    name: str
    hidden: int
    vocabulary: int
    tied: bool
    towers: Sequence[Tower] = ()
    assumptions: Sequence[str] = ()


_Shares: TypeAlias = tuple[tuple[Numbers, float], ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    """How many of a module's parameters are in which format, routed experts apart."""

    own: _Shares
    routed: _Shares = ()


def assemble(whole: Whole, plan: Plan, scheme: Scheme) -> tuple[Model, Precision]:
    """Return the model, equal modules in equal formats as one part, and the deployment's precision.

    The precision is that of most parameters; a part says where it differs.
    """
    layers = list(_layers(plan, plan.layers, scheme))
    ends = _ends(whole, scheme)
    draft = list(_layers(plan, plan.draft, scheme, draft=True))
    if draft:
        draft.append((Head(whole.hidden, whole.vocabulary, tied=True), ends[-1][1]))
    precision = _most(layers, scheme)
    names: Counter[str] = Counter()
    model = Model(
        whole.name,
        whole.hidden,
        _parts([ends[0], *layers, *ends[1:]], precision, names),
        _parts(draft, precision, names, "draft "),
        (*whole.assumptions, *plan.assumptions),
    )
    return model, precision


def _ends(whole: Whole, scheme: Scheme) -> list[tuple[Module, _Kept]]:
    """Return embedding, towers and head."""
    plain = _Kept(((scheme.base, 1.0),))
    names = [f"{root}{name}" for root in _ROOTS for name in ("lm_head", "head")]
    found = scheme.numbers(names, expert=False, linear=False)
    return [
        (Embedding(whole.hidden, whole.vocabulary), plain),
        *((tower, plain) for tower in whole.towers),
        (Head(whole.hidden, whole.vocabulary, whole.tied), _Kept(((found, 1.0),))),
    ]


def _layers(
    plan: Plan, layers: Sequence[Layer], scheme: Scheme, *, draft: bool = False
) -> Iterator[tuple[Module, _Kept]]:
    """Yield each module of each layer with the formats that a checkpoint keeps it in.

    Draft layers are numbered on from the others, or have a place of their own.
    """
    first = len(plan.layers) if draft else 0
    for i, layer in enumerate(layers):
        paths = [f"{root}layers.{first + i}." for root in _ROOTS]
        if draft:
            paths += [f"mtp.layers.{i}.", f"mtp.{i}."]
        for module in layer:
            places = places_of(module)
            if plan.experts_beside and isinstance(module, MixtureOfExperts):
                places = ("",)
            yield (
                module,
                _kept(module, [f"{path}{place}" for path in paths for place in places], scheme),
            )


def _kept(module: Module, places: Sequence[str], scheme: Scheme) -> _Kept:
    sizes: dict[bool, dict[Numbers, float]] = {False: {}, True: {}}
    for matrix in matrices(module):
        of_all = matrix.names if scheme.by_name else ()
        names = [f"{place}{name}" for place in places for name in of_all]
        found = scheme.numbers(names, expert=matrix.expert, linear=matrix.linear)
        sizes[matrix.expert][found] = sizes[matrix.expert].get(found, 0.0) + matrix.size
    return _Kept(*(tuple(sizes[expert].items()) for expert in (False, True)))


def _format(shares: _Shares, field: Literal["stored", "math"]) -> Format:
    """Return one format or dtype, or the shares of several."""
    total = sum(size for _, size in shares)
    summed: dict[str, float] = {}
    for numbers, size in shares:
        name = getattr(numbers, field)
        summed[name] = summed.get(name, 0.0) + size / total
    return next(iter(summed)) if len(summed) == 1 else Mix(tuple(sorted(summed.items())))


def _most(layers: Sequence[tuple[Module, _Kept]], scheme: Scheme) -> Precision:
    """Return the formats of most parameters, experts and others apart."""
    own = _commonest((kept.own for _, kept in layers), scheme.base)
    routed = _commonest((kept.routed for _, kept in layers), own)
    cache = scheme.cache or scheme.base.stored
    return Precision(
        own.stored,
        routed.stored,
        cache,
        scheme.base.stored,
        _dispatched(routed, scheme.base),
        own.math,
        routed.math,
        # A cache in 8 bits can be multiplied as it is; nothing below is in use.
        "fp8" if cache == "fp8" else scheme.base.math,
    )


def _commonest(found: Iterable[_Shares], otherwise: Numbers) -> Numbers:
    sizes: dict[Numbers, float] = {}
    for shares in found:
        for numbers, size in shares:
            sizes[numbers] = sizes.get(numbers, 0.0) + size
    return max(sizes, key=lambda numbers: sizes[numbers], default=otherwise)


def _dispatched(experts: Numbers, base: Numbers) -> str:
    """Return the least that a token's way to experts takes: what they multiply."""
    return TRAVELS.get(experts.math, base.stored)


def _parts(
    found: Sequence[tuple[Module, _Kept]],
    precision: Precision,
    names: Counter[str],
    prefix: str = "",
) -> list[Part]:
    """Return equal modules in equal formats as one part, in order of appearance."""
    counts: Counter[tuple[Module, _Kept]] = Counter(found)
    parts = []
    for (module, kept), count in counts.items():
        name = f"{prefix}{_name(module)}"
        names[name] += 1
        if names[name] > 1:
            name = f"{name} {names[name]}"
        parts.append(Part(name, module, count, _differs(kept, precision)))
    return parts


def _differs(kept: _Kept, precision: Precision) -> tuple[tuple[str, Format], ...]:
    stated = [("weights", _format(kept.own, "stored")), ("math", _format(kept.own, "math"))]
    if kept.routed:
        stated.append(("experts", _format(kept.routed, "stored")))
        stated.append(("expert_math", _format(kept.routed, "math")))
    return tuple((name, one) for name, one in stated if one != getattr(precision, name))


def _name(module: Module) -> str:
    if isinstance(module, Tower | Matrices):
        return module.name
    if isinstance(module, CompressedAttention):
        return f"compressed attention 1/{module.ratio}" if module.ratio else "window attention"
    if isinstance(module, Attention | LatentAttention):
        return _attention_name(module)
    return _PLAIN_NAMES[type(module)]


def _attention_name(module: Attention | LatentAttention) -> str:
    kind = "latent attention" if isinstance(module, LatentAttention) else "attention"
    if module.index:
        return f"sparse {kind}" if module.index.heads else f"sparse {kind} without an indexer"
    return "window attention" if isinstance(module, Attention) and module.window else kind
