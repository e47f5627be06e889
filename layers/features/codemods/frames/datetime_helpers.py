"""The functions that the rewrite `fixed_datetimes` adds to a model's file, as text."""

from __future__ import annotations

from dataclasses import dataclass

from layers.features.codemods.frames.datetime_formats import (
    ISO_TESTS,
    WIDTHS,
    iso_text,
    layout,
    tests,
)

DOCSTRING = "Read dates as "


@dataclass(frozen=True)
class Names:
    """How the model's file names what the functions use."""

    datetime: str
    moment: str
    pandas: str | None
    numpy: str | None


def class_code(names: Names) -> str:
    """Return the class of a moment with the fields that pandas adds."""
    return _CLASS.format(name=names.moment, datetime=names.datetime)


def one_code(
    name: str,
    original: str,
    text: str | None,
    names: Names,
    *,
    rest: str,
    of_pandas: bool,
    adds: bool,
) -> str:
    """Return the function that reads one text of a format; without one, as pandas finds it.

    What it does not read is left to the call `rest`. NumPy's own kind of text, which its arrays
    hold, is read too where the original surely does so.
    """
    where = layout(text) if text is not None else None
    read = _READ_OF_PANDAS if of_pandas else _READ
    class_name = names.moment if adds else names.datetime
    return _ONE.format(
        name=name,
        docstring=DOCSTRING,
        original=original,
        rest=rest,
        kinds=f"in (str, {names.numpy}.str_)" if names.numpy and not of_pandas else "is str",
        condition="\n        and ".join(tests(where) if where else ISO_TESTS),
        read=read.format(class_name=class_name, iso=iso_text(where) if where else "text"),
    )


def column_code(name: str, original: str, text: str, names: Names) -> str:
    """Return the function that reads a list, an array or a series of texts of one format."""
    where = layout(text)
    fields = [
        f"        digits[:, {start}:{start + WIDTHS[field]}] @ tens[-{WIDTHS[field]}:],"
        for field, start in sorted(where.starts.items(), key=lambda item: "YmdHMSf".index(item[0]))
    ]
    times = [_TIMES[field] for field in "HMSf" if field in where.starts]
    limits = [f"({_NAMES[f]} < {limit})" for f, limit in _LIMITS.items() if f in where.starts]
    code = _COLUMN.replace("ORIGINAL", original).replace("NAME", name)
    code = (
        code.replace("FORMAT", text)
        .replace("DOCSTRING", DOCSTRING)
        .replace("WIDTH", str(where.width))
    )
    code = code.replace("LITERALS", repr(dict(where.literals)).replace("'", '"'))
    code = code.replace("FIELDS", "\n".join(fields))
    code = code.replace("VARIABLES", ", ".join(_NAMES[f] for f in "YmdHMSf" if f in where.starts))
    code = code.replace("LIMITS", "".join(f" & {limit}" for limit in limits))
    unit = "us" if "f" in where.starts else "s"
    code = code.replace("ADDED", "".join(f" + {time}" for time in times)).replace("UNIT", unit)
    return code.replace("PANDAS", names.pandas or "").replace("NUMPY", names.numpy or "")


_NAMES = {"Y": "year", "m": "month", "d": "day", "H": "hour", "M": "minute", "S": "second"}
_NAMES["f"] = "micros"
_LIMITS = {"H": 24, "M": 60, "S": 60}
_TIMES = {
    "H": 'hour.astype("m8[h]")',
    "M": 'minute.astype("m8[m]")',
    "S": 'second.astype("m8[s]")',
    "f": 'micros.astype("m8[us]")',
}

_ONE = '''
def {name}(text):
    """{docstring}{original}, by the places of their fields."""
    if (
        type(text) {kinds}
        and {condition}
    ):
        try:
{read}
        except ValueError:
            pass  # not such a date: the original call says so, or knows better
    return {rest}
'''
_READ = "            return {class_name}.fromisoformat({iso})"
_READ_OF_PANDAS = """\
            moment = {class_name}.fromisoformat({iso})
            if 1678 <= moment.year <= 2261:  # what pandas can hold in nanoseconds
                return moment"""

_CLASS = '''
class {name}({datetime}):
    """A moment with the fields that pandas adds to those of a datetime."""

    @property
    def dayofweek(self):
        return self.weekday()

    @property
    def dayofyear(self):
        return self.timetuple().tm_yday

    @property
    def quarter(self):
        return (self.month + 2) // 3

    day_of_week = dayofweek
    day_of_year = dayofyear
'''

_COLUMN = '''
def NAME(text, dtypes={}):
    """DOCSTRINGORIGINAL, all at once by the places of their fields.

    `dtypes` keeps what pandas makes of such texts; it differs between its versions.
    """
    if type(text) not in (list, NUMPY.ndarray, PANDAS.Series) or getattr(text, "ndim", 1) != 1:
        return ORIGINAL
    series = type(text) is PANDAS.Series
    cells = text if type(text) is list else text.tolist()
    if len(cells) < 8 or set(map(type, cells)) != {str} or set(map(len, cells)) != {WIDTH}:
        return ORIGINAL
    joined = "".join(cells)
    if not joined.isascii() or (series and (text.attrs or not text.flags.allows_duplicate_labels)):
        return ORIGINAL
    codes = NUMPY.frombuffer(joined.encode(), NUMPY.uint8).reshape(-1, WIDTH)
    literals = LITERALS
    if any((codes[:, at] != ord(literal)).any() for at, literal in literals.items()):
        return ORIGINAL
    digits = (codes - NUMPY.uint8(48)).astype(NUMPY.int64)
    digits[:, list(literals)] = 0
    tens = 10 ** NUMPY.arange(5, -1, -1)
    VARIABLES = (
FIELDS
    )
    years = (year - 1970).astype("M8[Y]")
    months = years.astype("M8[M]") + (month - 1)
    days = months.astype("M8[D]") + (day - 1)
    known = (days.astype("M8[M]") == months) & (months.astype("M8[Y]") == years)
    known &= (year > 1677) & (year < 2262)
    if (digits > 9).any() or not (knownLIMITS).all():
        return ORIGINAL
    if "dtype" not in dtypes:
        dtypes["dtype"] = PANDAS.to_datetime(cells[:1], format="FORMAT").dtype
    moments = (days.astype("M8[UNIT]")ADDED).astype(dtypes["dtype"])
    if not series:
        return PANDAS.DatetimeIndex(moments)
    return PANDAS.Series(moments, index=text.index, name=text.name)
'''
