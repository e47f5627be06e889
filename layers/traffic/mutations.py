"""Changed copies of recorded requests, so that outputs are compared on more than was recorded.

Values, strings and the candidate dimension change, optional inputs are left out; shapes stay consistent, so a model that is
right must answer them. Which dimension counts the candidates is read from the traffic: axes whose
sizes go up and down together over the requests are one dimension, and the one with most inputs is
it. Integers that count or index other inputs (their sum or last value is another input's size in
every sampled request) stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layers.traffic.tensors import Array, decode, encode

SAMPLED_REQUESTS = 48
CHANGED_SHARE = 0.2  # of the elements of a tensor that one mutation touches
LONG_STRING_BYTES = 4096
_STRINGS = (
    b"",
    b"never-seen-before",
    b"\xff\xfe\x00\x80",
    b"x" * LONG_STRING_BYTES,
    "\u00fc\u4e16\u754c \U0001f680".encode(),
)

Tensors = dict[str, Array]
Axis = tuple[str, int]  # input name and axis


class Mutator:
    """Makes changed requests from recorded ones; the same seed makes the same requests."""

    def __init__(self, requests: Sequence[bytes], optional: Iterable[str] = ()) -> None:
        """Sample the requests to learn their structure; ValueError on a malformed one.

        `optional` are inputs that a client may leave out; so may it what some sampled request lacks.
        """
        self._requests = requests
        step = max(1, len(requests) // SAMPLED_REQUESTS)
        sample = [decode(requests[i]) for i in range(0, len(requests), step)]
        self.candidate_axes = candidate_axes(sample)
        self._structural = structural_inputs(sample)
        names = {name for tensors in sample for name in tensors}
        lacking = {name for name in names if any(name not in tensors for tensors in sample)}
        self._optional = sorted(lacking | (names & set(optional)))

    def requests(self, seed: int, count: int) -> list[bytes]:
        """Return `count` requests; every kind of mutation appears once `count` is at least 5."""
        rng = np.random.default_rng(seed)
        kinds: list[Callable[[Tensors, np.random.Generator], Tensors]] = [
            self._jitter_numbers,
            self._replace_strings,
            self._permute_candidates,
            self._keep_one_candidate,
            *([self._leave_optional_out] if self._optional else []),
        ]
        made = []
        for position in range(count):
            template = self._requests[int(rng.integers(len(self._requests)))]
            changed = kinds[position % len(kinds)](decode(template), rng)
            made.append(encode(template, changed, f"mutated-{seed}-{position}"))
        return made

    def _jitter_numbers(self, tensors: Tensors, rng: np.random.Generator) -> Tensors:
        """Move some numbers: floats by a few percent, to zero or to the other sign; see `_jitter`."""
        return {
            name: values if name in self._structural else _jitter(values, rng)
            for name, values in tensors.items()
        }

    def _replace_strings(self, tensors: Tensors, rng: np.random.Generator) -> Tensors:
        """Replace some strings by empty, unknown, long and non-UTF-8 ones."""
        changed = dict(tensors)
        for name, values in tensors.items():
            if values.dtype == np.object_:
                copy = values.copy()
                for index in np.flatnonzero(rng.random(values.size) < CHANGED_SHARE):
                    copy.flat[index] = _STRINGS[int(rng.integers(len(_STRINGS)))]
                changed[name] = copy
        return changed

    def _permute_candidates(self, tensors: Tensors, rng: np.random.Generator) -> Tensors:
        """Put the candidates in another order, the same one in every input."""
        return self._take(tensors, rng.permutation)

    def _keep_one_candidate(self, tensors: Tensors, rng: np.random.Generator) -> Tensors:
        """Keep one candidate, drawn at random."""
        return self._take(tensors, lambda size: rng.integers(size, size=1))

    def _leave_optional_out(self, tensors: Tensors, rng: np.random.Generator) -> Tensors:
        """Leave out some of the inputs that a client need not send; never all inputs."""
        there = [name for name in self._optional if name in tensors]
        count = min(len(there), len(tensors) - 1)
        if count < 1:
            return tensors
        left_out = set(rng.permutation(there)[: int(rng.integers(1, count + 1))].tolist())
        return {name: values for name, values in tensors.items() if name not in left_out}

    def _take(self, tensors: Tensors, choose: Callable[[int], NDArray[np.int64]]) -> Tensors:
        """Select along the candidate dimension of every input that has it."""
        axes = [(name, axis) for name, axis in self.candidate_axes if name in tensors]
        if not axes or (size := tensors[axes[0][0]].shape[axes[0][1]]) == 0:
            return tensors
        chosen = choose(size)
        changed = dict(tensors)
        for name, axis in axes:
            changed[name] = np.take(tensors[name], chosen, axis=axis)
        return changed


def candidate_axes(sample: Sequence[Mapping[str, Array]]) -> list[Axis]:
    """Return the axes whose size counts the candidates; empty when no size varies."""
    sizes: dict[Axis, list[int | None]] = defaultdict(list)
    names = {(name, axis) for tensors in sample for name in tensors for axis in range(8)}
    for name, axis in sorted(names):
        for tensors in sample:
            shape = tensors[name].shape if name in tensors else ()
            sizes[name, axis].append(shape[axis] if axis < len(shape) else None)
    groups: dict[tuple[int, ...], list[Axis]] = defaultdict(list)
    for place, seen in sizes.items():
        if None not in seen and len(set(seen)) > 1:
            groups[tuple(size for size in seen if size is not None)].append(place)
    return max(groups.values(), key=len, default=[])


def structural_inputs(sample: Sequence[Mapping[str, Array]]) -> set[str]:
    """Return the integer inputs whose sum or last value is another input's size, always."""
    return {
        name
        for name in {name for tensors in sample for name in tensors}
        if all(_counts_others(name, tensors) for tensors in sample if name in tensors)
    }


def _counts_others(name: str, tensors: Mapping[str, Array]) -> bool:
    """Return whether an input's sum or last value is the size of some other input."""
    values = tensors[name]
    if values.dtype.kind not in "iu" or values.size == 0:
        return False
    sizes = {size for other, array in tensors.items() if other != name for size in array.shape}
    return int(values.sum()) in sizes or int(values.flat[-1]) in sizes


def _jitter(values: Array, rng: np.random.Generator) -> Array:
    """Move some elements; integers only to other values of the same tensor, which are in range."""
    touched = rng.random(values.shape) < CHANGED_SHARE
    if values.size == 0 or values.dtype == np.object_:
        return values
    if values.dtype.kind == "b":
        return values ^ touched
    if values.dtype.kind in "iu":
        return np.where(touched, rng.choice(values.ravel(), size=values.shape), values)
    factor: NDArray[Any] = 1 + 0.05 * rng.standard_normal(values.shape)
    factor = np.where(rng.random(values.shape) < 0.1, rng.choice([0.0, -1.0]), factor)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = (values * factor).astype(values.dtype)
    return np.where(touched & np.isfinite(moved), moved, values)
