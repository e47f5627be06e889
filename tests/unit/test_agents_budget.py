"""The purse: hard stops, and a ledger that loses nothing."""

import json
import os
import time
from dataclasses import dataclass

import pytest

from layers.agent_settings import BudgetSection, ModelSection, Prices
from layers.agents.service.budget import FEWEST_TOKENS, OutOfBudget, Purse, Usage, cost_of
from layers.errors import InvalidInput, JournalBroken, Location, RunStopped
from layers.story import Cost, Outcome, Role

PRICES = Prices(input=3, output=15, cache_read=0.3, cache_write=3.75)
MODEL = ModelSection(name="m", max_tokens=10_000, prices=PRICES)
USED = Usage(input_tokens=1000, output_tokens=200, cache_read_tokens=4000, cache_write_tokens=500)
MOST = Usage(input_tokens=9000, output_tokens=1000)


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "agents" / "spent.jsonl"


def _purse(ledger, clock=None, **limits):
    return Purse(ledger, BudgetSection(**limits), clock or Clock())


def test_money_is_counted_by_each_kind_of_token():
    cost = cost_of(USED, PRICES, 1.5)
    assert cost.usd == pytest.approx((1000 * 3 + 200 * 15 + 4000 * 0.3 + 500 * 3.75) / 1e6)
    assert (cost.calls, cost.tokens, cost.wall_s) == (1, 5700, 1.5)
    assert cost_of(USED, None, 1.5).usd is None


def test_nothing_is_spent_at_first(ledger):
    purse = _purse(ledger)
    purse.check()
    assert purse.spent == Cost(usd=0.0)
    assert purse.since(purse.mark()) == Cost(usd=0.0)


def test_what_was_spent_is_known_to_the_next_process(ledger):
    first = _purse(ledger)
    charged = [first.charge(Role.PLANNER, USED, PRICES, 1.0) for _ in range(3)]
    assert first.spent == charged[0] + charged[1] + charged[2]
    assert _purse(ledger).spent == first.spent


def test_what_is_charged_after_a_mark_is_told_apart(ledger):
    purse = _purse(ledger)
    purse.charge(Role.PLANNER, USED, PRICES, 1.0)
    mark = purse.mark()
    one = purse.charge(Role.IMPLEMENTER, MOST, PRICES, 2.0)
    two = purse.charge(Role.IMPLEMENTER, USED, None, 2.0)
    assert purse.since(mark) == Cost(usd=0.0) + one + two
    assert purse.since(mark).usd is None


def test_each_charge_is_on_disk_before_it_is_returned(ledger, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (real(fd), synced.append(ledger.read_bytes().count(b"\n")))
    )
    purse = _purse(ledger)
    purse.promise(Role.JUDGE, MOST, PRICES)
    assert synced[-1] == 1
    purse.charge(Role.JUDGE, USED, PRICES, 1.0)
    assert synced[-1] == 2


def test_a_line_says_who_spent_what_and_when(ledger):
    _purse(ledger).charge(Role.JUDGE, USED, PRICES, 1.0)
    line = json.loads(ledger.read_text())
    assert line["kind"] == "charged"
    assert line["role"] == "accuracy judge"
    assert line["cost"]["cache_read_tokens"] == 4000
    assert line["at"].startswith("20")


# A process that is killed


def test_a_call_that_was_cut_off_counts_with_the_most(ledger):
    first = _purse(ledger)
    charged = first.charge(Role.PLANNER, USED, PRICES, 1.0)
    first.promise(Role.PLANNER, MOST, PRICES)
    after = _purse(ledger)
    assert after.spent == charged + cost_of(MOST, PRICES, 0.0)
    again = _purse(ledger)
    assert again.spent == after.spent, "and counts once"


def test_a_charge_after_a_call_that_was_cut_off_does_not_hide_it(ledger):
    _purse(ledger).promise(Role.PLANNER, MOST, PRICES)
    second = _purse(ledger)
    second.charge(Role.EVALUATOR, USED, PRICES, 0.0)
    expected = cost_of(MOST, PRICES, 0.0) + cost_of(USED, PRICES, 0.0)
    assert second.spent == expected
    assert _purse(ledger).spent == expected


def test_a_promise_that_is_kept_counts_with_what_it_cost(ledger):
    purse = _purse(ledger)
    purse.promise(Role.PLANNER, MOST, PRICES)
    assert purse.spent == Cost(usd=0.0)
    purse.charge(Role.PLANNER, USED, PRICES, 0.5)
    assert purse.spent == cost_of(USED, PRICES, 0.5)
    assert _purse(ledger).spent == purse.spent


