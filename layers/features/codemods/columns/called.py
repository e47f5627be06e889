"""Which function of the same file a call reaches, whatever its arguments are called."""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

from layers.features.callees import Callees
from layers.features.source import Source


def called(source: Source, call: cst.Call) -> tuple[cst.FunctionDef, list[str]] | None:
    """Return the function and the names of the parameters that the caller fills.

    None unless that is certain (`Callees`), all arguments are positional and one is given for each
    parameter, and there is no other kind of parameter.
    """
    if any(argument.keyword or argument.star for argument in call.args):
        return None
    function = _by_name(source, call) or _by_method(source, call)
    if function is None or function.decorators or function.asynchronous:
        return None
    parameters = function.params
    others = (*parameters.kwonly_params, *parameters.posonly_params)
    if others or isinstance(parameters.star_arg, cst.Param) or parameters.star_kwarg:
        return None
    names = [parameter.name.value for parameter in parameters.params]
    names = names[1:] if source.class_of(function) else names
    block = isinstance(function.body, cst.IndentedBlock)
    return (function, names) if block and len(names) == len(call.args) else None


def _by_name(source: Source, call: cst.Call) -> cst.FunctionDef | None:
    bound = source.assignments(call.func) if isinstance(call.func, cst.Name) else None
    node = bound[0].node if bound and len(bound) == 1 else None
    return node if isinstance(node, cst.FunctionDef) else None


def _by_method(source: Source, call: cst.Call) -> cst.FunctionDef | None:
    """Return the method that is called through the first parameter of another one."""
    if not isinstance(call.func, cst.Attribute) or not call.args:
        return None
    for function in _methods(source).get(call.func.attr.value, ()):
        parameters = function.params.params
        if len(parameters) < 2:
            continue
        if _callees(source).argument(call, function, parameters[1].name.value) is not None:
            return function
    return None


@lru_cache(maxsize=4)
def _callees(source: Source) -> Callees:
    return Callees(source)


@lru_cache(maxsize=4)
def _methods(source: Source) -> dict[str, list[cst.FunctionDef]]:
    found: dict[str, list[cst.FunctionDef]] = {}
    for function in source.all(cst.FunctionDef):
        if source.class_of(function):
            found.setdefault(function.name.value, []).append(function)
    return found
