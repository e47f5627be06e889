"""Finds the loops that decode, and says what each of them is."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from layers.features.arrays import followed
from layers.features.codemods.text.decode_forms import (
    Form,
    UnsafeError,
    comprehension_replaced,
    generator_replaced,
    listed_of,
    loop_replaced,
    map_replaced,
    vectorize_replaced,
)
from layers.features.codemods.text.text_elements import Element, ElementReader
from layers.features.module_names import is_builtin, serves
from layers.features.source import Source

Binder = cst.BaseComp | cst.Lambda | cst.For

_EAGER = ("list", "tuple", "set", "frozenset", "sorted")  # take all of an iterator before they end
_STAYS_TEXT = {
    *("strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "capitalize"),
    *("replace", "removeprefix", "removesuffix", "zfill", "swapcase"),
}


class Reader:
    """Finds the loops over elements that are decoded, and says what each is."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._elements = ElementReader(source)
        self._code = source.module.code_for_node

    def candidates(self) -> Iterator[Binder]:
        """Yield what binds a variable that is decoded: comprehension, lambda or loop."""
        seen: set[cst.CSTNode] = set()
        for call in self._source.all(cst.Call):
            decoded = self._elements.decodes(call)
            while isinstance(decoded, cst.Subscript):
                decoded = decoded.value
            if not isinstance(decoded, cst.Name) or not serves(self._source, call):
                continue
            binder = self._binder(call, decoded.value)
            if binder is not None and binder not in seen and not self._is_done(call):
                seen.add(binder)
                yield binder

    def read(self, binder: Binder) -> Form:
        """Return the form of a loop; raises UnsafeError where it does more than decode."""
        if not self._elements.helpers_work():
            raise UnsafeError("the file gives names like `map` or `list` another meaning")
        if isinstance(binder, cst.For):
            return self._loop(binder)
        if any(self._source.inside(c, binder) for c in self._source.all(cst.Comment)):
            raise UnsafeError("a comment stands inside the expression")
        if isinstance(binder, cst.Lambda):
            return self._lambda(binder)
        if isinstance(binder, cst.ListComp):
            return self._comprehension(binder, binder)
        if isinstance(binder, cst.GeneratorExp):
            return self._comprehension(binder, self._consumer(binder))
        raise UnsafeError("a set or a dict is built, not a list")

    def _binder(self, call: cst.Call, name: str) -> Binder | None:
        for parent in self._source.ancestors(call):
            if isinstance(parent, cst.FunctionDef):
                return None
            if isinstance(parent, cst.Lambda) and name in _parameters(parent):
                return parent
            if isinstance(parent, cst.BaseComp) and name in _targets(parent.for_in):
                return parent
            if isinstance(parent, cst.For) and name in _named(parent.target):
                return self._outermost(parent)
        return None

    def _outermost(self, loop: cst.For) -> cst.For:
        """Return the loop over rows that does nothing but hold `loop` over one row's elements."""
        block = self._source.parent(loop)
        outer = self._source.parent(block) if isinstance(block, cst.IndentedBlock) else None
        if not (isinstance(outer, cst.For) and isinstance(outer.target, cst.Name)):
            return loop
        rows = isinstance(loop.iter, cst.Name) and loop.iter.value == outer.target.value
        return outer if rows and len(outer.body.body) == 1 else loop

    def _is_done(self, node: cst.CSTNode) -> bool:
        """Return whether the function around `node` decodes at once already."""
        function = self._source.function_of(node)
        names = self._source.all(cst.Attribute) if function else []
        return any(
            item.attr.value == "decode"
            and is_builtin(self._source, item.value, "bytes")
            and self._source.inside(item, function or item)
            for item in names
        )

    def _comprehension(self, comp: cst.BaseSimpleComp, node: cst.CSTNode) -> Form:
        outer, inner = comp.for_in, comp.for_in.inner_for_in
        last = inner or outer
        if last.inner_for_in or outer.ifs or last.ifs or outer.asynchronous or last.asynchronous:
            raise UnsafeError("the comprehension has conditions, or more than rows and elements")
        variable = _single_name(last.target)
        clause, rows = f"for {variable} in values", inner is not None
        if inner is not None:
            row = _single_name(outer.target)
            if not (isinstance(inner.iter, cst.Name) and inner.iter.value == row != variable):
                raise UnsafeError("the inner loop is not over the rows of the outer")
            clause = f"for {row} in values for {variable} in {row}"
        element = self._element(comp.elt, variable)
        listed = self._checked(outer.iter, element, rows=rows)
        clause = clause.replace("in values", "in values.tolist()", 1) if listed else clause
        build = comprehension_replaced if comp is node else generator_replaced
        return Form(node, element, variable, clause, build, rows=rows, listed=listed)

    def _element(self, node: cst.BaseExpression, variable: str) -> Element:
        element = self._elements.read(node, variable)
        if element is None:
            raise UnsafeError("the decoding is part of a larger expression")
        return element

    def _checked(self, values: cst.BaseExpression, element: Element, *, rows: bool) -> bool:
        """Return whether `values` is `x.tolist()`; raises UnsafeError where nothing is saved."""
        if isinstance(values, cst.Tuple) and not values.lpar:
            raise UnsafeError("the loop is over values written out")
        listed = listed_of(values) is not None
        if (element.first or rows) and not listed and listed_of(followed(self._source, values)):
            raise UnsafeError("the rows are lists already, which cost more than the decoding")
        return listed

    def _consumer(self, generator: cst.BaseExpression) -> cst.CSTNode:
        """Return the call that takes all of the generator's texts at once."""
        argument = self._source.parent(generator)
        call = self._source.parent(argument) if isinstance(argument, cst.Arg) else None
        if isinstance(call, cst.Call) and len(call.args) == 1 and not call.args[0].star:
            if any(is_builtin(self._source, call.func, name) for name in _EAGER):
                return call
            joins = isinstance(call.func, cst.Attribute) and call.func.attr.value == "join"
            text = call.func.value if joins and isinstance(call.func, cst.Attribute) else None
            if isinstance(text, cst.SimpleString):
                return call
        raise UnsafeError("the texts are decoded one by one as something asks for them")

    def _lambda(self, function: cst.Lambda) -> Form:
        parameters = _parameters(function)
        argument = self._source.parent(function)
        call = self._source.parent(argument) if isinstance(argument, cst.Arg) else None
        if len(parameters) != 1 or not isinstance(call, cst.Call):
            raise UnsafeError("the lambda is not handed to map or np.vectorize")
        element = self._element(function.body, parameters[0])
        if is_builtin(self._source, call.func, "map"):
            return self._mapped(call, element, parameters[0])
        named = call.func if isinstance(call.func, cst.Name | cst.Attribute) else None
        if named is None or self._source.qualified(named) != {"numpy.vectorize"}:
            raise UnsafeError("the lambda is not handed to map or np.vectorize")
        return self._vectorized(call, element, parameters[0])

    def _mapped(self, call: cst.Call, element: Element, variable: str) -> Form:
        if len(call.args) != 2 or any(a.star or a.keyword for a in call.args):
            raise UnsafeError("map takes more than the lambda and one sequence")
        consumer = self._consumer(call)
        values = call.args[1].value
        listed = self._checked(values, element, rows=False)
        clause = f"for {variable} in values" + ".tolist()" * listed
        return Form(consumer, element, variable, clause, map_replaced, listed=listed)

    def _vectorized(self, call: cst.Call, element: Element, variable: str) -> Form:
        stays = all(method in _STAYS_TEXT for method in _methods(element.after))
        if len(call.args) != 1 or element.first or not stays:
            raise UnsafeError("np.vectorize is told more than the lambda, or it gives no text")
        if not all(_is_plain(use) for use in self._calls(call)):
            raise UnsafeError("what np.vectorize returns is used for more than calls of one array")
        code = self._code(call.with_changes(lpar=[], rpar=[]))
        return Form(call, element, variable, code, vectorize_replaced, result="array")

    def _calls(self, vectorize: cst.Call) -> list[cst.CSTNode | None]:
        """Return where the vectorised function is used, None for what is no call."""
        parent = self._source.parent(vectorize)
        if isinstance(parent, cst.Call):
            return [parent if parent.func is vectorize else None]
        target = parent.targets[0].target if isinstance(parent, cst.Assign) else None
        if not isinstance(target, cst.Name) or self._source.function_of(vectorize) is None:
            return [None]
        bound = self._source.assignments(target) or []
        uses = [self._source.parent(r.node) for item in bound for r in item.references]
        called = [
            use if isinstance(use, cst.Call) and isinstance(use.func, cst.Name) else None
            for use in uses
        ]
        one = len(bound) == 1 and isinstance(parent, cst.Assign) and len(parent.targets) == 1
        return [*called] if one else [None]

    def _loop(self, loop: cst.For) -> Form:
        inner, clause = loop, f"for {_single_name(loop.target)} in values"
        body = _only(loop)
        rows = isinstance(body, cst.For)
        if isinstance(body, cst.For):
            inner, clause = (
                body,
                f"{clause} for {_single_name(body.target)} in {self._code(body.iter)}",
            )
        variable = _single_name(inner.target)
        if loop.orelse or inner.orelse or loop.asynchronous or inner.asynchronous:
            raise UnsafeError("the loop is asynchronous or has an else")
        element, target = self._appended(inner, variable)
        self._check_names(loop, {variable, _single_name(loop.target)}, target)
        listed = self._checked(loop.iter, element, rows=rows)
        clause = clause.replace("in values", "in values.tolist()", 1) if listed else clause
        build = loop_replaced(target.value)
        return Form(loop, element, variable, clause, build, "iterator", rows=rows, listed=listed)

    def _appended(self, loop: cst.For, variable: str) -> tuple[Element, cst.Name]:
        """Return what the loop appends, and the list that it appends to."""
        body = _only(loop)
        if isinstance(body, cst.If) and isinstance(body.orelse, cst.Else):
            parts = [_append(_only(body)), _append(_only(body.orelse))]
            found = [part for part in parts if part]
            element = (
                self._elements.read_branches(body.test, [f[1] for f in found], variable)
                if len({f[0].value for f in found}) == 1 and len(found) == 2
                else None
            )
        else:
            found = [part for part in [_append(body)] if part]
            element = self._elements.read(found[0][1], variable) if found else None
        if element is None:
            raise UnsafeError("the loop does more than append what it decodes")
        return element, found[0][0]

    def _check_names(self, loop: cst.For, variables: set[str], target: cst.Name) -> None:
        """Raise UnsafeError unless the loop's variables end with it and it fills a new list."""
        source = self._source
        bound = source.assignments(target)
        if not bound or not all(_is_list(source, item.node) for item in bound):
            raise UnsafeError("what is appended to is not certain to be a list")
        inside = (n for n in source.all(cst.Name) if source.inside(n, loop.iter))
        if any(name.value == target.value for name in inside):
            raise UnsafeError("the loop is over the list that it fills")
        if any(_is_read_elsewhere(source, loop, name) for name in source.all(cst.Name)):
            raise UnsafeError("a function of its own uses the loop's variable")
        for name in source.all(cst.Name):
            if name.value in variables and source.function_of(name) is source.function_of(loop):
                loops = (a for a in source.ancestors(name) if isinstance(a, cst.For))
                own = any(name.value in _named(outer.target) for outer in loops)
                if not own and not _is_elsewhere(source, name):
                    raise UnsafeError("the loop's variable is used after it")


