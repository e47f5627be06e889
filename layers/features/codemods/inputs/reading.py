"""Whether an array is only read: everything that is done with it makes something new."""

from __future__ import annotations

import libcst as cst

from layers.features.arrays import calls, followed, input_name
from layers.features.source import Source

_FUNCTIONS = tuple(
    f"numpy.{name}"
    for name in (
        *("log1p", "log", "exp", "expm1", "sqrt", "abs", "absolute", "floor", "ceil", "sign"),
        *("isnan", "isinf", "isfinite", "maximum", "minimum", "clip", "where", "nan_to_num"),
        *("any", "all", "min", "max", "amin", "amax"),
        *("concatenate", "stack", "hstack", "vstack", "column_stack"),
    )
)
_BUILTINS = ("builtins.len", "builtins.float", "builtins.int", "builtins.bool")
_METHODS = {"astype", "tolist", "min", "max", "any", "all"}
_FACTS = {"shape", "size", "dtype", "ndim"}
_WRITERS = {"fill", "sort", "resize", "put", "partition", "itemset", "setflags", "byteswap"}
_SETUP = {"initialize", "__init__", "finalize"}
_OWN = ("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like")
_FRESH = tuple(f"numpy.{name}" for name in _OWN)


class UnsafeError(Exception):
    """The array may be written, kept or handed on; the text says where."""


def check_only_read(source: Source, node: cst.BaseExpression) -> None:
    """Raise UnsafeError unless everything that happens to `node` makes something new of it."""
    parent = source.parent(node)
    if isinstance(parent, cst.BinaryOperation):
        if isinstance(parent.operator, cst.MatrixMultiply):
            raise UnsafeError("a matrix product may depend on where the array lies in memory")
        return
    if isinstance(parent, cst.ComparisonTarget | cst.Comparison):
        return
    if isinstance(parent, cst.Attribute) and parent.value is node:
        _check_attribute(source, parent)
    elif isinstance(parent, cst.Subscript) and parent.value is node:
        check_only_read(source, parent)
    elif isinstance(parent, cst.Arg):
        _check_argument(source, parent)
    elif isinstance(parent, cst.Element):
        owner = source.parent(parent)
        if not isinstance(owner, cst.List | cst.Tuple):
            raise UnsafeError("the copy is kept in a set")
        check_only_read(source, owner)
    elif isinstance(parent, cst.Assign):
        _check_name(source, parent)
    else:
        raise UnsafeError("the copy is returned, iterated over or handed on")


def _check_attribute(source: Source, attribute: cst.Attribute) -> None:
    if attribute.attr.value in _FACTS:
        return
    call = source.parent(attribute)
    method = isinstance(call, cst.Call) and call.func is attribute
    if not method or attribute.attr.value not in _METHODS:
        raise UnsafeError(
            f"the copy is used by {attribute.attr.value!r}, which may keep or write it"
        )
    _check_keywords(cst.ensure_type(call, cst.Call))


def _check_argument(source: Source, argument: cst.Arg) -> None:
    call = source.parent(argument)
    known = isinstance(call, cst.Call) and calls(source, call, *_FUNCTIONS, *_BUILTINS)
    if not known or argument.star or argument.keyword:
        raise UnsafeError("the copy is handed to a function that may keep or write it")
    _check_keywords(cst.ensure_type(call, cst.Call))


def _check_keywords(call: cst.Call) -> None:
    if any(a.star or (a.keyword and a.keyword.value in {"out", "copy"}) for a in call.args):
        raise UnsafeError("the result is written into an array that exists")


def _check_name(source: Source, assign: cst.Assign) -> None:
    """Follow the one name that the copy is assigned to."""
    target = assign.targets[0].target
    if len(assign.targets) != 1 or not isinstance(target, cst.Name):
        raise UnsafeError("the copy is kept in an attribute or a container")
    bound = source.assignments(target)
    if bound is None or len(bound) != 1 or source.function_of(assign) is None:
        raise UnsafeError("the name of the copy is bound more than once, or elsewhere")
    for reference in bound[0].references:
        if reference.node is not target:
            check_only_read(source, cst.ensure_type(reference.node, cst.Name))


def check_writes(source: Source) -> None:
    """Raise UnsafeError where anything in the file that may be an input is written in place."""
    for node in source.nodes:
        base = _written(node)
        if base is not None and not _is_own(source, base) and not _in_setup(source, node):
            line = source.line(node)
            raise UnsafeError(f"line {line} writes into what may be an input")


def _written(node: cst.CSTNode) -> cst.CSTNode | None:
    """Return what a node writes into in place."""
    if isinstance(node, cst.AugAssign):
        return node.target
    if isinstance(node, cst.AssignTarget):
        return node.target if isinstance(node.target, cst.Subscript) else None
    if isinstance(node, cst.Attribute):
        return node.value if node.attr.value in _WRITERS else None
    named = isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "out"
    return node.value if isinstance(node, cst.Arg) and named else None


def _in_setup(source: Source, node: cst.CSTNode) -> bool:
    function = source.function_of(node)
    return function is None or function.name.value in _SETUP


def _is_own(source: Source, node: cst.CSTNode) -> bool:
    """Return whether what is written is certain to have been made in this file, or no array."""
    while isinstance(node, cst.Subscript):
        node = node.value
    if not isinstance(node, cst.Name) or input_name(source, node) is not None:
        return False
    values = [source.parent(item.node) for item in source.assignments(node) or ()]
    made = [_value(source, value) for value in values if not isinstance(value, cst.AugAssign)]
    return bool(made) and all(value is not None and _is_fresh(source, value) for value in made)


def _value(source: Source, target: cst.CSTNode | None) -> cst.BaseExpression | None:
    assign = source.parent(target) if isinstance(target, cst.AssignTarget) else None
    return assign.value if isinstance(assign, cst.Assign) else None


def _is_fresh(source: Source, node: cst.BaseExpression) -> bool:
    node = followed(source, node)
    literal = (cst.List, cst.Dict, cst.ListComp, cst.DictComp, cst.BaseNumber, cst.SimpleString)
    return isinstance(node, literal) or calls(source, node, *_FRESH) is not None
