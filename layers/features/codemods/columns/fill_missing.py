"""Codemod `fill_missing`: np.nan_to_num without its six passes where one shows all is finite.

Matches `np.nan_to_num(x)` and `np.nan_to_num(x.astype(D))` with literal fill values. What
np.where(np.isnan(x), d, x) does takes two passes already and is left alone.
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from layers.features.arrays import numpy_name
from layers.features.codemod import Codemod, File, Rewrite, share_of_calls
from layers.features.codemods.columns.fill_helper import helper_code, is_fill_helper
from layers.features.editing import Change, Edits, add_helper
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_FUNCTION = "numpy.nan_to_num"
_VALUES = {"nan", "posinf", "neginf"}
_LARGEST = 1e30  # fill values that are finite in every float type that is handled


class UnsafeError(Exception):
    """The call cannot be replaced; the text says why."""


def analyse(source: Source, file: File) -> Rewrite:
    """Return the calls of nan_to_num that can be replaced, and those that are left."""
    found: list[Found] = []
    calls: list[cst.Call] = []
    numpy = numpy_name(source)
    for call in source.all(cst.Call):
        if not isinstance(call.func, cst.Attribute | cst.Name):
            continue
        if source.qualified(call.func) != {_FUNCTION} or _in_helper(source, call):
            continue
        try:
            _check(call, numpy)
        except UnsafeError as reason:
            found.append(Refusal(str(reason), source.line(call)))
            continue
        calls.append(call)
        lines = list(source.lines(call))
        found.append(Site(file.path, lines[0], lines, "nan_to_num of a column"))
    return Rewrite(found, partial(_edit, source, calls, numpy) if calls and numpy else None)


def _in_helper(source: Source, call: cst.Call) -> bool:
    function = source.function_of(call)
    return function is not None and is_fill_helper(function)


def _check(call: cst.Call, numpy: str | None) -> None:
    module = call.func.value if isinstance(call.func, cst.Attribute) else None
    if not isinstance(module, cst.Name) or module.value != numpy:
        raise UnsafeError("nan_to_num is not called through the module")
    if not call.args or call.args[0].keyword or any(argument.star for argument in call.args):
        raise UnsafeError("the array is not the first argument")
    rest = {argument.keyword.value if argument.keyword else "" for argument in call.args[1:]}
    if not rest <= _VALUES:
        raise UnsafeError("it may fill the array in place (copy), or values have no keyword")
    if not all(_is_literal(argument.value) for argument in call.args[1:]):
        raise UnsafeError("a fill value is not a plain number")


def _is_literal(node: cst.BaseExpression) -> bool:
    """Return whether it is a number that is finite as any float, or None."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        node = node.expression
    elif isinstance(node, cst.Name):
        return node.value == "None"
    if isinstance(node, cst.Integer | cst.Float):
        return float(node.evaluated_value) < _LARGEST
    return False


def _edit(source: Source, calls: list[cst.Call], numpy: str) -> cst.Module:
    edits = Edits()
    name = source.unused("_nan_to_num", "_fill_missing", "_nan_to_num")
    for call in calls:
        edits.change(call, _replaced(name, converted=_is_converted(source, call.args[0].value)))
    return add_helper(source.module.visit(edits), helper_code(name, numpy))


def _replaced(name: str, *, converted: bool) -> Change:
    """Return the change of `np.nan_to_num(x.astype(D), ...)` into `name(x, D, ...)`."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        if not converted:
            return call.with_changes(func=cst.Name(name))
        first, *rest = call.args
        inner = cst.ensure_type(first.value, cst.Call)
        values = cst.ensure_type(inner.func, cst.Attribute).value
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        leading = [first.with_changes(value=values, comma=comma)]
        leading += [first.with_changes(value=inner.args[0].value)]
        return call.with_changes(func=cst.Name(name), args=[*leading, *rest])

    return change


def _is_converted(source: Source, node: cst.BaseExpression) -> bool:
    """Return whether it is `x.astype(D)` where D is a type of NumPy's."""
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
        return False
    if node.func.attr.value != "astype" or len(node.args) != 1 or node.lpar:
        return False
    argument = node.args[0]
    if argument.star or argument.keyword or not isinstance(argument.value, cst.Attribute):
        return False
    return bool(source.qualified(argument.value) & {"numpy.float32", "numpy.float64"})


CODEMOD = Codemod(
    name="fill_missing",
    words=("nan_to_num",),
    analyse=analyse,
    share=share_of_calls,
    explanation="nan_to_num looks at each column six times and copies it once more, also where all "
    "is finite. A function in the file now looks once: a column that is finite is returned as the "
    "copy that it was, and where one value stands for all that is not finite it is filled in one "
    "step. All other cases go through nan_to_num as before.",
)
