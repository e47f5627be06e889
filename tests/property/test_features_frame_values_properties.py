"""An array made from columns directly is the one that a pandas frame gives, to its layout."""

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
from layers.features.codemods.frames.frame_helper import helper_code
from layers.features.codemods.frames.frame_values import CODEMOD

pd = pytest.importorskip("pandas", reason="pandas is what the rewrite is compared with")

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("features_harness", PROGRAMS / "harness.py")
harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)

ERRORS = (*harness.ERRORS, RuntimeError, AssertionError, pd.errors.InvalidIndexError)

NAMES = st.sampled_from(["a", "b", "c", "d"])
DTYPES = st.sampled_from(["f8", "f8", "f4", "f2", "i8", "i4", "u1", "u8", "?", ">f8", "g", "O"])
SCALARS = st.sampled_from([1.5, -0.0, 3, 2**63, 2**70, True, None, "x", np.float32(1), np.int8(2)])


@pytest.fixture(scope="module")
def columns_class(tmp_path_factory):
    path = tmp_path_factory.mktemp("frame") / "helper.py"
    code = "import numpy as np\nimport pandas as pd\n" + helper_code("Columns", "pd", "np")
    path.write_text(code)
    return runpy.run_path(str(path))["Columns"]


def values(rows):
    """What may be a column: arrays of every kind, lists, one number, what does not fit."""
    lists = st.sampled_from([st.floats(), st.integers(), st.booleans(), SCALARS])
    return st.one_of(
        DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, rows, elements=elements(dtype))),
        lists.flatmap(lambda cells: st.lists(cells, min_size=rows, max_size=rows)),
        st.lists(st.floats(), max_size=3),
        SCALARS,
        hnp.arrays("f8", (rows, 1)),
        hnp.arrays("f8", rows).map(lambda x: np.repeat(x, 2)[::2]),
        hnp.arrays("f8", rows).map(pd.Series),
    )


def elements(dtype):
    return st.sampled_from(["x", 1, 2.5, None]) if dtype == "O" else None


@st.composite
def frames(draw):
    """How a frame is made, filled and read."""
    rows = draw(st.integers(0, 4))
    given_data = draw(st.none() | st.dictionaries(NAMES, values(rows), max_size=3))
    filled = draw(st.lists(st.tuples(NAMES | st.just(0), values(rows)), max_size=4))
    everything = [*(given_data or {}), *(name for name, _ in filled)]
    some = st.lists(st.sampled_from(everything), min_size=1, max_size=3) if everything else NAMES
    picked = draw(st.none() | some | NAMES)
    options = st.sampled_from([{}, {"dtype": "f4"}, {"dtype": np.float64}, {"dtype": "i8"}])
    return given_data, filled, picked, draw(st.none() | options)


def made(frame_class, given_data, filled, picked, options):
    """Return all that a caller can tell of the values, or the error."""
    try:
        data = [] if given_data is None else [given_data]
        frame = frame_class(*data)
        for name, column in filled:
            frame[name] = column
        frame = frame if picked is None else frame[picked]
        array = frame.values if options is None else frame.to_numpy(**options)
    except ERRORS as error:
        return type(error).__name__, str(error)
    if not isinstance(array, np.ndarray):  # one column of texts: an array of pandas' own
        return type(array), repr(array)
    flags = array.flags
    cells = array.tobytes() if array.dtype != object else repr(array.tolist())
    return array.dtype, array.shape, flags.c_contiguous, flags.f_contiguous, flags.writeable, cells


@settings(max_examples=300, deadline=None)
@given(frame=frames())
def test_values_are_those_of_a_frame(columns_class, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert made(columns_class, *frame) == made(pd.DataFrame, *frame)


def test_columns_are_read_when_they_are_assigned(columns_class):
    column = np.ones(2)
    frame = columns_class({"a": column})
    frame["b"] = column
    column[:] = 7.0
    assert frame.values.tolist() == [[1.0, 1.0]] * 2


@st.composite
def requests(draw):
    rows = draw(st.integers(0, 4))
    arrays = st.sampled_from(["f4", "f8", "i4", "i8", "?"]).flatmap(lambda d: hnp.arrays(d, rows))
    inputs = draw(st.lists(st.tuples(st.sampled_from(["f0", "f1", "f2"]), arrays), max_size=5))
    return [harness.request(inputs)]


@cache
def rewritten(path):
    before = path.read_text()
    return before, CODEMOD.apply(File(path.name, before))


@pytest.mark.parametrize("path", harness.programs("frame_values"), ids=lambda path: path.name)
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
