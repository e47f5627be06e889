"""Reasons by which a candidate is left undecided where the machine, not the candidate, is at fault.

A test of a real run is skipped by them: it shows nothing there. Any other reason fails it.
"""

from __future__ import annotations

import pytest

from layers.errors import Inconclusive

UNDECIDED = frozenset(
    {
        "launches_differ",
        "machine_too_noisy",
        "memory_undecided",
        "neighbours_one_sided",
        "slo_undecided",
        "too_few_requests",
        "voids_one_sided",
    }
)


def skip_if_undecided(reason: str, detail: str) -> None:
    """Skip the test where the machine left a candidate undecided, by the reason of its end."""
    if reason in UNDECIDED:
        pytest.skip(f"the machine is too noisy: {reason}: {detail}")


def skip_if_given_up(code: int, told: object) -> None:
    """Skip the test where a command gave its measurement up, by its exit code."""
    if code == Inconclusive.exit_code:
        pytest.skip(f"the machine is too noisy: {told}")
