"""Which calls are mixed into a launch, and where."""

from collections.abc import Sequence

import numpy as np
import pytest

from layers.callables import codec, probes
from layers.callables.maker import Maker, Settings, drawn
from layers.callables.strays import ANYWHERE, BESIDE, ELEMENT, EVERY, STATE, Strays

BATCH = 100


class Drawing:
    """Draws as the process of a maker does: `x` by rows, `w` as state."""

    def draw(
        self, seed: int, batch: int, state: Sequence[str], parts: Sequence[bool]
    ) -> tuple[bytes, str | None]:
        rng = np.random.default_rng(seed)
        found = {"x": rng.standard_normal((batch, 4)), "w": rng.standard_normal(8)}
        return codec.encode({n: x for n, x in found.items() if (n in state) in parts}), None


def _maker(
    batches: tuple[int, ...] | None = None,
    state: tuple[str, ...] = ("w",),
    refused: frozenset[str] = frozenset(),
    seed: int = 5,
) -> Maker:
    settings = Settings(BATCH, state, batches, refused)
    return Maker(Drawing(), settings, np.random.default_rng(seed))


def _strays(seed: int = 0, calls: int = 32, pairs: int = 4, **settings: object) -> Strays:
    return Strays(_maker(**settings), np.random.default_rng(seed), calls, pairs)


def _sent() -> dict[str, codec.Leaf]:
    maker = _maker(seed=6)
    return drawn(maker.state()) | drawn(maker.varying())


@pytest.mark.parametrize("seed", range(20))
def test_sizes_come_early_and_content_last_of_all(seed: int) -> None:
    slots = 32 * 4
    plan = _strays(seed).plan
    places = {kind: place for place, kinds in plan.items() for kind in kinds if place < slots}
    assert set(plan[slots]) <= set(probes.KINDS)
    assert {"nan", "inf"} <= set(plan[slots])
    assert len(plan[slots]) == slots // EVERY
    assert {STATE, BESIDE} <= set(places)
    assert all(places.get(kind, 0) < slots // 4 for kind in (BESIDE, ANYWHERE))


def test_places_and_kinds_differ_from_launch_to_launch() -> None:
    assert len({str(sorted(_strays(seed).plan.items())) for seed in range(20)}) > 15


def test_a_launch_of_long_calls_has_few_others_among_them() -> None:
    plan = _strays(calls=3, pairs=2).plan
    assert sum(map(len, plan.values())) == 3  # new state, another size, unusual content


def test_refused_content_is_never_sent() -> None:
    refused = frozenset(probes.KINDS) - {"zero"}
    for seed in range(10):
        kinds = {k for due in _strays(seed, refused=refused).plan.values() for k in due}
        assert kinds <= {STATE, BESIDE, ANYWHERE, ELEMENT, "zero"}


def test_new_state_goes_into_the_same_objects_beside_new_inputs() -> None:
    sent = _sent()
    [stray] = _strays().due(STATE, sent)
    assert set(stray.refilled) == {"w"}
    assert set(stray.inputs) == {"x"}
    assert stray.refilled["w"].array.tobytes() != sent["w"].array.tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_one_element_is_another_one_in_the_same_object(seed: int) -> None:
    sent = _sent()
    [stray] = _strays(seed).due(ELEMENT, sent)
    now = sent | stray.refilled
    differing = [int((now[n].array != sent[n].array).sum()) for n in sent]
    assert sorted(differing) == [0, 1]
    assert not set(stray.refilled) & set(stray.inputs)


@pytest.mark.parametrize("seed", range(10))
def test_a_size_beside_the_timed_one_is_called_again_and_then_the_timed_one(seed: int) -> None:
    strays = _strays(seed)
    *others, last = strays.due(BESIDE, _sent())
    assert [len(stray.inputs["x"].array) for stray in others] == [s.size for s in others]
    assert {strays.tells(stray) for stray in others} == {True}
    assert len({stray.size for stray in others}) == 1
    assert (last.size, len(last.inputs["x"].array)) == (0, BATCH)
    assert all(set(stray.inputs) == {"x"} for stray in (*others, last))


def test_sizes_are_those_that_the_maker_lists() -> None:
    strays = _strays(batches=(3, BATCH, 120))
    assert {stray.size for stray in strays.due(BESIDE, _sent())} == {120, 0}
    far = _strays(batches=(3, BATCH))
    assert far.due(BESIDE, _sent()) == []
    [once, _] = far.due(ANYWHERE, _sent())
    assert (once.size, far.tells(once)) == (3, False)


def test_a_size_that_needs_other_state_is_left_out() -> None:
    sent = _sent()
    sent["w"] = codec.Leaf("ndarray", "<f8", np.zeros(9))
    assert _strays().due(BESIDE, sent) == []


def test_every_size_to_come_is_visited_once() -> None:
    strays = _strays()
    planned = {kind for kinds in strays.plan.values() for kind in kinds} & {BESIDE, ANYWHERE}
    assert len(strays.visits(_sent())) == len(planned)


def test_unusual_content_is_of_its_own_group() -> None:
    [stray] = _strays().due("nan", _sent())
    assert stray.group == "nan"
    assert np.isnan(stray.inputs["x"].array).any()
    assert "w" not in stray.inputs
