"""Small serving repositories of the shapes that public ones have, for the tests of `fvec init`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PYTHON = """
name: "{name}"
backend: "python"
max_batch_size: {batch}
input [ {{ name: "{input}" data_type: TYPE_STRING dims: [ 1 ] }} ]
output [ {{ name: "{output}" data_type: TYPE_FP32 dims: [ 4 ] }} ]
"""
ENSEMBLE = """
name: "pipeline"
platform: "ensemble"
max_batch_size: 8
input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "score" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling { step [
  { model_name: "encoder" model_version: -1
    input_map { key: "raw" value: "text" } output_map { key: "vector" value: "inner" } },
  { model_name: "scorer" model_version: -1
    input_map { key: "inner" value: "inner" } output_map { key: "out" value: "score" } }
] }
"""
MODEL_PY = (
    "import json\n\nclass TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
)


def put(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below `root`, with the folders they need; return `root`."""
    for name, content in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def python_model(
    name: str, *, code: str = MODEL_PY, given: str = "text", batch: int = 8, models: str = "models"
) -> dict[str, str]:
    """Return the files of one Python model with a string input."""
    config = PYTHON.format(name=name, batch=batch, input=given, output=f"{name}_out")
    return {f"{models}/{name}/config.pbtxt": config, f"{models}/{name}/1/model.py": code}


def model(
    name: str, config: str, *, code: str = MODEL_PY, models: str = "models"
) -> dict[str, str]:
    """Return the files of one Python model with the configuration given."""
    return {f"{models}/{name}/config.pbtxt": config, f"{models}/{name}/1/model.py": code}


def ensemble() -> dict[str, str]:
    """Return an ensemble of two Python models."""
    return {
        "models/pipeline/config.pbtxt": ENSEMBLE,
        "models/pipeline/1/.gitkeep": "",
        **python_model("encoder", given="raw"),
        **python_model("scorer", given="inner"),
    }
