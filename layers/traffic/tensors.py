"""Tensors in KServe v2 messages: request and response bytes to numpy arrays and back.

The messages come from recorded traffic and from servers, so every size is checked before it is
used; malformed input raises ValueError and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2
from tritonclient.utils import serialize_byte_tensor, triton_to_np_dtype

Array = NDArray[Any]
MessageT = TypeVar("MessageT", bound=Message)


class WireTensor(Protocol):
    """What an input and an output tensor of a message have in common."""

    name: str
    datatype: str
    shape: Sequence[int]
    contents: service_pb2.InferTensorContents


_TYPED_FIELDS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def decode(request: bytes, only: Collection[str] | None = None) -> dict[str, Array]:
    """Return the input tensors of a request by name; strings as object arrays of bytes.

    BF16 comes back as float32, which holds it exactly. `only` names the inputs that are wanted, by
    default all. Raises ValueError on a malformed message.
    """
    message = parse(service_pb2.ModelInferRequest, request)
    return decode_tensors(message.inputs, message.raw_input_contents, only)


def decode_response(response: bytes) -> dict[str, Array]:
    """Return the output tensors of a ModelInferResponse by name, as `decode` does for inputs."""
    message = parse(service_pb2.ModelInferResponse, response)
    return decode_tensors(message.outputs, message.raw_output_contents)


def encode(template: bytes, tensors: Mapping[str, Array], request_id: str) -> bytes:
    """Return the request `template` with other tensor values; names and datatypes stay.

    What `tensors` do not hold is left out.
    """
    message = parse(service_pb2.ModelInferRequest, template)
    message.id = request_id
    del message.raw_input_contents[:]
    kept = [tensor for tensor in message.inputs if tensor.name in tensors]
    del message.inputs[:]
    message.inputs.extend(kept)
    for tensor in message.inputs:
        values = tensors[tensor.name]
        del tensor.shape[:]
        tensor.shape.extend(values.shape)
        tensor.ClearField("contents")
        message.raw_input_contents.append(to_raw(values, tensor.datatype))
    data: bytes = message.SerializeToString()
    return data


def make_raw(message: service_pb2.ModelInferRequest) -> None:
    """Turn the typed contents of a request into raw ones, in place; raises ValueError."""
    if message.raw_input_contents:
        return
    decoded = decode_tensors(message.inputs, ())
    for tensor in message.inputs:
        tensor.ClearField("contents")
        message.raw_input_contents.append(to_raw(decoded[tensor.name], tensor.datatype))


def make_typed(message: service_pb2.ModelInferRequest) -> None:
    """Turn the raw contents of a request into typed ones, in place.

    Raises ValueError for a datatype that has none (FP16, BF16).
    """
    decoded = decode_tensors(message.inputs, message.raw_input_contents)
    for tensor in message.inputs:
        if tensor.datatype not in _TYPED_FIELDS:
            raise ValueError(f"datatype {tensor.datatype!r} needs raw contents")
        field = getattr(tensor.contents, _TYPED_FIELDS[tensor.datatype])
        field.extend(decoded[tensor.name].ravel().tolist())
    del message.raw_input_contents[:]


def parse(kind: type[MessageT], data: bytes) -> MessageT:
    """Parse a protobuf message; ValueError instead of protobuf's own error."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ValueError(f"is not a {kind.DESCRIPTOR.name} message") from error
    return message


def decode_tensors(
    tensors: Sequence[WireTensor], raw: Sequence[bytes], only: Collection[str] | None = None
) -> dict[str, Array]:
    """Decode tensors with raw or typed contents; ValueError where sizes do not agree.

    `only` names those that are wanted, by default all.
    """
    if raw and len(raw) != len(tensors):
        raise ValueError(f"{len(tensors)} tensors but {len(raw)} raw contents")
    decoded: dict[str, Array] = {}
    for position, tensor in enumerate(tensors):
        if only is not None and tensor.name not in only:
            continue
        if tensor.name in decoded:
            raise ValueError(f"tensor {tensor.name!r} appears twice")
        try:
            values = from_raw(tensor.datatype, raw[position]) if raw else _from_typed(tensor)
            decoded[tensor.name] = _shaped(values, tuple(tensor.shape))
        except ValueError as error:
            raise ValueError(f"tensor {tensor.name!r}: {error}") from error
    return decoded


def _shaped(values: Array, shape: tuple[int, ...]) -> Array:
    """Give flat values their shape; ValueError if they do not fill it."""
    if any(size < 0 for size in shape):
        raise ValueError(f"negative size in shape {list(shape)}")
    if values.size != math.prod(shape):
        raise ValueError(f"{values.size} elements do not fill shape {list(shape)}")
    return values.reshape(shape)


def _dtype(datatype: str) -> np.dtype[Any]:
    """Return the numpy type of a fixed-size KServe datatype; ValueError if there is none."""
    kind: type[np.generic] | None = triton_to_np_dtype(datatype)
    if kind is None or datatype == "BYTES":
        raise ValueError(f"unknown datatype {datatype!r}")
    dtype: np.dtype[Any] = np.dtype(kind)
    return dtype


def from_raw(datatype: str, data: bytes) -> Array:
    """Decode raw contents to a flat array; raises ValueError."""
    if datatype == "BYTES":
        return _objects(_split_strings(data))
    if datatype == "BF16":
        if len(data) % 2:
            raise ValueError(f"{len(data)} bytes are no whole number of BF16 elements")
        return (np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    dtype = _dtype(datatype)
    if len(data) % dtype.itemsize:
        raise ValueError(f"{len(data)} bytes are no whole number of {datatype} elements")
    return np.frombuffer(data, dtype=dtype)


def _from_typed(tensor: WireTensor) -> Array:
    """Decode the typed contents field to a flat array."""
    if tensor.datatype not in _TYPED_FIELDS:
        raise ValueError(f"datatype {tensor.datatype!r} needs raw contents")
    values = list(getattr(tensor.contents, _TYPED_FIELDS[tensor.datatype]))
    if tensor.datatype == "BYTES":
        return _objects(values)
    try:
        return np.array(values, dtype=_dtype(tensor.datatype))
    except OverflowError as error:
        raise ValueError(f"a value does not fit {tensor.datatype}") from error


def _split_strings(data: bytes) -> list[bytes]:
    """Split raw BYTES contents: each element follows its length as a little-endian uint32."""
    strings: list[bytes] = []
    position, end = 0, len(data)
    while position < end:
        start = position + 4
        position = start + int.from_bytes(data[position:start], "little")
        if position > end or start > end:
            raise ValueError(f"string {len(strings)} ends beyond the contents")
        strings.append(data[start:position])
    return strings


def _objects(values: Sequence[bytes]) -> Array:
    """Return an object array that holds the byte strings as they are."""
    array = np.empty(len(values), dtype=np.object_)
    array[:] = values
    return array


def to_raw(values: Array, datatype: str) -> bytes:
    """Encode an array as raw contents; BF16 keeps the upper half of each float32."""
    if datatype == "BYTES":
        packed = serialize_byte_tensor(values)
        return bytes(packed.item()) if packed.size else b""
    if datatype == "BF16":
        bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
        return (bits >> 16).astype("<u2").tobytes()
    return values.astype(_dtype(datatype), copy=False).tobytes()
