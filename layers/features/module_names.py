"""What a helper that a codemod adds to a file may rely on: the names of the module itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from layers.features.source import Source

# called by the server once, when an instance starts or ends: their time is no request's
_ONCE = frozenset({"__init__", "__new__", "initialize", "finalize", "auto_complete_config"})


def serves(source: Source, node: cst.CSTNode) -> bool:
    """Return whether `node` lies in a function, and in none that runs once per instance.

    Not in one before the module's first plain function or class either: what is added to the
    module stands there, and code in between could call the function.
    """
    parents = list(source.ancestors(node))
    owners = [item for item in parents if isinstance(item, cst.FunctionDef)]
    if not owners or any(owner.name.value in _ONCE for owner in owners):
        return False
    for statement in source.module.body:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return True
        if any(parent is statement for parent in parents):
            return False
    return False


def served_lines(source: Source) -> set[int]:
    """Return the lines (from 1) of functions that nothing runs before what is added stands there.

    Helpers go before the module's first plain function or class. Code above that, and functions
    that are defined there under `try` or `if`, may run while the file is imported.
    """
    above: set[int] = set()
    for statement in source.module.body:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            break
        above.update(source.lines(statement))
    inside = {line for node in source.all(cst.FunctionDef) for line in source.lines(node)}
    return inside - above


def module_name(source: Source, module: str) -> str | None:
    """Return the name that an import binds to `module` before the first function or class.

    None unless the import is unconditional and nothing else at module level binds that name.
    """
    for statement in source.module.body:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return None
        for alias in _aliases(statement):
            name = alias.evaluated_alias or alias.evaluated_name
            if alias.evaluated_name == module and _binders(source, name) == 1:
                return name
    return None


def import_of(source: Source, module: str) -> cst.SimpleStatementLine | None:
    """Return the statement at module level that imports `module`."""
    for statement in source.module.body:
        if any(alias.evaluated_name == module for alias in _aliases(statement)):
            return cst.ensure_type(statement, cst.SimpleStatementLine)
    return None


def can_import(source: Source, module: str) -> cst.SimpleStatementLine | None:
    """Return the first import of the file, before which one of `module` may be inserted.

    None where the file uses the module's name already, or has no import before its first
    function or class.
    """
    for statement in source.module.body:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef) or module in source.identifiers:
            return None
        line = statement if isinstance(statement, cst.SimpleStatementLine) else None
        imports = [s for s in line.body if isinstance(s, _IMPORTS)] if line else []
        future = any(
            isinstance(s, cst.ImportFrom) and s.module and s.module.value == "__future__"
            for s in imports
        )
        if imports and not future:
            return line
    return None


_IMPORTS = (cst.Import, cst.ImportFrom)


def builtins_hold(source: Source, names: Iterable[str]) -> bool:
    """Return whether the module's own scope leaves these builtins as they are."""
    stars = any(isinstance(item.names, cst.ImportStar) for item in source.all(cst.ImportFrom))
    return not stars and all(_binders(source, name) == 0 for name in names)


def is_builtin(source: Source, node: cst.BaseExpression, name: str) -> bool:
    """Return whether `node` is the builtin `name` and nothing else."""
    return (
        isinstance(node, cst.Name)
        and node.value == name
        and source.qualified(node) == {f"builtins.{name}"}
    )


def free_names(source: Source, wish: str, taken: Iterable[str] = ()) -> Iterator[str]:
    """Yield names for what is added: `wish`, `wish_2`, ..., leaving out those in use."""
    used = {*source.identifiers, *taken}
    for number in range(1, len(used) + 1000):
        name = wish if number == 1 else f"{wish}_{number}"
        if name not in used:
            yield name


def looked_up(node: cst.CSTNode) -> list[cst.Name]:
    """Return the names that an expression looks up: no attributes and no keywords."""
    found = []
    for child in node.children:
        if isinstance(node, cst.Attribute) and child is node.attr:
            continue
        if isinstance(node, cst.Arg) and child is node.keyword:
            continue
        found += looked_up(child)
    return [node, *found] if isinstance(node, cst.Name) else found


def _aliases(statement: cst.CSTNode) -> list[cst.ImportAlias]:
    if not isinstance(statement, cst.SimpleStatementLine):
        return []
    imports = [item for item in statement.body if isinstance(item, cst.Import)]
    return [alias for item in imports for alias in item.names]


def _binders(source: Source, name: str) -> int:
    """Return how many statements bind `name` in the module's own scope."""
    return len(source.module_bindings(name))
