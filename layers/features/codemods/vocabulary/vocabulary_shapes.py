"""The shapes in which a model looks keys up one by one, read from the syntax tree alone."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

Loop = cst.ListComp | cst.GeneratorExp


@dataclass(frozen=True, slots=True)
class LookUp:
    """One look-up of the key `name`: how, in what, and what stands for a key that is not there.

    `kind` is "item" (`d[k]`), "get" (`d.get(k)`, `d.get(k, default)`), "either" (`d[k] if k in d
    else default`) or "except" (the same by KeyError).
    """

    kind: str
    vocabulary: cst.BaseExpression
    default: cst.BaseExpression | None = None

    @property
    def parts(self) -> list[cst.BaseExpression]:
        """Return what was evaluated once per key: the vocabulary and the default."""
        return [self.vocabulary] if self.default is None else [self.vocabulary, self.default]


def look_up(node: cst.BaseExpression, key: str) -> LookUp | None:
    """Return the look-up of the bare name `key` that `node` is, None where it is none."""
    found = _item(node, key) or _get(node, key) or _either(node, key)
    if found is None or any(mentions(part, key) for part in found.parts):
        return None
    return found


def look_up_of(node: cst.BaseExpression, key: str) -> tuple[cst.BaseExpression, LookUp] | None:
    """Return what is looked up in `d.get(<made of key>, default)`, and the look-up."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    arguments = [a.value for a in node.args if not a.star and not a.keyword]
    if (
        node.func.attr.value != "get"
        or not 1 <= len(arguments) <= 2
        or len(node.args) != len(arguments)
    ):
        return None
    found = LookUp("get", node.func.value, arguments[1] if len(arguments) > 1 else None)
    return None if any(mentions(part, key) for part in found.parts) else (arguments[0], found)


def is_first(node: cst.CSTNode, name: str) -> bool:
    """Return whether `node` is `name[0]`."""
    index = _index(node)
    zero = isinstance(index, cst.Integer) and index.value == "0"
    return zero and is_name(cst.ensure_type(node, cst.Subscript).value, name)


def is_related(node: cst.BaseExpression, key: str) -> bool:
    """Return whether `node` is `d.get(f(key), ...)` or `d[f(key)]`: a key made in the same pass."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value == "get" and bool(node.args) and _made(node.args[0].value, key)
    index = _index(node)
    return index is not None and _made(index, key)


def _made(node: cst.BaseExpression, key: str) -> bool:
    return isinstance(node, cst.Call) and mentions(node, key)


def mentions(node: cst.CSTNode, name: str) -> bool:
    """Return whether the name occurs anywhere in `node`."""
    if isinstance(node, cst.Name) and node.value == name:
        return True
    return any(mentions(child, name) for child in node.children)


def same(a: cst.CSTNode | None, b: cst.CSTNode | None) -> bool:
    """Return whether both are the same code, spaces aside."""
    return a is not None and b is not None and a.deep_equals(b)


def _item(node: cst.BaseExpression, key: str) -> LookUp | None:
    index = _index(node)
    if not isinstance(index, cst.Name) or index.value != key:
        return None
    return LookUp("item", cst.ensure_type(node, cst.Subscript).value)


def _index(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return `i` of `x[i]`."""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    return index.value if isinstance(index, cst.Index) and not index.star else None


def _get(node: cst.BaseExpression, key: str) -> LookUp | None:
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
        return None
    if node.func.attr.value != "get" or any(a.star or a.keyword for a in node.args):
        return None
    arguments = [argument.value for argument in node.args]
    if len(arguments) not in {1, 2} or not is_name(arguments[0], key):
        return None
    return LookUp("get", node.func.value, arguments[1] if len(arguments) > 1 else None)


def _either(node: cst.BaseExpression, key: str) -> LookUp | None:
    """Read `d[k] if k in d else default`, or the same the other way round."""
    if not isinstance(node, cst.IfExp):
        return None
    return if_else(node.test, node.body, node.orelse, key)


