"""Item features: title length, log price, log clicks and the user's age."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._respond(request) for request in requests]

    def _respond(self, request):
        age = pb_utils.get_input_tensor_by_name(request, "user_age").as_numpy()[0]
        titles = pb_utils.get_input_tensor_by_name(request, "item_title").as_numpy()[0]
        price = pb_utils.get_input_tensor_by_name(request, "item_price").as_numpy()[0]
        clicks = pb_utils.get_input_tensor_by_name(request, "item_clicks").as_numpy()[0]

        lengths = np.zeros((len(titles), 1), dtype=np.float32)
        for i, title in enumerate(titles):
            lengths[i, 0] = len(title.decode("utf-8", "replace"))
        log_price = np.log1p(np.maximum(price, 0)).astype(np.float32).reshape(-1, 1)
        log_clicks = np.log1p(np.maximum(clicks, 0)).astype(np.float32).reshape(-1, 1)
        ages = np.repeat(age, len(titles)).astype(np.float32).reshape(-1, 1)

        features = np.concatenate([lengths, log_price, log_clicks, ages], axis=1)
        return pb_utils.InferenceResponse([pb_utils.Tensor("features", features[np.newaxis])])
