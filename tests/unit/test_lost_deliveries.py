"""Which deliveries are asked for again."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.service.redelivery import YOUNG_S, Attempt, lost

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
NOW_S = BEGAN.timestamp() + 86_400


def attempt(number, guid="guid-1", status=502, after_s=0.0):
    at = BEGAN + timedelta(seconds=after_s)
    return Attempt(id=number, guid=guid, delivered_at=at, status_code=status)


@pytest.mark.parametrize("status", [0, 401, 408, 500, 502, 503, 504])
def test_what_did_not_arrive_is_lost(status):
    assert lost([attempt(1, status=status)], NOW_S) == [attempt(1, status=status)]


@pytest.mark.parametrize("status", [200, 202, 400, 413, 415])
def test_what_arrived_or_is_of_no_use_is_not(status):
    assert lost([attempt(1, status=status)], NOW_S) == []


def test_one_attempt_that_arrived_is_enough():
    attempts = [attempt(3, after_s=60), attempt(2, status=202, after_s=30), attempt(1)]
    assert lost(attempts, NOW_S) == []


def test_the_newest_attempt_of_each_is_repeated_the_oldest_delivery_first():
    attempts = [
        attempt(5, "guid-2", after_s=50),
        attempt(4, "guid-1", after_s=40),
        attempt(2, "guid-2", after_s=20),
        attempt(1, "guid-1", after_s=10),
    ]
    assert [one.id for one in lost(attempts, NOW_S)] == [4, 5]


def test_an_attempt_that_may_not_have_ended_is_waited_for():
    now_s = BEGAN.timestamp()
    young = attempt(1, after_s=-YOUNG_S + 1)
    assert lost([young], now_s) == []
    assert lost([young], now_s + 1) == [young]


@given(
    st.lists(
        st.builds(
            attempt,
            st.integers(1, 10**6),
            st.sampled_from(["guid-1", "guid-2", "guid-3"]),
            st.sampled_from([0, 202, 400, 500]),
            st.floats(0, 86_000),
        ),
        max_size=20,
    )
)
def test_nothing_is_asked_for_twice_and_nothing_that_arrived(attempts):
    found = lost(attempts, NOW_S)
    guids = [one.guid for one in found]
    assert len(guids) == len(set(guids))
    assert not any(one.arrived for one in attempts if one.guid in guids)
