"""The rewrites of numeric code: the same bits, or the same error, for every request."""

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
from layers.features.codemods.columns import concat, fill_missing, ufunc_batches
from layers.features.codemods.inputs import input_views, lookups
from layers.features.codemods.lists import astype_roundtrips, ragged_padding
from layers.features.files import _declared

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("numeric_harness", PROGRAMS / "harness.py")
harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)

CODEMODS = (astype_roundtrips, fill_missing, input_views, ragged_padding, ufunc_batches)
INPUTS = {"f0": "TYPE_FP32", "f1": "TYPE_INT64", "f2": "TYPE_FP32"}
NAMES = st.sampled_from(["f0", "f1", "f2", "f3", "f4", "f5"])
DTYPES = [np.float32] * 3 + [np.float64, np.int64, np.int32, np.uint8, np.uint64, np.float16]
ODD = [np.bool_, ">f4", ">i8", object]


@st.composite
def arrays(draw, rows):
    """Arrays of numbers of every bit pattern (signalling NaN too), strings, odd shapes."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES + ODD)))
    shape = draw(
        st.sampled_from([(rows,), (rows,), (rows,), (rows, 1), (1, rows), (rows + 1,), ()])
    )
    if dtype.kind == "O":
        cells = st.sampled_from([b"", b"a\0", b"\xff", b"1", 2, None])
        return draw(hnp.arrays(object, shape, elements=cells))
    if dtype.kind == "f" and draw(st.booleans()):
        bits = draw(hnp.arrays(f"u{dtype.itemsize}", shape))
        return bits.view(dtype)
    made = draw(hnp.arrays(dtype, shape))
    return made[..., ::-1] if draw(st.integers(0, 9)) == 0 and made.ndim else made


@st.composite
def requests(draw):
    """Requests of mostly six inputs; some are missing, twice there or of another length."""
    rows = draw(st.sampled_from([0, 1, 2, 3, 5, 17, 33]))
    names = [f"f{n}" for n in range(6)]
    if draw(st.integers(0, 4)) == 0:
        names = draw(st.lists(NAMES, max_size=8))
    plain = draw(st.booleans())
    kind = st.sampled_from([np.float32, np.float64, np.int64])
    one = kind.flatmap(lambda dtype: hnp.arrays(dtype, rows)) if plain else arrays(rows)
    return [harness.request([(name, draw(one)) for name in names])]


def outcome(text, batch):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return harness.outcome(text, batch, texts=True)
        except harness.SERVER["TritonModelException"] as error:
            return str(error)


@cache
def rewritten(codemod, path):
    before = path.read_text()
    return before, codemod.CODEMOD.apply(File(path.name, before, INPUTS))


ALL = [
    pytest.param(codemod, path, id=f"{codemod.CODEMOD.name}-{path.name.partition('.')[0]}")
    for codemod in CODEMODS
    for path in harness.programs(codemod.CODEMOD.name)
]


@pytest.mark.parametrize(("codemod", "path"), ALL)
@settings(max_examples=100, deadline=None)
@given(batch=requests())
def test_rewritten_numeric_program_gives_the_same_bits_or_error(codemod, path, batch):
    before, after = rewritten(codemod, path)
    assert after != before
    assert outcome(after, batch) == outcome(before, batch)


@pytest.mark.parametrize(("codemod", "path"), ALL)
def test_inputs_stay_as_they_are(codemod, path):
    values = np.array([1.5, np.nan, -np.inf, -0.0, 3.0], dtype=np.float32)
    kept = values.copy()
    outcome(rewritten(codemod, path)[1], [harness.request([(f"f{n}", values) for n in range(6)])])
    assert values.tobytes() == kept.tobytes()


EXAMPLE = Path(__file__).parents[2] / "examples" / "ads-serving" / "models" / "features"
SCHEMA = runpy.run_path(str(EXAMPLE / "1" / "schema.py"))
OPTIONAL = {name for kind, names in SCHEMA.items() if kind.endswith("_V2") for name in names}
CELLS = [0.0, -0.0, 1.5, -2.0, 1e-45, 3e38, np.nan, -np.nan, np.inf, -np.inf]


def example_request(seed):
    """Build a request of the example's declared inputs; what older clients leave out may miss."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 40))
    found = []
    for name, kind in _declared(EXAMPLE / "config.pbtxt")[0].items():
        length = rows if name.startswith("cand_") else 20 if name.startswith("hist_") else 1
        if name in OPTIONAL and rng.integers(2):
            continue
        values = {
            "TYPE_FP32": lambda n: rng.choice(CELLS, n).astype(np.float32),
            "TYPE_INT64": lambda n: rng.integers(-3, 2**31, n) * rng.integers(0, 2, n),
            "TYPE_STRING": lambda n: rng.choice(np.array([b"en", b"", b"\xff\0a"], object), n),
        }[kind](length)
        found.append((name, values[None]))
    return harness.request(found)


@pytest.mark.parametrize("order", [1, -1])
def test_the_example_gives_the_same_bits_in_either_order_of_rewrites(order, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE / "1"))
    before = after = (EXAMPLE / "1" / "model.py").read_text()
    for codemod in (ufunc_batches, fill_missing, lookups, concat)[::order]:
        after = codemod.CODEMOD.apply(File("model.py", after))
    args = {"model_repository": str(EXAMPLE), "model_version": "1"}
    models = [harness.model_class(text)() for text in (before, after)]
    for model in models:
        model.initialize(args)
    for seed in range(40):
        batch = [example_request(seed)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            old, new = ([_bits(r) for r in model.execute(batch)] for model in models)
        assert new == old


def _bits(response):
    return [(t.name(), t.kind, t.shape(), t.sent()) for t in response.output_tensors()]
