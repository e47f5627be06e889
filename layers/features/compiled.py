"""Functions that something else than Python's interpreter reads: Numba, TorchScript and the like.

Such a compiler knows part of the language and of NumPy; a helper that a codemod calls there would
end in an error when the function is compiled.
"""

from __future__ import annotations

import libcst as cst

from layers.features.source import Source

_COMPILERS = frozenset(
    {"cython", "jax", "numba", "pythran", "taichi", "tensorflow", "torch", "triton", "warp"}
)


def compiled_lines(source: Source) -> dict[int, str]:
    """Return the lines (from 1) of compiled functions, with the compiler's name."""
    found: dict[int, str] = {}
    if source.identifiers.isdisjoint(_COMPILERS):
        return found
    for function, compiler in _compiled(source):
        found |= dict.fromkeys(source.lines(function), compiler)
    return found


def _compiled(source: Source) -> list[tuple[cst.FunctionDef, str]]:
    """Return functions under a compiler's decorator, and those that are handed to one by name."""
    functions = source.all(cst.FunctionDef)
    found = [
        (function, compiler)
        for function in functions
        for decorator in function.decorators
        if (compiler := _compiler(source, decorator.decorator))
    ]
    by_name = {function.name.value: function for function in functions}
    for call in source.all(cst.Call):
        compiler = _compiler(source, call.func)
        handed = [a.value.value for a in call.args if isinstance(a.value, cst.Name)]
        found += [(by_name[name], compiler) for name in handed if compiler and name in by_name]
    return found


def _compiler(source: Source, node: cst.BaseExpression) -> str:
    """Return the package whose decorator this is, "" for none; `torch.no_grad` compiles nothing."""
    while isinstance(node, cst.Call):
        node = node.func
    if not isinstance(node, cst.Name | cst.Attribute):
        return ""
    names = source.qualified(node)
    roots = {name.partition(".")[0] for name in names} & _COMPILERS
    torch_only = {"torch"} >= roots and not any(
        name.startswith(("torch.jit.", "torch.compile")) for name in names
    )
    return "" if torch_only else min(roots)
