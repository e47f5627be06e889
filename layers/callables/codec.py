"""Values as bytes: what travels between the parent and the processes of a callable.

A value is a (nested) tuple, list or dict with string keys of leaves: numbers, arrays, tensors,
text and bytes. The parent keeps leaves as `Leaf`, so it needs neither torch nor the types of the
code under judgement; a child revives them. Standard library and numpy only: the child runs in
the environment of that code and loads this file by path.

A body is the length of a JSON header (4 bytes, little endian), the header (the tree, every leaf
with its size) and the leaves' bytes in order. Equal values have equal bodies, wherever in memory
they lie. Containers of another type than the plain three travel with its name: to a caller a
named tuple is no tuple.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Value: TypeAlias = Any  # what code takes and returns
Node: TypeAlias = dict[str, Any]  # the header's entry of a value
Tree: TypeAlias = Any  # Leaf, or a tuple, list or dict (string keys) of trees

HEADER = struct.Struct("<I")
FRAME = struct.Struct("<cQ")  # of a command or an answer: its code, the size of its body
MAX_HEADER = 1 << 24
MAX_DEPTH = 32
NUMBER = re.compile(r"[<>|=][biufc][0-9]{1,2}|[<>|]?[US][0-9]{1,6}|[<>][mM]8(\[[0-9a-zA-Z]+\])?")
# torch's element types, and the numpy type that holds the same bits
TORCH = {
    "bool": "|b1",
    "uint8": "|u1",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "float16": "<f2",
    "float32": "<f4",
    "float64": "<f8",
    "bfloat16": "<u2",
    "complex64": "<c8",
    "complex128": "<c16",
}
# Of an extended float only ten bytes count; the rest is whatever lay there.
EXTENDED_BYTES = 10 if np.finfo(np.longdouble).nmant == 63 else np.dtype(np.longdouble).itemsize


class CodecError(ValueError):
    """A value that cannot travel, or bytes that follow no format."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One array, tensor or scalar as data.

    `kind` is ndarray, objects (an object array of bytes or text), torch, or the name of a scalar's
    type. `dtype` is numpy's type string, or torch's name of it; `array` holds the content:
    bfloat16 as uint16; a Python scalar as an array of no dimension. `layout` is how it shall lie
    in the memory of whoever revives it, see `laid_out`.
    """

    kind: str
    dtype: str
    array: Array
    layout: str = ""


class NamedTuple(tuple[Tree, ...]):
    """A tuple of trees that was of another type: `name` is its name, with those of its fields."""

    name = ""


class NamedList(list[Tree]):
    """A list of trees that was of another type."""

    name = ""


class NamedDict(dict[str, Tree]):
    """A dict of trees that was of another type."""

    name = ""


CONTAINERS: dict[str, Any] = {"tuple": tuple, "list": list, "dict": dict}
NAMED: dict[str, Any] = {"tuple": NamedTuple, "list": NamedList, "dict": NamedDict}


# --- to bytes -------------------------------------------------------------------------------


def encode(value: Value) -> bytes:
    """Return the body of a value. Raises CodecError for what cannot travel."""
    node, blobs = copied(value)
    return b"".join([header(node), *blobs])


def copied(value: Value) -> tuple[Node, list[bytes]]:
    """Return the tree's entries and the copied-out content of a value. Raises CodecError."""
    blobs: list[bytes] = []
    return _node(value, blobs, 0), blobs


def header(node: Node) -> bytes:
    """Return the header of a tree's entries."""
    head = json.dumps(node, separators=(",", ":")).encode()
    return HEADER.pack(len(head)) + head


