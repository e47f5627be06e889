"""Edits of a parsed file: collected first, carried out in one pass that keeps all else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import libcst as cst

Change = Callable[[cst.CSTNode], cst.CSTNode]


class Edits(cst.CSTTransformer):
    """Replacements and insertions, keyed by the nodes of the module they were planned on."""

    def __init__(self) -> None:
        super().__init__()
        self._changes: dict[cst.CSTNode, list[Change]] = defaultdict(list)
        self._before: dict[cst.CSTNode, list[cst.BaseStatement]] = defaultdict(list)

    def change(self, node: cst.CSTNode, change: Change) -> None:
        """Replace `node`, its own parts already edited, by what `change` makes of it."""
        self._changes[node].append(change)

    def insert_before(self, statement: cst.CSTNode, code: str) -> None:
        """Insert statements before `statement`, which keeps its own comments."""
        self._before[statement] += cst.parse_module(code).body

    def on_leave(  # type: ignore[override]  # libcst's own signature is generic in the node
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode]:
        """Carry out what was planned for this node."""
        for change in self._changes.get(original_node, ()):
            updated_node = change(updated_node)
        before = self._before.get(original_node)
        return cst.FlattenSentinel([*before, updated_node]) if before else updated_node


def add_helper(module: cst.Module, code: str) -> cst.Module:
    """Insert a function before the first function or class of the module."""
    helper = [
        statement.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2)
        for statement in cst.parse_module(code).body
    ]
    at = next(
        (n for n, statement in enumerate(module.body) if isinstance(statement, _DEFINITIONS)),
        len(module.body),
    )
    body = [*module.body[:at], *helper, *module.body[at:]]
    return module.with_changes(body=body)


_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)


def add_imports(module: cst.Module, code: str) -> cst.Module:
    """Insert imports after those that the module starts with, at the latest before a definition."""
    at = 0
    for n, statement in enumerate(module.body):
        if isinstance(statement, _DEFINITIONS):
            break
        if isinstance(statement, cst.SimpleStatementLine) and any(
            isinstance(part, cst.Import | cst.ImportFrom) for part in statement.body
        ):
            at = n + 1
    at = at or (1 if module.get_docstring() is not None else 0)
    body = [*module.body[:at], *cst.parse_module(code).body, *module.body[at:]]
    return module.with_changes(body=body)


def append_argument(call: cst.Call, argument: cst.Arg) -> cst.Call:
    """Append an argument in the layout of those that are there."""
    if not call.args:
        return call.with_changes(args=[argument])
    *rest, last = call.args
    trailing = last.comma
    separator = rest[-1].comma if rest else cst.Comma(whitespace_after=call.whitespace_before_args)
    if not isinstance(trailing, cst.Comma) and not rest:
        separator = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    argument = argument.with_changes(comma=trailing, whitespace_after_arg=last.whitespace_after_arg)
    last = last.with_changes(comma=separator, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*rest, last, argument])


def as_argument(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `node` as it may stand alone between commas: in parentheses only where it needs them.

    `for n in "A", "B":` iterates over a tuple, which in a call would be two arguments; a generator
    and what binds or yields need parentheses of their own beside other arguments.
    """
    if not isinstance(node, _IN_PARENTHESES):
        return node.with_changes(lpar=[], rpar=[])
    return _enclosed(node)


def in_parentheses(node: cst.CSTNode) -> cst.CSTNode:
    """Return an expression in parentheses; one that has some, and no expression, as it is."""
    return _enclosed(node) if isinstance(node, cst.BaseExpression) else node


def _enclosed(node: cst.BaseExpression) -> cst.BaseExpression:
    if node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


_IN_PARENTHESES = (cst.Tuple, cst.GeneratorExp, cst.NamedExpr, cst.Yield)


def append_parameter(function: cst.FunctionDef, name: str) -> cst.FunctionDef:
    """Append `name=None`, by keyword only where the function takes `*args` or a bare `*`."""
    parameters = function.params
    added = cst.Param(cst.Name(name), default=cst.Name("None"), equal=_TIGHT)
    starred = not isinstance(parameters.star_arg, cst.MaybeSentinel)
    field = "kwonly_params" if starred else "params"
    present: Sequence[cst.Param] = getattr(parameters, field)
    if not starred and present:
        *rest, last = present
        if isinstance(last.comma, cst.Comma) and not parameters.star_kwarg:
            separator = rest[-1].comma if rest else last.comma
            added = added.with_changes(comma=last.comma)
            present = [*rest, last.with_changes(comma=separator)]
    return function.with_changes(params=parameters.with_changes(**{field: [*present, added]}))


_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def keyword(name: str, value: str) -> cst.Arg:
    """Return the argument `name=value`."""
    return cst.Arg(cst.Name(value), keyword=cst.Name(name), equal=_TIGHT)
