"""Which expressions may be evaluated once instead of once per element: certain from the file.

Such an expression is bound whenever its code is reached (so it cannot raise, not even where there
is no element to evaluate it for), has no effect, and nothing binds it anew in between.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst.metadata import ImportAssignment

from layers.features.source import Source

_SET_UP = frozenset({"initialize", "__init__"})  # the server runs these before all else
_SERVED = "TritonPythonModel"
_HOOKS = frozenset({"__getattr__", "__getattribute__", "__setattr__", "__slots__"})
_CONSTANTS = frozenset({"None", "True", "False"})


def is_steady(source: Source, node: cst.BaseExpression) -> bool:
    """Return whether `node` is a constant, a name or an attribute of self that is certain."""
    if is_constant(node):
        return True
    if isinstance(node, cst.Name):
        return _is_steady_name(source, node)
    return isinstance(node, cst.Attribute) and _is_steady_attribute(source, node)


def is_constant(node: cst.BaseExpression) -> bool:
    """Return whether `node` is a literal that cannot change: a number, a text, None, ..."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return isinstance(node.expression, cst.Integer | cst.Float)
    if isinstance(node, cst.Name):
        return node.value in _CONSTANTS
    return isinstance(node, cst.Integer | cst.Float | cst.SimpleString)


def _is_steady_name(source: Source, name: cst.Name) -> bool:
    bound = source.assignments(name)
    if bound is None or len(bound) != 1 or _is_deleted(source, name.value):
        return bound is None and _is_imported(source, name)
    node = bound[0].node
    if isinstance(node, cst.Param):
        function = source.parent(source.parent(node) or node)
        return isinstance(function, cst.FunctionDef) and source.inside(name, function.body)
    child = node
    for parent in source.ancestors(node):
        if isinstance(parent, cst.For):
            return child is parent.target and source.inside(name, parent.body)
        if isinstance(parent, cst.Assign | cst.AnnAssign):
            return _comes_before(source, parent, name)
        if not isinstance(parent, cst.AssignTarget | cst.Tuple | cst.List | cst.Element):
            return isinstance(parent, cst.CompFor) and child is parent.target
        child = parent
    return False


def _is_imported(source: Source, name: cst.Name) -> bool:
    """Return whether a function uses what the module imports under this name and never rebinds."""
    bindings = source.module_bindings(name.value)
    imported = len(bindings) == 1 and isinstance(bindings[0], ImportAssignment)
    is_local = any("<locals>" in full for full in source.qualified(name))
    if not imported or is_local or source.function_of(name) is None:
        return False
    return not _is_deleted(source, name.value)


def _comes_before(source: Source, assign: cst.CSTNode, name: cst.Name) -> bool:
    """Return whether the assignment has run whenever `name` is reached."""
    statement = source.parent(assign)
    block = source.parent(statement) if statement else None
    if not isinstance(block, cst.IndentedBlock | cst.Module):
        return False
    after = list(block.body).index(statement) + 1  # type: ignore[arg-type]  # found as its parent
    return any(source.inside(name, later) for later in block.body[after:])


def _is_steady_attribute(source: Source, node: cst.Attribute) -> bool:
    """Return whether `self.x` is set by the set-up of a plain class and by nothing else."""
    function = source.function_of(node)
    owner = source.class_of(function) if function else None
    if function is None or owner is None or function.decorators or not _is_plain(owner):
        return False
    leading = (*function.params.posonly_params, *function.params.params)
    if not isinstance(node.value, cst.Name) or not leading:
        return False
    bound = source.assignments(node.value) or []
    if len(bound) != 1 or bound[0].node is not leading[0]:
        return False
    if function.name.value in _SET_UP or _is_deleted(source, node.attr.value):
        return False
    stores = _stores(source, node.attr.value)
    homes = [source.function_of(store) for store in stores]
    return (
        bool(stores)
        and all(
            home is not None and home.name.value in _SET_UP and source.class_of(home) is owner
            for home in homes
        )
        and any(_always_runs(source, store) for store in stores)
    )


def _is_plain(owner: cst.ClassDef) -> bool:
    """Return whether attributes of the class's objects are what was assigned, no more."""
    bases = [base for base in owner.bases if not _is_object(base.value)]
    names = {node.name.value for node in owner.body.body if isinstance(node, cst.FunctionDef)}
    return not bases and not owner.keywords and not owner.decorators and not names & _HOOKS


def _is_object(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "object"


def _stores(source: Source, name: str) -> list[cst.Attribute]:
    """Return every attribute of this name that is not read, and methods' names as no store."""
    return [
        node
        for node in source.all(cst.Attribute)
        if node.attr.value == name
        and isinstance(source.parent(node), cst.AssignTarget | cst.AnnAssign | cst.AugAssign)
        and getattr(source.parent(node), "target", None) is node
    ]


def _always_runs(source: Source, store: cst.Attribute) -> bool:
    """Return whether the assignment is a statement of its method's own body, reached always.

    A `raise` before it in the model's own class is a model that the server does not load.
    """
    assign = source.parent(source.parent(store) or store)
    if isinstance(source.parent(store), cst.AnnAssign):
        assign = source.parent(store)
    statement = source.parent(assign) if assign else None
    block = source.parent(statement) if statement else None
    method = source.parent(block) if isinstance(block, cst.IndentedBlock) else None
    if not isinstance(method, cst.FunctionDef):
        return False
    owner = source.class_of(method)
    served = owner is not None and owner.name.value == _SERVED
    ends = cst.Return if served else (cst.Return, cst.Raise)
    for node in _below(method.body):
        if node is store:
            return True
        if isinstance(node, ends) and source.function_of(node) is method:
            return False
    return False


def _below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the node and all in it, in order of appearance."""
    yield node
    for child in node.children:
        yield from _below(child)


def _is_deleted(source: Source, name: str) -> bool:
    """Return whether any `del` of the file names it."""
    targets = [node.target for node in source.all(cst.Del)]
    return any(
        (isinstance(node, cst.Name) and node.value == name)
        or (isinstance(node, cst.Attribute) and node.attr.value == name)
        for target in targets
        for node in _parts(target)
    )


def _parts(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(target, cst.Tuple):
        return [element.value for element in target.elements]
    return [target]
