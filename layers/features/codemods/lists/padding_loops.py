"""A list of rows that a loop fills, read as the comprehension that it could be.

Matches three statements in a row: `out = []`, a loop that does nothing but append (it may cut the
row first, `r = r[:n]`), and `x = np.array(out, dtype=D)`, where neither list nor row is used again.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from layers.features.source import Source


@dataclass(frozen=True, eq=False)
class Filled:
    """The call as if it held the comprehension, and the statement (of `block`) that it is in."""

    call: cst.Call
    block: cst.IndentedBlock
    index: int
    lines: range


def filled(source: Source, call: cst.Call) -> Filled | None:
    """Return what a loop fills right before `call` makes it an array, None if it does not."""
    name = call.args[0].value if call.args else None
    place = _place(source, call)
    if not isinstance(name, cst.Name) or place is None:
        return None
    block, index = place
    made, loop = block.body[index - 2], block.body[index - 1]
    if not _is_empty_list(made, name.value) or not isinstance(loop, cst.For):
        return None
    element = _appended(source, loop, name.value)
    target = loop.target
    if element is None or not isinstance(target, cst.Name) or loop.orelse or loop.asynchronous:
        return None
    function = source.function_of(call)
    after = [n for n in source.all(cst.Name) if function and source.inside(n, function)]
    outside = [n for n in after if not source.inside(n, loop)]
    if any(n.value == target.value for n in outside) or "#" in source.module.code_for_node(loop):
        return None
    if sum(n.value == name.value for n in after) != 3:  # made, appended to, joined
        return None
    listed = cst.ListComp(element, cst.CompFor(cst.Name(target.value), loop.iter))
    first = call.args[0].with_changes(value=listed)
    lines = range(source.line(made), source.lines(call)[-1] + 1)
    return Filled(call.with_changes(args=[first, *call.args[1:]]), block, index, lines)


def _place(source: Source, call: cst.Call) -> tuple[cst.IndentedBlock, int] | None:
    """Return block and index of `x = <call>`, the third statement or a later one."""
    assign = source.parent(call)
    line = source.parent(assign) if isinstance(assign, cst.Assign) else None
    block = source.parent(line) if isinstance(line, cst.SimpleStatementLine) else None
    if not isinstance(block, cst.IndentedBlock) or not isinstance(line, cst.SimpleStatementLine):
        return None
    index = next(n for n, statement in enumerate(block.body) if statement is line)
    return (block, index) if index >= 2 and len(line.body) == 1 else None


def _is_empty_list(statement: cst.BaseStatement, name: str) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    assign = statement.body[0]
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return False
    target, value = assign.targets[0].target, assign.value
    named = isinstance(target, cst.Name) and target.value == name
    return named and isinstance(value, cst.List) and not value.elements


def _appended(source: Source, loop: cst.For, name: str) -> cst.BaseExpression | None:
    """Return what the loop appends, with the row cut where the loop cuts it."""
    lines = loop.body.body if isinstance(loop.body, cst.IndentedBlock) else ()
    simple = [line.body[0] for line in lines if isinstance(line, cst.SimpleStatementLine)]
    if not 1 <= len(simple) == len(lines) <= 2:
        return None
    call = simple[-1].value if isinstance(simple[-1], cst.Expr) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].star:
        return None
    if source.module.code_for_node(call.func) != f"{name}.append":
        return None
    element = call.args[0].value
    return element if len(simple) == 1 else _cut(source, loop, simple[0], element)


def _cut(
    source: Source, loop: cst.For, first: cst.BaseSmallStatement, element: cst.BaseExpression
) -> cst.BaseExpression | None:
    """Return the element with `r[:n]` for the summand `r`, where the loop begins with the cut.

    The length that is missing is that of the whole row then: less than none is none, as before.
    """
    code = source.module.code_for_node
    row = code(loop.target)
    if not isinstance(first, cst.Assign) or code(first.targets[0].target) != row:
        return None
    width = _width(code(first.value).replace(" ", ""), row)
    if width is None or len(first.targets) != 1 or not isinstance(element, cst.BinaryOperation):
        return None
    if code(element.left) == row:
        return element.with_changes(left=first.value)
    return element.with_changes(right=first.value) if code(element.right) == row else None


def _width(code: str, row: str) -> str | None:
    """Return `n` of `r[:n]`."""
    return code[len(row) + 2 : -1] if code.startswith(f"{row}[:") and code.endswith("]") else None


def with_array(place: Filled, value: cst.BaseExpression, block: cst.CSTNode) -> cst.CSTNode:
    """Return the block with the three statements as one, and with their comments."""
    updated = cst.ensure_type(block, cst.IndentedBlock)
    made, loop, joined = updated.body[place.index - 2 : place.index + 1]
    line = cst.ensure_type(joined, cst.SimpleStatementLine)
    first = cst.ensure_type(made, cst.SimpleStatementLine)
    assign = cst.ensure_type(line.body[0], cst.Assign).with_changes(value=value)
    comment = first.trailing_whitespace.comment
    leading = [
        *first.leading_lines,
        *([cst.EmptyLine(comment=comment)] if comment else []),
        *cst.ensure_type(loop, cst.For).leading_lines,
        *line.leading_lines,
    ]
    one = line.with_changes(body=[assign], leading_lines=leading)
    body = [*updated.body[: place.index - 2], one, *updated.body[place.index + 1 :]]
    return updated.with_changes(body=body)
