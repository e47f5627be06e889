"""Recorded traffic of a serving repository: request bytes and the times at which they arrived.

`requests.bin` holds `inference.ModelInferRequest` messages of the KServe v2 protocol, each after
its length as a protobuf varint. `arrivals.csv` has the header `offset_s,request`; a line says when
a request arrived, in seconds since the recording began, and its index in `requests.bin`.
Both come from outside: every length, offset and index is checked before it is used.
"""

from __future__ import annotations

import csv
import hashlib
import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import model_config_pb2, service_pb2

from layers.errors import InvalidInput, Location
from layers.traffic import tensors
from layers.traffic.mutations import Mutator
from layers.traffic.tensors import decode, decode_response

if TYPE_CHECKING:
    from layers.manifest import TrafficSection

MAX_REQUEST_BYTES = 1 << 30  # gRPC messages end below 2 GiB; a longer one is a broken length
MAX_VARINT_BYTES = 10
HEADER = ["offset_s", "request"]
_OFFSET = re.compile(r"\d{1,12}(\.\d{1,18})?([eE]-?\d{1,2})?")
_INDEX = re.compile(r"\d{1,12}")
_REWRITE_HINT = "write size-delimited ModelInferRequest messages (varint length, then the bytes)"

__all__ = ["InputSpec", "Requests", "Traffic", "decode", "decode_response", "input_specs", "write"]


class InputSpec(NamedTuple):
    """What an entry model takes for one input; `dims` include the batch, -1 stands for any."""

    datatype: str  # KServe name: "FP32", "BYTES", ...
    dims: tuple[int, ...]
    optional: bool = False
    ragged: bool = False  # says that requests of different sizes may be batched; not checked


class Requests(Sequence[bytes]):
    """The messages of `requests.bin`, read from a memory map one by one."""

    def __init__(self, path: Path) -> None:
        """Index the file; InvalidInput with the byte offset where a length is wrong."""
        self.path = path
        with path.open("rb") as file:
            size = path.stat().st_size
            if size == 0:
                raise InvalidInput("holds no request", at=Location(path), hint=_REWRITE_HINT)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.spans: NDArray[np.int64] = np.array(list(_spans(self._map, path)), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.spans)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start, length = (int(x) for x in self.spans[index])
        return self._map[start : start + length]

    def place(self, index: int) -> str:
        """Say where request `index` lies, for an error message."""
        return f"request {index} (byte {int(self.spans[index][0])})"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests and their recorded arrivals; `order[i]` is what arrived at `arrivals_s[i]`."""

    requests: Requests
    arrivals_s: NDArray[np.float64]  # [n], not decreasing, seconds since the recording began
    order: NDArray[np.int64]  # [n], indices into requests
    rate: float  # arrivals per second over the recording
    digest: str  # SHA-256 over both files
    optional: frozenset[str] = frozenset()  # inputs that a client may leave out

    @classmethod
    def load(cls, root: Path, section: TrafficSection) -> Traffic:
        """Load the traffic that a manifest names; InvalidInput says what is wrong and where."""
        requests_path = _file_inside(root, section.requests)
        arrivals_path = _file_inside(root, section.arrivals)
        requests = Requests(requests_path)
        arrivals_s, order = _arrivals(arrivals_path, len(requests))
        span_s = float(arrivals_s[-1] - arrivals_s[0])
        if span_s <= 0:
            raise InvalidInput(
                "the arrivals span no time, so there is no rate to replay",
                at=Location(arrivals_path),
                hint="record at least two requests at different times",
            )
        digest = hashlib.sha256()
        for path in (requests_path, arrivals_path):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return cls(requests, arrivals_s, order, (len(order) - 1) / span_s, digest.hexdigest())

    def check(self, config: model_config_pb2.ModelConfig | Mapping[str, InputSpec]) -> None:
        """Compare every request with the entry model's inputs.

        `config` is a tritonclient `ModelConfig` message or a mapping from input name to InputSpec.
        Raises InvalidInput that names the request, its byte offset and the input.
        """
        if isinstance(config, Mapping):
            name, max_batch, specs = None, 0, {k: InputSpec(*v) for k, v in config.items()}
        else:
            name, max_batch, specs = config.name, config.max_batch_size, input_specs(config)
        for index in range(len(self.requests)):
            try:
                request = tensors.parse(service_pb2.ModelInferRequest, self.requests[index])
                if name and request.model_name != name:
                    raise ValueError(f"is for model {request.model_name!r}, the entry is {name!r}")
                _check_request(request, specs, max_batch)
            except ValueError as error:
                raise InvalidInput(
                    f"{self.requests.place(index)}: {error}",
                    at=Location(self.requests.path),
                    hint="record the traffic again with the inputs of the entry model's config",
                ) from error

    def mutated(self, seed: int, count: int) -> list[bytes]:
        """Return `count` changed copies of recorded requests, shapes consistent; see `Mutator`."""
        return Mutator(self.requests, self.optional).requests(seed, count)


def write(folder: Path, messages: Sequence[bytes], arrivals: Sequence[tuple[float, int]]) -> None:
    """Write `requests.bin` and `arrivals.csv` into `folder`; arrivals are (offset_s, request)."""
    with (folder / "requests.bin").open("wb") as file:
        for message in messages:
            file.write(_varint(len(message)) + message)
    with (folder / "arrivals.csv").open("w", newline="") as text:
        csv.writer(text, lineterminator="\n").writerows([HEADER, *arrivals])


def input_specs(config: model_config_pb2.ModelConfig) -> dict[str, InputSpec]:
    """Read the inputs of a `ModelConfig`; a batching model gets its batch dimension in front."""
    specs = {}
    for entry in config.input:
        datatype = model_config_pb2.DataType.Name(entry.data_type).removeprefix("TYPE_")
        batch = (-1,) if config.max_batch_size > 0 else ()
        specs[entry.name] = InputSpec(
            "BYTES" if datatype == "STRING" else datatype,
            (*batch, *entry.dims),
            entry.optional,
            entry.allow_ragged_batch,
        )
    return specs


def _file_inside(root: Path, relative: str) -> Path:
    """Return a regular file of the repository; a link out of it is refused."""
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        raise InvalidInput("leads out of the repository", at=Location(root / relative))
    if not path.is_file():
        raise InvalidInput(
            "traffic file not found",
            at=Location(root / relative),
            hint="record traffic, or correct `traffic` in the manifest",
        )
    return path


def _spans(data: mmap.mmap, path: Path) -> Iterator[tuple[int, int]]:
    """Yield (offset of the message, its length) for each message; check that all fit the file."""
    position, end = 0, len(data)
    while position < end:
        start = position
        try:
            length, position = _read_varint(data, position)
        except ValueError as error:
            raise InvalidInput(
                f"byte {start}: {error}", at=Location(path), hint=_REWRITE_HINT
            ) from error
        if length == 0 or length > MAX_REQUEST_BYTES:
            raise InvalidInput(
                f"byte {start}: a message of {length} bytes", at=Location(path), hint=_REWRITE_HINT
            )
        if length > end - position:
            raise InvalidInput(
                f"byte {start}: the message has {length} bytes but the file ends after "
                f"{end - position}",
                at=Location(path),
                hint="the file is truncated; copy or record it again",
            )
        yield position, length
        position += length


def _read_varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    """Return the varint at `position` and where it ends; ValueError if it is cut or too long."""
    value = 0
    for shift, byte in enumerate(data[position : position + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position + shift + 1
    raise ValueError("the length is not a complete varint")


def _varint(value: int) -> bytes:
    """Encode a length as a protobuf varint."""
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _arrivals(path: Path, requests: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read `arrivals.csv`; InvalidInput with the line of the first bad one."""
    offsets: list[float] = []
    order: list[int] = []
    with path.open(newline="", encoding="utf-8") as text:
        rows = csv.reader(text, strict=True)
        try:
            if next(rows, None) != HEADER:
                raise ValueError(f"the header must be {','.join(HEADER)}")
            for row in rows:
                offset_s, index = _arrival(row, requests, offsets[-1] if offsets else 0.0)
                offsets.append(offset_s)
                order.append(index)
        except (ValueError, csv.Error) as error:
            raise InvalidInput(
                str(error),
                at=Location(path, max(1, rows.line_num)),
                hint="one `offset_s,request` a line, in order",
            ) from error
    if not offsets:
        raise InvalidInput("holds no arrival", at=Location(path, 1), hint="record some traffic")
    return np.array(offsets, dtype=np.float64), np.array(order, dtype=np.int64)


