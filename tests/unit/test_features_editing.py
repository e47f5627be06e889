from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, ParentNodeProvider

from layers.features.codemod import File
from layers.features.codemods.table import CODEMODS
from layers.features.editing import as_argument, in_parentheses
from layers.features.source import read

EXAMPLE = Path(__file__).parents[2] / "examples/ads-serving/models/features/1/model.py"
CODE = """\
import numpy as np  # for all of it


@registered('a', order=1)
class Model(Base, metaclass=Meta):
    def execute(self, requests, *rest: int, dtype=np.float32, **more) -> "list[Answer]":
        with self.lock as held, open(more["path"]) as file:
            for n, line in enumerate(file):
                found = [*rest, *(x[n:, 1] for x in requests if x), lambda y: -y]
        match found:
            case {"rows": [first, *others], **left} if others:
                return f"{first!r:>{len(left)}}" or (last := others)
            case Answer(value=None | 1) as answer:
                del answer
        return None
"""


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


def test_source_knows_the_parent_of_every_node():
    source = read(CODE)
    expected = MetadataWrapper(source.module, unsafe_skip_copy=True).resolve(ParentNodeProvider)
    assert len(expected) > 200
    assert {node: source.parent(node) for node in expected} == dict(expected)
    assert source.parent(source.module) is None


def test_a_file_is_parsed_once_for_all_codemods_and_none_of_them_edits_it():
    text = EXAMPLE.read_text()
    source = read(text)
    before = source.module.deep_clone()
    changed = [codemod.apply(File("model.py", text)) for codemod in CODEMODS.values()]
    assert len(set(changed)) > 3
    assert read(text) is source
    assert source.module.deep_equals(before)
