"""Paths in a manifest: however they are written, they are the ones that git names."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from layers.gates.paths import not_exercised, protected_files, touched
from layers.manifest import Manifest
from layers.trial.integrity import Evaluator

MODEL = "models/ranker/1/model.py"


def manifest(**changes: object) -> Manifest:
    whole: dict[str, object] = {
        "schema": "fvec.manifest/1",
        "stack": {"name": "s", "models": "models", "entry": "m"},
        "traffic": {"requests": "traffic/r.bin", "arrivals": "traffic/a.csv"},
        "slo": {"p99_ms": 10},
    }
    return Manifest.model_validate(whole | changes)


LOOSE = manifest(
    stack={"name": "s", "models": "./models/", "entry": "m", "requirements": "./r.txt"},
    traffic={"requests": "./traffic/r.bin", "arrivals": "traffic//a.csv"},
    correctness={"referee": "./judge/ref.py:f", "metric": "judge/./metric.py:g"},
    knowledge="knowledge/",
)


def test_a_path_is_kept_as_git_writes_it() -> None:
    stack = (LOOSE.stack.models, LOOSE.stack.requirements, LOOSE.knowledge)
    assert stack == ("models", "r.txt", "knowledge")
    assert (LOOSE.traffic.requests, LOOSE.traffic.arrivals) == ("traffic/r.bin", "traffic/a.csv")
    judges = (LOOSE.correctness.referee, LOOSE.correctness.metric)
    assert judges == ("judge/ref.py:f", "judge/metric.py:g")


@pytest.mark.parametrize(
    "name", ["traffic/r.bin", "traffic/a.csv", "judge/ref.py", "judge/metric.py"]
)
def test_what_judges_is_protected_however_it_is_written(name: str) -> None:
    gate = touched([MODEL, name], protected_files(LOOSE))
    assert gate is not None
    assert gate.reason == "touches_protected_files"


def test_requirements_are_the_baselines_however_they_are_written() -> None:
    gate = touched(["r.txt"], protected_files(LOOSE), LOOSE.stack.requirements)
    assert gate is not None


def test_a_model_below_a_folder_with_a_slash_at_its_end_is_exercised() -> None:
    assert not_exercised([MODEL], LOOSE) is None
    assert "README.md" in (not_exercised([MODEL, "README.md"], LOOSE) or "")


def built(pattern: str) -> Manifest:
    step = {"run": ["python", "b.py"], "inputs": [pattern], "outputs": [pattern]}
    return manifest(stack={"name": "s", "models": "models", "entry": "m", "build": [step]})


@pytest.mark.parametrize("pattern", ["data/**/*.txt", "**/x", "data/**", "a*"])
def test_a_glob_of_a_build_step_is_one_that_can_be_looked_for(pattern: str, tmp_path: Path) -> None:
    assert built(pattern).stack.build[0].inputs == [pattern]
    assert list(tmp_path.glob(pattern)) == []


@pytest.mark.parametrize("pattern", ["data/**.txt", "**x/y", "a/***"])
def test_a_glob_that_no_file_can_match_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError, match=r"`\*\*` stands for whole folders"):
        built(pattern)


@pytest.mark.parametrize("spec", ["/judge/ref.py:f", "../ref.py:f", "a/../../ref.py:f"])
@pytest.mark.parametrize("judge", ["referee", "metric"])
def test_what_judges_lies_in_the_repository(judge: str, spec: str) -> None:
    with pytest.raises(ValidationError, match="must be a relative path inside the repository"):
        manifest(correctness={judge: spec})


MARKED = manifest(
    stack={
        "name": "s",
        "models": "models[v2]",
        "entry": "m",
        "build": [
            {"run": ["python", "x"], "inputs": ["data/[ab].csv", "data/*.txt"], "outputs": ["w"]}
        ],
    },
    traffic={"requests": "traffic/[v2]/r?.bin", "arrivals": "traffic/[v2]/a*.csv"},
)


@pytest.mark.parametrize("name", ["traffic/[v2]/r?.bin", "traffic/[v2]/a*.csv"])
def test_a_plain_name_with_marks_of_a_glob_protects_itself(name: str) -> None:
    gate = touched([name], protected_files(MARKED))
    assert gate is not None
    assert gate.reason == "touches_protected_files"


@pytest.mark.parametrize("name", ["traffic/v/r1.bin", "traffic/2/a.csv", "traffic/[v2]/r1.bin"])
def test_and_nothing_that_it_would_match_as_a_glob(name: str) -> None:
    assert touched([name], protected_files(MARKED)) is None


@pytest.mark.parametrize("name", ["data/a.csv", "data/[ab].csv", "data/words.txt"])
def test_what_a_build_step_names_is_a_glob_and_a_name(name: str) -> None:
    assert not_exercised([name], MARKED) is None


def test_models_in_a_folder_with_marks_of_a_glob_are_exercised() -> None:
    assert not_exercised(["models[v2]/m/1/model.py"], MARKED) is None
    assert not_exercised(["modelsv/m/1/model.py"], MARKED) is not None


def test_a_protected_file_with_marks_of_a_glob_is_part_of_the_evaluator(tmp_path: Path) -> None:
    file = tmp_path / "traffic/[v2]/r?.bin"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"requests")
    names = Evaluator.of(tmp_path, protected_files(MARKED)).files
    assert "traffic/[v2]/r?.bin" in names
