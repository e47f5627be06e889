"""Whether a request is surely looked into, and how many look-ups one pass over it replaces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import libcst as cst

from layers.features.codemods.inputs.bindings import Request, Use
from layers.features.source import Source

WORTHWHILE = 2
_Path = Sequence[tuple[cst.CSTNode, str]]  # which arm of what, the outermost first
_EXITS = (cst.Return, cst.Raise, cst.Break, cst.Continue, cst.Assert)
_DEFERRED = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
_GUARDS = (cst.Try, cst.TryStar, cst.MatchCase, *_DEFERRED)


def is_served(source: Source, request: Request) -> bool:
    """Return whether the server itself made the request: an element of what `execute` is given."""
    owner = request.owner
    value = owner.iter if isinstance(owner, cst.For) else None
    if isinstance(owner, cst.SimpleStatementLine) and isinstance(owner.body[0], cst.Assign):
        item = owner.body[0].value
        value = item.value if isinstance(item, cst.Subscript) else None
    if isinstance(value, cst.Call) and source.module.code_for_node(value.func) == "enumerate":
        value = value.args[0].value if value.args else None
    bound = source.assignments(value) if isinstance(value, cst.Name) else None
    if not bound or len(bound) != 1 or not isinstance(bound[0].node, cst.Param):
        return False
    function = source.parent(source.parent(bound[0].node) or owner)
    return isinstance(function, cst.FunctionDef) and function.name.value == "execute"


def is_asked(source: Source, request: Request, start: cst.CSTNode) -> bool:
    """Return whether each run that gets to the statement `start` looks into the request.

    Only then does it ask the request for its inputs, and fail where it is none, as it did before.
    """
    block = source.parent(start)
    return isinstance(block, cst.IndentedBlock) and _asks(source, request, block, start, set())


def _asks(
    source: Source,
    request: Request,
    block: cst.IndentedBlock,
    start: cst.CSTNode | None,
    seen: set[Request],
) -> bool:
    """Return whether one of the look-ups runs whenever the block is run, from `start` on."""
    if request in seen:
        return False
    for use in request.uses:
        sure = source.inside(use.call, block) and not _depends(source, use.call, block, start)
        helper = use.helper
        if sure and (helper is None or _asks(source, helper, helper.block, None, seen | {request})):
            return True
    return False


def _depends(
    source: Source, call: cst.Call, top: cst.IndentedBlock, start: cst.CSTNode | None
) -> bool:
    """Return whether it depends on a condition that the call runs; loops count as run."""
    child: cst.CSTNode = call
    for parent in source.ancestors(call):
        if _arm(parent, child):
            return True
        if isinstance(parent, cst.IndentedBlock):
            before = list(parent.body)[: _place(parent, child)]
            before = before[_place(parent, start) :] if start in before else before
            if start is not child and any(_may_leave(statement) for statement in before):
                return True
        if parent is top:
            return False
        child = parent
    return True


def _arm(parent: cst.CSTNode, child: cst.CSTNode) -> str:
    """Say in which part of `parent` that is not always run `child` lies, "" for none."""
    if isinstance(parent, cst.If | cst.IfExp):
        return "body" if child is parent.body else "orelse" if child is parent.orelse else ""
    conditional = (
        isinstance(parent, _GUARDS)
        or (isinstance(parent, cst.BooleanOperation) and child is parent.right)
        or (isinstance(parent, cst.Comparison) and child in parent.comparisons[1:])
        or (isinstance(parent, cst.While | cst.With) and child is parent.body)
        or (isinstance(parent, cst.For) and child is parent.orelse)
        or (isinstance(parent, cst.BaseComp) and any(loop.ifs for loop in _loops(parent.for_in)))
    )
    return "run" if conditional else ""


def _loops(loop: cst.CompFor | None) -> Iterator[cst.CompFor]:
    while loop is not None:
        yield loop
        loop = loop.inner_for_in


def _place(block: cst.IndentedBlock, statement: cst.CSTNode | None) -> int:
    return next((n for n, item in enumerate(block.body) if item is statement), 0)


def _may_leave(node: cst.CSTNode) -> bool:
    """Return whether what follows the statement may be left out."""
    if isinstance(node, _DEFERRED):
        return False
    return isinstance(node, _EXITS) or any(_may_leave(child) for child in node.children)


def weight(source: Source, request: Request, *, least: bool = False) -> int:
    """Return how many look-ups one request sees, counted no further than is worthwhile.

    Of branches that exclude each other that with the most counts; with `least` only what runs
    whatever the conditions are.
    """
    return _weight(source, request, frozenset(), least=least)


def _weight(source: Source, request: Request, seen: frozenset[Request], *, least: bool) -> int:
    if request in seen:
        return WORTHWHILE
    uses = []
    for use in request.uses:
        value = WORTHWHILE if use.repeated else 1
        if use.helper and not use.repeated:
            value = _weight(source, use.helper, seen | {request}, least=least)
        uses.append((_path(source, use, request), value))
    return min(_total(uses, least=least), WORTHWHILE)


def _total(uses: Sequence[tuple[_Path, int]], *, least: bool) -> int:
    total = sum(value for path, value in uses if not path)
    arms: dict[cst.CSTNode, dict[str, list[tuple[_Path, int]]]] = defaultdict(dict)
    for path, value in uses:
        if path:
            node, arm = path[0]
            arms[node].setdefault(arm, []).append((path[1:], value))
    for by_arm in arms.values():
        sums = [_total(inside, least=least) for inside in by_arm.values()]
        total += max(sums) if not least else min(sums) if len(sums) > 1 else 0
    return total


def _path(source: Source, use: Use, request: Request) -> _Path:
    """Return the branches that lead to a look-up, those after a branch that returned included."""
    found: list[tuple[cst.CSTNode, str]] = []
    child: cst.CSTNode = use.call
    for parent in source.ancestors(use.call):
        arm = _arm(parent, child)
        if arm:
            found.append((parent, arm))
        if isinstance(parent, cst.IndentedBlock):
            before = list(parent.body)[: _place(parent, child)][::-1]
            found += [
                (item, "orelse") for item in before if _looks_and_leaves(source, item, request)
            ]
        if parent is request.block:
            break
        child = parent
    return found[::-1]


def _looks_and_leaves(source: Source, node: cst.CSTNode, request: Request) -> bool:
    """Return whether `node` is an `if` that looks into the request and leaves the block then."""
    if not isinstance(node, cst.If) or not isinstance(node.body, cst.IndentedBlock):
        return False
    looks = any(source.inside(use.call, node.body) for use in request.uses)
    last = node.body.body[-1]
    line = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return looks and isinstance(line, _EXITS)
