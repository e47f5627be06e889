from __future__ import annotations

from textwrap import dedent

import pytest

from layers.features.codemod import File
from layers.features.codemods.inputs import lookups
from layers.features.codemods.text.decode_loops import CODEMOD
from layers.features.compiled import compiled_lines
from layers.features.sites import Refusal, Site
from layers.features.source import read

IMPORTS = {
    "@njit": "from numba import njit",
    "@nb.jit(nopython=True)": "import numba as nb",
    "@torch.jit.script": "import torch",
    "@torch.compile": "import torch",
    "@tf.function": "import tensorflow as tf",
    "@jax.jit": "import jax",
}


def program(decorator, imports):
    return dedent(f"""
        {imports}
        import numpy as np
        import triton_python_backend_utils as pb_utils


        {decorator}
        def texts(rows):
            return [row.decode("utf-8") for row in rows]


        class TritonPythonModel:
            def execute(self, requests):
                a = pb_utils.get_input_tensor_by_name(requests[0], "a").as_numpy()
                return texts(a), [row.decode("utf-8") for row in a]
        """)


@pytest.mark.parametrize(("decorator", "imports"), IMPORTS.items())
def test_a_site_in_a_compiled_function_leaves_the_whole_file(decorator, imports):
    file = File("m.py", program(decorator, imports))
    found = CODEMOD.find(file)
    assert found
    assert all(isinstance(item, Refusal) for item in found)
    assert "compiles, which knows no helper of ours" in found[0].reason
    assert CODEMOD.apply(file) == file.text


@pytest.mark.parametrize(
    ("decorator", "imports"),
    [
        ("", "import numba"),
        ("@torch.no_grad()", "import torch"),
        ("@torch.inference_mode()", "import torch"),
        ("@cache", "from functools import cache"),
    ],
)
def test_other_functions_are_none_of_a_compilers(decorator, imports):
    file = File("m.py", program(decorator, imports))
    assert [type(item) for item in CODEMOD.find(file)] == [Site, Site]


def test_a_function_that_is_handed_to_a_compiler_is_compiled():
    text = "import numba\n\n\ndef f(x):\n    return x\n\n\nfast = numba.njit(cache=True)(f)\n"
    assert compiled_lines(read(text)) == {4: "numba", 5: "numba"}


LOOKUPS = """
import triton_python_backend_utils as pb
{line}


def execute(requests):
    for r in requests:
        yield pb.get_input_tensor_by_name(r, "a"), pb.get_input_tensor_by_name(r, "b")
"""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("from numpy import *", "an import of * may give Python's own names another meaning"),
        ("type = 'clicks'", "the file gives Python's name 'type' another meaning"),
        ("from mine import map", "the file gives Python's name 'map' another meaning"),
        ("def list(x):\n    pass", "the file gives Python's name 'list' another meaning"),
        (
            "def f():\n    global zip\n    zip = 1",
            "the file gives Python's name 'zip' another meaning",
        ),
    ],
)
def test_a_file_that_gives_pythons_names_another_meaning_is_left(line, reason):
    file = File("m.py", LOOKUPS.format(line=line))
    assert [item.reason for item in lookups.CODEMOD.find(file)] == [reason]
    assert lookups.CODEMOD.apply(file) == file.text


@pytest.mark.parametrize(
    "line",
    [
        "print = None",
        "def f(type, map):\n    return type",
        "class A:\n    len = 3",
        "import numpy.typing as list_of",
    ],
)
def test_names_of_other_scopes_and_those_never_used_hinder_nothing(line):
    found = lookups.CODEMOD.find(File("m.py", LOOKUPS.format(line=line)))
    assert [type(item) for item in found] == [Site]