def _arrival(row: list[str], requests: int, previous_s: float) -> tuple[float, int]:
    """Check one line of the arrivals; ValueError says what is wrong with it."""
    if len(row) != len(HEADER):
        raise ValueError(f"expected 2 fields, found {len(row)}")
    if not _OFFSET.fullmatch(row[0]):
        raise ValueError(f"offset_s {row[0][:40]!r} is not a finite number of seconds from 0")
    if not _INDEX.fullmatch(row[1]) or int(row[1]) >= requests:
        raise ValueError(f"request {row[1][:40]!r} is not an index from 0 to {requests - 1}")
    offset_s = float(row[0])
    if offset_s < previous_s:
        raise ValueError(f"offset_s {offset_s} comes after {previous_s}: not sorted")
    return offset_s, int(row[1])


def _check_request(
    request: service_pb2.ModelInferRequest, specs: Mapping[str, InputSpec], max_batch: int
) -> None:
    """ValueError if the inputs of one request are not those that the model takes."""
    inputs = {tensor.name: tensor for tensor in request.inputs}
    if unknown := sorted(inputs.keys() - specs.keys()):
        raise ValueError(f"input {unknown[0]!r} is unknown to the model")
    required = {name for name, spec in specs.items() if not spec.optional}
    if missing := sorted(required - inputs.keys()):
        raise ValueError(f"input {missing[0]!r} is missing")
    for name, tensor in inputs.items():
        _check_tensor(name, tensor.datatype, tuple(tensor.shape), specs[name])
        if max_batch and tensor.shape[0] > max_batch:
            raise ValueError(f"input {name!r}: batch {tensor.shape[0]} exceeds {max_batch}")
    tensors.decode_tensors(request.inputs, request.raw_input_contents)


def _check_tensor(name: str, datatype: str, shape: tuple[int, ...], spec: InputSpec) -> None:
    """ValueError if datatype, rank or a dimension differs from what the model takes."""
    if datatype != spec.datatype:
        raise ValueError(f"input {name!r}: datatype {datatype}, the model takes {spec.datatype}")
    if len(shape) != len(spec.dims):
        raise ValueError(
            f"input {name!r}: shape {list(shape)} has rank {len(shape)}, "
            f"the model takes {list(spec.dims)}"
        )
    if any(want not in (-1, size) for size, want in zip(shape, spec.dims, strict=True)):
        raise ValueError(
            f"input {name!r}: shape {list(shape)} does not fit the model's {list(spec.dims)}"
        )
