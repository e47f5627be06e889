"""Runs the exported ranker (see build.py) on the tensors of the features model."""

import os

import torch
import triton_python_backend_utils as pb_utils

# in the order of AdsRanker.forward (ranker/net.py)
INPUTS = [
    "user_dense",
    "user_cats",
    "hist_items",
    "hist_mask",
    "interest_ids",
    "interest_mask",
    "cand_dense",
    "cand_cats",
    "cand_items",
    "cand_tags",
    "cand_bid",
]
OUTPUTS = ["pctr", "pcvr", "score"]


class TritonPythonModel:
    def initialize(self, args):
        # more threads made the p99 worse when the features model was busy
        torch.set_num_threads(1)
        version_dir = os.path.join(args["model_repository"], args["model_version"])
        package = os.path.join(version_dir, "ranker.pt2")
        # aoti_load_package() imports the whole compiler and takes seconds at startup
        self.model = torch._C._aoti.AOTIModelPackageLoader(package, "model", False, 1, -1)

    def execute(self, requests):
        responses = []
        for request in requests:
            inputs = []
            for name in INPUTS:
                tensor = pb_utils.get_input_tensor_by_name(request, name)
                inputs.append(torch.from_numpy(tensor.as_numpy()[0]))
            results = self.model.boxed_run(inputs)
            tensors = [
                pb_utils.Tensor(name, result.unsqueeze(0).numpy())
                for name, result in zip(OUTPUTS, results)
            ]
            responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
        return responses