def test_a_ledger_cut_at_any_byte_says_no_less_than_what_was_billed(ledger):
    purse = _purse(ledger)
    for _ in range(2):
        purse.promise(Role.PLANNER, MOST, PRICES)
        purse.charge(Role.PLANNER, USED, PRICES, 0.0)
    whole = ledger.read_bytes()
    ends = [at for at, byte in enumerate(whole, 1) if byte == ord("\n")]
    assert len(ends) == 4
    for cut in range(len(whole) + 1):
        ledger.write_bytes(whole[:cut])
        spent = _purse(ledger).spent
        lines = sum(end <= cut for end in ends)
        # A call can have been billed as soon as its promise is on disk, and with no more than that.
        billed = {0: 0, 1: MOST.tokens, 2: USED.tokens, 3: USED.tokens + MOST.tokens}
        assert spent.tokens == billed.get(lines, 2 * USED.tokens)
        assert ledger.read_bytes().endswith(b"\n") or not ledger.read_bytes()


def test_after_a_cut_line_the_ledger_goes_on(ledger):
    _purse(ledger).charge(Role.PLANNER, USED, PRICES, 0.0)
    with ledger.open("ab") as file:
        file.write(b'{"kind":"char')
    second = _purse(ledger)
    second.charge(Role.PLANNER, USED, PRICES, 0.0)
    assert _purse(ledger).spent == second.spent
    assert second.spent.calls == 2


@pytest.mark.parametrize(
    "line", ["", "{}", "[]", '{"kind":"charged"}', "\x00", '{"kind":"spent","at":"now"}']
)
def test_a_line_that_is_none_is_an_error_with_its_place(ledger, line):
    _purse(ledger).charge(Role.PLANNER, USED, PRICES, 0.0)
    text = ledger.read_text()
    ledger.write_text(f"{text}{line}\n{text}")
    with pytest.raises(InvalidInput, match="not a line of a ledger") as caught:
        _purse(ledger)
    assert caught.value.at == Location(ledger, 2)


def test_nobody_earns_by_a_negative_cost(ledger):
    _purse(ledger).charge(Role.PLANNER, USED, PRICES, 0.0)
    ledger.write_text(ledger.read_text().replace('"output_tokens":200', '"output_tokens":-200'))
    with pytest.raises(InvalidInput, match="not a line of a ledger"):
        _purse(ledger)


def test_a_ledger_that_cannot_be_written_stops_the_run(ledger, monkeypatch):
    purse = _purse(ledger)
    purse.charge(Role.PLANNER, USED, PRICES, 0.0)
    before = ledger.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(JournalBroken, match="No space left on device") as caught:
        purse.charge(Role.PLANNER, USED, PRICES, 0.0)
    assert isinstance(caught.value, RunStopped)
    assert ledger.read_bytes() == before


def test_a_link_in_place_of_the_ledger_is_not_followed(ledger, tmp_path):
    purse = _purse(ledger)
    (tmp_path / "elsewhere").write_text("")
    ledger.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalBroken):
        purse.charge(Role.PLANNER, USED, PRICES, 0.0)
    assert (tmp_path / "elsewhere").read_text() == ""


# Hard stops


def test_no_call_begins_once_the_tokens_are_spent(ledger):
    purse = _purse(ledger, tokens=10_000)
    purse.charge(Role.PLANNER, Usage(input_tokens=9_999), PRICES, 0.0)
    purse.check()
    purse.charge(Role.PLANNER, Usage(cache_read_tokens=1), PRICES, 0.0)
    with pytest.raises(OutOfBudget, match="10,000 tokens are spent of 10,000") as caught:
        purse.check()
    assert caught.value.outcome is Outcome.OUT_OF_BUDGET
    with pytest.raises(OutOfBudget):
        _purse(ledger, tokens=10_000).check()


def test_no_call_begins_once_the_money_is_spent(ledger):
    purse = _purse(ledger, usd=0.01)
    purse.charge(Role.PLANNER, Usage(output_tokens=600), PRICES, 0.0)
    purse.check()
    purse.charge(Role.PLANNER, Usage(output_tokens=67), PRICES, 0.0)
    with pytest.raises(OutOfBudget, match=r"\$0\.0100 are spent of \$0\.0100") as caught:
        purse.check()
    assert caught.value.outcome is Outcome.OUT_OF_BUDGET


