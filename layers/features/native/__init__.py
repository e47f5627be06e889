"""Looks a model's string inputs up in vocabularies, straight from the bytes that the server got.

A model imports this package, which lies beside it, and calls `install` once. From then on a string
input becomes an array of `bytes` when `as_numpy` is called, not before; `encoded` hands it out
unread, `texts` promises its text, and `found` looks that up. Whatever does not fit is read and
handled by Python, as it was before. `python fvec_native/build.py` compiles what is native; where
that was not done, everything is as it was before.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import struct
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from mmap import mmap
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

IS_NATIVE = True
try:
    _native = importlib.import_module(f"{__name__}.fvec_native._vocabulary")
except ImportError:
    IS_NATIVE, _native = False, ModuleType("absent")
    logging.getLogger(__name__).warning("not built, strings are read by Python: run build.py")
_images = importlib.import_module(f"{__name__}.images")

_ERRORS = frozenset({"strict", "replace", "ignore"})  # that a registered function cannot change
_UTF_8 = frozenset({"utf-8", "utf8"})
_SLOT = struct.Struct("=QQQq")  # hash, offset, length, value: see image.h
_HEADER = struct.Struct("=QQ")

Array = npt.NDArray[Any]


class Tensor(Protocol):
    """The server's tensor, in as far as it is used here."""

    def as_numpy(self) -> Array:
        """Return the elements."""


# tensors ---------------------------------------------------------------------------------------

FEW_BYTES = 512  # of a tensor: below it, waiting costs as much as reading at once
MOST_WAITING = 4096  # tensors; the next are read at once

_unread: dict[int, tuple[weakref.ref[Array], Array]] = {}  # by id of the array that waits
_utilities: ModuleType | None = None
_server: tuple[type, Callable[[Tensor], Array]] | None = None  # its tensors, its own as_numpy


def install(utilities: ModuleType) -> None:
    """Have the server's string inputs read when they are asked for.

    `utilities` is triton_python_backend_utils. Where the tensor's class cannot be changed, string
    inputs are read at once, in one native pass.
    """
    global _utilities
    if IS_NATIVE and _utilities is None:
        _utilities = utilities
        vars(utilities)["deserialize_bytes_tensor"] = _read_later


def _can_wait() -> bool:
    """Return whether `as_numpy` is ours; makes it so at the first call.

    The server adds the tensor's class to its module after it has imported the model.
    """
    global _server
    if _server is None and _utilities is not None:
        try:
            kind = _utilities.Tensor
            original = kind.as_numpy
            kind.as_numpy = _read_as_numpy
        except (AttributeError, TypeError):
            return False
        _server = (kind, original)
    return _server is not None


def _read_now(encoded: Array) -> Array:
    """Return the strings of an encoded tensor as a 1-D object array of `bytes`.

    Raises ValueError when the tensor ends inside an element.
    """
    array = np.empty(_native.count(encoded), dtype=np.object_)
    _native.fill(encoded, array)
    return array


def _read_later(encoded: Array) -> Array:
    """Do the same, but leave the elements out until `as_numpy` is called.

    The server calls this for the inputs of requests, when no Python code runs. Who calls it from
    Python (for the answer of another model, say) gets all of it at once.
    """
    if len(encoded) < FEW_BYTES or _is_called_by_python() or not _can_wait():
        return _read_now(encoded)
    if len(_unread) >= MOST_WAITING:
        return _read_now(encoded)
    array = np.empty(_native.count(encoded), dtype=np.object_)
    key = id(array)
    _unread[key] = (weakref.ref(array, lambda _: _unread.pop(key, None)), encoded)
    return array


def _is_called_by_python() -> bool:
    """Return whether Python code called the function that asks.

    The frame is not kept, not even in a local name: that would be a cycle with all it refers to.
    """
    frame = inspect.currentframe()
    try:
        asking = frame.f_back if frame is not None else None
        return asking is None or asking.f_back is not None
    finally:
        del frame, asking


def _read_as_numpy(tensor: Tensor) -> Array:
    """Return what the server's `as_numpy` returns, with all elements there."""
    array = _served(tensor)
    waiting = _unread.pop(id(array if array.base is None else array.base), None)
    if waiting is not None:
        _native.fill(waiting[1], waiting[0]())
    return array


def _served(tensor: Tensor) -> Array:
    """Return what the server holds, elements that wait not there."""
    if _server is None:
        raise RuntimeError("install was not called")
    return _server[1](tensor)


def encoded(tensor: Tensor) -> Encoded | Array:
    """Return a string input as it came, for `texts`; as an array where it is one already."""
    if _server is not None and type(tensor) is _server[0]:
        array = _served(tensor)
        waiting = _unread.get(id(array if array.base is None else array.base))
        if waiting is not None:
            return Encoded(tensor, waiting[1], array.shape)
    return tensor.as_numpy()


class Encoded:
    """A string input that was not read: what an array of it would be, in as far as texts go.

    Holds the tensor, so the memory stays what it is.
    """

    __slots__ = ("_tensor", "buffer", "shape")

    def __init__(self, tensor: Tensor, buffer: Array, shape: tuple[int, ...]) -> None:
        self._tensor, self.buffer, self.shape = tensor, buffer, shape

    def array(self) -> Array:
        """Return it as the array that the server's own code makes."""
        array: Array = self._tensor.as_numpy()
        return array.reshape(self.shape)

    def __getitem__(self, index: int) -> Encoded | Array:
        """Return the one row that there is, else what the array has at `index`."""
        if index == 0 and len(self.shape) > 1 and self.shape[0] == 1:
            return Encoded(self._tensor, self.buffer, self.shape[1:])
        row: Array = self.array()[index]
        return row

    def ravel(self) -> Encoded:
        """Return all elements in one dimension."""
        return Encoded(self._tensor, self.buffer, (int(np.prod(self.shape)),))

    flatten = ravel

    def reshape(self, shape: int) -> Encoded | Array:
        """Return all elements in one dimension for -1, else what the array is then."""
        return self.ravel() if shape == -1 else self.array().reshape(shape)

    def __iter__(self) -> Iterator[Any]:
        """Read everything, and yield what the array holds."""
        return iter(self.array())


