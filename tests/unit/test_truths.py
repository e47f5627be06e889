"""The referee of a whole trial: what is timed is what is refereed, within its share of the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from layers.base import ChangeClass
from layers.errors import ToolFailed
from layers.gates.correctness import compare
from layers.measure.records import RECORD
from layers.traffic.recorded import decode
from layers.traffic.salting import SALTS, Salter
from layers.trial.business_metric import Remembering
from layers.trial.truths import MOST, MOST_FAILED, SHARE, Truths
from tests.grpc_peer import request

REQUESTS = [request(i, rows=4) for i in range(250)]
RECORDED = SimpleNamespace(digest="recorded", requests=REQUESTS)
ERROR = 1e-6  # of the baseline, everywhere
PAIR_S = 6.0


class Doubling:
    """A referee in this process; the real one runs in the sandbox, see test_interface_attacks."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self.act, self.asked, self.opened, self.running = act, 0, 0, False

    def __call__(self) -> Doubling:
        return self

    def __enter__(self) -> Doubling:
        assert not self.running
        self.opened, self.running = self.opened + 1, True
        return self

    def answer(self, inputs):
        assert self.running
        self.asked += 1
        self.act()
        return {"y": inputs["x"].astype(np.float64) * 2 + ERROR}

    def close(self) -> None:
        self.running = False


class Block:
    """A timed block as `LoadResult` has it."""

    wall_s = PAIR_S / 2

    def __init__(self, request_set: str = "recorded", count: int = 250) -> None:
        self.request_set = request_set
        self.records = np.zeros(count, RECORD)
        self.records["index"] = np.arange(count)


def truths(
    referee: Doubling, change_class: ChangeClass = ChangeClass.REORDER, fresh=None
) -> Truths:
    return Truths(referee, fresh, RECORDED, change_class)


def answers(shift: float, messages: list[bytes]) -> Iterator[tuple]:
    for message in messages:
        y = decode(message)["x"] * 2
        yield {"y": y}, {"y": y + np.float32(shift)}, None


def timed(found: Truths, shift: float = 0.0, block: Block | None = None, messages=REQUESTS):
    """Return the last gate of a pair of timed blocks whose answers are off by `shift`."""
    pair = block or Block()
    compared = found.joined(answers(shift, messages), pair, pair)
    change_class = ChangeClass.REORDER
    comparison = compare(compared, change_class, referee_required=False, errors=found.errors)
    return comparison.gates[-1].reason


def test_timed_answers_are_refereed_by_a_random_sample():
    referee = Doubling()
    with truths(referee) as found:
        assert timed(found) == "outputs_identical"
        assert found.errors["y"].requests == referee.asked == 1  # nobody knew how long it takes
        timed(found)
        assert found.errors["y"].requests == referee.asked > 1
    assert (referee.opened, referee.running) == (1, False)


@pytest.mark.parametrize(
    ("shift", "reason"), [(-4e-7, "within_referee_error"), (1e-5, "worse_than_referee_allows")]
)
def test_an_error_within_the_limits_is_held_to_the_referee_in_timed_blocks_too(shift, reason):
    with truths(Doubling()) as found:
        probe = REQUESTS[0]
        assert found.of(probe, {}, recorded=True) is not None
        assert timed(found, shift) == reason


def test_the_errors_of_a_trial_are_judged_together_and_told():
    with truths(Doubling()) as found:
        old = {"y": np.array([1.0, 1.0], dtype=np.float32)}
        truth = {"y": np.array([1.0, 1.0]) + 1e-4}  # the baseline is this far off in a probe
        rows = compare([(old, old, truth)], ChangeClass.REORDER, errors=found.errors).rows
        assert timed(found, 1e-5) == "within_referee_error"
        (row,) = found.completed(rows)
    assert row.referee_requests == 2
    assert row.referee_max_candidate == pytest.approx(1e-4)
    assert (row.output, row.requests) == ("y", 1)  # the rest of the table stays


@pytest.mark.parametrize("change_class", [ChangeClass.EXACT, ChangeClass.APPROXIMATE])
def test_what_is_not_held_to_the_referee_is_not_asked_of_it(tmp_path, change_class):
    referee, salter = Doubling(), Salter(REQUESTS, [("s", 1), ("x", 1)], SALTS[0])
    fresh = Remembering(salter, tmp_path)
    with truths(referee, change_class, fresh) as found:
        assert fresh.keeps is False
        timed(found)
    assert referee.asked == 0


def test_requests_of_a_block_are_those_that_were_sent(tmp_path):
    fresh = Remembering(Salter(REQUESTS, [("s", 1), ("x", 1)], SALTS[0]), tmp_path)
    referee = Doubling()
    with truths(referee, fresh=fresh) as found:
        with fresh.draw(np.arange(50)) as sent:
            data = sent.path.read_bytes()
            messages = [data[start : start + size] for start, size in sent.spans.tolist()]
        assert timed(found, -4e-7, Block(sent.digest, 50), messages) == "within_referee_error"
        assert referee.asked == 1
        assert timed(found, block=Block("elsewhere")) == "outputs_identical"
        assert referee.asked == 1  # nobody knows what was sent there
    assert (fresh.keeps, fresh._kept) == (False, {})


def test_a_slow_referee_takes_no_more_than_its_share(monkeypatch):
    clock = SimpleNamespace(now=0.0)

    def takes() -> None:
        clock.now += 0.5

    monkeypatch.setattr("layers.trial.truths.time", SimpleNamespace(monotonic=lambda: clock.now))
    pairs = 60
    with truths(Doubling(takes)) as found:
        for _ in range(pairs):
            timed(found)
    assert 0.5 < clock.now <= SHARE * pairs * PAIR_S + 0.5


def test_a_fast_referee_is_asked_a_bounded_number_of_a_pair():
    referee = Doubling()
    with truths(referee) as found:
        for _ in range(3):
            timed(found)
    assert 1 < referee.asked <= 1 + 2 * MOST


def fails() -> None:
    raise ToolFailed("the referee failed: KeyError")


def test_a_recorded_request_that_fails_is_a_failed_tool():
    with truths(Doubling(fails)) as found, pytest.raises(ToolFailed, match="KeyError"):
        found.of(REQUESTS[0], {}, recorded=True)


def test_changed_requests_that_fail_are_left_out_counted_and_given_up():
    referee = Doubling(fails)
    with truths(referee) as found:
        assert found.warning() is None
        for _ in range(MOST_FAILED + 5):
            assert found.of(REQUESTS[0], {}, recorded=False) is None
        told = f"changed requests that the referee could not answer: {MOST_FAILED}"
        assert found.warning() == f"{told}; no more were asked"
        referee.act = lambda: None
        assert found.of(REQUESTS[0], {}, recorded=True) is not None
    assert (referee.asked, referee.opened) == (MOST_FAILED + 1, MOST_FAILED + 1)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"z": np.zeros((1, 4), dtype=np.float32)},
        {"y": np.zeros((1, 3), dtype=np.float32)},
    ],
)
def test_truths_of_another_form_are_left_out_of_changed_requests(answer):
    with truths(Doubling()) as found:
        assert found.of(REQUESTS[0], answer, recorded=False) is None
        assert found.warning() == "changed requests that the referee could not answer: 1"
        fits = {"y": np.zeros((1, 4), dtype=np.float32)}
        assert found.of(REQUESTS[0], fits, recorded=False) is not None
