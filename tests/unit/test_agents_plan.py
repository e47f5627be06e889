"""What a plan must claim before it is tried, and what of it is never taken on trust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from knowledge import yamlfile
from knowledge.yamlfile import YamlError
from layers.agents.plan import Plan, PlanRefused, share_of, to_hypothesis
from layers.base import ChangeClass, LayerName, Sign
from tests.agents_judged import plan
from tests.agents_situation import MODEL, NOISE, PROFILE

MODELS = ("features", "ranker")
CONFIG = {"layer": "config", "change_class": "config"}
YAML = """\
issue: look-ups-in-one-pass
title: Look the inputs up in one pass
layer: features
model: features
change_class: exact
claim: >-
  Each look-up scans all inputs of the request,
  and there are as many as inputs.
expected: [1.02, 1.3]
activation:
  - {sign: runs, model: features, subject: "models/features/1/model.py:_inputs"}
falsifier: The share of the look-ups falls and completions per second do not rise.
"""


def hypothesis(made: Plan, **rules: object):
    return to_hypothesis(made, PROFILE, NOISE.work, MODELS, "anthropic", **rules)


def sign(sign: str, subject: str, value: str = "", model: str = "features") -> dict[str, object]:
    signs = [{"sign": sign, "model": model, "subject": subject, "value": value}]
    return {"activation": signs}


# --- as the loop knows it -------------------------------------------------------------------------


def test_a_plan_becomes_a_hypothesis_with_our_share_and_its_contract() -> None:
    found = hypothesis(plan(skill="rows-at-once"))

    assert (found.card, found.model, found.transform) == (plan().issue, "features", "written")
    assert (found.layer, found.change_class) == (LayerName.FEATURES, ChangeClass.EXACT)
    assert (found.proposer, found.title, found.why) == ("anthropic", plan().title, plan().claim)
    assert found.share == 0.6  # of the profile: the author gives none
    low, high = 1 - 1 / 1.02, 1 - 1 / 1.3
    assert found.best_case == pytest.approx(high)
    assert found.score == pytest.approx((low + high) / 2)
    contract = found.contract
    assert contract is not None
    assert (contract.claim, contract.expected) == (plan().claim, (1.02, 1.3))
    assert [(a.sign, a.model, a.subject) for a in contract.activation] == [
        (Sign.RUNS, "features", "models/features/1/model.py:_inputs")
    ]
    assert (contract.falsifier, contract.skill) == (plan().falsifier, "rows-at-once")


def test_a_range_beyond_the_share_counts_for_no_more_than_the_share() -> None:
    found = hypothesis(plan(expected=[2.0, 20.0]))
    assert (found.best_gain, found.expected_gain) == (1.0, 1.0)
    assert found.best_case == 0.6


def test_a_configuration_can_touch_all_time() -> None:
    made = plan(**CONFIG, **sign("served", "instance_group[0].count", "2"))
    assert share_of(made, PROFILE) == 1.0
    assert hypothesis(made).share == 1.0


def test_an_approximation_needs_the_manifest_to_opt_in() -> None:
    made = plan(change_class="approximate")
    with pytest.raises(PlanRefused, match="does not opt in"):
        hypothesis(made)
    assert hypothesis(made, approximate=True).change_class is ChangeClass.APPROXIMATE


# --- what is refused, with the reason -------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "scorer"}, "model: this stack serves features, ranker"),
        ({"layer": "config"}, "change_class: config is for layer config"),
        ({"change_class": "config"}, "change_class: config is for layer config"),
        ({"model": "ranker", "expected": [1.5, 1.6]}, "all of it would give 1.429 times"),
        ({"expected": [1.001, 1.005]}, "is below the noise: 0.71% after 8 launches"),
        (sign("runs", MODEL), "must be FILE:FUNCTION"),
        (sign("runs", f"{MODEL}:"), "must be FILE:FUNCTION"),
        (sign("runs", f"{MODEL}:a b"), "must be FILE:FUNCTION"),
        (sign("runs", ":_rows"), "name the file by its path"),
        (sign("runs", f"/srv/{MODEL}:_rows"), "name the file by its path"),
        (sign("gone", f"../{MODEL}:_rows"), "name the file by its path"),
        (sign("loaded", "/lib/fast.so"), "name the file by its path"),
        (sign("loaded", "models//fast.so"), "name the file by its path"),
        (sign("loaded", "models/fast.so:init"), "name the file by its path"),
        (sign("runs", f"{MODEL}:_rows", "1"), "value is what the server reports"),
        (sign("served", "max_batch_size"), "value is what the server reports"),
        (sign("served", "max batch size", "8"), "name a field"),
        (sign("served", "models/config.pbtxt", "8"), "name a field"),
        (sign("runs", f"{MODEL}:_rows", model="scorer"), "this stack serves features, ranker"),
    ],
)
def test_what_cannot_be_tried_is_refused_with_a_reason(changes, reason: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        hypothesis(plan(**changes))
    assert reason in refused.value.reason
    assert str(refused.value) == refused.value.reason


def test_a_layer_that_the_run_may_not_change_is_refused() -> None:
    with pytest.raises(PlanRefused, match="only config, server"):
        hypothesis(plan(), layers=(LayerName.SERVER, LayerName.CONFIG))


def test_a_model_that_takes_no_time_has_none_to_save() -> None:
    with pytest.raises(PlanRefused, match="takes no time in the profile"):
        to_hypothesis(plan(model="idle"), PROFILE, NOISE.work, ("features", "idle"), "command")


@pytest.mark.parametrize(
    "changes",
    [
        sign("gone", "numpy/core/x.py:dot"),
        sign("gone", "triton_python_backend_utils.py:deserialize_bytes_tensor"),
        sign("runs", f"{MODEL}:<listcomp>"),
        sign("loaded", "models/features/1/_fast.so"),
        sign("served", "dynamic_batching.max_queue_delay_microseconds", "500"),
    ],
)
def test_signs_of_every_kind_are_taken(changes) -> None:
    contract = hypothesis(plan(**changes)).contract
    assert contract is not None
    assert contract.activation[0].subject == changes["activation"][0]["subject"]


# --- its form -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"issue": "Not A Slug"},
        {"title": "two\nlines"},
        {"title": "turned \u202e around"},
        {"title": " blank at its start"},
        {"title": "x" * 101},
        {"claim": "too short"},
        {"claim": "a bell rings here \a and all can hear it"},
        {"falsifier": ""},
        {"expected": [1.3, 1.02]},
        {"expected": [1.0, 1.2]},
        {"expected": [1.1, 21.0]},
        {"expected": [1.1]},
        {"activation": []},
        {"activation": sign("runs", "a.py:f")["activation"] * 5},
        {"skill": "no skill"},
        {"share": 0.9},
        {"change_class": "safe"},
    ],
)
def test_what_is_no_plan_is_not_read_as_one(changes) -> None:
    with pytest.raises(ValidationError):
        plan(**changes)


def test_a_program_writes_the_same_plan_as_yaml() -> None:
    assert yamlfile.loads(YAML, Path("fvec-hypothesis.yaml"), Plan) == plan()


def test_a_wrong_key_of_the_yaml_is_named_by_its_place() -> None:
    with pytest.raises(YamlError, match=r"share") as error:
        yamlfile.loads(f"{YAML}share: 0.9\n", Path("fvec-hypothesis.yaml"), Plan)
    assert (error.value.line, error.value.column) == (len(YAML.splitlines()) + 1, 1)


def test_a_plan_is_the_same_after_json() -> None:
    made = plan(**sign("served", "max_batch_size", "8"))
    assert Plan.model_validate_json(json.dumps(made.model_dump(mode="json"))) == made
