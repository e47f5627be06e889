"""Codemod `lookups_one_pass`: one pass over a request's inputs for all look-ups by name.

The server's `get_input_tensor_by_name(request, name)` asks the request for the list of its
inputs and walks it until the name fits, so n look-ups cost n lists and n*n/2 comparisons. The
rewrite walks once, into a dict that lives as long as the request is being handled, and hands
that dict to helpers that take the request. Nothing is kept beyond the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import libcst as cst

from layers.base import Hotspot
from layers.features.callees import Callees
from layers.features.codemod import Codemod, File, Rewrite, on_lines
from layers.features.codemods.inputs.bindings import Request, UnsafeError, Use, resolve
from layers.features.codemods.inputs.certainty import WORTHWHILE, is_asked, is_served, weight
from layers.features.editing import (
    Change,
    Edits,
    add_helper,
    append_argument,
    append_parameter,
    keyword,
)
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source, places_of

LOOKUP = "triton_python_backend_utils.get_input_tensor_by_name"
_FUNCTION = LOOKUP.rpartition(".")[2]

_HELPER = '''
def {helper}(request):
    """Return the input tensors of `request` by name; of equal names the first counts."""
    return {{tensor.name(): tensor for tensor in reversed(request.inputs())}}
'''


def analyse(source: Source, file: File) -> Rewrite:
    """Return where look-ups can be made in one pass, and those that are left."""
    analysis = _Analysis(source)
    found: list[Found] = [*analysis.sites(file.path), *analysis.refusals]
    return Rewrite(found, partial(_edit, analysis) if analysis.active else None)


class _Analysis:
    """Which look-ups there are, in which request, and which of them one pass would serve."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.refusals: list[Refusal] = []
        self._requests: dict[tuple[cst.CSTNode, str], Request] = {}
        self._callees = Callees(source)
        self._collect_lookups()
        self._follow_helpers()
        self._refuse_nested()
        self._activate()

    @property
    def active(self) -> list[Request]:
        """Return the requests whose look-ups are rewritten."""
        return [request for request in self._requests.values() if request.active]

    def sites(self, path: str) -> Iterator[Site]:
        """Yield one site per active request."""
        for request in self.active:
            lookups = [use for use in request.uses if use.key is not None]
            lines = sorted({line for use in lookups for line in self.source.lines(use.call)})
            first = self.source.line(request.uses[0].call)
            alone = [self.source.line(use.call) for use in lookups if self._stands_alone(use.call)]
            yield Site(path, first, lines, f"look-ups by name in {request.name!r}", alone)

    def _stands_alone(self, call: cst.Call) -> bool:
        """Return whether the line does nothing but assign or return what was looked up."""
        parent = self.source.parent(call)
        statement = self.source.parent(parent) if parent else None
        single = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
        return single and isinstance(parent, cst.Assign | cst.Return)

    def _collect_lookups(self) -> None:
        aliases = _aliases(self.source)
        functions: set[cst.CSTNode] = set(aliases)
        for call in self.source.all(cst.Call):
            if not self._is_lookup(call.func, aliases):
                continue
            functions.add(call.func)
            try:
                request, key = _arguments(call)
                self._use(request, call, key, None)
            except UnsafeError as reason:
                self.refusals.append(Refusal(str(reason), self.source.line(call)))
        for node in self.source.nodes:
            if node not in functions and self._is_reference(node):
                text = "the look-up function is passed on as a value"
                self.refusals.append(Refusal(text, self.source.line(node)))

    def _is_lookup(
        self, function: cst.BaseExpression, aliases: dict[cst.CSTNode, cst.Name]
    ) -> bool:
        if not isinstance(function, cst.Name | cst.Attribute):
            return False
        if LOOKUP in self.source.qualified(function):
            return True
        if isinstance(function, cst.Attribute) or not aliases:
            return False
        bound = self.source.assignments(function) or []
        return len(bound) == 1 and bound[0].node in aliases.values()

    def _is_reference(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, cst.Attribute | cst.Name):
            return False
        parent = self.source.parent(node)
        if isinstance(parent, cst.Attribute | cst.ImportAlias):
            return False
        return LOOKUP in self.source.qualified(node)

    def _use(
        self,
        request: cst.BaseExpression,
        call: cst.Call,
        key: cst.BaseExpression | None,
        helper: Request | None,
    ) -> Request:
        """Note that `call` looks into the request that the expression names."""
        found = resolve(self.source, request)
        found = self._requests.setdefault((found.owner, found.name), found)
        places, repeated, deferred = places_of(self.source, call, found.block)
        found.uses.append(Use(call, key, helper, places, repeated, deferred))
        return found

    def _follow_helpers(self) -> None:
        """Find who hands a request to the functions that look into it, and who calls those."""
        pending = list(self._requests.values())
        calls = self.source.all(cst.Call)
        while pending:
            helper = pending.pop()
            if not isinstance(helper.owner, cst.FunctionDef):
                continue
            given = [(c, self._callees.argument(c, helper.owner, helper.name)) for c in calls]
            made = [(call, argument) for call, argument in given if argument is not None]
            if helper.owner.params.star_kwarg or any(a.star for c, _ in made for a in c.args):
                continue  # what is unpacked may name the parameter that would be added
            for call, argument in made:
                known = len(self._requests)
                try:
                    caller = self._use(argument, call, None, helper)
                except UnsafeError:
                    continue  # that caller hands in nothing; the helper then walks for itself
                if len(self._requests) > known:
                    pending.append(caller)

    def _refuse_nested(self) -> None:
        """Leave requests that are handled while another one is, in the same function."""
        for inner in list(self._requests.values()):
            for outer in self._requests.values():
                if inner is not outer and _shares_function(self.source, inner, outer):
                    self._drop(inner, "two requests are handled at once")
                    break

    def _activate(self) -> None:
        """Mark the requests that one pass serves, once those that it does not are dropped."""
        while True:
            for request in self._requests.values():
                request.active = request.handed_in = False
            for request in self._requests.values():
                uses = request.uses
                alone = len(uses) == 1 and uses[0].helper and not uses[0].repeated
                if not alone and weight(self.source, request) >= WORTHWHILE:
                    _spread(request)
            reasons = ((r, self._hindrance(r)) for r in self._requests.values())
            found = next(((request, reason) for request, reason in reasons if reason), None)
            if found is None:
                return
            self._drop(*found)

    def _hindrance(self, request: Request) -> str:
        """Return why a request is not served by one pass, "" where it is."""
        source = self.source
        if not request.active:
            return "a single look-up of this request: one pass saves nothing"
        owner = request.owner
        own = isinstance(owner, cst.FunctionDef) and not self._is_handed_in(owner)
        if own and weight(source, request, least=True) < WORTHWHILE:
            return "a single look-up at times, where no caller hands the inputs in"
        if is_served(source, request) or is_asked(source, request, _where(request)):
            return ""
        return "a condition decides whether the request is looked into"

    def _is_handed_in(self, function: cst.FunctionDef) -> bool:
        """Return whether each mention of the function is a call that hands the inputs in."""
        calls = {
            use.call.func
            for request in self._requests.values()
            for use in request.uses
            if use.helper and use.helper.owner is function
        }
        names = {f.attr if isinstance(f, cst.Attribute) else f for f in calls}
        mentions = [n for n in self.source.all(cst.Name) if n.value == function.name.value]
        return bool(names) and all(n in names or n is function.name for n in mentions)

    def _drop(self, request: Request, reason: str) -> None:
        self._requests = {key: r for key, r in self._requests.items() if r is not request}
        for other in self._requests.values():
            other.uses = [use for use in other.uses if use.helper is not request]
        for use in request.uses:
            if use.key is not None:
                self.refusals.append(Refusal(reason, self.source.line(use.call)))


