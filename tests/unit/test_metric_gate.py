"""The gate of the approximate class: a business metric, non-inferior by interval."""

import math

import numpy as np
import pytest

from layers.errors import InvalidInput
from layers.evidence import GateResult
from layers.gates.metric import non_inferior

PASS, FAIL, INCONCLUSIVE = GateResult.PASS, GateResult.FAIL, GateResult.INCONCLUSIVE


@pytest.mark.parametrize(
    ("shift", "result", "reason"),
    [
        (0.0, PASS, "metric_non_inferior"),
        (0.05, PASS, "metric_non_inferior"),
        (-0.05, FAIL, "metric_worse"),
        (-0.01, INCONCLUSIVE, "metric_undecided"),
    ],
)
def test_the_metric_must_be_non_inferior_by_interval(shift, result, reason):
    rng = np.random.default_rng(9)
    old = rng.normal(0.7, 0.1, 400)
    new = old + shift + rng.normal(0, 0.02, 400)
    found = non_inferior(old.tolist(), new.tolist(), margin=0.01)
    assert (found.gate.name, found.gate.result, found.gate.reason) == ("metric", result, reason)
    assert found.ci[0] < found.difference < found.ci[1]


def test_an_identical_metric_is_non_inferior_at_any_margin():
    assert non_inferior([0.5, 0.6], [0.5, 0.6], margin=0.0).gate.result is PASS


def test_metrics_that_cannot_be_judged():
    assert non_inferior([0.5, 0.6], [0.5, math.nan], 0.1).gate.reason == "non_finite"
    for old, new, margin in (
        ([0.5], [0.5], 0.1),
        ([0.5, 0.5], [0.5], 0.1),
        ([0.5, math.nan], [0.5, 0.5], 0.1),
        ([0.5, 0.5], [0.5, 0.5], -0.1),
    ):
        with pytest.raises(InvalidInput):
            non_inferior(old, new, margin)
