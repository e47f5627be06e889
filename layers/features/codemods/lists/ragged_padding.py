"""Codemod `ragged_padding`: rows of unequal length padded in one buffer.

Matches `np.pad(row, (0, n), constant_values=c)` of one row, left or right, and lists of padded
rows that become an array: `np.array([r[:n] + [c] * (n - len(r)) for r in rows], dtype=D)`, also
padded on the left (`[c] * (n - len(r)) + r`), without truncation, and filled by a loop that appends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import libcst as cst

from layers.features.arrays import calls, numpy_name
from layers.features.codemod import Codemod, File, Rewrite, share_of_calls
from layers.features.codemods.lists.padding_helpers import row_code, rows_code
from layers.features.codemods.lists.padding_loops import Filled, filled, with_array
from layers.features.codemods.vocabulary.steady import is_steady
from layers.features.editing import Edits, add_helper, as_argument
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_CONSTANT = {"'constant'", '"constant"'}


class UnsafeError(Exception):
    """The padding cannot be replaced; the text says why."""


@dataclass(frozen=True, eq=False)
class _Row:
    """One call of np.pad: code of the row, of both widths and of the constant."""

    node: cst.Call
    values: cst.BaseExpression
    widths: tuple[cst.BaseExpression, cst.BaseExpression]
    constant: str


@dataclass(frozen=True, eq=False)
class _Rows:
    """One array of a comprehension of padded lists."""

    node: cst.Call
    rows: cst.BaseExpression
    width: cst.BaseExpression
    constant: str
    dtype: str
    left: bool
    cut: bool
    place: Filled | None = None  # where a loop filled the list


def analyse(source: Source, file: File) -> Rewrite:
    """Return the paddings that can be done in one buffer, and those that are left."""
    found: list[Found] = []
    paddings: list[_Row | _Rows] = []
    numpy = numpy_name(source)
    for call in source.all(cst.Call) if numpy else ():
        if _is_original(source, call):
            continue
        try:
            padding = _row(source, call) or _rows(source, call)
        except UnsafeError as reason:
            found.append(Refusal(str(reason), source.line(call)))
            continue
        if padding is not None:
            paddings.append(padding)
            place = padding.place if isinstance(padding, _Rows) else None
            lines = list(place.lines if place else source.lines(call))
            what = "np.pad of one row" if isinstance(padding, _Row) else "list of padded rows"
            found.append(Site(file.path, lines[0], lines, what))
    return Rewrite(found, partial(_edit, source, paddings, numpy) if paddings and numpy else None)


def _is_original(source: Source, call: cst.Call) -> bool:
    """Return whether the call is what a rewritten place still names as the original."""
    parent = source.parent(call)
    names = [p.name.value for p in parent.params.params] if isinstance(parent, cst.Lambda) else []
    return names in (["values", "before", "after"], ["rows", "width"])


def _row(source: Source, call: cst.Call) -> _Row | None:
    """Read `np.pad(x, (a, b), constant_values=c)`; None if it is another function."""
    if not calls(source, call, "numpy.pad"):
        return None
    code = source.module.code_for_node
    positional = [a.value for a in call.args if not a.keyword and not a.star]
    given = {a.keyword.value: a.value for a in call.args if a.keyword}
    if len(positional) == 3:
        given["mode"] = positional[2]
    starred = any(argument.star for argument in call.args)
    if starred or len(positional) not in {2, 3} or set(given) - {"mode", "constant_values"}:
        raise UnsafeError("the array and the widths are not the only arguments")
    if "mode" in given and code(given["mode"]) not in _CONSTANT:
        raise UnsafeError("not padded with a constant")
    widths = positional[1]
    if not isinstance(widths, cst.Tuple | cst.List) or len(widths.elements) != 2:
        raise UnsafeError("the widths are not written out as (before, after)")
    before, after = (element.value for element in widths.elements)
    if isinstance(before, cst.Tuple | cst.List) or isinstance(after, cst.Tuple | cst.List):
        raise UnsafeError("more than one dimension is padded")
    constant = given.get("constant_values", cst.Integer("0"))
    if not _is_number(constant):
        raise UnsafeError("the constant is not a plain number")
    if source.function_of(call) is None:
        raise UnsafeError("the padding is not in a function")
    inner = [other for other in source.all(cst.Call) if source.inside(other, positional[0])]
    if any(calls(source, other, "numpy.pad") for other in inner):
        raise UnsafeError("what is padded was padded before")
    return _Row(call, positional[0], (before, after), code(constant))


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        node = node.expression
    return isinstance(node, cst.Integer | cst.Float)


def _rows(source: Source, call: cst.Call) -> _Rows | None:
    """Read `np.array([<padded> for r in rows], dtype=D)`; None if it is something else."""
    if not calls(source, call, "numpy.array", "numpy.asarray") or len(call.args) != 2:
        return None
    function, place = source.function_of(call), filled(source, call)
    call = place.call if place else call
    listed, dtype = call.args
    if not isinstance(listed.value, cst.ListComp) or listed.star or listed.keyword:
        return None
    loop = listed.value.for_in
    padded = _padded(source, listed.value.elt)
    if padded is None:
        return None
    row, width, constant, left, cut = padded
    named = isinstance(dtype.value, cst.Attribute | cst.Name) and not dtype.star
    if not named or (dtype.keyword and dtype.keyword.value != "dtype"):
        raise UnsafeError("the dtype is not a name")
    if loop.ifs or loop.inner_for_in or loop.asynchronous or not isinstance(loop.target, cst.Name):
        raise UnsafeError("the rows are filtered or come from more than one loop")
    if loop.target.value != row or function is None:
        raise UnsafeError("what is padded is not the loop's own row, or not in a function")
    if not isinstance(width, cst.Name | cst.Integer | cst.Attribute):
        raise UnsafeError("the width is not a name or a number")
    code = source.module.code_for_node
    if code(width).partition(".")[0] in {row, "rows"} or code(dtype.value) in {"rows", "width"}:
        raise UnsafeError("the width changes from row to row, or a name is one of the function's")
    if not (_is_steady(source, width) and _is_steady(source, dtype.value)):
        raise UnsafeError("the width or the dtype may not be known where there is no row")
    return _Rows(call, loop.iter, width, constant, code(dtype.value), left, cut, place)


def _is_steady(source: Source, node: cst.BaseExpression) -> bool:
    """Return whether `node` is there without any row; of a module that is NumPy's own."""
    module = node.value if isinstance(node, cst.Attribute) else None
    if isinstance(module, cst.Name) and isinstance(node, cst.Attribute):
        names = source.qualified(node)
        if names and all(name.startswith("numpy.") for name in names):
            return is_steady(source, module)
    return is_steady(source, node)


