"""Runs the programs here before and after a codemod, over the same requests."""

import runpy
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SERVER_MODULE = "triton_python_backend_utils"
SERVER = runpy.run_path(str(HERE / f"{SERVER_MODULE}.py"))
ERRORS = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError),
    SERVER["TritonModelException"],
)


def programs(kind):
    """Return the files of one kind: text, as their authors left it, so never linted."""
    return sorted((HERE / kind).glob("*.py.txt"))


@cache
def model_class(text):
    """Run a program's text beside the stand-in for the server's module."""
    saved_path, saved_module = sys.path[:], sys.modules.pop(SERVER_MODULE, None)
    sys.path.insert(0, str(HERE))
    try:
        module = __import__(SERVER_MODULE)
        vars(module).update(SERVER)  # one set of classes for all programs
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.py")
            path.write_text(text)
            return runpy.run_path(str(path))["TritonPythonModel"]
    finally:
        sys.path[:] = saved_path
        sys.modules.pop(SERVER_MODULE, None)
        if saved_module is not None:
            sys.modules[SERVER_MODULE] = saved_module


def request(inputs):
    """Build a request of (name, array) pairs; a name may come twice."""
    tensors = [SERVER["Tensor"].received(name, array) for name, array in inputs]
    return SERVER["InferenceRequest"](inputs=tensors)


def outcome(text, requests, *, texts=False):
    """Return everything that a caller can see: bytes, dtype, shape and layout, or the error.

    An error is its type, with `texts` its message too.
    """
    model = model_class(text)()
    if hasattr(model, "initialize"):
        model.initialize({})
    try:
        with warnings.catch_warnings():  # a server shows them to no caller
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of values that are drawn
            responses = model.execute(requests)
    except ERRORS as error:
        return (type(error).__name__, str(error)) if texts else type(error).__name__
    return [
        str(response.error())
        if response.has_error()
        else [_seen(tensor) for tensor in response.output_tensors()]
        for response in responses
    ]


def _seen(tensor):
    """Return all of a tensor of numbers; of one of strings what reaches the wire."""
    array = tensor.given
    if tensor.kind == "TYPE_STRING":
        return tensor.name(), tensor.kind, array.shape, tensor.sent()
    return tensor.name(), array.dtype, array.shape, array.flags.c_contiguous, tensor.sent()
