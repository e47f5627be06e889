"""Which functions and classes of a file a codemod has put there: no codemod rewrites those.

They are told by their docstrings, which the texts of the helpers hold. A function of the model's
own that says the same, word for word, is left as it is as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import libcst as cst


def is_added(node: cst.CSTNode) -> bool:
    """Return whether `node` is a function or class that a codemod added."""
    if not isinstance(node, cst.FunctionDef | cst.ClassDef):
        return False
    return node.get_docstring() in _docstrings()


@cache
def _docstrings() -> frozenset[str]:
    folder = Path(__file__).parent / "codemods"
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    return frozenset(doc for text in texts for code in _codes(text) for doc in _documented(code))


def _codes(text: str) -> Iterator[str]:
    """Yield the strings of a module that hold definitions."""
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and ("\ndef " in value or "\nclass " in value):
            yield value


def _documented(code: str) -> list[str]:
    try:
        body = ast.parse(code).body
    except SyntaxError:  # prose, or a text that is put together from several
        return []
    defined = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return [doc for node in defined if (doc := ast.get_docstring(node))]
