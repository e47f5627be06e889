from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from layers.features.codemod import File
from layers.features.codemods.lists.padding_helpers import row_code, rows_code
from layers.features.codemods.lists.ragged_padding import CODEMOD
from layers.features.sites import Refusal, Site

PROGRAMS = Path(__file__).parent / "test_features_programs" / "ragged_padding"
HEAD = "import numpy as np\n\n\ndef f(x, rows, n, c):\n    return "


def find(expression):
    return CODEMOD.find(File("m.py", HEAD + expression + "\n"))


def apply(expression):
    return CODEMOD.apply(File("m.py", HEAD + expression + "\n")).rpartition("return ")[2].strip()


@pytest.fixture(scope="module")
def helpers(tmp_path_factory):
    path = tmp_path_factory.mktemp("helpers") / "m.py"
    path.write_text("import numpy as np\n" + row_code("row", "np") + rows_code("rows", "np"))
    found = runpy.run_path(str(path))
    return found["row"], found["rows"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "np.pad(x, (0, n - len(x)))",
            "_pad_row(x, 0, n - len(x), 0, "
            "lambda values, before, after: np.pad(values, (before, after)))",
        ),
        (
            "np.pad(x, (n, 0), 'constant', constant_values=-1)",
            "_pad_row(x, n, 0, -1, lambda values, before, after: "
            "np.pad(values, (before, after), 'constant', constant_values=-1))",
        ),
        (
            "np.array([r[:n] + [0] * (n - len(r)) for r in rows], dtype=np.int64)",
            "_pad_rows(rows, n, 0, np.int64, False, True, lambda rows, width: "
            "np.array([r[:n] + [0] * (n - len(r)) for r in rows], dtype=np.int64))",
        ),
        (
            "np.array([[-1.5] * (8 - len(r)) + r for r in g(rows)], np.float32)",
            "_pad_rows(g(rows), 8, -1.5, np.float32, True, False, lambda rows, width: "
            "np.array([[-1.5] * (8 - len(r)) + r for r in rows], np.float32))",
        ),
    ],
)
def test_padding_is_replaced(before, after):
    assert apply(before) == after
    (site,) = find(before)
    assert isinstance(site, Site)
    assert site.lines == [5]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("np.pad(x, n)", "the widths are not written out as (before, after)"),
        ("np.pad(x, ((0, n), (0, 0)))", "more than one dimension is padded"),
        ("np.pad(x, (0, n), 'edge')", "not padded with a constant"),
        ("np.pad(x, (0, n), constant_values=c)", "the constant is not a plain number"),
        (
            "np.pad(x, (0, n), stat_length=1)",
            "the array and the widths are not the only arguments",
        ),
        (
            "np.array([r + [0] * (n - len(r)) for r in rows if r], dtype=np.int64)",
            "the rows are filtered or come from more than one loop",
        ),
        (
            "np.array([x + [0] * (n - len(x)) for r in rows], dtype=np.int64)",
            "what is padded is not the loop's own row, or not in a function",
        ),
        (
            "np.array([r + [0] * (max(c) - len(r)) for r in rows], dtype=np.int64)",
            "the width is not a name or a number",
        ),
    ],
)
def test_padding_of_another_kind_is_refused(expression, reason):
    assert find(expression) == [Refusal(reason, 5)]
    assert apply(expression) == expression


def test_a_loop_that_appends_is_read_as_a_comprehension():
    before = """\
import numpy as np


def f(batch, size):
    # ids of fixed length
    out = []  # as lists
    for ids in batch:
        ids = ids[:size]
        out.append([0] * (size - len(ids)) + ids)
    ids_array = np.array(out, dtype=np.int64)
    return ids_array
"""
    after = CODEMOD.apply(File("m.py", before))
    assert (
        after.partition("def f(")[2]
        == """\
batch, size):
    # ids of fixed length
    # as lists
    ids_array = _pad_rows(batch, size, 0, np.int64, True, True, lambda rows, width: \
np.array([[0] * (size - len(ids)) + ids[:size] for ids in rows], dtype=np.int64))
    return ids_array
"""
    )
    (site,) = CODEMOD.find(File("m.py", before))
    assert isinstance(site, Site)
    assert (site.line, site.lines) == (6, [6, 7, 8, 9, 10])


@pytest.mark.parametrize(
    "last",
    [
        "a = np.array(out, dtype=np.int64)\n    return a, out",  # the list is used again
        "a = np.array(out, dtype=np.int64)\n    return a, r",  # the last row is
        "out.append([1])\n    a = np.array(out, dtype=np.int64)",
    ],
)
def test_a_loop_whose_list_or_row_is_used_again_stays(last):
    text = "import numpy as np\n\n\ndef f(rows):\n    out = []\n    for r in rows:\n"
    text += f"        out.append(r + [0] * (8 - len(r)))\n    {last}\n"
    assert CODEMOD.find(File("m.py", text)) == []


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.txt")), ids=lambda path: path.name)
def test_a_padded_file_is_not_proposed_again(path):
    after = CODEMOD.apply(File("m.py", path.read_text()))
    assert after != path.read_text()
    assert CODEMOD.find(File("m.py", after)) == []


