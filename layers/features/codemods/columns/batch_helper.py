"""The functions that the rewrite `ufunc_batches` adds to a model's file, as text.

They run in the model server's Python. Columns that are alike in type and shape become the rows of
one array; every other column, and everything as soon as anything is raised, is computed one by
one in the order of old, so that errors come where they came.
"""

from __future__ import annotations

MOST = 16384  # elements of one batch: several times that, and its arrays leave the cache


def helper_code(name: str, numpy: str) -> str:
    """Return the functions under `name` and `name`_rows, where NumPy is imported as `numpy`."""
    return _CODE.replace("NAME", name).replace("NUMPY", numpy).replace("MOST", str(MOST))


_CODE = '''
def NAME(names, fetch, compute, *numbers):
    """Yield each name with compute(fetch(name)), columns of one kind computed at once."""
    plain = all(type(number) in (int, float) and number == number for number in numbers)
    if not plain or type(names) not in (list, tuple):
        for name in names:
            yield name, compute(fetch(name))
        return
    columns, failed, computed = [], None, None
    try:
        for name in names:
            columns.append(fetch(name))
        computed = NAME_rows(columns, compute)
    except Exception as error:
        failed = error if len(columns) < len(names) else None  # else raised below, in its turn
    if computed is not None:
        yield from zip(names, computed)
        return
    for name, column in zip(names, columns):
        yield name, compute(column)
    if failed is not None:
        raise failed


def NAME_rows(columns, compute):
    """Return compute of each column; it works element by element, so rows do not mix."""
    alike = {}
    for at, column in enumerate(columns):
        plain = (
            type(column) is NUMPY.ndarray
            and column.dtype.num <= 12  # integers, float32 and float64
            and column.dtype.isnative
            and column.flags.c_contiguous
            and 0 < column.ndim <= 2
        )
        alike.setdefault((column.dtype.num, column.shape) if plain else at, []).append(at)
    computed = [None] * len(columns)
    for kind, places in alike.items():
        at_once = MOST // max(columns[places[0]].size, 1) if len(places) > 1 else 1
        if at_once < 3:  # nothing is gained by two
            for at in places:
                computed[at] = compute(columns[at])
            continue
        for start in range(0, len(places), at_once):
            batch = places[start : start + at_once]
            rows = NUMPY.concatenate([columns[at] for at in batch])
            for at, row in zip(batch, compute(rows.reshape(len(batch), *kind[1]))):
                computed[at] = row
    return computed
'''
