"""What the server counted: caches and models that were skipped."""

from __future__ import annotations

import pytest

from layers.measure.counters import NotRun, difference, not_run
from layers.triton.client import ModelCounts


def counts(inferences: int, cache_hits: int = 0, succeeded: int = 60) -> ModelCounts:
    return ModelCounts(succeeded, 0, inferences, inferences, 0.0, 0.0, cache_hits)


BASELINE = {"entry": counts(60), "ranker": counts(60)}


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (BASELINE, None),
        ({**BASELINE, "added": counts(60)}, None),
        ({**BASELINE, "ranker": counts(70)}, None),
        (
            {**BASELINE, "ranker": counts(59)},
            NotRun("model_did_not_run", "ranker ran on 59 rows where the baseline's ran on 60"),
        ),
        (
            {"entry": counts(60)},
            NotRun("model_did_not_run", "ranker ran on 0 rows where the baseline's ran on 60"),
        ),
        (
            {**BASELINE, "entry": counts(20, cache_hits=40)},
            NotRun("served_from_cache", "entry: 40 answers came from the server's cache, 0 before"),
        ),
    ],
)
def test_every_model_of_the_baseline_has_to_run_on_as_many_rows(candidate, expected):
    assert not_run(BASELINE, candidate) == expected


def test_a_cache_that_the_baseline_has_too_is_no_finding():
    cached = {"entry": counts(20, cache_hits=40)}
    assert not_run(cached, cached) is None


def test_a_batch_counts_its_rows_not_its_executions():
    batched = {"entry": counts(60), "ranker": ModelCounts(60, 0, 60, 8, 0.0, 0.0)}
    assert not_run(BASELINE, batched) is None


def test_a_block_counts_from_its_own_beginning():
    before = {"entry": counts(5, 1, 5)}
    after = {"entry": counts(65, 1, 65), "late": counts(3, 0, 3)}
    assert difference(before, after) == {"entry": counts(60), "late": counts(3, 0, 3)}
