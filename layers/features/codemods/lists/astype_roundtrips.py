"""Codemod `astype_roundtrips`: arrays of lists of an array's elements, made without the list.

Matches `np.array(x.tolist())`, `np.array(list(x))`, `np.array([float(v) for v in x])` (float, int
or the element itself), with or without a dtype, and conversions that are done twice:
`x.astype(D).astype(D)`, `np.array(x.astype(D))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import libcst as cst

from layers.features.arrays import calls, is_array, numpy_name
from layers.features.codemod import Codemod, File, Rewrite, share_of_lines
from layers.features.codemods.lists.roundtrip_helper import helper_code
from layers.features.editing import Edits, add_helper, as_argument
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_MAKERS = ("numpy.array", "numpy.asarray")
_UNSURE = "the elements may be of something else than an array"


class UnsafeError(Exception):
    """The round trip cannot be replaced; the text says why."""


@dataclass(frozen=True, eq=False)
class _Trip:
    """One round trip: `way` is "" where the outer call is simply one too many."""

    node: cst.Call
    values: cst.BaseExpression  # the array; the inner call where the outer one is dropped
    way: str
    dtype: str | None = None


def analyse(source: Source, file: File) -> Rewrite:
    """Return the round trips that can be replaced, and those that are left."""
    found: list[Found] = []
    trips: list[_Trip] = []
    numpy = numpy_name(source)
    for call in source.all(cst.Call) if numpy else ():
        try:
            trip = _converted_twice(source, call) or _trip(source, call)
        except UnsafeError as reason:
            found.append(Refusal(str(reason), source.line(call)))
            continue
        if trip is not None and not any(source.inside(call, other.node) for other in trips):
            trips.append(trip)
            lines = list(source.lines(call))
            what = f"round trip by {trip.way}" if trip.way else "conversion done twice"
            found.append(Site(file.path, lines[0], lines, what))
    return Rewrite(found, partial(_edit, source, trips, numpy) if trips and numpy else None)


def _converted_twice(source: Source, call: cst.Call) -> _Trip | None:
    """Read `x.astype(D).astype(D)` and `np.array(x.astype(D))`."""
    inner = None
    if calls(source, call, "numpy.array") and len(call.args) == 1:
        inner = call.args[0].value if _is_plain(call.args[0]) else None
    elif _is_astype(call):
        inner = cst.ensure_type(call.func, cst.Attribute).value
        same = isinstance(inner, cst.Call) and _is_astype(inner)
        if not same or not call.args[0].deep_equals(cst.ensure_type(inner, cst.Call).args[0]):
            return None
    if not (isinstance(inner, cst.Call) and _is_astype(inner)):
        return None
    deeper = _converted_twice(source, inner)
    if deeper is not None:
        return _Trip(call, deeper.values, "")
    if not is_array(source, inner):
        raise UnsafeError(_UNSURE)
    return _Trip(call, inner, "")


def _is_astype(call: cst.Call) -> bool:
    """Return whether it is `x.astype(D)` with D a name, without further arguments."""
    method = isinstance(call.func, cst.Attribute) and call.func.attr.value == "astype"
    if not method or len(call.args) != 1 or not _is_plain(call.args[0]):
        return False
    return isinstance(call.args[0].value, cst.Attribute | cst.Name | cst.SimpleString)


def _is_plain(argument: cst.Arg) -> bool:
    return not argument.star and argument.keyword is None


def _trip(source: Source, call: cst.Call) -> _Trip | None:
    """Read `np.array(<list of the elements>)` with or without a dtype."""
    if not calls(source, call, *_MAKERS) or not call.args or not _is_plain(call.args[0]):
        return None
    listed = _listed(source, call.args[0].value)
    if listed is None:
        return None
    values, way = listed
    if _is_helper(source, call):
        return None
    if source.function_of(call) is None:
        raise UnsafeError("the round trip is not in a function")
    if way != "tolist" and not is_array(source, values):
        raise UnsafeError(_UNSURE)
    if any(isinstance(node, cst.Await | cst.Yield | cst.NamedExpr) for node in _within(values)):
        raise UnsafeError("the array is read in an expression that does more")
    return _Trip(call, values, way, _dtype(source, call))


def _is_helper(source: Source, call: cst.Call) -> bool:
    """Return whether the call is what a rewritten place still names as the original."""
    parent = source.parent(call)
    return isinstance(parent, cst.Lambda) and [p.name.value for p in parent.params.params] == [
        "values"
    ]


def _within(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _within(child)


def _dtype(source: Source, call: cst.Call) -> str | None:
    """Return the dtype as code; raises UnsafeError for anything else that is passed."""
    if len(call.args) == 1:
        return None
    second = call.args[1]
    named = second.keyword is None or second.keyword.value == "dtype"
    constant = isinstance(second.value, cst.Name | cst.Attribute | cst.SimpleString)
    code = source.module.code_for_node(second.value)
    if len(call.args) > 2 or second.star or not named or not constant:
        raise UnsafeError("more than a dtype is passed")
    if code.partition(".")[0] == "values":
        raise UnsafeError("the dtype is of a name that the new code uses")
    return code


def _listed(source: Source, node: cst.BaseExpression) -> tuple[cst.BaseExpression, str] | None:
    """Return the array and the way its elements are listed."""
    if isinstance(node, cst.ListComp):
        return _comprehension(source, node)
    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "tolist":
        return (node.func.value, "tolist") if not node.args else None
    if calls(source, node, "builtins.list") and len(node.args) == 1 and _is_plain(node.args[0]):
        return node.args[0].value, "elements"
    return None


def _comprehension(source: Source, node: cst.ListComp) -> tuple[cst.BaseExpression, str] | None:
    """Read `[float(v) for v in x]`, `[int(v) for v in x]` and `[v for v in x]`."""
    loop, element, way = node.for_in, node.elt, "elements"
    if loop.ifs or loop.inner_for_in or loop.asynchronous or not isinstance(loop.target, cst.Name):
        return None
    if isinstance(element, cst.Call) and len(element.args) == 1 and _is_plain(element.args[0]):
        known = (n for n in ("float", "int") if calls(source, element, f"builtins.{n}"))
        way, element = next(known, ""), element.args[0].value
    same = isinstance(element, cst.Name) and element.value == loop.target.value
    return (loop.iter, way) if same and way else None


def _edit(source: Source, trips: list[_Trip], numpy: str) -> cst.Module:
    edits = Edits()
    helper = source.unused("_array_of", "_as_array", "_array_of")
    for trip in trips:
        edits.change(trip.node, partial(_replaced, source, trip, helper))
    module = source.module.visit(edits)
    needed = any(trip.way for trip in trips)
    return add_helper(module, helper_code(helper, numpy)) if needed else module


def _replaced(source: Source, trip: _Trip, helper: str, node: cst.CSTNode) -> cst.CSTNode:
    del node
    kept = {"lpar": trip.node.lpar, "rpar": trip.node.rpar}  # a keyword may touch them
    if not trip.way:
        return trip.values if trip.values.lpar else trip.values.with_changes(**kept)
    code = source.module.code_for_node
    replaced = trip.node.deep_replace(trip.values, cst.Name("values"))
    original = code(cst.ensure_type(replaced, cst.Call))
    dtype = "" if trip.dtype is None else f", {trip.dtype}"
    values = code(as_argument(trip.values))
    call = f'{helper}({values}, "{trip.way}", lambda values: {original}{dtype})'
    return cst.parse_expression(call).with_changes(**kept)


CODEMOD = Codemod(
    name="astype_roundtrips",
    words=("tolist", "list(", "for", "astype"),
    analyse=analyse,
    share=share_of_lines,
    explanation="An array was turned into a list of Python numbers only to be made an array again. "
    "A function in the file now converts it in one step where the result is the same bit for bit, "
    "by a table of the types, and goes the old way for everything else: objects, empty arrays, "
    "conversions that may round twice or raise.",
)
