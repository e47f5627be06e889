"""Codemod `ufunc_batches`: elementwise work on many small columns done on one array.

Matches a loop of one statement, or a list comprehension, over names, in which a chain of
elementwise operations (`elementwise.py`; also through functions of the same file) is applied to a
column that is read by the loop's variable: `for n in NAMES: parts.append(np.log1p(f(x[n])))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import libcst as cst

from layers.features.arrays import numpy_name
from layers.features.codemod import Codemod, File, Rewrite, share_of_calls
from layers.features.codemods.columns.batch_helper import helper_code
from layers.features.codemods.columns.collection import Collection
from layers.features.codemods.columns.elementwise import Chain, Elementwise, NotElementwiseError
from layers.features.codemods.columns.loop_steps import Steps, only_last, read_steps
from layers.features.codemods.columns.reads import UnsafeError, check_reads_only
from layers.features.codemods.vocabulary.steady import is_steady
from layers.features.editing import Edits, add_helper, as_argument
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source

_LONG = 64  # characters of a call that is still written on one line
_SPACE = cst.SimpleWhitespace(" ")
_MINIMUM = 2  # operations: gathering the columns costs about as much as one


@dataclass(frozen=True, eq=False)
class _Loop:
    """A loop or comprehension over names, and the chain that it computes of each column."""

    node: cst.For | cst.CompFor
    variable: cst.Name
    chain: Chain
    steps: Steps | None = None  # assignments that lead to the column, in the loop's body


def analyse(source: Source, file: File) -> Rewrite:
    """Return the loops whose columns can be computed at once, and those that are left."""
    found: list[Found] = []
    loops: list[_Loop] = []
    elementwise = Elementwise(source)
    for node in source.nodes:
        if not isinstance(node, cst.For | cst.CompFor):
            continue
        try:
            loop = _read(source, elementwise, node)
        except UnsafeError as reason:
            found.append(Refusal(str(reason), source.line(node)))
            continue
        if loop is not None and not any(source.inside(node, other.node) for other in loops):
            loops.append(loop)
    found += [_site(source, file.path, loop) for loop in loops]
    numpy = numpy_name(source)
    if loops and numpy is None:
        return Rewrite([Refusal("NumPy is not imported as a module", found[-1].line)])
    return Rewrite(found, partial(_edit, source, loops, numpy) if loops and numpy else None)


def _read(source: Source, elementwise: Elementwise, node: cst.For | cst.CompFor) -> _Loop | None:
    """Return what the loop computes, None where it has no such chain.

    Raises UnsafeError where it has one that must stay as it is.
    """
    variable = node.target
    if not isinstance(variable, cst.Name):
        return None
    steps = read_steps(elementwise, node) if isinstance(node, cst.For) else None
    body = steps.last if steps else _body(source, node)
    chain = steps.chain if steps else _longest(elementwise, body, variable.value)
    if body is None or chain is None or chain.operations < _MINIMUM:
        return None
    for name in [variable.value, *([steps.name] if steps else [])]:
        _check_place(source, node, name)
    Collection(source, body, chain).check()
    check_reads_only(source, chain.leaf)
    if any(name == variable.value for name in chain.scalars):
        raise UnsafeError("the column and a number come from the same name")
    _check_numbers(source, node, chain)
    return _Loop(node, variable, chain, steps)


def _check_numbers(source: Source, node: cst.CSTNode, chain: Chain) -> None:
    """Raise UnsafeError unless the numbers are there where there is no column to compute."""
    owner = source.parent(node) if isinstance(node, cst.CompFor) else node
    names = [n for n in _within(owner or node) if isinstance(n, cst.Name)]
    if not all(is_steady(source, name) for name in names if name.value in chain.scalars):
        raise UnsafeError("a number may not be known before the loop")


def _body(source: Source, node: cst.For | cst.CompFor) -> cst.CSTNode | None:
    """Return the one statement of a loop, or the element of a list comprehension."""
    if isinstance(node, cst.CompFor):
        owner = source.parent(node)
        simple = not node.ifs and node.inner_for_in is None and node.asynchronous is None
        return owner.elt if simple and isinstance(owner, cst.ListComp) else None
    if node.orelse or node.asynchronous or not isinstance(node.body, cst.IndentedBlock):
        return None
    if len(node.body.body) != 1 or not isinstance(node.body.body[0], cst.SimpleStatementLine):
        return None
    statement = node.body.body[0]
    return statement.body[0] if len(statement.body) == 1 else None


def _longest(elementwise: Elementwise, body: cst.CSTNode | None, variable: str) -> Chain | None:
    """Return the outermost chain in the body that is long enough to pay."""
    for node in _within(body) if body else ():
        if not isinstance(node, cst.BaseExpression):
            continue
        try:
            chain = elementwise.chain(node, variable)
        except NotElementwiseError:
            continue
        if chain.operations >= _MINIMUM and not isinstance(chain.leaf, cst.Name):
            return chain
    return None


def _within(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _within(child)


def _check_place(source: Source, node: cst.CSTNode, variable: str) -> None:
    function = source.function_of(node)
    if function is None:
        raise UnsafeError("the loop is not in a function")
    for parent in source.ancestors(node):
        if parent is function:
            return
        if isinstance(parent, cst.ClassDef | cst.Lambda):
            raise UnsafeError("the loop is in a class body or a lambda")
        handled = isinstance(parent, cst.Try | cst.TryStar | cst.With)
        if handled and isinstance(node, cst.For) and _is_seen(source, node, variable):
            raise UnsafeError("who handles an error asks at which column it happened")


def _is_seen(source: Source, loop: cst.For, variable: str) -> bool:
    """Return whether anything outside the loop may read what the name stands for."""
    bound = next(
        (n for n in _within(loop) if isinstance(n, cst.Name) and n.value == variable), None
    )
    items = source.assignments(bound) if bound else None
    used = [reference.node for item in items or () for reference in item.references]
    return not items or any(not source.inside(node, loop) for node in used)


def _site(source: Source, path: str, loop: _Loop) -> Site:
    """Return the site: the time of the function that computes, else that of the loop's lines."""
    owner: cst.CSTNode = loop.node
    if loop.chain.functions:
        owner = loop.chain.functions[0].body
    elif isinstance(loop.node, cst.CompFor):
        owner = source.parent(loop.node) or loop.node
    lines = list(source.lines(owner))
    what = f"{loop.chain.operations} elementwise operations per column of {loop.variable.value!r}"
    return Site(path, source.line(loop.node), lines, what)


