"""Codemod `string_outputs`: strings handed to the server as objects, not as fixed-width bytes.

An array of dtype "S" gives every element the width of the longest: one long string among many
short ones makes it large, and the server, which serialises element by element, searches each
element's padding for its end. The rewrite hands over an object array of the same bytes, without
the zeros at an end that a fixed-width array cannot hold, so the wire stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import libcst as cst

from layers.features.arrays import SERVER
from layers.features.codemod import Codemod, File, Rewrite, share_of_calls
from layers.features.codemods.text.string_forms import StringReader, Strings
from layers.features.editing import Edits, add_helper
from layers.features.module_names import (
    builtins_hold,
    free_names,
    looked_up,
    module_name,
    serves,
)
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_TENSOR = f"{SERVER}.Tensor"
_SHAPES = {"reshape", "ravel", "flatten", "squeeze"}
_USED = ("bytes", "len", "list", "map", "set", "str", "type")

_HELPER = '''
def {name}(values):
    """Return strings for a tensor as objects, which reach the wire as fixed-width bytes do."""
    items, shape, joined = [], None, None
    if type(values) is {numpy}.ndarray and values.dtype.kind in "{kinds}":
        items, shape = values.ravel().tolist(), values.shape
{lists}    kinds = set(map(type, items or ()))
    if kinds == {{str}}:
        joined = "".join(items)
    elif kinds == {{bytes}}:
        joined = b"".join(items)
    texts = type(joined) is str
    if joined is None{unfit}:
        return {slow}
{encode}    if ("\\0" if texts else b"\\0") in joined:  # NumPy drops the zeros at an element's end
        items = [item.rstrip(b"\\0") for item in items]
    strings = {numpy}.empty(len(items), dtype=object)
    strings[:] = items
    return strings.reshape(shape)
'''
_LISTS = """\
    elif type(values) is list:
        items, shape = values, (len(values),)
        if values and type(values[0]) is list and set(map(type, values)) == {list}:
            if len(set(map(len, values))) == 1:
                items = [item for row in values for item in row]
                shape = (len(values), len(values[0]))
"""
# of few short strings the original is faster: what fixed width wastes there is little
_SMALL = "len(items) < 32 and len(joined) < 512"
_UNFIT = {
    "bytes": f" or texts or ({_SMALL})",
    "ascii": f" or (texts and not joined.isascii()) or ({_SMALL})",
    "text": " or not texts",
}
_ENCODE = {
    "bytes": "",
    "ascii": """\
    if texts:
        items = list(map(str.encode, items))
""",
    "text": """\
    try:
        items = list(map(str.encode, items))
    except UnicodeEncodeError:
        return {slow}
""",
}


class UnsafeError(Exception):
    """The array cannot be replaced; the text says why."""


@dataclass(frozen=True, eq=False)
class _Output:
    """One array that reaches a tensor and nothing else."""

    tensor: cst.Call
    node: cst.Call
    strings: Strings


def analyse(source: Source, file: File) -> Rewrite:
    """Return the fixed-width arrays that reach nothing but a tensor, and those that are left."""
    found: list[Found] = []
    outputs: list[_Output] = []
    numpy = module_name(source, "numpy")
    for tensor in source.all(cst.Call):
        if not _is_tensor(source, tensor) or not serves(source, tensor):
            continue
        try:
            output = _output(source, tensor)
            if output is None or any(output.node is other.node for other in outputs):
                continue
            _check(source, output, numpy)
        except UnsafeError as reason:
            found.append(Refusal(str(reason), source.line(tensor)))
            continue
        outputs.append(output)
        lines = sorted({*source.lines(tensor), *source.lines(output.node)})
        what = "an array of fixed-width bytes for a tensor"
        found.append(Site(file.path, source.line(output.node), lines, what))
    if numpy is None or not outputs:
        return Rewrite(found)
    return Rewrite(found, partial(_edit, source, numpy, outputs))


def _output(source: Source, tensor: cst.Call) -> _Output | None:
    """Return the array of strings that a tensor is made of, None if it is no such array."""
    if len(tensor.args) != 2 or any(a.star for a in tensor.args):
        return None
    argument = next((a for a in tensor.args if a.keyword and a.keyword.value != "name"), None)
    node = _unshaped((argument or tensor.args[1]).value)
    if isinstance(node, cst.Name):
        bound = source.assignments(node) or []
        target = source.parent(bound[0].node) if len(bound) == 1 else None
        assign = source.parent(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
            return None
        node = _unshaped(assign.value)
        uses = [reference.node for reference in bound[0].references]
        strings = StringReader(source).read(node)
        if strings and strings.accepts and not all(_reaches_tensor(source, u) for u in uses):
            raise UnsafeError("the array is used for more than the tensor")
    else:
        strings = StringReader(source).read(node)
    if strings is None or not isinstance(node, cst.Call):
        return None
    if isinstance(strings.values, cst.List) and len(strings.values.elements) < 2:
        raise UnsafeError("a single string is as wide as itself")
    if not strings.accepts:
        raise UnsafeError("an array of objects already; the server's own loop is what costs")
    return _Output(tensor, node, strings)


def _unshaped(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `x` of `x.reshape(...)`, which is the same for an array of objects."""
    while (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in _SHAPES
        and not any(argument.keyword for argument in node.args)
    ):
        node = node.func.value
    return node


