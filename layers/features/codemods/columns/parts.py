"""What is appended to a list of columns, and how to write it into a buffer instead."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from layers.features.callees import Callees
from layers.features.editing import Change
from layers.features.source import Source

_NUMBERS = {
    f"numpy.{kind}{bits}"
    for kind, sizes in {
        "float": (16, 32, 64),
        "int": (8, 16, 32, 64),
        "uint": (8, 16, 32, 64),
    }.items()
    for bits in sizes
}


@dataclass(frozen=True)
class Part:
    """One kind of part: `dtype` is None where the profile of the array is not known."""

    dtype: str | None
    change: Change  # of the append call
    factory: cst.FunctionDef | None = None


@dataclass(frozen=True)
class _Factory:
    """A function that allocates one column, assigns to it and returns it."""

    function: cst.FunctionDef
    rows: str
    values: str
    dtype: str


class PartReader:
    """Recognises columns among the expressions that are appended."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._callees = Callees(source)
        found = (self._factory(function) for function in source.all(cst.FunctionDef))
        self._factories = [factory for factory in found if factory is not None]

    def read(self, node: cst.BaseExpression, *, stacked: bool) -> Part:
        """Return how to append `node`; a stacked part is one-dimensional, else it has two."""
        part = self._converted(node) if stacked else self._column(node)
        return part or Part(None, _calls("block"))

    def _column(self, node: cst.BaseExpression) -> Part | None:
        return self._made(node) or self._full(node) or self._reshaped(node) or self._indexed(node)

    def _made(self, node: cst.BaseExpression) -> Part | None:
        """Read `factory(values, rows)`."""
        if not isinstance(node, cst.Call):
            return None
        for factory in self._factories:
            values = self._callees.argument(node, factory.function, factory.values)
            rows = self._callees.argument(node, factory.function, factory.rows)
            if values is None or rows is None or len(node.args) != 2:
                continue
            if rows is node.args[0].value and not isinstance(values, cst.Name):
                continue  # the order of evaluation would change
            return Part(factory.dtype, _calls("add", values, rows), factory.function)
        return None

    def _full(self, node: cst.BaseExpression) -> Part | None:
        """Read `np.full((rows, 1), value, dtype=D)`."""
        call = self._numpy_call(node, "numpy.full")
        if call is None or len(call.args) != 3 or call.args[0].keyword or call.args[1].keyword:
            return None
        rows, dtype = _column_rows(call.args[0].value), self._dtype(call.args[2])
        if dtype is None or not isinstance(rows, cst.Name):
            return None
        return Part(dtype, _calls("full", call.args[1].value, rows))

    def _reshaped(self, node: cst.BaseExpression) -> Part | None:
        """Read `x.astype(D).reshape(-1, 1)` and `x.reshape(-1, 1).astype(D)`."""
        inner = _reshaped_to_column(node)
        if inner is not None:
            converted = self._astype(inner)
            return None if converted is None else self._flat(*converted)
        converted = self._astype(node)
        inner = _reshaped_to_column(converted[0]) if converted else None
        return self._flat(inner, converted[1]) if converted and inner is not None else None

    def _flat(self, values: cst.BaseExpression, dtype: str) -> Part:
        reshape = cst.Attribute(values, cst.Name("reshape"))
        flat = cst.Call(reshape, [cst.Arg(cst.parse_expression("-1"))])
        return Part(dtype, _calls("add_array", flat))

    def _indexed(self, node: cst.BaseExpression) -> Part | None:
        """Read `x.astype(D)[:, None]`."""
        if not isinstance(node, cst.Subscript) or len(node.slice) != 2:
            return None
        whole, new = (element.slice for element in node.slice)
        everything = isinstance(whole, cst.Slice) and not (whole.lower or whole.upper or whole.step)
        if not everything or not isinstance(new, cst.Index):
            return None
        if not self._is_newaxis(new.value):
            return None
        return self._converted(node.value)

    def _converted(self, node: cst.BaseExpression) -> Part | None:
        """Read `x.astype(D)`."""
        converted = self._astype(node)
        return Part(converted[1], _calls("add_array", converted[0])) if converted else None

    def _astype(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, str] | None:
        """Return `x` and `D` of `x.astype(D)`."""
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
            return None
        if node.func.attr.value != "astype" or len(node.args) != 1:
            return None
        dtype = self._dtype(node.args[0])
        return (node.func.value, dtype) if dtype else None

    def _is_newaxis(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name) and node.value == "None":
            return True
        return isinstance(node, cst.Attribute) and "numpy.newaxis" in self._source.qualified(node)

    def _dtype(self, argument: cst.Arg) -> str | None:
        """Return a numeric dtype as the file spells it, when it is `np.<name>` from the import."""
        node = argument.value
        if argument.star or (argument.keyword and argument.keyword.value != "dtype"):
            return None
        if not isinstance(node, cst.Attribute) or not self._source.qualified(node) & _NUMBERS:
            return None
        return self._source.module.code_for_node(node)

    def _numpy_call(self, node: cst.BaseExpression, *names: str) -> cst.Call | None:
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
            return None
        return node if self._source.qualified(node.func) & set(names) else None

    def _factory(self, function: cst.FunctionDef) -> _Factory | None:
        """Read `c = np.zeros((rows, 1), dtype=D); c[:, 0] = values; return c`."""
        if not isinstance(function.body, cst.IndentedBlock):
            return None
        body = list(function.body.body)[1 if function.get_docstring() is not None else 0 :]
        lines = [_only(statement) for statement in body]
        if len(lines) != 3:
            return None
        allocated = self._allocation(lines[0])
        values = _assigned_column(lines[1])
        returned = lines[2].value if isinstance(lines[2], cst.Return) else None
        if allocated is None or values is None or not isinstance(returned, cst.Name):
            return None
        name, rows, dtype = allocated
        parameters = {p.name.value for p in function.params.params}
        target, value = values
        if {target, returned.value} != {name} or not {rows, value} <= parameters - {name}:
            return None
        return _Factory(function, rows, value, dtype)

    def _allocation(self, line: cst.CSTNode | None) -> tuple[str, str, str] | None:
        """Return name, rows and dtype of `name = np.zeros((rows, 1), dtype=D)`."""
        if not isinstance(line, cst.Assign) or not isinstance(line.targets[0].target, cst.Name):
            return None
        call = self._numpy_call(line.value, "numpy.zeros", "numpy.empty")
        if call is None or len(call.args) != 2 or call.args[0].keyword or len(line.targets) != 1:
            return None
        rows, dtype = _column_rows(call.args[0].value), self._dtype(call.args[1])
        if dtype is None or not isinstance(rows, cst.Name):
            return None
        return line.targets[0].target.value, rows.value, dtype


