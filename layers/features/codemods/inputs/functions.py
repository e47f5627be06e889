"""Functions that do not write into what they are handed, and how many arguments are no output."""

from __future__ import annotations

import libcst as cst


class UnsafeError(Exception):
    """The array may be written, kept or handed on; the text says where."""


def _numpy(*names: str, positional: int) -> dict[str, int]:
    return {f"numpy.{name}": positional for name in names}


# of these the result shares nothing with what is handed in
READING = {
    **_numpy("log1p", "log", "log2", "log10", "exp", "expm1", "sqrt", "abs", positional=1),
    **_numpy("absolute", "floor", "ceil", "rint", "sign", "negative", positional=1),
    **_numpy("isnan", "isinf", "isfinite", "logical_not", "nan_to_num", positional=1),
    **_numpy("hstack", "vstack", "column_stack", positional=1),
    **_numpy("maximum", "minimum", "any", "all", "min", "max", "amin", "amax", positional=2),
    **_numpy("concatenate", "stack", "add", "subtract", "multiply", "divide", positional=2),
    **_numpy("argmax", "argmin", "tile", "searchsorted", positional=2),
    **_numpy("where", "clip", positional=3),
    **_numpy("zeros", "ones", "empty", "full", positional=3),
    **_numpy("zeros_like", "ones_like", "empty_like", "full_like", "arange", positional=3),
    **_numpy("repeat", "take", positional=3),
    **_numpy("argsort", "sort", "unique", positional=1),
}
# sums may depend on where the array lies in memory: a copy stays one for them
SHARING_NOTHING = {
    **READING,
    **_numpy("sum", "mean", "std", "var", "prod", "cumsum", positional=3),
}
POSITIONAL = {
    **SHARING_NOTHING,
    **_numpy("array", "asarray", "ascontiguousarray", positional=2),
    **_numpy("reshape", "ravel", "squeeze", "transpose", "expand_dims", positional=2),
}
FRESH = tuple(
    f"numpy.{kind}{like}" for kind in ("zeros", "ones", "empty", "full") for like in ("", "_like")
)
PLAIN = frozenset(f"builtins.{name}" for name in ("len", "float", "int", "bool", "str", "repr"))
BUILTINS = PLAIN | {
    f"builtins.{name}"
    for name in (
        *("abs", "all", "any", "bytes", "dict", "enumerate", "frozenset", "id", "isinstance"),
        *("iter", "list", "max", "min", "next", "range", "reversed", "set", "sum", "tuple"),
        *("type", "zip", "hasattr", "print"),
    )
}
MODULES = ("math.", "time.", "json.", "logging.")
STRINGS = frozenset({"decode", "encode", "lower", "upper", "strip", "split", "tolist", "item"})
QUIET = STRINGS | {
    *("append", "extend", "insert", "add", "get", "setdefault", "update", "index", "count"),
    *("join", "format", "startswith", "endswith", "info", "debug", "warning", "error"),
    *("as_numpy", "inputs", "name", "items", "keys", "values"),
    *("add_array", "block", "full", "joined"),  # of the buffer of columns that we add
}
METHODS = {"astype": 1, "tolist": 0, "min": 1, "max": 1, "any": 1, "all": 1}


def is_quiet(call: cst.Call, positional: int) -> bool:
    """Return whether nothing is handed in beyond so many arguments, nor what is to be written."""
    if any(a.star or (a.keyword and a.keyword.value in {"out", "copy"}) for a in call.args):
        return False
    return sum(a.keyword is None for a in call.args) <= positional
