"""Which attribute of the model holds vocabularies that the file only ever calls `get` of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from layers.features.codemods.vocabulary.steady import is_steady
from layers.features.source import Source

_TEMPORARY = (cst.Call, cst.Dict, cst.DictComp)  # nobody else holds what these make


@dataclass(frozen=True, slots=True)
class OwnVocabulary:
    """`self.x = made`: a dict, or a dict of dicts where `nested`."""

    made: cst.BaseExpression
    nested: bool


def own_vocabulary(source: Source, node: cst.BaseExpression) -> OwnVocabulary | None:
    """Return the vocabulary that `node` (the `d` of `d.get`) is or is taken from, None if unsure.

    Every use of the attribute in the file must be `self.x.get(...)`, or each `self.x[...].get(...)`
    with the dict under a name of its own at most.
    """
    attribute = _attribute(source, node)
    if attribute is None or not is_steady(source, attribute) or _is_looked_into(source, attribute):
        return None
    uses = [n for n in source.all(cst.Attribute) if n.attr.value == attribute.attr.value]
    stores = [use for use in uses if isinstance(source.parent(use), cst.AssignTarget)]
    assign = source.parent(source.parent(stores[0]) or node) if len(stores) == 1 else None
    if not isinstance(assign, cst.Assign) or not isinstance(assign.value, _TEMPORARY):
        return None
    loads = [use for use in uses if use is not stores[0]]
    if len(assign.targets) == 1 and loads:
        if all(_is_got(source, use) for use in loads):
            return OwnVocabulary(assign.value, nested=False)
        if all(_is_got_from_inside(source, use) for use in loads):
            return OwnVocabulary(assign.value, nested=True)
    return None


def _attribute(source: Source, node: cst.BaseExpression) -> cst.Attribute | None:
    """Return `self.x` of `self.x`, `self.x[...]` and a name that is bound to these once."""
    if isinstance(node, cst.Name):
        bound = source.assignments(node) or []
        target = source.parent(bound[0].node) if len(bound) == 1 else None
        assign = source.parent(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(assign, cst.Assign) or not isinstance(assign.value, cst.Subscript):
            return None
        node = assign.value
    if isinstance(node, cst.Subscript):
        node = node.value
    return node if isinstance(node, cst.Attribute) else None


def _is_got(source: Source, node: cst.CSTNode) -> bool:
    """Return whether `node` is the `d` of a call `d.get(...)`."""
    method = source.parent(node)
    if not isinstance(method, cst.Attribute) or method.value is not node:
        return False
    call = source.parent(method)
    return method.attr.value == "get" and isinstance(call, cst.Call) and call.func is method


def _is_got_from_inside(source: Source, node: cst.CSTNode) -> bool:
    """Return whether `node` is the `x` of `x[...].get(...)` or of `name = x[...]; name.get(...)`."""
    item = source.parent(node)
    if not isinstance(item, cst.Subscript) or item.value is not node:
        return False
    assign = source.parent(item)
    if not isinstance(assign, cst.Assign):
        return _is_got(source, item)
    target = assign.targets[0].target
    if len(assign.targets) != 1 or not isinstance(target, cst.Name):
        return False
    if source.function_of(target) is None:
        return False
    uses: Sequence[cst.CSTNode] = [
        use.node for bound in source.assignments(target) or [] for use in bound.references
    ]
    return all(_is_got(source, use) for use in uses)


def _is_looked_into(source: Source, attribute: cst.Attribute) -> bool:
    """Return whether the object may be read other than by its attributes' names."""
    if "__dict__" in source.identifiers:
        return True
    function = source.function_of(attribute)
    owner = source.class_of(function) if function else None
    for method in owner.body.body if owner else ():
        if not isinstance(method, cst.FunctionDef) or not method.params.params:
            continue
        first = method.params.params[0]
        for name in source.all(cst.Name):
            bound = source.assignments(name) or [] if name.value == first.name.value else []
            own = len(bound) == 1 and bound[0].node is first and name is not first.name
            if own and not isinstance(source.parent(name), cst.Attribute):
                return True
    return False
