"""Code of the shapes that a published case made faster is found, rewritten and exact."""

from __future__ import annotations

import pytest

from benchmarks import published


@pytest.mark.parametrize("case", published.CASES, ids=lambda case: case.shape)
@pytest.mark.parametrize("rows", [1, 9])
def test_the_codemod_rewrites_the_shape_and_every_answer_stays(case, rows):
    if not published.is_here(case):
        pytest.skip(f"{case.needs or case.codemod} is not here")
    measured = published.measure(case, rows, pairs=6)  # raises where it does not
    assert (measured.pairs, measured.ratio > 0) == (6, True)


def test_the_table_has_a_row_per_function_and_says_what_is_not_here(monkeypatch):
    lookups = [case for case in published.CASES if case.shape == "lookups"]
    absent = published.Case("made up", "9", "none", "no_such_codemod", lambda rng, rows: [])
    monkeypatch.setattr(published, "CASES", (*lookups, absent))
    first, last = published.rows_of_table(pairs=6)
    assert (first[0], first[1], first[-1]) == (
        "look-ups row by row",
        "4.4 to 5.8\N{MULTIPLICATION SIGN}",
        "`vocabulary_lookups`",
    )
    assert last[2] == "no such codemod"
