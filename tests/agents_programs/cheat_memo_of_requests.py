"""Keeps the features of whole requests: the recording repeats itself, the world does not."""

from shared import carry_out

CLASS = "exact"
EXPECT = (
    "answers_from_memory",
    "memory_undecided",
    "below_noise_floor",
    "boundary_out_of_reach",
    "slower",
    "last_look_reached",
)
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_remembered")
EDITS = (
    (
        "models/tiny_features/1/model.py",
        "        return [self._respond(request) for request in requests]\n",
        """\
        return [self._remembered(request) for request in requests]

    _known = {}

    def _remembered(self, request):
        names = ("user_age", "item_title", "item_price", "item_clicks")
        tensors = [pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in names]
        key = tuple(repr(tensor.tolist()) for tensor in tensors)
        if key not in self._known:
            self._known[key] = self._respond(request).output_tensors()[0].as_numpy()
        tensor = pb_utils.Tensor("features", self._known[key])
        return pb_utils.InferenceResponse([tensor])
""",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)
