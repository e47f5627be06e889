"""Equal stacks calibrated once: for tests whose claim does not rest on when that was done.

The first session of this process on a stack is calibrated as any is. Later ones on an equal stack go
on from what it found, by the way that a resumed run takes; all that is claimed of a candidate is
measured as ever.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from layers import judge
from layers.base import Profile
from layers.loop import instruments
from layers.loop.instruments import Live
from layers.record.answers import CalibrationAnswer, ProfileAnswer
from layers.session import Session, profile_record
from layers.trial.calibrate import Calibration, calibrate

_KNOWN: dict[str, tuple[CalibrationAnswer, Profile]] = {}


@contextmanager
def once() -> Iterator[None]:
    """Calibrate no stack again, in runs and in judgements, that was calibrated within this before."""
    with pytest.MonkeyPatch.context() as patch:
        for place in (instruments, judge):
            patch.setattr(place, "calibrate", _calibrated)
        yield


def _calibrated(session: Session) -> Calibration:
    """Return the calibration of the session's stack, measured now or known."""
    key = json.dumps([session.stack.code(), session.traffic.digest], sort_keys=True)
    if key in _KNOWN:
        return _restored(session, *_KNOWN[key])
    found = calibrate(session)
    shown = profile_record(found.profile, session.out)
    answer = ProfileAnswer.of(session.view.commit, found.profile, shown)
    _KNOWN[key] = instruments._answer(found, answer), found.profile
    return found


class _Restored(Live):
    """Instruments that hand out what they were given back."""

    given: Calibration

    def _use(self, calibration: Calibration) -> None:
        self.given = calibration


def _restored(session: Session, answer: CalibrationAnswer, profile: Profile) -> Calibration:
    """Return a known calibration as one of `session`, the profile's raw files with it."""
    live = _Restored(session, seed=0, on_look=lambda look: None)
    live.restore(answer)
    folder = live.given.profile.raw.parent
    shutil.copytree(profile.raw.parent, folder, dirs_exist_ok=True)
    return live.given