def _spread(request: Request) -> None:
    """Mark a request and all helpers that it is handed to."""
    if request.active:
        return
    request.active = True
    for use in request.uses:
        if use.helper:
            use.helper.handed_in = True
            _spread(use.helper)


def _aliases(source: Source) -> dict[cst.CSTNode, cst.Name]:
    """Return `name = <the look-up function>`: the name that is bound, by the value's node."""
    found: dict[cst.CSTNode, cst.Name] = {}
    for assign in source.all(cst.Assign):
        value, target = assign.value, assign.targets[0].target
        if (
            isinstance(value, cst.Attribute | cst.Name)
            and isinstance(target, cst.Name)
            and LOOKUP in source.qualified(value)
        ):
            found[value] = target
    return found


def _arguments(call: cst.Call) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """Return request and name of a look-up."""
    if any(argument.star for argument in call.args):
        raise UnsafeError("the arguments are unpacked from a sequence")
    given = {a.keyword.value: a.value for a in call.args if a.keyword}
    positional = [a.value for a in call.args if not a.keyword]
    given |= dict(zip(("inference_request", "name"), positional, strict=False))
    if set(given) != {"inference_request", "name"}:
        raise UnsafeError("not a call with a request and a name")
    return given["inference_request"], given["name"]


def _shares_function(source: Source, inner: Request, outer: Request) -> bool:
    if not source.inside(inner.owner, outer.block):
        return False
    home = (
        inner.owner if isinstance(inner.owner, cst.FunctionDef) else source.function_of(inner.owner)
    )
    host = (
        outer.owner if isinstance(outer.owner, cst.FunctionDef) else source.function_of(outer.owner)
    )
    return home is host or any(source.inside(use.call, inner.block) for use in outer.uses)


