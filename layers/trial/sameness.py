"""What a function does, whatever it is called: told by its syntax. Pure; nothing is executed.

A sign of activation names a function in a file. Whoever renames one, or moves it, has a new name on
the stacks and an old one gone, and nothing new runs. So a function is known by its body: two are the
same where they differ in their own name, in the names of their variables, and in what does nothing,
which is remarks, docstrings, annotations and `pass`. A statement that does no work makes another
function of one: no syntax tells that, and what lets a gain in is measured elsewhere.
"""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ITSELF = "#"  # no name of anything: what a function is called
_DOES_NOTHING = frozenset({"annotation", "returns", "type_comment", "kind"})  # fields of a node


def own_name(function: str) -> str:
    """Return a function's own name: profilers differ in whether they name its class too."""
    return function.rpartition(".")[2]


def bodies(source: bytes) -> Mapping[str, frozenset[str]]:
    """Return the digests of what a file's functions do, by their own names.

    Several functions may have one name: methods of several classes. Empty for what is no Python, or
    is nested too deeply to be read.
    """
    try:
        with warnings.catch_warnings():  # of escapes and comparisons that a compiler doubts
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            text = "\n".join(_told(node))
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            found[node.name].add(digest)
    return {name: frozenset(digests) for name, digests in found.items()}


def _told(function: _Function) -> Iterator[str]:
    """Yield a function's syntax, word by word; the same words for functions that are the same.

    Its parts wait in a list and not in calls of this function, so that no nesting is too deep.
    """
    names = _Names(function)
    waiting: list[object] = [function]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.AST):
            yield type(part).__name__
            waiting += reversed(list(_parts(part, names)))
        elif isinstance(part, list):
            works = [one for one in part if not _does_nothing(one)]
            yield str(len(works))
            waiting += reversed(works)
        else:  # a number may be too long to be written in decimals
            yield hex(part) if type(part) is int else repr(part)


def _parts(node: ast.AST, names: _Names) -> Iterator[object]:
    """Yield the fields of a node that do anything, the names in them as `names` has them."""
    for field, value in ast.iter_fields(node):
        if field not in _DOES_NOTHING:
            yield names.of(node, field, value) if isinstance(value, str) else value


class _Names:
    """Gives the names that a function makes for itself numbers, in the order in which they come."""

    def __init__(self, function: _Function) -> None:
        nodes = list(ast.walk(function))
        shared = {
            n for one in nodes if isinstance(one, ast.Global | ast.Nonlocal) for n in one.names
        }
        made = {one.arg for one in nodes if isinstance(one, ast.arg)}
        made |= {
            one.id
            for one in nodes
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
        }
        self._own = function.name
        self._made = made - shared
        self._known = {function.name: _ITSELF}

    def of(self, node: ast.AST, field: str, name: str) -> str:
        """Return what stands for a name in a field of a node."""
        if isinstance(node, ast.Name | ast.arg):
            if name in self._made:
                return self._known.setdefault(name, f"{_ITSELF}{len(self._known)}")
            return self._known.get(name, name)
        # As a method calls itself, and is defined.
        called = field == "attr" or (field == "name" and isinstance(node, _FUNCTIONS))
        return _ITSELF if called and name == self._own else name


def _does_nothing(node: object) -> bool:
    """Whether a statement does nothing: a constant by itself, as a docstring is, or `pass`."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Pass)
