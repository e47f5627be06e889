"""Whether a statement does no more with a column than collect it.

Columns are read ahead of the statements that collect them, so nothing in such a statement may
change what is read, nor be there to notice that the column was computed earlier.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from layers.features.arrays import followed
from layers.features.codemods.columns.called import called
from layers.features.codemods.columns.elementwise import Chain
from layers.features.codemods.columns.reads import UnsafeError
from layers.features.source import Source

_PLAIN = (
    *(cst.Name, cst.Attribute, cst.Integer, cst.Float, cst.SimpleString, cst.Arg, cst.Dot),
    *(cst.Comma, cst.AssignEqual, cst.BaseParenthesizableWhitespace, cst.Tuple, cst.Element),
    *(cst.LeftParen, cst.RightParen, cst.UnaryOperation, cst.Minus),
    *(cst.TrailingWhitespace, cst.EmptyLine, cst.Newline, cst.Comment),
)
_AROUND = (
    *(cst.Expr, cst.Call, cst.Arg, cst.Attribute, cst.Tuple, cst.List, cst.Element),
    *(cst.Subscript, cst.SubscriptElement, cst.Index),
)
_INDEX = (cst.SubscriptElement, cst.Slice, cst.Index, cst.Colon, cst.LeftSquareBracket)
_BRACKETS = (cst.LeftSquareBracket, cst.RightSquareBracket)
_COLLECTS = {"append", "add", "add_array", "block", "full"}
_SHAPES = {"reshape", "ravel", "flatten", "astype", "copy", "tolist"}


class Collection:
    """One statement (or the element of a comprehension) that holds a chain."""

    def __init__(self, source: Source, body: cst.CSTNode, chain: Chain) -> None:
        self._source = source
        self._body = body
        self._chain = chain
        self._path = {chain.node, *source.ancestors(chain.node)}

    def check(self) -> None:
        """Raise UnsafeError unless all that the statement does is to collect the column."""
        body = self._body
        if isinstance(body, cst.Assign):
            target = body.targets[0].target
            if len(body.targets) != 1 or not isinstance(target, cst.Subscript):
                raise UnsafeError("the loop keeps only its last column, or assigns to several")
            self._check_own(target.value)
            body = body.value
        elif isinstance(body, cst.BaseSmallStatement) and not isinstance(body, cst.Expr):
            raise UnsafeError("the loop does more than collect columns")
        pending = [body]
        while pending:
            node = pending.pop()
            if node is self._chain.node:
                continue
            self._check_node(node)
            pending += node.children

    def _check_node(self, node: cst.CSTNode) -> None:
        if node not in self._path:
            if not isinstance(node, (*_PLAIN, *_INDEX, *_BRACKETS)):
                raise UnsafeError(
                    "another part of the statement is computed before or after the column"
                )
        elif not isinstance(node, _AROUND):
            raise UnsafeError("the column is computed only sometimes, or later than it stands")
        elif isinstance(node, cst.Call):
            self._check_call(node)

    def _check_call(self, call: cst.Call) -> None:
        """Raise UnsafeError unless what is called leaves alone all that columns are read from."""
        function = call.func
        if isinstance(function, cst.Attribute) and function.attr.value in _COLLECTS:
            self._check_own(function.value)
            return
        method = isinstance(function, cst.Attribute) and function.value in self._path
        if method and cst.ensure_type(function, cst.Attribute).attr.value in _SHAPES:
            return
        out = any(argument.keyword and argument.keyword.value == "out" for argument in call.args)
        if self._is_numpy(call) and not out:
            return
        found = called(self._source, call)
        if found is None or not self._is_harmless(found[0]):
            text = "a call around the column may change what other columns are read from"
            raise UnsafeError(text)

    def _check_own(self, node: cst.BaseExpression) -> None:
        """Raise UnsafeError unless it is a list, dict or helper object made in this function."""
        values = _values(self._source, node) if isinstance(node, cst.Name) else []
        if not values or not all(self._is_made_here(value) for value in values):
            raise UnsafeError("what collects the columns is not a list or dict of this function")
        if any(self._is_read(cst.ensure_type(node, cst.Name), value) for value in values):
            raise UnsafeError("columns may be read from what collects them")

    def _is_read(self, name: cst.Name, value: cst.BaseExpression) -> bool:
        """Return whether the leaf may see what is collected: by name, as `x = y = []`, inside."""
        assign = self._source.parent(value)
        if isinstance(assign, cst.Assign) and len(assign.targets) > 1:
            return True
        for node in _within(self._chain.leaf):
            known = followed(self._source, node) if isinstance(node, cst.Name) else None
            if known is value or (isinstance(node, cst.Name) and node.value == name.value):
                return True
            if isinstance(known, cst.Name) and known.value == name.value:
                return True
        function = self._source.function_of(self._body)
        for reference in (self._source.assignments(name) or [])[0].references:
            if self._source.function_of(reference.node) is not function:
                return True
        return False

    def _is_made_here(self, value: cst.BaseExpression) -> bool:
        if isinstance(value, cst.List | cst.Dict):
            return True
        if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Name):
            return False
        if self._source.qualified(value.func) & {"builtins.list", "builtins.dict"}:
            return True
        bound = self._source.assignments(value.func) or []
        return len(bound) == 1 and isinstance(bound[0].node, cst.ClassDef)

    def _is_harmless(self, function: cst.FunctionDef) -> bool:
        """Return whether a function of the file writes only into arrays of its own."""
        own = {target.value for target in _targets(function) if isinstance(target, cst.Name)}
        own -= {parameter.name.value for parameter in function.params.params}
        for target in _targets(function):
            base = target.value if isinstance(target, cst.Subscript) else target
            if not isinstance(base, cst.Name) or base.value not in own:
                return False
        return all(self._is_quiet(node) for node in _within(function.body))

    def _is_quiet(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Global | cst.Nonlocal | cst.AugAssign | cst.Del | cst.Yield):
            return False
        if not isinstance(node, cst.Call):
            return True
        shaping = isinstance(node.func, cst.Attribute) and node.func.attr.value in _SHAPES
        return shaping or self._is_numpy(node)

    def _is_numpy(self, call: cst.Call) -> bool:
        if not isinstance(call.func, cst.Name | cst.Attribute):
            return False
        names = self._source.qualified(call.func)
        return bool(names) and all(name.startswith("numpy.") for name in names)


def _values(source: Source, name: cst.Name) -> list[cst.BaseExpression]:
    """Return all that plain assignments bind a name to; empty where something else binds it."""
    found: list[cst.BaseExpression] = []
    for item in source.assignments(name) or ():
        target = source.parent(item.node)
        assign = source.parent(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(assign, cst.Assign):
            return []
        found.append(assign.value)
    return found


def _targets(function: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    for node in _within(function.body):
        if isinstance(node, cst.AssignTarget):
            yield node.target


def _within(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _within(child)