def _is_read_elsewhere(source: Source, loop: cst.For, name: cst.Name) -> bool:
    """Return whether `name` is a target in `loop` that other functions use, or may."""
    target = next((a for a in source.ancestors(name) if isinstance(a, cst.For)), loop)
    if not source.inside(name, loop) or not source.inside(name, target.target):
        return False
    home, bound = source.function_of(loop), source.assignments(name)
    uses = [use.node for item in bound or () for use in item.references]
    lambdas = [a for use in uses for a in source.ancestors(use) if isinstance(a, cst.Lambda)]
    return (
        bound is None
        or source.is_shared(name.value)
        or any(source.function_of(node) is not home for node in uses)
        or any(source.function_of(node) is home for node in lambdas)
    )


def _is_elsewhere(source: Source, name: cst.Name) -> bool:
    """Return whether the name is no variable of the function: a keyword, attribute or in a scope."""
    parent = source.parent(name)
    if isinstance(parent, cst.Attribute) and parent.attr is name:
        return True
    if isinstance(parent, cst.Arg) and parent.keyword is name:
        return True
    inner = (a for a in source.ancestors(name) if isinstance(a, cst.BaseComp | cst.Lambda))
    return any(
        name.value in (_targets(a.for_in) if isinstance(a, cst.BaseComp) else _parameters(a))
        for a in inner
    )


