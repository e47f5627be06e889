"""Whether Python's own names mean in a file what they mean elsewhere.

What a codemod writes uses builtins (`type`, `len`, `map`, ...) at the level of the module. A file
that binds such a name itself, or imports whatever another module offers, would give our code another
meaning.
"""

from __future__ import annotations

import builtins

import libcst as cst

from layers.features.source import Source

# Of people at a prompt and of files: nothing that we write uses them.
_NEVER_OURS = frozenset(
    {"breakpoint", "copyright", "credits", "exit", "help", "input", "license", "open", "print"}
    | {"quit"}
)
_BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_")) - _NEVER_OURS


def changed_meaning(source: Source) -> str:
    """Say which builtin may mean something else in the module's scope, "" for none."""
    for star in source.all(cst.ImportStar):
        if source.function_of(star) is None:
            return "an import of * may give Python's own names another meaning"
    for name in sorted(_BUILTINS & source.identifiers):
        if source.module_bindings(name):
            return f"the file gives Python's name {name!r} another meaning"
    return ""
