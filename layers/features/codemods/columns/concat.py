"""Codemod `concat_to_slices`: columns written into one buffer instead of kept and joined.

Matches a list of a function's own that is filled by `append` and joined once along the last
axis, where at least one part is an array allocated only to be a column: `x.astype(D)` shaped
to a column, `np.full((rows, 1), ...)`, or a call of a function of the same file that allocates
a column, assigns to it and returns it. Everything else that is appended is copied into the
buffer where it fits, and else kept as it is (`columns.py` holds the code that decides that).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import libcst as cst

from layers.features.codemod import Codemod, File, Rewrite, share_of_lines
from layers.features.codemods.columns.columns import helper_code
from layers.features.codemods.columns.parts import Part, PartReader
from layers.features.editing import Change, Edits, add_helper
from layers.features.module_names import module_name
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source, places_of

_STACKS = {"numpy.stack", "numpy.column_stack"}  # parts are one-dimensional
_JOINS = {"numpy.concatenate", "numpy.hstack"} | _STACKS
_NEEDS_AXIS = {"numpy.concatenate", "numpy.stack"}
_APPEND = cst.Attribute(cst.Name("columns"), cst.Name("append"))
_LAST_AXIS = {"1", "-1"}
_NESTED = "the join is a part of another one"


class UnsafeError(Exception):
    """The list cannot be replaced; the text says why."""


@dataclass(eq=False)
class _Collected:
    """A list of parts, from where it is made to where it is joined.

    A list written out is read as appends, in order, right before the statement that joins it.
    """

    name: str
    made: cst.BaseExpression  # the list: empty and filled by appends, or written out
    join: cst.Call
    stacked: bool
    statement: cst.SimpleStatementLine | None = None  # that joins a list written out
    appends: list[tuple[cst.Call, Part]] = field(default_factory=list)

    @property
    def dtype(self) -> str:
        """Return the one dtype of the columns, as the file spells it."""
        return next(part.dtype for _, part in self.appends if part.dtype)


def analyse(source: Source, file: File) -> Rewrite:
    """Return the joins whose columns can be written in place, and those that are left."""
    analysis = _Analysis(source)
    found: list[Found] = [*analysis.sites(file.path), *analysis.refusals]
    return Rewrite(found, partial(_edit, analysis) if analysis.collected else None)


class _Analysis:
    """Which joins there are, and what their parts are made of."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.collected: list[_Collected] = []
        self.refusals: list[Refusal] = []
        self.numpy = module_name(source, "numpy")
        self._parts = PartReader(source)
        self._unused = source.unused("columns", "column_parts", "columns")
        for call in source.all(cst.Call):
            if self._joins(call):
                try:
                    self.collected.append(self._collect(call))
                except UnsafeError as reason:
                    self.refusals.append(Refusal(str(reason), source.line(call)))
        self._leave([item for item in self.collected if self._is_part(item)], _NESTED)
        if self.numpy is None:
            self._leave(self.collected, "NumPy is not imported before the first function")

    def _leave(self, items: Sequence[_Collected], reason: str) -> None:
        self.refusals += [Refusal(reason, self.source.line(item.join)) for item in items]
        self.collected = [item for item in self.collected if item not in items]

    def _is_part(self, item: _Collected) -> bool:
        """Return whether the join stands in what another one joins, which is taken as it is."""
        around = [
            node
            for other in self.collected
            if other is not item
            for node in (other.join, *(append for append, _ in other.appends))
        ]
        return any(self.source.inside(item.join, node) for node in around)

    def sites(self, path: str) -> Iterator[Site]:
        """Yield one site per join, with the lines that allocate, append and join."""
        for item in self.collected:
            lines = set(self.source.lines(item.join))
            for append, part in item.appends:
                lines.update(() if item.statement else self.source.lines(append))
                lines.update(self.source.lines(part.factory) if part.factory else ())
            what = f"{len(item.appends)} kinds of parts joined from {item.name!r}"
            yield Site(path, self.source.line(item.join), sorted(lines), what)

    def _joins(self, call: cst.Call) -> bool:
        function = call.func
        if not (isinstance(function, cst.Attribute) and isinstance(function.value, cst.Name)):
            return False
        return bool(self.source.qualified(function) & _JOINS)

    def _collect(self, join: cst.Call) -> _Collected:
        name = self._joined_list(join)
        if not isinstance(name, cst.Name):
            return self._written_out(join, name)
        bound = self.source.assignments(name)
        if bound is None or len(bound) != 1:
            raise UnsafeError("the list is bound more than once, or elsewhere")
        made = self._empty_list(bound[0].node)
        found = _Collected(name.value, made, join, self._is_stacked(join))
        block = self._block_of(made)
        if places_of(self.source, join, block)[1]:
            raise UnsafeError("the list is joined in a loop or later than it stands")
        for reference in bound[0].references:
            self._read(reference.node, name, found, block)
        self._check(found)
        return found

    def _joined_list(self, join: cst.Call) -> cst.Name | cst.List | cst.Tuple:
        """Return the list that is joined, once it is along the last axis and nothing else."""
        names = self.source.qualified(_function(join)) & _JOINS
        parts = None if not join.args or join.args[0].keyword else join.args[0].value
        if not isinstance(parts, cst.Name | cst.List | cst.Tuple):
            raise UnsafeError("the parts are neither a list with a name nor written out")
        rest = [self.source.module.code_for_node(a.value) for a in join.args[1:]]
        keywords = {a.keyword.value for a in join.args[1:] if a.keyword}
        axis_given = len(rest) == 1 and rest[0] in _LAST_AXIS and keywords <= {"axis"}
        if not (axis_given if names & _NEEDS_AXIS else not rest):
            raise UnsafeError("not joined along the last axis of a matrix")
        return parts

    def _written_out(self, join: cst.Call, parts: cst.List | cst.Tuple) -> _Collected:
        """Read a list whose elements are written where it is joined."""
        statement = self._whole_statement(join)
        found = _Collected(self._unused, parts, join, self._is_stacked(join), statement)
        code = self.source.module.code_for_node(parts)
        if any(isinstance(e, cst.StarredElement) for e in parts.elements) or "#" in code:
            raise UnsafeError("the list that is written out holds more than plain elements")
        for element in parts.elements:
            append = cst.Call(_APPEND.with_deep_changes(_APPEND.value, value=found.name))
            append = append.with_changes(args=[cst.Arg(element.value)])
            part = self._parts.read(element.value, stacked=found.stacked)
            found.appends.append((append, part))
        self._check(found)
        return found

    def _whole_statement(self, join: cst.Call) -> cst.SimpleStatementLine:
        """Return the statement that does nothing but assign or return the join."""
        parent = self.source.parent(join)
        statement = self.source.parent(parent) if parent else None
        plain = isinstance(parent, cst.Return) or (
            isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Name)
        )
        if not (plain and isinstance(statement, cst.SimpleStatementLine)):
            raise UnsafeError("the join is part of a larger expression")
        in_block = isinstance(self.source.parent(statement), cst.IndentedBlock)
        if not in_block or len(statement.body) != 1 or self.source.function_of(join) is None:
            raise UnsafeError("the join does not stand on a line of its own in a function")
        return statement

    def _is_stacked(self, join: cst.Call) -> bool:
        return bool(self.source.qualified(_function(join)) & _STACKS)

    def _empty_list(self, node: cst.CSTNode) -> cst.BaseExpression:
        target = self.source.parent(node)
        assign = self.source.parent(target) if target else None
        if isinstance(assign, cst.Assign) and len(assign.targets) == 1:
            value = assign.value
            if isinstance(value, cst.List) and not value.elements:
                return value
        raise UnsafeError("the list is not empty where it is made")

    def _block_of(self, node: cst.CSTNode) -> cst.IndentedBlock:
        for parent in self.source.ancestors(node):
            if isinstance(parent, cst.IndentedBlock):
                if self.source.function_of(node) is None:
                    break
                return parent
        raise UnsafeError("the list is not of a function's own")

    def _read(
        self, node: cst.CSTNode, name: cst.Name, found: _Collected, block: cst.IndentedBlock
    ) -> None:
        """Note one use of the list; raises UnsafeError unless it is an append before the join."""
        if node is name:
            return
        attribute = self.source.parent(node)
        call = self.source.parent(attribute) if attribute else None
        statement = self.source.parent(call) if call else None
        if not (
            isinstance(attribute, cst.Attribute)
            and attribute.attr.value == "append"
            and isinstance(call, cst.Call)
            and call.func is attribute
            and isinstance(statement, cst.Expr)
            and len(call.args) == 1
            and self.source.inside(call, block)
        ):
            raise UnsafeError("the list is used for more than append and this join")
        if places_of(self.source, call, block)[2]:
            raise UnsafeError("a nested function appends to the list")
        if self.source.line(call) > self.source.line(found.join):
            raise UnsafeError("something is appended after the join")
        part = self._parts.read(call.args[0].value, stacked=found.stacked)
        found.appends.append((call, part))

    def _check(self, found: _Collected) -> None:
        dtypes = {part.dtype for _, part in found.appends if part.dtype}
        if not dtypes:
            raise UnsafeError("no part is an array allocated only to be a column")
        if len(dtypes) > 1:
            raise UnsafeError("the columns differ in dtype")
        if found.stacked and not all(part.dtype for _, part in found.appends):
            raise UnsafeError("a stacked part's dtype is not known")


