"""How a verifier is put together from a session and its calibration, for a run and a judgement."""

from __future__ import annotations

from collections.abc import Callable

from layers.calibrate import Calibration
from layers.evidence import Look
from layers.gates.correctness import Limits
from layers.measure import stats
from layers.verify import Rules, Verifier, metric_of, protected_files, referee_of


def verifier_of(
    calibration: Calibration, plan: stats.LookPlan, on_look: Callable[[Look], object]
) -> Verifier:
    """Return what judges candidates against the calibrated stack, by rules fixed from here on.

    `plan` says among how many candidates the rate of false accepts is shared; `on_look` receives
    every look as it is taken.
    """
    session = calibration.session
    manifest = session.stack.manifest
    rules = Rules(
        noise=calibration.work,
        plan=plan,
        limits=Limits(float32=manifest.correctness.reorder.abs),
        reproducible=calibration.reproducible,
        protected=protected_files(manifest),
    )
    logs = session.out / "logs"
    return Verifier(
        session.bench,
        rules,
        build=lambda view: session.stack.build(view.root, session.env, session.sandbox),
        referee=referee_of(manifest, session.sandbox, logs / "referee.log"),
        on_look=on_look,
        metric=metric_of(manifest, session.sandbox, logs / "metric.log"),
    )
