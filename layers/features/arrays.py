"""What is certain from a file about an expression: that it is a NumPy array, or an input tensor.

Certain means for every run that gets there: a parameter, an element or the result of a ufunc
(which is a scalar where the operand has no dimensions) may be anything, so the answer is no.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

import libcst as cst

from layers.features.source import Source

SERVER = "triton_python_backend_utils"

_CONSTRUCTORS = frozenset(
    f"numpy.{name}"
    for name in (
        *("array", "asarray", "ascontiguousarray", "asfortranarray", "frombuffer", "fromiter"),
        *("zeros", "ones", "empty", "full", "arange", "eye", "identity"),
        *("zeros_like", "ones_like", "empty_like", "full_like"),
        *("concatenate", "stack", "hstack", "vstack", "column_stack", "tile", "repeat"),
    )
)
_SHAPES = frozenset(["reshape", "ravel", "flatten", "squeeze", "transpose", "swapaxes", "copy"])
_METHODS = _SHAPES | {"astype", "repeat"}
_DEPTH = 20  # of shaping around one look-up; `x = x.reshape(-1)` alone has no end
_LOOK_UP = f"{SERVER}.get_input_tensor_by_name"
_FREE = frozenset(["numpy.squeeze", "numpy.reshape", "numpy.ravel", "numpy.transpose"])


def is_array(source: Source, node: cst.BaseExpression) -> bool:
    """Return whether `node` is certain to be an instance of numpy.ndarray, of any dtype."""
    return _is_array(source, node, frozenset())


def input_name(source: Source, node: cst.BaseExpression) -> str | None:
    """Return the input whose elements `node` holds unchanged, in whatever shape; None if unsure.

    Follows `get_input_tensor_by_name(request, "x").as_numpy()`, names bound once, shaping methods
    and slices. Also the tensor itself, before `as_numpy`, counts as its input.
    """
    for _ in range(_DEPTH):
        node = followed(source, node)
        if isinstance(node, cst.Call) and _is_function(source, node, _LOOK_UP):
            return text_of(source, node.args[1].value) if _plain(node, 2) else None
        inner = _shaped(source, node)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and inner is None:
            inner = node.func.value if node.func.attr.value in {*_SHAPES, "as_numpy"} else None
        if inner is None:
            return None
        node = inner
    return None


def is_string_input(source: Source, node: cst.BaseExpression, inputs: Mapping[str, str]) -> bool:
    """Return whether `node` is certain to be an object array of bytes from an input tensor.

    `inputs` is what config.pbtxt declares (`File.inputs`): data type by input name.
    """
    name = input_name(source, node)
    return name is not None and inputs.get(name) == "TYPE_STRING" and is_array(source, node)


def followed(source: Source, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what a name stands for when one plain assignment binds it, else `node` itself."""
    seen: set[str] = set()
    while isinstance(node, cst.Name) and node.value not in seen:
        seen.add(node.value)
        values = _values(source, node)
        if values is None or len(values) != 1:
            break
        node = values[0]
    return node


def text_of(source: Source, node: cst.BaseExpression) -> str | None:
    """Return the text of a string literal, or of a name that one assignment binds to one."""
    node = followed(source, node)
    if not isinstance(node, cst.SimpleString):
        return None
    value = ast.literal_eval(node.value)
    return value if isinstance(value, str) else None


def numpy_name(source: Source) -> str | None:
    """Return the name under which the file imports NumPy as a module, at its top level."""
    for alias in source.all(cst.ImportAlias):
        imported = source.parent(alias)
        line = source.parent(imported) if isinstance(imported, cst.Import) else None
        whole = line is not None and source.parent(line) is source.module
        if whole and isinstance(alias.name, cst.Name) and alias.name.value == "numpy":
            name = alias.asname.name if alias.asname else alias.name
            return name.value if isinstance(name, cst.Name) else None
    return None


def calls(source: Source, node: cst.CSTNode, *names: str) -> cst.Call | None:
    """Return `node` when it calls a function of one of these full names, and nothing else."""
    return node if isinstance(node, cst.Call) and _is_function(source, node, *names) else None


def _is_array(source: Source, node: cst.BaseExpression, assumed: frozenset[cst.CSTNode]) -> bool:
    """Return it under the assumption that the values in `assumed` are arrays.

    A name is one when everything that is ever assigned to it is, so `x = x.reshape(-1)` may be
    taken as one while it is looked at: the first binding of all cannot have read the name.
    """
    if node in assumed:
        return True
    assumed = assumed | {node}
    inner = _shaped(source, node)
    if inner is not None:
        return _is_array(source, inner, assumed)
    if isinstance(node, cst.Name):
        values = _values(source, node)
        return bool(values) and all(_is_array(source, value, assumed) for value in values or ())
    if not isinstance(node, cst.Call):
        return False
    if _is_function(source, node, *_CONSTRUCTORS) or _is_where(source, node):
        return True
    return isinstance(node.func, cst.Attribute) and _is_method(source, node, node.func, assumed)


def _is_method(
    source: Source, call: cst.Call, method: cst.Attribute, assumed: frozenset[cst.CSTNode]
) -> bool:
    """Return whether `call` is as_numpy of a tensor, or of a method that keeps an array one."""
    if method.attr.value == "as_numpy":
        return not call.args and _server_tensors_only(source)
    return method.attr.value in _METHODS and _is_array(source, method.value, assumed)


def _shaped(source: Source, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `x` of `x[:, 0]`, `x.T` and `np.ravel(x)`: arrays whenever x is, with its elements."""
    if isinstance(node, cst.Subscript):
        return node.value if _keeps_dimension(node) else None
    if isinstance(node, cst.Attribute):
        return node.value if node.attr.value == "T" else None
    if isinstance(node, cst.Call) and node.args and _is_function(source, node, *_FREE):
        return node.args[0].value
    return None


def _is_where(source: Source, call: cst.Call) -> bool:
    """Return whether it is np.where of three: of one it is a tuple."""
    return _is_function(source, call, "numpy.where") and _plain(call, 3)


def _plain(call: cst.Call, count: int) -> bool:
    return len(call.args) == count and not any(a.star or a.keyword for a in call.args)


def _is_function(source: Source, call: cst.Call, *names: str) -> bool:
    """Return whether `call` calls one of the functions by their full names, and nothing else."""
    if not isinstance(call.func, cst.Name | cst.Attribute):
        return False
    found = source.qualified(call.func)
    return bool(found) and found <= set(names)


def _server_tensors_only(source: Source) -> bool:
    """Return whether the file has no `as_numpy` of its own, and knows the server's."""
    own = any(function.name.value == "as_numpy" for function in source.all(cst.FunctionDef))
    return not own and SERVER in source.identifiers


def _keeps_dimension(node: cst.Subscript) -> bool:
    """Return whether a slice is among the indices, so that the result is no element."""
    return any(isinstance(element.slice, cst.Slice) for element in node.slice)


def _values(source: Source, name: cst.Name) -> list[cst.BaseExpression] | None:
    """Return all that is ever assigned to a name, None when something else may bind it."""
    bound = source.assignments(name)
    if bound is None:
        return None
    values: list[cst.BaseExpression] = []
    for item in bound:
        target = source.parent(item.node)
        assign = source.parent(target) if target else None
        if isinstance(target, cst.AnnAssign) and target.value is not None:
            values.append(target.value)
        elif isinstance(target, cst.AssignTarget) and isinstance(assign, cst.Assign):
            values.append(assign.value)
        else:
            return None
    return values
