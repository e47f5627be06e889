"""Candidates that pass for what they are not served as: files, interfaces, outputs, logs, errors.

Judged by the real Verifier on real servers, up to where they would be timed; two are timed, by
blocks of which nothing is asserted but what they hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from layers.base import ChangeClass
from layers.evidence import Iteration, Verdict
from layers.trial.trial import TrialEnded
from layers.trial.verify import Verifier
from tests.e2e.proposals import FEATURES, RANKER, SEARCHED, edit, git
from tests.tiny_verifier import Tiny, end_before_timing, tiny_verifier

pytestmark = pytest.mark.triton

FEATURES_CONFIG = "models/tiny_features/config.pbtxt"
ENSEMBLE = "models/tiny_ensemble/config.pbtxt"
OTHER = "models/tiny_other/1/model.py"
SHARED = "common/shared.py"

Files = Mapping[str, str | bytes | None]
Judge = Callable[..., Iteration]

METRIC = """\
import numpy as np


def best(request, outputs):
    return float(np.max(outputs["score"]))
"""
# What the stack computes, in float64 from its inputs on.
REFEREE = """\
import numpy as np

PERCENTILES = np.linspace(0, 80, 1500)
WEIGHTS = np.array([0.01, -0.3, 0.5, 0.002], dtype=np.float32).astype(np.float64)


def score(request):
    titles = request["item_title"][0]
    price = request["item_price"][0].astype(np.float64)
    clicks = request["item_clicks"][0]
    age = float(request["user_age"][0][0])
    columns = [
        [len(title.decode("utf-8", "replace")) for title in titles],
        np.log1p(np.maximum(price, 0)),
        np.searchsorted(PERCENTILES, clicks, side="right"),
        np.full(len(titles), age),
    ]
    features = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    return {"score": 1 / (1 + np.exp(-(features @ WEIGHTS)))[np.newaxis]}
"""
JUDGES = """\
correctness:
  referee: referee.py:score
  metric: metric.py:best
  approximate_margin: 0.001
"""
RESPONSE = 'return pb_utils.InferenceResponse([pb_utils.Tensor("features", features[np.newaxis])])'
WITH_ID = """\
pb_utils.Logger.log_info(f"scored {len(titles)} items")  # read by the training job
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("features", features[np.newaxis]),
                pb_utils.Tensor("item_id", titles[np.newaxis]),
            ]
        )"""
IMPORTED = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from common import shared
"""


def _more(root: Path) -> None:
    """Add what there is to cheat with: a log, ids of items, judges, a shared module, another model."""
    edit(root, FEATURES, RESPONSE, WITH_ID)
    edit(
        root,
        FEATURES_CONFIG,
        "dims: [ -1, 4 ] }\n",
        'dims: [ -1, 4 ] },\n  { name: "item_id" data_type: TYPE_STRING dims: [ -1 ] }\n',
    )
    edit(
        root,
        ENSEMBLE,
        'output [ { name: "score" data_type: TYPE_FP32 dims: [ -1 ] } ]',
        'output [\n  { name: "score" data_type: TYPE_FP32 dims: [ -1 ] },\n'
        '  { name: "item_id" data_type: TYPE_STRING dims: [ -1 ] }\n]',
    )
    edit(
        root,
        ENSEMBLE,
        'output_map { key: "features" value: "features" }',
        'output_map { key: "features" value: "features" }\n'
        '      output_map { key: "item_id" value: "item_id" }',
    )
    edit(root, RANKER, "import numpy as np\n", f"{IMPORTED}import numpy as np\n")
    edit(root, RANKER, "score.astype(np.float32))", "shared.as_served(score))")
    _write(
        root, SHARED, "import numpy as np\n\n\ndef as_served(x):\n    return x.astype(np.float32)\n"
    )
    _write(root, OTHER, (root / FEATURES).read_text())
    config = (root / FEATURES_CONFIG).read_text().replace("tiny_features", "tiny_other")
    _write(root, "models/tiny_other/config.pbtxt", config)
    _write(root, "metric.py", METRIC)
    _write(root, "referee.py", REFEREE)
    _write(root, "README.md", "A stack.\n")
    manifest = root / ".github/fvec.yml"
    manifest.write_text(manifest.read_text() + JUDGES)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "More to cheat with")


def _write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, server_env) -> Iterator[Tiny]:
    folder = tmp_path_factory.mktemp("interface")
    with tiny_verifier(
        folder, _more, mutated=12, reproducible=frozenset({"score", "item_id"})
    ) as opened:
        yield opened


