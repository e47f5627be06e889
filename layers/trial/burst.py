"""One burst: far more requests at once than a timed block has in flight. Untimed, and compared.

A queue that is full, a batch larger than any before, a buffer that is used again too early: none of
them shows at the few requests that blocks keep in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from layers.base import ChangeClass
from layers.evidence import Gate, GateResult
from layers.gates.correctness import Comparison, reproducible_outputs
from layers.gates.tensors import is_finite
from layers.measure.launch import ARMS, Arm, Bench, Launch
from layers.measure.load import LoadResult
from layers.measure.records import OK
from layers.trial.equivalence import Compared, timed
from layers.trial.trial import Trial

TIMES, MOST = 16, 256  # the manifest's in-flight, and requests
DEADLINE_S = 120.0  # of all of them: they wait for each other
# What the outputs of both arms are held to: those of a burst that the baseline repeats bit for bit,
# None while that was not looked at.
Hold: TypeAlias = Callable[[Iterable[Compared], frozenset[str] | None], Comparison]
_MUST_MATCH = frozenset({ChangeClass.EXACT, ChangeClass.CONFIG})


def station(trial: Trial, launch: Launch, bench: Bench, hold: Hold) -> None:
    """Send both arms one burst; end the trial where the candidate fails or answers otherwise.

    What a server answers may depend on the batches that it makes of a burst. Where outputs that must
    match do not, the baseline is asked once more: what it does not repeat is not held to its bits.
    Raises DoesNotServe where the candidate dies of it, ToolFailed where the baseline does.
    """
    known, rng = len(bench.load.traffic.requests), bench.rng
    count = min(TIMES * bench.manifest.traffic.in_flight, MOST)
    order = np.resize(rng.permutation(known), count).astype(np.int64)
    with bench.sending(order) as (sent, requests):

        def ask(arm: Arm) -> LoadResult:
            with launch.blaming(arm), launch.alone(arm):
                served = launch.arm(arm)
                result = bench.load.closed(
                    served.grpc,
                    sent,
                    count,
                    requests=requests,
                    request_deadline_s=DEADLINE_S,
                    deadline_s=DEADLINE_S,
                )
                served.alive()
            return result

        results = {arm: ask(arm) for arm in (ARMS if rng.random() < 0.5 else ARMS[::-1])}
        trial.pass_or_end(_errors(results, count))
        both = (results["baseline"], results["candidate"])
        compared = int(np.count_nonzero(_both_ok(*both)))
        found = hold(_answered(*both), None) if compared else None
        if found and not found.passed and trial.candidate.hypothesis.change_class in _MUST_MATCH:
            repeats = _answered(both[0], ask("baseline"), both_baseline=True)
            same = reproducible_outputs((first, second) for first, second, _ in repeats)
            found = hold(filter(_is_finite, _answered(*both)), same)
    for result in both:
        result.discard()
    trial.outputs_compared += compared
    for gate in found.gates if found else ():
        if gate.result is not GateResult.PASS:
            trial.pass_or_end(gate.model_copy(update={"name": f"burst {gate.name}"}))


def _errors(results: Mapping[Arm, LoadResult], count: int) -> Gate:
    """Hold the candidate to no more failed requests than the baseline has."""
    old, new = results["baseline"].errors, results["candidate"].errors
    more = new > old
    words = "; ".join(results["candidate"].messages)
    return Gate(
        name="burst",
        result=GateResult.FAIL if more else GateResult.PASS,
        reason="more_errors" if more else "burst_answered",
        detail=f"{count} requests at once: {new} failed, {old} of the baseline's"
        + (f": {words}" if more and words else ""),
    )


def _both_ok(old: LoadResult, new: LoadResult) -> NDArray[np.bool_]:
    both: NDArray[np.bool_] = (old.records["code"] == OK) & (new.records["code"] == OK)
    return both


def _answered(
    old: LoadResult, new: LoadResult, *, both_baseline: bool = False
) -> Iterator[Compared]:
    """Yield the outputs of every request that both answered; see `timed`."""
    both = timed(old, new, both_baseline=both_baseline)
    yield from compress(both, _both_ok(old, new).tolist())


def _is_finite(compared: Compared) -> bool:
    """Whether the baseline's floats are finite: without that only bits can be compared."""
    return all(is_finite(values) for values in compared[0].values())
