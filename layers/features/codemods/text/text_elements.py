"""How code turns one element of an array into text: the expression around `x.decode(...)`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from layers.features.module_names import builtins_hold, is_builtin, looked_up
from layers.features.source import Source

_UTF_8 = {"utf-8", "utf8", "u8"}
# a text that strict UTF-8 can read is the same whatever is done with one that it cannot
_ERRORS = {"strict", "ignore", "replace", "backslashreplace", "surrogateescape", "surrogatepass"}
_TEXT_METHODS = {
    *("strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "capitalize"),
    *("replace", "split", "rsplit", "splitlines", "removeprefix", "removesuffix"),
    *("startswith", "endswith", "zfill", "isdigit", "swapcase"),
}
_USED = ("bytes", "list", "map", "type")  # by the helpers


@dataclass(frozen=True)
class Element:
    """One element's expression: `code` as it stands, `after` what follows the decoding."""

    code: str
    first: bool  # of the element of an outer sequence: x[0].decode()
    after: str = ""  # ".strip().lower()"


class ElementReader:
    """Recognises expressions that are a text for every element that is bytes of UTF-8."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._code = source.module.code_for_node

    def helpers_work(self) -> bool:
        """Return whether `bytes.decode`, called at module level, is what decodes bytes here."""
        bases = [base.value for item in self._source.all(cst.ClassDef) for base in item.bases]
        derived = any(is_builtin(self._source, base, "bytes") for base in bases)
        return not derived and builtins_hold(self._source, _USED)

    def read(self, node: cst.BaseExpression, variable: str) -> Element | None:
        """Return what `node` makes of the element `variable`, None if it is of another kind."""
        found = self._read(node, variable)
        if found is None or not self._closed(node, variable):
            return None
        return Element(self._code(node), *found)

    def read_branches(
        self, test: cst.BaseExpression, branches: Sequence[cst.BaseExpression], variable: str
    ) -> Element | None:
        """Return the same for a statement `if test: ... else: ...` over the two branches."""
        found = self._guarded(test, branches[0], variable)
        if found is None or not all(self._closed(n, variable) for n in (test, *branches)):
            return None
        body, other = (self._code(branch) for branch in branches)
        return Element(f"{body} if {self._code(test)} else {other}", *found)

    def decodes(self, call: cst.Call) -> cst.BaseExpression | None:
        """Return what `call` decodes from UTF-8, None if it does something else."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "decode":
            return call.func.value if _reads_utf_8(call.args) else None
        named = is_builtin(self._source, call.func, "str")
        if named and len(call.args) > 1 and not call.args[0].keyword and not call.args[0].star:
            return call.args[0].value if _reads_utf_8(call.args[1:]) else None
        return None

    def _read(self, node: cst.BaseExpression, variable: str) -> tuple[bool, str] | None:
        """Return whether the element's first is meant, and what follows the decoding."""
        if isinstance(node, cst.IfExp):
            return self._guarded(node.test, node.body, variable)
        if not isinstance(node, cst.Call):
            return None
        decoded = self.decodes(node)
        if decoded is not None:
            return _target(decoded, variable)
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value not in _TEXT_METHODS:
            return None
        inner = self._read(node.func.value, variable)
        if inner is None or not all(_is_literal(a.value) and not a.star for a in node.args):
            return None
        call = node.with_changes(lpar=[], rpar=[]).with_deep_changes(
            node.func, value=cst.Name("_"), lpar=[], rpar=[]
        )
        return inner[0], inner[1] + self._code(call).removeprefix("_").strip()

    def _guarded(
        self, test: cst.BaseExpression, body: cst.BaseExpression, variable: str
    ) -> tuple[bool, str] | None:
        """Read a body that is only evaluated for what the test says is bytes."""
        found = self._read(body, variable)
        tested = self._bytes_test(test)
        if found is None or tested is None or _target(tested, variable) != (found[0], ""):
            return None
        return found

    def _bytes_test(self, test: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return what `isinstance(x, bytes)` or `hasattr(x, "decode")` tests."""
        if not isinstance(test, cst.Call) or len(test.args) != 2:
            return None
        if any(argument.keyword or argument.star for argument in test.args):
            return None
        value, kind = (argument.value for argument in test.args)
        if is_builtin(self._source, test.func, "hasattr"):
            text = ast.literal_eval(kind.value) if isinstance(kind, cst.SimpleString) else None
            return value if text == "decode" else None
        if not is_builtin(self._source, test.func, "isinstance"):
            return None
        kinds = [e.value for e in kind.elements] if isinstance(kind, cst.Tuple) else [kind]
        return value if any(is_builtin(self._source, k, "bytes") for k in kinds) else None

    def _closed(self, node: cst.BaseExpression, variable: str) -> bool:
        """Return whether the expression means the same in a function at module level."""
        names = [n for n in looked_up(node) if n.value != variable]
        simple = not any(isinstance(n, _BINDING) for n in _walk(node))
        return (
            simple
            and all(is_builtin(self._source, name, name.value) for name in names)
            and builtins_hold(self._source, {name.value for name in names})
        )


_BINDING = (cst.NamedExpr, cst.Lambda, cst.Await, cst.Yield, cst.CompFor, cst.Comment)


def _target(node: cst.BaseExpression, variable: str) -> tuple[bool, str] | None:
    """Read `x` and `x[0]`."""
    if isinstance(node, cst.Name) and node.value == variable:
        return False, ""
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        value = index.value if isinstance(index, cst.Index) else None
        if isinstance(value, cst.Integer) and value.value == "0":
            return (True, "") if _target(node.value, variable) == (False, "") else None
    return None


def _reads_utf_8(arguments: Sequence[cst.Arg]) -> bool:
    """Return whether the arguments after the bytes are an encoding of UTF-8 and known errors."""
    given: dict[str, str] = {}
    for place, argument in zip(("encoding", "errors"), arguments, strict=False):
        value = argument.value
        if argument.star or not isinstance(value, cst.SimpleString):
            return False
        text = ast.literal_eval(value.value)
        given[argument.keyword.value if argument.keyword else place] = text
    if len(arguments) > 2 or not given.keys() <= {"encoding", "errors"}:
        return False
    if len(given) != len(arguments) or not all(isinstance(text, str) for text in given.values()):
        return False
    encoding = given.get("encoding", "utf-8").lower().replace("_", "-")
    return encoding in _UTF_8 and given.get("errors", "strict") in _ERRORS


def _is_literal(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.SimpleString | cst.Integer)


def _walk(node: cst.CSTNode) -> list[cst.CSTNode]:
    return [node, *(inner for child in node.children for inner in _walk(child))]
