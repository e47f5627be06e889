"""Codemod `pandas_rows`: walk a frame's rows without making a pandas Series of each.

`frame.iterrows()` and `frame.apply(function, axis=1)` make a Series per row, and each look-up in
it by a column's name goes through an index. The rewrite hands the same code a dict of the cells
that it reads. The cells are those that the Series would hold, in type too, because they come
from the same `frame.values`; which frames that is true of is decided when the code runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import libcst as cst

from layers.features.codemod import Codemod, File, Rewrite, share_of_calls
from layers.features.codemods.frames.frames import (
    NO_PANDAS,
    ONCE,
    constant_key,
    is_stored,
    mentions,
)
from layers.features.codemods.frames.rows_helper import helper_code
from layers.features.editing import Edits, add_helper
from layers.features.module_names import module_name, serves
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_Loop = cst.For | cst.CompFor
_OWN = {"name", "index", "values", "shape", "size", "dtype", "T", "str", "dt"}  # of a Series
_WRITERS = {"at", "iat", "loc", "iloc"}  # what code writes through while it walks a frame


class UnsafeError(Exception):
    """The rows cannot be replaced; the text says why."""


@dataclass(frozen=True, eq=False)
class _Walk:
    """One walk over a frame's rows; `names` and `attributes` are the columns that are read."""

    call: cst.Call
    names: Sequence[str]
    attributes: Sequence[str]
    lines: Sequence[int]


def analyse(source: Source, file: File) -> Rewrite:
    """Return the walks over rows that need no Series, and those that are left."""
    analysis = _Analysis(source)
    found: list[Found] = [*analysis.sites(file.path), *analysis.refusals]
    return Rewrite(found, partial(_edit, analysis) if analysis.walks else None)


