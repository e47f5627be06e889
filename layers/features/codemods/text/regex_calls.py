"""Calls of the functions of `re`, taken apart."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import libcst as cst

from layers.features.module_names import looked_up
from layers.features.source import Source

# parameters after the pattern, up to `flags`, of the functions of re; of a compiled pattern's
# methods all but `flags` have the same names and places
_PARAMETERS = {
    "match": ("string", "flags"),
    "fullmatch": ("string", "flags"),
    "search": ("string", "flags"),
    "findall": ("string", "flags"),
    "finditer": ("string", "flags"),
    "split": ("string", "maxsplit", "flags"),
    "sub": ("repl", "string", "count", "flags"),
    "subn": ("repl", "string", "count", "flags"),
    "compile": ("flags",),
}
_REQUIRED = {"sub": 2, "subn": 2, "compile": 0}
_FLAGS = {
    *("A", "ASCII", "I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL", "U", "UNICODE"),
    *("X", "VERBOSE", "NOFLAG"),
}
_MAX_PATTERN = 10_000  # characters: a longer one takes long to compile while the file is analysed


class UnsafeError(Exception):
    """The call cannot be changed; the text says why."""


@dataclass(frozen=True, eq=False)
class Call:
    """One call: function, pattern and flags as they are written; `literal` ones may move."""

    node: cst.Call
    function: str
    pattern: str
    flags: str
    flag_names: frozenset[str]
    literal: bool

    def on(self, name: str, node: cst.CSTNode) -> cst.CSTNode:
        """Return the same on the compiled pattern `name`."""
        return self._with(cst.Name(name), cst.ensure_type(node, cst.Call))

    def through(self, helper: str, node: cst.CSTNode) -> cst.CSTNode:
        """Return the same on what `helper(pattern, flags)` returns."""
        call = cst.ensure_type(node, cst.Call)
        pattern = next(a.value for a in call.args if _place(call, a, self.function) == "pattern")
        flags = [cst.Arg(cst.parse_expression(self.flags))] if self.flags else []
        return self._with(cst.Call(cst.Name(helper), [cst.Arg(pattern), *flags]), call)

    def _with(self, compiled: cst.BaseExpression, call: cst.Call) -> cst.CSTNode:
        kept = [a for a in call.args if _place(call, a, self.function) not in ("pattern", "flags")]
        if kept:
            kept[-1] = kept[-1].with_changes(comma=call.args[-1].comma)
        if self.function == "compile":
            inner = (
                compiled if isinstance(compiled, cst.Name) else cst.ensure_type(compiled, cst.Call)
            )
            return inner.with_changes(lpar=call.lpar, rpar=call.rpar)
        method = cst.Attribute(compiled, cst.Name(self.function))
        return call.with_changes(func=method, args=kept)


class CallReader:
    """Reads calls of `re`; what a pattern is comes from literals and names bound once to one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._code = source.module.code_for_node

    def is_of_re(self, node: cst.Call) -> bool:
        """Return whether `node` calls a function of re that takes a pattern to use it."""
        if not isinstance(node.func, cst.Name | cst.Attribute):
            return False
        names = self._source.qualified(node.func)
        function = next(iter(names)).rpartition(".")[2] if len(names) == 1 else ""
        return names == {f"re.{function}"} and function in _PARAMETERS and not self._helps(node)

    def read(self, node: cst.Call) -> Call:
        """Return the parts of a call; raises UnsafeError where they are not certain."""
        function = next(iter(self._source.qualified(_function(node)))).rpartition(".")[2]
        given = self._arguments(node, function)
        pattern = given["pattern"]
        flags = given.get("flags")
        names = self._flag_names(flags)
        literal = self._literal(pattern, node)
        written = "" if flags is None else self._code(flags)
        if literal is not None:
            _try(literal, flags)
            code = self._code(literal)
            return Call(node, function, code, written, names, literal=True)
        if function == "compile":
            raise UnsafeError("what is compiled is computed, which costs more than finding it")
        others = [value for place, value in given.items() if place not in ("pattern", "flags")]
        if not all(isinstance(value, _UNFAILING) for value in others):
            raise UnsafeError("the pattern is computed, and arguments after it may fail before it")
        return Call(node, function, self._code(pattern), written, names, literal=False)

    def _helps(self, node: cst.Call) -> bool:
        """Return whether the call is in a function that is cached already."""
        function = self._source.function_of(node)
        code = "" if function is None else "".join(map(self._code, function.decorators))
        return "cache" in code

    def _arguments(self, node: cst.Call, function: str) -> dict[str, cst.BaseExpression]:
        if any(argument.star for argument in node.args):
            raise UnsafeError("the arguments are unpacked from a sequence")
        places = [_place(node, argument, function) for argument in node.args]
        allowed = ("pattern", *_PARAMETERS[function])
        required = allowed[: 1 + _REQUIRED.get(function, 1)]
        if len(set(places)) != len(places) or not set(required) <= set(places) <= set(allowed):
            raise UnsafeError("not a call with a pattern and what it is matched with")
        return {place: a.value for place, a in zip(places, node.args, strict=True)}

    def _flag_names(self, flags: cst.BaseExpression | None) -> frozenset[str]:
        """Return the names that the flags are spelled with; raises unless they are constants."""
        if flags is None:
            return frozenset()
        for part in _alternatives(flags):
            named = self._source.qualified(part) if isinstance(part, cst.Attribute) else set()
            zero = isinstance(part, cst.Integer) and part.value == "0"
            if not zero and not (named and named <= {f"re.{flag}" for flag in _FLAGS}):
                raise UnsafeError("the flags are computed, or depend on the locale")
        return frozenset(name.value for name in looked_up(flags))

    def _literal(
        self, pattern: cst.BaseExpression, node: cst.Call
    ) -> cst.SimpleString | cst.ConcatenatedString | None:
        """Return the literal that `pattern` is, or is certain to be bound to where it is used."""
        if isinstance(pattern, cst.Name):
            bound = self._source.assignments(pattern) or []
            target = self._source.parent(bound[0].node) if len(bound) == 1 else None
            assign = self._source.parent(target) if isinstance(target, cst.AssignTarget) else None
            if not isinstance(assign, cst.Assign) or not self._runs_before(assign, node):
                return None
            pattern = assign.value
        if isinstance(pattern, cst.SimpleString):
            return pattern
        plain = isinstance(pattern, cst.ConcatenatedString) and pattern.evaluated_value is not None
        return cst.ensure_type(pattern, cst.ConcatenatedString) if plain else None

    def _runs_before(self, assign: cst.Assign, node: cst.Call) -> bool:
        """Return whether the assignment has run whenever the call runs."""
        statement = self._source.parent(assign)
        block = self._source.parent(statement) if statement else None
        if isinstance(block, cst.Module):
            return True
        if not isinstance(block, cst.IndentedBlock) or not self._source.inside(node, block):
            return False
        same = self._source.function_of(assign) is self._source.function_of(node)
        return same and self._source.line(assign) < self._source.line(node)


