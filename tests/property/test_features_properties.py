"""A rewritten model answers every request bit for bit as the model it was written from."""

import importlib.util
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from layers.features.codemod import File
from layers.features.codemods.columns import concat
from layers.features.codemods.inputs import lookups

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("features_harness", PROGRAMS / "harness.py")
harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)

NAMES = st.sampled_from(["f0", "f1", "f2", "f3", "f4", "f5"])
DTYPES = st.sampled_from([np.float32, np.float64, np.int64, np.int32, np.bool_, ">f4"])


@st.composite
def requests(draw):
    """Requests with inputs missing, twice, empty, of odd rows, of every kind of number."""
    rows = draw(st.integers(0, 6))
    odd = st.one_of(st.just(rows), st.just(rows), st.just(rows), st.integers(0, 6))
    arrays = DTYPES.flatmap(lambda dtype: odd.flatmap(lambda n: hnp.arrays(dtype, n)))
    inputs = st.lists(st.tuples(NAMES, arrays), max_size=9)
    return [harness.request(draw(inputs)) for _ in range(draw(st.integers(1, 2)))]


@cache
def rewritten(codemod, path):
    before = path.read_text()
    return before, codemod.CODEMOD.apply(File(path.name, before))


ALL = [
    pytest.param(codemod, path, id=path.name.partition(".")[0])
    for codemod, kind in ((lookups, "lookups"), (concat, "concat"))
    for path in harness.programs(kind)
]


@pytest.mark.parametrize(("codemod", "path"), ALL)
@settings(max_examples=60, deadline=None)
@given(batch=requests())
def test_rewritten_program_gives_the_same_bits(codemod, path, batch):
    before, after = rewritten(codemod, path)
    assert after != before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NaN and infinity become integers
        assert harness.outcome(after, batch) == harness.outcome(before, batch)
