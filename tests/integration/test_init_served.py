"""A repository without a manifest, initialised, built and served for real."""

import subprocess
from pathlib import Path

import pytest

from layers.repository.stack import Stack
from layers.sandbox.box import Sandbox
from layers.scaffold import plan
from layers.traffic.recorded import Traffic
from layers.triton.environment import ServerEnvironment
from layers.triton.server import Deployment
from tests.init_repositories import put

pytestmark = pytest.mark.triton

CONFIG = """
name: "matcher"
backend: "python"
max_batch_size: 64
input [
  { name: "country" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "device" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "click_rate" data_type: TYPE_FP32 dims: [ 1 ] },
  { name: "bonus" data_type: TYPE_FP32 dims: [ 1 ] optional: true }
]
output [ { name: "score" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
CODE = """
import os

import numpy as np
import triton_python_backend_utils as pb_utils

DEVICES = {"phone": 0, "tablet": 1, "tv": 2}


class TritonPythonModel:
    def initialize(self, args):
        path = os.path.join(args["model_repository"], args["model_version"], "country.txt")
        with open(path, encoding="utf-8") as file:
            self.countries = {name: place for place, name in enumerate(file.read().split())}

    def execute(self, requests):
        responses = []
        for request in requests:
            def column(name):
                return pb_utils.get_input_tensor_by_name(request, name).as_numpy()

            rows = []
            for country, device, rate in zip(column("country"), column("device"), column("click_rate")):
                known = self.countries[country[0].decode("utf-8")]
                rows.append(known + DEVICES[device[0].decode("utf-8")] + float(rate[0]))
            score = np.array(rows, dtype=np.float32).reshape(-1, 1)
            bonus = pb_utils.get_input_tensor_by_name(request, "bonus")
            if bonus is not None:
                score = score + bonus.as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("score", score)]))
        return responses
"""
FILES = {
    "models/matcher/config.pbtxt": CONFIG,
    "models/matcher/1/model.py": CODE,
    "models/matcher/1/country.txt": "de\nfr\njp\nus\n",
}


@pytest.fixture
def initialised(tmp_path: Path) -> Path:
    """The repository with what `fvec init` wrote, committed."""
    root = put(tmp_path / "matching", FILES)
    subprocess.run(["git", "init", "-q", "--initial-branch=main"], cwd=root, check=True)
    plan.write(plan.make(root))
    identity = ["-c", "user.name=Serving", "-c", "user.email=serving@example.com"]
    for arguments in (["add", "--all"], [*identity, "commit", "-qm", "First"]):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


def test_an_initialised_repository_answers_its_own_traffic(
    initialised: Path, tmp_path: Path, server_env: ServerEnvironment, sandbox: Sandbox
) -> None:
    with Stack.open(initialised) as stack:
        worktree = stack.worktree(stack.commit, tmp_path / "worktrees")
        stack.build(worktree, server_env, sandbox)
        traffic = Traffic.load(worktree, stack.manifest.traffic)
        view = stack.view(worktree, server_env)
        with Deployment(
            view,
            server_env,
            sandbox=sandbox,
            cpus=None,
            log_dir=tmp_path / "server",
            probe=traffic.requests[0],
        ) as deployment:
            assert deployment.client is not None
            traffic.check(deployment.config("matcher"))
            for request in traffic.requests[:50]:
                deployment.client.infer(request, 30.0)
