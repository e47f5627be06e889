"""Whether an expression only reads: evaluated earlier, or twice, it gives the same again."""

from __future__ import annotations

import libcst as cst

from layers.features.codemods.columns.called import called
from layers.features.source import Source

_LOOK_UP = "triton_python_backend_utils.get_input_tensor_by_name"
_METHODS = {
    *("as_numpy", "get", "inputs", "name"),
    *("reshape", "ravel", "flatten", "squeeze", "astype", "copy"),
}
_BUILTINS = {"builtins.reversed", "builtins.len", "builtins.dict"}
_DEPTH = 5  # of functions that call each other
_ACTIVE = (cst.Yield, cst.Await, cst.NamedExpr, cst.Lambda)
_STATEMENTS = (cst.Assign, cst.AnnAssign, cst.Return, cst.Expr, cst.Raise, cst.Pass)


class UnsafeError(Exception):
    """The place cannot be rewritten; the text says why."""


def check_reads_only(source: Source, node: cst.CSTNode, depth: int = _DEPTH) -> None:
    """Raise UnsafeError unless `node` reads columns and does nothing else.

    Look-ups in the request, as_numpy, dict.get, shaping and functions of the same file that are
    made of these count as reading.
    """
    for child in node.children:
        check_reads_only(source, child, depth)
    if isinstance(node, _ACTIVE):
        raise UnsafeError("reading the column does more than read")
    if isinstance(node, cst.Call):
        _check_call(source, node, depth)


def _check_call(source: Source, call: cst.Call, depth: int) -> None:
    function = call.func
    names = source.qualified(function) if isinstance(function, cst.Name | cst.Attribute) else set()
    if len(names) == 1 and names <= _BUILTINS | {_LOOK_UP}:
        return
    if isinstance(function, cst.Attribute) and function.attr.value in _METHODS:
        base = function.value
        if not isinstance(base, cst.Name) or source.assignments(base) is not None:
            return  # else it is a function of an imported module
    node = _function(source, call)
    if node is None or node.decorators or depth == 0:
        raise UnsafeError("reading the column calls what is not known only to read")
    for statement in _simple_statements(node.body):
        targets = statement.targets if isinstance(statement, cst.Assign) else ()
        own = all(isinstance(target.target, cst.Name) for target in targets)
        if not isinstance(statement, _STATEMENTS) or not own:
            raise UnsafeError("the function that reads the column does more than read")
        check_reads_only(source, statement, depth - 1)


def _function(source: Source, call: cst.Call) -> cst.FunctionDef | None:
    """Return the function of the file that is called, with arguments of any kind."""
    bound = source.assignments(call.func) if isinstance(call.func, cst.Name) else None
    node = bound[0].node if bound and len(bound) == 1 else None
    if isinstance(node, cst.FunctionDef):
        return node
    found = called(source, call)
    return found[0] if found else None


def _simple_statements(block: cst.BaseSuite) -> list[cst.BaseSmallStatement]:
    """Return the statements of a function of ifs and simple statements."""
    found: list[cst.BaseSmallStatement] = []
    for statement in block.body:
        if isinstance(statement, cst.BaseSmallStatement):
            found.append(statement)
        elif isinstance(statement, cst.SimpleStatementLine):
            found += statement.body
        elif isinstance(statement, cst.If):
            found += [cst.Expr(statement.test)]
            found += _simple_statements(statement.body)
            if isinstance(statement.orelse, cst.Else):
                found += _simple_statements(statement.orelse.body)
            elif statement.orelse is not None:
                raise UnsafeError("the function that reads the column does more than read")
        else:
            raise UnsafeError("the function that reads the column does more than read")
    return found