def _function(call: cst.Call) -> cst.Attribute:
    return cst.ensure_type(call.func, cst.Attribute)


def _edit(analysis: _Analysis) -> cst.Module:
    source, edits = analysis.source, Edits()
    helper = source.unused("_Columns", "_ColumnBuffer", "_Columns")
    for number, item in enumerate(analysis.collected, start=1):
        arguments = f'{item.dtype}, "{item.name} {number}"' + ", flat=True" * item.stacked
        made = cst.parse_expression(f"{helper}({arguments})")
        edits.change(item.join, _joined(item.name))
        if item.statement is None:
            edits.change(item.made, _constant(made))
            for append, part in item.appends:
                edits.change(append, part.change)
            continue
        filled = [part.change(append) for append, part in item.appends]
        edits.insert_before(item.statement, f"{item.name} = {source.module.code_for_node(made)}\n")
        for call in filled:
            edits.insert_before(item.statement, f"{source.module.code_for_node(call)}\n")
    return add_helper(source.module.visit(edits), helper_code(helper, analysis.numpy or ""))


def _constant(node: cst.CSTNode) -> Change:
    return lambda _: node


def _joined(name: str) -> Change:
    """Return the change of `join(list, ...)` into `list.joined(join, ...)`."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        joined = cst.Attribute(cst.Name(name), cst.Name("joined"))
        first = call.args[0].with_changes(value=call.func)
        return call.with_changes(func=joined, args=[first, *call.args[1:]])

    return change


CODEMOD = Codemod(
    name="concat_to_slices",
    words=tuple(join.rpartition(".")[2] for join in sorted(_JOINS)),
    analyse=analyse,
    share=share_of_lines,
    explanation="Each column was an array of its own, allocated only to be copied again when all "
    "were joined. The columns are now written into one buffer as they come. Assignment converts as "
    "astype did, and whenever the parts differ in dtype, rows or layout the arrays are kept and "
    "joined as before.",
)
