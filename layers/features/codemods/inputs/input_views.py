"""Codemod `input_views`: copies of numeric inputs that are only read become the input itself.

Matches `np.array(x)`, `x.copy()` and `x.astype(D)` where x holds a numeric input and D is the type
that config.pbtxt declares for it, and where all that happens to the copy makes something new of
it: arithmetic, comparisons, elementwise functions, joins. In a file that writes into anything
that may be an input, or hands it to what may, nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import libcst as cst

from layers.features.arrays import calls, input_name, is_array, numpy_name
from layers.features.codemod import Codemod, File, Rewrite, share_of_lines
from layers.features.codemods.inputs.functions import UnsafeError
from layers.features.codemods.inputs.reading import check_only_read
from layers.features.codemods.inputs.writes import check_calls, check_writes
from layers.features.editing import Edits, add_helper, as_argument
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_TYPES = {
    "TYPE_FP32": "float32",
    "TYPE_FP64": "float64",
    "TYPE_FP16": "float16",
    **{
        f"TYPE_{kind}{bits}": f"{kind.lower()}{bits}"
        for kind in ("INT", "UINT")
        for bits in (8, 16, 32, 64)
    },
}


@dataclass(frozen=True, eq=False)
class _Copy:
    """One copy: `values` is the input, `dtype` what it is converted to, as code."""

    node: cst.Call
    values: cst.BaseExpression
    dtype: str | None


def analyse(source: Source, file: File) -> Rewrite:
    """Return the copies that nobody needs, and those that are left."""
    found: list[Found] = []
    copies: list[_Copy] = []
    numpy = numpy_name(source)
    for call in source.all(cst.Call) if numpy else ():
        copy = _copy(source, file, call)
        if copy is None:
            continue
        try:
            check_writes(source)
            check_only_read(source, call)
            check_calls(source)
        except UnsafeError as reason:
            found.append(Refusal(str(reason), source.line(call)))
            continue
        copies.append(copy)
        lines = list(source.lines(call))
        found.append(Site(file.path, lines[0], lines, "copy of an input that is only read"))
    return Rewrite(found, partial(_edit, source, copies, numpy) if copies and numpy else None)


def _copy(source: Source, file: File, call: cst.Call) -> _Copy | None:
    """Return what is copied, None unless it is a numeric input in its own type."""
    values = _copied(source, call)
    if values is None or _is_rewritten(source, call) or not is_array(source, values):
        return None
    declared = file.inputs.get(input_name(source, values) or "", "")
    if declared not in _TYPES:
        return None
    if not _is_method(call, "astype"):
        return _Copy(call, values, None)
    dtype = call.args[0].value
    if not isinstance(dtype, cst.Attribute | cst.Name):
        return None
    same = source.qualified(dtype) == {f"numpy.{_TYPES[declared]}"}
    return _Copy(call, values, source.module.code_for_node(dtype)) if same else None


def _copied(source: Source, call: cst.Call) -> cst.BaseExpression | None:
    plain = not any(argument.star or argument.keyword for argument in call.args)
    if calls(source, call, "numpy.array"):
        return call.args[0].value if plain and len(call.args) == 1 else None
    wanted = 0 if _is_method(call, "copy") else 1 if _is_method(call, "astype") else None
    if wanted != len(call.args) or not plain:
        return None
    return cst.ensure_type(call.func, cst.Attribute).value


def _is_method(call: cst.Call, name: str) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == name


def _is_rewritten(source: Source, call: cst.Call) -> bool:
    """Return whether the copy is what a rewritten place still names as the original."""
    return isinstance(source.parent(call), cst.Lambda)


def _edit(source: Source, copies: list[_Copy], numpy: str) -> cst.Module:
    edits = Edits()
    helper = source.unused("_read_only", "_only_read", "_read_only")
    for copy in copies:
        edits.change(copy.node, partial(_replaced, source, copy, helper))
    code = _HELPER.replace("NAME", helper).replace("NUMPY", numpy)
    return add_helper(source.module.visit(edits), code)


def _replaced(source: Source, copy: _Copy, helper: str, node: cst.CSTNode) -> cst.CSTNode:
    del node
    code = source.module.code_for_node
    original = cst.ensure_type(copy.node.deep_replace(copy.values, cst.Name("values")), cst.Call)
    dtype = "" if copy.dtype is None else f", {copy.dtype}"
    original = original.with_changes(lpar=[], rpar=[])
    call = f"{helper}({code(as_argument(copy.values))}, lambda values: {code(original)}{dtype})"
    return cst.parse_expression(call).with_changes(lpar=copy.node.lpar, rpar=copy.node.rpar)


_HELPER = '''
def NAME(values, copied, dtype=None):
    """Return the values themselves where copied(values) would differ in nothing that is read."""
    if (
        type(values) is NUMPY.ndarray
        and values.flags.c_contiguous
        and values.flags.aligned
        and (dtype is None or values.dtype == dtype)
    ):
        return values
    return copied(values)
'''

CODEMOD = Codemod(
    name="input_views",
    words=("as_numpy",),
    analyse=analyse,
    share=share_of_lines,
    explanation="An input was copied, or converted to the type that it has, and the copy was only "
    "read. The input itself is now read, once it is known at run time to have that type and the "
    "layout of the copy. Nothing in the file writes into an input.",
)
