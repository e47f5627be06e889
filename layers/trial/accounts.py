"""What a whole trial took and dropped: CPU of whole arms, void pairs, neighbours. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from layers.base import ChangeClass
from layers.evidence import Gate, GateResult
from layers.measure import conduct
from layers.trial.trial import Trial

MARGIN = 0.05  # of CPU per request beyond the baseline's that code may take


def gates(trial: Trial) -> Iterator[Gate]:
    """Yield the answers: cost, voids, neighbours."""
    yield cost(trial)
    yield voids(trial)
    yield neighbours(trial)


def cost(trial: Trial) -> Gate:
    """Fail code that surely takes more CPU per request, all processes of its arm counted.

    More throughput that other cores paid for is a loss where the machine has none to spare. A
    change of the configuration may be meant so: its reviewer sees the number.
    """
    found = trial.whole_cpu
    config = trial.candidate.hypothesis.change_class is ChangeClass.CONFIG
    more = found is not None and found.ci[1] < 1 / (1 + MARGIN)
    fails = more and not config
    detail = "too few launches to tell"
    if found is not None:
        low, high = (1 / end for end in found.ci[::-1])
        detail = (
            f"the whole arm takes {1 / found.ratio:.3f} times the CPU per request "
            f"({low:.3f} to {high:.3f}), {found.n} launches"
        )
    return Gate(
        name="cost",
        result=GateResult.FAIL if fails else GateResult.PASS,
        reason="costs_more_cpu" if fails else "cpu_for_the_reviewer" if more else "cpu_not_more",
        detail=detail,
    )


def voids(trial: Trial) -> Gate:
    """Leave a candidate undecided whose own blocks the machine seems to have voided."""
    sided = conduct.voids_one_sided(trial.ledger.voids, trial.load_test)
    return Gate(
        name="voids",
        result=GateResult.INCONCLUSIVE if sided else GateResult.PASS,
        reason="voids_one_sided" if sided else "voids_even",
        detail=sided or f"{len(trial.ledger.voids)} pairs were void",
    )


def neighbours(trial: Trial) -> Gate:
    """Leave undecided what was gained while something that has no name slowed the baseline down."""
    sided = conduct.neighbours_one_sided(trial.ledger.kept)
    return Gate(
        name="neighbours",
        result=GateResult.INCONCLUSIVE if sided else GateResult.PASS,
        reason="neighbours_one_sided" if sided else "neighbours_even",
        detail=sided or f"{len(trial.ledger.kept)} pairs of blocks",
    )