def test_where_money_is_bounded_nothing_of_unknown_price_is_bought_twice(ledger):
    purse = _purse(ledger, usd=1000)
    purse.charge(Role.PLANNER, Usage(output_tokens=1), None, 0.0)
    with pytest.raises(OutOfBudget, match="prices are not known"):
        purse.check()
    _purse(ledger).check()


def test_no_call_begins_once_the_time_is_up(ledger):
    clock = Clock()
    purse = _purse(ledger, clock, minutes=2)
    with purse.working():
        clock.now_s += 119
        purse.check()
        clock.now_s += 1
        with pytest.raises(OutOfBudget, match=r"2\.0 of 2 minutes") as caught:
            purse.check()
    assert caught.value.outcome is Outcome.OUT_OF_TIME


def test_only_work_counts_towards_the_time(ledger):
    clock = Clock()
    purse = _purse(ledger, clock, minutes=2)
    with purse.working():
        clock.now_s += 30
    clock.now_s += 3600  # a trial
    with purse.working():
        clock.now_s += 30
        with purse.working():
            clock.now_s += 30
    assert purse.worked_s == 90
    assert _purse(ledger, Clock()).worked_s == 90


def test_the_time_up_to_the_last_call_survives_a_kill(ledger):
    clock = Clock()
    purse = _purse(ledger, clock)
    with purse.working():
        clock.now_s += 40
        purse.charge(Role.PLANNER, USED, PRICES, 40.0)
        clock.now_s += 5
        assert _purse(ledger).worked_s == 40, "what another process would find now"
    assert _purse(ledger).worked_s == 45


def test_work_that_ends_by_an_error_counts_too(ledger):
    clock = Clock()
    purse = _purse(ledger, clock)

    def broken():
        with purse.working():
            clock.now_s += 7
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert _purse(ledger).worked_s == 7


def test_work_is_on_disk_while_it_goes_on(ledger):
    purse = Purse(ledger, BudgetSection(), beat_s=0.005)
    with purse.working():
        deadline = time.monotonic() + 60
        while not ledger.exists() or ledger.read_bytes().count(b"\n") < 3:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        killed = _purse(ledger).worked_s
        assert 0 < killed <= purse.worked_s
    lines = ledger.read_text().splitlines()
    assert _purse(ledger).worked_s == pytest.approx(purse.worked_s)
    assert {json.loads(line)["kind"] for line in lines} == {"worked"}
    time.sleep(0.05)
    assert ledger.read_text().splitlines() == lines, "it ends with the work"


def test_a_moment_that_cannot_be_written_down_is_in_the_next_line(ledger, monkeypatch):
    clock = Clock()
    purse = _purse(ledger, clock)
    real = os.fsync

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with purse.working():
        clock.now_s += 40
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(JournalBroken):
            purse.charge(Role.PLANNER, USED, PRICES, 0.0)
        monkeypatch.setattr(os, "fsync", real)
        clock.now_s += 2
        assert purse.worked_s == 42
    assert _purse(ledger).worked_s == 42


def test_what_is_left_of_the_time_is_known(ledger):
    clock = Clock()
    purse = _purse(ledger, clock, minutes=2)
    assert purse.left_s == 120
    with purse.working():
        clock.now_s += 50
        assert purse.left_s == 70
        clock.now_s += 80
        assert purse.left_s == 0


# A ledger that is gone


def _spending(ledger, prices=PRICES):
    clock = Clock()
    purse = _purse(ledger, clock)
    with purse.working():
        clock.now_s += 90
        purse.charge(Role.PLANNER, USED, prices, 1.0)
        purse.charge(Role.JUDGE, MOST, prices, 2.0)
    return purse.spent, purse.worked_s


@pytest.mark.parametrize("prices", [PRICES, None])
def test_what_a_journal_says_is_counted_where_the_ledger_is_gone(ledger, prices):
    spent, worked_s = _spending(ledger, prices)
    ledger.unlink()
    anew = _purse(ledger)
    anew.charge(Role.PLANNER, USED, prices, 1.0)
    anew.at_least(spent, worked_s)
    assert (anew.spent, anew.worked_s) == (spent, 90)
    later = _purse(ledger)
    assert (later.spent, later.worked_s) == (spent, 90)


@pytest.mark.parametrize("prices", [PRICES, None])
def test_nothing_is_counted_twice_where_the_ledger_has_it(ledger, prices):
    spent, worked_s = _spending(ledger, prices)
    again = _purse(ledger)
    again.charge(Role.PLANNER, USED, prices, 1.0)
    before = ledger.read_bytes()
    again.at_least(spent, worked_s)
    again.at_least(Cost(usd=0.0), 0.0)
    assert ledger.read_bytes() == before