def if_else(
    test: cst.BaseExpression, then: cst.BaseExpression, other: cst.BaseExpression, key: str
) -> LookUp | None:
    """Return the look-up of a choice between `d[k]` and a default by whether `k` is in `d`."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    target = test.comparisons[0]
    if isinstance(target.operator, cst.NotIn):
        then, other = other, then
    elif not isinstance(target.operator, cst.In):
        return None
    found = _item(then, key)
    if found is None or not is_name(test.left, key):
        return None
    if not same(found.vocabulary, target.comparator):
        return None
    return LookUp("either", found.vocabulary, other)


def vectorized(function: cst.BaseExpression) -> LookUp | None:
    """Return the look-up of `d.get` or `lambda k: d.get(k, default)`, as handed to np.vectorize."""
    if isinstance(function, cst.Attribute):
        return LookUp("vectorize", function.value) if function.attr.value == "get" else None
    if not isinstance(function, cst.Lambda) or len(function.params.params) != 1:
        return None
    parameter, given = function.params.params[0], function.params
    others = (given.kwonly_params, given.posonly_params, given.star_kwarg, parameter.default)
    if any(others) or not isinstance(given.star_arg, cst.MaybeSentinel):
        return None
    found = look_up(function.body, parameter.name.value)
    if found is None or found.kind != "get":
        return None
    return LookUp("vectorize", found.vocabulary, found.default)


def is_name(node: cst.CSTNode | None, name: str) -> bool:
    """Return whether `node` is this bare name."""
    return isinstance(node, cst.Name) and node.value == name


def plain_loop(node: Loop) -> str | None:
    """Return the name that a comprehension of one `for` without `if` binds."""
    loop = node.for_in
    if loop.ifs or loop.inner_for_in is not None or loop.asynchronous is not None:
        return None
    return loop.target.value if isinstance(loop.target, cst.Name) else None


def only_statement(body: cst.BaseSuite) -> cst.CSTNode | None:
    """Return the one statement of a block, a small one without its line."""
    statements = list(body.body)
    if len(statements) != 1:
        return None
    first: cst.CSTNode = statements[0]
    if isinstance(first, cst.SimpleStatementLine):
        return first.body[0] if len(first.body) == 1 else None
    return first


def appended(node: cst.CSTNode | None) -> tuple[str, cst.BaseExpression] | None:
    """Return name and value of the statement `name.append(value)`."""
    if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
        return None
    call = node.value
    function = call.func
    if not (isinstance(function, cst.Attribute) and isinstance(function.value, cst.Name)):
        return None
    if function.attr.value != "append" or len(call.args) != 1:
        return None
    argument = call.args[0]
    return None if argument.star or argument.keyword else (function.value.value, argument.value)


def appended_look_up(node: cst.CSTNode | None, key: str) -> tuple[str, LookUp] | None:
    """Return what a loop's one statement appends, by look-up with a default, and to which name."""
    if isinstance(node, cst.Try):
        return _appended_or_except(node, key)
    if isinstance(node, cst.If) and isinstance(node.orelse, cst.Else):
        then = appended(only_statement(node.body))
        other = appended(only_statement(node.orelse.body))
        if then is None or other is None or then[0] != other[0]:
            return None
        found = if_else(node.test, then[1], other[1], key)
        return (then[0], found) if found and not _self_referring(found, key) else None
    one = appended(node)
    found = look_up(one[1], key) if one else None
    return (one[0], found) if one and found and found.kind == "either" else None


def _appended_or_except(node: cst.Try, key: str) -> tuple[str, LookUp] | None:
    """Read `try: name.append(d[k])`, `except KeyError: name.append(default)`."""
    if node.orelse or node.finalbody or len(node.handlers) != 1:
        return None
    handler = node.handlers[0]
    if handler.name is not None or not is_name(handler.type, "KeyError"):
        return None
    then, other = appended(only_statement(node.body)), appended(only_statement(handler.body))
    if then is None or other is None or then[0] != other[0]:
        return None
    item = look_up(then[1], key)
    if item is None or item.kind != "item" or mentions(other[1], key):
        return None
    return then[0], LookUp("except", item.vocabulary, other[1])


def _self_referring(found: LookUp, key: str) -> bool:
    return any(mentions(part, key) for part in found.parts)


def filled(node: cst.For) -> tuple[cst.Name, cst.BaseExpression, LookUp] | None:
    """Read `for i, k in enumerate(keys): out[i] = d.get(k, default)`: out, keys, look-up."""
    names, call, line = _pair(node.target), node.iter, only_statement(node.body)
    if names is None or not isinstance(call, cst.Call) or not isinstance(line, cst.Assign):
        return None
    arguments = [a.value for a in call.args if not a.star and not a.keyword]
    if (
        not is_name(call.func, "enumerate")
        or len(arguments) != len(call.args)
        or len(arguments) != 1
    ):
        return None
    store = line.targets[0].target
    found = look_up(line.value, names[1])
    out = store.value if isinstance(store, cst.Subscript) else None
    if found is None or found.kind != "get" or found.default is None:
        return None
    if not is_name(_index(store), names[0]):
        return None
    free = not any(mentions(part, names[0]) for part in found.parts)
    single = isinstance(out, cst.Name) and len(line.targets) == 1 and out.value not in names
    return (cst.ensure_type(out, cst.Name), arguments[0], found) if free and single else None


def _pair(target: cst.BaseExpression) -> tuple[str, str] | None:
    """Return the two different names of the loop target `i, k`."""
    if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
        return None
    first, second = (element.value for element in target.elements)
    if not isinstance(first, cst.Name) or not isinstance(second, cst.Name):
        return None
    return None if first.value == second.value else (first.value, second.value)
