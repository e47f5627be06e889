"""What every layer of the registry promises, on a small stack that each of them matches.

A new layer extends STACK and SPOTS until it proposes something there.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path, PurePosixPath

import pytest

from knowledge.cards import Finding
from knowledge.store import builtin_directory, load_cards
from layers.base import Edit, Ground, Hotspot, Hypothesis, Layer, LayerName, Profile, StackView
from layers.evidence import HypothesisRecord, Iteration, Verdict
from layers.manifest import Manifest
from layers.profile.profiler import CONVERSION, LOOKUP, SERVER_MODULE
from layers.registry import LAYERS

MODEL = "models/prep/1/model.py"
CONFIG = """\
name: "prep"
backend: "python"
max_batch_size: 8
input [ { name: "title" data_type: TYPE_STRING dims: [ -1 ] } ]
"""
STACK = {
    MODEL: """\
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        parts = []
        for name in ("a", "b"):
            tensor = pb.get_input_tensor_by_name(request, name)
            parts.append(tensor.as_numpy().astype(np.float32).reshape(-1, 1))
        parts.append(self.bias(request))
        dense = np.concatenate(parts, axis=1)
        return pb.InferenceResponse([pb.Tensor("dense", dense)])
""",
    "models/prep/config.pbtxt": CONFIG,
    "models/queued/1/model.py": "class TritonPythonModel:\n    pass\n",
    "models/queued/config.pbtxt": CONFIG.replace("prep", "queued")
    + "dynamic_batching { max_queue_delay_microseconds: 500 }  # measured once\n",
    "README.md": "not served\n",
}
UTILS = f"/server/backends/python/{SERVER_MODULE}"
SPOTS = (
    Hotspot("prep", UTILS, LOOKUP, 0, 0.3, inclusive=True),
    Hotspot("prep", UTILS, CONVERSION, 0, 0.2, inclusive=True),
    Hotspot("prep", MODEL, "TritonPythonModel.one", 12, 0.4, inclusive=True),
    Hotspot("prep", MODEL, "TritonPythonModel.one", 15, 0.1),
)
PROFILE = Profile("py-spy", Path("raw"), 2.0, 9, {"prep": 0.7, "queued": 0.3}, {}, SPOTS)
MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {"name": "s", "models": "models", "entry": "prep"},
        "server": {"cpus": [0, 1]},
        "traffic": {"requests": "r.bin", "arrivals": "a.csv"},
        "slo": {"p99_ms": 10},
    }
)
CARDS = load_cards(builtin_directory())
GROUND = Ground(date(2026, 1, 2), "s", "b" * 40, "two cores", {"triton": "2.51.0"}, "w", "r")

pytestmark = pytest.mark.parametrize("key", list(LAYERS), ids=str)


@pytest.fixture
def stack(tmp_path: Path) -> StackView:
    for name, text in STACK.items():
        path = tmp_path / "stack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return StackView(tmp_path / "stack", "c" * 40, MANIFEST, Path(sys.executable))


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def diagnosed(layer: Layer, stack: StackView) -> list[Hypothesis]:
    spots = layer.profile(PROFILE, stack)
    return list(layer.diagnose(spots, stack, CARDS.for_layer(layer.name)))


def written(layer: Layer, hypothesis: Hypothesis, stack: StackView) -> Edit:
    edit = layer.optimize(hypothesis, stack)
    assert edit is not None
    return edit


def applied(edit: Edit, stack: StackView, root: Path) -> StackView:
    """Return a copy of the stack with the edit in it."""
    shutil.copytree(stack.root, root)
    for name, content in edit.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            (root / name).unlink()
        else:
            (root / name).write_bytes(content)
    return replace(stack, root=root, commit="d" * 40)


def test_a_layer_is_listed_under_its_own_name(key: LayerName) -> None:
    assert LAYERS[key].name is key


def test_profile_keeps_hotspots_and_makes_none_of_other_processes(key, stack) -> None:
    first = list(LAYERS[key].profile(PROFILE, stack))
    assert first == list(LAYERS[key].profile(PROFILE, stack))
    assert first
    assert {spot.process for spot in first} <= set(PROFILE.by_process)
    assert all(0 <= spot.share <= 1 for spot in first)


def test_diagnose_says_the_same_twice_and_changes_no_file(key, stack) -> None:
    before = contents(stack.root)
    found = diagnosed(LAYERS[key], stack)
    assert found == diagnosed(LAYERS[key], stack)
    assert found, "no hypothesis: extend the stack of this test until the layer matches"
    assert contents(stack.root) == before


def test_without_cards_nothing_is_proposed(key, stack) -> None:
    layer = LAYERS[key]
    assert list(layer.diagnose(layer.profile(PROFILE, stack), stack, ())) == []
    assert list(layer.refusals(stack, ())) == []


def test_hypotheses_are_well_formed(key, stack) -> None:
    cards = {card.id: card for card in CARDS.for_layer(key)}
    for found in diagnosed(LAYERS[key], stack):
        assert found.layer is key
        assert cards[found.card].transform == found.transform
        assert cards[found.card].change_class == found.change_class
        assert 0 < found.share <= 1
        assert 0 <= found.expected_gain <= found.best_gain < 1
        assert (stack.root / "models" / found.model).is_dir()
        assert found.title
        assert found.why


def test_sites_are_lines_of_the_stack(key, stack) -> None:
    for found in diagnosed(LAYERS[key], stack):
        assert found.sites
        for site in found.sites:
            file, _, line = site.rpartition(":")
            assert not PurePosixPath(file).is_absolute()
            assert 1 <= int(line) <= len((stack.root / file).read_text().splitlines())


def test_optimize_writes_the_same_edit_twice_and_changes_no_file(key, stack) -> None:
    before = contents(stack.root)
    for found in diagnosed(LAYERS[key], stack):
        edit = written(LAYERS[key], found, stack)
        assert edit == written(LAYERS[key], found, stack)
        assert edit.summary
        assert "\n" not in edit.summary
        assert edit.explanation
    assert contents(stack.root) == before


def test_an_edit_stays_below_the_models_and_changes_something(key, stack) -> None:
    for found in diagnosed(LAYERS[key], stack):
        edit = written(LAYERS[key], found, stack)
        for name in edit.files:
            assert PurePosixPath(name).parts[:2] == ("models", found.model)
            assert ".." not in PurePosixPath(name).parts
        now = {name: (stack.root / name) for name in edit.files}
        assert any(
            not path.is_file() or path.read_bytes() != edit.files[name]
            for name, path in now.items()
        )


def test_what_was_applied_is_not_proposed_again(key, stack, tmp_path) -> None:
    for number, found in enumerate(diagnosed(LAYERS[key], stack)):
        edit = written(LAYERS[key], found, stack)
        after = applied(edit, stack, tmp_path / str(number))
        assert (found.card, found.model) not in {
            (h.card, h.model) for h in diagnosed(LAYERS[key], after)
        }
        again = LAYERS[key].optimize(found, after)
        assert again is None


def test_refine_says_what_the_iteration_found(key, stack) -> None:
    found = diagnosed(LAYERS[key], stack)[0]
    iteration = Iteration(
        n=1,
        layer=key,
        card=found.card,
        hypothesis=HypothesisRecord(
            title=found.title,
            why=found.why,
            model=found.model,
            share=found.share,
            expected_gain=found.expected_gain,
            score=found.score,
            change_class=found.change_class,
        ),
        verdict=Verdict.REJECTED,
        reason="below_floor",
        base_commit="a" * 40,
    )
    assert LAYERS[key].refine(iteration, GROUND) == Finding(
        date=GROUND.date,
        stack="s",
        commit="a" * 40,
        model=found.model,
        verdict="rejected",
        reason="below_floor",
        share=found.share,
        hardware="two cores",
        versions={"triton": "2.51.0"},
        workload="w",
        run="r",
    )
