"""One parsed file, and the questions the codemods ask about it; nothing here edits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import libcst as cst
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    BuiltinAssignment,
    GlobalScope,
    MetadataWrapper,
    PositionProvider,
    Scope,
    ScopeProvider,
)

from layers.features.added import is_added

NodeT = TypeVar("NodeT", bound=cst.CSTNode)

Place = tuple[cst.IndentedBlock, cst.CSTNode]  # a block, and the statement of it that we are in

Comprehension = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
Deferred = (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.GeneratorExp)


class UnreadableError(Exception):
    """The file is not Python that can be analysed; `line` (from 1) is where."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


@lru_cache(maxsize=8)  # every codemod of the table asks for the same few files
def read(text: str) -> Source:
    """Parse a file; raises UnreadableError whatever is wrong with it.

    CPython's parser reads it first: it refuses deep nesting, which would overflow the stack of
    the native parser below libcst and end this process. The last few are kept: nothing edits one.
    """
    try:
        ast.parse(text)
        return Source(text)
    except (SyntaxError, cst.ParserSyntaxError) as error:
        line = error.raw_line if isinstance(error, cst.ParserSyntaxError) else error.lineno
        raise UnreadableError("not valid Python", line or 1) from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise UnreadableError("nested too deeply, or not text", 1) from error


class Source:
    """A module with its parents, positions and scopes; made by `read`."""

    def __init__(self, text: str) -> None:
        wrapper = MetadataWrapper(cst.parse_module(text))
        self.module = wrapper.module
        self._text = re.split(r"\r\n?|\n", self.module.code)
        self._positions = wrapper.resolve(PositionProvider)
        self._scopes: Mapping[cst.CSTNode, Scope | None] = wrapper.resolve(ScopeProvider)
        collector = _Collector()
        self.module.visit(collector)
        self.nodes: Sequence[cst.CSTNode] = collector.nodes  # without those that a codemod added
        self._parents: Mapping[cst.CSTNode, cst.CSTNode] = collector.parents
        self.identifiers = frozenset(collector.names)
        self._captured = frozenset(collector.captured)

    def all(self, kind: type[NodeT]) -> list[NodeT]:
        """Return every node of one kind, in order of appearance."""
        return [node for node in self.nodes if isinstance(node, kind)]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the parent of `node`, None for the module."""
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield parent, grandparent and so on, up to the module."""
        parent = self._parents.get(node)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent)

    def inside(self, node: cst.CSTNode, container: cst.CSTNode) -> bool:
        """Return whether `node` lies in `container` (or is it)."""
        return node is container or any(parent is container for parent in self.ancestors(node))

    def line(self, node: cst.CSTNode) -> int:
        """Return the line (from 1) on which `node` starts."""
        return int(self._positions[node].start.line)

    def lines(self, node: cst.CSTNode) -> range:
        """Return all lines (from 1) that `node` covers."""
        position = self._positions[node]
        return range(position.start.line, position.end.line + 1)

    def touches(self, node: cst.CSTNode) -> bool:
        """Return whether a letter or digit stands right beside `node`, as in `for x in[y]`."""
        position = self._positions[node]
        before = self._text[position.start.line - 1][: position.start.column]
        after = self._text[position.end.line - 1][position.end.column :]
        return any(beside.isalnum() or beside == "_" for beside in (before[-1:], after[:1]))

    def assignments(self, name: cst.Name) -> list[Assignment] | None:
        """Return everything that binds `name` in the scope that owns it.

        None when something other than the module's own code binds it (an import, a builtin,
        `nonlocal` from elsewhere) or nothing does, and for every name that a `case` of the file
        captures: scopes do not tell of those.
        """
        scope = self._scopes.get(name)
        if scope is None or name.value in self._captured:
            return None
        found = list(scope[name.value])
        own = [item for item in found if type(item) is Assignment]
        return own if own and len(own) == len(found) else None

    def is_shared(self, name: str) -> bool:
        """Return whether a `global` or `nonlocal` of the file names it."""
        shared = [item.names for item in self.nodes if isinstance(item, cst.Global | cst.Nonlocal)]
        return any(item.name.value == name for names in shared for item in names)

    def module_bindings(self, name: str) -> list[BaseAssignment]:
        """Return everything that binds `name` in the module's own scope; builtins do not count."""
        scopes = (scope for scope in self._scopes.values() if isinstance(scope, GlobalScope))
        scope = next(scopes, None)
        found = () if scope is None else scope[name]
        return [item for item in found if not isinstance(item, BuiltinAssignment)]

    def qualified(self, node: cst.Name | cst.Attribute) -> set[str]:
        """Return the full names that `node` may stand for, imports resolved."""
        scope = self._scopes.get(node)
        if scope is None:
            return set()
        return {found.name for found in scope.get_qualified_names_for(node)}

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the innermost function that contains `node`."""
        for parent in self.ancestors(node):
            if isinstance(parent, cst.FunctionDef):
                return parent
        return None

    def class_of(self, function: cst.FunctionDef) -> cst.ClassDef | None:
        """Return the class whose method `function` is."""
        block = self.parent(function)
        owner = self.parent(block) if isinstance(block, cst.IndentedBlock) else None
        return owner if isinstance(owner, cst.ClassDef) else None

    def unused(self, *wishes: str) -> str:
        """Return the first of `wishes` that the module does not use, numbered if all are taken."""
        numbered = (f"{wishes[-1]}_{n}" for n in range(2, len(self.identifiers) + 3))
        return next(name for name in (*wishes, *numbered) if name not in self.identifiers)


class _Collector(cst.CSTVisitor):
    """Lists all nodes in order, and their parents and names, also of what a codemod added."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[cst.CSTNode] = []
        self.names: set[str] = set()
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.captured: set[str] = set()  # by patterns of a match statement
        self._open: list[cst.CSTNode] = []  # from the module down to where we are
        self._added: cst.CSTNode | None = None

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Keep every node, and go on to its children."""
        if self._open:
            self.parents[node] = self._open[-1]
        self._open.append(node)
        if self._added is None and is_added(node):
            self._added = node
        if self._added is None:
            self.nodes.append(node)
        if isinstance(node, cst.Name):
            self.names.add(node.value)
        capture = _capture(node)
        if capture is not None:
            self.captured.add(capture.value)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Note where a node ends, and where what a codemod added does."""
        self._open.pop()
        if original_node is self._added:
            self._added = None


def _capture(node: cst.CSTNode) -> cst.Name | None:
    """Return the name that a part of a pattern binds."""
    if isinstance(node, cst.MatchAs | cst.MatchStar):
        return node.name
    return node.rest if isinstance(node, cst.MatchMapping) else None


def places_of(
    source: Source, call: cst.Call, top: cst.IndentedBlock
) -> tuple[list[Place], bool, bool]:
    """Return the blocks from `top` down to the call, as far as code there runs once.

    Also whether the call may run more than once, and whether it may run later than it stands.
    """
    places: list[Place] = []
    repeated = deferred = False
    child: cst.CSTNode = call
    for parent in source.ancestors(call):
        if isinstance(parent, cst.IndentedBlock):
            places.append((parent, child))
            if parent is top:
                break
        loops = isinstance(parent, cst.For) and child is parent.body
        if loops or isinstance(parent, (cst.While, *Comprehension, *Deferred)):
            repeated = True
            deferred = deferred or isinstance(parent, Deferred)
            places.clear()
        child = parent
    return places[::-1], repeated, deferred
