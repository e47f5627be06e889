"""Reads string tensors (KServe v2 BYTES) for the model beside it, in place of the server's loop.

`deserialize_bytes_tensor` takes and returns what the function of the same name in
triton_python_backend_utils does. `python build.py` compiles `_bytes.c`; where that was not done,
the same result comes from Python code, slower than C and faster than the server's own.
"""

from __future__ import annotations

import importlib
import logging
import struct
from functools import partial
from types import ModuleType

import numpy as np
import numpy.typing as npt

_native: ModuleType | None = None
try:
    _native = importlib.import_module(f"{__name__}._bytes")
except ImportError:
    logging.getLogger(__name__).warning("not built, strings are read by Python: run build.py")

IS_NATIVE = _native is not None

_PREFIX = struct.Struct("<I")  # before each string: its length in bytes
_objects = partial(np.empty, dtype=np.object_)


def deserialize_bytes_tensor(encoded_tensor: npt.NDArray[np.uint8]) -> npt.NDArray[np.object_]:
    """Return the strings of an encoded tensor as a 1-D array of `bytes`, in order.

    Takes any contiguous buffer. Raises ValueError when it ends inside a length or a string.
    """
    if _native is None:
        return deserialize_in_python(encoded_tensor)
    strings: npt.NDArray[np.object_] = _native.deserialize(encoded_tensor, _objects)
    return strings


def deserialize_in_python(encoded_tensor: npt.NDArray[np.uint8]) -> npt.NDArray[np.object_]:
    """Do the same without the extension."""
    data = bytes(encoded_tensor)  # its slices are the strings
    read_length, prefix_bytes, size = _PREFIX.unpack_from, _PREFIX.size, len(data)
    strings: list[bytes] = []
    append = strings.append
    end = 0
    try:
        while end < size:
            start = end + prefix_bytes
            end = start + read_length(data, end)[0]
            append(data[start:end])
    except struct.error as error:
        raise ValueError("string tensor ends inside a length") from error
    if end > size:
        raise ValueError("string tensor ends inside a string")
    return np.array(strings, dtype=np.object_)
