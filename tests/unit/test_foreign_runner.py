"""The runner of public programs finds a rewrite that is not exact, and one that crashes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest

from layers.errors import Missing
from layers.features.codemod import Codemod, Rewrite
from layers.features.sites import Refusal, Site
from layers.manifest import SandboxMode, SandboxSection
from layers.sandbox.box import Sandbox
from tests.foreign import draw, programs, runner, summary

CONFIG = """
name: "m" max_batch_size: 8
input [
  { name: "x" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "s" data_type: TYPE_STRING dims: [ 1 ] }
]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
MODEL = """
import triton_python_backend_utils as pb
from helper import scale


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb.InferenceResponse([pb.Tensor("y", scale(r.inputs()[0].as_numpy()))])
            for r in requests
        ]
"""
HELPER = "def scale(x):\n    return x + x\n"


class Written:
    """A text that a rewrite became, as libcst's modules have it."""

    def __init__(self, code):
        self.code = code


def codemod(name, change):
    """Return one that rewrites the helper by a change of its text."""

    def analyse(source, file):
        if "scale(x)" not in file.text or "return" not in file.text.splitlines()[-1]:
            return Rewrite([Refusal("of another kind", 1)])
        edit = (lambda: Written(change(file.text))) if change(file.text) != file.text else None
        return Rewrite([Site(file.path, 2, [2], "an addition")] if edit else [], edit)

    return Codemod(name, ("scale(x)",), analyse, lambda *_: 0.0, "because")


EXACT = codemod("exact", lambda text: text.replace("x + x", "2 * x"))
WRONG = codemod("wrong", lambda text: text.replace("x + x", "x * 2.0000002"))


def crash(source, file):
    raise KeyError("lost")


CRASHING = Codemod("crashing", ("scale",), crash, lambda *_: 0.0, "")
FOREVER = codemod("forever", lambda text: text + "    # again\n    return x\n")


@pytest.fixture
def folder(tmp_path):
    program = tmp_path / "01_one"
    (program / "helpers").mkdir(parents=True)
    (program / "config.pbtxt").write_text(CONFIG)
    (program / "model.py").write_text(MODEL)
    (program / "helpers" / "helper.py").write_text(HELPER)
    return program


@pytest.fixture(scope="module")
def confined():
    try:
        return Sandbox.open(SandboxSection(mode=SandboxMode.NO_CGROUP))
    except Missing as error:
        pytest.skip(str(error))


def examined(folder, confined, monkeypatch, *codemods):
    monkeypatch.setattr(runner, "CODEMODS", {c.name: c for c in codemods})
    options = argparse.Namespace(
        python=Path(sys.executable), only="", find_only=False, requests=20, pairs=0, seed=1
    )
    return runner.examine(folder, confined, options)


def test_an_exact_rewrite_answers_every_request_as_before(folder, confined, monkeypatch):
    (row,) = examined(folder, confined, monkeypatch, EXACT)
    assert (row["failed"], row["complaint"]) == ("", "")
    assert row["places"] == ["helper.py:2: an addition"]
    assert (row["compared"]["same"], row["compared"]["differ"]) == (20, [])
    assert not summary.is_wrong(row)


def test_a_rewrite_that_is_not_exact_is_found_alone_and_together(folder, confined, monkeypatch):
    exact, wrong, together = examined(folder, confined, monkeypatch, EXACT, WRONG)
    assert not summary.is_wrong(exact)
    assert summary.is_wrong(wrong)
    assert "DIFFER" in summary.exact(wrong)
    assert together["codemod"] == runner.TOGETHER


def test_a_codemod_that_crashes_or_proposes_forever_is_told(folder, confined, monkeypatch):
    rows = examined(folder, confined, monkeypatch, CRASHING, FOREVER)
    complaints = {row["codemod"]: row["complaint"] for row in rows}
    assert "KeyError: 'lost'" in complaints["crashing"]
    assert "proposed again after the rewrite" in complaints["forever"]


def test_a_program_that_does_not_start_is_no_fault_of_the_codemod(folder, confined, monkeypatch):
    (folder / "model.py").write_text(f"import no_such_package\n{MODEL}")
    (row,) = examined(folder, confined, monkeypatch, EXACT)
    assert row["failed"] == "ModuleNotFoundError: No module named 'no_such_package'"
    assert summary.exact(row) == "rewritten, not run"
    assert not summary.is_wrong(row)


def test_a_configuration_is_read_as_the_server_hands_it_to_the_model(folder):
    found = programs.load(folder).config
    assert found["input"][0] == {"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}
    assert found["max_batch_size"] == 8


def test_requests_are_as_declared_and_the_same_for_the_same_seed(folder):
    drawer = draw.Drawer(programs.load(folder).config, [b"a"])
    for number in range(50):
        drawn = drawer.request(np.random.default_rng(number))
        again = drawer.request(np.random.default_rng(number))
        assert [(n, a.dtype, a.shape, repr(a)) for n, a in drawn] == [
            (n, a.dtype, a.shape, repr(a)) for n, a in again
        ]
        for name, array in drawn:
            assert array.dtype == {"x": np.float32, "s": object}[name]
            assert array.ndim == 2
    tame = dict(drawer.request(np.random.default_rng(0), 5, "tame"))
    assert (tame["x"].shape, tame["s"].tolist()) == ((5, 1), [[b"a"]] * 5)


def test_words_are_those_that_the_program_spells():
    words = draw.words_of('KIND = {"alpha": 1}\nTEXT = "two\\nlines"\n', "not python (")
    assert b"alpha" in words
    assert not any(b"lines" in word for word in words)
