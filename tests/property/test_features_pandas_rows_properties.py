"""Code that reads a row's cells from a dict sees what the Series of pandas would show it."""

import importlib.util
import runpy
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from layers.features.codemod import File
from layers.features.codemods.frames.pandas_rows import CODEMOD
from layers.features.codemods.frames.rows_helper import helper_code

pd = pytest.importorskip("pandas", reason="pandas is what the rewrite is compared with")

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("features_harness", PROGRAMS / "harness.py")
harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)

ERRORS = (*harness.ERRORS, RuntimeError, AssertionError, pd.errors.InvalidIndexError)

NUMBERS = st.sampled_from(["f8", "f4", "i8", "i4", "u1", "u8", "?", ">f8"])
TEXTS = st.sampled_from([b"ios", b"web", b"", b"\0", b"\xc3\xa9", b"\xff"])
ODD = st.sampled_from(["x", b"x", 1, 2.5, True, None, float("nan"), "\ud800", (1,), 2**70])


@pytest.fixture(scope="module")
def helpers(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "helpers.py"
    path.write_text("import pandas as pd\n" + helper_code("pd", "rows", "applied", "Cells"))
    return runpy.run_path(str(path))


@st.composite
def frames(draw):
    """Frames of numbers, text and odd objects, of any index, also with names twice."""
    rows = draw(st.sampled_from([0, 3, 4, 4, 5, 6]))
    odd = st.one_of(TEXTS.map(bytes.hex), ODD, st.just(pd.Timestamp(0)), st.just(pd.NaT))
    cells = st.one_of(
        NUMBERS.flatmap(lambda dtype: hnp.arrays(dtype, rows)),
        st.lists(odd, min_size=rows, max_size=rows).map(lambda xs: pd.Series(xs, dtype=object)),
        st.lists(st.sampled_from("ab"), min_size=rows, max_size=rows),
        st.lists(st.just(pd.Timestamp(0)), min_size=rows, max_size=rows),
        st.lists(st.just("a"), min_size=rows, max_size=rows).map(pd.Categorical),
        st.lists(st.just(1), min_size=rows, max_size=rows).map(lambda x: pd.array(x, "Int64")),
    )
    names = draw(st.lists(st.sampled_from(["a", "b", "c", "size", "items"]), max_size=4))
    columns = {n: draw(cells) for n in dict.fromkeys(["a", *names])}
    frame = pd.DataFrame(columns)
    frame.index = draw(st.permutations(range(rows)))
    return frame if draw(st.integers(0, 9)) else pd.concat([frame, frame], axis=1)


def seen(make):
    """Return all that a caller can tell of what `make` returns, or the error."""
    try:
        made = make()
    except ERRORS as error:
        return type(error).__name__, str(error)
    if isinstance(made, pd.Series):
        cells = [(type(cell).__name__, repr(cell)) for cell in made.array]
        return str(made.dtype), made.name, list(made.index), str(made.index.dtype), cells
    return made


def cell(row):
    return type(row["a"]).__name__, repr(row["a"])


RETURNED = [
    lambda row: row["a"],
    lambda row: row["a"] * 2,
    lambda row: row["a"] or 0,
    lambda row: [row["a"], 1],
    lambda row: None,
    lambda row: {"x": row["a"]},
    lambda row: pd.Series({"x": repr(row["a"])}),
    lambda row: row["a"] > 1,
    lambda row: repr(row["a"]),
]


@settings(max_examples=150, deadline=None)
@given(frame=frames(), function=st.sampled_from(RETURNED))
def test_apply_gives_what_pandas_gives(helpers, frame, function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = seen(lambda: frame.apply(function, axis=1))
        got = seen(lambda: helpers["applied"](frame, function, ("a",), ()))
    if isinstance(want, pd.DataFrame):
        pd.testing.assert_frame_equal(got, want, check_exact=True)
    else:
        assert got == want


@settings(max_examples=150, deadline=None)
@given(frame=frames())
def test_rows_hold_what_the_series_hold(helpers, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = seen(lambda: [(n, cell(row)) for n, row in frame.iterrows()])
        got = seen(lambda: [(n, cell(row)) for n, row in helpers["rows"](frame, ("a",), ())])
    assert got == want


@settings(max_examples=50, deadline=None)
@given(frame=frames(), name=st.sampled_from(["a", "b", "size", "items", "missing"]))
def test_a_column_as_an_attribute_is_what_pandas_answers(helpers, frame, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = seen(lambda: [repr(getattr(row, name))[:30] for _, row in frame.iterrows()])
        rows = helpers["rows"]
        got = seen(lambda: [repr(getattr(r, name))[:30] for _, r in rows(frame, (name,), (name,))])
    assert got == want


@st.composite
def requests(draw):
    rows = draw(st.sampled_from([0, 3, 4, 4, 5, 6]))
    dtypes = st.sampled_from(["f8", "f4", "i8", "i4", "u1", "?"])
    inputs = [(n, draw(dtypes.flatmap(lambda d: hnp.arrays(d, rows)))) for n in ("views", "clicks")]
    texts = draw(st.lists(TEXTS, min_size=rows, max_size=rows))
    os = np.array(texts, dtype=object) if draw(st.booleans()) else np.arange(rows)
    inputs.append(("os", os))
    kept = draw(st.lists(st.sampled_from(inputs), min_size=1, max_size=4))
    return [harness.request(draw(st.sampled_from([inputs, kept])))]


@cache
def rewritten(path):
    before = path.read_text()
    return before, CODEMOD.apply(File(path.name, before))


@pytest.mark.parametrize("path", harness.programs("pandas_rows"), ids=lambda path: path.name)
@settings(max_examples=50, deadline=None)
@given(batch=requests())
def test_rewritten_program_gives_the_same_bits(path, batch):
    before, after = rewritten(path)
    assert after != before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert harness.outcome(after, batch, texts=True) == harness.outcome(
            before, batch, texts=True
        )
