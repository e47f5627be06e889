"""What a function does, whatever it and its variables are called."""

from __future__ import annotations

import textwrap

import pytest

from layers.trial.sameness import bodies, own_name

SLOW = """
def slow(table, clicks):
    total = 0
    for limit in table:
        if limit <= clicks:
            total += 1
    return total
"""


def alike(one: str, other: str, names: tuple[str, str] = ("slow", "slow")) -> bool:
    """Whether two sources have the same body behind two names."""
    first, second = (
        bodies(textwrap.dedent(text).encode())[name]
        for text, name in zip((one, other), names, strict=True)
    )
    assert len(first) == len(second) == 1
    return first == second


@pytest.mark.parametrize(
    "other",
    [
        SLOW.replace("slow", "fast"),
        SLOW.replace("total", "found").replace("limit", "x").replace("clicks", "y"),
        SLOW.replace("(table, clicks)", "(table: list, clicks: float) -> int"),
        SLOW.replace("    total = 0\n", '    """Counts."""\n    total = 0  # so far\n    pass\n'),
        "class Model:\n" + textwrap.indent(SLOW, "    "),
        f"X = 1\n{SLOW}\ndef other():\n    return 2\n",
    ],
    ids=["renamed", "variables", "annotations", "remarks", "a method", "elsewhere"],
)
def test_what_does_nothing_makes_no_other_function(other):
    assert alike(SLOW, other, ("slow", "fast" if "fast" in other else "slow"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<=", "<"),
        ("+= 1", "+= 1.0"),
        ("total = 0", "total = False"),
        ("for limit in table", "for limit in sorted(table)"),
        ("return total", "return table"),
        ("(table, clicks)", "(table, clicks=3)"),
        ("(table, clicks)", "(table, *clicks)"),
        ("def slow", "async def slow"),
        ("\ndef slow", "\n@cached\ndef slow"),
        ("    return total", "    return total + len(table)"),
        ("limit <= clicks", "table <= clicks"),
    ],
)
def test_what_does_something_makes_another_function(old, new):
    assert SLOW.count(old) >= 1
    assert not alike(SLOW, SLOW.replace(old, new))


def test_names_that_it_did_not_make_count():
    text = "def f(x):\n    return numpy.sort(x, kind='stable')\n"
    for old, new in (
        ("numpy", "cupy"),
        ("sort", "argsort"),
        ("kind", "order"),
        ("stable", "quick"),
    ):
        assert not alike(text, text.replace(old, new), ("f", "f"))
    shared = "def f(x):\n    global {0}\n    {0} = x\n"
    assert not alike(shared.format("a"), shared.format("b"), ("f", "f"))
    assert alike(shared.format("a"), shared.format("a").replace("x", "y"), ("f", "f"))


def test_variables_that_are_swapped_are_not_the_same():
    first = "def f(a, b):\n    return a - b\n"
    assert alike(first, "def f(b, a):\n    return b - a\n", ("f", "f"))
    assert not alike(first, "def f(a, b):\n    return b - a\n", ("f", "f"))


@pytest.mark.parametrize(
    "text",
    [
        "def {0}(n):\n    return n and {0}(n - 1)\n",
        "class M:\n    def {0}(self, n):\n        return n and self.{0}(n - 1)\n",
    ],
)
def test_a_function_that_calls_itself_is_renamed_with_its_calls(text):
    assert alike(text.format("slow"), text.format("fast"), ("slow", "fast"))
    other = text.format("fast").replace("fast(n -", "slow(n -")
    assert not alike(text.format("slow"), other, ("slow", "fast"))


def test_several_functions_of_one_name_are_all_told():
    text = "class A:\n    def f(self):\n        return 1\nclass B:\n    def f(self):\n        return 2\n"
    assert {name: len(found) for name, found in bodies(text.encode()).items()} == {"f": 2}


@pytest.mark.parametrize(
    "source",
    [b"def (", b"x\0y", "# coding: latin-9\nx = '\xa4'".encode("utf-16"), b"(" * 5000, b""],
)
def test_what_is_no_python_has_no_functions(source):
    assert bodies(source) == {}


def test_neither_a_long_number_nor_a_deep_expression_nor_an_odd_escape_hides_a_function():
    number = f"def f():\n    return 0x{'f' * 6000}\n"
    deep = f"def f(x):\n    return {'+'.join(['x'] * 700)}\n"
    odd = "def f(x):\n    return '\\d' is x\n"
    longer = deep.replace("return x", "return x+x")
    for text, new in ((number, number.replace("0xf", "0xe")), (deep, longer), (odd, odd)):
        assert len(bodies(text.encode())["f"]) == 1
        assert alike(text, new, ("f", "f")) is (text == new)


@pytest.mark.parametrize("name", ["rank", "Model.rank", "Model.run.<locals>.rank"])
def test_a_function_is_called_by_its_last_name(name):
    assert own_name(name) == "rank"
