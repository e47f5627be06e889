"""Parsing real config.pbtxt files, beside protobuf's own parser, which keeps no text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from pytest_benchmark.fixture import BenchmarkFixture
from tritonclient.grpc import model_config_pb2

from layers.triton.pbtxt import decode, parse

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "data" / "config_pbtxt"
GROUP = "parse every real config.pbtxt"


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    """Return the collected files by path; they lie beside a checkout, not in it."""
    found = {path: decode(path.read_bytes(), path) for path in sorted(CORPUS.glob("*.pbtxt"))}
    if not found:
        pytest.skip("the collection of real config.pbtxt files is not beside this checkout")
    return found


def parse_ours(texts: dict[Path, str]) -> list[Any]:
    """Return the protobuf message of every file, by our parser."""
    return [parse(text, path).message for path, text in texts.items()]


def parse_protobuf(texts: dict[Path, str]) -> list[Any]:
    """Return the same by protobuf's parser."""
    return [text_format.Parse(text, model_config_pb2.ModelConfig()) for text in texts.values()]


def test_parse(benchmark: BenchmarkFixture, texts: dict[Path, str]) -> None:
    """Time our parser, which keeps every byte for edits."""
    benchmark.group = f"{GROUP} ({len(texts)} files)"
    if benchmark(parse_ours, texts) != parse_protobuf(texts):
        pytest.fail("the parsers disagree")


def test_parse_with_protobuf(benchmark: BenchmarkFixture, texts: dict[Path, str]) -> None:
    """Time protobuf's parser, for comparison."""
    benchmark.group = f"{GROUP} ({len(texts)} files)"
    benchmark(parse_protobuf, texts)
