"""What makes the traffic is protected wherever it lies, but where it is served, too."""

from __future__ import annotations

import pytest

from layers.gates.paths import protected_files, remakes_traffic, touched
from layers.manifest import Manifest

MODEL = "models/m/1/model.py"
TRAFFIC = {
    "run": ["python", "tools/record.py"],
    "inputs": ["tools/record.py", "tools/words/*.txt", "models/m/1/vocab/*.txt", "data/rates.csv"],
    "outputs": ["traffic/requests.bin", "traffic/arrivals.csv", "traffic/notes.txt"],
}
WORDS = {
    "run": ["python", "corpus/words.py"],
    "inputs": ["corpus/words.py", "corpus/raw"],
    "outputs": ["tools/words/de.txt"],
}
WEIGHTS = {
    "run": ["python", "train.py"],
    "inputs": ["train.py", "net", "data/rates.csv"],
    "outputs": ["models/m/1/weights.npz", "cache/x.bin"],
}
JUDGE = {
    "run": ["python", "make_judge.py"],
    "inputs": ["make_judge.py"],
    "outputs": ["judge/referee.py"],
}


def manifest(*steps: dict[str, object]) -> Manifest:
    return Manifest.model_validate(
        {
            "schema": "fvec.manifest/1",
            "stack": {"name": "s", "models": "models", "entry": "m", "build": steps},
            "traffic": {"requests": "traffic/requests.bin", "arrivals": "traffic/arrivals.csv"},
            "correctness": {"referee": "judge/referee.py:answer"},
            "slo": {"p99_ms": 10},
        }
    )


MADE = manifest(WORDS, TRAFFIC, WEIGHTS, JUDGE)


@pytest.mark.parametrize(
    "name",
    [
        "tools/record.py",
        "tools/words/de.txt",
        "corpus/words.py",  # makes what makes the traffic
        "corpus/raw/deep/a.txt",
        "make_judge.py",
        "traffic/requests.bin",
    ],
)
def test_what_makes_the_traffic_or_the_referee_is_protected(name):
    gate = touched([MODEL, name], protected_files(MADE))
    assert gate is not None
    assert (gate.reason, gate.detail) == ("touches_protected_files", name)
    assert remakes_traffic([name], MADE) is None


@pytest.mark.parametrize("name", ["models/m/1/vocab/en.txt", "data/rates.csv"])
def test_what_is_served_of_it_may_change_and_a_reviewer_is_told(name):
    assert touched([MODEL, name], protected_files(MADE)) is None
    told = remakes_traffic([MODEL, name], MADE)
    assert told == f"later judgements are measured on what is made of it anew: {name}"


@pytest.mark.parametrize("name", ["train.py", "net/a.py", MODEL, "README.md", "cache/x.bin"])
def test_what_only_serves_is_neither(name):
    assert touched([name], protected_files(MADE)) is None
    assert remakes_traffic([name], MADE) is None


def test_one_step_for_everything_protects_nothing_and_says_so():
    whole = manifest(
        {
            "run": ["make"],
            "inputs": ["Makefile", "src"],
            "outputs": ["models/m/1/w.npz", "traffic/requests.bin", "traffic/arrivals.csv"],
        }
    )
    assert touched(["src/a.py"], protected_files(whole)) is None
    assert "src/a.py" in (remakes_traffic(["src/a.py"], whole) or "")


def test_a_glob_of_all_folders_never_protects_what_is_served():
    wide = manifest(TRAFFIC | {"inputs": ["*.py", "tools/record.py"]})
    assert touched([MODEL], protected_files(wide)) is None
    assert touched(["tools/record.py"], protected_files(wide)) is not None


def test_without_steps_the_files_themselves_are_protected():
    names = protected_files(manifest())
    assert names == (
        ".github/fvec.yml",
        "traffic/requests.bin",
        "traffic/arrivals.csv",
        "judge/referee.py",
    )
