"""Codemod `vocabulary_lookups`: keys looked up by one call of C instead of one by one.

Matches comprehensions and loops of one look-up per key (`vocabulary_shapes.py`) whose vocabulary
and default are certain from the file. The functions that are added (`vocabulary_helpers.py`) check
the rest at run time. What was not faster when measured is left, with that as the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import libcst as cst

from layers.features.arrays import is_array
from layers.features.codemod import Codemod, File, Rewrite, share_of_lines
from layers.features.codemods.vocabulary import vocabulary_shapes as shapes
from layers.features.codemods.vocabulary.steady import is_steady
from layers.features.codemods.vocabulary.vocabulary_helpers import (
    FUNCTIONS,
    helper_code,
    import_code,
    is_helper,
)
from layers.features.codemods.vocabulary.vocabulary_shapes import LookUp
from layers.features.editing import (
    Change,
    Edits,
    add_helper,
    add_imports,
    as_argument,
    in_parentheses,
)
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_PREFERRED = {
    "LOOK_UP": ("_look_up", "_look_up_keys"),
    "LOOK_UP_OR": ("_look_up_or", "_look_up_keys_or"),
    "GET_EACH": ("_get_each", "_get_each_key"),
    "FOUND_OR": ("_found_or", "_each_found_or"),
    "SLOWLY": ("_found_one_by_one", "_each_found_one_by_one"),
    "VECTORIZED": ("_look_up_array", "_look_up_keys_array"),
    "FILL": ("_fill_with", "_fill_with_found"),
    "PLAIN": ("_plain_keys", "_keys_for_c"),
    "REPEAT": ("repeat", "_repeat"),
    "ITEMGETTER": ("itemgetter", "_itemgetter"),
    "INTEGERS": ("_integers", "_integer_array"),
}
_EFFECTS = (cst.NamedExpr, cst.Await, cst.Yield)
_MADE_KEY = (
    "each key is made (decoded, say) in the same pass: map() over both was not faster when measured"
)
_GET = "a comprehension of get over what is no array: map() was hardly faster when measured"
_NESTED = "look-ups of a few keys for each row: a call for each row was slower when measured"
_UNSTEADY = "the dictionary or its default is not certain to be the same for every key"


@dataclass(frozen=True, slots=True)
class _Place:
    """One place that is rewritten: the node, the kind of helper, and what it becomes."""

    node: cst.CSTNode
    kind: str
    what: str
    change: Callable[[str], Change]  # by the helper's name in this file


def analyse(source: Source, file: File) -> Rewrite:
    """Return the look-ups that one call can make, and those that are left."""
    analysis = _Analysis(source)
    found: list[Found] = [
        Site(file.path, source.line(place.node), list(source.lines(place.node)), place.what)
        for place in analysis.places
    ]
    found += analysis.refusals
    return Rewrite(found, partial(_edit, source, analysis.places) if analysis.places else None)


class _Analysis:
    """Which look-ups there are, and which of them change."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.places: list[_Place] = []
        self.refusals: list[Refusal] = []
        for node in source.nodes:
            if isinstance(node, cst.ListComp | cst.GeneratorExp):
                self._comprehension(node)
            elif isinstance(node, cst.For):
                self._loop(node)
            elif isinstance(node, cst.Call):
                self._vectorized(node)

    def _refuse(self, node: cst.CSTNode, reason: str) -> None:
        self.refusals.append(Refusal(reason, self.source.line(node)))

    def _comprehension(self, node: shapes.Loop) -> None:
        key = shapes.plain_loop(node)
        if key is None or self._is_ours(node):
            return
        found = shapes.look_up(node.elt, key)
        if found is None:
            if shapes.is_related(node.elt, key):
                self._refuse(node, _MADE_KEY)
            return
        if is_array(self.source, found.vocabulary) or not self._is_consumed(node):
            return
        keys = node.for_in.iter
        reason = self._reason(node, found, keys)
        if reason is None and not is_array(self.source, keys):
            reason = _GET if found.kind == "get" else self._nested_reason(node)
        if reason is not None:
            self._refuse(node, reason)
            return
        text = f"look-ups one by one in {self.source.module.code_for_node(found.vocabulary)!r}"
        self.places.append(_Place(node, found.kind, text, _call_for))

    def _nested_reason(self, node: cst.CSTNode) -> str | None:
        """Return why look-ups that are made for each element of something else stay."""
        nested = any(
            isinstance(parent, cst.CompFor | cst.BaseComp) for parent in self.source.ancestors(node)
        )
        return _NESTED if nested else None

    def _vectorized(self, node: cst.Call) -> None:
        """Read `np.vectorize(d.get)(keys)`."""
        made, keys = node.func, [a.value for a in node.args if not a.keyword and not a.star]
        if not isinstance(made, cst.Call) or len(keys) != 1 or len(node.args) != 1:
            return
        function = made.func
        named = isinstance(function, cst.Name | cst.Attribute) and self.source.qualified(function)
        if not named or named != {"numpy.vectorize"} or len(made.args) != 1 or self._is_ours(node):
            return
        found = shapes.vectorized(made.args[0].value)
        if found is None or made.args[0].keyword:
            return
        reason = self._reason(node, found, keys[0])
        if reason is not None:
            self._refuse(node, reason)
            return
        self.places.append(_Place(node, "vectorize", "look-ups by np.vectorize", _vectorize))

    def _loop(self, node: cst.For) -> None:
        if node.asynchronous is not None or node.orelse is not None or self._is_ours(node):
            return
        key = node.target.value if isinstance(node.target, cst.Name) else None
        line = shapes.only_statement(node.body)
        one = shapes.appended_look_up(line, key) if key else None
        many = shapes.filled(node)
        if one is not None:
            name, found = one
            reason = self._reason(node, found, node.iter) or self._list_reason(node, name)
            kind, change = "except", _extend
        elif many is not None:
            out, keys, found = many
            reason = self._reason(node, found, keys) or self._builtin_reason(node, out)
            kind, change = "fill", _fill
        else:
            return
        reason = reason or self._leaks(node)
        if reason is not None:
            self._refuse(node, reason)
            return
        self.places.append(_Place(node, kind, "a loop of look-ups, one per element", change))

    def _is_ours(self, node: cst.CSTNode) -> bool:
        function = self.source.function_of(node)
        return function is not None and is_helper(function.get_docstring())

    def _is_consumed(self, node: shapes.Loop) -> bool:
        """Return whether all is looked up where it stands: a list, or a generator made one."""
        if isinstance(node, cst.ListComp):
            return True
        call = self.source.parent(self.source.parent(node) or node)
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Name)):
            return False
        made = self.source.qualified(call.func)
        return len(call.args) == 1 and bool(made) and made <= {"builtins.list", "builtins.tuple"}

    def _reason(self, node: cst.CSTNode, found: LookUp, keys: cst.BaseExpression) -> str | None:
        """Return why the look-ups of a loop stay as they are, None where they need not."""
        if any(isinstance(part, _EFFECTS) for part in _all(keys)):
            return "the keys are an expression that binds a name or waits"
        if isinstance(keys, cst.GeneratorExp):
            return _MADE_KEY
        bare = node.with_changes(leading_lines=[]) if isinstance(node, cst.For) else node
        if "#" in self.source.module.code_for_node(bare):
            return "a comment stands inside the loop"
        if not all(is_steady(self.source, part) for part in found.parts):
            return _UNSTEADY
        return None

    def _list_reason(self, node: cst.For, name: str) -> str | None:
        """Return why `name` is not certain to be a list of this function's own."""
        line = shapes.only_statement(node.body)
        target = next(n for n in _all(line or node) if shapes.is_name(n, name))
        bound = self.source.assignments(cst.ensure_type(target, cst.Name)) or []
        assign = self.source.parent(self.source.parent(bound[0].node) or node) if bound else None
        value = assign.value if isinstance(assign, cst.Assign) else None
        made = isinstance(value, cst.List) and len(bound) == 1
        if not made or self.source.function_of(bound[0].node) is not self.source.function_of(node):
            return f"{name!r} is not certain to be a list of this function's own"
        return None

    def _builtin_reason(self, node: cst.For, out: cst.Name) -> str | None:
        call = cst.ensure_type(node.iter, cst.Call)
        named = self.source.qualified(cst.ensure_type(call.func, cst.Name))
        if named != {"builtins.enumerate"}:
            return "enumerate is not Python's own"
        return None if is_steady(self.source, out) else f"{out.value!r} is not certain to be bound"

    def _leaks(self, node: cst.For) -> str | None:
        """Return the reason when a name of the loop is used outside loops that bind it."""
        if self.source.function_of(node) is None:
            return "the loop is no function's: its names stay"
        for name in (part for part in _all(node.target) if isinstance(part, cst.Name)):
            bound = self.source.assignments(name)
            uses: list[cst.CSTNode] = [use.node for item in bound or () for use in item.references]
            uses += [item.node for item in bound or () if self._is_read(item.node)]
            outside = any(not self._is_loops(use, name.value) for use in uses)
            if outside or bound is None or self.source.is_shared(name.value):
                return f"{name.value!r} is used outside the loop"
        return None

    def _is_read(self, target: cst.CSTNode) -> bool:
        """Return whether what binds the name reads it first."""
        return isinstance(self.source.parent(target), cst.AugAssign)

    def _is_loops(self, node: cst.CSTNode, name: str) -> bool:
        """Return whether `node` lies in the body of a loop that binds the name."""
        loops = [parent for parent in self.source.ancestors(node) if isinstance(parent, cst.For)]
        return any(
            shapes.mentions(loop.target, name) and self.source.inside(node, loop.body)
            for loop in loops
        )