def _edit(analysis: _Analysis) -> cst.Module:
    source, edits = analysis.source, Edits()
    names = source.unused("inputs", "tensors", "inputs_by_name")
    helper = source.unused("_inputs_by_name", "_tensors_by_name", "_inputs_by_name")
    for request in analysis.active:
        code = f"{names} = {helper}({request.name})\n"
        if request.handed_in:
            code = f"if {names} is None:\n    {code}"
            edits.change(request.owner, _with_parameter(names))
        edits.insert_before(_where(request), code)
        for use in request.uses:
            edits.change(use.call, _new_call(use, names))
    return add_helper(source.module.visit(edits), _HELPER.format(helper=helper))


def _with_parameter(name: str) -> Change:
    return lambda node: append_parameter(cst.ensure_type(node, cst.FunctionDef), name)


def _new_call(use: Use, names: str) -> Change:
    if use.key is None:
        argument = keyword(names, names)
        return lambda node: append_argument(cst.ensure_type(node, cst.Call), argument)
    return lambda node: _get(cst.ensure_type(node, cst.Call), names)


def _get(call: cst.Call, names: str) -> cst.Call:
    """Return `names.get(key)` in place of the look-up, with the key as edited."""
    _, key = _arguments(call)
    return cst.Call(
        cst.Attribute(cst.Name(names), cst.Name("get")), [cst.Arg(key)], call.lpar, call.rpar
    )


def _where(request: Request) -> cst.CSTNode:
    """Return the statement before which the dict is built.

    It is the last one that stands before every use and that runs once for the request; the top
    of the block where a use may run later than it stands.
    """
    if any(use.deferred for use in request.uses):
        return request.block.body[request.first]
    where: cst.CSTNode = request.block.body[request.first]
    for level in zip(*(use.places for use in request.uses), strict=False):
        blocks = {id(block) for block, _ in level}
        if len(blocks) > 1:
            break
        block, statements = level[0][0], [statement for _, statement in level]
        where = next(s for s in block.body if any(s is other for other in statements))
        if any(statement is not where for statement in statements):
            break
    return where


def _share(spots: Sequence[Hotspot], matched: Sequence[Site]) -> float:
    """Return the share of the look-up function, at most that of the lines that are rewritten.

    A line that looks up also uses what it found, hence the smaller of the two. Where it does
    not, its own time counts too: the list of inputs is freed there, after the function's end.
    """
    whole = sum(s.share for s in spots if s.function == _FUNCTION and s.inclusive and not s.line)
    alone = {(site.path, line) for site in matched for line in site.alone}
    lines = {(site.path, line) for site in matched for line in site.lines}
    called = min(whole, on_lines(spots, lines, inclusive=True))
    return min(1.0, called + on_lines(spots, alone, inclusive=False))


CODEMOD = Codemod(
    name="lookups_one_pass",
    words=(_FUNCTION,),
    analyse=analyse,
    share=_share,
    explanation="Each look-up by name asked the request for its list of inputs and walked it. The "
    "inputs are now walked once per request into a dict, which lives no longer than the request. Of "
    "equal names the first counts and a missing name gives None, as before; the tensors are the "
    "same objects.",
)
