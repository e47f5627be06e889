"""Which function of the same file a call reaches, and with which arguments."""

from __future__ import annotations

import libcst as cst

from layers.features.source import Source

_IMPLICIT = {"": 1, "classmethod": 1, "staticmethod": 0}  # leading parameters filled by Python


class Callees:
    """Resolves calls of functions, and of methods through the first parameter of a method.

    Only what is certain from the file counts: a name bound once, a method that one class
    defines and nothing assigns, no decorator but `staticmethod` and `classmethod`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._methods = _methods(source)

    def argument(
        self, call: cst.Call, function: cst.FunctionDef, parameter: str
    ) -> cst.BaseExpression | None:
        """Return what `call` passes as `parameter`, None if it does not call `function`."""
        implicit = self._implicit(call, function)
        if implicit is None:
            return None
        leading = (*function.params.posonly_params, *function.params.params)
        names = [p.name.value for p in leading]
        for name, argument in zip(names[implicit:], call.args, strict=False):
            if argument.star or argument.keyword:
                break
            if name == parameter:
                return argument.value
        by_keyword = {a.keyword.value: a.value for a in call.args if a.keyword}
        return by_keyword.get(parameter)

    def _implicit(self, call: cst.Call, function: cst.FunctionDef) -> int | None:
        """Return how many leading parameters the call leaves out, None if it calls another."""
        target = call.func
        if isinstance(target, cst.Name):
            bound = self._source.assignments(target) or []
            same = len(bound) == 1 and bound[0].node is function
            return 0 if same and not function.decorators else None
        if not (isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name)):
            return None
        if self._methods.get(target.attr.value) is not function:
            return None
        if self._receiver(call, function) != target.value.value:
            return None
        return _IMPLICIT.get(_decorator(function))

    def _receiver(self, call: cst.Call, method: cst.FunctionDef) -> str | None:
        """Return how the method that contains `call` names the object (or class) it is of."""
        owner = self._source.class_of(method)
        for parent in self._source.ancestors(call):
            if isinstance(parent, cst.FunctionDef) and self._source.class_of(parent) is owner:
                leading = (*parent.params.posonly_params, *parent.params.params)
                bound = _decorator(parent) in {"", "classmethod"}
                return leading[0].name.value if leading and bound else None
        return None


def _methods(source: Source) -> dict[str, cst.FunctionDef]:
    """Return the methods that no other class defines and nothing assigns, by name."""
    found: dict[str, list[cst.FunctionDef]] = {}
    for function in source.all(cst.FunctionDef):
        if source.class_of(function):
            found.setdefault(function.name.value, []).append(function)
    targets = [target.target for target in source.all(cst.AssignTarget)]
    stored = {target.attr.value for target in targets if isinstance(target, cst.Attribute)}
    return {
        name: functions[0]
        for name, functions in found.items()
        if len(functions) == 1 and name not in stored
    }


def _decorator(function: cst.FunctionDef) -> str:
    """Return the decorator's name, "" without one, "?" for what is not followed."""
    if not function.decorators:
        return ""
    first = function.decorators[0].decorator
    if len(function.decorators) == 1 and isinstance(first, cst.Name):
        return first.value
    return "?"