class _Analysis:
    """Which frames are walked row by row, and what is read of each row."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.pandas = module_name(source, "pandas")
        self.walks: list[_Walk] = []
        self.refusals: list[Refusal] = []
        for call in source.all(cst.Call):
            if not (_is_iterrows(call) or _is_apply(source, call)):
                continue
            try:
                self.walks.append(self._read(call))
            except UnsafeError as reason:
                self.refusals.append(Refusal(str(reason), source.line(call)))

    def sites(self, path: str) -> Iterator[Site]:
        """Yield one site per walk."""
        for walk in self.walks:
            how = _method(walk.call)
            what = f"{how} over rows of which {len(walk.names)} columns are read"
            yield Site(path, self.source.line(walk.call), walk.lines, what)

    def _read(self, call: cst.Call) -> _Walk:
        if self.pandas is None:
            raise UnsafeError(NO_PANDAS)
        if not serves(self.source, call):
            raise UnsafeError(ONCE)
        return self._loop(call) if _is_iterrows(call) else self._applied(call)

    def _loop(self, call: cst.Call) -> _Walk:
        """Read `for label, row in frame.iterrows()`, as a statement or in a comprehension."""
        loop = self.source.parent(call)
        if call.args or not isinstance(loop, _Loop) or loop.iter is not call:
            raise UnsafeError("iterrows() is not what a loop walks")
        row = _row_target(loop.target)
        if row is None:
            raise UnsafeError("the loop does not bind the label and the row to two names")
        body = self._body(loop)
        self._check_writes(call, body)
        uses = [use for use in self._references(row) if self.source.inside(use, body)]
        names, attributes = self._columns(uses)
        lines = {*self.source.lines(call), *(self.source.line(use) for use in uses)}
        return _Walk(call, names, attributes, sorted(lines))

    def _body(self, loop: _Loop) -> cst.CSTNode:
        """Return what runs once per row: a loop's body, or the whole comprehension."""
        if isinstance(loop, cst.For):
            return loop.body
        parent = self.source.parent(loop)
        if loop.inner_for_in is not None or not isinstance(parent, cst.BaseComp):
            raise UnsafeError("the comprehension has more than one loop")
        taken = isinstance(self.source.parent(parent), cst.Arg)
        if isinstance(parent, cst.GeneratorExp) and not taken:
            raise UnsafeError("the rows are read later than they are walked")
        return parent

    def _references(self, row: cst.Name) -> list[cst.Name]:
        """Return all uses of the row's name, once only such loops bind it and each is in one."""
        bound = self.source.assignments(row) or []
        targets = {item.node for item in bound}
        loops: list[_Loop] = [*self.source.all(cst.For), *self.source.all(cst.CompFor)]
        loops = [loop for loop in loops if _walked_row(loop) in targets]
        uses = {reference.node for item in bound for reference in item.references}
        for use in uses:
            owners = [loop for loop in loops if self.source.inside(use, self._extent(loop))]
            if len(loops) != len(targets) or len(owners) != 1:
                raise UnsafeError("the row's name is used or bound outside the loop")
        return [name for name in self.source.all(cst.Name) if name in uses]

    def _extent(self, loop: _Loop) -> cst.CSTNode:
        parent = self.source.parent(loop)
        whole = isinstance(loop, cst.CompFor) and isinstance(parent, cst.BaseComp)
        return parent if whole and parent is not None else loop

    def _check_writes(self, call: cst.Call, body: cst.CSTNode) -> None:
        """Refuse code that names the frame again, or writes to one, where its rows are walked."""
        frame = cst.ensure_type(call.func, cst.Attribute).value
        writers = {*_WRITERS, _last_name(frame)}
        for node in self.source.all(cst.Name):
            inside = self.source.inside(node, body) and not self.source.inside(node, call.func)
            if inside and node.value in writers:
                raise UnsafeError("the frame may be written to while it is walked")

    def _applied(self, call: cst.Call) -> _Walk:
        """Read `frame.apply(function, axis=1)`."""
        function = self._function(call.args[0].value)
        parameters = function.params
        plain = (*parameters.posonly_params, *parameters.params)
        starred = isinstance(parameters.star_arg, cst.Param) or parameters.star_kwarg is not None
        if len(plain) != 1 or starred or parameters.kwonly_params or plain[0].default is not None:
            raise UnsafeError("the function takes more than the row")
        self._check_writes(call, function.body)
        row = plain[0].name.value
        uses = list(mentions(self.source, row, function.body))
        names, attributes = self._columns(uses)
        lines = set(self.source.lines(call)) - set(self.source.lines(function.body))
        return _Walk(call, names, attributes, sorted(lines | {self.source.line(call)}))

    def _function(self, node: cst.BaseExpression) -> cst.Lambda | cst.FunctionDef:
        """Return the function that is applied, once it is certain which one that is."""
        if isinstance(node, cst.Lambda):
            return node
        bound = self.source.assignments(node) if isinstance(node, cst.Name) else None
        if not bound or len(bound) != 1 or not isinstance(bound[0].node, cst.FunctionDef):
            raise UnsafeError("the function that is applied is not certain from the file")
        function = bound[0].node
        if function.decorators or function.asynchronous or self.source.class_of(function):
            raise UnsafeError("the function that is applied is not a plain one")
        return function

    def _columns(self, uses: Sequence[cst.Name]) -> tuple[list[str], list[str]]:
        """Return the columns that the row is asked for, and those of them asked as attributes."""
        names: list[str] = []
        attributes: list[str] = []
        for use in uses:
            parent = self.source.parent(use)
            key = None
            if isinstance(parent, cst.Subscript) and parent.value is use:
                key = constant_key(parent)
            elif isinstance(parent, cst.Attribute) and not self._is_called(parent):
                key = parent.attr.value
                attributes.append(key)
                if key in _OWN or key.startswith("_"):
                    raise UnsafeError(f"{key!r} is an attribute of the row, not a column")
            if parent is None or key is None:
                raise UnsafeError("the row is used for more than its columns by name")
            if is_stored(self.source, parent):
                raise UnsafeError("the row is written to")
            names.append(key)
        if not names:
            raise UnsafeError("no column of the row is read")
        return sorted(set(names)), sorted(set(attributes))

    def _is_called(self, attribute: cst.Attribute) -> bool:
        parent = self.source.parent(attribute)
        return isinstance(parent, cst.Call) and parent.func is attribute


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _is_iterrows(call: cst.Call) -> bool:
    return _method(call) == "iterrows"


