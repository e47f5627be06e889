"""What the requests of a recording have in common, as far as it is needed to change them.

Axes whose sizes go up and down together over the requests are one dimension; the one with most
inputs counts the candidates. Integers that count or index other inputs (their sum or last value is
another input's size in every sampled request) are structure: they stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from tritonclient.grpc import service_pb2

from layers.traffic.tensors import Array, decode, parse

SAMPLED_REQUESTS = 48
MOST_AXES = 8  # of one input that are looked at
UNTYPED = frozenset({"FP16", "BF16"})  # datatypes that have no typed contents
INTEGERS = "iu"  # kinds of numpy's dtypes

Tensors: TypeAlias = dict[str, Array]
Axis: TypeAlias = tuple[str, int]  # input name and axis


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the requests of a recording."""

    another: Callable[[np.random.Generator], Tensors]  # draws one of them
    candidate_axes: Sequence[Axis] = ()
    other_axes: Sequence[Sequence[Axis]] = ()  # further sizes that vary, and that no input counts
    largest: int = 0  # candidates of one request
    structural: frozenset[str] = frozenset()
    optional: Sequence[str] = ()  # inputs that a client may leave out
    whole: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # integers: least, largest
    outputs: Sequence[str] = ()  # of the entry model
    one_row: bool = False  # the first axis of every input has one element, always
    typed: bool = False  # every input has a datatype that can be sent in typed contents


def learned(
    requests: Sequence[bytes], optional: Iterable[str] = (), outputs: Collection[str] = ()
) -> Known:
    """Read what there is to know of a recording; raises ValueError on a malformed request.

    Structure is read from a sample, ranges of integers from all requests. `optional` are inputs
    that a client may leave out; so may it what some sampled request lacks.
    """
    sample = sampled(requests)
    candidates = candidate_axes(sample)
    structural = structural_inputs(sample)
    datatypes = _datatypes(requests[0])
    return Known(
        another=lambda rng: decode(requests[int(rng.integers(len(requests)))]),
        candidate_axes=candidates,
        other_axes=_other_axes(sample, candidates, structural),
        largest=_largest(sample, candidates),
        structural=frozenset(structural),
        optional=_optional(sample, set(optional)),
        whole=_ranges(requests, _integers(sample) - structural),
        outputs=sorted({*outputs, *_outputs_asked(requests)}),
        one_row=all(t.shape[:1] == (1,) for tensors in sample for t in tensors.values()),
        typed=not UNTYPED & datatypes,
    )


def sampled(requests: Sequence[bytes]) -> list[Tensors]:
    """Return the tensors of requests from all over a recording; ValueError on a malformed one."""
    return [decode(requests[index]) for index in _places(len(requests))]


def _places(count: int) -> list[int]:
    """Return places from all over a recording, at no fixed step: it may have a period."""
    return sorted({place * count // SAMPLED_REQUESTS for place in range(SAMPLED_REQUESTS)})


def candidate_axes(sample: Sequence[Mapping[str, Array]]) -> list[Axis]:
    """Return the axes whose size counts the candidates; empty when no size varies."""
    return max(axes_by_size(sample).values(), key=len, default=[])


def axes_by_size(sample: Sequence[Mapping[str, Array]]) -> dict[tuple[int, ...], list[Axis]]:
    """Return the axes of inputs that are never left out by their sizes, where these vary."""
    groups: dict[tuple[int, ...], list[Axis]] = defaultdict(list)
    names = sorted({name for tensors in sample for name in tensors})
    for name in names:
        for axis in range(MOST_AXES):
            sizes = _sizes(sample, name, axis)
            if sizes is not None and len(set(sizes)) > 1:
                groups[sizes].append((name, axis))
    return groups


def _sizes(sample: Sequence[Mapping[str, Array]], name: str, axis: int) -> tuple[int, ...] | None:
    """Return the size of an axis in every request, None where one of them does not have it."""
    if any(name not in tensors or axis >= tensors[name].ndim for tensors in sample):
        return None
    return tuple(tensors[name].shape[axis] for tensors in sample)


def structural_inputs(sample: Sequence[Mapping[str, Array]]) -> set[str]:
    """Return the integer inputs whose sum or last value is another input's size, always."""
    return {
        name
        for name in {name for tensors in sample for name in tensors}
        if all(_counts_others(name, tensors) for tensors in sample if name in tensors)
    }


def _counts_others(name: str, tensors: Mapping[str, Array]) -> bool:
    """Return whether an input's sum or last value is the size of some other input."""
    sizes = {size for other, array in tensors.items() if other != name for size in array.shape}
    return bool(_counts(tensors[name]) & sizes)


def _counts(values: Array) -> set[int]:
    """Return the sizes that an integer input may stand for."""
    if values.dtype.kind not in INTEGERS or values.size == 0:
        return set()
    return {int(values.sum()), int(values.flat[-1])}


def _other_axes(
    sample: Sequence[Mapping[str, Array]], candidates: list[Axis], structural: Collection[str]
) -> list[list[Axis]]:
    """Return the dimensions besides the candidates' whose sizes vary, and that no input counts."""
    counted = [
        [_counts(tensors[name]) for tensors in sample if name in tensors] for name in structural
    ]

    def is_counted(sizes: tuple[int, ...]) -> bool:
        return any(
            len(counts) == len(sizes)
            and all(size in one for size, one in zip(sizes, counts, strict=True))
            for counts in counted
        )

    return [
        axes
        for sizes, axes in axes_by_size(sample).items()
        if axes != candidates
        and not is_counted(sizes)
        and not {name for name, _ in axes} & set(structural)
        and len(dict(axes)) == len(axes)
    ]


def _largest(sample: Sequence[Mapping[str, Array]], candidates: Sequence[Axis]) -> int:
    """Return the most candidates that a sampled request has."""
    if not candidates:
        return 0
    name, axis = candidates[0]
    return max(int(tensors[name].shape[axis]) for tensors in sample)


def _optional(sample: Sequence[Mapping[str, Array]], told: set[str]) -> list[str]:
    names = {name for tensors in sample for name in tensors}
    lacking = {name for name in names if any(name not in tensors for tensors in sample)}
    return sorted(lacking | (names & told))


def _integers(sample: Sequence[Mapping[str, Array]]) -> set[str]:
    return {
        name
        for tensors in sample
        for name, values in tensors.items()
        if values.dtype.kind in INTEGERS
    }


def _ranges(requests: Sequence[bytes], names: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return the least and the largest value of each integer input, over all requests."""
    found: dict[str, tuple[int, int]] = {}
    if not names:
        return found
    for index in range(len(requests)):
        for name, values in decode(requests[index], names).items():
            if values.size:
                least, largest = found.get(name, (int(values.min()), int(values.max())))
                found[name] = (min(least, int(values.min())), max(largest, int(values.max())))
    return found


def _datatypes(request: bytes) -> set[str]:
    message = parse(service_pb2.ModelInferRequest, request)
    return {tensor.datatype for tensor in message.inputs}


def _outputs_asked(requests: Sequence[bytes]) -> set[str]:
    """Return the outputs that sampled requests name: those that name none get all."""
    places = _places(len(requests))
    messages = [parse(service_pb2.ModelInferRequest, requests[index]) for index in places]
    return {output.name for message in messages for output in message.outputs}
