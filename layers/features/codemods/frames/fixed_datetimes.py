"""Codemod `fixed_datetimes`: read dates of a fixed format without interpreting the format.

`datetime.strptime` interprets its format and matches a regular expression per call; pandas'
`to_datetime` of one text makes an array, guesses the format and makes an index first. Where the
format's fields have fixed places the rewrite cuts the text and reads it with
`datetime.fromisoformat`, or a column of texts with NumPy; all else goes to the original call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import libcst as cst

from layers.features.codemod import Codemod, File, Rewrite, share_of_calls
from layers.features.codemods.frames.datetime_formats import UnsafeError, layout, slow_in_columns
from layers.features.codemods.frames.datetime_helpers import (
    DOCSTRING,
    Names,
    class_code,
    column_code,
    one_code,
)
from layers.features.codemods.frames.frames import NO_PANDAS, ONCE, is_stored
from layers.features.editing import Edits, add_helper
from layers.features.module_names import module_name, serves
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_STRPTIME = "datetime.datetime.strptime"
_PANDAS = "pandas.to_datetime"
_ATTRIBUTES = {"year", "month", "day", "hour", "minute", "second", "microsecond"}
_ADDED = {"dayofweek", "day_of_week", "dayofyear", "day_of_year", "quarter"}  # by pandas
_METHODS = {"weekday", "isoweekday", "date", "time", "toordinal"}
_BARE = cst.Name("text")


@dataclass(frozen=True, eq=False)
class _Call:
    """One call that reads a text; calls of equal `original` share a helper."""

    call: cst.Call
    original: str  # the call as the file has it, of a variable `text`
    format: str | None  # None where pandas is left to find it
    of_pandas: bool
    adds: bool  # whether a field is read that only pandas has
    column: bool  # whether many texts may be read at once


def analyse(source: Source, file: File) -> Rewrite:
    """Return the calls whose format is fixed, and those that are left."""
    analysis = _Analysis(source)
    found: list[Found] = [*analysis.sites(file.path), *analysis.refusals]
    return Rewrite(found, partial(_edit, analysis) if analysis.calls else None)


class _Analysis:
    """Which calls read a date, in which format, and what becomes of the result."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.pandas = module_name(source, "pandas")
        self.numpy = module_name(source, "numpy")
        self.calls: list[_Call] = []
        self.refusals: list[Refusal] = []
        for call in source.all(cst.Call):
            function = call.func
            if not isinstance(function, cst.Attribute | cst.Name):
                continue
            names = source.qualified(function)
            if not names & {_STRPTIME, _PANDAS} or self._is_helper(call):
                continue
            try:
                self.calls.append(self._read(call, of_pandas=_STRPTIME not in names))
            except UnsafeError as reason:
                self.refusals.append(Refusal(str(reason), source.line(call)))

    def sites(self, path: str) -> Iterator[Site]:
        """Yield one site per call."""
        for item in self.calls:
            lines = list(self.source.lines(item.call))
            many = "texts" if item.column else "a text"
            yield Site(path, lines[0], lines, f"{many} read as {item.format or 'a date'}")

    def _is_helper(self, call: cst.Call) -> bool:
        """Return whether the call is what an earlier rewrite left for other texts."""
        function = self.source.function_of(call)
        docstring = function.get_docstring() if function else None
        return docstring is not None and docstring.startswith(DOCSTRING)

    def _read(self, call: cst.Call, *, of_pandas: bool) -> _Call:
        if not serves(self.source, call):
            raise UnsafeError(ONCE)
        if of_pandas and self.pandas is None:
            raise UnsafeError(NO_PANDAS)
        if not call.args or any(a.star for a in call.args) or call.args[0].keyword:
            raise UnsafeError("the text is not the first argument")
        text, options = self._options(call) if of_pandas else self._format(call)
        where = None if text is None else layout(text)  # raises where a place is not fixed
        fields = {self._field(use) for use in self._uses(call)} if of_pandas else set()
        column = None in fields
        if column and (where is None or self.numpy is None):
            raise UnsafeError("the result is used for more than its fields, or is not one moment")
        if column and where is not None and not slow_in_columns(where):
            raise UnsafeError("pandas reads whole columns of this format in C")
        function = f"{self.pandas}.to_datetime" if of_pandas else "DATETIME.strptime"
        original = f"{function}({', '.join(['text', *options])})"
        return _Call(call, original, text, of_pandas, bool(fields & _ADDED), column)

    def _format(self, call: cst.Call) -> tuple[str, Sequence[str]]:
        if len(call.args) != 2 or call.args[1].keyword:
            raise UnsafeError("the format is not the second argument")
        text = self._constant(call.args[1].value)
        return text, [f'"{text}"']

    def _options(self, call: cst.Call) -> tuple[str | None, Sequence[str]]:
        """Return the format that pandas is given, if any, and all arguments after the text."""
        named = {a.keyword.value: a.value for a in call.args[1:] if a.keyword}
        if len(named) != len(call.args) - 1 or not named.keys() <= {"format", "errors"}:
            raise UnsafeError("pandas is given more than a format")
        values = {name: self._constant(node) for name, node in named.items()}
        if values.get("errors", "raise") not in {"raise", "coerce"}:
            raise UnsafeError("pandas is given more than a format")
        return values.get("format"), [f'{name}="{value}"' for name, value in values.items()]

    def _constant(self, node: cst.BaseExpression) -> str:
        value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
        if not isinstance(value, str):
            raise UnsafeError("an argument is not text written where the call is")
        return value

    def _uses(self, call: cst.Call) -> Sequence[cst.CSTNode]:
        """Return the expressions that stand for the result."""
        assign = self.source.parent(call)
        if not isinstance(assign, cst.Assign):
            return [call]
        target = assign.targets[0].target
        bound = self.source.assignments(target) if isinstance(target, cst.Name) else None
        if len(assign.targets) != 1 or not bound or len(bound) != 1:
            return [assign]
        return [reference.node for reference in bound[0].references if reference.node is not target]

    def _field(self, use: cst.CSTNode) -> str | None:
        """Return the one field that is asked of the expression, None if it may be more."""
        parent = self.source.parent(use)
        if not isinstance(parent, cst.Attribute) or parent.value is not use:
            return None
        above, field = self.source.parent(parent), parent.attr.value
        if isinstance(above, cst.Call) and above.func is parent:
            return field if field in _METHODS and not above.args else None
        stored = is_stored(self.source, parent)
        return field if field in _ATTRIBUTES | _ADDED and not stored else None