def _node(value: Value, blobs: list[bytes], depth: int) -> Node:
    """Return the header's entry of one value, its content appended to `blobs`."""
    if depth > MAX_DEPTH:
        raise CodecError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise CodecError("a dict has keys that are not text")
        items = [[key, _node(item, blobs, depth + 1)] for key, item in value.items()]
        return _named({"c": "dict", "i": items}, value)
    if isinstance(value, tuple | list):
        name = "tuple" if isinstance(value, tuple) else "list"
        return _named({"c": name, "i": [_node(item, blobs, depth + 1) for item in value]}, value)
    kind, dtype, array = _leaf(value)
    blob = _strings(array) if dtype == "O" else _content(array)
    blobs.append(blob)
    node = {"k": kind, "t": dtype, "s": list(array.shape), "b": len(blob)}
    if isinstance(value, Leaf) and value.layout:
        node["l"] = value.layout
    return node


def _named(node: Node, value: Value) -> Node:
    """Return a container's entry with the name of its type, where that is none of the plain ones."""
    if type(value) in (NamedTuple, NamedList, NamedDict):
        node["n"] = value.name
    elif type(value) is not CONTAINERS[node["c"]]:
        fields = getattr(value, "_fields", ()) if node["c"] == "tuple" else ()
        named = f"({', '.join(map(str, fields))})" if fields else ""
        node["n"] = f"{type(value).__name__}{named}"[:200]
    return node


def _leaf(value: Value) -> tuple[str, str, Array]:
    """Return kind, dtype and content of one leaf."""
    if isinstance(value, Leaf):
        return value.kind, value.dtype, value.array
    if isinstance(value, np.ndarray):
        kind = "ndarray" if type(value) is np.ndarray else f"ndarray {type(value).__name__}"
        if value.dtype.kind == "O":
            return kind.replace("ndarray", "objects", 1), "O", np.asarray(value)
        return kind, _number(value.dtype), np.asarray(value)
    if isinstance(value, np.generic):
        array = np.asarray(value)  # an empty text takes one character there
        kind = "scalar" if type(value) is array.dtype.type else f"scalar {type(value).__name__}"
        return kind, _number(array.dtype), array
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return _plain(value)
    return _tensor(value)


def _number(dtype: np.dtype[Any]) -> str:
    """Return numpy's type string; raises CodecError for records and the like."""
    if not NUMBER.fullmatch(dtype.str):
        raise CodecError(f"an array has dtype {dtype}")
    return dtype.str


def _plain(value: Value) -> tuple[str, str, Array]:
    """Return a Python scalar as an array of no dimension."""
    kind = type(value).__name__
    if isinstance(value, str | bytes) or value is None:
        content = np.empty((), dtype=object)
        content[()] = b"" if value is None else value
        return kind, "O", content
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
        content = np.empty((), dtype=object)
        content[()] = str(int(value))
        return kind, "O", content
    array = np.asarray(value)
    return kind, _number(array.dtype), array


def _tensor(value: Value) -> tuple[str, str, Array]:
    """Return a torch tensor: of the torch that is loaded here, if one is."""
    torch: Any = sys.modules.get("torch")
    if not isinstance(value, getattr(torch, "Tensor", ())):
        raise CodecError(f"{type(value).__name__} is no array, tensor, number, text or bytes")
    tensor: Any = value
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in TORCH:
        raise CodecError(f"a tensor has dtype {name}")
    plain = tensor.detach().cpu().contiguous()
    if name == "bfloat16":
        plain = plain.view(torch.int16)
    kind = "torch" if type(value).__name__ in {"Tensor", "Parameter"} else type(value).__name__
    return kind, name, np.asarray(plain.resolve_conj().numpy()).view(TORCH[name])


def _content(array: Array) -> bytes:
    """Return the bytes of numbers; the padding of extended floats, which holds nothing, is zero."""
    if array.dtype.char not in "gG":
        return array.tobytes()
    size = np.dtype(np.longdouble).itemsize
    raw = np.frombuffer(bytearray(array.tobytes()), dtype=np.uint8).reshape(-1, size)
    raw[:, EXTENDED_BYTES:] = 0
    return raw.tobytes()


