"""What calls show all together and none by itself: the float64 referee's word, the metric.

A sample of the timed calls is held to both: whoever behaves while it is probed and not while it is
timed would pass otherwise, where one answer alone cannot fail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from layers.base import ChangeClass
from layers.callables import codec, probes
from layers.callables.cell import Ended
from layers.callables.codec import Tree
from layers.callables.compare import Answers, Judge, gate
from layers.callables.maker import Drawn, of_ours, ours
from layers.callables.process import Process
from layers.evidence import Gate, GateResult
from layers.gates.metric import non_inferior


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: all its arguments, and what both arms returned."""

    inputs: Drawn
    baseline: Tree
    candidate: Tree


class Audit:
    """Takes in samples, launch by launch for timed ones, and judges all so far together."""

    def __init__(self, change_class: ChangeClass, margin: float | None = None) -> None:
        """`margin` is how much the mean metric may fall, for class approximate."""
        self._class, self._margin = change_class, margin
        self._judge = Judge(change_class)
        self._scores: tuple[list[float], list[float]] = ([], [])

    def referee(self, samples: Sequence[Sample], referee: Process) -> Gate:
        """Take in a launch's samples with their float64 outputs; the gate of all so far."""
        for sample in samples:
            referee.put(codec.encode(probes.upcast(sample.inputs)))
            answer = ours(referee.call)
            if answer.raised is not None:
                continue
            failure = self._judge.add(
                "a timed call",
                Answers.of(sample.baseline),
                Answers.of(sample.candidate),
                Answers.of(answer.outputs()),
            )
            if failure:
                return gate("timed outputs", GateResult.FAIL, failure.reason, failure.detail)
        failed = [g for g in self._judge.gates() if g.result is GateResult.FAIL]
        if failed:
            return failed[0].model_copy(update={"name": "timed outputs"})
        return gate("timed outputs", GateResult.PASS, "within_limits", f"{self._judge.calls} calls")

    def metric(self, samples: Sequence[Sample], metric: Process) -> Gate:
        """Take in the metric of a launch's samples; the gate of all so far."""
        for sample in samples:
            for scores, tree in zip(self._scores, (sample.baseline, sample.candidate), strict=True):
                scores.append(score(metric, sample.inputs, tree))
        return non_inferior(*self._scores, self._margin or 0.0).gate

    def of_other_calls(
        self, samples: Mapping[str, Sequence[Sample]], metric: Process
    ) -> list[Gate]:
        """Return the gates of calls of other kinds, by kind, that are clearly worse there.

        Few such calls are made, and the metric may have no meaning for some: no kind is asked to
        prove that it is not worse.
        """
        found = [self._worse(what, of, metric) for what, of in samples.items()]
        return [answer for answer in found if answer is not None]

    def _worse(self, what: str, samples: Sequence[Sample], metric: Process) -> Gate | None:
        """Return the gate of one kind of calls where it fails."""
        scores: tuple[list[float], list[float]] = ([], [])
        for sample in samples:
            old, new = (
                _score_if_any(metric, sample.inputs, x) for x in (sample.baseline, sample.candidate)
            )
            if old is None:
                continue
            if new is None:
                detail = f"{what}: the metric cannot be had of the candidate's outputs"
                return gate("metric", GateResult.FAIL, "metric_worse", detail)
            scores[0].append(old)
            scores[1].append(new)
        if len(scores[0]) < 2:
            return None
        found = non_inferior(*scores, self._margin or 0.0).gate
        if found.result is not GateResult.FAIL:
            return None
        return found.model_copy(update={"detail": f"{what}: {found.detail}"})


def score(metric: Process, inputs: Drawn, outputs: Tree) -> float:
    """Return the metric of one call; outputs without a name are called `output`."""
    named = outputs if isinstance(outputs, dict) else {"output": outputs}
    return ours(partial(metric.score, inputs, named))


def _score_if_any(metric: Process, inputs: Drawn, outputs: Tree) -> float | None:
    """Return the metric of one call, None where it raises or is no finite number."""
    named = outputs if isinstance(outputs, dict) else {"output": outputs}
    try:
        found = metric.score(inputs, named)
    except Ended as ended:
        if ended.reason != "raises":
            raise of_ours(ended) from ended
        return None
    return found if math.isfinite(found) else None
