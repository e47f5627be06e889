"""A model whose patterns stay compiled answers as before, invalid patterns included."""

import importlib.util
import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.features.codemod import File
from layers.features.codemods.text.regex_per_call import CODEMOD

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("features_harness_regex", PROGRAMS / "harness.py")
harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)

TEXTS = st.one_of(
    st.text(st.sampled_from("ab1 ,;.=é\0\n"), max_size=8), st.none(), st.binary(max_size=2)
)
PATTERNS = st.one_of(
    st.sampled_from(["a", r"\s+", "(a)|b", "(", "[", "(?i)B", "x{2,1}", "", b"a", r"\1"]),
    st.text(st.sampled_from("ab()[]*+?|.\\"), max_size=4),
    st.none(),
)


def objects(items):
    made = np.empty(len(items), dtype=object)
    made[:] = items
    return made


@cache
def rewritten(path):
    before = path.read_text()
    return before, CODEMOD.apply(File(path.name, before))


def outcome(text, texts, patterns):
    """Return what the program answers; an invalid pattern is an error of re's own."""
    batch = [harness.request([("TEXTS", objects(texts)), ("PATTERNS", objects(patterns))])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # "possible nested set"
        try:
            return harness.outcome(text, batch, texts=True)
        except (*harness.ERRORS, re.error) as error:
            return type(error), str(error)


@pytest.mark.parametrize("path", harness.programs("regex_per_call"), ids=lambda path: path.name)
@settings(max_examples=120, deadline=None)
@given(texts=st.lists(TEXTS, max_size=4), patterns=st.lists(PATTERNS, max_size=4))
def test_kept_patterns_match_and_fail_as_before(path, texts, patterns):
    before, after = rewritten(path)
    assert after != before
    assert outcome(after, texts, patterns) == outcome(before, texts, patterns)
