"""Calibration: what the unmodified stack differs by from itself, before anything is changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from layers.base import Profile
from layers.evidence import NoiseFloor, Pair
from layers.gates.correctness import reproducible_outputs
from layers.measure import bandwidth, stats
from layers.measure.fresh import Fresh
from layers.measure.launch import Launch, MeasuredPair, Served
from layers.session import Session, outputs_of, settled
from layers.traffic.envelope import content
from layers.traffic.kinds import KINDS
from layers.traffic.mutations import Mutator
from layers.traffic.salting import SALTS, UNSALTED, Salter
from layers.trial import equivalence, kind_probe
from layers.trial.business_metric import Remembering
from layers.triton.client import Client, Refused

LAUNCHES = 2
PAIRS = 4
SALT_TRIALS = 24  # salted requests that the unmodified stack has to answer


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
        session = _equipped(session, deployment)
        outputs = outputs_of(session, deployment)
        profiled = session.floor_first(deployment, session.view, "baseline")
        session = _asked(session, deployment)
    events.phase("noise", f"{LAUNCHES} launches of the unmodified stack against itself")
    started = time.monotonic()
    pairs: list[Pair] = []
    reproducible = set(outputs)
    for number in range(1, LAUNCHES + 1):
        with Launch(session.bench, number, session.view, session.view, "noise") as launch:
            for measured in launch.pairs(PAIRS):
                reproducible &= _reproduced(measured)
                pairs.append(measured.pair)
                events.progress(len(pairs), LAUNCHES * PAIRS, "pairs of blocks")
    _tell_moved(session, sorted(outputs - reproducible))
    return Calibration(
        session=session,
        profile=profiled,
        work=stats.noise_floor(stats.by_launch(pairs)),
        reproducible=frozenset(reproducible),
        launch_s=(time.monotonic() - started) / LAUNCHES,
    )


def _tell_moved(session: Session, outputs: Sequence[str]) -> None:
    """Say which outputs no change can be held to bit for bit."""
    if outputs:
        session.bench.events.note(
            f"the unmodified stack does not repeat {', '.join(outputs)} bit for bit: a change that "
            "may not move that is not decided (baseline_not_reproducible)"
        )


def _equipped(session: Session, deployment: Served) -> Session:
    """Return the session with what blocks need besides: new requests, and the machine's ceilings."""
    ceilings = bandwidth.measure(session.stack.manifest.floor)
    giga = {
        "copy": ceilings.copy_bytes_per_s / 1e9,
        "link": ceilings.link_bytes_per_s / 1e9,
    }
    return replace(
        session,
        bench=replace(session.bench, fresh=_fresh(session, deployment), ceilings=ceilings),
        environment=session.environment.model_copy(update={"bandwidth": giga}),
    )


def _asked(session: Session, deployment: Served) -> Session:
    """Return the session, knowing how the stack takes changed requests; it may not survive that."""
    mutator = kind_probe.asked(session, deployment)
    if mutator is not None and mutator.taken is not None:
        names = {one.kind for one in mutator.taken if one.answer == "answered"}
        session.bench.events.note(f"changed requests: {len(names)} of {len(KINDS)} kinds answered")
    return replace(session, bench=replace(session.bench, mutator=mutator))


def _fresh(session: Session, deployment: Served) -> Remembering:
    """Return what draws new requests: by the strongest salt that makes all new and is answered.

    Where none makes all of them new, the strongest that the stack answers: the evidence then says
    how many were not.
    """
    requests, folder = session.traffic.requests, session.out / "load" / "fresh"
    axes = Mutator(requests).candidate_axes
    order = np.linspace(0, len(requests) - 1, SALT_TRIALS).astype(np.int64)
    answered = []
    for salt in SALTS:
        messages = Fresh(Salter(requests, axes, salt), folder).messages(order)
        if _answers_all(deployment, messages):
            answered.append(salt)
            if _all_new([requests[index] for index in order.tolist()], messages):
                session.bench.events.note(f"requests in timed blocks: recorded, with {salt}")
                return Remembering(Salter(requests, axes, salt), folder)
    if answered:
        note = f"recorded, with {answered[0]}: not all of them are new then"
        session.bench.events.note(f"requests in timed blocks: {note}")
        return Remembering(Salter(requests, axes, answered[0]), folder)
    session.bench.events.note("the stack refuses changed requests: blocks send the recording")
    return Remembering(Salter(requests, axes, UNSALTED), folder)


def _all_new(recorded: Sequence[bytes], messages: Sequence[bytes]) -> bool:
    """Whether no message has the content of its original, nor that of another message."""
    marks = [content(message) for message in messages]
    originals = map(content, recorded)
    same = any(mark == old for mark, old in zip(marks, originals, strict=True))
    return not same and len(set(marks)) == len(marks)


def _answers_all(deployment: Served, messages: list[bytes]) -> bool:
    """Whether the unmodified stack answers every message."""
    with Client(deployment.grpc) as client:
        try:
            for message in messages:
                client.infer(message)
        except Refused:
            return False
    return True


def _reproduced(measured: MeasuredPair) -> frozenset[str]:
    """Return the outputs that two runs of the same stack share bit for bit."""
    baseline, candidate = measured.results["baseline"], measured.results["candidate"]
    answers = equivalence.timed(baseline, candidate, both_baseline=True)
    same = reproducible_outputs((first, second) for first, second, _ in answers)
    for result in (baseline, candidate):
        result.discard()
    return same
