"""Candidates that cheat on a real served stack, judged by the real Verifier: the reason of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import pytest

from bot.publishing.local import open_local
from layers import session
from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName
from layers.events import Silent
from layers.evidence import Iteration, NoiseFloor
from layers.loop.wiring import verifier_of
from layers.measure import launch, stats
from layers.measure.checks import Limits
from layers.session import RunOptions, open_session, settled
from layers.trial import calibrate, equivalence, integrity
from tests.e2e.proposals import (
    FEATURES,
    RANKER,
    SEARCHED,
    Proposals,
    git,
    slow_repository,
)

pytestmark = pytest.mark.triton

# The machine of the tests is not quiet, and none of these attacks is about that.
LAX = Limits(neighbour_cores=1e3, generator_cores=1e3, lag_floor_ms=1e9, achieved_share=0.0)
NOISE = NoiseFloor(
    floor_pct=5.0, pair_sd_pct=2.0, pairs=8, launches=2, launch_differences_pct=[0.5, -0.5]
)
ENSEMBLE = "models/tiny_ensemble/config.pbtxt"
METRIC = """\
import numpy as np


def best(request, outputs):
    return float(np.max(outputs["score"]))
"""

Judge = Callable[..., Iteration]


@pytest.fixture(scope="module")
def judge(tmp_path_factory, server_env) -> Iterator[Judge]:
    """Return what judges an edit of the tiny stack with its slow idiom."""
    folder = tmp_path_factory.mktemp("attacks")
    root = slow_repository(folder / "tiny")
    (root / "metric.py").write_text(METRIC)
    manifest = root / ".github/fvec.yml"
    text = manifest.read_text()
    assert "correctness:" not in text
    manifest.write_text(
        text + "correctness:\n  metric: metric.py:best\n  approximate_margin: 0.001\n"
    )
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Name a metric")
    options = RunOptions(folder / "out", None, None, 1, None, open_local)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "SLO_REQUESTS", 60)
        patch.setattr(session, "BLOCK_S", 0.3)
        patch.setattr(equivalence, "RECORDED", 30)
        patch.setattr(equivalence, "MUTATED", 12)
        # A developer may edit the engine while its tests run; test_integrity watches that part.
        patch.setattr(integrity, "ENGINE", folder / "not-there")
        patch.setattr(launch, "Limits", lambda: LAX)
        patch.setattr(launch, "RECORDED_LIMITS", LAX)
        with open_session(root, options, Silent(), lambda block: None) as opened:
            yield _judge(opened)


def _judge(opened: session.Session) -> Judge:
    with settled(opened) as (sized, deployment):
        sized = calibrate._equipped(sized, deployment)
    calibration = calibrate.Calibration(
        session=sized,
        profile=None,
        work=NOISE,
        reproducible=frozenset({"score"}),
        launch_s=1.0,
    )
    verifier = verifier_of(calibration, stats.LookPlan(candidates=1), lambda look: None)
    turns = iter(range(1, 1000))

    def judge(edits: dict[str, Sequence[tuple[str, str]]], change_class: str = "exact"):
        n = next(turns)
        files = {}
        for path, replacements in edits.items():
            text = (sized.view.root / path).read_text()
            for old, new in replacements:
                assert re.search(old, text), old
                text = re.sub(old, lambda _, new=new: new, text, count=1)
            files[path] = text.encode()
        edit = Edit(files, "Cheat", "No.")
        commit, patch, worktree = sized.stack.commit_edit(
            sized.view.commit, f"fvec/test/{n}", edit, sized.out / "worktrees"
        )
        hypothesis = Hypothesis(
            layer=LayerName.FEATURES,
            card="cheat",
            model="tiny_features",
            title="Cheat",
            why="",
            share=1.0,
            expected_gain=0.5,
            best_gain=0.9,
            change_class=ChangeClass(change_class),
            transform="cheat",
        )
        candidate = Candidate(
            hypothesis, edit, f"fvec/test/{n}", sized.view.commit, commit, worktree, patch
        )
        return verifier.verify(candidate, Proposals({}), sized.view, n)

    return judge


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
    assert found.looks[0].estimate < 1.2, found.looks
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
def test_an_approximation_is_held_to_the_business_metric(judge, factor, gate):
    scaled = f"{SCALED} * np.float32({factor}))"
    found = judge({RANKER: [(SCORE, scaled)]}, "approximate")
    gates = {g.name: (g.result.value, g.reason) for g in found.gates}
    assert gates["correctness"] == ("pass", "outputs_finite")
    assert gates["metric"] == gate
    assert ended(found) == ("rejected", "metric_worse") or gate[0] == "pass"


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
