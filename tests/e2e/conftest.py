"""Shorter blocks for whole runs: the same stations in the same order, less of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from layers import session
from layers.loop import instruments
from layers.measure.sustained import Budget
from layers.trial import calibrate, equivalence, verify
from layers.triton.environment import ServerEnvironment
from tests import tiny_calibrations


@pytest.fixture(scope="module")
def short_runs(server_env: ServerEnvironment) -> Iterator[None]:
    """Make a run of the tiny stack take tens of seconds instead of minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "BLOCK_S", 0.4)
        patch.setattr(session, "PROFILE_S", 1.0)
        patch.setattr(session, "SLO_REQUESTS", 200)
        patch.setattr(calibrate, "LAUNCHES", 1)
        patch.setattr(equivalence, "RECORDED", 40)
        patch.setattr(verify, "CONFIRMING", 2)
        patch.setattr(instruments, "TOTAL_BUDGET", Budget(windows=4, window_s=1.0))
        yield


@pytest.fixture
def calibrated_once() -> Iterator[None]:
    """Calibrate no stack again that such a test has calibrated before."""
    with tiny_calibrations.once():
        yield