_UNFAILING = (cst.Name, cst.SimpleString, cst.Integer)


def _function(node: cst.Call) -> cst.Name | cst.Attribute:
    function = node.func
    if isinstance(function, cst.Name):
        return function
    return cst.ensure_type(function, cst.Attribute)


def _place(node: cst.Call, argument: cst.Arg, function: str) -> str:
    """Return the parameter that an argument is for; its number where there is none."""
    if argument.keyword:
        return argument.keyword.value
    number = next(n for n, other in enumerate(node.args) if other is argument)
    places = ("pattern", *_PARAMETERS[function])
    return places[number] if number < len(places) else str(number)


def _alternatives(flags: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the parts of `a | b`."""
    if isinstance(flags, cst.BinaryOperation) and isinstance(flags.operator, cst.BitOr):
        return [*_alternatives(flags.left), *_alternatives(flags.right)]
    return [flags]


def _try(literal: cst.SimpleString | cst.ConcatenatedString, flags: object) -> None:
    """Compile the pattern as Python would; raises UnsafeError where that fails or warns."""
    value = literal.evaluated_value
    if not isinstance(value, str | bytes) or len(value) > _MAX_PATTERN:
        raise UnsafeError("the pattern is too long")
    parts = _alternatives(flags) if isinstance(flags, cst.BaseExpression) else []
    names = [part.attr.value for part in parts if isinstance(part, cst.Attribute)]
    combined = re.NOFLAG
    for name in names:
        combined |= re.RegexFlag[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = re.compile(value, combined)
    except (re.error, ValueError, OverflowError, RecursionError, Warning) as error:
        raise UnsafeError("the pattern does not compile without an error or a warning") from error
    if compiled.flags & (re.LOCALE | re.DEBUG):
        raise UnsafeError("the pattern depends on the locale")
