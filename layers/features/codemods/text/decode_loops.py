"""Codemod `decode_loops`: the texts of an array of bytes decoded by one call from C.

Matches a comprehension, `map` of a lambda, `np.vectorize` of a lambda or a loop of `append` that
does nothing but decode each element from UTF-8 (its first element, those of each row), with a
guard against what is text already and string methods afterwards. The loop moves into a helper,
which runs `bytes.decode` over the array's own list where that is one of bytes in UTF-8, and the
loop as it stood for all else.

Joining all elements, decoding once and splitting was tried: faster only for short texts beyond
ASCII, three times slower for texts of 200 characters, and it takes other buffers for bytes.
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from layers.features.codemod import Codemod, File, Rewrite, share_of_lines
from layers.features.codemods.text.decode_forms import Form, UnsafeError
from layers.features.codemods.text.decode_reader import Reader
from layers.features.editing import Edits, add_helper, in_parentheses
from layers.features.module_names import can_import, free_names, module_name
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_WISHES = {"array": "_decode_array", "list": "_decode_texts", "iterator": "_iterate_texts"}


def analyse(source: Source, file: File) -> Rewrite:
    """Return the loops that decode and nothing else, and those that are left."""
    found: list[Found] = []
    forms: list[Form] = []
    numpy = module_name(source, "numpy") or ("numpy" if can_import(source, "numpy") else None)
    reader = Reader(source)
    for candidate in reader.candidates():
        try:
            form = reader.read(candidate)
            if numpy is None:
                raise UnsafeError("numpy is not imported before the first function, nor can it be")
        except UnsafeError as reason:
            found.append(Refusal(str(reason), source.line(candidate)))
            continue
        forms.append(form)
        lines = list(source.lines(form.node))
        found.append(Site(file.path, lines[0], lines, f"a loop that decodes {form.what}"))
    if numpy is None or not forms:
        return Rewrite(found)
    return Rewrite(found, partial(_edit, source, numpy, forms))


def _edit(source: Source, numpy: str, forms: list[Form]) -> cst.Module:
    edits = Edits()
    statement = can_import(source, "numpy")
    if module_name(source, "numpy") is None and statement is not None:
        edits.insert_before(statement, "import numpy\n")
    helpers: dict[str, str] = {}  # code, with the name left open: name
    for form in forms:
        code = form.helper(numpy)
        if code not in helpers:
            helpers[code] = next(free_names(source, _WISHES[form.result], helpers.values()))
        edits.change(form.node, partial(_instead, form, helpers[code]))
        if source.touches(form.node):
            edits.change(form.node, in_parentheses)
    module = source.module.visit(edits)
    for code, name in reversed(helpers.items()):
        module = add_helper(module, code.replace("{name}", name))
    return module


def _instead(form: Form, name: str, node: cst.CSTNode) -> cst.CSTNode:
    return form.build(node, name)


CODEMOD = Codemod(
    name="decode_loops",
    words=("decode", "str("),
    analyse=analyse,
    share=share_of_lines,
    explanation="Each element of the array was decoded by a call from the interpreter. "
    "bytes.decode now runs over the array's list from C: the same method on the same objects, in "
    "the same order. Where an element is not bytes or not valid UTF-8, the loop runs as it stood, "
    "so replacements and errors stay what they were.",
)
