"""Single changes of inputs: any place of any dtype, and nothing that no draw could be."""

import numpy as np
import pytest

from layers.callables import elements
from layers.callables.codec import Leaf


def _leaf(array: np.ndarray) -> Leaf:
    text = array.dtype == object
    return Leaf("objects" if text else "ndarray", "O" if text else array.dtype.str, array)


def _texts(*items: object) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _inputs(**arrays: np.ndarray) -> dict[str, Leaf]:
    return {name: _leaf(array) for name, array in arrays.items()}


def _changes(one: dict[str, Leaf], other: dict[str, Leaf], name: str) -> list[int]:
    """Return the places that changes of an input touch, third by third, many times."""
    rng, places = np.random.default_rng(0), []
    for part in [0, 1, 2] * 20:
        found = elements.one_element(one, other, name, rng, part)
        if found is not None:
            old, new = one[name].array.reshape(-1), found[name].array.reshape(-1)
            [place] = [n for n in range(old.size) if old[n] != new[n]]
            places.append(place)
            assert all(found[n] is one[n] for n in one if n != name)
    return places


RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RNG.standard_normal((6, 5)), RNG.standard_normal((6, 5))),
        (np.arange(30) * 7 % 5, np.arange(30) * 3 % 4 + 5),
        (np.arange(30) % 2 == 0, np.arange(30) % 3 == 0),
        (_texts(*map(str, range(30))), _texts(*map(str, range(100, 130)))),
        (np.array([b"a", b"c"] * 15), np.array([b"d", b"b"] * 15)),
        (np.arange(30) * 1j, np.arange(30) * 2j),
    ],
)
def test_elements_of_every_dtype_change_over_the_whole_range(
    one: np.ndarray, other: np.ndarray
) -> None:
    places = _changes(_inputs(x=one), _inputs(x=other), "x")
    assert min(places) < 8
    assert max(places) > 22
    assert len(places) > 30


def test_what_is_the_same_in_every_draw_is_left_as_it_is() -> None:
    one, other = _inputs(width=np.array([3, 4, 5])), _inputs(width=np.array([3, 4, 5]))
    assert _changes(one, other, "width") == []


def test_keys_stay_distinct_and_a_permutation_is_left_as_it_is() -> None:
    rng = np.random.default_rng(1)
    one, other = (_inputs(keys=rng.permutation(90)[:40]) for _ in range(2))
    for part in range(3):
        found = elements.one_element(one, other, "keys", rng, part)
        assert found is not None
        assert len(set(found["keys"].array.tolist())) == 40
    one, other = (_inputs(order=rng.permutation(40)) for _ in range(2))
    assert _changes(one, other, "order") == []


def test_offsets_stay_in_order_and_lengths_keep_their_sum() -> None:
    rng = np.random.default_rng(2)

    def ragged() -> dict[str, Leaf]:
        lengths = rng.integers(1, 9, 30)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        values = rng.standard_normal(int(lengths.sum()))
        return _inputs(values=values, lengths=lengths, offsets=offsets)

    one, other = ragged(), ragged()
    assert _changes(one, other, "lengths") == []
    places = _changes(one, other, "offsets")
    assert places
    for part in range(3):
        found = elements.one_element(one, other, "offsets", rng, part)
        assert found is None or (np.diff(found["offsets"].array) > 0).all()
    exchanged = elements.rows_exchanged(one, other, "lengths", rng)
    assert exchanged is not None
    assert exchanged["lengths"].array.sum() == len(one["values"].array)


def test_children_keep_lying_behind_their_parents() -> None:
    rng = np.random.default_rng(3)
    one, other = (_inputs(left=np.arange(30) + rng.integers(1, 9, 30)) for _ in range(2))
    for _ in range(20):
        for found in (
            elements.rows_exchanged(one, other, "left", rng),
            elements.one_element(one, other, "left", rng, 1),
        ):
            assert found is None or (found["left"].array > np.arange(30)).all()


def test_rows_of_weights_change_places_and_those_sorted_by_a_column_do_not() -> None:
    rng = np.random.default_rng(4)
    weights = _inputs(w=rng.standard_normal((6, 20)))
    found = elements.rows_exchanged(weights, weights, "w", rng)
    assert found is not None
    assert (found["w"].array != weights["w"].array).any(axis=1).sum() == 2
    table = _inputs(t=np.column_stack([np.arange(9), rng.integers(0, 5, 9)]))
    assert elements.rows_exchanged(table, table, "t", rng) is None


def test_numbers_that_are_no_arrays_come_from_the_other_draw() -> None:
    one, other = ({"k": Leaf("int", "<i8", np.array(n))} for n in (3, 4))
    found = elements.one_element(one, other, "k", np.random.default_rng(0), 0)
    assert found is not None
    assert (found["k"].kind, int(found["k"].array)) == ("int", 4)
    assert elements.one_element(one, other, "k", np.random.default_rng(0), 1) is None
