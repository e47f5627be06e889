"""Native look-ups answer every request as the model did that they were written into."""

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.features.codemod import File
from layers.features.codemods.vocabulary.native_vocabulary import CODEMOD

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("native_server", PROGRAMS / "native_server.py")
server = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(server)

KNOWN = ["", "a", "b\0", "z\0z", "café", "日本", "x" * 40, "12345678", "1234", "12345679", "\ufffd"]
STRINGS = st.one_of(
    st.sampled_from([word.encode() for word in KNOWN]),
    st.sampled_from([b"\xff", b"caf\xc3", b"a\xed\xa0\x80", b"long enough for two words"]),
    st.binary(max_size=10),
    st.text(max_size=6).map(str.encode),
)


def objects(elements):
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array


@st.composite
def arrays(draw):
    """String inputs of one and two dimensions, without rows, of few and many rows; numbers too."""
    if draw(st.integers(0, 15)) == 0:
        return draw(st.sampled_from([np.zeros((1, 3), np.float32), np.zeros((1, 0), np.int64)]))
    valid = st.sampled_from([word.encode() for word in KNOWN])
    elements = draw(st.lists(valid if draw(st.booleans()) else STRINGS, max_size=12))
    repeated = objects(elements * draw(st.sampled_from([1, 1, 20])))
    shapes = (
        [(1, -1), (1, -1), (1, -1), (-1,), (-1, 1)] if len(repeated) else [(1, 0), (0,), (0, 1)]
    )
    return repeated.reshape(draw(st.sampled_from(shapes)))


@st.composite
def requests(draw):
    return [(name, draw(arrays())) for name in ("f0", "f1") if draw(st.integers(0, 24))]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return server.built(tmp_path_factory.mktemp("package"))


@cache
def arms(path, package, few_bytes):
    before = path.read_text()
    after = CODEMOD.apply(File("models/m/1/model.py", before))
    assert after != before
    changed = server.Served(after, package)
    changed.package.FEW_BYTES = few_bytes
    return server.Served(before), changed


@pytest.mark.parametrize("few_bytes", [0, 64])
@pytest.mark.parametrize(
    "path", sorted((PROGRAMS / "native_vocabulary").glob("*.txt")), ids=lambda path: path.name
)
@settings(max_examples=80, deadline=None)
@given(batch=st.lists(requests(), min_size=1, max_size=3))
def test_native_look_ups_give_the_same_answers_and_errors(package, path, few_bytes, batch):
    before, after = arms(path, package, few_bytes)
    for inputs in batch:
        assert after.answer(inputs) == before.answer(inputs)
