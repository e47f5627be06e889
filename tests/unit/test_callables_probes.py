"""Changed content, specs, settings of the maker: pure parts of the callable target."""

from pathlib import Path

import numpy as np
import pytest

from layers.callables import probes, rows
from layers.callables.codec import Leaf
from layers.callables.maker import Settings
from layers.callables.spec import Spec
from layers.errors import InvalidInput


def _leaf(array: np.ndarray) -> Leaf:
    return Leaf("ndarray", array.dtype.str, array)


X = np.random.default_rng(1).standard_normal((8, 16), dtype=np.float32)


def _contents(inputs: dict[str, np.ndarray], state=(), refused=()) -> dict[str, dict[str, Leaf]]:
    leaves = {name: _leaf(array) for name, array in inputs.items()}
    rng = np.random.default_rng(0)
    return {c.name: dict(c.inputs) for c in probes.contents(leaves, state, refused, rng)}


def test_every_kind_of_content_changes_floats_alone() -> None:
    ids = np.arange(8)
    found = _contents({"x": X, "ids": ids})
    kinds = {name.replace("_", "-") for name in probes.KINDS}
    assert set(found) == kinds > {"large", "nan", "tiny", "denormal", "sorted", "negative"}
    assert all(inputs["ids"].array is ids for inputs in found.values())
    assert all(inputs["x"].array.dtype == np.float32 for inputs in found.values())


def test_contents_are_what_their_names_say() -> None:
    found = {name: inputs["x"].array for name, inputs in _contents({"x": X}).items()}
    assert np.isnan(found["nan"]).sum() == 3
    assert np.isinf(found["inf"]).sum() == 3
    assert (found["one-hot"].sum(axis=1) == 1).all()
    assert np.unique(found["constant"]).size == 1
    assert np.abs(found["large"]).max() == pytest.approx(256)
    assert not found["zero"].any()
    assert 0.8 < (found["sparse"] == 0).mean() < 1
    assert (found["sorted"] == np.sort(X, axis=1)).all()
    assert (found["negative"] == -np.abs(X)).all()


def test_small_content_is_small_beside_any_epsilon_and_lies_below_all_normal_numbers() -> None:
    found = {name: inputs["x"].array for name, inputs in _contents({"x": X}).items()}
    largest = np.abs(found["tiny"]).max(axis=1)
    assert 1e-26 < largest.min() < 1e-12 < largest.max() < 1e-5  # every row by its own power
    assert (np.sign(found["tiny"]) == np.sign(X)).all()
    assert 0 < np.abs(found["denormal"]).max() < np.finfo(np.float32).tiny


def test_numbers_that_never_are_negative_are_not_made_so() -> None:
    assert "negative" not in _contents({"x": np.abs(X)})


def test_complex_numbers_are_pairs_of_floats() -> None:
    values = (X[:, :4] + 1j * X[:, 4:8]).astype(np.complex64)
    found = {name: inputs["x"].array for name, inputs in _contents({"x": values}).items()}
    assert all(array.dtype == np.complex64 for array in found.values())
    assert np.abs(found["large"].view(np.float32)).max() == pytest.approx(256)
    assert (np.isnan(found["nan"].view(np.float32))).sum() == 3
    assert probes.upcast({"x": _leaf(values)})["x"].dtype == "<c16"


def test_state_has_probes_of_its_own_and_refused_kinds_are_left_out() -> None:
    found = _contents({"x": X, "w": X + 1}, state=("w",), refused=("nan", "inf", "zero"))
    assert "large in the state" in found
    assert not [name for name in found if name.startswith(("nan", "inf", "zero"))]
    assert (found["large in the state"]["x"].array == X).all()


def test_sorted_edges_keep_their_order() -> None:
    assert _contents({"edges": np.linspace(0, 1, 9)}) == {}


def test_bfloat16_is_rounded_to_its_bits() -> None:
    leaf = Leaf("torch", "bfloat16", np.zeros(3, dtype="<u2"))
    there = probes.with_floats(leaf, np.array([1.0, np.nan, 1 + 2**-9]))
    assert there.array.tolist() == [0x3F80, 0x7FC0, 0x3F80]
    assert probes.floats(there)[0] == 1.0


def test_the_referee_gets_the_same_values_in_float64() -> None:
    there = probes.upcast({"x": _leaf(X), "n": _leaf(np.arange(3))})
    assert (there["x"].dtype, there["n"].dtype) == ("<f8", "<i8")
    assert (there["x"].array == X.astype(np.float64)).all()


def test_rows_are_permuted_together_and_not_where_order_means_something() -> None:
    rng = np.random.default_rng(0)
    ids = rng.permutation(8)
    moved = rows.permuted({"x": _leaf(X), "ids": _leaf(ids)}, (), 8, rng)
    assert moved is not None
    order = [ids.tolist().index(i) for i in moved["ids"].array.tolist()]
    assert (moved["x"].array == X[order]).all()
    assert rows.permuted({"x": _leaf(X), "offsets": _leaf(np.arange(8))}, (), 8, rng) is None
    assert rows.permuted({"x": _leaf(X), "flat": _leaf(np.zeros(5))}, (), 8, rng) is None


def test_one_changed_element_may_lie_anywhere() -> None:
    rng = np.random.default_rng(0)
    places = []
    for _ in range(40):
        changed = probes.one_element({"x": _leaf(X)}, "x", rng)["x"].array
        places += np.flatnonzero(changed.ravel() != X.ravel()).tolist()
    assert len(places) == 40
    assert min(places) < X.size / 4 < 3 * X.size / 4 < max(places)


