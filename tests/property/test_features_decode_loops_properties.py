"""A model whose decode loops were replaced answers as before, error texts included."""

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.features.codemod import File
from layers.features.codemods.text.decode_loops import CODEMOD

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("features_harness_decode", PROGRAMS / "harness.py")
harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)

TEXTS = st.text(st.sampled_from("aB ,\n\0é中\U0001f600"), max_size=6).map(str.encode)
BYTES = st.one_of(TEXTS, TEXTS, TEXTS, st.binary(max_size=4))
ODD = st.one_of(
    st.none(), st.integers(0, 3), st.floats(), st.text(max_size=3), st.binary().map(bytearray)
)
ITEMS = st.one_of(st.lists(BYTES, max_size=6), st.lists(st.one_of(BYTES, BYTES, ODD), max_size=4))


def array(items, shape):
    made = np.empty(len(items), dtype=object)
    made[:] = items
    return made.reshape(shape)


@st.composite
def tags(draw):
    """An array of bytes, of other objects, of fixed width, of another shape or of numbers."""
    items = draw(ITEMS)
    kind = draw(st.sampled_from(["plain", "plain", "fixed", "column", "strided", "number"]))
    if kind == "fixed":
        return np.array([i for i in items if isinstance(i, bytes)], dtype="S5")
    if kind == "number":
        return np.arange(len(items))
    if kind == "column":
        return array(items, (-1, 1))
    return array(items, (-1,))[:: 1 if kind == "plain" else -1]


@st.composite
def pairs(draw):
    rows, width = draw(st.one_of(st.integers(0, 3), st.just(9))), draw(st.integers(0, 2))
    cells = st.one_of(BYTES, BYTES, ODD) if draw(st.booleans()) else BYTES
    items = draw(st.lists(cells, min_size=rows * width, max_size=rows * width))
    made = array(items, (rows, width))
    return np.asfortranarray(made) if draw(st.booleans()) else made


@st.composite
def requests(draw):
    named = [("TAGS", draw(tags())), ("PAIRS", draw(pairs()))]
    return [harness.request(named[draw(st.sampled_from([0, 0, 0, 0, 0, 1])) :])]


@cache
def rewritten(path):
    before = path.read_text()
    return before, CODEMOD.apply(File(path.name, before))


@pytest.mark.parametrize("path", harness.programs("decode_loops"), ids=lambda path: path.name)
@settings(max_examples=120, deadline=None)
@given(batch=requests())
def test_decode_loops_give_the_same_texts_and_errors(path, batch):
    before, after = rewritten(path)
    assert after != before
    assert harness.outcome(after, batch, texts=True) == harness.outcome(before, batch, texts=True)
