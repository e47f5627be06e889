"""The commit gate: both arms' replay of the recorded arrivals, against the SLO. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layers.errors import ToolFailed
from layers.evidence import ArmLoad, Block, Gate, GateResult, LoadTest
from layers.measure import stats
from layers.measure.checks import percentiles
from layers.measure.launch import ARMS, Recorded


def load_test(
    recorded: Recorded, slo_p99_ms: float, rate: float, count: int
) -> tuple[LoadTest, Gate]:
    """Return the load test of both arms and the commit gate's answer to it.

    Raises ToolFailed where the arms were not offered the same requests at the same times.
    """
    _check_alike(recorded)
    arms = {arm: _arm_load(recorded.blocks[arm], recorded.latencies_ms(arm)) for arm in ARMS}
    old, new = arms["baseline"], arms["candidate"]
    difference, ci, result, reason = stats.commit_gate(
        old.over_slo, old.requests, new.over_slo, new.requests
    )
    p99 = stats.bootstrap_quantile_ratio(
        recorded.latencies_ms("baseline"), recorded.latencies_ms("candidate")
    )
    test = LoadTest(
        slo_p99_ms=slo_p99_ms,
        rate=rate,
        baseline=old,
        candidate=new,
        over_slo_difference=difference,
        over_slo_ci=ci,
        p99_ratio=p99.ratio if p99 else None,
        p99_ci=p99.ci if p99 else None,
        outputs_compared=count,
    )
    if new.errors > old.errors:
        result, reason = GateResult.FAIL, "more_errors"
    detail = (
        f"over the SLO: {old.over_slo} of {old.requests} before, {new.over_slo} of {new.requests} "
        f"after; difference {difference:+.2%} ({ci[0]:+.2%} to {ci[1]:+.2%})"
    )
    return test, Gate(name="commit", result=result, reason=reason, detail=detail)


def _arm_load(blocks: Sequence[Block], latencies_ms: np.ndarray) -> ArmLoad:
    """Sum one arm's segments up."""
    requests = sum(block.requests for block in blocks)
    offered_s = sum(block.requests / block.offered for block in blocks if block.offered)
    return ArmLoad(
        requests=requests,
        offered=requests / offered_s,
        achieved=sum(block.completed for block in blocks) / sum(block.wall_s for block in blocks),
        errors=sum(block.errors for block in blocks),
        over_slo=sum(block.over_slo or 0 for block in blocks),
        latency_ms=percentiles(latencies_ms),
        lag_p99_ms=max(block.lag_p99_ms or 0.0 for block in blocks),
    )


def _check_alike(recorded: Recorded) -> None:
    """Refuse to compare arms that did not answer the same load, segment by segment."""
    loads = {
        arm: [
            (
                result.request_set,
                block.requests,
                block.offered,
                result.records["scheduled_s"].tolist(),
            )
            for block, result in zip(recorded.blocks[arm], recorded.results[arm], strict=True)
        ]
        for arm in ARMS
    }
    if loads["baseline"] != loads["candidate"]:
        raise ToolFailed("the arms were offered different load: nothing can be compared")