def _padded(
    source: Source, node: cst.BaseExpression
) -> tuple[str, cst.BaseExpression, str, bool, bool] | None:
    """Return row, width, constant, left and cut of `r[:n] + [c] * (n - len(r))`, either way."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Add):
        return None
    for left, (values, filling) in enumerate(((node.left, node.right), (node.right, node.left))):
        filled = _filling(source, filling)
        if filled is None:
            continue
        row, width, constant = filled
        code = source.module.code_for_node
        if code(values) == row:
            return row, width, constant, bool(left), False
        if code(values).replace(" ", "") == f"{row}[:{code(width)}]":
            return row, width, constant, bool(left), True
    return None


def _filling(
    source: Source, node: cst.BaseExpression
) -> tuple[str, cst.BaseExpression, str] | None:
    """Return row, width and constant of `[c] * (n - len(r))`."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
        return None
    constant, missing = node.left, node.right
    if not isinstance(constant, cst.List) or len(constant.elements) != 1:
        return None
    value = constant.elements[0].value
    if not isinstance(missing, cst.BinaryOperation) or not _is_number(value):
        return None
    length = calls(source, missing.right, "builtins.len")
    if not isinstance(missing.operator, cst.Subtract) or length is None or len(length.args) != 1:
        return None
    row = length.args[0].value
    code = source.module.code_for_node
    return (row.value, missing.left, code(value)) if isinstance(row, cst.Name) else None


def _edit(source: Source, paddings: list[_Row | _Rows], numpy: str) -> cst.Module:
    edits = Edits()
    row = source.unused("_pad_row", "_padded_row", "_pad_row")
    rows = source.unused("_pad_rows", "_padded_rows", "_pad_rows")
    for padding in reversed(paddings):  # statements go, so those behind them first
        if isinstance(padding, _Row):
            edits.change(padding.node, partial(_pad_row, source, padding, row))
        elif padding.place is None:
            edits.change(padding.node, partial(_pad_rows, source, padding, rows))
        else:
            value = _pad_rows(source, padding, rows, padding.node)
            edits.change(padding.place.block, partial(with_array, padding.place, value))
    module = source.module.visit(edits)
    if any(isinstance(padding, _Rows) for padding in paddings):
        module = add_helper(module, rows_code(rows, numpy))
    if any(isinstance(padding, _Row) for padding in paddings):
        module = add_helper(module, row_code(row, numpy))
    return module


def _pad_row(source: Source, padding: _Row, helper: str, node: cst.CSTNode) -> cst.CSTNode:
    """Return the call of the helper, which is handed the original as a function."""
    del node
    code = source.module.code_for_node
    first, second, *rest = padding.node.args
    widths = cst.parse_expression("(before, after)")
    arguments = [first.with_changes(value=cst.Name("values")), second.with_changes(value=widths)]
    call = code(padding.node.with_changes(args=[*arguments, *rest]))
    before, after = (code(as_argument(width)) for width in padding.widths)
    return _in_place(
        padding.node,
        f"{helper}({code(as_argument(padding.values))}, {before}, {after}, {padding.constant}, "
        f"lambda values, before, after: {call})",
    )


def _pad_rows(source: Source, padding: _Rows, helper: str, node: cst.CSTNode) -> cst.BaseExpression:
    """Return the call of the helper, which is handed the original as a function."""
    del node
    code = source.module.code_for_node
    comprehension = cst.ensure_type(padding.node.args[0].value, cst.ListComp)
    loop = comprehension.for_in.with_changes(iter=cst.Name("rows"))
    original = padding.node.deep_replace(comprehension.for_in, loop)
    return _in_place(
        padding.node,
        f"{helper}({code(as_argument(padding.rows))}, {code(padding.width)}, {padding.constant}, "
        f"{padding.dtype}, {padding.left}, {padding.cut}, "
        f"lambda rows, width: {code(cst.ensure_type(original, cst.Call))})",
    )


def _in_place(replaced: cst.Call, call: str) -> cst.BaseExpression:
    """Return the call in the parentheses of what it replaces: a keyword may touch them."""
    made = cst.parse_expression(call)
    return made.with_changes(lpar=replaced.lpar, rpar=replaced.rpar)


CODEMOD = Codemod(
    name="ragged_padding",
    words=("pad", "len("),
    analyse=analyse,
    share=share_of_calls,
    explanation="Rows of unequal length were padded one at a time, each by several arrays or lists "
    "of its own. They are now written into one buffer, or into one array per row, by a function in "
    "the file that checks that they are plain rows of numbers and otherwise does what stood there.",
)
