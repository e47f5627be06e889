"""Candidates that cheat on a real served stack, judged by the real Verifier: the reason of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from layers.base import ChangeClass
from layers.evidence import Iteration
from tests.e2e.proposals import FEATURES, RANKER, SEARCHED, git
from tests.tiny_verifier import Tiny, end_before_timing, tiny_verifier

pytestmark = [pytest.mark.triton, pytest.mark.alone]

ENSEMBLE = "models/tiny_ensemble/config.pbtxt"
METRIC = """\
import numpy as np


def best(request, outputs):
    return float(np.max(outputs["score"]))
"""
APPROXIMATIONS = "correctness:\n  metric: metric.py:best\n  approximate_margin: 0.001\n"

Edits = Mapping[str, Sequence[tuple[str, str]]]  # by file: a pattern, and what stands there then
Judge = Callable[..., Iteration]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, server_env) -> Iterator[Tiny]:
    folder = tmp_path_factory.mktemp("attacks")
    with tiny_verifier(folder, _name_a_metric, mutated=12) as opened:
        yield opened


def _name_a_metric(root: Path) -> None:
    """Allow approximations."""
    (root / "metric.py").write_text(METRIC)
    manifest = root / ".github/fvec.yml"
    text = manifest.read_text()
    assert "correctness:" not in text
    manifest.write_text(text + APPROXIMATIONS)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Name a metric")


@pytest.fixture
def judge(tiny) -> Judge:
    """Return what judges an edit of the tiny stack with its slow idiom."""

    def judge(edits: Edits, change_class: str = "exact") -> Iteration:
        files = {path: _edited(tiny.text(path), changes) for path, changes in edits.items()}
        return tiny.decided(tiny.candidate(files, change_class=ChangeClass(change_class)))

    return judge


def _edited(text: str, changes: Sequence[tuple[str, str]]) -> str:
    for old, new in changes:
        assert re.search(old, text), old
        text = re.sub(old, lambda _, new=new: new, text, count=1)
    return text


def ended(iteration: Iteration) -> tuple[str, str]:
    return iteration.verdict.value, iteration.reason


EXECUTE = r"return \[self\._respond\(request\) for request in requests\]"
MEMO = """\
memo = self.__dict__.setdefault("memo", {})
        answers = []
        for request in requests:
            key = tuple(
                pb_utils.get_input_tensor_by_name(request, n).as_numpy().tobytes()
                if n != "item_title"
                else tuple(pb_utils.get_input_tensor_by_name(request, n).as_numpy().ravel())
                for n in ("user_age", "item_title", "item_price", "item_clicks")
            )
            if key not in memo:
                memo[key] = self._respond(request)
            answers.append(memo[key])
        return answers"""


def test_a_memo_of_whole_requests_is_seen_before_anything_is_timed(judge):
    found = judge({FEATURES: [(EXECUTE, MEMO)]})
    assert found.verdict.value in ("rejected", "inconclusive"), found.detail
    if found.reason != "answers_from_memory":  # the timed blocks had to do it
        pytest.skip(f"the machine is too noisy to tell firsts from repeats: {found.gates}")
    assert found.pairs == []


def test_a_memo_gains_nothing_in_timed_blocks(judge, monkeypatch):
    monkeypatch.setattr("layers.trial.verify.REQUESTS", 0)  # no probe: the blocks have to do it
    found = judge({FEATURES: [(EXECUTE, MEMO)]})
    assert found.verdict.value in ("rejected", "inconclusive")
    assert found.looks[0].estimate < 1.6, found.looks  # a hit is threefold
    assert "memory_not_probed" in [gate.reason for gate in found.gates]


SCORE = r'tensor = pb_utils\.Tensor\("score", score\.astype\(np\.float32\)\)'
SCALED = 'tensor = pb_utils.Tensor("score", score.astype(np.float32)'
LATER = """\
self.seen = self.__dict__.get("seen", 0) + 1
            score = score.astype(np.float32)
            if self.seen > 160:
                {change}
            tensor = pb_utils.Tensor("score", score)"""


@pytest.mark.parametrize(  # what else an answer can be: test_timed_outputs
    ("change", "reason"),
    [
        ("score = score * np.float32(0.9)", "outputs_differ"),
        ("raise pb_utils.TritonModelException('no')", "errors_under_load"),
        ("import os; os._exit(0)", "died_under_load"),
    ],
)
def test_what_turns_wrong_only_once_it_is_timed_is_caught_there(judge, change, reason):
    found = judge({RANKER: [(SCORE, LATER.format(change=change))]})
    assert ended(found) == ("rejected", reason), found.detail
    timed = [gate.name for gate in found.gates if gate.result.value == "fail"]
    assert timed in ([], ["timed correctness"])


def test_one_that_dies_while_it_is_asked_is_rejected_for_that(judge):
    dies = LATER.replace("> 160", "> 40").format(change="import os; os._exit(0)")
    found = judge({RANKER: [(SCORE, dies)]})
    assert ended(found) == ("rejected", "died_under_load"), found.detail
    assert "refusals" not in [gate.name for gate in found.gates]


ONE_STEP = [
    (
        r'(?s)output_map \{ key: "features" value: "features" \}.*\Z',
        'output_map { key: "score" value: "score" }\n    }\n  ]\n}\n',
    ),
]
SCORED = """\
weights = np.array([0.01, -0.3, 0.5, 0.002], dtype=np.float32)
        score = 1 / (1 + np.exp(-(features[np.newaxis] @ weights)))
        return pb_utils.InferenceResponse([pb_utils.Tensor("score", score.astype(np.float32))])"""


def test_an_ensemble_that_skips_a_model_is_seen_by_the_servers_counters(judge):
    found = judge(
        {
            ENSEMBLE: ONE_STEP,
            FEATURES: [(r"return pb_utils\.InferenceResponse.*", SCORED)],
            "models/tiny_features/config.pbtxt": [
                (
                    r'name: "features" data_type: TYPE_FP32 dims: \[ -1, 4 \]',
                    'name: "score" data_type: TYPE_FP32 dims: [ -1 ]',
                ),
            ],
        }
    )
    assert ended(found) == ("rejected", "model_did_not_run"), found.detail
    assert found.detail.startswith("tiny_ranker ran on 0 rows where the baseline's ran on ")


@pytest.mark.parametrize(
    ("factor", "gate"),
    [("0.9999", ("pass", "metric_non_inferior")), ("0.99", ("fail", "metric_worse"))],
)
def test_an_approximation_is_held_to_the_business_metric(judge, monkeypatch, factor, gate):
    end_before_timing(monkeypatch)  # the metric of timed answers has tests of its own
    scaled = f"{SCALED} * np.float32({factor}))"
    found = judge({RANKER: [(SCORE, scaled)]}, "approximate")
    gates = {g.name: (g.result.value, g.reason) for g in found.gates}
    assert gates["correctness"] == ("pass", "outputs_finite")
    assert gates["metric"] == gate
    passed = gate[0] == "pass"
    end = ("inconclusive", "not_timed_here") if passed else ("rejected", "metric_worse")
    assert ended(found) == end, found.detail


def test_an_approximation_that_answers_zeros_only_while_it_is_timed_fails_its_metric(
    judge, monkeypatch
):
    monkeypatch.setattr("layers.trial.business_metric.LEAST_REQUESTS", 60)  # one launch has them
    later = LATER.replace("> 160", "> 400").format(change="score = score * np.float32(0)")
    found = judge({RANKER: [(SCORE, later)]}, "approximate")
    gates = {g.name: (g.result.value, g.reason) for g in found.gates}
    assert gates["metric"] == ("pass", "metric_non_inferior")
    assert gates["metric under load"] == ("fail", "metric_worse")
    assert ended(found) == ("rejected", "metric_worse"), found.detail
    assert found.looks == []


def test_an_honest_approximation_is_scored_under_load_too_and_accepted(judge):
    scaled = f"{SCALED} * np.float32(0.9999))"
    faster = (re.escape(SEARCHED[0]), SEARCHED[1])
    found = judge({RANKER: [(SCORE, scaled)], FEATURES: [faster]}, "approximate")
    gates = {g.name: (g.result.value, g.reason) for g in found.gates}
    if "confirm" not in gates:
        pytest.skip(f"the machine is too noisy for a gain: {found.reason} {found.detail}")
    assert gates["metric under load"] == ("pass", "metric_non_inferior")
    assert ended(found) == ("accepted", "gain_confirmed")


def test_an_approximation_that_calls_itself_a_reordering_is_none(judge):
    found = judge({RANKER: [(SCORE, f"{SCALED} * np.float32(0.9998))")]}, "reorder")
    assert ended(found) == ("rejected", "too_many_outliers"), found.detail
