"""A small stand-in for the server's module of this name: what the programs here call."""


class Tensor:
    def __init__(self, name, array):
        self._name = name
        self._array = array

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array


class InferenceRequest:
    def __init__(self, inputs):
        self._inputs = inputs

    def inputs(self):
        return list(self._inputs)

    def request_id(self):
        return "r"


class TritonError(Exception):
    pass


class InferenceResponse:
    def __init__(self, output_tensors=(), error=None):
        self.output_tensors = list(output_tensors)
        self.error = error


def get_input_tensor_by_name(inference_request, name):
    for tensor in inference_request.inputs():
        if tensor.name() == name:
            return tensor
    return None
