"""A loop whose column is computed by assignments in several steps, as one chain.

`for n in names: v = x[n]; v = np.abs(v); parts.append(np.log1p(v))` is read as a chain that leads
to the last value of `v`; the statement that uses it stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from layers.features.codemods.columns.elementwise import Chain, Elementwise, NotElementwiseError
from layers.features.editing import in_parentheses


@dataclass(frozen=True, eq=False)
class Steps:
    """Assignments to one name, and the statement after them that uses it once."""

    name: str
    links: list[Chain]  # one per assignment; the leaf of all but the first is the name
    last: cst.BaseSmallStatement
    use: cst.Name

    @property
    def chain(self) -> Chain:
        """Return all steps as one chain, which stands where the name is used."""
        first = self.links[0]
        return Chain(
            self.use,
            first.leaf,
            sum(link.operations for link in self.links),
            [name for link in self.links for name in link.scalars],
            [function for link in self.links for function in link.functions],
        )

    def compute(self, values: str) -> str:
        """Return the function of one column as code."""
        code = values
        for link in self.links:
            inner: cst.CSTNode = cst.parse_expression(code)
            if not isinstance(inner, cst.Name | cst.Call):
                inner = in_parentheses(inner)
            whole = cst.Expr(link.node)
            if link.node is link.leaf:
                continue
            replaced = cst.ensure_type(whole.deep_replace(link.leaf, inner), cst.Expr)
            code = cst.Module([]).code_for_node(replaced.value)
        return f"lambda {values}: {code}"


def read_steps(elementwise: Elementwise, loop: cst.For) -> Steps | None:
    """Return the steps of a loop over one name, None where its body is anything else."""
    lines = _lines(loop)
    if lines is None or not isinstance(loop.target, cst.Name):
        return None
    *assigns, last = lines
    name, variable = _assigned_name(assigns), loop.target.value
    if name is None or name == variable:
        return None
    links: list[Chain] = []
    try:
        for assign in assigns:
            value = cst.ensure_type(assign, cst.Assign).value
            links.append(elementwise.chain(value, name if links else variable))
    except NotElementwiseError:
        return None
    leaves = [link.leaf for link in links[1:]]
    own = all(isinstance(leaf, cst.Name) and leaf.value == name for leaf in leaves)
    uses = [node for node in _names(last) if node.value == name]
    if not own or len(uses) != 1 or any(name in link.scalars for link in links):
        return None
    return None if _mentions(links[0].leaf, name) else Steps(name, links, last, uses[0])


def _lines(loop: cst.For) -> list[cst.BaseSmallStatement] | None:
    """Return the statements of a body of two or more simple lines."""
    if loop.orelse or loop.asynchronous or not isinstance(loop.body, cst.IndentedBlock):
        return None
    found: list[cst.BaseSmallStatement] = []
    for statement in loop.body.body:
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        found.append(statement.body[0])
    return found if len(found) > 1 else None


def _assigned_name(assigns: list[cst.BaseSmallStatement]) -> str | None:
    """Return the one name that all statements assign to."""
    names: set[str] = set()
    for assign in assigns:
        target = assign.targets[0].target if isinstance(assign, cst.Assign) else None
        if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
            return None
        if not isinstance(target, cst.Name):
            return None
        names.add(target.value)
    return names.pop() if len(names) == 1 else None


def _names(node: cst.CSTNode) -> list[cst.Name]:
    found = [node] if isinstance(node, cst.Name) else []
    return found + [name for child in node.children for name in _names(child)]


def _mentions(node: cst.CSTNode, name: str) -> bool:
    return any(found.value == name for found in _names(node))


def only_last(loop: cst.For) -> cst.IndentedBlock:
    """Return the loop's body with its last statement alone, and with the comments of all."""
    block = cst.ensure_type(loop.body, cst.IndentedBlock)
    *removed, last = (cst.ensure_type(line, cst.SimpleStatementLine) for line in block.body)
    kept: list[cst.EmptyLine] = []
    for line in removed:
        kept += line.leading_lines
        comment = line.trailing_whitespace.comment
        kept += [cst.EmptyLine(comment=comment)] if comment else []
    return block.with_changes(body=[last.with_changes(leading_lines=[*kept, *last.leading_lines])])
