"""Where the text of a string input goes, followed through one file.

Texts that are read only by position, in loops, or by what takes any iterable need not be a list,
and so need not exist before they are looked at. Whatever else happens to them is an UnfollowedError.
"""

from __future__ import annotations

import libcst as cst
from libcst import matchers as m

from layers.features.callees import Callees
from layers.features.source import Source

_BUILTINS = ("set", "list", "tuple", "len", "sorted", "frozenset", "enumerate", "zip")
_READERS = frozenset([*(f"builtins.{name}" for name in _BUILTINS), "collections.Counter"])
_LOOPS = (cst.CompFor, cst.For)


class UnfollowedError(Exception):
    """The texts go where nothing is certain; the text says where."""


class TextFlow:
    """Follows expressions that hold texts; `loops` are the loops that go over some."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._callees = Callees(source)
        self._seen: set[cst.CSTNode] = set()
        self.loops: list[cst.CompFor | cst.For] = []

    def follow(self, node: cst.BaseExpression) -> None:
        """Follow the texts that `node` holds; raises UnfollowedError."""
        if node in self._seen:
            return
        self._seen.add(node)
        if self._may_run_later(node):
            raise self._unfollowed("its text may be read after the request", node)
        parent = self._source.parent(node)
        if isinstance(parent, _LOOPS) and parent.iter is node:
            self.loops.append(parent)
        elif isinstance(parent, cst.Subscript) and parent.value is node:
            self._one_element(parent)
        elif isinstance(parent, cst.Arg):
            self._argument(node, parent)
        elif isinstance(parent, cst.Assign):
            self._assigned(parent)
        elif isinstance(parent, cst.DictComp) and parent.value is node:
            self._dictionary_of(parent)
        elif not isinstance(parent, cst.ComparisonTarget) or not isinstance(
            parent.operator, cst.In | cst.NotIn
        ):
            raise self._unfollowed("its text is used as more than something to read", node)

    def _unfollowed(self, reason: str, node: cst.CSTNode) -> UnfollowedError:
        return UnfollowedError(f"{reason} (line {self._source.line(node)})")

    def _may_run_later(self, node: cst.CSTNode) -> bool:
        """Return whether `node` lies in code that need not run where it stands."""
        for parent in self._source.ancestors(node):
            if isinstance(parent, cst.Lambda | cst.GeneratorExp):
                return True
            if isinstance(parent, cst.FunctionDef):
                nested = self._source.function_of(parent) is not None
                return nested or parent.asynchronous is not None or _yields(parent)
        return False

    def _one_element(self, node: cst.Subscript) -> None:
        index = node.slice[0].slice if len(node.slice) == 1 else None
        stored = isinstance(self._source.parent(node), cst.AssignTarget | cst.AugAssign | cst.Del)
        if not isinstance(index, cst.Index) or stored:
            raise self._unfollowed("part of its text is taken or changed", node)

    def _argument(self, node: cst.BaseExpression, argument: cst.Arg) -> None:
        call = self._source.parent(argument)
        if not isinstance(call, cst.Call) or argument.star:
            raise self._unfollowed("its text is unpacked", node)
        if isinstance(call.func, cst.Name | cst.Attribute):
            known = self._source.qualified(call.func)
            if known and known <= _READERS:
                return
        for use in self._uses_as_parameter(call, node):
            self.follow(use)

    def _uses_as_parameter(
        self, call: cst.Call, node: cst.BaseExpression
    ) -> list[cst.BaseExpression]:
        """Return where the function of this file that is called uses the argument `node`."""
        for function in self._source.all(cst.FunctionDef):
            parameters = function.params
            for parameter in (*parameters.posonly_params, *parameters.params):
                name = parameter.name.value
                if self._callees.argument(call, function, name) is node:
                    return self._uses(function, name, parameter)
        raise self._unfollowed("its text is handed to something that is not followed", node)

    def _uses(
        self, function: cst.FunctionDef, name: str, binding: cst.CSTNode
    ) -> list[cst.BaseExpression]:
        """Return every use of a name that `binding` alone binds."""
        inside = [n for n in self._source.all(cst.Name) if n.value == name]
        for found in inside:
            bound = self._source.assignments(found) or []
            if not any(item.node is binding for item in bound):
                continue
            if len(bound) != 1 or name in _shared_names(function):
                raise self._unfollowed(f"{name!r} is bound more than once", found)
            nodes = [use.node for use in bound[0].references]
            return [node for node in nodes if isinstance(node, cst.BaseExpression)]
        return []

    def _assigned(self, assign: cst.Assign) -> None:
        target = assign.targets[0].target
        function = self._source.function_of(assign)
        if len(assign.targets) != 1 or function is None:
            raise self._unfollowed("its text is kept", assign)
        if isinstance(target, cst.Name):
            for use in self._uses(function, target.value, target):
                self.follow(use)
        elif isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
            self._dictionary(target.value)
        else:
            raise self._unfollowed("its text is kept", assign)

    def _dictionary_of(self, made: cst.DictComp) -> None:
        assign = self._source.parent(made)
        target = assign.targets[0].target if isinstance(assign, cst.Assign) else None
        function = self._source.function_of(made)
        if not isinstance(target, cst.Name) or function is None:
            raise self._unfollowed("its text is put into a dictionary without a name", made)
        for use in self._uses(function, target.value, target):
            self._dictionary_use(use)

    def _dictionary(self, name: cst.Name) -> None:
        """Follow a dictionary of the function's own that texts are put into."""
        bound = self._source.assignments(name) or []
        target = self._source.parent(bound[0].node) if len(bound) == 1 else None
        made = self._source.parent(target) if target else None
        function = self._source.function_of(name)
        is_own = function is not None and self._source.function_of(made or name) is function
        if not isinstance(made, cst.Assign) or not isinstance(made.value, cst.Dict) or not is_own:
            raise self._unfollowed("its text is put into something other than an own dict", name)
        if made.value.elements:
            raise self._unfollowed("its text is put into a dict that held something", name)
        for use in bound[0].references:
            self._dictionary_use(use.node)

    def _dictionary_use(self, node: cst.CSTNode) -> None:
        if node in self._seen:
            return
        self._seen.add(node)
        parent = self._source.parent(node)
        if isinstance(parent, cst.Subscript) and parent.value is node:
            if not isinstance(self._source.parent(parent), cst.AssignTarget):
                self.follow(parent)
            return
        call = self._source.parent(parent) if isinstance(parent, cst.Arg) else None
        if not isinstance(call, cst.Call) or not isinstance(node, cst.BaseExpression):
            raise self._unfollowed("a dict of texts is used as a whole", node)
        for use in self._uses_as_parameter(call, node):
            self._dictionary_use(use)


def _yields(function: cst.FunctionDef) -> bool:
    """Return whether a function is a generator."""
    return bool(m.findall(function, m.Yield()))


def _shared_names(function: cst.FunctionDef) -> set[str]:
    """Return the names that a function declares as `global` or `nonlocal`."""
    statements = m.findall(function, m.Global() | m.Nonlocal())
    return {
        item.name.value
        for statement in statements
        if isinstance(statement, cst.Global | cst.Nonlocal)
        for item in statement.names
    }