@pytest.fixture
def judge(tiny, monkeypatch) -> Judge:
    """Return what judges files beside the honest change of the stack; memory is not looked at."""
    monkeypatch.setattr("layers.trial.verify.REQUESTS", 0)

    def judge(files: Files, change_class: str = "exact", *, honest: bool = True) -> Iteration:
        text = tiny.text(FEATURES)
        assert text.count(SEARCHED[0]) == 1
        base = {FEATURES: text.replace(*SEARCHED)} if honest else {}
        return tiny.judged(
            tiny.candidate({**base, **files}, change_class=ChangeClass(change_class))
        )

    return judge


@pytest.fixture
def untimed(judge, monkeypatch) -> Judge:
    """The same, up to where it would be timed."""
    end_before_timing(monkeypatch)
    return judge


def changed(tiny: Tiny, path: str, old: str, new: str) -> dict[str, str]:
    text = tiny.text(path)
    assert text.count(old) == 1, old
    return {path: text.replace(old, new)}


def ended(iteration: Iteration) -> tuple[str, str]:
    return iteration.verdict.value, iteration.reason


GOES_ON = ("inconclusive", "not_timed_here")


def test_the_honest_change_goes_on(untimed):
    found = untimed({})
    assert ended(found) == GOES_ON, found.detail
    (score,) = [row for row in found.equivalence if row.output == "score"]
    assert score.referee_requests > 12  # changed requests are among them


# --- configuration that is code


def test_a_configuration_that_brings_code_is_no_configuration(tiny, untimed):
    parameter = (
        'parameters { key: "EXECUTION_ENV_PATH" value '
        '{ string_value: "$$TRITON_MODEL_DIRECTORY/env/config.pbtxt" } }\n'
    )
    config = tiny.text(FEATURES_CONFIG) + parameter
    packed = {"models/tiny_features/env/config.pbtxt": b"\x1f\x8b\x08\0bin/activate"}
    found = untimed({FEATURES_CONFIG: config, **packed}, "config", honest=False)
    assert ended(found) == ("rejected", "config_change_is_a_code_patch")
    assert found.detail.startswith(f"{FEATURES_CONFIG}: EXECUTION_ENV_PATH names code: ")
    found = untimed(packed, "config", honest=False)
    assert ended(found) == ("rejected", "config_change_is_a_code_patch")


def test_a_command_in_a_name_is_refused_before_anything_is_started(tiny, untimed):
    config = tiny.text(FEATURES_CONFIG) + 'default_model_filename: "$(sh x)/config.pbtxt"\n'
    folder = "models/tiny_features/1/$(sh x)/config.pbtxt"
    found = untimed({FEATURES_CONFIG: config, folder: tiny.text(FEATURES)})
    assert ended(found) == ("rejected", "unsafe_path")
    found = untimed({FEATURES_CONFIG: config})
    assert ended(found) == ("rejected", "does_not_serve")
    assert "cannot start by default_model_filename '$(sh x)/config.pbtxt'" in found.detail
    assert [gate.name for gate in found.gates] == ["paths"]


# --- files that nobody runs, or reads


def test_a_model_that_nobody_loads_goes_out_with_no_verdict(tiny, untimed):
    found = untimed(changed(tiny, OTHER, "import numpy as np\n", "import numpy as np  # faster\n"))
    assert ended(found) == ("rejected", "outside_served_files")
    assert f"no arm has loaded, built or imported {OTHER}; loaded are tiny_ensemble (1)" in (
        found.detail
    )


@pytest.mark.parametrize("name", ["Makefile", "deploy/serve.py"])
def test_nor_does_what_other_programs_read(untimed, name):
    found = untimed({name: "x = 1\n"})
    assert ended(found) == ("rejected", "outside_served_files")
    assert name in found.detail


def test_documents_and_tests_go_with_a_warning_that_names_them(untimed):
    aside = "models/tiny_other/README.md"
    found = untimed({"README.md": "A fast stack.\n", "tests/test_x.py": "", aside: "Other.\n"})
    assert ended(found) == GOES_ON, found.detail
    named = [line for line in found.warnings if line.startswith("not exercised")]
    assert [line.rpartition(": ")[2] for line in named] == [aside, "README.md, tests/test_x.py"]


def test_a_module_that_the_served_code_imports_is_served(tiny, untimed):
    found = untimed(changed(tiny, SHARED, "def as_served", "# Once.\ndef as_served"))
    assert ended(found) == GOES_ON, found.detail


