"""The function that the rewrite `astype_roundtrips` adds to a model's file, as text.

The table says which array comes out of a list of Python numbers, by the array that the list was
made of. Pairs for which the way through Python may round or raise differently are not in it.
"""

from __future__ import annotations

FEWEST = 16  # elements; a list of fewer is made as quickly, and one of none has no type


def helper_code(name: str, numpy: str) -> str:
    """Return the function and its table, where NumPy is imported as `numpy`."""
    code = _CODE.replace("FEWEST", str(FEWEST))
    return code.replace("NAME", name).replace("NUMPY", numpy)


_CODE = '''
NAME_types = {
    "tolist": dict(zip("fdbhilBHI?", "ddlllllll?")),  # of Python's numbers
    "float": dict(zip("fdbhilBHI", "ddddddddd")),
    "int": dict(zip("bhilBHI", "lllllll")),
    "elements": {code: code for code in "fdbhilBHI?"},  # of NumPy's own scalars
}


def NAME(values, way, original, dtype=None):
    """Return original(values), an array of a list of all elements, without the list."""
    if type(values) is not NUMPY.ndarray or values.size < FEWEST or not values.dtype.isnative:
        return original(values)
    code = values.dtype.char
    made = NAME_types[way].get(code) if values.ndim == 1 or way == "tolist" else None
    if made is None:
        return original(values)
    if dtype is None:
        return values.astype(made, order="C")
    wanted = NUMPY.dtype(dtype)
    if wanted.char == made and wanted.isnative:
        return values.astype(made, order="C")
    exact = way in ("tolist", "elements") or (way == "float" and code in "fd")
    if wanted.char == code and wanted.isnative and exact:
        return values.astype(made, order="C").astype(code)  # a float's quiet bit as it was set
    if wanted.char == "d" and wanted.isnative and made == "l":
        return values.astype("d", order="C")
    return original(values)
'''
