"""Look-ups in one call answer every request as the loops did, errors and their texts included."""

import importlib.util
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.features.codemod import File
from layers.features.codemods.vocabulary.vocabulary_lookups import CODEMOD

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("features_harness", PROGRAMS / "harness.py")
harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)

KNOWN = [b"", b"a", b"b\0", b"\xff", b"z\0", "a", "x", "big", "half", 0, 1, 2, 2.5, None, (1, 2)]
NAN = float("nan")
HASHABLE = st.one_of(
    st.sampled_from([*KNOWN, NAN, -0.0, True, 1.0, np.int64(1), np.str_("a"), b"\xc3("]),
    st.binary(max_size=3),
    st.integers(-3, 3),
)
UNHASHABLE = st.sampled_from([[1], {}, np.array([1, 2])])
NUMBERS = st.sampled_from(["<i8", ">i4", "u1", "?", "f4", "<f8", "S2", "U2", "M8[s]"])


def objects(elements):
    array = np.empty(len(elements), dtype=object)
    for n, element in enumerate(elements):
        array[n] = element
    return array


@st.composite
def arrays(draw):
    """Keys of every kind, few and many; mostly what is found, now and then what cannot be."""
    size = draw(st.one_of(st.integers(0, 3), st.integers(20, 40)))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        values = st.integers(-3, 3) if draw(st.booleans()) else st.integers(0, 2)
        drawn = np.array(draw(st.lists(values, min_size=size, max_size=size)), dtype="<i8")
        shape = draw(st.sampled_from([(-1,), (-1, 1), (1, -1)])) if size else (-1,)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return drawn.astype(draw(NUMBERS)).reshape(shape)
    elements = {
        1: st.just(b"a"),
        2: st.sampled_from(KNOWN),
        3: st.sampled_from([0, 1, 2]),
        4: HASHABLE,
        5: st.one_of(HASHABLE, HASHABLE, HASHABLE, UNHASHABLE),
    }[kind]
    return objects(draw(st.lists(elements, min_size=size, max_size=size)))


@st.composite
def requests(draw):
    return [
        harness.request(
            [(name, draw(arrays())) for name in ("f0", "f1") if draw(st.integers(0, 19))]
        )
        for _ in range(draw(st.integers(1, 2)))
    ]


@cache
def rewritten(path):
    before = path.read_text()
    return before, CODEMOD.apply(File(path.name, before))


@pytest.mark.parametrize("path", harness.programs("vocabulary"), ids=lambda path: path.name)
@settings(max_examples=150, deadline=None)
@given(batch=requests())
def test_look_ups_in_one_call_give_the_same_answers_and_errors(path, batch):
    before, after = rewritten(path)
    assert after != before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert harness.outcome(after, batch, texts=True) == harness.outcome(
            before, batch, texts=True
        )
