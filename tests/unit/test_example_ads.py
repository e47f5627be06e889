"""The example serving repository: what it promises to the people and tools that read it."""

from __future__ import annotations

import ast
import csv
import os
import re
import runpy
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePosixPath
from types import ModuleType

import numpy as np
import pytest
from google.protobuf import text_format
from google.protobuf.internal.decoder import _DecodeVarint
from tritonclient.grpc import model_config_pb2, service_pb2
from tritonclient.utils import deserialize_bytes_tensor

from knowledge import schema, store, yamlfile
from layers.manifest import Manifest, manifest_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "ads-serving"
VOCABULARIES = EXAMPLE / "models" / "features" / "1" / "vocab"
DTYPES = {"INT64": np.int64, "FP32": np.float32}


def record(out: Path, seed: int, requests: int = 24) -> tuple[bytes, bytes]:
    """Run the example's own recorder and return what it wrote."""
    out.mkdir()
    script = [sys.executable, str(EXAMPLE / "traffic" / "record.py")]
    arguments = ["--requests", str(requests), "--seed", str(seed), "--out", str(out)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([*script, *arguments], check=True, timeout=120, env=environment)
    return (out / "requests.bin").read_bytes(), (out / "arrivals.csv").read_bytes()


def messages(data: bytes) -> list[service_pb2.ModelInferRequest]:
    found, position = [], 0
    while position < len(data):
        size, position = _DecodeVarint(data, position)
        message = service_pb2.ModelInferRequest.FromString(data[position : position + size])
        found.append(message)
        position += size
    return found


def arrays(message: service_pb2.ModelInferRequest) -> dict[str, np.ndarray]:
    found = {}
    for tensor, raw in zip(message.inputs, message.raw_input_contents, strict=True):
        if tensor.datatype == "BYTES":
            values = deserialize_bytes_tensor(raw)
        else:
            values = np.frombuffer(raw, DTYPES[tensor.datatype])
        found[tensor.name] = values.reshape(tuple(tensor.shape))
    return found


def model_config(model: str) -> model_config_pb2.ModelConfig:
    text = (EXAMPLE / "models" / model / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def load_module(name: str) -> ModuleType:
    spec = spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[service_pb2.ModelInferRequest]:
    data, _ = record(tmp_path_factory.mktemp("traffic") / "out", seed=3)
    return messages(data)


def test_manifest_names_files_that_exist_or_are_built() -> None:
    manifest = yamlfile.load(manifest_file(EXAMPLE), Manifest)
    built = {path for step in manifest.stack.build for path in step.outputs}
    inputs = {path for step in manifest.stack.build for path in step.inputs}
    missing = [path for path in inputs if not list(EXAMPLE.glob(path))]

    assert (manifest.stack.entry, manifest.server.cpus) == ("ads_ensemble", [0])
    assert missing == []
    assert {manifest.traffic.requests, manifest.traffic.arrivals} <= built
    assert manifest.correctness.referee == "referee.py:score"
    assert manifest.correctness.metric == "metric.py:value"


def test_what_build_steps_write_is_ignored_by_git() -> None:
    manifest = yamlfile.load(manifest_file(EXAMPLE), Manifest)
    ignored = (EXAMPLE / ".gitignore").read_text(encoding="utf-8").split()
    for path in (path for step in manifest.stack.build for path in step.outputs):
        assert any(PurePosixPath(path).match(pattern) for pattern in ignored), path


def test_cards_are_valid_and_cover_the_four_kinds_of_a_workload() -> None:
    assert schema.check([EXAMPLE / "knowledge"]) == []
    cards = store.load_cards(EXAMPLE / "knowledge")
    kinds = sorted(card.kind for card in cards.facts)
    assert kinds == ["business", "feature_store", "model", "server"]
    assert cards.cookbook == ()


def test_feature_store_card_counts_what_the_config_declares() -> None:
    cards = {card.kind: card for card in store.load_cards(EXAMPLE / "knowledge").facts}
    types = [model_config_pb2.DataType.Name(i.data_type) for i in model_config("features").input]
    facts = cards["feature_store"].facts

    assert facts["inputs"] == len(types)
    assert facts["inputs_fp32"] == types.count("TYPE_FP32")
    assert facts["inputs_int64"] == types.count("TYPE_INT64")
    assert facts["inputs_string"] == types.count("TYPE_STRING")
    assert facts["vocabularies"] == len(list(VOCABULARIES.glob("*.txt")))


def test_features_takes_at_least_200_inputs_and_requests_are_the_batch() -> None:
    config = model_config("features")
    ragged = {i.name for i in config.input if i.allow_ragged_batch}

    assert 200 <= len(config.input) <= 260
    assert config.max_batch_size > 0
    assert ragged == {i.name for i in config.input if -1 in i.dims}
    assert {i.name for i in config.input if i.name.startswith("cand_")} < ragged


def test_features_added_since_the_launch_are_inputs_and_counted_in_the_card() -> None:
    lists = runpy.run_path(str(EXAMPLE / "models" / "features" / "1" / "schema.py"))
    later = [name for key, names in lists.items() if key.endswith("_V2") for name in names]
    cards = {card.kind: card for card in store.load_cards(EXAMPLE / "knowledge").facts}
    inputs = {i.name for i in model_config("features").input}

    assert len(later) == len(set(later)) == cards["feature_store"].facts["inputs_since_sdk_6_2"]
    assert set(later) < inputs
    assert 0.4 <= len(later) / len(inputs) <= 0.5


def test_ensemble_passes_every_input_on_and_wires_every_tensor() -> None:
    features, ranker = model_config("features"), model_config("ranker")
    ensemble = model_config("ads_ensemble")
    first, second = ensemble.ensemble_scheduling.step

    assert [(i.name, i.data_type, list(i.dims)) for i in ensemble.input] == [
        (i.name, i.data_type, list(i.dims)) for i in features.input
    ]
    assert dict(first.input_map) == {i.name: i.name for i in features.input}
    assert {first.output_map[i.name] for i in ranker.input} == set(second.input_map.values())
    assert [(t.name, t.data_type, list(t.dims)) for t in ranker.input] == [
        (t.name, t.data_type, list(t.dims)) for t in features.output
    ]
    assert [t.name for t in ensemble.output] == ["pctr", "pcvr", "score"]


def test_recording_is_a_function_of_its_seed(tmp_path: Path) -> None:
    first = record(tmp_path / "a", seed=3)
    assert record(tmp_path / "b", seed=3) == first
    assert record(tmp_path / "c", seed=4) != first


def test_recorded_requests_match_the_entry_model(
    recorded: list[service_pb2.ModelInferRequest],
) -> None:
    declared = {
        i.name: (model_config_pb2.DataType.Name(i.data_type), list(i.dims))
        for i in model_config("ads_ensemble").input
    }
    for message in recorded:
        assert message.model_name == "ads_ensemble"
        assert [tensor.name for tensor in message.inputs] == list(declared)
        for tensor in message.inputs:
            datatype, dims = declared[tensor.name]
            sent = "STRING" if tensor.datatype == "BYTES" else tensor.datatype
            assert f"TYPE_{sent}" == datatype
            assert list(tensor.shape) == [
                1,
                *(n if d == -1 else d for d, n in zip(dims, tensor.shape[1:], strict=True)),
            ]


def test_recorded_requests_are_distinct_and_agree_on_the_number_of_candidates(
    recorded: list[service_pb2.ModelInferRequest],
) -> None:
    assert len({message.SerializeToString() for message in recorded}) == len(recorded)
    for message in recorded:
        sizes = {t.shape[1] for t in message.inputs if t.name.startswith("cand_")}
        assert len(sizes) == 1
        assert 8 <= sizes.pop() <= 2000


def test_recorded_strings_hold_known_unknown_empty_and_non_ascii_values(
    recorded: list[service_pb2.ModelInferRequest],
) -> None:
    known = set((VOCABULARIES / "category.txt").read_text(encoding="utf-8").splitlines())
    values = [v.decode() for m in recorded for v in arrays(m)["cand_category"][0]]

    assert 0.9 < np.mean([v in known for v in values]) < 1.0
    assert 0.0 < np.mean([v == "" for v in values]) < 0.1
    assert any(not v.isascii() for v in values)


def test_arrivals_are_bursty_and_name_each_request_once(tmp_path: Path) -> None:
    _, text = record(tmp_path / "a", seed=18, requests=400)
    rows = list(csv.DictReader(text.decode().splitlines()))
    gaps = np.diff([float(row["offset_s"]) for row in rows])

    assert [int(row["request"]) for row in rows] == list(range(400))
    assert gaps.min() >= 0.0
    assert gaps.std() / gaps.mean() > 1.1


def test_metric_rewards_the_order_and_not_the_size_of_scores(
    recorded: list[service_pb2.ModelInferRequest],
) -> None:
    metric, request = load_module("metric"), arrays(recorded[0])
    worth = request["cand_bid_usd"] * request["cand_ctr_7d"] * request["cand_cvr_7d"]
    best = np.nan_to_num(worth)

    assert metric.value(request, {"score": best}) > metric.value(request, {"score": -best})
    assert metric.value(request, {"score": 100.0 * best}) == metric.value(request, {"score": best})


def test_vocabularies_have_one_value_per_line_and_no_repeats() -> None:
    for path in VOCABULARIES.glob("*.txt"):
        values = path.read_text(encoding="utf-8").splitlines()
        assert "" not in values, path.name
        assert len(values) == len(set(values)), path.name


def test_sources_cites_something_public_for_each_habit() -> None:
    text = (EXAMPLE / "SOURCES.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| (.+) \|$", text, re.MULTILINE)
    habits = [(habit, seen) for habit, seen in rows if habit != "habit"]

    assert len(habits) >= 15
    for habit, seen in habits:
        repositories = re.findall(r"[\w.-]+/[\w.-]+ `[^`]+`", seen)
        reports = re.findall(r"https://\S+/\d+|FlashVector, case \d", seen)
        assert reports or len(repositories) >= 2, habit


def test_every_helper_of_the_features_model_that_sources_names_exists() -> None:
    text = (EXAMPLE / "SOURCES.md").read_text(encoding="utf-8")
    section = text.split("## models/features/1/model.py")[1].split("\n## ")[0]
    habits = [row.split("|")[1] for row in section.splitlines() if row.startswith("|")]
    named = set(re.findall(r"`(\w+)`", " ".join(habits)))
    source = (EXAMPLE / "models" / "features" / "1" / "model.py").read_text(encoding="utf-8")
    defined = {n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)}

    assert named <= defined
    expected = {"get_column", "get_optional", "get_strings", "as_column", "hash_bucket", "encode"}
    assert expected <= named
