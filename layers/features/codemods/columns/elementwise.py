"""Which expressions compute every element of one array on its own, bit for bit.

A chain of such operations gives the same bits for a column alone and for the column as a row of
a matrix. That is a property of each loop in NumPy, not of the function: where a vectorised main
loop and its tail differ, the position of an element decides. Measured over every class of float:
`fmax` and `fmin` differ for NaN and for zeros of both signs, and so do sums and products of two
arrays, in which NaN they keep. Those are not in the lists here; the tests hold for those that are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst

from layers.features.arrays import followed
from layers.features.codemods.columns.called import called
from layers.features.codemods.columns.fill_helper import is_fill_helper
from layers.features.source import Source

_UNARY = frozenset(
    f"numpy.{name}"
    for name in (
        *("log1p", "log", "log2", "log10", "exp", "expm1", "sqrt", "sign", "negative"),
        *("abs", "absolute", "fabs", "floor", "ceil", "rint", "trunc"),
        *("isnan", "isinf", "isfinite", "signbit"),
    )
)
_WITH_NUMBERS = {"numpy.maximum": 2, "numpy.minimum": 2, "numpy.clip": 3}
_CONSTANTS = frozenset(["numpy.nan", "numpy.inf", "numpy.pi", "numpy.e", "math.pi", "math.e"])
_FLOATS = frozenset(["numpy.float32", "numpy.float64"])
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
_ORDER = (
    *(cst.LessThan, cst.GreaterThan, cst.LessThanEqual, cst.GreaterThanEqual),
    *(cst.Equal, cst.NotEqual),
)
_DEPTH = 8  # of functions that call each other


class NotElementwiseError(Exception):
    """The expression does something else; the text says what."""


@dataclass
class Chain:
    """An elementwise expression: `leaf` is what it reads the array from."""

    node: cst.BaseExpression
    leaf: cst.BaseExpression
    operations: int = 0
    scalars: list[str] = field(default_factory=list)  # names that have to be plain numbers
    functions: list[cst.FunctionDef] = field(default_factory=list)  # outermost first


@dataclass(frozen=True)
class _Frame:
    """What names stand for inside a function that is followed: True an array, False a number."""

    names: Mapping[str, bool]
    depth: int = 0


class Elementwise:
    """Reads chains of elementwise operations in one file."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def chain(self, node: cst.BaseExpression, variable: str) -> Chain:
        """Return the chain whose leaf depends on `variable`; no operations if `node` is a leaf.

        Raises NotElementwiseError where an operation meets two arrays, or a name is not a number
        for certain that the chain's caller could check.
        """
        found = Chain(node, node)
        while True:
            operands = self._operands(found.leaf)
            arrays = [o for o in operands or () if _mentions(o, variable)]
            if not operands or len(arrays) != 1:
                return found
            step = Chain(found.leaf, arrays[0])
            try:
                self._check_step(found.leaf, arrays[0], step)
            except NotElementwiseError:
                if not found.operations:
                    raise
                return found
            found.leaf = arrays[0]
            found.operations += step.operations
            found.scalars += step.scalars
            found.functions += step.functions

    def _check_step(self, node: cst.BaseExpression, array: cst.BaseExpression, step: Chain) -> None:
        if not self._is_array(node, _Frame({}), step, array):
            raise NotElementwiseError("the operation has no array")

    def _operands(self, node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        """Return the parts of one operation; None for what is none."""
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC):
            return [node.left, node.right]
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return [node.expression]
        if not isinstance(node, cst.Call):
            return None
        if self._is_astype(node):
            return [cst.ensure_type(node.func, cst.Attribute).value]
        if self._is_fill(node):  # the dtype that it takes second is no operand
            return [node.args[0].value, *(a.value for a in node.args[1:] if a.keyword)]
        known = self._numpy(node) or self._function(node)
        return [argument.value for argument in node.args] if known else None

    def _is_array(
        self,
        node: cst.BaseExpression,
        frame: _Frame,
        chain: Chain,
        leaf: cst.BaseExpression | None = None,
    ) -> bool:
        """Return whether `node` is an array computed element by element, False for a number.

        Raises NotElementwiseError where it may be anything else.
        """
        if node is leaf:
            return True
        if isinstance(node, cst.Name | cst.Attribute | cst.Integer | cst.Float):
            return self._atom(node, frame, chain)
        parts = self._parts(node, frame, chain, leaf)
        followed_call = isinstance(node, cst.Call) and self._is_followed(node)
        chain.operations += any(parts) and not followed_call
        return any(parts)

    def _atom(self, node: cst.BaseExpression, frame: _Frame, chain: Chain) -> bool:
        if isinstance(node, cst.Integer | cst.Float):
            return False
        if isinstance(node, cst.Name) and node.value in frame.names:
            return frame.names[node.value]
        if isinstance(node, cst.Name | cst.Attribute):
            if self._source.qualified(node) & _CONSTANTS:
                return False
            if isinstance(followed(self._source, node), cst.Integer | cst.Float):
                return False
        if isinstance(node, cst.Name) and frame.depth == 0:
            chain.scalars.append(node.value)
            return False
        raise NotElementwiseError("an operand may be anything")

    def _parts(
        self,
        node: cst.BaseExpression,
        frame: _Frame,
        chain: Chain,
        leaf: cst.BaseExpression | None,
    ) -> list[bool]:
        """Return which operands are arrays, once they may be so together."""
        if isinstance(node, cst.Comparison):
            return self._comparison(node, frame, chain, leaf)
        operands = self._operands(node)
        if operands is None:
            raise NotElementwiseError("an operation that is not known to be elementwise")
        if any(self._is_nan(operand) for operand in operands) and not self._is_where(node):
            raise NotElementwiseError("NaN meets what may be NaN, and either may be kept")
        arrays = [self._is_array(operand, frame, chain, leaf) for operand in operands]
        if isinstance(node, cst.Call):
            return self._called(node, arrays, frame, chain)
        if sum(arrays) > 1:
            raise NotElementwiseError("two arrays meet in one operation")
        return arrays

    def _is_nan(self, node: cst.BaseExpression) -> bool:
        if not isinstance(node, cst.Name | cst.Attribute):
            return False
        return bool(self._source.qualified(node) & {"numpy.nan", "math.nan"})

    def _is_where(self, node: cst.BaseExpression) -> bool:
        """Return whether all that is done with the operands is to copy them."""
        return isinstance(node, cst.Call) and self._numpy(node) in {
            "numpy.where",
            "numpy.nan_to_num",
        }

    def _comparison(
        self, node: cst.Comparison, frame: _Frame, chain: Chain, leaf: cst.BaseExpression | None
    ) -> list[bool]:
        target = node.comparisons[0]
        if len(node.comparisons) != 1 or not isinstance(target.operator, _ORDER):
            raise NotElementwiseError("a comparison that is not of one array with one number")
        sides = (node.left, target.comparator)
        arrays = [self._is_array(side, frame, chain, leaf) for side in sides]
        if sum(arrays) != 1:
            raise NotElementwiseError("two arrays meet in one comparison")
        return arrays

    def _called(
        self, call: cst.Call, arrays: list[bool], frame: _Frame, chain: Chain
    ) -> list[bool]:
        if self._is_astype(call):
            return arrays
        name = self._numpy(call)
        if name == "numpy.where":
            if not arrays[0]:
                raise NotElementwiseError("the condition is not of the array")
            return arrays
        if name or self._is_fill(call):
            if sum(arrays) > 1:
                raise NotElementwiseError("two arrays meet in one operation")
            return arrays
        return self._followed(call, arrays, frame, chain)

    def _followed(
        self, call: cst.Call, arrays: list[bool], frame: _Frame, chain: Chain
    ) -> list[bool]:
        """Read the function of the same file that is called."""
        found = called(self._source, call)
        if found is None or frame.depth >= _DEPTH or not any(arrays):
            raise NotElementwiseError("a call that is not known to be elementwise")
        function, names = found
        inner = dict(zip(names, arrays, strict=True))
        chain.functions.append(function)
        body = list(cst.ensure_type(function.body, cst.IndentedBlock).body)
        made: set[str] = set()  # names of arrays that are not the caller's own
        for statement in body[1 if function.get_docstring() is not None else 0 : -1]:
            name, value = _assigned(statement)
            inner[name] = self._is_array(value, _Frame(dict(inner), frame.depth + 1), chain)
            made.add(name)
        returned = _returned(body[-1])
        if isinstance(returned, cst.Name) and returned.value not in made:
            raise NotElementwiseError("the function returns what it was given")
        return [self._is_array(returned, _Frame(inner, frame.depth + 1), chain)]

    def _function(self, call: cst.Call) -> cst.FunctionDef | None:
        """Return the function of the file that is called, this file's fill helper among them."""
        if isinstance(call.func, cst.Name):
            bound = self._source.assignments(call.func) or []
            node = bound[0].node if len(bound) == 1 else None
            if isinstance(node, cst.FunctionDef) and is_fill_helper(node):
                positional = [a for a in call.args if not a.keyword and not a.star]
                return node if len(positional) in {1, 2} else None
        found = called(self._source, call)
        return found[0] if found else None

    def _is_followed(self, call: cst.Call) -> bool:
        """Return whether the operations are those of a function of the file."""
        return self._function(call) is not None and not self._is_fill(call)

    def _is_fill(self, call: cst.Call) -> bool:
        function = self._function(call)
        return function is not None and is_fill_helper(function)

    def _numpy(self, call: cst.Call) -> str | None:
        """Return the full name of a NumPy function that is called in an elementwise way."""
        if not isinstance(call.func, cst.Name | cst.Attribute):
            return None
        names = self._source.qualified(call.func)
        if len(names) != 1:
            return None
        name = next(iter(names))
        plain = not any(argument.keyword or argument.star for argument in call.args)
        if name == "numpy.nan_to_num":
            keywords = {a.keyword.value for a in call.args[1:] if a.keyword}
            first = call.args[:1] and not call.args[0].keyword and not call.args[0].star
            fits = first and len(keywords) == len(call.args) - 1
            return name if fits and keywords <= {"nan", "posinf", "neginf"} else None
        wanted = 1 if name in _UNARY else 3 if name == "numpy.where" else _WITH_NUMBERS.get(name)
        return name if plain and wanted == len(call.args) else None

    def _is_astype(self, call: cst.Call) -> bool:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "astype":
            return False
        if len(call.args) != 1 or call.args[0].keyword or call.args[0].star:
            return False
        dtype = call.args[0].value
        if not isinstance(dtype, cst.Attribute | cst.Name):
            return False
        return len(self._source.qualified(dtype) & _FLOATS) == 1


def _mentions(node: cst.CSTNode, variable: str) -> bool:
    if isinstance(node, cst.Name):
        return node.value == variable
    return any(_mentions(child, variable) for child in node.children)


def _assigned(statement: cst.CSTNode) -> tuple[str, cst.BaseExpression]:
    """Return name and value of `name = <operation>`."""
    line = _only(statement)
    if isinstance(line, cst.Assign) and len(line.targets) == 1:
        target = line.targets[0].target
        if isinstance(target, cst.Name) and not isinstance(line.value, cst.Name):
            return target.value, line.value
    raise NotElementwiseError("a function does more than compute")


def _returned(statement: cst.CSTNode) -> cst.BaseExpression:
    line = _only(statement)
    if isinstance(line, cst.Return) and line.value is not None:
        return line.value
    raise NotElementwiseError("a function does more than compute and return")


def _only(statement: cst.CSTNode) -> cst.BaseSmallStatement | None:
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None
