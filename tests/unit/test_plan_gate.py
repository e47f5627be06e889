"""What an agent's change may touch, whatever its author says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName
from layers.evidence import GateResult
from layers.gates.paths import plan_gate
from layers.manifest import Manifest

MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {
            "name": "s",
            "models": "models",
            "entry": "m",
            "build": [
                {
                    "run": ["python", "build.py"],
                    "inputs": ["build.py", "net/*.py"],
                    "outputs": ["w"],
                }
            ],
        },
        "traffic": {"requests": "traffic/r.bin", "arrivals": "traffic/a.csv"},
        "slo": {"p99_ms": 10},
        "layers": ["features", "server"],
    }
)
OWN = "models/ranker/1/model.py"


def candidate(*names: str, content: bytes | None = b"x = 1\n") -> Candidate:
    hypothesis = Hypothesis(
        layer=LayerName.FEATURES,
        card="look-once",
        model="ranker",
        title="Look once",
        why="because",
        share=0.5,
        expected_gain=0.2,
        best_gain=0.4,
        change_class=ChangeClass.EXACT,
        transform="written",
        proposer="command",
    )
    edit = Edit(dict.fromkeys(names, content), "Look once", "It looks once.")
    return Candidate(hypothesis, edit, "b", "c0", "c1", Path("w"), "patch")


@pytest.mark.parametrize("names", [(OWN,), (OWN, "models/ranker/1/new.py"), (OWN, "net/ranker.py")])
def test_its_own_model_and_what_the_build_reads_may_be_changed(names):
    gate = plan_gate(candidate(*names), MANIFEST)
    assert (gate.name, gate.result, gate.reason) == ("plan", GateResult.PASS, "within_its_plan")


@pytest.mark.parametrize(
    "name",
    [
        "tests/conftest.py",
        "Makefile",
        "pyproject.toml",
        ".travis.yml",
        ".woodpecker.yml",
        ".devcontainer/devcontainer.json",
        "deploy/serve.yaml",
        "docs/fvec_native/__init__.py",
        "modelsx/ranker/1/model.py",
    ],
)
def test_what_no_station_runs_does_not_reach_a_branch(name):
    gate = plan_gate(candidate(OWN, name), MANIFEST)
    assert (gate.result, gate.reason) == (GateResult.FAIL, "outside_served_files")
    assert name in gate.detail


def test_a_configuration_needs_the_manifests_leave_whatever_the_author_says():
    changed = candidate(OWN, "models/ranker/config.pbtxt")
    gate = plan_gate(changed, MANIFEST)
    assert (gate.result, gate.reason) == (GateResult.FAIL, "layer_not_allowed")
    allowed = MANIFEST.model_copy(update={"layers": [LayerName.FEATURES, LayerName.CONFIG]})
    assert plan_gate(changed, allowed).result is GateResult.PASS


@pytest.mark.parametrize("name", ["models/features/1/model.py", "models/ranker2/1/model.py"])
def test_another_model_is_another_plan(name):
    gate = plan_gate(candidate(OWN, name), MANIFEST)
    assert (gate.result, gate.reason) == (GateResult.FAIL, "outside_the_plan")
    assert "the plan is about ranker" in gate.detail


def test_weights_and_data_stay():
    gate = plan_gate(candidate(OWN, "models/ranker/1/weights.bin", content=b"\x00\x01"), MANIFEST)
    assert (gate.result, gate.reason) == (GateResult.FAIL, "not_text")


def test_a_deleted_file_is_changed_too():
    gate = plan_gate(candidate("models/features/1/model.py", content=None), MANIFEST)
    assert gate.reason == "outside_the_plan"
    named = replace(candidate(OWN, content=None))
    assert plan_gate(named, MANIFEST).result is GateResult.PASS