def test_money_that_was_not_known_is_not_known_again(ledger):
    purse = _purse(ledger, usd=1)
    known = purse.charge(Role.PLANNER, USED, PRICES, 1.0)
    unknown = known.model_copy(update={"usd": None})
    purse.at_least(unknown, 0.0)
    assert purse.spent.usd is None
    before = ledger.read_bytes()
    purse.at_least(unknown, 0.0)
    assert ledger.read_bytes() == before
    with pytest.raises(OutOfBudget, match="prices are not known"):
        _purse(ledger, usd=1).check()


# How long a reply may be


def test_a_reply_may_be_as_long_as_what_is_left(ledger):
    purse = _purse(ledger, tokens=20_000)
    assert purse.affordable_tokens(MODEL) == 10_000
    purse.charge(Role.PLANNER, Usage(input_tokens=15_000), PRICES, 0.0)
    assert purse.affordable_tokens(MODEL) == 5_000
    purse.charge(Role.PLANNER, Usage(input_tokens=4_900), PRICES, 0.0)
    assert purse.affordable_tokens(MODEL) == FEWEST_TOKENS
    purse.charge(Role.PLANNER, Usage(input_tokens=4_900), PRICES, 0.0)
    assert purse.affordable_tokens(MODEL) == FEWEST_TOKENS


def test_money_bounds_a_reply_too(ledger):
    purse = _purse(ledger, usd=0.03)
    assert purse.affordable_tokens(MODEL) == pytest.approx(2_000, abs=1)
    nothing = Prices(input=0, output=0, cache_read=0, cache_write=0)
    free = MODEL.model_copy(update={"prices": nothing})
    assert purse.affordable_tokens(free) == 10_000
    assert purse.affordable_tokens(MODEL.model_copy(update={"prices": None})) == 10_000


# What an earlier process spent and no answer tells of


def _killed_at_work(ledger, minutes=1.0):
    """Leave the ledger of a process that was killed while it waited for a reply, and worked."""
    clock = Clock()
    purse = _purse(ledger, clock)
    with purse.working():
        clock.now_s += 60 * minutes
        purse.promise(Role.PLANNER, MOST, PRICES)
        lines = ledger.read_bytes()
    ledger.write_bytes(lines)


def test_what_a_process_spent_that_was_killed_is_told_once(ledger):
    _killed_at_work(ledger)
    purse = _purse(ledger)
    untold = purse.untold()
    assert untold == cost_of(MOST, PRICES, 0.0).model_copy(update={"wall_s": 60.0})
    assert purse.untold() is None
    purse.charge(Role.PLANNER, USED, PRICES, 1.0)
    assert purse.untold() is None, "what this process spends its own answers tell"


def test_of_what_answers_tell_nothing_is_told_again(ledger):
    spent, worked_s = _spending(ledger)
    purse = _purse(ledger)
    purse.at_least(spent, worked_s)
    assert purse.untold() is None


def test_only_what_came_after_the_last_answer_is_told(ledger):
    spent, worked_s = _spending(ledger)
    _killed_at_work(ledger)
    purse = _purse(ledger)
    purse.at_least(Cost(usd=0.0), 10.0)
    purse.at_least(spent, worked_s)
    untold = purse.untold()
    assert untold is not None
    assert (untold.calls, untold.tokens, untold.wall_s) == (1, MOST.tokens, 60.0)
    assert untold.usd == pytest.approx(cost_of(MOST, PRICES, 0.0).usd)


def test_time_by_itself_is_told_where_it_is_more_than_an_answer_takes_to_be_kept(ledger):
    clock = Clock()
    purse = _purse(ledger, clock)
    with purse.working():
        clock.now_s += 5.0
    assert _purse(ledger).untold() is None
    with purse.working():
        clock.now_s += 5.0
    assert _purse(ledger).untold() == Cost(usd=0.0, wall_s=10.0)


def test_of_a_ledger_that_is_gone_nothing_is_untold(ledger):
    spent, worked_s = _spending(ledger)
    ledger.unlink()
    purse = _purse(ledger)
    purse.at_least(spent, worked_s)
    assert purse.untold() is None


def test_a_ledger_that_cannot_be_read_stops_the_run(ledger):
    ledger.mkdir(parents=True)
    with pytest.raises(JournalBroken, match="cannot be read: Is a directory"):
        _purse(ledger)
    ledger.rmdir()
    ledger.parent.rmdir()
    ledger.parent.write_text("")
    with pytest.raises(JournalBroken, match="cannot be read"):
        _purse(ledger)
