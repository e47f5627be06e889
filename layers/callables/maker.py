"""The maker of inputs: its settings, checked, and draws from seeds that no candidate can know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from layers.callables import codec
from layers.callables.cell import Ended
from layers.callables.codec import CodecError, Leaf
from layers.callables.probes import KINDS
from layers.callables.process import Process
from layers.errors import InvalidInput

DEFAULT_BATCH = 256
LARGEST_BATCH = 1 << 22
_HINT = "see the attributes of the inputs' maker: batch, state, batches, probes"
Result = TypeVar("Result")
Drawn: TypeAlias = dict[str, Leaf]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the maker says of the function: the timed size, its state, other sizes, no probes."""

    batch: int
    state: tuple[str, ...]
    batches: tuple[int, ...] | None  # None: any size, an empty one too
    refused: frozenset[str]  # kinds of content that the function is not defined for

    @classmethod
    def of(cls, attributes: dict[str, Any]) -> Settings:
        """Return the settings that a maker's attributes give. Raises InvalidInput."""
        batch = attributes.get("batch")
        batch = DEFAULT_BATCH if batch is None else _size(batch)
        state = _sequence(attributes.get("state"), "state")
        if not all(isinstance(name, str) for name in state):
            raise InvalidInput("make.state must be names of inputs", hint=_HINT)
        sizes = attributes.get("batches")
        batches = None if sizes is None else tuple(map(_size, _sequence(sizes, "batches")))
        probes = attributes.get("probes") or {}
        if not isinstance(probes, dict) or probes.keys() - KINDS.keys():
            raise InvalidInput(f"make.probes may name {', '.join(KINDS)}", hint=_HINT)
        refused = frozenset(kind for kind, wanted in probes.items() if not wanted)
        return cls(batch, tuple(state), batches, refused)


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_BATCH:
        raise InvalidInput(
            f"a batch is a whole number from 1 to {LARGEST_BATCH}, not {str(value)[:40]}",
            hint=_HINT,
        )
    return value


def _sequence(value: object, name: str) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise InvalidInput(f"make.{name} must be a tuple", hint=_HINT)
    return value


class Maker:
    """Draws the arguments of calls, each from a seed of its own."""

    def __init__(self, process: Process, settings: Settings, rng: np.random.Generator) -> None:
        """`rng` gives the seeds."""
        self._process = process
        self.settings = settings
        self._rng = rng

    def draw(self, batch: int | None = None, *, may_fail: bool = False) -> Drawn | None:
        """Return all arguments of one call.

        None where the maker raises and `may_fail`; else that is InvalidInput, as are names that
        no draw has.
        """
        size = self.settings.batch if batch is None else batch
        body, raised = self._ask(size, (False, True))
        if raised is not None:
            if may_fail:
                return None
            raise InvalidInput(f"{self._process.spec.text} raises {raised}", hint=_HINT)
        found = drawn(body)
        missing = [name for name in self.settings.state if name not in found]
        if missing:
            raise InvalidInput(f"make.state names {missing[0]!r}, which no draw has", hint=_HINT)
        return found

    def varying(self) -> bytes:
        """Return the body of the arguments that change from call to call, at the timed size."""
        body, raised = self._ask(self.settings.batch, (False,))
        if raised is not None:
            raise InvalidInput(f"{self._process.spec.text} raises {raised}", hint=_HINT)
        return body

    def state(self) -> bytes:
        """Return the body of newly drawn state."""
        body, raised = self._ask(self.settings.batch, (True,))
        if raised is not None:
            raise InvalidInput(f"{self._process.spec.text} raises {raised}", hint=_HINT)
        return body

    def _ask(self, batch: int, parts: Sequence[bool]) -> tuple[bytes, str | None]:
        seed = int(self._rng.integers(1 << 62))
        return ours(lambda: self._process.draw(seed, batch, self.settings.state, parts))


def drawn(body: bytes) -> Drawn:
    """Return the arguments of a draw: leaves by name; the kinds of arrays are plain."""
    try:
        tree = codec.decode(body)
    except CodecError as error:
        raise InvalidInput(f"the inputs' maker: {error}") from error
    if not isinstance(tree, dict) or not all(isinstance(leaf, Leaf) for leaf in tree.values()):
        raise InvalidInput("make must return a dict of arrays, tensors and scalars", hint=_HINT)
    return tree


def ours(action: Callable[[], Result]) -> Result:
    """Run what must not fail through any candidate: a process that ends is InvalidInput."""
    try:
        return action()
    except Ended as ended:
        raise of_ours(ended) from ended


def of_ours(ended: Ended) -> InvalidInput:
    """Return the error of a process that is not the candidate's."""
    return InvalidInput(
        f"the {ended.role} {_WORDS.get(ended.reason, ended.reason)}: {ended.detail}",
        hint="mend it first: a candidate is judged against what works",
    )


_WORDS = {"does_not_load": "does not load", "hangs": "hangs", "crashed": "ended"}