def _edit(source: Source, loops: list[_Loop], numpy: str) -> cst.Module:
    edits = Edits()
    helper = source.unused("_batched", "_in_batches", "_batched")
    values = source.unused("values", "column", "column_values", "values")
    for loop in loops:
        edits.change(loop.node, partial(_over_batches, source, loop, helper, values))
        if loop.steps is None:
            edits.change(loop.chain.node, partial(_named, values))
    return add_helper(source.module.visit(edits), helper_code(helper, numpy))


def _over_batches(
    source: Source, loop: _Loop, helper: str, values: str, node: cst.CSTNode
) -> cst.CSTNode:
    """Return the loop over `helper(names, lambda name: column, compute, numbers)`."""
    variable, chain, steps = loop.variable.value, loop.chain, loop.steps
    code = source.module.code_for_node
    fetch = f"lambda {variable}: {code(chain.leaf)}"
    compute = steps.compute(values) if steps else _compute(chain, values)
    arguments = [code(as_argument(loop.node.iter)), fetch, compute]
    arguments += dict.fromkeys(chain.scalars)
    call = f"{helper}({', '.join(arguments)})"
    if len(call) > _LONG:
        lines = "".join(f"\n    {argument}," for argument in arguments)  # indented where it goes
        call = f"{helper}({lines}\n)"
    column = steps.name if steps else values
    target = cst.Tuple(
        [cst.Element(cst.Name(variable)), cst.Element(cst.Name(column))], lpar=[], rpar=[]
    )
    if steps:
        node = node.with_changes(body=only_last(cst.ensure_type(node, cst.For)))
    spaced = {} if code(loop.node.whitespace_after_in) else {"whitespace_after_in": _SPACE}
    return node.with_changes(target=target, iter=cst.parse_expression(call), **spaced)


def _named(values: str, node: cst.CSTNode) -> cst.CSTNode:
    """Return the name in the parentheses of what it replaces: a keyword may touch them."""
    if not isinstance(node, cst.BaseExpression):
        return node
    return cst.Name(values, lpar=node.lpar, rpar=node.rpar)


def _compute(chain: Chain, values: str) -> str:
    """Return the function of one column as code: the model's own, if it takes nothing else."""
    call, code = chain.node, cst.Module([]).code_for_node
    alone = isinstance(call, cst.Call) and len(call.args) == 1 and call.args[0].value is chain.leaf
    if isinstance(call, cst.Call) and alone and isinstance(call.func, cst.Name):
        return call.func.value
    replaced = cst.Expr(call).deep_replace(chain.leaf, cst.Name(values))
    return f"lambda {values}: {code(cst.ensure_type(replaced, cst.Expr).value)}"


CODEMOD = Codemod(
    name="ufunc_batches",
    words=("numpy",),
    analyse=analyse,
    share=share_of_calls,
    explanation="Each small column went through the same NumPy functions on its own, and the fixed "
    "cost of each call was paid per column. Columns that are alike in type and shape are now the "
    "rows of one array, and the functions run once. They work element by element, with the same "
    "bits at every position of an array. Other columns, and all of them as soon as one raises an "
    "error, are computed one by one as before.",
)
