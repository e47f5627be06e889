"""Codemod `regex_per_call`: patterns compiled once, not looked up in re's cache at every call.

`re.sub(pattern, ...)` finds its compiled pattern in a cache of 512 at every call, and compiles
again once more patterns than that are in turn. A pattern that is a literal moves to module level;
one that is computed goes through a cache in C, keyed by the pattern as computed there.
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from layers.features.codemod import Codemod, File, Rewrite, share_of_calls
from layers.features.codemods.text.regex_calls import Call, CallReader, UnsafeError
from layers.features.editing import Edits, add_helper
from layers.features.module_names import (
    builtins_hold,
    free_names,
    import_of,
    module_name,
    serves,
)
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_HELPER = '''
@{cache}(maxsize=1024)
def {name}(pattern, flags=0):
    """Return the compiled pattern: like re's own cache, which is slower and holds 512."""
    return {re}.compile(pattern, flags)
'''


def analyse(source: Source, file: File) -> Rewrite:
    """Return the calls whose pattern can be kept compiled, and those that are left."""
    found: list[Found] = []
    calls: list[Call] = []
    module = module_name(source, "re")
    reader = CallReader(source)
    for node in source.all(cst.Call):
        if not reader.is_of_re(node) or not serves(source, node):
            continue
        try:
            call = reader.read(node)
            _check(source, call, module)
        except UnsafeError as reason:
            found.append(Refusal(str(reason), source.line(node)))
            continue
        calls.append(call)
        what = "a literal pattern" if call.literal else "a computed pattern"
        found.append(Site(file.path, source.line(node), list(source.lines(node)), what))
    if module is None or not calls:
        return Rewrite(found)
    return Rewrite(found, partial(_edit, source, module, calls))


def _check(source: Source, call: Call, module: str | None) -> None:
    """Raise UnsafeError unless the module's own `re` is at hand where the file begins."""
    if module is None:
        raise UnsafeError("the file does not import re at module level before its first function")
    if call.flags and not call.flag_names <= {module}:
        raise UnsafeError("re goes by more than one name")
    if not call.literal and not builtins_hold(source, ()):
        raise UnsafeError("a star import may give names another meaning")


def _edit(source: Source, module: str, calls: list[Call]) -> cst.Module:
    edits = Edits()
    constants: dict[tuple[str, str], str] = {}  # pattern and flags as written: name
    cached = [call for call in calls if not call.literal]
    helper = source.unused("_compiled", "_compiled_pattern")
    for call in calls:
        if not call.literal:
            edits.change(call.node, partial(call.through, helper))
            continue
        key = (call.pattern, call.flags)
        if key not in constants:
            constants[key] = next(free_names(source, "_PATTERN", constants.values()))
        edits.change(call.node, partial(call.on, constants[key]))
    functools = module_name(source, "functools")
    statement = import_of(source, "re")
    if cached and functools is None and statement is not None:
        functools = source.unused("functools", "_functools")
        alias = "" if functools == "functools" else f" as {functools}"
        edits.insert_before(statement, f"import functools{alias}\n")
    changed = source.module.visit(edits)
    if cached:
        cache = f"{functools}.lru_cache"
        changed = add_helper(changed, _HELPER.format(cache=cache, name=helper, re=module))
    return _with_constants(changed, module, constants)


def _with_constants(
    changed: cst.Module, module: str, constants: dict[tuple[str, str], str]
) -> cst.Module:
    """Return the module with its patterns before the first function or class."""
    if not constants:
        return changed
    lines = [
        f"{name} = {module}.compile({pattern}{', ' + flags if flags else ''})\n"
        for (pattern, flags), name in constants.items()
    ]
    at = next(
        (n for n, item in enumerate(changed.body) if isinstance(item, _DEFINITIONS)),
        len(changed.body),
    )
    first, *others = cst.parse_module("".join(lines)).body
    block = [first.with_changes(leading_lines=[cst.EmptyLine(indent=False)]), *others]
    return changed.with_changes(body=[*changed.body[:at], *block, *changed.body[at:]])


_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)

CODEMOD = Codemod(
    name="regex_per_call",
    words=("import re", ", re", "from re"),
    analyse=analyse,
    share=share_of_calls,
    explanation="Functions of re look their pattern up in a cache at every call. Literal patterns "
    "are now compiled at module level; each was compiled before this was proposed, so none can "
    "fail there. Computed ones are computed as before and looked up in a bounded cache of the "
    "module's own. The methods called are those that the functions of re call.",
)
