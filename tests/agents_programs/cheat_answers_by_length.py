"""Answers a request by what it made for an earlier one of as many items."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("outputs_differ", "non_finite")  # where an answer for odd values is given to others
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_like_the_last")
EDITS = (
    (
        "models/tiny_features/1/model.py",
        "        return [self._respond(request) for request in requests]\n",
        """\
        return [self._like_the_last(request) for request in requests]

    _known = {}

    def _like_the_last(self, request):
        count = pb_utils.get_input_tensor_by_name(request, "item_price").as_numpy().shape[-1]
        if count not in self._known:
            self._known[count] = self._respond(request).output_tensors()[0].as_numpy()
        tensor = pb_utils.Tensor("features", self._known[count])
        return pb_utils.InferenceResponse([tensor])
""",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)
