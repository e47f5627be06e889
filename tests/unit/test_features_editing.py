import libcst as cst
import pytest

from layers.features.editing import as_argument, in_parentheses
from layers.features.source import read


@pytest.mark.parametrize(
    ("written", "argument"),
    [
        ("(a)", "a"),
        ("((a))", "a"),
        ("a, b", "(a, b)"),
        ("(a, b)", "(a, b)"),
        ("()", "()"),
        ("(x for x in a)", "(x for x in a)"),
        ("(a := b)", "(a := b)"),
        ("(lambda: a)", "lambda: a"),
    ],
)
def test_what_has_commas_or_binds_keeps_its_parentheses_as_an_argument(written, argument):
    node = as_argument(cst.parse_expression(written))
    assert cst.Module([]).code_for_node(node) == argument


def test_a_generator_without_parentheses_gets_some():
    call = cst.ensure_type(cst.parse_expression("f(x for x in a)"), cst.Call)
    node = as_argument(call.args[0].value)
    assert cst.Module([]).code_for_node(node) == "(x for x in a)"


def test_in_parentheses_once():
    once = in_parentheses(cst.parse_expression("a"))
    assert once.deep_equals(cst.parse_expression("(a)"))
    assert in_parentheses(once) is once
    line = cst.Pass()
    assert in_parentheses(line) is line


@pytest.mark.parametrize(
    ("line", "touching"),
    [
        ("y = [s for s in[1]if s]", True),
        ("y = [s for s in [1]if s]", True),
        ("y = [s for s in [1] if s]", False),
        ("y = ('é', [1])", False),
        ("y = 0 if x else[1]", True),
    ],
)
def test_source_knows_what_stands_right_beside_an_expression(line, touching):
    source = read(f"x = 1\r\n{line}\r\n")
    one = next(n for n in source.all(cst.List) if len(n.elements) == 1)
    assert source.touches(one) is touching
