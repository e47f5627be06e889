"""Whether anything in a file may write into an input in place.

Which arrays are inputs is not followed through the file. Whatever is written must be certain to have
been made in the file, and what may be an input, or hold one, may only be handed to functions that
are known not to write into their arguments, and to those of the file itself.
"""

from __future__ import annotations

import libcst as cst

from layers.features.arrays import SERVER, calls, followed, input_name
from layers.features.codemods.inputs.functions import (
    BUILTINS,
    FRESH,
    MODULES,
    POSITIONAL,
    QUIET,
    UnsafeError,
    is_quiet,
)
from layers.features.codemods.inputs.holding import holds_nothing
from layers.features.source import Source

_WRITERS = {"fill", "sort", "resize", "put", "partition", "itemset", "setflags", "byteswap"}
_WRITERS |= {"setfield", "__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__"}
_VIEWS = {"flat", "shape", "real", "imag", "dtype", "strides", "data", "writeable"}
_SETUP = {"initialize", "__init__", "finalize"}
_LITERALS = (cst.List, cst.Dict, cst.ListComp, cst.DictComp)
_PARTS = (cst.Element, cst.StarredElement, cst.Tuple, cst.List)


def check_writes(source: Source) -> None:
    """Raise UnsafeError where anything in the file that may be an input is written in place."""
    for node in source.nodes:
        base = _written(source, node)
        if base is None or _in_setup(source, node):
            continue
        if not _is_own(source, base, added=isinstance(node, cst.AugAssign)):
            raise UnsafeError(f"line {source.line(node)} writes into what may be an input")


def check_calls(source: Source) -> None:
    """Raise UnsafeError where a call may write into what it is handed, and that be an input."""
    methods = {f.name.value for f in source.all(cst.FunctionDef) if source.class_of(f)}
    for call in source.all(cst.Call):
        if not _in_setup(source, call) and not _only_reads(source, call, methods):
            line = source.line(call)
            raise UnsafeError(f"line {line} hands what may be an input to what may write into it")


def _written(source: Source, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return what a node writes into in place."""
    if isinstance(node, cst.AugAssign):
        return node.target
    if isinstance(node, cst.Arg):
        return node.value if node.keyword is not None and node.keyword.value == "out" else None
    if isinstance(node, cst.Attribute) and node.attr.value in _WRITERS:
        return node.value
    view = isinstance(node, cst.Attribute) and node.attr.value in _VIEWS
    return node if (view or isinstance(node, cst.Subscript)) and _is_target(source, node) else None


def _is_target(source: Source, node: cst.CSTNode) -> bool:
    """Return whether something is stored where `node` says, alone or as a part of a tuple."""
    child, parent = node, source.parent(node)
    while isinstance(parent, _PARTS):
        child, parent = parent, source.parent(parent)
    if isinstance(parent, cst.AsName):
        return parent.name is child
    targets = cst.AssignTarget | cst.AnnAssign | cst.For | cst.CompFor
    return isinstance(parent, targets) and parent.target is child


def _in_setup(source: Source, node: cst.CSTNode) -> bool:
    """Return whether the code runs once, before all requests or after them."""
    for parent in source.ancestors(node):
        if isinstance(parent, cst.Lambda | cst.GeneratorExp):
            return False
        if isinstance(parent, cst.FunctionDef):
            owner = source.class_of(parent)
            model = owner is not None and owner.name.value == "TritonPythonModel"
            return model and parent.name.value in _SETUP
    return True


def _is_own(source: Source, node: cst.CSTNode, *, added: bool) -> bool:
    """Return whether what is written is certain to have been made in this file, or no array.

    Of a list or dict only the top level is: its elements may be inputs. `added` is for `+=`, which
    writes into the element.
    """
    depth = 0
    while isinstance(node, cst.Subscript):
        node, depth = node.value, depth + 1
    if depth > 1 or not isinstance(node, cst.Name) or input_name(source, node) is not None:
        return False
    values = [source.parent(item.node) for item in source.assignments(node) or ()]
    made = [_value(source, value) for value in values if not isinstance(value, cst.AugAssign)]
    return bool(made) and all(
        value is not None and _is_fresh(source, value, elements=added and depth == 1)
        for value in made
    )


def _value(source: Source, target: cst.CSTNode | None) -> cst.BaseExpression | None:
    assign = source.parent(target) if isinstance(target, cst.AssignTarget) else None
    return assign.value if isinstance(assign, cst.Assign) else None


def _is_fresh(source: Source, node: cst.BaseExpression, *, elements: bool) -> bool:
    """Return whether it is made here; with `elements`, whether its elements are as well."""
    node = followed(source, node)
    if isinstance(node, _LITERALS):
        return not elements
    if isinstance(node, cst.BaseNumber | cst.SimpleString):
        return True
    objects = {"object", "object_", '"O"', "'O'"} & set(_words(source, node)) if elements else ()
    return calls(source, node, *FRESH) is not None and not objects


def _words(source: Source, node: cst.BaseExpression) -> list[str]:
    code = source.module.code_for_node(node)
    return code.translate(str.maketrans("(),.=", "     ")).split()


def _only_reads(source: Source, call: cst.Call, methods: set[str]) -> bool:
    """Return whether a call leaves alone all that it is handed."""
    if all(holds_nothing(source, argument.value) for argument in call.args):
        return True
    function = call.func
    if not isinstance(function, cst.Name | cst.Attribute):
        return False
    if any(a.keyword and a.keyword.value == "key" for a in call.args):
        return False  # a function that is handed every element
    names = source.qualified(function)
    if any(name in POSITIONAL for name in names):
        return len(names) == 1 and is_quiet(call, POSITIONAL[next(iter(names))])
    known = all(name in BUILTINS or name.startswith((f"{SERVER}.", *MODULES)) for name in names)
    if isinstance(function, cst.Name):
        return (bool(names) and known) or _is_of_the_file(source, function)
    return (bool(names) and known) or _is_quiet_method(source, function, methods)


def _is_quiet_method(source: Source, function: cst.Attribute, methods: set[str]) -> bool:
    base, method = function.value, function.attr.value
    if isinstance(base, cst.Name) and source.assignments(base) is None:
        return False  # a function of an imported module
    return method in QUIET or (method in methods and _is_self(source, base))


def _is_of_the_file(source: Source, function: cst.Name) -> bool:
    bound = source.assignments(function) or []
    node = bound[0].node if len(bound) == 1 else None
    if isinstance(node, cst.ClassDef):
        return not node.bases and not node.decorators
    return isinstance(node, cst.FunctionDef) and not node.decorators


def _is_self(source: Source, node: cst.BaseExpression) -> bool:
    """Return whether it is the first parameter of the method that we are in."""
    bound = source.assignments(node) if isinstance(node, cst.Name) else None
    function = source.function_of(node)
    if not bound or len(bound) != 1 or function is None or source.class_of(function) is None:
        return False
    leading = (*function.params.posonly_params, *function.params.params)
    return bool(leading) and bound[0].node is leading[0]
