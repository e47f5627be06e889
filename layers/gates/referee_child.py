"""The process of a referee or metric: `python -P referee_child.py FILE FUNCTION KIND`, by path.

It answers frames on stdin with frames on stdout until stdin closes. It runs in the model server's
environment, so it knows NumPy and the standard library only; the parent imports the codec below.

A frame is its length (8 bytes, little endian), the length of a JSON header (4 bytes), the header
and the tensors' bytes in order. The header holds `tensors`: name, dtype, shape and size in bytes
of each, or `error`. Strings have the dtype "bytes": a uint64 length per element, then the blob.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

STRINGS = "bytes"
LENGTH = struct.Struct("<Q")
HEADER = struct.Struct("<I")
MAX_FRAME = 1 << 30
NUMBER = re.compile(r"[<>|][biuf][1248]")
PARENT_CHECK_S = 1.0
METRIC = "metric"  # kind of a function (request, outputs) -> number, and name of its answer
INPUT, OUTPUT = "i:", "o:"  # say in a frame which of the two a tensor belongs to


class FrameError(ValueError):
    """A frame that does not follow the format."""


def encode(tensors: Mapping[str, Array], error: str | None = None) -> bytes:
    """Return the frame of the tensors: numbers, or object arrays of bytes or text.

    Raises FrameError for any other element.
    """
    header: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    for name, array in tensors.items():
        dtype, blob = _blob(name, array)
        header.append({"name": name, "dtype": dtype, "shape": array.shape, "bytes": len(blob)})
        blobs.append(blob)
    head = json.dumps({"tensors": header, "error": error}).encode()
    body = b"".join([HEADER.pack(len(head)), head, *blobs])
    return LENGTH.pack(len(body)) + body


def joined(request: Mapping[str, Array], outputs: Mapping[str, Array] | None) -> dict[str, Array]:
    """Return the tensors of one request, and the outputs that answered it, under distinct names."""
    inputs = {f"{INPUT}{name}": array for name, array in request.items()}
    return inputs | {f"{OUTPUT}{name}": array for name, array in (outputs or {}).items()}


def _parted(tensors: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {n.removeprefix(prefix): a for n, a in tensors.items() if n.startswith(prefix)}


def _blob(name: str, array: Array) -> tuple[str, bytes]:
    """Return the dtype as the frame names it, and the bytes of one tensor."""
    if array.dtype.kind not in "OSU":
        if not NUMBER.fullmatch(array.dtype.str):
            raise FrameError(f"tensor {name!r} has dtype {array.dtype}")
        return array.dtype.str, array.tobytes()
    items = array.ravel().tolist()
    if not all(isinstance(item, bytes | str) for item in items):
        raise FrameError(f"tensor {name!r} holds something else than bytes or text")
    raw = [item.encode() if isinstance(item, str) else item for item in items]
    return STRINGS, np.array([len(x) for x in raw], dtype="<u8").tobytes() + b"".join(raw)


def decode(body: bytes) -> tuple[dict[str, Array], str | None]:
    """Return the tensors and the error of a frame without its length; arrays are writable.

    Strings become object arrays of bytes. Raises FrameError for anything that does not fit.
    """
    try:
        (size,) = HEADER.unpack_from(body)
        start = HEADER.size + size
        header = json.loads(body[HEADER.size : start])
        tensors: dict[str, Array] = {}
        for entry in header["tensors"]:
            end = start + int(entry["bytes"])
            if end < start or end > len(body):
                raise FrameError("a tensor reaches beyond its frame")
            shape = tuple(int(n) for n in entry["shape"])
            tensors[str(entry["name"])] = _tensor(str(entry["dtype"]), shape, body[start:end])
            start = end
        error = header["error"]
    except (struct.error, ValueError, KeyError, TypeError) as reason:
        raise FrameError(f"malformed frame: {reason}") from reason
    return tensors, None if error is None else str(error)


def _tensor(dtype: str, shape: tuple[int, ...], blob: bytes) -> Array:
    """Return one tensor from its bytes."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype != STRINGS:
        if not NUMBER.fullmatch(dtype) or count * int(dtype[2:]) != len(blob):
            raise FrameError(f"{len(blob)} bytes are no {dtype} tensor of shape {shape}")
        return np.ndarray(shape, dtype, buffer=blob).copy()
    lengths = np.ndarray((count,), "<u8", buffer=blob[: 8 * count]).tolist()
    if 8 * count + sum(lengths) != len(blob):
        raise FrameError("the strings do not fill their tensor")
    items = np.empty(count, dtype=object)
    start = 8 * count
    for i, length in enumerate(lengths):
        items[i] = blob[start : start + length]
        start += length
    return items.reshape(shape)


def _read(stream: BinaryIO) -> bytes | None:
    """Return the next frame's body, or None when the parent has closed the pipe."""
    prefix = stream.read(LENGTH.size)
    if len(prefix) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(prefix)
    body = stream.read(size)
    return body if len(body) == size else None


def _load(file: Path, function: str) -> Callable[..., Any]:
    """Return the function of the file; what lies beside the file can be imported by it."""
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    found: Callable[..., Any] | None = getattr(module, function, None)
    if not callable(found):
        raise AttributeError(f"{file.name} has no function {function}")
    return found


def _answer(function: Callable[..., Any], kind: str, body: bytes) -> bytes:
    """Return the frame of what the function makes of one request."""
    tensors, _ = decode(body)
    request = _parted(tensors, INPUT)
    if kind == METRIC:
        return encode({METRIC: _metric(function(request, _parted(tensors, OUTPUT)))})
    return encode(_outputs(function(request)))


def _metric(value: object) -> Array:
    """Return a metric's value as a float64 scalar; TypeError when it is no finite number."""
    number = np.asarray(value)
    if number.shape != () or number.dtype.kind not in "biuf" or not np.isfinite(number):
        raise TypeError(f"the metric must return a finite number, not {value!r:.80}")
    return number.astype(np.float64)


def _outputs(outputs: object) -> dict[str, Array]:
    """Return a referee's outputs, checked to be float64."""
    if not isinstance(outputs, dict) or not outputs:
        raise TypeError("the referee must return a dict of float64 arrays")
    for name, array in outputs.items():
        if not isinstance(array, np.ndarray) or array.dtype != np.float64:
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise TypeError(f"output {name!r} must be a float64 array, not {kind}")
    return outputs


def _watch(parent: int) -> None:
    """End this process once its parent is gone, even in the middle of a request."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(1)


def main(file: Path, function: str, kind: str) -> int:
    """Announce that the function is loaded, then answer one frame by one until stdin closes."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever the referee prints goes to the log
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    try:
        call = _load(file, function)
        reply = encode({})
        while True:
            _write(answers, reply)
            body = _read(sys.stdin.buffer)
            if body is None:
                return 0
            reply = _answer(call, kind, body)
    except Exception as error:  # the code of the serving repository may raise anything
        _write(answers, encode({}, error=f"{type(error).__name__}: {error}"))
        raise  # the traceback goes to the log


def _write(stream: FileIO, data: bytes) -> None:
    """Write all of the data to an unbuffered stream."""
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
