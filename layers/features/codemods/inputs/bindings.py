"""Which request a name stands for, and where a statement about it may go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from layers.features.source import Place, Source

_OUTSIDE = "the request comes from outside this function's own names"


@dataclass(eq=False)
class Request:
    """One name that holds one request at a time, and the block in which it does."""

    name: str
    owner: cst.CSTNode  # the function whose parameter it is, the loop, or the assignment
    block: cst.IndentedBlock
    first: int  # index of the first statement of the block that knows the name
    uses: list[Use] = field(default_factory=list)
    handed_in: bool = False  # a caller hands the dict in
    active: bool = False


@dataclass(eq=False)
class Use:
    """A look-up in the request, or a call that hands the request to a helper that does so."""

    call: cst.Call
    key: cst.BaseExpression | None  # the name that is looked up; None for a call of a helper
    helper: Request | None
    places: Sequence[Place]
    repeated: bool
    deferred: bool


class UnsafeError(Exception):
    """The look-up cannot be rewritten; the text says why."""


def resolve(source: Source, expression: cst.BaseExpression) -> Request:
    """Return the request that a name stands for; raises UnsafeError when that is not certain."""
    if not isinstance(expression, cst.Name):
        raise UnsafeError("the request is an expression, not a name")
    bound = source.assignments(expression)
    if not bound:
        raise UnsafeError(_OUTSIDE)
    loops = [_loop_of(source, item.node) for item in bound]
    inside = [loop for loop in loops if loop and source.inside(expression, loop.body)]
    if inside and all(loops):
        innermost = inside[-1]
        if len(inside) > 1 or any(
            loop is not innermost and loop and source.inside(loop, innermost) for loop in loops
        ):
            raise UnsafeError("the name of the request is bound again inside the loop")
        return Request(expression.value, innermost, _block(innermost), 0)
    if len(bound) > 1:
        raise UnsafeError("the name of the request is bound more than once")
    return _single(source, expression, bound[0].node)


def _single(source: Source, name: cst.Name, node: cst.CSTNode) -> Request:
    """Return the request that one parameter or one assignment binds."""
    parent = source.parent(node)
    if isinstance(parent, cst.CompFor):
        raise UnsafeError("the request is the variable of a comprehension")
    function = source.parent(parent) if parent else None
    if isinstance(node, cst.Param) and isinstance(function, cst.FunctionDef):
        block = _block(function)
        return Request(
            name.value, function, block, 1 if function.get_docstring() is not None else 0
        )
    statement = source.parent(function) if function else None
    if not (isinstance(function, cst.Assign) and isinstance(statement, cst.SimpleStatementLine)):
        raise UnsafeError(_OUTSIDE)
    home = source.parent(statement)
    if not isinstance(home, cst.IndentedBlock) or source.function_of(name) is None:
        raise UnsafeError(_OUTSIDE)
    after = list(home.body).index(statement) + 1
    if not any(source.inside(name, later) for later in home.body[after:]):
        raise UnsafeError("the request is used outside the block that binds it")
    return Request(name.value, statement, home, after)


def _loop_of(source: Source, node: cst.CSTNode) -> cst.For | None:
    """Return the loop whose target (or part of it) `node` is."""
    child = node
    for parent in source.ancestors(node):
        if isinstance(parent, cst.For):
            return parent if child is parent.target else None
        if not isinstance(parent, cst.Tuple | cst.List | cst.Element):
            return None
        child = parent
    return None


def _block(owner: cst.For | cst.FunctionDef) -> cst.IndentedBlock:
    if not isinstance(owner.body, cst.IndentedBlock):
        raise UnsafeError("the body stands on the same line")
    return owner.body