# text ------------------------------------------------------------------------------------------


def texts(
    strings: Encoded | Iterable[Any], encoding: str = "utf-8", errors: str = "strict"
) -> list[str] | Texts:
    """Return [s.decode(encoding, errors) for s in strings]: promised where that cannot fail."""
    if type(strings) is Encoded and len(strings.shape) == 1:
        known = encoding.lower() in _UTF_8 and errors in _ERRORS
        if known and (errors != "strict" or _native.are_texts(strings.buffer)):
            return Texts(strings, errors)
    return [value.decode(encoding, errors) for value in strings]


def firsts(rows: Encoded | Array) -> Encoded | Iterable[Any]:
    """Return [row[0] for row in rows], as a string input still where rows have one element each."""
    if isinstance(rows, Encoded) and len(rows.shape) == 2 and rows.shape[1] == 1:
        return rows.ravel()
    return (row[0] for row in rows)


class Texts:
    """The text of a string input, decoded when it is looked at; reads like a list of str."""

    __slots__ = ("_read", "_strings", "errors")

    def __init__(self, strings: Encoded, errors: str) -> None:
        self._strings, self.errors = strings, errors
        self._read: list[str] | None = None

    @property
    def buffer(self) -> Array:
        """The encoded tensor."""
        return self._strings.buffer

    def listed(self) -> list[str]:
        """Return the texts, decoded once."""
        if self._read is None:
            self._read = _native.texts(self.buffer, self.errors)
        return self._read

    def __iter__(self) -> Iterator[str]:
        """Yield the texts in order."""
        return iter(self.listed())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.listed())

    def __getitem__(self, index: int) -> str:
        """Return one of them."""
        return self.listed()[index]


# vocabularies ----------------------------------------------------------------------------------


class Vocabulary:
    """A dict of str to int that nobody changes any more, kept in memory that processes share."""

    __slots__ = ("_plain", "image")

    def __init__(self, image: mmap | bytes) -> None:
        self.image = image
        self._plain: dict[object, int] | None = None

    def get(self, key: object, default: object = None) -> object:
        """Return what the dict's `get` returns, errors for unhashable keys included."""
        if type(key) is str:
            value: int | None = _native.find(self.image, key)
            return default if value is None else value
        if self._plain is None:
            self._plain = dict(_items(self.image))
        return self._plain.get(key, default)


def _items(image: mmap | bytes) -> Iterator[tuple[str, int]]:
    """Yield the pairs of an image of ours."""
    slots = _HEADER.unpack_from(image)[1]
    for n in range(slots):
        _, offset, length, value = _SLOT.unpack_from(image, _HEADER.size + n * _SLOT.size)
        if offset:
            yield bytes(image[offset : offset + length]).decode(), value


def shared(vocabulary: object) -> object:
    """Return a dict of str to int as a Vocabulary; as it is where it is none or others hold it."""
    if sys.getrefcount(vocabulary) > _ALONE:
        return vocabulary
    return _vocabulary(vocabulary) or vocabulary


def shared_each(vocabularies: object) -> object:
    """Return a dict with each of its values `shared`; as it is where others hold it."""
    if type(vocabularies) is not dict or sys.getrefcount(vocabularies) > _ALONE:
        return vocabularies
    for name, count in _references_inside(vocabularies).items():
        made = _vocabulary(vocabularies[name]) if count <= _ALONE_INSIDE else None
        if made is not None:
            vocabularies[name] = made
    return vocabularies


def _vocabulary(vocabulary: object) -> Vocabulary | None:
    image = _native.build(vocabulary) if IS_NATIVE else None
    return None if image is None else Vocabulary(_images.shared(image))


def _references(argument: object) -> int:
    """Count as `shared` does."""
    return sys.getrefcount(argument)


def _references_inside(vocabularies: dict[Any, Any]) -> dict[Any, int]:
    return {name: sys.getrefcount(vocabularies[name]) for name in vocabularies}


# What is counted for a dict that nobody else holds; it differs between versions of Python.
_ALONE = _references({"a": 1})
_ALONE_INSIDE = _references_inside({"a": {"b": 1}})["a"]


class Mapping(Protocol):
    """What keys are looked up in."""

    def get(self, key: object, /, *default: object) -> object:
        """Return the value of a key, or the default."""


def found(keys: Iterable[object], vocabulary: Mapping, *default: object) -> list[object]:
    """Return [vocabulary.get(key, *default) for key in keys]."""
    if isinstance(keys, Texts) and isinstance(vocabulary, Vocabulary):
        otherwise = default[0] if default else None
        values: list[object] = _native.look_up(
            vocabulary.image, keys.buffer, keys.errors, otherwise
        )
        return values
    return [vocabulary.get(key, *default) for key in keys]


def found_decoded(
    strings: Encoded | Iterable[Any],
    vocabulary: Mapping,
    *default: object,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> list[object]:
    """Return [vocabulary.get(s.decode(encoding, errors), *default) for s in strings]."""
    kind: type = type(vocabulary)
    if kind is Vocabulary or kind is dict:  # whose get does not raise for text
        return found(texts(strings, encoding, errors), vocabulary, *default)
    return [vocabulary.get(value.decode(encoding, errors), *default) for value in strings]
