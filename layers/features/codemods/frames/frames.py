"""What the rewrites of pandas code share: where a name is used, and how."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from layers.features.source import Source

NO_PANDAS = "the file does not import pandas under one name at its top"
ONCE = "this runs once, when the model is loaded"


def mentions(source: Source, name: str, container: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield what stands for a variable called `name` in `container`, its bindings included.

    Scopes are not told apart, so a nested function's own variable of that name counts too.
    """
    for node in source.all(cst.Name):
        if node.value != name or not source.inside(node, container):
            continue
        parent = source.parent(node)
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        yield node


def is_stored(source: Source, node: cst.CSTNode) -> bool:
    """Return whether `node` is assigned to, deleted, or bound by a loop or `with`."""
    parent = source.parent(node)
    if isinstance(parent, cst.CompFor | cst.For | cst.AnnAssign | cst.AugAssign):
        return parent.target is node
    if isinstance(parent, cst.AssignTarget | cst.Del | cst.AsName):
        return True
    if isinstance(parent, cst.NamedExpr):
        return parent.target is node
    if isinstance(parent, cst.Element | cst.StarredElement):
        container = source.parent(parent)
        return container is not None and is_stored(source, container)
    return False


def constant_key(node: cst.Subscript) -> str | None:
    """Return the text of `x["text"]`, None for every other index."""
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return None
    index = node.slice[0].slice
    if index.star or not isinstance(index.value, cst.SimpleString):
        return None
    key = index.value.evaluated_value
    return key if isinstance(key, str) else None
