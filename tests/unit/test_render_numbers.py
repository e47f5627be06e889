import time

import pytest

from bot.render import numbers


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("2026-01-30T06:00:59+02:00", "2026-01-30 04:00 UTC"),
        ("2026-01-30T06:00:00Z", "2026-01-30 06:00 UTC"),
        ("2026-01-30T06:00:00", "2026-01-30 06:00 UTC"),
        ("2026-01-30", "2026-01-30 00:00 UTC"),
        ("0001-01-01T00:00:00+02:00", numbers.ABSENT),
        ("now", numbers.ABSENT),
    ],
)
def test_a_moment_is_shown_in_utc_wherever_it_is_read(monkeypatch, at, shown):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XST-9")
        time.tzset()
        found = numbers.moment(at)
    time.tzset()
    assert found == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.0, "0"),
        (1.0, "1.00"),
        (1.405, "1.41"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (123.4, "123"),
        (1234.5, "1,230"),
        (987654, "988,000"),
        (0.0123, "0.0123"),
        (0.00012, "0.000120"),
        (-0.25, "-0.250"),
        (3.14e-6, "3.1e-6"),
        (4.2e12, "4.2e12"),
    ],
)
def test_a_number_has_three_significant_digits(value, shown):
    assert numbers.number(value) == shown


def test_the_ends_of_an_interval_have_the_decimals_of_the_estimate():
    assert numbers.times_between(3.92, (3.6149, 12.2)) == "3.92\u00d7 (3.61 to 12.20)"
    assert numbers.times_between(27.44, (9.8, 28.1)) == "27.4\u00d7 (9.8 to 28.1)"
    assert numbers.between((1000.4, 2000.6)) == "1,000 to 2,001"


def test_a_unit_stays_on_the_line_of_its_number():
    assert numbers.ms(47.83) == "47.8\u00a0ms"
    assert numbers.percent(0.312) == "31.2\u00a0%"
    assert numbers.points(2.3111) == "2.31\u00a0%"
    assert numbers.per_second(38.24) == "38.2\u00a0req/s"


def test_a_setting_reads_as_it_was_set():
    assert [numbers.setting(v) for v in (60.0, 2.5, 1e-4, 0.1)] == ["60", "2.5", "0.0001", "0.1"]


def test_a_count_is_never_rounded():
    assert numbers.count(204_764) == "204,764"


@pytest.mark.parametrize(
    ("wall_s", "shown"),
    [
        (0.4, "0\u00a0s"),
        (59.4, "59\u00a0s"),
        (59.6, "1\u00a0min 00\u00a0s"),
        (1042, "17\u00a0min 22\u00a0s"),
        (7500, "2\u00a0h 05\u00a0min"),
    ],
)
def test_a_duration_is_told_in_the_units_of_its_size(wall_s, shown):
    assert numbers.duration(wall_s) == shown
