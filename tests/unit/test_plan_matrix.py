"""`fvec plan --matrix`: one line that GitHub reads as a matrix; nothing is profiled."""

import json
import sys

import pytest

from bot import cli

MANIFEST = """\
schema: fvec.manifest/1
stack: {name: tiny, models: models, entry: ensemble}
traffic: {requests: traffic/requests.bin, arrivals: traffic/arrivals.csv}
slo: {p99_ms: 50}
layers: [features, config]
budget: {candidates: 5}
"""


@pytest.fixture
def stack(tmp_path, monkeypatch):
    """A manifest and nothing else, and no engine: what a hosted job has."""
    monkeypatch.setitem(sys.modules, "layers.run", None)
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/fvec.yml").write_text(MANIFEST)
    return tmp_path


def call(capsys, *argv) -> tuple[int, str, str]:
    code = cli.main([str(arg) for arg in ("plan", *argv)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def job(layer: str, number: int, count: int) -> dict[str, str]:
    return {
        "layer": layer,
        "shard": f"{number}/{count}",
        "name": f"{layer}-{number}-of-{count}",
    }


def test_by_default_there_is_a_job_for_each_layer(capsys, stack):
    code, out, err = call(capsys, stack, "--matrix")
    assert (code, err) == (0, "")
    assert out == (
        '{"include":[{"layer":"features","shard":"1/1","name":"features-1-of-1"},'
        '{"layer":"config","shard":"1/1","name":"config-1-of-1"}]}\n'
    )


def test_shards_are_on_one_line_however_many(capsys, stack):
    code, out, _ = call(capsys, stack, "--matrix", "--shards", "2")
    assert code == 0
    assert out.count("\n") == 1
    jobs = [job(layer, number, 2) for layer in ("features", "config") for number in (1, 2)]
    assert json.loads(out) == {"include": jobs}


def test_json_has_the_same_document(capsys, stack):
    _, line, _ = call(capsys, stack, "--matrix", "--shards", "2")
    code, out, _ = call(capsys, stack, "--matrix", "--shards", "2", "--json")
    assert (code, json.loads(out)) == (0, json.loads(line))


def test_layers_can_be_picked(capsys, stack):
    _, out, _ = call(capsys, stack, "--matrix", "--layer", "config")
    assert json.loads(out) == {"include": [job("config", 1, 1)]}


def test_no_shards_are_one_job_for_the_whole_run(capsys, stack):
    _, out, _ = call(capsys, stack, "--matrix", "--shards", "0")
    assert json.loads(out) == {"include": [{"layer": "", "shard": "", "name": "whole"}]}


def test_a_layer_that_the_manifest_does_not_allow_is_refused_with_what_it_allows(capsys, stack):
    code, out, err = call(capsys, stack, "--matrix", "--layer", "kernel")
    assert (code, out) == (3, "")
    assert "layers does not allow kernel" in err
    assert "it allows features, config" in err


def test_too_few_candidates_are_refused_with_what_to_do(capsys, stack):
    manifest = stack / ".github/fvec.yml"
    manifest.write_text(MANIFEST.replace("candidates: 5", "candidates: 1"))
    code, _, err = call(capsys, stack, "--matrix")
    assert code == 3
    assert "1 candidates are too few for 2 layers" in err
    assert "raise budget.candidates, or take --shards 0" in err


def test_a_folder_without_a_manifest_is_refused(capsys, tmp_path):
    code, _, err = call(capsys, tmp_path, "--matrix")
    assert code == 3
    assert "has no manifest" in err
