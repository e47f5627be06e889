from __future__ import annotations

import runpy
from pathlib import Path

import libcst as cst
import numpy as np
import pytest

from layers.features.codemod import File
from layers.features.codemods.columns.fill_helper import helper_code, is_fill_helper
from layers.features.codemods.columns.fill_missing import CODEMOD
from layers.features.sites import Refusal, Site

PROGRAMS = Path(__file__).parent / "test_features_programs" / "fill_missing"
HEAD = "import numpy as np\n\n\ndef f(x, d):\n    return "


def find(expression):
    return CODEMOD.find(File("m.py", HEAD + expression + "\n"))


def apply(expression):
    after = CODEMOD.apply(File("m.py", HEAD + expression + "\n"))
    return after.partition("def f(x, d):\n    return ")[2].strip()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("np.nan_to_num(x)", "_nan_to_num(x)"),
        ("np.nan_to_num(x.astype(np.float32))", "_nan_to_num(x, np.float32)"),
        (
            "np.nan_to_num(g(x).astype(np.float32), nan=0.0, posinf=0, neginf=-1.5)",
            "_nan_to_num(g(x), np.float32, nan=0.0, posinf=0, neginf=-1.5)",
        ),
        (
            "np.nan_to_num(np.nan_to_num(x).astype(np.float32))",
            "_nan_to_num(_nan_to_num(x), np.float32)",
        ),
        ("np.nan_to_num(x.astype(d))", "_nan_to_num(x.astype(d))"),
        ("np.nan_to_num(x.astype(d.t))", "_nan_to_num(x.astype(d.t))"),  # which may be None
    ],
)
def test_nan_to_num_is_replaced_together_with_a_conversion(before, after):
    assert apply(before) == after
    sites = [Site("m.py", 5, [5], "nan_to_num of a column")] * before.count("nan_to_num")
    assert find(before) == sites


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (
            "np.nan_to_num(x, copy=False)",
            "it may fill the array in place (copy), or values have no keyword",
        ),
        ("np.nan_to_num(x, nan=d)", "a fill value is not a plain number"),
        ("np.nan_to_num(x, nan=1e300)", "a fill value is not a plain number"),
        ("np.nan_to_num(x=x)", "the array is not the first argument"),
    ],
)
def test_what_may_be_filled_otherwise_stays(expression, reason):
    assert find(expression) == [Refusal(reason, 5)]
    assert apply(expression) == expression


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.txt")), ids=lambda path: path.name)
def test_a_filled_file_is_not_proposed_again(path):
    after = CODEMOD.apply(File("m.py", path.read_text()))
    assert CODEMOD.find(File("m.py", after)) == []


def test_the_helper_is_known_again_under_any_name():
    module = cst.parse_module("import numpy\n" + helper_code("fill", "numpy"))
    functions = [node for node in module.body if isinstance(node, cst.FunctionDef)]
    assert [is_fill_helper(function) for function in functions] == [True]
    other = cst.parse_module("def fill(x):\n    return numpy.ndarray(x)\n").body[0]
    assert not is_fill_helper(cst.ensure_type(other, cst.FunctionDef))


class _NoFallback:
    """NumPy without nan_to_num: whoever needs it fails."""

    def __getattr__(self, name):
        if name == "nan_to_num":
            raise AssertionError("the slow path was taken")
        return getattr(np, name)


def test_plain_columns_take_the_quick_path(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(helper_code("fill", "np"))
    fill = runpy.run_path(str(path), {"np": _NoFallback()})["fill"]
    finite = np.array([1.5, -0.0], np.float32)
    missing = np.array([1.5, np.nan, -np.inf])
    zero = 0.0
    assert fill(finite).tobytes() == finite.tobytes()
    assert not np.shares_memory(fill(finite), finite)
    found = fill(missing, np.float32, nan=zero, posinf=zero, neginf=zero)
    assert (found.tolist(), found.dtype) == ([1.5, 0.0, 0.0], np.dtype(np.float32))
    assert fill(np.array([np.nan, 2.0]), nan=-1.0).tolist() == [-1.0, 2.0]
    with pytest.raises(AssertionError):
        fill(missing, nan=-1.0)  # an infinity becomes another value
