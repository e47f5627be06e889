from __future__ import annotations

import runpy
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from layers.features.codemod import File
from layers.features.codemods.columns.columns import helper_code
from layers.features.codemods.columns.concat import CODEMOD
from layers.features.sites import Refusal, Site, sites

PROGRAMS = sorted((Path(__file__).parent / "test_features_programs" / "concat").glob("*.txt"))


def find(text, path="m.py"):
    return CODEMOD.find(File(path, text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def function(body):
    return "import numpy as np\n\n\n" + dedent(body)


def test_writes_columns_where_they_were_appended():
    before = function("""
        def column(values, rows):
            made = np.zeros((rows, 1), dtype=np.float32)
            made[:, 0] = values
            return made


        def dense(inputs, rows, tail):
            parts = []  # one array per feature
            for values in inputs:
                parts.append(column(np.log1p(values), rows))
                parts.append(values.astype(np.float32).reshape(-1, 1))
            parts.append(np.full((rows, 1), 0.5, dtype=np.float32))
            parts.append(tail)
            return np.concatenate(parts, axis=1)
        """)
    after = apply(before)
    assert after.partition("def dense")[2] == dedent("""\
        (inputs, rows, tail):
            parts = _Columns(np.float32, "parts 1")  # one array per feature
            for values in inputs:
                parts.add(np.log1p(values), rows)
                parts.add_array(values.reshape(-1))
            parts.full(0.5, rows)
            parts.block(tail)
            return parts.joined(np.concatenate, axis=1)
        """)
    assert find(before, "m.py") == [
        Site("m.py", 18, [5, 6, 7, 8, 14, 15, 16, 17, 18], "4 kinds of parts joined from 'parts'")
    ]


def test_writes_out_a_list_that_is_written_out():
    before = function("""
        def dense(x, y, tail):
            return np.hstack([(x + y).astype(np.float32)[:, None], y.reshape(-1, 1).astype(np.float32), tail])
        """)
    after = apply(before)
    assert after.partition("def dense")[2] == dedent("""\
        (x, y, tail):
            columns = _Columns(np.float32, "columns 1")
            columns.add_array(x + y)
            columns.add_array(y.reshape(-1))
            columns.block(tail)
            return columns.joined(np.hstack)
        """)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_rewritten_file_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert sites(find(after, path.name)) == []
    assert apply(after) == after


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return np.concatenate(xs, axis=1)", "the list is not empty where it is made"),
        (
            "p = []\n    p.append(x)\n    return np.hstack(p)",
            "no part is an array allocated only to be a column",
        ),
        (
            "p = []\n    p.append(x.astype(np.float32)[:, None])\n    return np.concatenate(p)",
            "not joined along the last axis of a matrix",
        ),
        (
            "p = []\n    p.append(x.astype(np.float32)[:, None])\n    q = len(p)\n    return np.hstack(p)",
            "the list is used for more than append and this join",
        ),
        (
            "p = []\n    p.append(x.astype(np.float32)[:, None])\n"
            "    p.append(x.astype(np.float64)[:, None])\n    return np.hstack(p)",
            "the columns differ in dtype",
        ),
        (
            "p = []\n    p.append(x.astype(np.float32))\n    p.append(x)\n    return np.stack(p, axis=1)",
            "a stacked part's dtype is not known",
        ),
        (
            "p = []\n    for x in xs:\n        p.append(x.astype(np.float32)[:, None])\n"
            "        y = np.hstack(p)\n    return y",
            "the list is joined in a loop or later than it stands",
        ),
        ("return np.hstack([x, x])", "no part is an array allocated only to be a column"),
        ("return np.hstack(xs or [x])", "the parts are neither a list with a name nor written out"),
        (
            "return 2 * np.stack([x.astype(np.float32)], axis=1)",
            "the join is part of a larger expression",
        ),
        (
            "return np.stack([x.astype(np.float32), *xs], axis=1)",
            "the list that is written out holds more than plain elements",
        ),
        (
            "p = [x]\n    p.append(x.astype(np.float32)[:, None])\n    return np.hstack(p)",
            "the list is not empty where it is made",
        ),
        (
            "p = []\n    y = lambda: p.append(x)\n    return np.hstack(p)",
            "the list is used for more than append and this join",
        ),
    ],
)
def test_leaves_what_is_not_certain_and_says_why(body, reason):
    text = "import numpy as np\ndef f(x, xs):\n    " + body + "\n"
    assert [item.reason for item in find(text, "m.py")] == [reason]
    assert apply(text) == text