def _all(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the node and all below it."""
    found = [node]
    for child in node.children:
        found += _all(child)
    return found


def _arguments(keys: cst.BaseExpression, found: LookUp) -> list[cst.Arg]:
    """Return the arguments in the order in which the loop evaluated them."""
    return [cst.Arg(as_argument(part)) for part in (keys, *found.parts)]


def _call_for(helper: str) -> Change:
    def change(node: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(node, cst.ListComp | cst.GeneratorExp):
            raise TypeError("not a comprehension")
        key = cst.ensure_type(node.for_in.target, cst.Name).value
        found = shapes.look_up(node.elt, key)
        if found is None:
            raise TypeError("not a look-up")
        listed = isinstance(node, cst.ListComp)
        return cst.Call(
            cst.Name(helper),
            _arguments(node.for_in.iter, found),
            node.lpar if listed else (),
            node.rpar if listed else (),
        )

    return change


def _vectorize(helper: str) -> Change:
    """Return the change of `np.vectorize(d.get)(keys)`."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        found = shapes.vectorized(cst.ensure_type(call.func, cst.Call).args[0].value)
        if found is None:
            raise TypeError("not a look-up")
        arguments = _arguments(call.args[0].value, found)
        return call.with_changes(func=cst.Name(helper), args=arguments)

    return change


def _extend(helper: str) -> Change:
    """Return the change of a loop of `out.append(...)` into `out.extend(helper(...))`."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        loop = cst.ensure_type(node, cst.For)
        key = cst.ensure_type(loop.target, cst.Name).value
        one = shapes.appended_look_up(shapes.only_statement(loop.body), key)
        if one is None:
            raise TypeError("not a loop of look-ups")
        name, found = one
        call = cst.Call(cst.Name(helper), _arguments(loop.iter, found))
        extend = cst.Call(cst.Attribute(cst.Name(name), cst.Name("extend")), [cst.Arg(call)])
        return cst.SimpleStatementLine([cst.Expr(extend)], leading_lines=loop.leading_lines)

    return change


def _fill(helper: str) -> Change:
    """Return the change of a loop that fills an array into a call that does."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        loop = cst.ensure_type(node, cst.For)
        many = shapes.filled(loop)
        if many is None:
            raise TypeError("not a loop that fills")
        out, keys, found = many
        call = cst.Call(cst.Name(helper), [cst.Arg(out), *_arguments(keys, found)])
        return cst.SimpleStatementLine([cst.Expr(call)], leading_lines=loop.leading_lines)

    return change


def _edit(source: Source, places: Sequence[_Place]) -> cst.Module:
    names = {word: source.unused(*wishes) for word, wishes in _PREFERRED.items()}
    numpy = _numpy_name(source)
    names["NUMPY"] = numpy or source.unused("np", "numpy", "_numpy")
    edits = Edits()
    for place in places:
        edits.change(place.node, place.change(names[FUNCTIONS[place.kind]]))
        if source.touches(place.node):
            edits.change(place.node, in_parentheses)
    kinds = {place.kind for place in places}
    module = add_helper(source.module.visit(edits), helper_code(kinds, names))
    missing = {**names, "NUMPY": ""} if numpy else names
    return add_imports(module, import_code(kinds, missing))


def _numpy_name(source: Source) -> str | None:
    """Return what the module calls NumPy, None where it does not import it at its top."""
    for alias in source.all(cst.ImportAlias):
        line = source.parent(source.parent(alias) or alias)
        top = line is not None and isinstance(source.parent(line), cst.Module)
        if isinstance(source.parent(alias), cst.Import) and alias.evaluated_name == "numpy" and top:
            return alias.evaluated_alias or "numpy"
    return None


CODEMOD = Codemod(
    name="vocabulary_lookups",
    words=("for ", "vectorize"),
    analyse=analyse,
    share=share_of_lines,
    explanation="Keys were looked up one by one in Python. One call of C now walks them: itemgetter "
    "or map over dict.get, with the same keys in the same order, so defaults, duplicates and the "
    "KeyError of the first missing key stay. The function that is added checks the types first and "
    "runs what stood there for any other.",
)
