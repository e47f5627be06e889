"""The functions that the rewrite `ragged_padding` adds to a model's file, as text.

Each checks that its arguments are of the kind that it was written for; everything else, and every
error, comes from what stood there before.
"""

from __future__ import annotations


def row_code(name: str, numpy: str) -> str:
    """Return the function that pads one row, where NumPy is imported as `numpy`."""
    return _ROW.replace("NAME", name).replace("NUMPY", numpy)


def rows_code(name: str, numpy: str) -> str:
    """Return the function that pads many rows."""
    return _ROWS.replace("NAME", name).replace("NUMPY", numpy)


_ROW = '''
def NAME(values, before, after, constant, original):
    """Return original(values, before, after): one row of numbers padded with a constant."""
    row = NUMPY.asarray(values) if type(values) is list else values
    if (
        type(row) is not NUMPY.ndarray
        or row.ndim != 1
        or row.dtype.num > 12  # integers, float32 and float64
        or not row.dtype.isnative
        or not type(before) is type(after) is int
        or before < 0
        or after < 0
    ):
        return original(values, before, after)
    end = before + len(row)
    padded = NUMPY.empty(end + after, row.dtype)
    constant = NUMPY.asarray(constant)
    padded[:before] = constant
    padded[before:end] = row
    padded[end:] = constant
    return padded
'''

_ROWS = '''
def NAME(rows, width, constant, dtype, left, cut, original):
    """Return original(rows, width): lists of numbers as one array, padded to a width."""
    kind = NUMPY.dtype(dtype)
    if (
        type(rows) is not list
        or dtype is None  # the list's own type
        or type(width) is not int
        or type(constant) not in (int, float)
        or width < 1
        or not abs(constant) <= 2**31 - 1
        or kind.char not in "ilfd"
        or not kind.isnative
        or not rows
        or any(type(row) is not list for row in rows)
        or not {int, float}.issuperset(map(type, rows[0]))  # before all are gone through
        or not {int, float}.issuperset(map(type, rows[-1]))
    ):
        return original(rows, width)
    lengths = [min(len(row), width) for row in rows] if cut else [len(row) for row in rows]
    flat = []
    for row in rows:
        flat += row[:width] if cut else row
    if max(lengths) > width or not {int, float}.issuperset(map(type, flat)):
        return original(rows, width)
    padded = NUMPY.full((len(rows), width), constant, kind)
    lengths = NUMPY.array(lengths)[:, None]
    places = NUMPY.arange(width)
    padded[places >= width - lengths if left else places < lengths] = NUMPY.array(flat, kind)
    return padded
'''