def _reaches_tensor(source: Source, node: cst.CSTNode) -> bool:
    """Return whether the value goes, in whatever shape, into a tensor and nowhere else."""
    for parent in source.ancestors(node):
        if isinstance(parent, cst.Call) and _is_tensor(source, parent):
            return True
        shaping = isinstance(parent, cst.Attribute) and parent.attr.value in _SHAPES
        function = parent.func if isinstance(parent, cst.Call) else None
        shaped = isinstance(function, cst.Attribute) and function.attr.value in _SHAPES
        if not (shaping or shaped or isinstance(parent, cst.Arg)):
            return False
    return False


def _is_tensor(source: Source, call: cst.Call) -> bool:
    return isinstance(call.func, cst.Name | cst.Attribute) and _TENSOR in source.qualified(
        call.func
    )


def _check(source: Source, output: _Output, numpy: str | None) -> None:
    """Raise UnsafeError unless a helper can build the array and the tensor is only sent."""
    if numpy is None:
        raise UnsafeError("the file does not import numpy before its first function")
    if not builtins_hold(source, _USED):
        raise UnsafeError("the file gives names like `map` or `list` another meaning")
    names = {
        name.value
        for name in looked_up(output.node)
        if not source.inside(name, output.strings.values)
    }
    if not names <= {numpy, "bytes", "object"}:
        raise UnsafeError("numpy goes by more than one name")
    rest = output.node.deep_replace(output.strings.values, cst.Name("values"))
    code = source.module.code_for_node(cst.ensure_type(rest, cst.Call))
    if "#" in code:
        raise UnsafeError("a comment stands inside the expression")
    if any(read for read in _read_back(source, output.tensor)):
        raise UnsafeError("the tensor is looked at after it was made")


def _read_back(source: Source, tensor: cst.Call) -> list[bool]:
    """Return, for each use of a tensor with a name, whether it is more than handing it on."""
    parent = source.parent(tensor)
    if isinstance(parent, cst.Attribute):
        return [True]
    target = parent.targets[0].target if isinstance(parent, cst.Assign) else None
    if target is None:
        return []
    if not isinstance(target, cst.Name):
        return [True]
    bound = source.assignments(target) or []
    uses = [source.parent(reference.node) for item in bound for reference in item.references]
    return [isinstance(use, cst.Attribute) for use in uses]


def _edit(source: Source, numpy: str, outputs: list[_Output]) -> cst.Module:
    edits = Edits()
    helpers: dict[str, str] = {}  # code, with the name left open: name
    for output in outputs:
        values = output.strings.values
        slow = cst.ensure_type(output.node.deep_replace(values, cst.Name("values")), cst.Call)
        written = source.module.code_for_node(slow.with_changes(lpar=[], rpar=[]))
        accepts = output.strings.accepts
        code = _HELPER.format(
            name="{name}",
            numpy=numpy,
            kinds="U" if accepts == "text" else "OU",
            lists=_LISTS if output.strings.lists else "",
            unfit=_UNFIT[accepts],
            encode=_ENCODE[accepts].replace("{slow}", written),
            slow=written,
        )
        if code not in helpers:
            helpers[code] = next(free_names(source, "_string_objects", helpers.values()))
        call = cst.Call(cst.Name(helpers[code]), [cst.Arg(values)])
        edits.change(output.node, partial(_instead, call))
    module = source.module.visit(edits)
    for code, name in reversed(helpers.items()):
        module = add_helper(module, code.replace("{name}", name))
    return module


def _instead(call: cst.Call, node: cst.CSTNode) -> cst.CSTNode:
    old = cst.ensure_type(node, cst.Call)
    return call.with_changes(lpar=old.lpar, rpar=old.rpar)


CODEMOD = Codemod(
    name="string_outputs",
    words=("bytes", '"S', "'S", '"|S', "'|S", "encode"),
    analyse=analyse,
    share=share_of_calls,
    explanation="A tensor of strings was made from an array of fixed-width bytes, in which every "
    "element is as wide as the longest. It is now made from an array of objects that holds the "
    "same bytes, without the zeros at an end that the fixed width had dropped, so the serialised "
    "tensor is the same. What is neither bytes nor a text of the expected kind goes through the "
    "original expression.",
)