def _is_list(source: Source, node: cst.CSTNode) -> bool:
    target = source.parent(node)
    assign = source.parent(target) if isinstance(target, cst.AssignTarget) else target
    return isinstance(assign, cst.Assign | cst.AnnAssign) and isinstance(
        assign.value, cst.List | cst.ListComp
    )


def _is_plain(use: cst.CSTNode | None) -> bool:
    if not isinstance(use, cst.Call) or len(use.args) != 1:
        return False
    return not use.args[0].star and not use.args[0].keyword


def _only(holder: cst.For | cst.If | cst.Else) -> cst.CSTNode | None:
    """Return the one statement of a block; an expression statement for a line."""
    body = holder.body.body
    if len(body) != 1:
        return None
    line = body[0]
    if isinstance(line, cst.SimpleStatementLine):
        return line.body[0] if len(line.body) == 1 else None
    return line


def _append(node: cst.CSTNode | None) -> tuple[cst.Name, cst.BaseExpression] | None:
    """Read `name.append(value)`."""
    call = node.value if isinstance(node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return None
    name, argument = call.func.value, call.args[0] if len(call.args) == 1 else None
    if not isinstance(name, cst.Name) or call.func.attr.value != "append" or argument is None:
        return None
    return None if argument.star or argument.keyword else (name, argument.value)


def _single_name(target: cst.BaseExpression) -> str:
    if not isinstance(target, cst.Name):
        raise UnsafeError("the loop binds more than one variable")
    return target.value


def _named(target: cst.CSTNode) -> set[str]:
    inner = {name for child in target.children for name in _named(child)}
    return {target.value} if isinstance(target, cst.Name) else inner


def _targets(comp: cst.CompFor | None) -> set[str]:
    return set() if comp is None else _named(comp.target) | _targets(comp.inner_for_in)


def _parameters(function: cst.Lambda) -> list[str]:
    """Return the names of a lambda's parameters; a default or a star gives a name that is none."""
    params = function.params
    plain = [p.name.value if p.default is None else "=" for p in params.params]
    others = bool(params.kwonly_params or params.posonly_params or params.star_kwarg)
    starred = others or isinstance(params.star_arg, cst.Param)
    return [*plain, "*"] if starred else plain


def _methods(after: str) -> list[str]:
    """Return the methods of ".strip().lower()", the last first."""
    found = []
    node = cst.parse_expression(f"_{after}")
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        found.append(node.func.attr.value)
        node = node.func.value
    return found
