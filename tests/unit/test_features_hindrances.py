from __future__ import annotations

from textwrap import dedent

import libcst as cst
import pytest

from layers.features.codemod import Codemod, File, Rewrite, share_of_lines
from layers.features.codemods.columns import fill_missing, ufunc_batches
from layers.features.codemods.inputs import lookups
from layers.features.codemods.text.decode_loops import CODEMOD
from layers.features.codemods.vocabulary import vocabulary_lookups
from layers.features.compiled import compiled_lines
from layers.features.sites import Refusal, Site, sites
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


EARLY = "it may run while the file is imported, before a helper of ours is there"


@pytest.mark.parametrize(
    "code",
    [
        "MEANS = np.nan_to_num(other())\n\n\ndef g():\n    pass",
        "def g():\n    pass\n\n\nMEANS = np.nan_to_num(other())",
        "mean = lambda v: np.nan_to_num(v)\nMEANS = mean(other())",
        "try:\n    import fast\nexcept ImportError:\n    def mean(v):\n        return np.nan_to_num(v)"
        "\n\nMEANS = mean(other())",
        "class Held:\n    means = np.nan_to_num(other())",
    ],
)
def test_code_that_may_run_before_the_helper_is_left(code):
    file = File("m.py", f"import numpy as np\nfrom mine import other\n\n{code}\n")
    assert [item.reason for item in fill_missing.CODEMOD.find(file)] == [EARLY]
    assert fill_missing.CODEMOD.apply(file) == file.text


def test_a_table_of_the_modules_own_is_left():
    text = (
        "TABLE = {'a': 1}\nNAMES = ['a']\nW = [TABLE[n] for n in NAMES]\n\n\ndef f():\n    pass\n"
    )
    assert sites(vocabulary_lookups.CODEMOD.find(File("m.py", text))) == []


@pytest.mark.parametrize("code", ["f(values for", None])
def test_an_edit_that_gives_no_python_is_a_refusal(code):
    def edit():
        if code is None:
            raise cst.CSTValidationError("no space")
        return cst.Module([cst.SimpleStatementLine([cst.Expr(cst.Name(code))])])

    def analyse(source, file):
        return Rewrite([Site("m.py", 2, [2], "a site")], edit)

    codemod = Codemod("name", ("f",), analyse, share_of_lines, "why")
    file = File("m.py", "def f():\n    pass\n")
    (found,) = codemod.find(file)
    assert isinstance(found, Refusal)
    assert found.reason.startswith("the code to be written is not valid (")
    assert codemod.apply(file) == file.text


def test_what_a_codemod_added_is_no_ones_site():
    text = dedent("""
        import numpy as np


        def f(x, names):
            return [np.log1p(np.nan_to_num(x[n])) for n in names]
        """)
    after = ufunc_batches.CODEMOD.apply(File("m.py", text))
    assert "for place in" in after or "for batch in" in after or "columns[at]" in after
    assert sites(vocabulary_lookups.CODEMOD.find(File("m.py", after))) == []
    assert all(
        type(node) is not cst.FunctionDef or node.name.value == "f" for node in read(after).nodes
    )


@pytest.mark.parametrize("pattern", ['{"k": v}', "[v]", "[*v]", "{**v}", "str() as v"])
def test_what_a_case_captures_is_bound_elsewhere(pattern):
    text = f"def f(x, v=1):\n    v = 2\n    match x:\n        case {pattern}:\n            pass\n    return v\n"
    source = read(text)
    names = [name for name in source.all(cst.Name) if name.value == "v"]
    assert [source.assignments(name) for name in names] == [None] * len(names)
