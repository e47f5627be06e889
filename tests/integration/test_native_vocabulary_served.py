"""String inputs that wait and are looked up natively, behind the real server."""

import subprocess
from pathlib import Path

import pytest
from tritonclient.grpc import service_pb2

from layers.base import StackView
from layers.features.codemod import File
from layers.features.codemods.vocabulary.native_vocabulary import CODEMOD
from layers.manifest import Manifest
from layers.sandbox.box import Sandbox
from layers.triton.environment import ServerEnvironment
from layers.triton.server import Deployment

pytestmark = pytest.mark.triton

CONFIG = """
name: "encoder"
backend: "python"
max_batch_size: 8
input [
  { name: "words" data_type: TYPE_STRING dims: [ -1 ] },
  { name: "names" data_type: TYPE_STRING dims: [ -1 ] },
  { name: "rates" data_type: TYPE_FP32 dims: [ -1 ] }
]
output [
  { name: "ids" data_type: TYPE_INT64 dims: [ -1 ] },
  { name: "lengths" data_type: TYPE_INT64 dims: [ -1 ] },
  { name: "echo" data_type: TYPE_STRING dims: [ -1 ] },
  { name: "total" data_type: TYPE_FP32 dims: [ 1 ] },
  { name: "waiting" data_type: TYPE_INT64 dims: [ 1 ] }
]
instance_group [ { kind: KIND_CPU count: 2 } ]
"""
CODE = """
import sys

import numpy as np
import triton_python_backend_utils as pb_utils


def column(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()[0]


class TritonPythonModel:
    def initialize(self, args):
        self.ids = {word: n + 1 for n, word in enumerate(["", "a", "caf\\u00e9", "b" * 30, "z\\0"])}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        package = sys.modules.get("fvec_vocabulary")
        waiting = len(package._unread) if package else 0
        words = [word.decode("utf-8", errors="replace") for word in column(request, "words")]
        ids = np.array([self.ids.get(word, 0) for word in words], dtype=np.int64)
        names = column(request, "names")
        lengths = np.array([len(name) for name in names], dtype=np.int64)
        total = column(request, "rates").sum(keepdims=True)
        outputs = {"ids": ids, "lengths": lengths, "echo": names, "total": total}
        outputs["waiting"] = np.array([waiting])
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, value[np.newaxis]) for name, value in outputs.items()]
        )
"""
WORDS = [b"a", b"", "café".encode(), b"\xff\xfe", b"z\0", b"b" * 30, b"unknown"] * 40
REQUESTS = 40  # of which half go to each instance
NAMES = [b"first", b"\0", b"", b"\xc3"] * 100


def request() -> bytes:
    strings = {"words": WORDS, "names": NAMES}
    made = service_pb2.ModelInferRequest(model_name="encoder")
    for name, values in strings.items():
        made.inputs.add(name=name, datatype="BYTES", shape=[1, len(values)])
        wire = b"".join(len(value).to_bytes(4, "little") + value for value in values)
        made.raw_input_contents.append(wire)
    made.inputs.add(name="rates", datatype="FP32", shape=[1, 2])
    made.raw_input_contents.append(b"\0\0\x80\x3f\0\0\0\x40")
    return made.SerializeToString()


def answers(
    root: Path, code: str, server_env: ServerEnvironment, sandbox: Sandbox
) -> list[dict[str, bytes]]:
    """Serve the model and return its outputs for the same request, asked several times."""
    version = root / "models" / "encoder" / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    (version / "model.py").write_text(code)
    if code != CODE:
        assert CODEMOD.package is not None
        for name, content in CODEMOD.package.files().items():
            path = version / "fvec_vocabulary" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        build = version / "fvec_vocabulary" / "fvec_native" / "build.py"
        subprocess.run([server_env.python, build], check=True, capture_output=True)
    manifest = Manifest.model_validate(
        {
            "schema": "fvec.manifest/1",
            "stack": {"name": "s", "models": "models", "entry": "encoder"},
            "traffic": {"requests": "r.bin", "arrivals": "a.csv"},
            "slo": {"p99_ms": 1000},
        }
    )
    view = StackView(root, "c", manifest, server_env.python)
    found = []
    with Deployment(
        view, server_env, sandbox=sandbox, cpus=[0], log_dir=root / "log", probe=request()
    ) as deployment:
        for _ in range(REQUESTS):
            answer = service_pb2.ModelInferResponse.FromString(deployment.client.infer(request()))
            names = [output.name for output in answer.outputs]
            found.append(dict(zip(names, answer.raw_output_contents, strict=True)))
    return found


def test_a_rewritten_model_answers_bit_for_bit_and_its_inputs_wait(
    tmp_path: Path, server_env: ServerEnvironment, sandbox: Sandbox
) -> None:
    after = CODEMOD.apply(File("models/encoder/1/model.py", CODE))
    assert after != CODE
    expected = answers(tmp_path / "before", CODE, server_env, sandbox)
    found = answers(tmp_path / "after", after, server_env, sandbox)
    waiting = [int.from_bytes(answer.pop("waiting"), "little") for answer in found]
    assert [int.from_bytes(answer.pop("waiting"), "little") for answer in expected] == [
        0
    ] * REQUESTS
    assert found == expected
    assert waiting == [2] * REQUESTS
