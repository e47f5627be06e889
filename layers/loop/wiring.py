"""How a verifier is put together from a session and its calibration, for a run and a judgement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from layers.base import StackView
from layers.evidence import Look
from layers.gates.correctness import Limits
from layers.gates.paths import protected_files
from layers.gates.referee import Referee
from layers.manifest import Manifest
from layers.measure import stats
from layers.sandbox.box import Sandbox
from layers.session import profile_record
from layers.trial.calibrate import Calibration
from layers.trial.observing import Profiling
from layers.trial.verify import Rules, Verifier


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
        referee=_referee_of(manifest, session.sandbox, logs / "referee.log"),
        on_look=on_look,
        metric=_metric_of(manifest, session.sandbox, logs / "metric.log"),
        profiling=Profiling(
            session.profile_running, lambda profiled: profile_record(profiled, session.out)
        ),
    )


def _referee_of(
    manifest: Manifest, sandbox: Sandbox, log: Path
) -> Callable[[StackView], Referee] | None:
    """Return what opens the referee that the manifest names, None where it names none."""
    return _opener(manifest.correctness.referee, sandbox, log, metric=False)


def _metric_of(
    manifest: Manifest, sandbox: Sandbox, log: Path
) -> Callable[[StackView], Referee] | None:
    """Return what opens the business metric that the manifest names, None where it names none."""
    return _opener(manifest.correctness.metric, sandbox, log, metric=True)


def _opener(
    spec: str | None, sandbox: Sandbox, log: Path, *, metric: bool
) -> Callable[[StackView], Referee] | None:
    if spec is None:
        return None
    return lambda view: Referee(
        spec, view.root, view.server_python, sandbox=sandbox, metric=metric, log=log
    )
