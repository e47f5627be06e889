"""Which changed files a trial has run: by what the servers loaded, builds read and code imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from layers.gates.exercised import aside, inert, served_gate
from layers.manifest import Manifest

MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {
            "name": "s",
            "models": "serving/models",
            "entry": "m",
            "build": [
                {"run": ["python", "b.py"], "inputs": ["b.py", "net/*.py"], "outputs": ["w.bin"]}
            ],
        },
        "traffic": {"requests": "traffic/r.bin", "arrivals": "traffic/a.csv"},
        "slo": {"p99_ms": 10},
    }
)
LOADED = {"m": frozenset({"1", "3"}), "features": frozenset({"1"})}
OWN = "serving/models/m/1/model.py"


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """The checkouts of the baseline and of the candidate, each with the model's code."""
    found = (tmp_path / "baseline", tmp_path / "candidate")
    for root in found:
        write(root, OWN, "import numpy\n")
    return found


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def refused(roots: tuple[Path, Path], *files: str) -> str | None:
    gate = served_gate(files, MANIFEST, LOADED, roots)
    if gate is None:
        return None
    assert (gate.result.value, gate.reason) == ("fail", "outside_served_files")
    return gate.detail


@pytest.mark.parametrize(
    "name",
    [
        OWN,
        "serving/models/m/3/labels.txt",
        "serving/models/m/config.pbtxt",
        "serving/models/m/data/vocabulary.txt",
        "serving/models/features/01/model.py",
        "b.py",
        "net/deep.py",
        "fvec_native/x.cpp",
    ],
)
def test_what_is_loaded_or_read_by_builds_was_run(roots, name):
    assert refused(roots, OWN, name) is None


@pytest.mark.parametrize(
    "name",
    [
        "serving/models/other/1/model.py",
        "serving/models/other/config.pbtxt",
        "serving/models/m/2/model.py",  # a version that neither arm serves
        "serving/models/shared.txt",
        "serving/other/m/1/model.py",
        "Makefile",
        "Dockerfile",
        ".travis.yml",
        ".pre-commit-config.yaml",
        "setup.py",
        "scripts/deploy.sh",
        "requirements-dev.txt",
        "docs/conf.py",
        "testing/run.sh",
    ],
)
def test_what_nobody_ran_is_refused_by_name(roots, name):
    told = f"no arm has loaded, built or imported {name}; loaded are features (1), m (1, 3)"
    assert refused(roots, OWN, name) == told


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/serving.rst",
        "docs/latency.svg",
        "LICENSE",
        "Changelog.txt",
        ".gitignore",
        "tests/unit/test_m.py",
        "tests/data/x.json",
        "serving/test_features.py",
        "features_test.py",
        "conftest.py",
        "serving/models/other/README.md",
    ],
)
def test_documents_and_tests_are_let_through(roots, name):
    assert inert(name)
    assert refused(roots, OWN, name) is None


def test_documents_in_models_that_nobody_loaded_are_named():
    name = "serving/models/other/README.md"
    assert aside([OWN, name], MANIFEST, LOADED) == f"not exercised, of no loaded model: {name}"
    assert aside([OWN, "README.md"], MANIFEST, LOADED) is None  # `not_exercised` names it


SHARED = "common/features.py"


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("from common.features import f", True),
        ("from common import features", True),
        ("import features", True),  # from a folder on the path
        ("import common.other", False),
        ("from . import model", False),
        ("this is no Python", False),
    ],
)
def test_a_shared_module_that_loaded_code_imports_was_run(roots, line, runs):
    for root in roots:
        write(root, SHARED, "x = 1\n")
        write(root, OWN, f"{line}\n")
    assert (refused(roots, SHARED) is None) is runs


def test_a_module_that_only_the_candidate_imports_was_run_if_it_is_new(roots):
    baseline, candidate = roots
    write(candidate, SHARED, "x = 1\n")
    write(candidate, OWN, "import common.features\n")
    assert refused(roots, SHARED) is None
    write(baseline, SHARED, "x = 0\n")  # somebody else's
    assert refused(roots, SHARED) is not None


def test_modules_are_followed_and_those_beside_come_first(roots):
    for root in roots:
        write(root, OWN, "from common import first\nimport json, utils\n")
        write(root, "common/first.py", "import common.second\n")
        write(root, "common/second.py", "")
        write(root, "serving/models/m/1/utils.py", "")
        write(root, "scripts/utils.py", "")
        write(root, "tools/json.py", "")
    assert refused(roots, "common/first.py", "common/second.py") is None
    assert refused(roots, "scripts/utils.py") is not None
    assert refused(roots, "tools/json.py") is not None


def test_modules_of_a_model_that_nobody_loaded_count_for_nothing(roots):
    for root in roots:
        write(root, SHARED, "")
        write(root, "serving/models/other/1/model.py", "import common.features\n")
    assert refused(roots, SHARED) is not None
