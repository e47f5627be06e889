"""The function that the rewrite `fill_missing` adds to a model's file, as text.

It runs in the model server's Python. Whatever is not a plain array of floats, and every case that
needs more than one value for what is there, goes through the original function.
"""

from __future__ import annotations

import re

import libcst as cst


def helper_code(name: str, numpy: str) -> str:
    """Return the function under `name`, for a file that imports NumPy as `numpy`."""
    return _CODE.replace("NAME", name).replace("NUMPY", numpy)


def is_fill_helper(function: cst.FunctionDef) -> bool:
    """Return whether `function` is this helper, under whatever name."""
    code = cst.Module([]).code_for_node(function.with_changes(leading_lines=[])).strip()
    numpy = re.search(r"(\w+)\.ndarray", code)
    return (
        bool(numpy) and code == helper_code(function.name.value, numpy[1] if numpy else "").strip()
    )


_CODE = '''
def NAME(values, dtype=None, nan=0.0, posinf=None, neginf=None):
    """Return nan_to_num of values.astype(dtype), or of the values without a dtype."""
    fresh = dtype is not None
    given = values.astype(dtype) if fresh else values
    if (
        type(values) is NUMPY.ndarray
        and values.flags.c_contiguous
        and given.ndim
        and given.dtype.char in "fd"
        and given.dtype.isnative
    ):
        finite = NUMPY.isfinite(given)
        if b"\\0" not in finite.tobytes():  # quicker than all() on a column
            return given if fresh else given.copy()
        alike = nan is posinf and nan is neginf
        missing = NUMPY.logical_not(finite) if alike else NUMPY.isnan(given)
        if alike or b"\\0" not in NUMPY.logical_or(finite, missing).tobytes():
            filled = given if fresh else given.copy()
            NUMPY.copyto(filled, nan, where=missing)
            return filled
    return NUMPY.nan_to_num(given, nan=nan, posinf=posinf, neginf=neginf)
'''
