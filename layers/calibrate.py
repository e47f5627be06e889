"""Calibration: what the unmodified stack differs by from itself, before anything is changed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from layers import equivalence
from layers.base import Profile
from layers.evidence import NoiseFloor, Pair
from layers.gates.correctness import reproducible_outputs
from layers.measure import stats
from layers.measure.launch import Launch, MeasuredPair
from layers.session import Session, outputs_of, settled

LAUNCHES = 2
PAIRS = 4


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found out about the unmodified stack."""

    session: Session  # with the traffic checked and the blocks sized
    profile: Profile
    work: NoiseFloor
    reproducible: frozenset[str]  # outputs that the stack repeats bit for bit under its own load
    launch_s: float  # what one launch took, seconds


def calibrate(session: Session) -> Calibration:
    """Check and profile the unmodified stack, then measure it against itself."""
    events = session.bench.events
    events.phase("baseline", "traffic, SLO and profile of the unmodified stack")
    with settled(session) as (session, deployment):
        reproducible = set(outputs_of(session, deployment))
        profiled = session.profile_running(deployment, session.view, "baseline")
    events.phase("noise", f"{LAUNCHES} launches of the unmodified stack against itself")
    started = time.monotonic()
    pairs: list[Pair] = []
    for number in range(1, LAUNCHES + 1):
        with Launch(session.bench, number, session.view, session.view, "noise") as launch:
            for measured in launch.pairs(PAIRS):
                reproducible &= _reproduced(measured)
                pairs.append(measured.pair)
                events.progress(len(pairs), LAUNCHES * PAIRS, "pairs of blocks")
    return Calibration(
        session=session,
        profile=profiled,
        work=stats.noise_floor(stats.by_launch(pairs)),
        reproducible=frozenset(reproducible),
        launch_s=(time.monotonic() - started) / LAUNCHES,
    )


def _reproduced(measured: MeasuredPair) -> frozenset[str]:
    """Return the outputs that two runs of the same stack share bit for bit."""
    baseline, candidate = measured.results["baseline"], measured.results["candidate"]
    answers = equivalence.timed(baseline, candidate)
    same = reproducible_outputs((first, second) for first, second, _ in answers)
    for result in (baseline, candidate):
        result.discard()
    return same
