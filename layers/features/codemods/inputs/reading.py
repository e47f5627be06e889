"""Whether an array is only read: everything that is done with it makes something new."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from layers.features.codemods.inputs.functions import (
    METHODS,
    PLAIN,
    READING,
    UnsafeError,
    is_quiet,
)
from layers.features.source import Source

_FACTS = {"shape", "size", "dtype", "ndim"}
_LATER = (cst.FunctionDef, cst.Lambda, cst.GeneratorExp)
_PAUSES = (cst.Yield, cst.Await)


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
    method = attribute.attr.value
    known = isinstance(call, cst.Call) and call.func is attribute and method in METHODS
    if not known:
        raise UnsafeError(f"the copy is used by {method!r}, which may keep or write it")
    _check_arguments(cst.ensure_type(call, cst.Call), METHODS[method])


def _check_argument(source: Source, argument: cst.Arg) -> None:
    call = source.parent(argument)
    function = call.func if isinstance(call, cst.Call) else None
    names = source.qualified(function) if isinstance(function, cst.Name | cst.Attribute) else set()
    known = len(names) == 1 and names <= READING.keys() | PLAIN
    if not known or argument.star or argument.keyword:
        raise UnsafeError("the copy is handed to a function that may keep or write it")
    _check_arguments(cst.ensure_type(call, cst.Call), READING.get(next(iter(names)), 1))


def _check_arguments(call: cst.Call, positional: int) -> None:
    if not is_quiet(call, positional):
        raise UnsafeError("the result is written into an array that exists")


def _check_name(source: Source, assign: cst.Assign) -> None:
    """Follow the one name that the copy is assigned to."""
    target = assign.targets[0].target
    if len(assign.targets) != 1 or not isinstance(target, cst.Name):
        raise UnsafeError("the copy is kept in an attribute or a container")
    bound = source.assignments(target)
    if bound is None or len(bound) != 1 or source.function_of(assign) is None:
        raise UnsafeError("the name of the copy is bound more than once, or elsewhere")
    if any(isinstance(node, _PAUSES) for node in _within(source.function_of(assign))):
        raise UnsafeError("the function pauses, and what is sent meanwhile is not known")
    for reference in bound[0].references:
        if reference.node is not target:
            _check_time(source, reference.node, assign)
            check_only_read(source, cst.ensure_type(reference.node, cst.Name))


def _check_time(source: Source, node: cst.CSTNode, assign: cst.Assign) -> None:
    """Raise UnsafeError where the name may be read after the function has returned."""
    for parent in source.ancestors(node):
        if parent is source.function_of(assign):
            return
        if isinstance(parent, _LATER):
            break
    raise UnsafeError("a function of its own reads the copy, maybe later")


def _within(node: cst.CSTNode | None) -> Iterator[cst.CSTNode]:
    for child in node.children if node else ():
        yield child
        yield from _within(child)
