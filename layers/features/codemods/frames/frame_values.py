"""Codemod `frame_values`: one array of columns without the pandas frame between them.

Matches a frame that is made from nothing or from one argument, gets columns by assignment, and is
then asked once for `.values` or `.to_numpy()`, whole or of a list of columns, and for nothing else.
Only the class that is called changes: `frame_helper.py` decides on the columns that come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import libcst as cst

from layers.features.codemod import Codemod, File, Rewrite, share_of_calls
from layers.features.codemods.frames.frame_helper import helper_code
from layers.features.codemods.frames.frames import NO_PANDAS, ONCE, constant_key
from layers.features.editing import Edits, add_helper
from layers.features.module_names import module_name, serves
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Comprehension, Source

_FRAME = "pandas.DataFrame"
_REPEATED = (cst.For, cst.While, *Comprehension, cst.FunctionDef, cst.Lambda)


class UnsafeError(Exception):
    """The frame is needed, or may be; the text says why."""


@dataclass(frozen=True, eq=False)
class _Converter:
    """A frame that only turns columns into one array."""

    made: cst.Call
    assigned: int  # how many statements give it columns
    lines: Sequence[int]


def analyse(source: Source, file: File) -> Rewrite:
    """Return the frames that only turn columns into an array, and those that are left."""
    analysis = _Analysis(source)
    found: list[Found] = [*analysis.sites(file.path), *analysis.refusals]
    return Rewrite(found, partial(_edit, analysis) if analysis.converters else None)


class _Analysis:
    """Which frames are made, and what becomes of each."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.pandas = module_name(source, "pandas")
        self.numpy = module_name(source, "numpy")
        self.converters: list[_Converter] = []
        self.refusals: list[Refusal] = []
        for call in source.all(cst.Call):
            function = call.func
            if not isinstance(function, cst.Attribute | cst.Name):
                continue
            if _FRAME not in source.qualified(function):
                continue
            try:
                self.converters.append(self._read(call))
            except UnsafeError as reason:
                self.refusals.append(Refusal(str(reason), source.line(call)))

    def sites(self, path: str) -> Iterator[Site]:
        """Yield one site per frame, with the lines that make, fill and read it."""
        for item in self.converters:
            what = f"a frame filled by {item.assigned} assignments for its values alone"
            yield Site(path, self.source.line(item.made), item.lines, what)

    def _read(self, made: cst.Call) -> _Converter:
        if self.pandas is None:
            raise UnsafeError(NO_PANDAS)
        if self.numpy is None:
            raise UnsafeError("the file does not import numpy under one name at its top")
        if len(made.args) > 1 or any(a.keyword or a.star for a in made.args):
            raise UnsafeError("the frame is made with more than its data")
        if not serves(self.source, made):
            raise UnsafeError(ONCE)
        uses = self._uses(made)
        assigned = [use for use in uses if self._is_assigned(use)]
        read = [use for use in uses if use not in assigned]
        if len(read) != 1 or self._read_of(read[0]) is None:
            raise UnsafeError("the frame is used for more than its columns and values")
        if self._loop_of(read[0]) is not self._loop_of(made):
            raise UnsafeError("the values are read in another loop or function than the frame's")
        if not assigned and not made.args:
            raise UnsafeError("the frame has no columns")
        lines = {*self.source.lines(made), *self.source.lines(read[0])}
        for use in assigned:
            lines.add(self.source.line(use))
        return _Converter(made, len(assigned), sorted(lines))

    def _uses(self, made: cst.Call) -> list[cst.BaseExpression]:
        """Return the expressions that stand for the frame after it is made."""
        assign = self.source.parent(made)
        if not isinstance(assign, cst.Assign):
            return [made]
        target = assign.targets[0].target
        bound = self.source.assignments(target) if isinstance(target, cst.Name) else None
        if len(assign.targets) != 1 or not bound or len(bound) != 1:
            raise UnsafeError("the frame is bound more than once, or elsewhere")
        nodes = {reference.node for reference in bound[0].references} - {target}
        return [node for node in self.source.all(cst.Name) if node in nodes]

    def _is_assigned(self, use: cst.BaseExpression) -> bool:
        """Return whether this is `frame[name] = values`."""
        item = self.source.parent(use)
        target = self.source.parent(item) if item else None
        if not isinstance(item, cst.Subscript) or item.value is not use or not _one_index(item):
            return False
        assign = self.source.parent(target) if isinstance(target, cst.AssignTarget) else None
        return isinstance(assign, cst.Assign) and len(assign.targets) == 1

    def _read_of(self, use: cst.BaseExpression) -> cst.Attribute | None:
        """Return `frame.values` or `frame.to_numpy`, also of `frame[names]`."""
        parent = self.source.parent(use)
        if isinstance(parent, cst.Subscript) and parent.value is use and _one_index(parent):
            if constant_key(parent) is not None:
                raise UnsafeError("one column of the frame is read, not its values")
            use, parent = parent, self.source.parent(parent)
        if not isinstance(parent, cst.Attribute) or parent.value is not use:
            return None
        call = self.source.parent(parent)
        called = isinstance(call, cst.Call) and call.func is parent
        if parent.attr.value == "values":
            stored = isinstance(call, cst.AssignTarget | cst.AugAssign | cst.Del)
            return None if called or stored else parent
        if parent.attr.value != "to_numpy" or not isinstance(call, cst.Call) or not called:
            return None
        plain = len(call.args) <= 1 and not any(a.star for a in call.args)
        named = {a.keyword.value for a in call.args if a.keyword}
        return parent if plain and named <= {"dtype"} else None

    def _loop_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the innermost loop or function that contains `node`."""
        return next((p for p in self.source.ancestors(node) if isinstance(p, _REPEATED)), None)


def _one_index(node: cst.Subscript) -> bool:
    return len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)


def _edit(analysis: _Analysis) -> cst.Module:
    source, edits = analysis.source, Edits()
    name = source.unused("_FrameColumns", "_ColumnsOfFrame")
    for item in analysis.converters:
        function = item.made.func
        edits.change(function, lambda _: cst.Name(name))
    code = helper_code(name, analysis.pandas or "", analysis.numpy or "")
    return add_helper(source.module.visit(edits), code)


CODEMOD = Codemod(
    name="frame_values",
    words=("DataFrame",),
    analyse=analyse,
    share=share_of_calls,
    explanation="A pandas frame was filled column by column only to be read as one array. The "
    "columns are now copied into that array directly. Its dtype, its order in memory and whether "
    "it can be written are asked of pandas once per kind of frame; columns that are not plain "
    "numbers of one length go to a real frame, in the same order, as before.",
)