def _is_apply(source: Source, call: cst.Call) -> bool:
    """Return whether the call is `x.apply(function, axis=1)`."""
    if _method(call) != "apply" or len(call.args) != 2:
        return False
    function, axis = call.args
    if function.keyword or function.star or not axis.keyword or axis.keyword.value != "axis":
        return False
    return source.module.code_for_node(axis.value) in {"1", '"columns"', "'columns'"}


def _row_target(target: cst.BaseExpression) -> cst.Name | None:
    """Return `row` of `label, row`."""
    if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
        return None
    label, row = (element.value for element in target.elements)
    if not isinstance(label, cst.Name) or not isinstance(row, cst.Name):
        return None
    return row if label.value != row.value else None


def _walked_row(loop: _Loop) -> cst.Name | None:
    """Return the name of the row where the loop walks those of a frame."""
    walked = isinstance(loop.iter, cst.Call) and _is_iterrows(loop.iter)
    return _row_target(loop.target) if walked else None


def _last_name(node: cst.BaseExpression) -> str | None:
    """Return `frame` of `frame`, `self.frame` and `frame[...]`, None for what a call made."""
    if isinstance(node, cst.Subscript):
        return _last_name(node.value)
    if isinstance(node, cst.Name):
        return node.value
    return node.attr.value if isinstance(node, cst.Attribute) else None


def _edit(analysis: _Analysis) -> cst.Module:
    source, edits = analysis.source, Edits()
    rows = source.unused("_rows", "_frame_rows")
    applied = source.unused("_apply_rows", "_apply_frame_rows")
    for walk in analysis.walks:
        columns = f"{_written(walk.names)}, {_written(walk.attributes)}"
        edits.change(walk.call, partial(_called, rows, applied, columns))
    cells = source.unused("_Cells", "_RowCells")
    code = helper_code(analysis.pandas or "", rows, applied, cells)
    return add_helper(source.module.visit(edits), code)


def _written(names: Sequence[str]) -> str:
    """Return the tuple of texts as code, in double quotes where that changes nothing else."""
    texts = [repr(name) for name in names]
    texts = [text if set(text) & {'"', "\\"} else f'"{text[1:-1]}"' for text in texts]
    return f"({', '.join(texts)}{',' * (len(texts) == 1)})"


def _called(rows: str, applied: str, columns: str, node: cst.CSTNode) -> cst.CSTNode:
    """Return the call of the helper in place of the frame's method."""
    call = cst.ensure_type(node, cst.Call)
    frame = cst.ensure_type(call.func, cst.Attribute).value
    name = rows if _is_iterrows(call) else applied
    made = cst.ensure_type(cst.parse_expression(f"{name}(frame, {columns})"), cst.Call)
    first, *rest = made.args
    kept = [first.with_changes(value=frame), *call.args[:1], *rest]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args = [argument.with_changes(comma=comma) for argument in kept[:-1]]
    return made.with_changes(args=[*args, kept[-1]], lpar=call.lpar, rpar=call.rpar)


CODEMOD = Codemod(
    name="pandas_rows",
    words=("iterrows", "axis=1", 'axis="columns"', "axis='columns'", "axis = 1"),
    analyse=analyse,
    share=share_of_calls,
    explanation="pandas made a Series of each row, and looked each column up in its index. The "
    "same code now reads each row's cells from a dict. The cells come from the same array of the "
    "frame's values, so each has the type and the bits that the Series would hold; a frame of "
    "other kinds than plain numbers and text is walked by pandas as before.",
)
