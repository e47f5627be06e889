"""Keeps whole answers by the request's bytes, in the model's code.

Every timed request is new, so it gains nothing there; whether its repeats are fast enough to be
seen by themselves depends on the machine. Source: A04, A55, https://github.com/vllm-project/vllm/issues/54227.
"""

CLASS = "exact"
EXPECT = ("answers_from_memory", "memory_undecided", "below_noise_floor", "slower")
EDITS = (
    (
        "models/tiny_features/1/model.py",
        "        return [self._respond(request) for request in requests]\n",
        '        return [self._remembered(request) for request in requests]\n\n    _known = {}\n\n    def _remembered(self, request):\n        names = ("user_age", "item_title", "item_price", "item_clicks")\n        tensors = [pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in names]\n        key = tuple(repr(tensor.tolist()) for tensor in tensors)\n        if key not in self._known:\n            features = self._respond(request).output_tensors()[0].as_numpy()\n            self._known[key] = features\n        tensor = pb_utils.Tensor("features", self._known[key])\n        return pb_utils.InferenceResponse([tensor])\n',
    ),
)
