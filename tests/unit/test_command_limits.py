"""How many commands one person may give."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bot.service.limits import HOUR_S, Bucket, take


def _answers(times_s, per_hour):
    bucket, answers = None, []
    for now_s in times_s:
        bucket, answer = take(bucket, per_hour, now_s)
        answers.append(answer)
    return answers


def test_a_burst_is_granted_then_refused_once_then_ignored():
    assert _answers([0.0] * 5, 3) == ["granted", "granted", "granted", "refused", "silent"]


def test_tokens_come_back_over_the_hour_and_a_person_is_told_anew():
    times = [0.0, 0.0, 0.0, HOUR_S / 2, HOUR_S / 2, HOUR_S / 2]
    assert _answers(times, 2) == ["granted", "granted", "refused", "granted", "refused", "silent"]


def test_a_bucket_holds_no_more_than_an_hour_gives():
    bucket, answer = take(Bucket(2.0, 0.0), 2, 10 * HOUR_S)
    assert (bucket, answer) == (Bucket(1.0, 10 * HOUR_S), "granted")


def test_a_clock_that_goes_back_fills_nothing():
    bucket, answer = take(Bucket(0.0, 1000.0, told=True), 60, 0.0)
    assert (bucket, answer) == (Bucket(0.0, 1000.0, told=True), "silent")


@given(
    per_hour=st.integers(1, 50),
    gaps_s=st.lists(st.floats(0, 600), min_size=1, max_size=200),
)
def test_no_hour_grants_more_than_a_full_bucket_and_what_it_gains(per_hour, gaps_s):
    now_s, times = 0.0, []
    for gap_s in gaps_s:
        now_s += gap_s
        times.append(now_s)
    answers = _answers(times, per_hour)
    granted = [at for at, answer in zip(times, answers, strict=True) if answer == "granted"]
    for begin in granted:
        within = sum(begin <= at < begin + HOUR_S for at in granted)
        assert within <= 2 * per_hour
    assert all(
        after in ("granted", "silent")
        for before, after in pairwise(answers)
        if before in ("refused", "silent")
    )
