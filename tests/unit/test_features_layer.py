from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from knowledge.store import builtin_directory, load_cards
from layers.base import ChangeClass, Hotspot, Hypothesis, LayerName, Profile, StackView
from layers.features.layer import FeaturesLayer
from layers.manifest import Manifest

UTILS = "/backends/triton_python_backend_utils.py"
MODEL = "models/prep/1/model.py"
SOURCE = dedent("""\
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
    """)
CARDS = load_cards(builtin_directory()).for_layer("features")
LAYER = FeaturesLayer()


@pytest.fixture
def stack(tmp_path: Path) -> StackView:
    path = tmp_path / MODEL
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE)
    manifest = Manifest.model_validate(
        {
            "schema": "fvec.manifest/1",
            "stack": {"name": "s", "models": "models", "entry": "prep"},
            "traffic": {"requests": "r.bin", "arrivals": "a.csv"},
            "slo": {"p99_ms": 10},
        }
    )
    return StackView(tmp_path, "c", manifest, Path(sys.executable))


def spot(function, line, share, *, file=MODEL, inclusive=False):
    return Hotspot("prep", file, function, line, share, inclusive)


SPOTS = (
    spot("get_input_tensor_by_name", 0, 0.5, file=UTILS, inclusive=True),
    spot("get_input_tensor_by_name", 139, 0.4, file=UTILS),
    spot("TritonPythonModel.one", 12, 0.45, inclusive=True),
    spot("TritonPythonModel.one", 12, 0.04),
    spot("TritonPythonModel.one", 13, 0.03),
    spot("TritonPythonModel.one", 15, 0.02),
    spot("TritonPythonModel.one", 16, 0.2),
    spot("decode", 3, 0.1, file="/usr/lib/codec.py"),
)


def profile_of(spots):
    return Profile("py-spy", Path("raw"), 1.0, 1, {"prep": 1.0}, {}, spots)


def test_keeps_the_hotspots_of_the_models_own_files_and_of_the_lookup(stack):
    assert LAYER.profile(profile_of(SPOTS), stack) == SPOTS[:-1]


def test_diagnoses_what_the_sites_cost(stack):
    found = LAYER.diagnose(SPOTS, stack, CARDS)
    assert sorted((h.card, h.model, round(h.share, 6), tuple(h.sites)) for h in found) == [
        ("concat-to-slices", "prep", 0.05, (f"{MODEL}:15",)),
        ("lookups-one-pass", "prep", 0.49, (f"{MODEL}:12",)),
    ]
    assert {h.change_class for h in found} == {ChangeClass.EXACT}


def test_says_what_it_left_and_why(stack):
    (stack.root / "models" / "prep" / "1" / "other.py").write_text(
        "import numpy as np\n\n\ndef f(parts):\n    return np.concatenate(parts, axis=0)\n"
    )
    found = {h.card: h.why for h in LAYER.diagnose(SPOTS, stack, CARDS)}
    assert found["concat-to-slices"] == (
        "5.0% of the server's CPU time is spent at 1 place of this kind; left as they are: "
        "other.py:5 (not joined along the last axis of a matrix)"
    )


def test_a_model_whose_sites_cost_nothing_gives_no_hypothesis(stack):
    others = [Hotspot("other", s.file, s.function, s.line, s.share, s.inclusive) for s in SPOTS]
    assert LAYER.diagnose(others, stack, CARDS) == ()


def test_without_cards_there_is_no_hypothesis(stack):
    assert LAYER.diagnose(SPOTS, stack, []) == ()


def test_optimizes_each_card_alone_and_not_twice(stack):
    for hypothesis in LAYER.diagnose(SPOTS, stack, CARDS):
        edit = LAYER.optimize(hypothesis, stack)
        assert edit is not None
        assert list(edit.files) == [MODEL]
        (stack.root / MODEL).write_bytes(edit.files[MODEL] or b"")
        assert LAYER.optimize(hypothesis, stack) is None
    rewritten = (stack.root / MODEL).read_text()
    assert "inputs.get(name)" in rewritten
    assert "parts.joined(np.concatenate, axis=1)" in rewritten


def test_an_unknown_transform_gives_no_edit(stack):
    stray = Hypothesis(
        LayerName.FEATURES, "x", "prep", "t", "w", 0.1, 0.1, 0.2, ChangeClass.EXACT, "no_such"
    )
    assert LAYER.optimize(stray, stack) is None


def test_links_and_files_that_are_not_text_are_not_read(stack, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "model.py").write_text(SOURCE)
    version = stack.root / "models" / "prep" / "1"
    (version / "model.py").unlink()
    (version / "model.py").symlink_to(outside / "model.py")
    (stack.root / "models" / "linked").symlink_to(outside)
    (version / "blob.py").write_bytes(b"\xff\xfe")
    assert LAYER.diagnose(SPOTS, stack, CARDS) == ()


def test_installed_packages_below_a_model_are_not_read(stack):
    said = LAYER.diagnose(SPOTS, stack, CARDS)
    assert not any("left as they are" in hypothesis.why for hypothesis in said)
    packages = stack.root / "models/prep/1/env/lib/python3.11/site-packages/theirs"
    packages.mkdir(parents=True)
    (packages / "other.py").write_text(
        "import numpy as np\n\n\ndef f(parts):\n    return np.concatenate(parts, axis=0)\n"
    )
    assert LAYER.diagnose(SPOTS, stack, CARDS) == said
