"""Request sets that no server has seen: drawn while nothing is timed, used once on every arm.

The draw is seeded by the operating system: whoever writes a candidate knows the recording and the
run's seed, and can foresee neither the rows nor the factors. A few places of a set may hold odd
requests: changed copies of which both arms have answered the like one at a time.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from layers.errors import ToolFailed
from layers.traffic.envelope import addressed, content
from layers.traffic.salting import Salt, Salter

ODD_SHARE = 0.02  # of the requests of a set; one at least, where there are any


@dataclass(frozen=True, slots=True, eq=False)
class RequestSet:
    """Messages in a file of their own, to be sent instead of the recording."""

    path: Path
    spans: NDArray[np.int64]  # [n, 2]: offset and length in the file
    digest: str  # of all messages, in order
    odd: frozenset[int] = frozenset()  # places of odd requests

    def __len__(self) -> int:
        return len(self.spans)

    def __enter__(self) -> Self:
        """Return the set itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete the file; look at it once more if nothing else went wrong."""
        if kind is None:
            self.close()
        else:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Check that the file still holds what was written, then delete it.

        Raises ToolFailed where it does not: what was measured is then unknown.
        """
        whole = self.path.exists() and _digest_of(self.path.read_bytes(), self.spans) == self.digest
        self.path.unlink(missing_ok=True)
        if not whole:
            raise ToolFailed(f"the request file {self.path.name} was changed while it was in use")


class Fresh:
    """Draws request sets; counts what could not be made new."""

    def __init__(self, salter: Salter, folder: Path) -> None:
        """Leave the files of request sets in `folder`."""
        self._salter, self._folder = salter, folder
        self._rng = np.random.default_rng(secrets.randbits(128))
        self._seen: set[bytes] = set()
        self._recorded: dict[int, bytes] = {}  # content of those that were asked for
        self._sets = 0
        self._odd: Sequence[bytes] = ()
        self._waiting: list[bytes] = []  # odd requests, in random order
        self.drawn = 0
        self.repeated = 0  # of `drawn`: content of an earlier draw, or as recorded

    @property
    def salt(self) -> Salt:
        """Which parts of a request are changed."""
        return self._salter.salt

    @property
    def elements(self) -> int:
        """How many elements the inputs of all drawn requests have."""
        return self._salter.elements

    @property
    def kept(self) -> int:
        """How many of them are values of the recording."""
        return self._salter.kept

    def reseed(self) -> int:
        """Begin draws that nobody can foresee; return what they follow from, for the evidence."""
        seed = secrets.randbits(128)
        self._rng = np.random.default_rng(seed)
        return seed

    def mix(self, odd: Sequence[bytes]) -> None:
        """Have a few places of every set hold one of `odd`; none of them without any."""
        self._odd, self._waiting = odd, []

    def messages(self, order: NDArray[np.int64]) -> list[bytes]:
        """Return a salted copy of each request that `order` names."""
        made = []
        for index in order.tolist():
            message = self._salter.salted(index, self._rng)
            mark = content(message)
            self.drawn += 1
            self.repeated += mark in self._seen or mark == self._as_recorded(index)
            self._seen.add(mark)
            made.append(message)
        return made

    def draw(self, order: NDArray[np.int64]) -> RequestSet:
        """Write a salted copy of each request that `order` names, in that order, to a new file."""
        self._sets += 1
        self._folder.mkdir(parents=True, exist_ok=True)
        messages, places = self.messages(order), self._places(len(order))
        for place in places:
            messages[place] = addressed(self._next_odd(), self._rng)
        path = self._folder / f"fresh-{self._sets:05d}.bin"
        return write_set(path, messages, frozenset(places))

    def warning(self) -> str | None:
        """Say how many timed requests were not new, None where all were."""
        if not self.repeated:
            return None
        return (
            f"{self.repeated} of {self.drawn} requests could not be made new "
            f"({self._salter.salt}): a memo of whole requests would show as a gain in them"
        )

    def _as_recorded(self, index: int) -> bytes:
        if index not in self._recorded:
            self._recorded[index] = content(self._salter.recorded(index))
        return self._recorded[index]

    def _places(self, count: int) -> list[int]:
        """Draw the places of a set that hold odd requests."""
        if not self._odd or not count:
            return []
        wanted = max(1, round(ODD_SHARE * count))
        places: list[int] = self._rng.permutation(count)[:wanted].tolist()
        return places

    def _next_odd(self) -> bytes:
        """Return an odd request; each of them once before any comes again."""
        if not self._waiting:
            order = self._rng.permutation(len(self._odd))
            self._waiting = [self._odd[int(place)] for place in order]
        return self._waiting.pop()


def write_set(
    path: Path, messages: Sequence[bytes], odd: frozenset[int] = frozenset()
) -> RequestSet:
    """Write messages to `path`, one after the other; those at the places `odd` are odd."""
    lengths = np.array([len(message) for message in messages], dtype=np.int64)
    offsets = np.cumsum(lengths) - lengths
    data = b"".join(messages)
    path.write_bytes(data)
    spans = np.stack([offsets, lengths], axis=1)
    return RequestSet(path, spans, _digest_of(data, spans), odd)


def _digest_of(data: bytes, spans: NDArray[np.int64]) -> str:
    """Return the SHA-256 of a file's bytes and of where its messages begin and end."""
    return hashlib.sha256(data + spans.tobytes()).hexdigest()