def test_bytecode_is_no_text_and_other_data_is_named_first(untimed):
    compiled = "models/tiny_features/1/__pycache__/model.cpython-311.pyc"
    found = untimed({compiled: b"\xa7\r\r\n\x01\0\0\0"})
    assert ended(found) == ("rejected", "not_text")
    data = "models/tiny_features/1/table.bin"
    found = untimed({data: b"\0\x01", "README.md": "Fast.\n"})
    assert ended(found) == GOES_ON, found.detail
    assert found.warnings[0] == f"binary files, which no reviewer can read: {data}"


# --- an interface that offers less


def test_a_smaller_batch_is_another_interface(tiny, untimed):
    found = untimed(changed(tiny, ENSEMBLE, "max_batch_size: 8", "max_batch_size: 1"))
    assert ended(found) == ("rejected", "interface_differs")
    assert found.detail == "max_batch_size is 1, was 8"


def test_another_version_is_another_interface(untimed):
    moved = {"models/tiny_ensemble/1/.gitkeep": None, "models/tiny_ensemble/2/.gitkeep": b""}
    found = untimed(moved)
    assert ended(found) == ("rejected", "interface_differs")
    assert found.detail == "version 1 is not ready any more"


def test_a_larger_batch_is_none(tiny, untimed):
    larger = {
        path: tiny.text(path).replace("max_batch_size: 8", "max_batch_size: 16")
        for path in (ENSEMBLE, FEATURES_CONFIG, "models/tiny_ranker/config.pbtxt")
    }
    found = untimed(larger)
    assert ended(found) == GOES_ON, found.detail


# --- outputs


ID = 'pb_utils.Tensor("item_id", titles[np.newaxis])'
GARBLED = 'pb_utils.Tensor("item_id", titles[::-1].copy()[np.newaxis])'


def test_an_approximation_leaves_strings_alone(tiny, untimed):
    found = untimed(changed(tiny, FEATURES, ID, GARBLED), "approximate", honest=False)
    assert ended(found) == ("rejected", "outputs_differ"), found.detail
    assert "output 'item_id'" in found.detail


def test_what_the_baseline_does_not_repeat_is_not_held_against_a_candidate(
    tiny, untimed, monkeypatch
):
    rules = replace(tiny.verifier._rules, reproducible=frozenset({"score"}))
    monkeypatch.setattr(tiny.verifier, "_rules", rules)
    found = untimed(changed(tiny, FEATURES, ID, GARBLED), honest=False)
    assert ended(found) == ("inconclusive", "baseline_not_reproducible")
    assert found.detail == "the unmodified stack does not repeat item_id bit for bit"
    assert ended(untimed({})) == GOES_ON


# --- what is timed

SCORE = 'tensor = pb_utils.Tensor("score", shared.as_served(score))'
COARSE = """\
self.seen = self.__dict__.get("seen", 0) + 1
            if self.seen > 160:
                score = score + 2e-6
            tensor = pb_utils.Tensor("score", shared.as_served(score))"""


@pytest.mark.alone
def test_a_score_that_is_coarse_once_it_is_timed_is_seen_by_the_referee(tiny, judge, monkeypatch):
    monkeypatch.setattr("layers.trial.truths.SHARE", 0.5)  # of blocks as short as these
    found = judge(changed(tiny, RANKER, SCORE, COARSE), "reorder")
    assert ended(found) == ("rejected", "worse_than_referee_allows"), found.detail
    assert [gate.name for gate in found.gates if gate.result.value == "fail"] == ["timed referee"]
    assert found.pairs == []


@pytest.mark.alone
def test_a_candidate_that_logs_less_is_named_with_the_numbers(tiny, judge, monkeypatch):
    def not_looked(*_: object) -> None:
        raise TrialEnded(Verdict.INCONCLUSIVE, "not_looked_here")

    monkeypatch.setattr(Verifier, "_looks", not_looked)
    line = 'pb_utils.Logger.log_info(f"scored {len(titles)} items")  # read by the training job\n'
    found = judge(changed(tiny, FEATURES, line, "\n"), honest=False)
    assert found.reason == "not_looked_here", found.detail
    (told,) = [line for line in found.warnings if line.startswith("it logs less: ")]
    lines = re.search(r"less: (\S+) lines and \S+ bytes a request, (\S+) and", told)
    assert lines is not None
    assert float(lines[1]) < 0.1
    assert float(lines[2]) == pytest.approx(1.0, abs=0.2)
    kept = judge({})
    assert kept.reason == "not_looked_here", kept.detail
    assert not [line for line in kept.warnings if line.startswith("it logs less")]
