from datetime import UTC, datetime, timedelta, timezone

import pytest

from bot.wake import hours


def at(time, day=10):
    hour, _, minute = time.partition(":")
    return datetime(2026, 11, day, int(hour), int(minute), tzinfo=UTC)


@pytest.mark.parametrize(
    ("time", "quiet", "until"),
    [
        ("12:00", "09:00-17:00", at("17:00")),
        ("09:00", "09:00-17:00", at("17:00")),
        ("08:59", "09:00-17:00", None),
        ("17:00", "09:00-17:00", None),
        ("23:00", "22:00-06:00", at("06:00", day=11)),
        ("05:59", "22:00-06:00", at("06:00")),
        ("06:00", "22:00-06:00", None),
        ("21:59", "22:00-06:00", None),
        ("00:00", "22:00-00:00", None),
        ("23:59", "22:00-00:00", at("00:00", day=11)),
        ("00:00", "00:00-06:00", at("06:00")),
        ("12:00", None, None),
    ],
)
def test_quiet_hours_hold_from_their_first_minute_to_before_their_last(time, quiet, until):
    assert hours.quiet_until(at(time), quiet) == until


def test_quiet_hours_are_utc_wherever_the_moment_was_read():
    tokyo = timezone(timedelta(hours=9))
    assert hours.quiet_until(at("23:00").astimezone(tokyo), "22:00-06:00") == at("06:00", day=11)


def test_jitter_is_a_share_of_the_bound():
    assert hours.first_start(at("12:00"), None, jitter_minutes=60, share=0.5) == at("12:30")


def test_what_would_start_in_quiet_hours_starts_within_the_jitter_after_them():
    start = hours.first_start(at("21:45"), "22:00-06:00", jitter_minutes=60, share=0.5)
    assert start == at("06:30", day=11)


def test_jitter_after_quiet_hours_does_not_reach_the_next_ones():
    start = hours.first_start(at("23:00"), "22:00-21:00", jitter_minutes=1440, share=0.5)
    assert start == at("21:30", day=11)


def test_without_jitter_it_starts_when_quiet_hours_end():
    assert hours.first_start(at("02:00"), "22:00-06:00") == at("06:00")


def test_a_moment_is_told_in_utc():
    assert hours.told(at("06:05")) == "2026-11-10 06:05 UTC"


def test_a_fraction_is_stable_and_differs_by_seed():
    assert hours.fraction("seed", "owner/serve") == hours.fraction("seed", "owner/serve")
    assert len({hours.fraction("seed", str(n)) for n in range(50)}) == 50