@pytest.mark.parametrize(
    "text",
    ["", "m", "m:", ":f", "m:f-g", "../m:f", "m/n:f", "missing.py:f", "m.py", "m.py:1", "\0.py:f"],
)
def test_a_spec_of_another_form_is_invalid_input(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("")
    with pytest.raises(InvalidInput):
        Spec.parse(text, tmp_path, "--candidate")


def test_a_spec_names_a_module_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("")
    file, module = (Spec.parse(t, tmp_path, "--inputs") for t in ("m.py:f", "p.m:C"))
    assert (file.file, file.module, file.function) == ((tmp_path / "m.py").resolve(), None, "f")
    assert (module.file, module.module, module.folder) == (None, "p.m", tmp_path.resolve())


def test_settings_have_defaults() -> None:
    assert Settings.of({}) == Settings(256, (), None, frozenset())


@pytest.mark.parametrize(
    "attributes",
    [
        {"batch": 0},
        {"batch": True},
        {"batch": "many"},
        {"state": [1]},
        {"state": {"w": 1}},
        {"batches": [0]},
        {"probes": {"unknown": False}},
        {"probes": ["nan"]},
    ],
)
def test_settings_that_make_no_sense_are_invalid_input(attributes: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Settings.of(attributes)


def leaf(array) -> Leaf:
    array = np.asarray(array)
    return Leaf(
        "objects" if array.dtype == object else "ndarray",
        "O" if array.dtype == object else array.dtype.str,
        array,
    )


def drawn(keys: list[bytes], numbers: list[int]) -> dict[str, Leaf]:
    held = np.empty(len(keys), dtype=object)
    held[:] = keys
    return {"keys": leaf(held), "numbers": leaf(np.array(numbers, dtype=np.int64))}


def test_the_rarest_rows_of_many_draws_come_together():
    rng = np.random.default_rng(0)
    draws = [
        drawn([b"a%d" % (i // 2) for i in range(16)], [int(n) for n in rng.integers(0, 9, 16)])
        for _ in range(20)
    ]
    draws[7]["keys"].array[3] = b"a b"
    draws[11]["keys"].array[5] = b""
    draws[13]["numbers"].array[9] = -(2**40)
    found = rows.unusual_rows(draws, (), 16, rng)
    assert found is not None
    assert {b"a b", b""} < set(found["keys"].array.tolist())
    at = found["numbers"].array.tolist().index(-(2**40))
    assert found["keys"].array[at] == b"a4"  # rows stay together


def test_rows_that_are_not_independent_are_not_pooled():
    rng = np.random.default_rng(0)
    draws = [drawn([b"x"] * 4, [1, 2, 3, 4]) for _ in range(4)]  # sorted: edges, offsets
    assert rows.unusual_rows(draws, (), 4, rng) is None


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 0), dtype=np.float32),
        np.array([False, False, True, False]),
        np.array([1, 2, 250, 1], dtype=np.uint8),
        np.array([1, 1, 5j, 1]),
        np.array([1.0, np.nan, 2.0, 1.0]),
        np.array(["2020-01-01", "2020-01-02", "1970-01-01", "NaT"], dtype="<M8[D]"),
        np.array(["a", "b", "\u00e4", "a"]),
        np.array([b"a", b"b", b" ", b"a"]),
        np.array([["a", "b"], ["a", "a"], ["b", "\ud800"], ["b", "a"]], dtype=object),
    ],
)
def test_the_oddest_row_of_every_dtype_is_found(array: np.ndarray) -> None:
    found = rows.unusualness(leaf(array))
    assert (found.shape, found.dtype) == ((4,), np.float64)
    assert not np.isnan(found).any()
    odd = {"f": 1, "M": 3}.get(array.dtype.kind, 2)
    assert not array.size or int(found.argmax()) == odd


def test_bfloat16_is_odd_by_its_value_and_not_by_its_bits() -> None:
    bits = np.array([0x3F80, 0xBF80, 0x3F80, 0x4480], dtype="<u2")  # 1, -1, 1, 1024
    assert rows.unusualness(Leaf("torch", "bfloat16", bits)).tolist() == [0.0, 2.0, 0.0, 1023.0]


def test_a_rare_key_of_usual_letters_is_odd() -> None:
    held = np.array([b"usual"] * 9 + [b"other"], dtype=object)
    assert int(rows.unusualness(leaf(held)).argmax()) == 9


def test_a_permutation_stays_one() -> None:
    rng = np.random.default_rng(0)
    draws = [{"order": leaf(rng.permutation(16))} for _ in range(8)]
    assert rows.unusual_rows(draws, (), 16, rng) is None
    row = int((draws[0]["order"].array != draws[1]["order"].array).argmax())
    assert rows.one_row_of(draws[0], draws[1], (), 16, row) is None


def test_falling_unsigned_numbers_and_flags_that_are_all_zero_are_rows() -> None:
    for column in (np.array([3, 2, 1, 0], dtype=np.uint8), np.zeros(4, dtype=np.int64)):
        assert rows.independent_rows({"x": leaf(column)}, (), 4) == ["x"]
    assert rows.independent_rows({"x": leaf(np.arange(4, dtype=np.uint8))}, (), 4) == []