def _strings(array: Array) -> bytes:
    """Return lengths (signed: text is negative) and content of an object array."""
    items = array.ravel().tolist() if array.ndim else [array[()]]
    lengths, raw = [], []
    for item in items:
        if not isinstance(item, bytes | str):
            raise CodecError(f"an object array holds {type(item).__name__}, not bytes or text")
        content = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
        lengths.append(-1 - len(content) if isinstance(item, str) else len(content))
        raw.append(content)
    return np.array(lengths, dtype="<i8").tobytes() + b"".join(raw)


# --- from bytes -----------------------------------------------------------------------------


def decode(body: bytes | memoryview) -> Tree:
    """Return the tree of a body, its arrays writable copies. Raises CodecError."""
    body = memoryview(body)
    try:
        (size,) = HEADER.unpack_from(body)
        if size > MAX_HEADER or HEADER.size + size > len(body):
            raise CodecError("the header reaches beyond its body")
        node = json.loads(bytes(body[HEADER.size : HEADER.size + size]))
        blobs = _Blobs(body[HEADER.size + size :])
        tree = _value(node, blobs, 0)
    except (struct.error, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise CodecError(f"malformed body: {error}") from error
    if blobs.rest:
        raise CodecError(f"{blobs.rest} bytes belong to no leaf")
    return tree


class _Blobs:
    """The content of a body, handed out in order."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._start = 0

    @property
    def rest(self) -> int:
        """Bytes that were not handed out."""
        return len(self._data) - self._start

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes."""
        if not 0 <= size <= self.rest:
            raise CodecError("a leaf reaches beyond its body")
        self._start += size
        return self._data[self._start - size : self._start]


def _value(node: Node, blobs: _Blobs, depth: int) -> Tree:
    """Return one value of the tree."""
    if depth > MAX_DEPTH:
        raise CodecError(f"nested deeper than {MAX_DEPTH}")
    if "c" in node:
        return _container(node, blobs, depth)
    kind, dtype = str(node["k"])[:80], str(node["t"])
    shape = tuple(int(n) for n in node["s"])
    count = 1
    for n in shape:
        count *= n
    if len(shape) > MAX_DEPTH or any(n < 0 for n in shape) or count > 1 << 40:
        raise CodecError(f"a leaf has the shape {shape[:MAX_DEPTH]}")
    array = _array(dtype, shape, count, blobs.take(int(node["b"])))
    return Leaf(kind, dtype, array, str(node.get("l", ""))[:20])


def _container(node: Node, blobs: _Blobs, depth: int) -> Tree:
    """Return a tuple, list or dict of values, with the name of its type where it had one."""
    type_name, name = str(node["c"]), str(node.get("n", ""))[:200]
    build = NAMED[type_name] if name else CONTAINERS[type_name]
    if type_name == "dict":
        found = build((str(key), _value(item, blobs, depth + 1)) for key, item in node["i"])
    else:
        found = build(_value(item, blobs, depth + 1) for item in node["i"])
    if name:
        found.name = name
    return found


def _array(dtype: str, shape: tuple[int, ...], count: int, blob: memoryview) -> Array:
    """Return the content of one leaf."""
    if dtype == "O":
        return _texts(shape, count, blob)
    number = TORCH.get(dtype, dtype)
    if not NUMBER.fullmatch(number) or count * np.dtype(number).itemsize != len(blob):
        raise CodecError(f"{len(blob)} bytes are no {dtype[:40]} of shape {shape}")
    return np.ndarray(shape, number, buffer=bytearray(blob)) if blob else np.zeros(shape, number)


def _texts(shape: tuple[int, ...], count: int, blob: memoryview) -> Array:
    """Return an object array of bytes and text."""
    if 8 * count > len(blob):
        raise CodecError("the strings reach beyond their leaf")
    lengths = np.frombuffer(blob[: 8 * count], "<i8").tolist()
    sizes = [-1 - n if n < 0 else n for n in lengths]
    if 8 * count + sum(sizes) != len(blob):
        raise CodecError("the strings do not fill their leaf")
    items = np.empty(count, dtype=object)
    start = 8 * count
    for i, (length, size) in enumerate(zip(lengths, sizes, strict=True)):
        raw = bytes(blob[start : start + size])
        items[i] = raw.decode("utf-8", "surrogatepass") if length < 0 else raw
        start += size
    return items.reshape(shape)


# --- trees ----------------------------------------------------------------------------------


def revive(tree: Tree) -> Value:
    """Return the value that code expects: arrays, tensors and plain scalars for leaves."""
    if isinstance(tree, dict):
        return {key: revive(item) for key, item in tree.items()}
    if isinstance(tree, tuple | list):
        items = [revive(item) for item in tree]
        return tuple(items) if isinstance(tree, tuple) else items
    return _revived(tree)


def _revived(leaf: Leaf) -> Value:
    """Return one leaf as the object it came from."""
    kind = leaf.kind.partition(" ")[0]
    if kind in {"ndarray", "objects"}:
        return laid_out(leaf.array, leaf.layout)
    if kind == "scalar":
        return leaf.array[()]
    if kind == "torch":
        import torch  # type: ignore[import-not-found]  # only where tensors are used

        array = leaf.array.view("<i2") if leaf.dtype == "bfloat16" else leaf.array
        # No tensor goes backwards.
        tensor = torch.from_numpy(laid_out(array, leaf.layout if leaf.layout != REVERSED else ""))
        return tensor.view(torch.bfloat16) if leaf.dtype == "bfloat16" else tensor
    if kind == "NoneType":
        return None
    return (
        int(leaf.array[()])
        if kind == "int"
        else leaf.array[()].item()
        if (leaf.dtype != "O")
        else leaf.array[()]
    )


ROWS, REVERSED, FORTRAN = "every second row", "reversed", "Fortran order"
# Ways for an array of some content to lie in memory. What lies between its elements is like them:
# an answer from there is none that strikes.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    ROWS: lambda array: np.repeat(array, 2, axis=0)[::2],
    "columns of more": lambda array: np.concatenate(
        [array[..., :1], array, array[..., -1:]], axis=-1
    )[..., 1:-1],
    "every second column": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    FORTRAN: np.asfortranarray,
    REVERSED: lambda array: np.flip(np.flip(array).copy()),
    "offset": lambda array: np.append(array.reshape(-1)[:1], array)[1:].reshape(array.shape),
}
# Those that arrays of one dimension do not have, or have by another name.
OF_COLUMNS = ("columns of more", "every second column", FORTRAN)


