"""A model that Python code calls by name is served where the manifest lists it, and counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.base import StackView
from layers.manifest import Manifest
from layers.sandbox.box import Sandbox
from layers.triton.client import Refused
from layers.triton.environment import ServerEnvironment
from layers.triton.server import Deployment
from tests.init_repositories import put

pytestmark = pytest.mark.triton

CONFIG = """
backend: "python"
max_batch_size: 0
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
CALLER = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        given = pb_utils.get_input_tensor_by_name(request, "x")
        inner = pb_utils.InferenceRequest(
            model_name="called", requested_output_names=["y"], inputs=[given]
        )
        answer = inner.exec()
        if answer.has_error():
            error = pb_utils.TritonError(answer.error().message())
            return pb_utils.InferenceResponse(output_tensors=[], error=error)
        return pb_utils.InferenceResponse([pb_utils.get_output_tensor_by_name(answer, "y")])
"""
CALLED = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        found = [pb_utils.get_input_tensor_by_name(request, "x") for request in requests]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("y", tensor.as_numpy() + 1)])
            for tensor in found
        ]
"""


def deployment(root: Path, env: ServerEnvironment, sandbox: Sandbox, load: list[str]) -> Deployment:
    for name, code in (("caller", CALLER), ("called", CALLED)):
        put(root, {f"models/{name}/config.pbtxt": CONFIG, f"models/{name}/1/model.py": code})
    manifest = Manifest.model_validate(
        {
            "schema": "fvec.manifest/1",
            "stack": {"name": "s", "models": "models", "entry": "caller", "load": load},
            "traffic": {"requests": "r.bin", "arrivals": "a.csv"},
            "slo": {"p99_ms": 100},
        }
    )
    view = StackView(root, "base", manifest, env.python)
    return Deployment(view, env, sandbox=sandbox, cpus=None, log_dir=root / "logs")


def asked() -> bytes:
    message = service_pb2.ModelInferRequest(model_name="caller")
    message.inputs.add(name="x", datatype="FP32", shape=[1])
    message.raw_input_contents.append(np.array([2.0], np.float32).tobytes())
    return message.SerializeToString()


def test_what_is_listed_is_loaded_answers_and_is_a_process_of_its_own(
    tmp_path: Path, server_env: ServerEnvironment, sandbox: Sandbox
) -> None:
    with deployment(tmp_path, server_env, sandbox, ["called"]) as served:
        assert served.client is not None
        answer = service_pb2.ModelInferResponse.FromString(served.client.infer(asked()))
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [3.0]
        assert served.client.loaded_models() == ("called", "caller")
        assert set(served.client.all_statistics()) == {"called", "caller"}
        assert set(served.pids()) == {"called", "caller"}


def test_what_is_not_listed_is_not_loaded(
    tmp_path: Path, server_env: ServerEnvironment, sandbox: Sandbox
) -> None:
    with deployment(tmp_path, server_env, sandbox, []) as served:
        assert served.client is not None
        assert served.client.loaded_models() == ("caller",)
        with pytest.raises(Refused, match=r"called.*is not ready"):
            served.client.infer(asked())
