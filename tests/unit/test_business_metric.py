"""The gate of an approximation: paired by request, over enough of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from layers.manifest import CorrectnessSection
from layers.measure.fresh import Fresh
from layers.measure.records import RECORD
from layers.traffic.salting import SALTS, Salter
from layers.trial.business_metric import (
    KEPT_SETS,
    LEAST_REQUESTS,
    Remembering,
    Values,
    opted_in,
    scoring,
)
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
        (1.0, LEAST_REQUESTS - 1, ("inconclusive", "too_few_answers")),
        (0.9, 3, ("inconclusive", "too_few_answers")),
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


class Block:
    """A timed block as `LoadResult` has it: answer `i` holds `values[i]`."""

    def __init__(self, digest: str, values: np.ndarray) -> None:
        self.request_set, self.values = digest, values
        self.records = np.zeros(len(values), RECORD)
        self.records["index"] = np.arange(len(values))

    def response(self, position: int) -> bytes:
        return self.values[position].tobytes()


def outputs(response: bytes) -> dict[str, np.ndarray]:
    return {"score": np.frombuffer(response)}


REQUESTS = [request(i, rows=4) for i in range(250)]
SALTER = Salter(REQUESTS, [("s", 1), ("x", 1)], SALTS[0])
RECORDED = SimpleNamespace(digest="recorded", requests=REQUESTS)


def under_load(fresh: Fresh | None, digests: Iterable[str], scale: float) -> tuple[int, str]:
    """Score blocks of which every answer is `scale` times what it was."""
    with scoring(nullcontext(Largest()), fresh, RECORDED) as scored:
        for digest in digests:
            old = np.random.default_rng(1).random((250, 3)) + 0.5
            scored.score(Block(digest, old), Block(digest, old * scale), outputs, 100)
        gate = scored.values.gate(0.01, "metric under load")
        assert gate.name == "metric under load"
        return len(scored.values.baseline), gate.reason


@pytest.mark.parametrize(("scale", "reason"), [(1.0, "metric_non_inferior"), (0.0, "metric_worse")])
def test_answers_of_timed_blocks_are_scored_too(tmp_path, scale, reason):
    fresh = Remembering(SALTER, tmp_path)

    def digests() -> Iterator[str]:
        for _ in range(3):
            with fresh.draw(np.arange(250)) as sent:
                assert len(fresh.sample(sent.digest)) == 100
            yield sent.digest

    assert under_load(fresh, digests(), scale) == (300, reason)
    assert fresh.keeps is False
    assert fresh._kept == {}


def test_blocks_that_send_the_recording_are_scored_by_it():
    assert under_load(None, ["recorded"] * 3, 0.0) == (300, "metric_worse")


def test_blocks_whose_requests_are_not_known_decide_nothing(tmp_path):
    for fresh in (None, Fresh(SALTER, tmp_path), Remembering(SALTER, tmp_path)):
        assert under_load(fresh, ["elsewhere"] * 3, 1.0) == (0, "too_few_answers")


def test_what_is_kept_is_what_was_sent_and_not_more_than_a_few_sets(tmp_path):
    fresh = Remembering(SALTER, tmp_path)
    fresh.draw(np.arange(5)).close()
    assert fresh._kept == {}
    fresh.keeps = True
    with fresh.draw(np.arange(5)) as sent:
        data = sent.path.read_bytes()
        expected = {i: data[start : start + n] for i, (start, n) in enumerate(sent.spans.tolist())}
    assert fresh.sample(sent.digest) == expected
    for _ in range(KEPT_SETS):
        fresh.draw(np.arange(5)).close()
    assert fresh.sample(sent.digest) == {}
    assert len(fresh._kept) == KEPT_SETS