def _edit(analysis: _Analysis) -> cst.Module:
    source, edits = analysis.source, Edits()
    names = Names(
        datetime=source.unused("_datetime", "_datetime_class"),
        moment=source.unused("_Moment", "_PandasMoment"),
        pandas=analysis.pandas,
        numpy=analysis.numpy,
    )
    helpers = _Helpers(analysis, names)
    for item in analysis.calls:
        edits.change(item.call, partial(_called, helpers.of(item, column=item.column)))
    text = helpers.text()
    if f"{names.datetime}." in text or f"({names.datetime})" in text:
        text = f"from datetime import datetime as {names.datetime}\n{text}"
    return add_helper(source.module.visit(edits), text)


class _Helpers:
    """The functions that are added to the file, one for the calls that differ only in the text."""

    def __init__(self, analysis: _Analysis, names: Names) -> None:
        self._analysis = analysis
        self._names = names
        self._found: dict[tuple[str, bool], str] = {}
        self._code: list[str] = []

    def text(self) -> str:
        """Return the code of all of them."""
        adds = any(call.adds for call in self._analysis.calls)
        code = [class_code(self._names), *self._code] if adds else self._code
        return "".join(code).replace("DATETIME.", f"{self._names.datetime}.")

    def of(self, item: _Call, *, column: bool) -> str:
        """Return the name of the function for a call; what is no text may be many of them."""
        key = item.original, column
        if key in self._found:
            return self._found[key]
        rest = item.original
        where = layout(item.format) if item.format is not None and item.of_pandas else None
        many = where is not None and slow_in_columns(where) and self._names.numpy is not None
        if many and not column:
            rest = f"{self.of(item, column=True)}(text)"
        wish = "_parsed_datetimes" if column else "_parsed_datetime"
        taken = sum(of_column is column for _, of_column in self._found)
        self._found[key] = self._analysis.source.unused(f"{wish}_{taken + 1}" if taken else wish)
        self._code.append(self._function(item, rest, column=column))
        return self._found[key]

    def _function(self, item: _Call, rest: str, *, column: bool) -> str:
        name = self._found[item.original, column]
        if column and item.format is not None:
            return column_code(name, item.original, item.format, self._names)
        same = [call for call in self._analysis.calls if call.original == item.original]
        return one_code(
            name,
            item.original,
            item.format,
            self._names,
            rest=rest,
            of_pandas=item.of_pandas,
            adds=any(call.adds for call in same),
        )


def _called(name: str, node: cst.CSTNode) -> cst.CSTNode:
    """Return the call of the helper in place of the original one."""
    call = cst.ensure_type(node, cst.Call)
    argument = call.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return cst.Call(cst.Name(name), [argument], call.lpar, call.rpar)


CODEMOD = Codemod(
    name="fixed_datetimes",
    words=("strptime", "to_datetime"),
    analyse=analyse,
    share=share_of_calls,
    explanation="Each text was read by interpreting its format anew, or by building a pandas "
    "index of one element. A text with the format's literals in their places is now read by "
    "datetime.fromisoformat, which accepts the same digits and the same ranges; every other text "
    "goes to the original call, so errors, time zones and odd spellings are as before. A whole "
    "column is read at once where all its texts are of that form.",
)
