from __future__ import annotations

import libcst as cst
import pytest

from layers.features.arrays import followed, input_name, is_array, is_string_input, text_of
from layers.features.source import read

INPUTS = {"TEXT": "TYPE_STRING", "PRICE": "TYPE_FP32"}
HEAD = """
import numpy as np
from numpy import zeros
import triton_python_backend_utils as pb_utils

NAME = "TEXT"


def execute(request, other):
    tensor = pb_utils.get_input_tensor_by_name(request, "TEXT")
    price = pb_utils.get_input_tensor_by_name(request, "PRICE").as_numpy()
    again = price
    again = again.reshape(-1)
    mixed = price
    mixed = other
    for row in price:
        pass
"""


def asked(expression, head=HEAD):
    """Return the file, and the expression as it stands at the end of the function."""
    source = read(f"{head}    return {expression}\n")
    value = source.all(cst.Return)[-1].value
    assert value is not None
    return source, value


@pytest.mark.parametrize(
    "expression",
    [
        "tensor.as_numpy()",
        "other.as_numpy()",
        "price",
        "again",
        "price.astype(np.float64).ravel()",
        "price[:, 0]",
        "price[..., 1:].T",
        "np.array(other)",
        "zeros(3)",
        "np.squeeze(price)",
        "np.where(price > 0, price, other)",
    ],
)
def test_is_an_array(expression):
    assert is_array(*asked(expression))


@pytest.mark.parametrize(
    "expression",
    [
        "other",
        "mixed",  # bound twice, once to a parameter
        "row",
        "price[0]",  # an element where there is one dimension
        "price + 1",  # a scalar where there is none
        "np.log1p(price)",
        "np.where(price > 0)",  # a tuple
        "price.tolist()",
        "other.reshape(-1)",
        "np.squeeze(other)",
        "price.shape",
        "unknown.zeros(3)",
        "len(price)",
        "tensor",
    ],
)
def test_is_not_certain_to_be_an_array(expression):
    assert not is_array(*asked(expression))


def test_as_numpy_of_the_files_own_class_may_be_anything():
    head = f"class Fake:\n    def as_numpy(self):\n        return 1\n\n\n{HEAD}"
    assert not is_array(*asked("tensor.as_numpy()", head))


def test_as_numpy_without_the_servers_module_may_be_anything():
    head = HEAD.replace("triton_python_backend_utils", "somewhere")
    assert not is_array(*asked("other.as_numpy()", head))


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("tensor", "TEXT"),
        ("tensor.as_numpy()[:, 0]", "TEXT"),
        ("tensor.as_numpy().reshape(-1).squeeze()", "TEXT"),
        ("np.ravel(price).T", "PRICE"),
        ("pb_utils.get_input_tensor_by_name(request, NAME).as_numpy()", "TEXT"),
        ("price.astype(np.float32)", None),  # other elements
        ("price[0]", None),
        ("again", None),  # bound twice
        ("pb_utils.get_input_tensor_by_name(request, other).as_numpy()", None),
        ("pb_utils.get_output_tensor_by_name(request, 'TEXT').as_numpy()", None),
        ("1 + 2", None),
    ],
)
def test_input_whose_elements_an_expression_holds(expression, name):
    assert input_name(*asked(expression)) == name


@pytest.mark.parametrize(
    ("expression", "is_string"),
    [
        ("tensor.as_numpy()", True),
        ("tensor.as_numpy().reshape(-1)", True),
        ("tensor", False),  # not an array yet
        ("price", False),
        ("other.as_numpy()", False),
    ],
)
def test_string_input_is_one_that_the_configuration_declares(expression, is_string):
    assert is_string_input(*asked(expression), INPUTS) is is_string
    assert is_string_input(*asked(expression), {}) is False


def test_follows_a_name_through_plain_assignments():
    source, value = asked("NAME")
    assert text_of(source, value) == "TEXT"
    assert text_of(source, followed(source, value)) == "TEXT"
    assert text_of(*asked("b'x'")) is None
    assert text_of(*asked("other")) is None


def test_a_name_that_stands_for_itself_ends():
    head = HEAD + "    loop = loop\n"
    source, value = asked("loop", head)
    assert input_name(source, value) is None
    assert is_array(source, value)  # never bound: whoever reads it gets no value at all


def test_shaping_of_a_name_by_itself_ends():
    source, value = asked("ring", HEAD + "    ring = ring.reshape(-1)\n")
    assert input_name(source, value) is None
