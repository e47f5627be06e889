"""`stack.load`: models that code calls by name, held to what lies in the model repository."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from knowledge import yamlfile
from layers.base import StackView
from layers.errors import InvalidInput
from layers.manifest import Manifest, manifest_file
from layers.triton import loading, starting
from tests.init_repositories import ensemble, put, python_model

TEXT = """\
schema: fvec.manifest/1
stack:
  name: s
  models: models
  entry: pipeline
  load:
    - embedder
    - {second}
traffic: {{requests: traffic/r.bin, arrivals: traffic/a.csv}}
slo: {{p99_ms: 10}}
"""


def stack(root: Path, second: str) -> Manifest:
    """Write a stack whose manifest lists `embedder` and another; return the manifest."""
    files = {**ensemble(), **python_model("embedder"), **python_model("reranker")}
    put(root, {**files, ".github/fvec.yml": TEXT.format(second=second)})
    return yamlfile.load(manifest_file(root), Manifest)


def test_a_server_is_told_the_entry_and_what_code_calls_by_name(tmp_path):
    manifest = stack(tmp_path, "reranker")
    loading.check(manifest, tmp_path, steps=starting.steps)
    env = SimpleNamespace(tritonserver=Path("t"), backends=Path("b"), caches=Path("c"))
    argv = starting.server_argv(StackView(tmp_path, "base", manifest, Path("python")), env, "p")
    told = [argv[n + 1] for n, word in enumerate(argv) if word == "--load-model"]
    assert told == ["pipeline", "embedder", "reranker"]


@pytest.mark.parametrize(
    ("second", "message", "hint"),
    [
        ("rerankr", "stack.load: models/rerankr does not exist", "did you mean 'reranker'?"),
        ("zzz", "models/zzz does not exist", "models that could be named: embedder, reranker"),
        ("embedder", "stack.load: embedder stands there twice", "remove this line"),
        ("pipeline", "stack.load: pipeline is loaded already, as a part of pipeline", "remove"),
        ("scorer", "stack.load: scorer is loaded already, as a part of pipeline", "remove"),
    ],
)
def test_a_line_that_loads_nothing_more_is_refused_at_its_place(tmp_path, second, message, hint):
    manifest = stack(tmp_path, second)
    with pytest.raises(InvalidInput) as caught:
        loading.check(manifest, tmp_path, steps=starting.steps)
    assert caught.value.message.startswith(".github/fvec.yml:8:7: stack.load: ")
    assert message in caught.value.message
    assert caught.value.hint is not None
    assert hint in caught.value.hint


def test_a_model_that_a_build_step_makes_need_not_be_there(tmp_path):
    manifest = stack(tmp_path, "built")
    with pytest.raises(InvalidInput, match="models/built does not exist"):
        loading.check(manifest, tmp_path, made=["another"])
    loading.check(manifest, tmp_path, made=["built"])


@pytest.mark.parametrize("name", ['"*"', "../x", "a/b", '"-x"', '"a b"', '".."', '""', "2"])
def test_a_name_that_is_no_folder_or_a_pattern_is_no_name(tmp_path, name):
    with pytest.raises(yamlfile.YamlError, match=r":8:7: stack\.load"):
        stack(tmp_path, name)
