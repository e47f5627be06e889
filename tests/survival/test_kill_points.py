"""A run killed anywhere goes on to the same result; `make survive` tries ten times as many points."""

import pytest

from tests.survival import points

COUNT = 20


@pytest.mark.parametrize("number", range(COUNT))
def test_a_run_killed_anywhere_goes_on_to_the_same_result(uncut, tmp_path, number):
    point = list(points.chosen(uncut, COUNT, seed=1))[number]
    result = points.tried(point, uncut, tmp_path)
    assert result.wrong == ""
    assert result.killed >= 1 or point.after_s is not None  # it may have ended by then
