"""Which expressions are certain neither to be an input's array nor to hold one."""

from __future__ import annotations

import libcst as cst

from layers.features.codemods.inputs.functions import (
    METHODS,
    PLAIN,
    SHARING_NOTHING,
    STRINGS,
    is_quiet,
)
from layers.features.source import Source

_FACTS = {"shape", "size", "dtype", "ndim"}
_LITERALS = (cst.BaseNumber, cst.BaseString, cst.Comparison, cst.UnaryOperation)
_MUTABLE = (cst.List, cst.Dict, cst.ListComp, cst.DictComp, cst.Set, cst.SetComp)
_NEW = (cst.Subtract, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power)  # no list knows these


def holds_nothing(
    source: Source, node: cst.BaseExpression, seen: frozenset[cst.CSTNode] = frozenset()
) -> bool:
    """Return whether writing into `node`, or into anything in it, reaches no input."""
    if isinstance(node, _LITERALS):
        return True
    if isinstance(node, cst.BinaryOperation):
        sides = (node.left, node.right)
        new = isinstance(node.operator, _NEW) or any(isinstance(s, cst.Float) for s in sides)
        return new or all(holds_nothing(source, side, seen) for side in sides)
    if isinstance(node, cst.List | cst.Tuple):
        return all(holds_nothing(source, element.value, seen) for element in node.elements)
    if isinstance(node, cst.Name):
        return _name(source, node, seen)
    fact = isinstance(node, cst.Attribute) and node.attr.value in _FACTS
    imported = isinstance(node, cst.Attribute) and _is_imported(source, node)
    return fact or imported or (isinstance(node, cst.Call) and _call(source, node))


def _name(source: Source, name: cst.Name, seen: frozenset[cst.CSTNode]) -> bool:
    bound = source.assignments(name)
    if bound is None:
        return _is_imported(source, name)
    for item in bound:
        target = source.parent(item.node)
        assign = source.parent(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(assign, cst.Assign) or isinstance(assign.value, _MUTABLE):
            return False
        if assign in seen or not holds_nothing(source, assign.value, seen | {assign}):
            return False
    return True


def _is_imported(source: Source, node: cst.Name | cst.Attribute) -> bool:
    """Return whether it is a builtin or what a module that is imported offers."""
    base: cst.BaseExpression = node
    while isinstance(base, cst.Attribute):
        base = base.value
    if not isinstance(base, cst.Name) or source.assignments(base) is not None:
        return False
    return bool(source.qualified(node))


def _call(source: Source, call: cst.Call) -> bool:
    function = call.func
    names = source.qualified(function) if isinstance(function, cst.Name | cst.Attribute) else set()
    if len(names) == 1 and names <= PLAIN | SHARING_NOTHING.keys():
        return names <= PLAIN or is_quiet(call, SHARING_NOTHING[next(iter(names))])
    if not isinstance(function, cst.Attribute):
        return False
    method = function.attr.value
    return method in STRINGS or (method in METHODS and is_quiet(call, METHODS[method]))
