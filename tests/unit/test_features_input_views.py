from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from layers.features.codemod import File
from layers.features.codemods.inputs.input_views import CODEMOD
from layers.features.sites import Refusal, Site

PROGRAMS = Path(__file__).parent / "test_features_programs" / "input_views"
INPUTS = {"X": "TYPE_FP32", "N": "TYPE_INT64", "S": "TYPE_STRING"}
HEAD = """import numpy as np
import triton_python_backend_utils as pb


def f(self, request, g):
    x = pb.get_input_tensor_by_name(request, "X").as_numpy()
    s = pb.get_input_tensor_by_name(request, "S").as_numpy()
"""


def find(body, head=HEAD):
    return CODEMOD.find(File("m.py", f"{head}    {body}\n", INPUTS))


def apply(body):
    return CODEMOD.apply(File("m.py", f"{HEAD}    {body}\n", INPUTS)).partition(
        'S").as_numpy()\n    '
    )[2]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "return np.array(x) * 2",
            "return _read_only(x, lambda values: np.array(values)) * 2",
        ),
        (
            "return np.log1p(x.astype(np.float32))",
            "return np.log1p(_read_only(x, lambda values: values.astype(np.float32), np.float32))",
        ),
        (
            "y = x.copy(); return [y[0] > 1, y.shape, len(y), np.stack([y, y]), y.max()]",
            "y = _read_only(x, lambda values: values.copy()); "
            "return [y[0] > 1, y.shape, len(y), np.stack([y, y]), y.max()]",
        ),
    ],
)
def test_copy_that_is_only_read_is_replaced(before, after):
    assert apply(before) == after + "\n"
    assert find(before) == [Site("m.py", 8, [8], "copy of an input that is only read")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = x.copy(); y += 1", "line 8 writes into what may be an input"),
        ("y = x.copy(); y[0] = 1", "line 8 writes into what may be an input"),
        ("np.add(x, 1, out=x); return x.copy() + 1", "line 8 writes into what may be an input"),
        ("x.sort(); return x.copy() + 1", "line 8 writes into what may be an input"),
        ("return x.copy()", "the copy is returned, iterated over or handed on"),
        ("self.x = x.copy()", "the copy is kept in an attribute or a container"),
        ("return g(x.copy())", "the copy is handed to a function that may keep or write it"),
        (
            "return pb.Tensor('Y', x.copy())",
            "the copy is handed to a function that may keep or write it",
        ),
        (
            "return x.copy().reshape(-1)",
            "the copy is used by 'reshape', which may keep or write it",
        ),
        (
            "return x.copy() @ g",
            "a matrix product may depend on where the array lies in memory",
        ),
        (
            "return x.copy().sum()",
            "the copy is used by 'sum', which may keep or write it",
        ),
        ("y = [x.copy()]; return y", "the copy is returned, iterated over or handed on"),
    ],
)
def test_copy_that_may_be_written_or_kept_stays(body, reason):
    assert find(body) == [Refusal(reason, 8)]
    assert apply(body) == body + "\n"


@pytest.mark.parametrize(
    "body",
    [
        "return s.copy() == 1",  # strings
        "return x.astype(np.float64) * 2",  # another type
        "return g.copy() + 1",  # no input
    ],
)
def test_what_is_no_copy_of_a_numeric_input_is_left(body):
    assert find(body) == []


def test_a_write_anywhere_in_the_file_keeps_all_copies():
    head = "def normalise(v):\n    v /= 2.0\n\n\n" + HEAD
    assert find("return x.copy() + 1", head) == [
        Refusal("line 2 writes into what may be an input", 12)
    ]


def test_writes_into_arrays_of_the_files_own_are_no_hindrance():
    body = "z = np.zeros(3); z[0] += 1; k = 0; k += 1; return x.copy() + z"
    assert [type(item) for item in find(body)] == [Site]


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.txt")), ids=lambda path: path.name)
def test_a_file_with_views_is_not_proposed_again(path):
    inputs = {"f0": "TYPE_FP32", "f1": "TYPE_INT64", "f2": "TYPE_FP32"}
    after = CODEMOD.apply(File("m.py", path.read_text(), inputs))
    assert after != path.read_text()
    assert CODEMOD.find(File("m.py", after, inputs)) == []


def test_only_an_array_of_the_right_type_and_layout_is_taken_as_it_is(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("import numpy as np\n\n\n" + helper())
    view = runpy.run_path(str(path))["_read_only"]
    values = np.arange(6, dtype=np.float32)
    assert view(values, np.array) is values
    assert view(values, np.array, np.float32) is values
    for other in (values[::2], values.astype(np.float64), [1.0], values.view(np.recarray)):
        assert view(other, lambda values: "copied", np.float32) == "copied"


def helper():
    text = CODEMOD.apply(File("m.py", HEAD + "    return x.copy() + s\n", INPUTS))
    start = text.index("def _read_only")
    return text[start : text.index("def f(")]
