"""The loops that decode: what each is made of, and the helper that takes its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from layers.features.codemods.text.text_elements import Element
from layers.features.editing import as_argument

Build = Callable[[cst.CSTNode, str], cst.CSTNode]

_LISTED = '''
def {name}(values):
    """Return the texts of `values`, in one call where it is an array of bytes in UTF-8."""
    array = type(values) is {numpy}.ndarray and values.dtype.kind in "OS"
    if array and {fits}:
        try:
            return {fast}
        except (TypeError, UnicodeDecodeError):
            pass  # something is not bytes or not UTF-8: that is for the loop
    return {slow}
'''
_PLAIN = '''
def {name}(values):
    """Return the texts of `values`, in one call where it holds bytes in UTF-8 alone."""
    array = type(values) is {numpy}.ndarray and values.dtype.kind in "OS" and values.ndim == 1
    items = values.tolist() if array else values
    if type(items) is list:
        try:
            return {fast}
        except (TypeError, UnicodeDecodeError):
            pass  # something is not bytes or not UTF-8: that is for the loop
    return {slow}
'''
_CONTINUED = '''
def {name}(values):
    """Return the texts of `values`, in one call where it is bytes in UTF-8, up to the first else."""
    array = type(values) is {numpy}.ndarray and values.dtype.kind in "OS"
    texts, rest = [], values
    if {fits}:
        try:
            texts.extend({fast})
            return texts
        except (TypeError, UnicodeDecodeError):
            rest = values[len(texts):]  # from here on it is for the loop
    return {slow}
'''
_ARRAY = '''
def {name}(values):
    """Return the texts of `values` as an array, built as np.vectorize builds it."""
    array = type(values) is {numpy}.ndarray and values.dtype == object
    if array and values.size and values.flags.c_contiguous:
        try:
            texts = {numpy}.empty(values.size, dtype=object)
            texts[:] = {fast}
            return {numpy}.asanyarray(texts.reshape(values.shape), dtype="U")
        except (TypeError, UnicodeDecodeError):
            pass  # something is not bytes or not UTF-8: that is for the loop
    return {slow}(values)
'''


class UnsafeError(Exception):
    """The loop cannot be replaced; the text says why."""


@dataclass(frozen=True, eq=False)
class Form:
    """One loop: `clause` is its `for`, over `values`; `build` makes what replaces `node`."""

    node: cst.CSTNode
    element: Element
    variable: str
    clause: str
    build: Build
    result: str = "list"  # "list", "iterator" or "array"
    rows: bool = False  # the elements of each row, one row after the other
    listed: bool = False  # `values` is what `.tolist()` was called on

    @property
    def what(self) -> str:
        """Return which elements are decoded."""
        if self.rows:
            return "the elements of each row"
        return "the first element of each row" if self.element.first else "each element"

    def helper(self, numpy: str) -> str:
        """Return the code of the helper, its name left open as `{name}`."""
        items, fits, template = "values.tolist()", "values.ndim == 1", _LISTED
        if self.result == "array":
            items, template = "values.ravel().tolist()", _ARRAY
        elif self.rows:
            items, fits = "values.ravel().tolist()", "values.ndim == 2"
        elif self.element.first:
            items, fits = "values[:, 0].tolist()", "values.ndim == 2 and values.shape[1]"
        elif not self.listed:
            items, template = "items", _PLAIN
        if self.listed:
            fits += " and len(values) > 8"  # the lists of a few rows cost less than the questions
        if template is not _ARRAY and not self.rows and _LENIENT.search(self.element.code):
            return self._continued(numpy, items, fits)
        fast = self._fast(items)
        slow = f"{self.element.code} {self.clause}"
        slow = {"list": f"[{slow}]", "iterator": f"({slow})"}.get(self.result, self.clause)
        return template.format(name="{name}", numpy=numpy, fits=fits, fast=fast, slow=slow)

    def _fast(self, items: str, brackets: tuple[str, str] = ("[", "]")) -> str:
        """Return the expression that decodes `items` from C and does what follows to each."""
        mapped = f"map(bytes.decode, {items})"
        if self.element.after:
            each = f"{self.variable}{self.element.after} for {self.variable} in {mapped}"
            return f"{brackets[0]}{each}{brackets[1]}"
        return f"list({mapped})" if brackets[0] else mapped

    def _continued(self, numpy: str, items: str, fits: str) -> str:
        """Return the code for errors that are no end: one bad text among many costs no second pass."""
        if items == "items":
            items = "values.tolist() if array else values"
            fits = "type(values) is list or (array and values.ndim == 1)"
        else:
            fits = f"array and {fits}"
        rest = self.clause.replace("in values", "in rest", 1)
        slow = f"{self.element.code} {rest}"
        if self.result == "iterator":
            slow = f"(text for part in (texts, ({slow})) for text in part)"
        else:
            slow = f"texts + [{slow}]"
        fast = self._fast(items, ("", ""))
        return _CONTINUED.format(name="{name}", numpy=numpy, fits=fits, fast=fast, slow=slow)


_LENIENT = re.compile(r"""["'](ignore|replace|backslashreplace|surrogate\w+)["']""")


def listed_of(values: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `x` of `x.tolist()`."""
    if (
        not isinstance(values, cst.Call)
        or values.args
        or not isinstance(values.func, cst.Attribute)
    ):
        return None
    return values.func.value if values.func.attr.value == "tolist" else None


def _call(name: str, values: cst.BaseExpression, old: cst.CSTNode) -> cst.Call:
    """Return the call of a helper, in the parentheses of what it replaces."""
    call = cst.Call(cst.Name(name), [cst.Arg(as_argument(listed_of(values) or values))])
    if isinstance(old, cst.Call | cst.ListComp):
        return call.with_changes(lpar=old.lpar, rpar=old.rpar)
    return call


def comprehension_replaced(node: cst.CSTNode, name: str) -> cst.CSTNode:
    """Return the call of the helper `name` over what a list comprehension ran over."""
    return _call(name, cst.ensure_type(node, cst.ListComp).for_in.iter, node)


def generator_replaced(node: cst.CSTNode, name: str) -> cst.CSTNode:
    """Return a call that takes a generator, which is now a list."""
    call = cst.ensure_type(node, cst.Call)
    generator = cst.ensure_type(call.args[0].value, cst.GeneratorExp)
    return _taken(call, _call(name, generator.for_in.iter, generator))


def map_replaced(node: cst.CSTNode, name: str) -> cst.CSTNode:
    """Return a call that takes a `map`, which is now a list."""
    call = cst.ensure_type(node, cst.Call)
    mapped = cst.ensure_type(call.args[0].value, cst.Call)
    return _taken(call, _call(name, mapped.args[1].value, mapped))


def _taken(consumer: cst.Call, texts: cst.Call) -> cst.Call:
    """Return the consumer of `texts`, which are a new list already."""
    if isinstance(consumer.func, cst.Name) and consumer.func.value == "list":
        return texts.with_changes(lpar=consumer.lpar, rpar=consumer.rpar)
    return consumer.with_changes(args=[consumer.args[0].with_changes(value=texts)])


def vectorize_replaced(node: cst.CSTNode, name: str) -> cst.CSTNode:
    """Return the helper in place of the function that np.vectorize makes."""
    old = cst.ensure_type(node, cst.Call)
    return cst.Name(name, old.lpar, old.rpar)


def loop_replaced(target: str) -> Build:
    """Return what puts `target.extend(...)` in place of a loop that appends to `target`."""

    def build(node: cst.CSTNode, name: str) -> cst.CSTNode:
        loop = cst.ensure_type(node, cst.For)
        extend = cst.Attribute(cst.Name(target), cst.Name("extend"))
        call = cst.Call(extend, [cst.Arg(_call(name, loop.iter, loop))])
        comments = [cst.EmptyLine(comment=comment) for comment in _comments(loop.body)]
        lines = [*loop.leading_lines, *comments]
        return cst.SimpleStatementLine([cst.Expr(call)], leading_lines=lines)

    return build


def _comments(node: cst.CSTNode) -> list[cst.Comment]:
    """Return the comments inside, in order; those above a loop are kept with it."""
    inner = [comment for child in node.children for comment in _comments(child)]
    return [node, *inner] if isinstance(node, cst.Comment) else inner
