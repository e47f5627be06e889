"""A stand-in for the server's module of this name: what programs of the Python backend call.

A tensor keeps what the server keeps: strings are serialised when the tensor is made, numbers when
the response leaves; an array that is not C-contiguous is copied into one that is. Written from the
server's behaviour; `tests/unit/test_backend_stand_in.py` holds it to the server's own Python.
"""

import json
import struct

import numpy as np

TRITON_STRING_TO_NUMPY = {
    "TYPE_BOOL": bool,
    "TYPE_STRING": np.object_,
    **{f"TYPE_UINT{bits}": np.dtype(f"uint{bits}").type for bits in (8, 16, 32, 64)},
    **{f"TYPE_INT{bits}": np.dtype(f"int{bits}").type for bits in (8, 16, 32, 64)},
    **{f"TYPE_FP{bits}": np.dtype(f"float{bits}").type for bits in (16, 32, 64)},
}
_KINDS = {np.dtype(kind): name for name, kind in TRITON_STRING_TO_NUMPY.items()}


class TritonModelException(Exception):
    """What the server's native half raises."""


class TritonError(Exception):
    def __init__(self, message="", code=None):
        super().__init__(message)
        self._message = message
        self._code = code

    def message(self):
        return self._message

    def code(self):
        return self._code


class Tensor:
    def __init__(self, name, array):
        if name == "":
            raise TritonModelException("Tensor name cannot be an empty string.")
        self.kind = _kind(array.dtype)
        self.given = array
        self._name = name
        self._array = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        self._sent = None
        if self.kind == "TYPE_STRING":
            self._sent = b"".join(serialize_byte_tensor(self._array))

    @classmethod
    def received(cls, name, array):
        """Make an input: the server has no doubt about its type."""
        tensor = cls.__new__(cls)
        tensor.kind, tensor.given, tensor._name, tensor._array = "", array, name, array
        tensor._sent = None
        return tensor

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array

    def shape(self):
        return list(self._array.shape)

    def triton_dtype(self):
        return self.kind

    def is_cpu(self):
        return True

    def sent(self):
        """Return the bytes that leave the server."""
        return self._array.tobytes() if self._sent is None else self._sent


def _kind(dtype):
    if dtype.type is np.bytes_:
        return "TYPE_STRING"
    if dtype not in _KINDS or not dtype.isnative:
        raise TritonModelException("NumPy dtype is not supported.")
    return _KINDS[dtype]


def serialize_byte_tensor(array):
    """Return the pieces on the wire: each element's length in four bytes, then the element.

    An object that is no `bytes` is sent as the UTF-8 of its `str`; of a fixed-width array NumPy
    itself drops the zeros at an element's end.
    """
    pieces = []
    for cell in np.nditer(array, flags=["refs_ok", "zerosize_ok"], order="C"):
        item = cell.item()
        if type(item) is not bytes:
            item = str(item).encode("utf-8")
        pieces += (struct.pack("<I", len(item)), item)
    return pieces


def deserialize_bytes_tensor(encoded):
    found, at = [], 0
    while at < len(encoded):
        (length,) = struct.unpack_from("<I", encoded, at)
        found.append(bytes(encoded[at + 4 : at + 4 + length]))
        at += 4 + length
    return np.array(found, dtype=np.object_)


class InferenceRequest:
    """A request; `exec` is what a program calls another model with, see `answer`."""

    answer = None  # (model, names of outputs, inputs) -> tensors: set by whoever runs the program

    def __init__(
        self,
        request_id="r",
        correlation_id=0,
        inputs=(),
        requested_output_names=(),
        model_name="",
        model_version=-1,
        **others,
    ):
        self._id = request_id
        self._correlation_id = correlation_id
        self._inputs = inputs
        self._outputs = list(requested_output_names)
        self._model = model_name
        self._others = others

    def inputs(self):
        return list(self._inputs)

    def request_id(self):
        return self._id

    def correlation_id(self):
        return self._correlation_id

    def requested_output_names(self):
        return self._outputs

    def model_name(self):
        return self._model

    def parameters(self):
        return self._others.get("parameters") or "{}"

    def exec(self, **_):
        if InferenceRequest.answer is None:
            error = TritonError(f"Failed for execute the inference request. Model {self._model!r}")
            return InferenceResponse(error=error)
        tensors = InferenceRequest.answer(self._model, self._outputs, self.inputs())
        return InferenceResponse(tensors)


class InferenceResponse:
    def __init__(self, output_tensors=(), error=None):
        self._tensors = list(output_tensors)
        self._error = error

    def output_tensors(self):
        return self._tensors

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error


class Logger:
    """Says nothing; a program may log with or without an instance."""

    log = log_info = log_warn = log_error = log_verbose = staticmethod(lambda *_: None)


class ModelConfig:
    def __init__(self, text):
        self._config = json.loads(text)

    def as_dict(self):
        return self._config


def get_input_tensor_by_name(inference_request, name):
    return _named(inference_request.inputs(), name)


def get_output_tensor_by_name(inference_response, name):
    return _named(inference_response.output_tensors(), name)


def _named(tensors, name):
    for tensor in tensors:
        if tensor.name() == name:
            return tensor
    return None


def get_input_config_by_name(model_config, name):
    return _declared(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    return _declared(model_config, "output", name)


def _declared(model_config, side, name):
    found = (tensor for tensor in model_config.get(side, ()) if tensor["name"] == name)
    return next(found, None)


def triton_string_to_numpy(name):
    return TRITON_STRING_TO_NUMPY[name]


def using_decoupled_model_transaction_policy(model_config):
    return model_config.get("model_transaction_policy", {}).get("decoupled", False)