def _calls(method: str, *arguments: cst.BaseExpression) -> Change:
    """Return the change of `x.append(part)` into `x.method(...)`.

    The arguments are taken as they stand in the file: nothing inside them is edited.
    """

    def change(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        function = cst.ensure_type(call.func, cst.Attribute).with_changes(attr=cst.Name(method))
        args = [cst.Arg(_bare(argument)) for argument in arguments] or call.args
        return call.with_changes(func=function, args=args)

    return change


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an operation without the parentheses that an argument does not need."""
    if isinstance(node, cst.BinaryOperation | cst.Comparison | cst.UnaryOperation) and node.lpar:
        return node.with_changes(lpar=[], rpar=[])
    return node


def _column_rows(shape: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `rows` of the shape `(rows, 1)`."""
    if not isinstance(shape, cst.Tuple) or len(shape.elements) != 2:
        return None
    rows, width = (element.value for element in shape.elements)
    return rows if isinstance(width, cst.Integer) and width.value == "1" else None


def _reshaped_to_column(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `x` of `x.reshape(-1, 1)` or `x.reshape((-1, 1))`."""
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
        return None
    shape = [argument.value for argument in node.args if not argument.keyword and not argument.star]
    if len(shape) == 1 and len(node.args) == 1 and isinstance(shape[0], cst.Tuple):
        shape = [element.value for element in shape[0].elements]
    code = [cst.Module([]).code_for_node(value) for value in shape]
    column = node.func.attr.value == "reshape" and code == ["-1", "1"]
    return node.func.value if column and len(node.args) <= 2 else None


def _only(statement: cst.CSTNode) -> cst.BaseSmallStatement | None:
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None


def _assigned_column(line: cst.CSTNode | None) -> tuple[str, str] | None:
    """Return `name` and `values` of `name[:, 0] = values`."""
    if not isinstance(line, cst.Assign) or len(line.targets) != 1:
        return None
    target, value = line.targets[0].target, line.value
    if not (isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name)):
        return None
    index = cst.Module([]).code_for_node(target).replace(" ", "")
    if index != f"{target.value.value}[:,0]" or not isinstance(value, cst.Name):
        return None
    return target.value.value, value.value