def padded(values, before, after):
    return np.pad(values, (before, after), constant_values=-1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.uint8, np.bool_])
@pytest.mark.parametrize(("before", "after"), [(0, 3), (2, 0), (0, 0), (1, 1)])
def test_a_row_is_padded_as_by_numpy(helpers, dtype, before, after):
    row, _ = helpers
    values = np.array([0, 1, 3]).astype(dtype)
    found, expected = row(values, before, after, -1, None), padded(values, before, after)
    assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())
    found = row(values.tolist(), before, after, -1, None)
    assert found.tobytes() == padded(values.tolist(), before, after).tobytes()


@pytest.mark.parametrize(
    "arguments",
    [
        (np.ones((2, 2)), 0, 1),
        (np.array(["a"]), 0, 1),
        (np.ones(2), -1, 0),
        (np.ones(2), np.int64(1), 0),
        ((1, 2), 0, 1),
    ],
)
def test_any_other_row_goes_the_old_way(helpers, arguments):
    row, _ = helpers
    assert row(*arguments, 0, lambda *given: given) == arguments


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.int32, np.float64])
def test_rows_are_padded_as_by_lists(helpers, left, cut, dtype):
    _, rows = helpers
    given = [[1, 2, 3], [], [4.5], [5, 6, 7, 8, 9] if cut else [5]]

    def original(rows, width):
        kept = [row[:width] if cut else row for row in rows]
        filled = [[-1] * (4 - len(row)) for row in rows]
        return np.array(
            [f + k if left else k + f for k, f in zip(kept, filled, strict=True)], dtype
        )

    found = rows(given, 4, -1, dtype, left, cut, None)
    expected = original(given, 4)
    assert (found.dtype, found.shape, found.tobytes()) == (
        expected.dtype,
        expected.shape,
        expected.tobytes(),
    )


@pytest.mark.parametrize(
    "given",
    [
        [],
        [(1, 2)],
        [[1, 2, 3, 4, 5]],  # longer than the width
        [["1"]],
        [[[1]]],
        [[True]],
        [[1], [2], [True]],
        [[np.int64(1)], [1]],
        iter([[1]]),
    ],
)
def test_any_other_rows_go_the_old_way(helpers, given):
    _, rows = helpers
    left = cut = False
    assert rows(given, 4, 0, np.int64, left, cut, lambda *_: "as before") == "as before"
    assert rows([[1]], 4, 0, None, left, cut, lambda *_: "as before") == "as before"


@pytest.mark.parametrize("constant", [0.0, -0.0, -1.5, 0.1, 2.0**31 - 1])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.int32, np.float64])
def test_a_float_fills_as_in_lists(helpers, constant, dtype):
    _, rows = helpers
    given = [[1.5, 2**40 if dtype is np.int64 else 2], [], [0.1]]
    left = cut = False
    found = rows(given, 3, constant, dtype, left, cut, None)
    expected = np.array([row + [constant] * (3 - len(row)) for row in given], dtype)
    assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())


@pytest.mark.parametrize("constant", [float("nan"), float("inf"), 2.0**31])
def test_a_float_that_may_not_fit_goes_the_old_way(helpers, constant):
    _, rows = helpers
    left = cut = False
    assert rows([[1]], 3, constant, np.int64, left, cut, lambda *_: "as before") == "as before"


@pytest.mark.parametrize(
    "line", ["if rows:\n        n = len(rows[0])", "if rows:\n        d = np.int32"]
)
def test_a_width_or_dtype_that_needs_a_row_stays(line):
    text = f"import numpy as np\n\n\ndef f(rows):\n    n, d = 3, np.int64\n    {line}\n"
    text += "    return np.array([r + [0] * (n - len(r)) for r in rows], dtype=d)\n"
    found = CODEMOD.find(File("m.py", text))
    reason = "the width or the dtype may not be known where there is no row"
    assert found == [Refusal(reason, 8)]


def test_rows_written_out_stay_one_argument_and_a_keyword_may_touch():
    before = """\
import numpy as np


def f(a, b):
    out = []
    for r in a, b:
        out.append(r + [0] * (8 - len(r)))
    x = np.array(out, dtype=np.int64)
    return x if len(a)else(np.pad(b, (0, 2)))
"""
    after = CODEMOD.apply(File("m.py", before))
    assert "_pad_rows((a, b), 8, 0, np.int64" in after
    assert "else(_pad_row(b, 0, 2, 0," in after