def laid_out(array: Array, layout: str) -> Array:
    """Return an array of the same content that lies in memory in another way; "": the array."""
    return LAYOUTS[layout](array) if array.size and array.ndim and layout in LAYOUTS else array


def leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield the leaves with their names: keys and positions joined by dots, "output" for a lone one.

    No two leaves have one name: keys with dots in them are quoted.
    """
    if isinstance(tree, Leaf):
        yield prefix or "output", tree
        return
    pairs = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    for key, item in pairs:
        name = part(str(key))
        yield from leaves(item, f"{prefix}.{name}" if prefix else name)


def part(key: str) -> str:
    """Return a key as it stands in names: quoted where it would be taken for more or not be seen."""
    plain = bool(key) and key.isprintable() and not set('."\\') & set(key)
    return key if plain else json.dumps(key)


def shape_of(tree: Tree) -> str:
    """Return the nesting of a value without its leaves, e.g. "(*, {a: *})"; keys in their order."""
    if isinstance(tree, Leaf):
        return "*"
    name = str(getattr(tree, "name", ""))
    if isinstance(tree, Mapping):
        items = [f"{part(key)}: {shape_of(item)}" for key, item in tree.items()]
        return name + "{" + ", ".join(items) + "}"
    inner = ", ".join(shape_of(item) for item in tree)
    return f"{name}({inner})" if isinstance(tree, tuple) else f"{name}[{inner}]"


def printable(text: str) -> str:
    """Return the text as any file can hold it: halves of surrogate pairs are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
