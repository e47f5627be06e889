"""Writes synthetic traffic for a model server: requests.bin and arrivals.csv.

    python PATH/OF/THIS/SCRIPT [--out FOLDER]

requests.bin holds inference.ModelInferRequest messages (KServe v2), each after its length as a
varint; arrivals.csv holds seconds from the start and the index of the request. The same tables
and seeds write the same bytes. Correct the tables below: what is drawn here is what is measured.
"""

from __future__ import annotations

import argparse
import base64
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

# --- tables ---
MODEL = "model"
SEED = 18
ROOT = Path()  # of the repository: what files below are relative to
RATE = 20.0  # requests per second, on average
ARRIVALS = 1100
REQUESTS = 400  # different requests among them
OPTIONAL_SHARE = 0.5  # of requests that hold an optional input
BATCH: str | None = None
SIZES: dict[str, tuple[int, int]] = {}
INPUTS: dict[str, tuple[Any, ...]] = {"x": ("FP32", [1], ("normal", 0.0, 1.0))}
OPTIONAL: set[str] = set()
# --- end of tables ---

TEXT = (
    "a about after all also an and are as at be because been before but by can day do first for "
    "from good had has have he her how if in is it its just know like long made make many may more "
    "most new no not now of on one only or other our out over people said see she so some such "
    "than that the their them then there these they this time to two up use very was way we well "
    "were what when where which who will with work would year you your"
)
WORDS = np.array(TEXT.split())
EPOCH_S = 1_760_000_000
DAY_S = 86_400
NUMPY = {
    "BOOL": "?", "INT8": "<i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "<u1",
    "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip

Array = NDArray[Any]
Rng = np.random.Generator


@dataclass(frozen=True)
class Tables:
    """What requests hold.

    An input is (datatype, dims, draw): a name among dims stands for a size that is drawn once a
    request from `sizes`, the smallest and the largest; all inputs with that name share it. With
    `batch`, every input has that dimension in front.
    """

    model: str
    inputs: Mapping[str, tuple[Any, ...]]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    batch: str | None = None
    optional: frozenset[str] = frozenset()
    optional_share: float = 0.5
    root: Path = Path()


def requests(rng: Rng, tables: Tables, count: int) -> Iterator[bytes]:
    """Yield `count` serialised ModelInferRequest messages; ValueError without any input."""
    if not tables.inputs:
        raise ValueError("INPUTS is empty: write the inputs of the model there")
    lines: dict[str, list[str]] = {}
    for index in range(count):
        sizes = {name: _size(rng, *bounds) for name, bounds in tables.sizes.items()}
        message = service_pb2.ModelInferRequest(model_name=tables.model, id=str(index))
        for name, (datatype, dims, draw) in tables.inputs.items():
            left_out = rng.random() >= tables.optional_share
            if name in tables.optional and left_out:
                continue
            front = [] if tables.batch is None else [tables.batch]
            shape = [sizes[d] if isinstance(d, str) else d for d in [*front, *dims]]
            values = drawn(rng, tuple(shape), draw, sizes, _Files(tables.root, lines))
            tensor = message.inputs.add(name=name, datatype=datatype)
            tensor.shape.extend(shape)
            message.raw_input_contents.append(raw(values, datatype))
        data: bytes = message.SerializeToString(deterministic=True)
        yield data


@dataclass(frozen=True)
class _Files:
    """The lines of files that values are drawn from, each file read once."""

    root: Path
    read: dict[str, list[str]]

    def lines(self, name: str) -> list[str]:
        if name not in self.read:
            text = (self.root / name).read_text(encoding="utf-8")
            self.read[name] = [line for line in text.splitlines() if line]
        return self.read[name]


def drawn(
    rng: Rng, shape: tuple[int, ...], draw: Sequence[Any], sizes: Mapping[str, int], files: _Files
) -> Array:
    """Return values of a shape; `draw` is a kind and its arguments."""
    kind, arguments = draw[0], list(draw[1:])
    if kind == "lines":
        return rng.choice(np.array(files.lines(arguments[0]), dtype=object), size=shape)
    if kind == "size":  # of another dimension: a length
        return np.full(shape, sizes[arguments[0]])
    if kind in STRINGS:
        values = np.empty(shape, dtype=object)
        for place in np.ndindex(shape):
            values[place] = STRINGS[kind](rng, *arguments)
        return values
    numbers: Array = NUMBERS[kind](rng, shape, *arguments)
    return numbers


def _integers(rng: Rng, shape: tuple[int, ...], low: int, high: int) -> Array:
    return rng.integers(low, high, size=shape, endpoint=True)


def _times(rng: Rng, shape: tuple[int, ...], days: int) -> Array:
    """Return epoch seconds of the last days."""
    return EPOCH_S - rng.integers(0, days * DAY_S, size=shape)


def _full(_rng: Rng, shape: tuple[int, ...], value: float) -> Array:
    return np.full(shape, value)


def _png_bytes(rng: Rng, shape: tuple[int, ...], height: int, width: int) -> Array:
    """Return one PNG file along the last dimension."""
    rows = [np.frombuffer(png(rng, height, width), np.uint8) for _ in np.ndindex(shape[:-1])]
    return np.array(rows).reshape(shape)


NUMBERS: dict[str, Any] = {
    "normal": lambda rng, shape, mean, sd: rng.normal(mean, sd, shape),
    "uniform": lambda rng, shape, low, high: rng.uniform(low, high, shape),
    "lognormal": lambda rng, shape, mean, sigma: rng.lognormal(mean, sigma, shape),
    "integers": _integers,
    "times": _times,
    "value": _full,
    "choice": lambda rng, shape, values: rng.choice(np.array(values), size=shape),
    "png_bytes": _png_bytes,
}
STRINGS: dict[str, Any] = {
    "words": lambda rng, low, high: " ".join(rng.choice(WORDS, rng.integers(low, high + 1))),
    "one_of": lambda rng, values: values[int(rng.integers(len(values)))],
    "numbered": lambda rng, stem, count: f"{stem}{int(rng.integers(count)):05d}",
    "png": lambda rng, height, width: png(rng, height, width),
    "png_base64": lambda rng, height, width: base64.b64encode(png(rng, height, width)),
}


def png(rng: Rng, height: int, width: int) -> bytes:
    """Return a PNG file of noise, 8-bit RGB, stored: files of one size are equally long."""
    pixels = rng.integers(0, 256, (height, 1 + 3 * width), dtype=np.uint8)
    pixels[:, 0] = 0  # each row begins with its filter: none
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", _stored(pixels.tobytes())), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _stored(data: bytes) -> bytes:
    """Return a zlib stream that does not compress, of the same length on every machine."""
    starts = range(0, len(data), 65_535)
    blocks = [data[start : start + 65_535] for start in starts]
    stream = b"".join(
        struct.pack("<BHH", block is blocks[-1], len(block), len(block) ^ 0xFFFF) + block
        for block in blocks
    )
    return b"\x78\x01" + stream + struct.pack(">I", zlib.adler32(data))


def raw(values: Array, datatype: str) -> bytes:
    """Return an array as the raw contents of a tensor."""
    if datatype == "BYTES":
        return b"".join(_prefixed(value) for value in values.ravel())
    if datatype == "BF16":
        bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
        return (bits >> 16).astype("<u2").tobytes()
    return values.astype(NUMPY[datatype]).tobytes()


def _prefixed(value: str | bytes) -> bytes:
    data = value.encode("utf-8") if isinstance(value, str) else value
    return len(data).to_bytes(4, "little") + data


def _size(rng: Rng, low: int, high: int) -> int:
    """Draw a size, small ones as often as large ones on a logarithmic scale."""
    return min(high, int(np.exp(rng.uniform(np.log(low), np.log(high + 1)))))


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def write(out: Path, messages: Iterator[bytes], offsets_s: Array, count: int) -> None:
    """Write both files; arrival i is of request i modulo `count`."""
    with (out / "requests.bin").open("wb") as file:
        for message in messages:
            file.write(_varint(len(message)) + message)
    lines = [f"{offset_s:.6f},{index % count}\n" for index, offset_s in enumerate(offsets_s)]
    (out / "arrivals.csv").write_text("offset_s,request\n" + "".join(lines), encoding="utf-8")


def main() -> None:
    """Write the traffic of the tables."""
    parser = argparse.ArgumentParser(description="Writes requests.bin and arrivals.csv.")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent)
    out = parser.parse_args().out
    tables = Tables(MODEL, INPUTS, SIZES, BATCH, frozenset(OPTIONAL), OPTIONAL_SHARE, ROOT)
    # arrivals and requests have generators of their own: changing one leaves the other
    offsets_s = np.cumsum(np.random.default_rng([SEED, 1]).exponential(1.0 / RATE, ARRIVALS))
    messages = requests(np.random.default_rng([SEED, 2]), tables, REQUESTS)
    write(out, messages, offsets_s, REQUESTS)


if __name__ == "__main__":
    main()
