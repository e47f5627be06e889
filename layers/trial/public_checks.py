"""Public checks: what the author of a draft is told of it before there is a candidate.

Paths, class, build, serving, and the answers to recorded requests: no more than its own tests could
tell it. Changed and new requests, the referee, the metric and all that is timed stay the trial's;
who knows what they say can write for them alone. Passing here is no verdict.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from layers.base import ChangeClass
from layers.evidence import Gate, GateResult, Verdict
from layers.gates.correctness import Limits
from layers.gates.tensors import Array, bits_differ, deviation_of, rms, type_name
from layers.places import without_places
from layers.traffic.recorded import Traffic
from layers.trial import equivalence
from layers.trial.trial import Trial, TrialEnded

MOST_DIFFERENCES = 3  # outputs that are shown
MOST_ELEMENTS = 4  # of each
MOST_VALUE = 80  # characters of one value
MOST_REFUSED = 3  # requests that the arms refuse differently: each may take the whole time limit
MOST_LINE = 400  # characters
MOST_HEAD, MOST_TAIL = 1000, 2900  # of what is told; a build fails at its end


@dataclass(frozen=True, slots=True)
class Answer:
    """What the checks say of a draft; `reason` is empty where it passed."""

    gates: tuple[Gate, ...]
    reason: str = ""
    detail: str = ""  # for the author: data, of the build's log, the server or the outputs

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return not self.reason


def passed(name: str, reason: str) -> Gate:
    """Return the gate of a station that a draft went through."""
    return Gate(name=name, result=GateResult.PASS, reason=reason)


class Told:
    """What both arms answered to recorded requests, as far as the author is told of it."""

    def __init__(self, change_class: ChangeClass, limits: Limits) -> None:
        """Show what a change of that class may not move, by the limits of its gate."""
        self._class, self._limits = change_class, limits
        self._differences: list[str] = []
        self._sequential: equivalence.Sequential | None = None
        self._answered = 0

    @property
    def lines(self) -> list[str]:
        """The first request that was refused differently, and the first outputs that differ."""
        refused = self._sequential.told if self._sequential else ""
        return [*([refused] if refused else []), *self._differences]

    def answers(
        self, sequential: equivalence.Sequential, traffic: Traffic
    ) -> Iterator[equivalence.Compared]:
        """Yield what both arms answer to recorded requests, and keep what is to be shown of it."""
        self._sequential = sequential
        rng = np.random.default_rng(secrets.randbits(128))
        requests = _while_alike(equivalence.recorded(traffic, rng), sequential)
        for old, new, truth in sequential.answers(requests):
            self.add(old, new)
            yield old, new, truth

    def add(self, baseline: equivalence.Tensors, candidate: equivalence.Tensors) -> None:
        """Take in both answers to one request; requests are counted as the gate counts them."""
        number, self._answered = self._answered, self._answered + 1
        for name in sorted(baseline.keys() | candidate.keys()):
            if len(self._differences) == MOST_DIFFERENCES:
                return
            difference = self._difference(baseline.get(name), candidate.get(name))
            if difference:
                self._differences.append(f"request {number}, output {name!r}: {difference}")

    def _difference(self, old: Array | None, new: Array | None) -> str:
        """Say how one output differs, empty where it does not."""
        if old is None or new is None:
            return "missing" if new is None else "not an output of the baseline"
        if type_name(old.dtype) != type_name(new.dtype):
            return f"{type_name(new.dtype)} instead of {type_name(old.dtype)}"
        if old.shape != new.shape:
            return f"shape {new.shape} instead of {old.shape}"
        places = np.flatnonzero(self._beyond(old, new)).tolist()
        if not places:
            return ""
        shown = [_element(place, old, new) for place in places[:MOST_ELEMENTS]]
        more = ", ..." if len(places) > len(shown) else ""
        return f"{len(places)} of {old.size} elements: {', '.join(shown)}{more}"

    def _beyond(self, old: Array, new: Array) -> npt.NDArray[np.bool_]:
        """Return which elements a change of the class may not leave so, flat."""
        differs, real = bits_differ(old, new), old.dtype.kind == "f"
        if self._class is ChangeClass.APPROXIMATE:
            return _broken(new, differs) if real else np.zeros_like(differs)
        if self._class is ChangeClass.REORDER and real:
            limit = self._limits.of(old.dtype) * min(1.0, rms(old))
            beyond = deviation_of(old, new, differs) > limit
            return np.asarray(beyond | _broken(new, differs), dtype=np.bool_)
        return differs


def _broken(new: Array, differs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which elements are not finite, and have other bits than the baseline's, flat."""
    return np.asarray(differs & ~np.isfinite(new.ravel()), dtype=np.bool_)


def _element(place: int, old: Array, new: Array) -> str:
    where = np.unravel_index(place, old.shape) if old.ndim else ()
    index = ", ".join(str(int(one)) for one in where)
    return f"[{index}] {_value(new, place)} instead of {_value(old, place)}"


def _value(array: Array, place: int) -> str:
    (value,) = array.ravel()[place : place + 1].tolist()
    return f"{value:.9g}" if isinstance(value, float) else repr(value)[:MOST_VALUE]


def _while_alike(requests: Iterable[bytes], sequential: equivalence.Sequential) -> Iterator[bytes]:
    """Yield requests until the arms have refused enough of them differently."""
    for request in requests:
        if sequential.refused_differently >= MOST_REFUSED:
            return
        yield request


def answer(trial: Trial, end: TrialEnded, told: Sequence[str]) -> Answer:
    """Return what the checks say of a draft that went so far, in words for its author."""
    gates = list(trial.gates)
    if end.verdict is Verdict.ACCEPTED:
        return Answer(tuple(gates))
    detail = for_author("\n".join([end.detail, *told]), trial.candidate.worktree)
    if not gates or gates[-1].reason != end.reason:
        gates.append(_ended(gates, end, detail.partition("\n")[0]))
    return Answer(tuple(gates), end.reason, detail)


def _ended(gates: Sequence[Gate], end: TrialEnded, detail: str) -> Gate:
    """Return the gate of a station that said no by other means than a gate."""
    undecided = end.verdict in (Verdict.INCONCLUSIVE, Verdict.FAILED)
    if end.reason == "evaluator_changed":
        name, undecided = "evaluator", False
    elif end.reason == "approximate_not_allowed":
        name = "class"
    elif undecided:
        name = "machine"
    else:
        name = "serves" if any(gate.name == "build" for gate in gates) else "build"
    result = GateResult.INCONCLUSIVE if undecided else GateResult.FAIL
    return Gate(name=name, result=result, reason=end.reason, detail=detail)


def for_author(text: str, root: Path) -> str:
    """Return text without the places of this machine that the author cannot know, bounded."""
    lines = without_places(text.replace(f"{root}/", "")).splitlines()
    kept = [line[:MOST_LINE] for line in lines if not line.lstrip().startswith("log: ")]
    whole = "\n".join(kept).strip()
    if len(whole) <= MOST_HEAD + MOST_TAIL:
        return whole
    return f"{whole[:MOST_HEAD]}\n[...]\n{whole[-MOST_TAIL:]}"
