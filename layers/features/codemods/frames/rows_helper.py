"""The functions that the rewrite `pandas_rows` adds to a model's file.

They are text, because they run in the model server's Python and belong to the serving repository
from then on.
"""

from __future__ import annotations


def helper_code(pandas: str, rows: str, applied: str, cells: str) -> str:
    """Return the helpers under the given names, for a file that imports pandas as `pandas`."""
    code = _CODE.replace("PANDAS", pandas).replace("APPLIED", applied)
    return code.replace("ROWS", rows).replace("CELLS", cells)


# Why each test is there. Columns: a Series looks equal names up together, and answers an attribute
# with its own method first. Values: pandas takes a row from the one array for all columns, so one
# column's type changes the others'. Inference: iterrows makes a Series of each row's objects, and of
# a row of dates (or text, where it may not be Unicode) pandas makes another dtype.
_CODE = '''
class CELLS(dict):
    """One row's cells by column, as the Series that pandas makes of a row would give them."""

    __slots__ = ()
    __getattr__ = dict.__getitem__

    @classmethod
    def of(cls, frame, names, attributes, walked=False):
        """Return the cells of each row, None for a frame that is left to pandas."""
        if type(frame) is not PANDAS.DataFrame or len(frame) < 4:
            return None  # of a few rows a Series each is cheaper than the tests here
        columns = frame.columns
        if not columns.is_unique or type(columns) is not PANDAS.Index:
            return None
        if any(hasattr(PANDAS.Series, name) or hasattr(dict, name) for name in attributes):
            return None
        at = {name: place for place, name in enumerate(columns) if type(name) is str}
        if not all(name in at for name in names):
            return None
        special = PANDAS.api.extensions.ExtensionDtype
        kinds = list(frame.dtypes)
        if any(isinstance(kind, special) and kind != "str" for kind in kinds):
            return None
        values = frame.values
        if values.dtype.kind not in "biufO":
            return None
        if walked and values.dtype == object and not cls._kept(frame, kinds, values):
            return None
        cells = zip(*(list(values[:, at[name]]) for name in names))
        return (cls(zip(names, row)) for row in cells)

    @staticmethod
    def _kept(frame, kinds, values):
        """Return whether pandas keeps a row of these objects as it is, inferring no dtype."""
        for place, kind in enumerate(kinds if values.size > 1000 else ()):
            if kind.kind in "biu" or (kind.kind == "f" and frame.iloc[:, place].notna().all()):
                return True  # no row is all dates or all text
        if not set(map(type, values.flat)) <= {str, bytes, int, float, bool}:
            return False
        try:
            "".join([cell for cell in values.flat if type(cell) is str]).encode()
        except UnicodeEncodeError:
            return False
        return True


def ROWS(frame, names, attributes):
    """Return what frame.iterrows() yields, with the cells of `names` in place of a Series."""
    cells = CELLS.of(frame, names, attributes, walked=True)
    return frame.iterrows() if cells is None else zip(frame.index, cells)


def APPLIED(frame, function, names, attributes):
    """Return frame.apply(function, axis=1) of a function that reads `names` of the row."""
    cells = CELLS.of(frame, names, attributes)
    if cells is None or frame.attrs or not frame.flags.allows_duplicate_labels:
        return frame.apply(function, axis=1)
    results = dict(enumerate(map(function, cells)))
    if all(map(PANDAS.api.types.is_scalar, results.values())):
        made = PANDAS.Series(results)
        made.index = frame.index
        return made
    ready = iter(results.values())
    return frame.apply(lambda _: next(ready), axis=1)
'''
