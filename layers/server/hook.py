"""The edit: a package that reads strings beside the model, and two lines that install it. Pure."""

from __future__ import annotations

import libcst as cst

from layers.profile.profiler import CONVERSION
from layers.server.sites import utilities_import, utilities_name

PACKAGE = "fvec_native"
_REASON = "# Called by the server for each string input: one native pass instead of a Python loop."


def hooked(content: bytes) -> bytes | None:
    """Return a model's module with the package imported and its function installed.

    The import follows that of the server's utilities, the assignment the block of imports it
    stands in. None when the module does not import the utilities at top level.
    """
    module = cst.parse_module(content)
    statement = utilities_import(module)
    name = utilities_name(statement) if statement else None
    if statement is None or name is None:
        return None
    at = module.body.index(statement) + 1
    end = at
    while end < len(module.body) and _is_import(module.body[end]):
        end += 1
    install = cst.parse_statement(f"{name}.{CONVERSION} = {PACKAGE}.{CONVERSION}\n")
    comment = cst.EmptyLine(comment=cst.Comment(_REASON))
    body = [
        *module.body[:at],
        cst.parse_statement(f"import {PACKAGE}\n"),
        *module.body[at:end],
        install.with_changes(leading_lines=[cst.EmptyLine(indent=False), comment]),
        *module.body[end:],
    ]
    return module.with_changes(body=body).bytes


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(part, cst.Import | cst.ImportFrom) for part in statement.body
    )
