"""A linear score through a sigmoid; weights are part of the code."""

import numpy as np
import triton_python_backend_utils as pb_utils

WEIGHTS = np.array([0.01, -0.3, 0.5, 0.002], dtype=np.float32)


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            features = pb_utils.get_input_tensor_by_name(request, "features").as_numpy()
            score = 1 / (1 + np.exp(-(features @ WEIGHTS)))
            tensor = pb_utils.Tensor("score", score.astype(np.float32))
            responses.append(pb_utils.InferenceResponse([tensor]))
        return responses