@pytest.fixture
def columns_class(tmp_path):
    path = tmp_path / "columns.py"
    path.write_text("import numpy as np\n" + helper_code("_Columns", "np"))
    return runpy.run_path(str(path))["_Columns"]


def test_nothing_appended_fails_as_joining_nothing_does(columns_class):
    with pytest.raises(ValueError, match="need at least one array"):
        columns_class(np.float32, "s").joined(np.concatenate, axis=1)


def test_the_second_request_starts_as_wide_as_the_first_ended(columns_class):
    for _ in range(2):
        columns = columns_class(np.float32, "s")
        for n in range(5):
            columns.add(n, 3)
        joined = columns.joined(np.concatenate, axis=1)
        assert joined.tolist() == [[0.0, 1.0, 2.0, 3.0, 4.0]] * 3
    assert joined is columns._buffer


def test_a_part_of_another_dtype_promotes_as_joining_does(columns_class):
    columns = columns_class(np.float32, "s")
    columns.add([1, 2], 2)
    columns.block(np.array([[0.1], [0.2]]))
    columns.add_array(np.array([3.5, 4.5]))
    joined = columns.joined(np.concatenate, axis=1)
    assert joined.dtype == np.float64
    assert joined.tolist() == [[1.0, 0.1, 3.5], [2.0, 0.2, 4.5]]


def test_a_part_is_read_when_all_are_joined_and_a_column_when_it_is_added(columns_class):
    values, block = np.ones(2), np.ones((2, 1), np.float32)
    columns = columns_class(np.float32, "s")
    columns.add_array(values)
    columns.block(block)
    values[:], block[:] = 7.0, 7.0
    assert columns.joined(np.concatenate, axis=1).tolist() == [[1.0, 7.0]] * 2


def test_rows_that_differ_fail_as_joining_does(columns_class):
    columns = columns_class(np.float32, "s")
    columns.add(0.0, 2)
    columns.add_array(np.ones(1))
    with pytest.raises(ValueError, match="must match exactly"):
        columns.joined(np.concatenate, axis=1)


def test_a_file_that_is_not_python_is_refused():
    assert find("np.hstack(\n", "m.py") == [Refusal("not valid Python", 1)]


def test_a_join_in_what_another_one_joins_is_left():
    for part in ("np.concatenate(p, axis=1)", "np.hstack(p).sum(axis=1)[:, None]"):
        before = function(f"""
            def f(x, c):
                p = []
                p.append(x.astype(np.float32)[:, None])
                q = []
                q.append({part})
                q.append(c.astype(np.float32)[:, None])
                return np.hstack(q)
            """)
        after = apply(before)
        assert [item.reason for item in find(before) if isinstance(item, Refusal)] == [
            "the join is a part of another one"
        ]
        x, c = np.arange(3.0), np.ones(3)
        assert run(after, x, c).tobytes() == run(before, x, c).tobytes()
    written = before.replace("q.append(c", "p.append(c").replace(
        "return np.hstack(q)", "return np.hstack([np.hstack(p), c.astype(np.float32)[:, None]])"
    )
    assert run(apply(written), x, c).tobytes() == run(written, x, c).tobytes()


def run(text, *arguments):
    names = {}
    exec(text, names)  # noqa: S102  # the program of this test
    return names["f"](*arguments)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (3, 1), (1, 3)])
def test_np_full_takes_what_it_took(shape):
    before = function("""
        def f(x, b, rows):
            p = []
            p.append(x.astype(np.float32)[:, None])
            p.append(np.full((rows, 1), b, dtype=np.float32))
            return np.hstack(p)
        """)
    after = apply(before)
    assert "p.full(b, rows)" in after
    seen = []
    for text in (before, after):
        try:
            seen.append(run(text, np.arange(3.0), np.full(shape, 2.5), 3).tolist())
        except ValueError as error:
            seen.append(str(error))
    assert seen[0] == seen[1]


def test_numpy_that_only_a_function_imports_is_no_helpers():
    text = function("""
        def f(x, rows):
            return np.stack([x.astype(np.float32), x.astype(np.float32)], axis=1)
        """)
    local = text.replace("import numpy as np\n", "").replace(
        "    return", "    import numpy as np\n    return"
    )
    assert [type(item) for item in find(text)] == [Site]
    assert find(local) == [Refusal("NumPy is not imported before the first function", 6)]
