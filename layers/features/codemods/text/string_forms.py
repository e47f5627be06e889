"""Arrays of fixed-width bytes as code builds them for a tensor of strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from layers.features.module_names import is_builtin
from layers.features.source import Source

_ARRAYS = {"numpy.array", "numpy.asarray"}
_FIXED = {"numpy.bytes_", "numpy.string_"}
_FIXED_TEXTS = {"S", "|S"}
_OBJECTS = {"numpy.object_", "numpy.object"}
_UTF_8 = {"utf-8", "utf8"}


@dataclass(frozen=True, eq=False)
class Strings:
    """An expression that makes an array of strings from `values`.

    `accepts` says from which: "bytes" alone, "ascii" (bytes, or texts in ASCII) or "text" in
    UTF-8. It is empty for an array of objects. `lists` says whether `values` may be a list.
    """

    values: cst.BaseExpression
    accepts: str
    lists: bool = True


class StringReader:
    """Recognises how an array of strings is made."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, node: cst.BaseExpression) -> Strings | None:
        """Return how `node` makes an array of strings, None if it is something else."""
        if not isinstance(node, cst.Call):
            return None
        return self._array(node) or self._converted(node) or self._encoded(node)

    def _array(self, call: cst.Call) -> Strings | None:
        """Read `np.array(values, dtype=np.bytes_)`, and without a dtype of what is encoded."""
        parts = self._made(call)
        if parts is None:
            return None
        values, dtype = parts
        if dtype is None:
            return Strings(values, "bytes") if _is_encoded(values) else None
        if self._is_object(dtype):
            return Strings(values, "") if _is_encoded(values) else None
        return Strings(values, "ascii") if self._is_fixed(dtype) else None

    def _converted(self, call: cst.Call) -> Strings | None:
        """Read `values.astype("S")`."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "astype":
            return None
        if len(call.args) != 1 or not _plain(call.args) or not self._is_fixed(call.args[0].value):
            return None
        values = self._inner(call.func.value, objects=True)
        return Strings(values, "ascii", lists=values is not call.func.value)

    def _encoded(self, call: cst.Call) -> Strings | None:
        """Read `np.char.encode(values, "utf-8")`."""
        if not self._calls(call, {"numpy.char.encode"}) or not 1 <= len(call.args) <= 2:
            return None
        first, *rest = call.args
        named = all(a.keyword is None or a.keyword.value == "encoding" for a in rest)
        given = [a.value for a in rest]
        texts = [g.value.strip("\"'").lower() for g in given if isinstance(g, cst.SimpleString)]
        if first.keyword or first.star or not named or len(texts) != len(rest):
            return None
        if not set(texts) <= _UTF_8:
            return None
        return Strings(self._inner(first.value, objects=False), "text")

    def _inner(self, array: cst.BaseExpression, *, objects: bool) -> cst.BaseExpression:
        """Return `values` of `np.array(values)`, else what is given."""
        parts = self._made(array) if isinstance(array, cst.Call) else None
        if parts is None:
            return array
        values, dtype = parts
        return values if dtype is None or (objects and self._is_object(dtype)) else array

    def _made(self, call: cst.Call) -> tuple[cst.BaseExpression, cst.BaseExpression | None] | None:
        """Return values and dtype of a call of np.array."""
        if not self._calls(call, _ARRAYS) or not 1 <= len(call.args) <= 2:
            return None
        first, *rest = call.args
        named = all(a.keyword is None or a.keyword.value == "dtype" for a in rest)
        if first.keyword or any(a.star for a in call.args) or not named:
            return None
        return first.value, rest[0].value if rest else None

    def _calls(self, call: cst.Call, names: set[str]) -> bool:
        found = self._source.qualified(call.func) if isinstance(call.func, cst.Attribute) else set()
        return bool(found) and found <= names

    def _is_fixed(self, dtype: cst.BaseExpression) -> bool:
        if isinstance(dtype, cst.SimpleString):
            return dtype.value.strip("\"'") in _FIXED_TEXTS
        if isinstance(dtype, cst.Attribute):
            return bool(found := self._source.qualified(dtype)) and found <= _FIXED
        return is_builtin(self._source, dtype, "bytes")

    def _is_object(self, dtype: cst.BaseExpression) -> bool:
        if isinstance(dtype, cst.SimpleString):
            return dtype.value.strip("\"'") in {"O", "object"}
        if isinstance(dtype, cst.Attribute):
            return bool(found := self._source.qualified(dtype)) and found <= _OBJECTS
        return is_builtin(self._source, dtype, "object")


def _is_encoded(values: cst.BaseExpression) -> bool:
    """Return whether a list is written out whose elements are all encoded on the spot."""
    if isinstance(values, cst.ListComp):
        elements: Sequence[cst.BaseExpression] = [values.elt]
    elif isinstance(values, cst.List):
        elements = [element.value for element in values.elements]
    else:
        return False
    inner = [_only(element) for element in elements]
    return bool(inner) and all(
        isinstance(e, cst.Call)
        and isinstance(e.func, cst.Attribute)
        and e.func.attr.value == "encode"
        for e in inner
    )


def _only(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `x` of `[x]`."""
    return (
        node.elements[0].value if isinstance(node, cst.List) and len(node.elements) == 1 else node
    )


def _plain(arguments: Sequence[cst.Arg]) -> bool:
    return not any(a.star or (a.keyword and a.keyword.value != "dtype") for a in arguments)
