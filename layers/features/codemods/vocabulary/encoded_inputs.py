"""String inputs as expressions of a file, and the same expressions without reading the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst
from libcst import matchers as m

from layers.features.editing import Change, Edits
from layers.features.source import Source

_AS_NUMPY = m.Call(func=m.Attribute(attr=m.Name("as_numpy")))
_SHAPING = {"reshape": ["-1"], "ravel": [], "flatten": []}


@dataclass(frozen=True, slots=True)
class Encoded:
    """An input where it is read: `read` is `x.as_numpy()`, here or in the function `accessor`.

    With an accessor, `call` is the call of it.
    """

    read: cst.Call
    accessor: cst.FunctionDef | None = None
    call: cst.Call | None = None

    def change(self, edits: Edits, package: str, copies: dict[str, str]) -> None:
        """Plan the edit of the expression; `copies` is what the copy of an accessor is called."""
        if self.accessor is None or self.call is None:
            edits.change(self.read, _unread(package))
        else:
            edits.change(self.call, _renamed(copies[self.accessor.name.value]))


def with_copies(module: cst.Module, package: str, copies: Mapping[str, str]) -> cst.Module:
    """Insert after each accessor of the module a copy under its new name that leaves inputs unread."""
    body: list[cst.BaseStatement | cst.SimpleStatementLine] = []
    for statement in module.body:
        body.append(statement)
        if isinstance(statement, cst.FunctionDef) and statement.name.value in copies:
            changed = m.replace(statement, _AS_NUMPY, lambda node, _: _unread(package)(node))
            copy = cst.ensure_type(changed, cst.FunctionDef).with_changes(
                name=cst.Name(copies[statement.name.value]),
                leading_lines=[cst.EmptyLine(indent=False)] * 2,
            )
            body.append(copy)
    return module.with_changes(body=body)


def encoded_input(source: Source, node: cst.BaseExpression) -> Encoded | None:
    """Return the input that an expression reads as an array; None for anything else.

    Either `x.as_numpy()`, shaped to one dimension or by `[0]`, or a call of a function of the file
    that returns such an expression at its end and reads no other.
    """
    read = _read(node)
    if read is not None:
        return Encoded(read)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name):
        return None
    bound = source.assignments(node.func) or []
    function = bound[0].node if len(bound) == 1 else None
    if not isinstance(function, cst.FunctionDef) or not _is_accessor(source, function):
        return None
    read = _read(_returned(function))
    return Encoded(read, function, node) if read is not None else None


def _read(node: cst.CSTNode | None) -> cst.Call | None:
    """Return the call `x.as_numpy()` in a chain of shaping methods and `[0]`."""
    while node is not None:
        if isinstance(node, cst.Subscript):
            node = node.value if _is_first(node) else None
            continue
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return None
        method, code = node.func.attr.value, [_code(a.value) for a in node.args]
        if method == "as_numpy":
            return node if not node.args else None
        node = node.func.value if _SHAPING.get(method) == code else None
    return None


def _is_first(node: cst.Subscript) -> bool:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    return isinstance(index, cst.Index) and _code(index.value) == "0"


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def _is_accessor(source: Source, function: cst.FunctionDef) -> bool:
    """Return whether the function, of the module itself, reads one input and does so last."""
    plain = not function.decorators and function.asynchronous is None
    top = isinstance(source.parent(function), cst.Module)
    reads = [
        node
        for node in source.all(cst.Attribute)
        if node.attr.value == "as_numpy" and source.inside(node, function)
    ]
    effects = [
        node
        for kind in (cst.Yield, cst.Global, cst.Nonlocal)
        for node in source.all(kind)
        if source.inside(node, function)
    ]
    return plain and top and len(reads) == 1 and not effects and _returned(function) is not None


def _returned(function: cst.FunctionDef) -> cst.BaseExpression | None:
    """Return what the last statement of a function returns."""
    if not isinstance(function.body, cst.IndentedBlock):
        return None
    last = function.body.body[-1]
    if not isinstance(last, cst.SimpleStatementLine) or not isinstance(last.body[-1], cst.Return):
        return None
    return last.body[-1].value


def _unread(package: str) -> Change:
    """Return the change of `x.as_numpy()` into `package.encoded(x)`."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        tensor = cst.ensure_type(call.func, cst.Attribute).value
        return cst.Call(cst.Attribute(cst.Name(package), cst.Name("encoded")), [cst.Arg(tensor)])

    return change


def _renamed(name: str) -> Change:
    return lambda node: cst.ensure_type(node, cst.Call).with_changes(func=cst.Name(name))
