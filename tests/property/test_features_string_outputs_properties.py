"""Strings handed over as objects reach the wire as the fixed-width bytes did."""

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.features.codemod import File
from layers.features.codemods.text.string_outputs import CODEMOD

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("features_harness_strings", PROGRAMS / "harness.py")
harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)

ASCII = st.text(st.sampled_from("ab \0"), max_size=5)
TEXTS = st.one_of(ASCII, ASCII, st.text(st.sampled_from("aé\0\ud800"), max_size=3))
OTHERS = st.one_of(st.none(), st.integers(0, 99), st.binary(max_size=3), TEXTS)


@st.composite
def arrays(draw):
    items = draw(
        st.one_of(
            st.lists(TEXTS, max_size=5),
            st.lists(ASCII, min_size=1, max_size=5),
            st.lists(st.binary(max_size=4), max_size=5),
            st.lists(OTHERS, max_size=4),
        )
    )
    items = items * draw(st.sampled_from([1, 8]))  # few are left to the original
    if items and isinstance(items[0], str):
        items[0] += draw(st.sampled_from(["", "x" * 600, "\0" * 600]))
    kind = draw(st.sampled_from(["object", "object", "text", "column", "number"]))
    if kind == "number":
        return np.arange(len(items), dtype=np.float32)
    if kind == "text" and all(isinstance(item, str) for item in items):
        return np.array(items, dtype=str)
    made = np.empty(len(items), dtype=object)
    made[:] = items
    return made.reshape(-1, 1) if kind == "column" else made


@cache
def rewritten(path):
    before = path.read_text()
    return before, CODEMOD.apply(File(path.name, before))


@pytest.mark.parametrize("path", harness.programs("string_outputs"), ids=lambda path: path.name)
@settings(max_examples=120, deadline=None)
@given(texts=arrays())
def test_strings_reach_the_wire_as_before(path, texts):
    before, after = rewritten(path)
    assert after != before
    batch = [harness.request([("TEXTS", texts)])]
    assert harness.outcome(after, batch, texts=True) == harness.outcome(before, batch, texts=True)
