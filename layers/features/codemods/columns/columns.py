"""The class that the rewrite `concat_to_slices` adds to a model's file.

It is text, because it runs in the model server's Python and belongs to the serving repository
from then on. Its slow path keeps whole arrays and joins them with the original function, so
that whatever does not fit ends exactly as it did before.
"""

from __future__ import annotations


def helper_code(name: str, numpy: str) -> str:
    """Return the class under `name`, for a file that imports NumPy as `numpy`."""
    return _CODE.replace("NAME", name).replace("NUMPY", numpy)


_CODE = '''
class NAME:
    """Columns side by side in one buffer, written as they come instead of kept and joined.

    `joined` gives what joining one array per column gives, bit for bit. Parts that do not agree
    in dtype, rows or layout are kept as arrays and joined as ever.
    """

    _widths = {}  # of the last request, by site: how wide the next buffer starts; only a hint

    def __init__(self, dtype, site, flat=False):
        self._dtype = NUMPY.dtype(dtype)
        self._site = site
        self._flat = flat  # the parts that are joined have one dimension, not two
        self._buffer = None
        self._rows = None
        self._limit = self._used = 0
        self._blocks = {}  # arrays that are copied last, by their first column
        self._kept = None

    def add(self, values, rows):
        """Append a column of `rows` elements; assignment converts and fills."""
        used = self._used
        if (rows == self._rows and used < self._limit) or self._make_room(rows, 1):
            self._buffer[:, used] = values
            self._used = used + 1
        else:
            column = NUMPY.empty((rows, 1), self._dtype)
            column[:, 0] = values
            self._kept.append(column)

    def full(self, value, rows):
        """Append what NUMPY.full((rows, 1), value) makes; of a plain number a column."""
        if type(value) in (int, float, bool) or isinstance(value, NUMPY.generic):
            self.add(value, rows)
        else:
            self.block(NUMPY.full((rows, 1), value, self._dtype))

    def add_array(self, values):
        """Append an array as a column; assignment converts as astype does."""
        if type(values) is NUMPY.ndarray and values.ndim == 1:
            rows, used = len(values), self._used
            if (rows == self._rows and used < self._limit) or self._make_room(rows, 1):
                self._buffer[:, used] = values
                self._used = used + 1
                return
        self._keep()
        column = values.astype(self._dtype)
        self._kept.append(column if self._flat else column[:, None])

    def block(self, part):
        """Append an array that exists already; it is read when all are joined, as ever."""
        plain = type(part) is NUMPY.ndarray and part.ndim == 2 and part.dtype == self._dtype
        if plain and part.shape[1] and part.flags.c_contiguous and self._make_room(*part.shape):
            self._blocks[self._used] = part
            self._used += part.shape[1]
        else:
            self._keep()
            self._kept.append(part)

    def joined(self, join, *args, **kwargs):
        """Return all columns as one array; `join` is what joins the parts that were kept."""
        if self._kept is not None or not self._used:
            self._keep()
            return join(self._kept, *args, **kwargs)
        for at, part in self._blocks.items():
            self._buffer[:, at : at + part.shape[1]] = part
        self._widths[self._site] = self._used
        if self._used == self._limit:
            return self._buffer
        return self._buffer[:, : self._used].copy()

    def _make_room(self, rows, width):
        """Return whether `width` more columns fit; else the parts are kept from now on."""
        if self._kept is not None:
            return False
        if self._buffer is None:
            self._rows, self._limit = rows, max(self._widths.get(self._site, 0), width)
            self._buffer = NUMPY.empty((rows, self._limit), self._dtype)
        if rows != self._rows:
            self._keep()
            return False
        if self._used + width > self._limit:
            self._limit = 2 * (self._used + width)
            grown = NUMPY.empty((rows, self._limit), self._dtype)
            grown[:, : self._used] = self._buffer[:, : self._used]
            self._buffer = grown
        return True

    def _keep(self):
        if self._kept is not None:
            return
        self._kept, self._rows, at = [], None, 0
        while at < self._used:
            part = self._blocks.get(at)
            if part is None:
                part = self._buffer[:, at] if self._flat else self._buffer[:, at : at + 1]
            self._kept.append(part)
            at += part.shape[1] if part.ndim == 2 else 1
'''
