"""Readings of lines through measured calls, and the weights that are learned for them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.silicon_lines import End, Line, Said, learned

RNG = np.random.default_rng(5)


def line_of(seconds, expected_s, at, low, high):
    """Return the line from `low` to `high` through `at`, with seconds by place and by expectation."""
    ends = [
        End(end, seconds(end), expected_s(end), far, seconds(far) / expected_s(far))
        for end, far in ((low, low / 2), (high, high * 2))
    ]
    return Line(at, expected_s(at), *ends)


@pytest.mark.parametrize(
    ("reading", "seconds"),
    [
        (0, lambda at: 3e-6 * at**1.3),  # a power of the number
        (1, lambda at: 2e-6 + 5e-7 * at),  # straight in the number
        (2, lambda at: 2e-6 + 4e-9 * at**1.5),  # straight in what is expected
        (3, lambda at: 1e-9 * at**1.5 * np.exp(0.3 * np.log(at) - 0.1 * np.log(at) ** 2)),  # curved
    ],
)
def test_each_reading_is_right_of_its_own_law(reading, seconds):
    def expected_s(at):
        return 1e-9 * at**1.5

    at = np.array([3.0, 50.0, 700.0])
    line = line_of(seconds, expected_s, at, at / 2, at * 3)
    factors, spans = zip(*line.readings(), strict=True)
    took = seconds(at) / expected_s(at)
    assert factors[reading] == pytest.approx(took, rel=2e-3)  # `share` is a limit's neighbour
    others = [np.abs(np.log(factors[n] / took)).max() for n in range(3) if n != reading]
    assert min(others) > 0.01
    assert spans[reading] == pytest.approx(np.log2(2) * np.log2(3))


def test_one_end_gives_its_factor_and_nothing_between():
    nothing = np.full(1, np.nan)
    low = End(np.array([4.0]), np.array([8e-6]), np.array([2e-6]), nothing, nothing)
    line = Line(np.array([8.0]), np.array([3e-6]), low, End(*[nothing] * 5))
    *between, (nearer, span) = line.readings()
    assert all(np.isnan(factor).all() for factor, _ in between)
    assert (nearer.tolist(), span.tolist()) == ([4.0], [1.0])


def said_of(columns, spans, own=(), sizes=None):
    """Return what is said where the first reading says 1, and the others what they say."""
    rows = len(columns[0])
    logs = np.stack([np.zeros(rows), *columns], 1)
    found = np.stack([np.zeros(rows), *spans], 1)
    mine = np.array([False, *(own or [False] * len(columns))])
    return Said(logs, found, np.zeros(rows) if sizes is None else sizes, mine)


def test_shares_add_up_and_what_says_nothing_counts_for_nothing():
    near, none = np.zeros(4), np.full(4, np.inf)
    said = said_of([near, none], [near, none])
    shares = said.shares(RNG.normal(size=(3, 3)))
    assert shares.sum(1) == pytest.approx(1.0)
    assert shares[:, 2].tolist() == [0.0] * 4
    assert (shares[:, :2] > 0).all()


def test_the_reading_that_is_right_near_by_is_believed_there_alone():
    """One reading errs more the farther it reaches; another one errs alike everywhere."""
    rows = 2000
    truth = RNG.normal(0.4, 0.2, rows)
    spans = RNG.uniform(-5, 3, rows)
    grows = truth + 0.02 * np.exp(spans) * RNG.normal(size=rows)
    alike = truth + 0.08 * RNG.normal(size=rows)
    said = said_of([grows, alike], [spans, np.zeros(rows)])
    weights = learned([(said, truth)])
    shares = said.shares(weights)
    assert shares[spans < -3, 1].mean() > 0.8
    assert shares[spans > 2.5, 2].mean() > 0.6
    missed = np.abs(np.log(said.factors(weights)) - truth)
    assert np.median(missed) < min(np.median(np.abs(each - truth)) for each in (grows, alike))


def test_a_layer_that_was_never_measured_is_told_by_others_alone():
    own, other = np.full(3, 0.5), np.full(3, 0.1)
    said = said_of([own, other], [np.zeros(3), np.zeros(3)], [True, False])
    hidden = said.of_other_layers()
    weights = np.array([[-6.0, 5.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    assert np.log(said.factors(weights)) == pytest.approx(0.5, abs=0.01)
    assert np.log(hidden.factors(weights)) == pytest.approx(0.1, abs=0.01)
    assert hidden.shares(weights)[:, 1].tolist() == [0.0] * 3


def test_long_calls_are_read_otherwise_than_short_ones_where_that_misses_less():
    rows = 2000
    truth = RNG.normal(0.4, 0.2, rows)
    sizes = RNG.uniform(-3, 3, rows)
    of_long, of_short = (
        truth + 0.01 * np.exp(sign * sizes) * RNG.normal(size=rows) for sign in (-1, 1)
    )
    said = said_of([of_long, of_short], [np.zeros(rows), np.zeros(rows)], sizes=sizes)
    shares = said.shares(learned([(said, truth)]))
    assert shares[sizes > 2, 1].mean() > 0.8
    assert shares[sizes < -2, 2].mean() > 0.8


def test_parts_are_joined_row_by_row():
    parts = [said_of([np.full(n, 0.1 * n)], [np.zeros(n)], [True], np.arange(n)) for n in (2, 3)]
    whole = Said.joined(parts)
    assert whole.logs[:, 1].tolist() == pytest.approx([0.2, 0.2, 0.3, 0.3, 0.3])
    assert whole.sizes.tolist() == [0, 1, 0, 1, 2]
    assert whole.own.tolist() == [False, True]
