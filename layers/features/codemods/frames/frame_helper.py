"""The class that the rewrite `frame_values` adds to a model's file.

It is text, because it runs in the model server's Python and belongs to the serving repository
from then on. What a frame's values look like (dtype, order in memory, whether they can be written)
is learned from pandas itself, once per kind of frame: it differs between pandas' versions.
"""

from __future__ import annotations


def helper_code(name: str, pandas: str, numpy: str) -> str:
    """Return the class under `name`, for a file that imports pandas and NumPy so."""
    return _CODE.replace("NAME", name).replace("PANDAS", pandas).replace("NUMPY", numpy)


_CODE = '''
class NAME:
    """Columns of which only the values are asked as one array, without a pandas frame.

    Takes what pandas.DataFrame takes. Columns that are not plain numbers of one length go to a
    real frame, in the order in which they came, and all that is asked from then on too.
    """

    _layouts = {}  # of a frame's values, by kind of frame; pandas was asked about two rows

    def __init__(self, *data):
        self._columns, self._given, self._picked, self._frame = {}, 0, None, None
        if not data:
            return
        if type(data[0]) is dict and data[0] and all(map(self._add, data[0], data[0].values())):
            self._given = len(self._columns)
        else:
            self._frame = PANDAS.DataFrame(*data)

    def __setitem__(self, name, values):
        if self._frame is not None or not self._add(name, values):
            self._real()[name] = values

    def __getitem__(self, names):
        plain = self._frame is None and type(names) is list and set(map(type, names)) == {str}
        if not plain or len(set(names)) < len(names) or not self._columns.keys() >= set(names):
            return self._real()[names]
        part = type(self)()
        part._columns, part._given, part._picked = self._columns, self._given, list(names)
        return part

    @property
    def values(self):
        return self._asked(lambda frame: frame.values)

    def to_numpy(self, *dtype, **named):
        return self._asked(lambda frame: frame.to_numpy(*dtype, **named), dtype, named)

    def _add(self, name, values):
        """Keep a copy of a column of numbers; return whether it was one, else keep nothing."""
        rows = len(next(iter(self._columns.values()))) if self._columns else 0
        kinds = set(map(type, values if type(values) is list else (values,)))
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is NUMPY.ndarray and type(values) is kind:
            column, wanted = values.copy(), "biuf"
        elif kind in (float, int, bool) and (rows or type(values) is list):
            column = NUMPY.array(values) if type(values) is list else NUMPY.full(rows, values)
            wanted = {float: "f", int: "i", bool: "b"}[kind]  # no int fits every dtype of ints
        else:
            return False
        if column.ndim != 1 or not len(column) or len(column) != (rows or len(column)):
            return False
        number = column.dtype.kind in wanted and column.dtype.itemsize <= 8
        if not number or not column.dtype.isnative:
            return False
        if type(name) is not str or name in self._columns:
            return False
        self._columns[name] = column
        return True

    def _real(self):
        """Return the real frame, from now on the only one."""
        if self._frame is None:
            self._frame = self._made(self._columns)
        return self._frame

    def _made(self, columns):
        """Return a frame of the columns, made the way this one was."""
        items = list(columns.items())
        frame = PANDAS.DataFrame(dict(items[: self._given])) if self._given else PANDAS.DataFrame()
        for name, column in items[self._given :]:
            frame[name] = column
        return frame if self._picked is None else frame[self._picked]

    def _asked(self, ask, *options):
        """Return the values that `ask` gets from a frame."""
        names = list(self._columns) if self._picked is None else self._picked
        if self._frame is not None or not names:
            return ask(self._real())
        kinds = tuple(column.dtype.char for column in self._columns.values())
        picked = self._picked and tuple(map(list(self._columns).index, names))
        key = self._given, picked, kinds, repr(options)
        if key not in self._layouts:
            if len(self._layouts) >= 64:
                self._layouts.clear()
            self._layouts[key] = self._layout(ask)
        if self._layouts[key] is None:
            return ask(self._real())
        dtype, order, writeable = self._layouts[key]
        rows = len(self._columns[names[0]])
        values = NUMPY.empty((rows, len(names)), dtype, order)
        for place, name in enumerate(names):
            values[:, place] = self._columns[name]
        values.flags.writeable = writeable
        return values

    def _layout(self, ask):
        """Return dtype, order and writeability of a frame's values; None if they are no numbers."""
        columns = self._columns
        small = {name: NUMPY.zeros(2, column.dtype) for name, column in columns.items()}
        values = ask(self._made(small))
        kept = all(NUMPY.can_cast(c.dtype, values.dtype, "same_kind") for c in columns.values())
        whole = values.flags.f_contiguous or values.flags.c_contiguous
        if values.dtype.kind not in "biuf" or not kept or not whole:
            return None
        return values.dtype, "F" if values.flags.f_contiguous else "C", values.flags.writeable
'''
