"""The gate of an approximation: paired by request, over enough of them."""

from __future__ import annotations

import numpy as np
import pytest

from layers.business_metric import LEAST_REQUESTS, Values, opted_in
from layers.manifest import CorrectnessSection
from tests.grpc_peer import request


class Largest:
    """A metric in this process; the real one runs in the sandbox, see test_verdict_attacks."""

    def answer(self, inputs, outputs):
        assert inputs["x"].dtype == np.float32
        return {"metric": np.float64(outputs["score"].max())}


def judged(scale: float, count: int = LEAST_REQUESTS, margin: float = 0.01) -> tuple[str, str]:
    values = Values(Largest())
    rng = np.random.default_rng(1)
    for i in range(count):
        old = rng.random(4)
        values.observe(request(i), {"score": old}, {"score": old * scale})
    gate = values.gate(margin)
    assert gate.name == "metric"
    return gate.result.value, gate.reason


@pytest.mark.parametrize(
    ("scale", "count", "expected"),
    [
        (0.9999, LEAST_REQUESTS, ("pass", "metric_non_inferior")),
        (0.9, LEAST_REQUESTS, ("fail", "metric_worse")),
        (1.0, LEAST_REQUESTS - 1, ("inconclusive", "too_few_requests")),
        (0.9, 3, ("inconclusive", "too_few_requests")),
    ],
)
def test_the_mean_metric_may_fall_by_the_margin_only(scale, count, expected):
    assert judged(scale, count) == expected


@pytest.mark.parametrize(
    ("section", "allowed"),
    [
        ({}, False),
        ({"metric": "m.py:f"}, False),
        ({"approximate_margin": 0.1}, False),
        ({"metric": "m.py:f", "approximate_margin": 0.0}, True),
    ],
)
def test_a_manifest_opts_in_by_metric_and_margin(section, allowed):
    assert opted_in(CorrectnessSection.model_validate(section)) is allowed
