"""The stations between a candidate and its verdict, in order.

    paths -> build -> [launch 1] serves -> correctness -> looks (launches of pairs) -> local gain
          -> [fresh launch] commit gate at the SLO -> four fresh pairs -> accepted

Every station either lets the trial go on or ends it with a verdict and a reason code. The parent
draws the inputs after the candidate was written and compares every timed output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import numpy as np

from layers import equivalence
from layers.base import Candidate, ChangeClass, Layer, StackView
from layers.errors import FvecError, Inconclusive, InvalidInput, ToolFailed
from layers.evidence import (
    ArmLoad,
    Block,
    EndToEnd,
    Gate,
    GateResult,
    Iteration,
    LoadTest,
    Look,
    NoiseFloor,
    Pair,
    Verdict,
)
from layers.gates.correctness import Comparison, Limits, compare
from layers.gates.referee import Referee
from layers.manifest import MANIFEST_PATH, Manifest
from layers.measure import stats
from layers.measure.checks import percentiles
from layers.measure.launch import Bench, DoesNotServe, Launch, Recorded
from layers.measure.load import LoadResult
from layers.trial import Trial, TrialEnded, process_gain

COMMIT_REQUESTS = 1000  # of the recording, per arm: the least that a p99 is printed for
COMMIT_SEGMENTS = 4
CONFIRM_PAIRS = 4
PROTECTED = (".github/", ".git/")


@dataclass(frozen=True)
class Rules:
    """What a verdict rests on besides the measurement: fixed before the first candidate."""

    noise: NoiseFloor
    plan: stats.LookPlan
    limits: Limits
    reproducible: frozenset[str]  # outputs that the baseline repeats bit for bit under load
    protected: tuple[str, ...]  # evaluator files of the repository: manifest, traffic, referee


class Verifier:
    """Judges candidates against one stack; owns inputs, clock, tolerance and verdict."""

    def __init__(
        self,
        bench: Bench,
        rules: Rules,
        build: Callable[[StackView], None],
        referee: Callable[[StackView], Referee] | None,
        on_look: Callable[[Look], object],
    ) -> None:
        """`build` prepares a worktree for serving; `referee` opens the float64 reference.

        `on_look` receives every look as it is taken.
        """
        self._bench = bench
        self._rules = rules
        self._build = build
        self._referee = referee
        self._on_look = on_look

    def verify(self, candidate: Candidate, layer: Layer, baseline: StackView, n: int) -> Iteration:
        """Return the iteration with the verdict and all that led to it."""
        started = time.monotonic()
        trial = Trial(n, candidate)
        patched = StackView(
            candidate.worktree, candidate.commit, baseline.manifest, baseline.server_python
        )
        try:
            self._stations(trial, layer, baseline, patched)
            end = TrialEnded(Verdict.ACCEPTED, "gain_confirmed")
        except TrialEnded as ended:
            end = ended
        except DoesNotServe as error:
            end = TrialEnded(Verdict.REJECTED, error.reason, error.message)
        except Inconclusive as error:
            end = TrialEnded(Verdict.INCONCLUSIVE, "machine_too_noisy", error.message)
        except FvecError as error:
            end = TrialEnded(Verdict.FAILED, "tool_failed", error.message)
        return trial.iteration(end, time.monotonic() - started)

    def _stations(
        self, trial: Trial, layer: Layer, baseline: StackView, patched: StackView
    ) -> None:
        """Run the stations in order; TrialEnded leaves early."""
        trial.pass_or_end(_paths_gate(trial.candidate, self._rules.protected))
        self._class_gate(trial)
        self._build_candidate(patched)
        with self._launch(trial, 1, baseline, patched) as launch:
            self._correctness(trial, launch, baseline)
            self._measure(trial, launch)
        self._looks(trial, baseline, patched)
        self._local(trial, layer, baseline, patched)
        with self._launch(trial, len(trial.launches) + 1, baseline, patched) as launch:
            self._commit_gate(trial, launch)
            self._confirm(trial, launch)

    def _launch(self, trial: Trial, number: int, base: StackView, patched: StackView) -> Launch:
        self._bench.events.phase(
            f"candidate {trial.n}", f"{trial.candidate.edit.summary}: launch {number}"
        )
        return Launch(self._bench, number, base, patched, f"candidate-{trial.n}")

    def _class_gate(self, trial: Trial) -> None:
        """Refuse an approximation: no manifest of this version can opt in to one."""
        if trial.candidate.hypothesis.change_class is ChangeClass.APPROXIMATE:
            raise TrialEnded(Verdict.REJECTED, "approximate_not_allowed")

    def _build_candidate(self, patched: StackView) -> None:
        """Build the candidate; its own failure to build is a verdict, the baseline's is not."""
        try:
            self._build(patched)
        except (InvalidInput, ToolFailed) as error:
            raise TrialEnded(Verdict.REJECTED, "build_failed", error.message) from error

    def _correctness(self, trial: Trial, launch: Launch, baseline: StackView) -> None:
        """Compare outputs of recorded and mutated requests, some against the float64 referee."""
        recorded, mutated = equivalence.probes(self._bench.load.traffic, self._bench.rng)
        if self._referee is None:
            self._compare_probes(trial, equivalence.Sequential(launch, None), recorded, mutated)
            return
        with self._referee(baseline) as referee:
            self._compare_probes(trial, equivalence.Sequential(launch, referee), recorded, mutated)

    def _compare_probes(
        self,
        trial: Trial,
        sequential: equivalence.Sequential,
        recorded: Sequence[bytes],
        mutated: Sequence[bytes],
    ) -> None:
        def answers() -> Iterable[equivalence.Compared]:
            yield from sequential.answers(recorded, refereed=equivalence.REFEREED)
            yield from sequential.answers(mutated)

        comparison = self._compare(trial, answers(), timed=False)
        trial.equivalence.extend(comparison.rows)
        trial.outputs_compared += len(recorded) + len(mutated) - sequential.refusals
        trial.pass_or_end(sequential.gate())
        for gate in comparison.gates:
            trial.pass_or_end(gate)

    def _measure(self, trial: Trial, launch: Launch) -> None:
        """Measure one launch's pairs and verify every timed output of them."""
        pairs: list[Pair] = []
        for measured in launch.pairs(self._rules.plan.pairs_per_launch):
            self._verify_timed(trial, measured.results["baseline"], measured.results["candidate"])
            pairs.append(measured.pair)
            trial.block_cpu.append(measured.blocks)
            self._bench.events.progress(
                len(pairs), self._rules.plan.pairs_per_launch, "pairs of blocks"
            )
        trial.pairs.extend(pairs)
        trial.launches.append(pairs)

    def _compare(
        self, trial: Trial, answers: Iterable[equivalence.Compared], *, timed: bool
    ) -> Comparison:
        """Compare outputs; only the probes are answered by the referee too."""
        return compare(
            answers,
            trial.candidate.hypothesis.change_class,
            self._rules.limits,
            self._rules.reproducible,
            referee_required=not timed,
        )

    def _verify_timed(self, trial: Trial, baseline: LoadResult, candidate: LoadResult) -> None:
        """Compare every output of two timed blocks."""
        comparison = self._compare(trial, equivalence.timed(baseline, candidate), timed=True)
        trial.outputs_compared += baseline.completed
        for result in (baseline, candidate):
            result.discard()
        for gate in comparison.gates:
            if gate.result is not GateResult.PASS:
                trial.pass_or_end(gate.model_copy(update={"name": f"timed {gate.name}"}))

    def _looks(self, trial: Trial, baseline: StackView, patched: StackView) -> None:
        """Look after 1, 2, 4, 8 launches; go on only inside the re-measuring band."""
        for k in self._rules.plan.looks:
            while len(trial.launches) < k:
                number = len(trial.launches) + 1
                with self._launch(trial, number, baseline, patched) as launch:
                    self._measure(trial, launch)
            look = stats.look(stats.by_launch(trial.pairs), self._rules.noise, self._rules.plan)
            trial.looks.append(look)
            self._on_look(look)
            if look.decision == "accept":
                trial.gates.append(_gain_gate(GateResult.PASS, look.reason, trial))
                return
            if look.decision == "reject":
                trial.pass_or_end(_gain_gate(GateResult.FAIL, look.reason, trial))
        trial.pass_or_end(_gain_gate(GateResult.INCONCLUSIVE, trial.looks[-1].reason, trial))

    def _local(self, trial: Trial, layer: Layer, baseline: StackView, patched: StackView) -> None:
        """Take the layer's own measurement, else the CPU of the changed model's process."""
        trial.local = layer.verify(trial.candidate, baseline, patched) or process_gain(trial)
        if trial.local is not None and trial.local.ci[1] < 1:
            detail = f"{trial.local.what}: {trial.local.speedup:.3g} times"
            trial.pass_or_end(
                Gate(name="local", result=GateResult.FAIL, reason="locally_slower", detail=detail)
            )

    def _commit_gate(self, trial: Trial, launch: Launch) -> None:
        """Replay recorded traffic open loop on the full stack; a regression there discards."""
        traffic = self._bench.load.traffic
        count = min(COMMIT_REQUESTS, len(traffic.order))
        recorded = launch.recorded(
            traffic.order[:count], traffic.arrivals_s[:count], COMMIT_SEGMENTS
        )
        trial.load_test, gate = load_test(
            recorded, self._bench.manifest.slo.p99_ms, traffic.rate, count
        )
        for old, new in zip(
            recorded.results["baseline"], recorded.results["candidate"], strict=True
        ):
            self._verify_timed(trial, old, new)
        trial.pass_or_end(gate)

    def _confirm(self, trial: Trial, launch: Launch) -> None:
        """Measure four fresh pairs: the gain that is printed. It must be positive."""
        for measured in launch.pairs(CONFIRM_PAIRS):
            self._verify_timed(trial, measured.results["baseline"], measured.results["candidate"])
            trial.confirm.append(measured.pair)
            self._bench.events.progress(len(trial.confirm), CONFIRM_PAIRS, "confirming pairs")
        logs = [float(np.log(pair.throughput_ratio)) for pair in trial.confirm]
        gain = stats.confirm(logs, self._rules.noise)
        cpu = stats.ratio_ci([pair.cpu_ratio for pair in trial.confirm])
        p99_ratio = trial.load_test.p99_ratio if trial.load_test else None
        trial.end_to_end = EndToEnd(
            throughput_ratio=gain.ratio,
            ci=gain.ci,
            cpu_ratio=cpu.ratio,
            cpu_ci=cpu.ci,
            p99_ratio=p99_ratio,
            pairs=len(trial.confirm),
        )
        positive = gain.ratio > 1
        trial.pass_or_end(
            Gate(
                name="confirm",
                result=GateResult.PASS if positive else GateResult.FAIL,
                reason="gain_confirmed" if positive else "gain_not_confirmed",
                detail=f"{gain.ratio:.3f} times in {gain.n} fresh pairs",
            )
        )


def protected_files(manifest: Manifest) -> tuple[str, ...]:
    """Return files and globs that judge a candidate, relative to the root: it may not touch them.

    What a build step makes the traffic of counts where it lies in the folder of the traffic.
    """
    specs = (manifest.correctness.referee, manifest.correctness.metric)
    judges = [spec.partition(":")[0] for spec in specs if spec]
    folder = PurePosixPath(manifest.traffic.requests).parent
    inputs = [name for step in manifest.stack.build for name in step.inputs]
    return (
        str(MANIFEST_PATH),
        manifest.traffic.requests,
        manifest.traffic.arrivals,
        *judges,
        *(name for name in inputs if folder.parts and folder in PurePosixPath(name).parents),
    )


def referee_of(manifest: Manifest, log: Path) -> Callable[[StackView], Referee] | None:
    """Return what opens the referee that the manifest names, None where it names none."""
    spec = manifest.correctness.referee
    if spec is None:
        return None
    return lambda view: Referee(spec, view.root, view.server_python, log=log)


def _among(file: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names the file, or a folder that it is in."""
    places = [file, *map(str, PurePosixPath(file).parents)]
    return any(fnmatchcase(place, pattern) for pattern in patterns for place in places)


def _paths_gate(candidate: Candidate, protected: Sequence[str]) -> Gate:
    """Refuse no patch, one that touches what judges it, and a config change that is code."""
    files = sorted(candidate.edit.files)
    if not candidate.patch:
        return Gate(name="paths", result=GateResult.FAIL, reason="no_op_edit")
    guarded = [f for f in files if f.startswith(PROTECTED) or _among(f, protected)]
    if guarded:
        return Gate(
            name="paths",
            result=GateResult.FAIL,
            reason="touches_protected_files",
            detail=", ".join(guarded),
        )
    code = [f for f in files if not f.endswith("config.pbtxt")]
    if candidate.hypothesis.change_class is ChangeClass.CONFIG and code:
        return Gate(
            name="paths",
            result=GateResult.FAIL,
            reason="config_change_is_a_code_patch",
            detail=", ".join(code),
        )
    return Gate(
        name="paths", result=GateResult.PASS, reason="paths_allowed", detail=", ".join(files)
    )


def _gain_gate(result: GateResult, reason: str, trial: Trial) -> Gate:
    look = trial.looks[-1]
    detail = (
        f"{look.estimate:.3f} times ({look.ci[0]:.3f} to {look.ci[1]:.3f}) after {look.k} launches, "
        f"{look.pairs} pairs; gain {look.gain:.1%} against a floor of {look.floor:.1%}, "
        f"z {look.z:.1f} against {look.boundary:.1f}"
    )
    return Gate(name="gain", result=result, reason=reason, detail=detail)


def load_test(
    recorded: Recorded, slo_p99_ms: float, rate: float, count: int
) -> tuple[LoadTest, Gate]:
    """Return the load test of both arms and the commit gate's answer to it."""
    arms = {
        arm: _arm_load(recorded.blocks[arm], recorded.latencies_ms(arm))
        for arm in ("baseline", "candidate")
    }
    old, new = arms["baseline"], arms["candidate"]
    difference, ci, result, reason = stats.commit_gate(
        old.over_slo, old.requests, new.over_slo, new.requests
    )
    p99 = stats.bootstrap_quantile_ratio(
        recorded.latencies_ms("baseline"), recorded.latencies_ms("candidate")
    )
    test = LoadTest(
        slo_p99_ms=slo_p99_ms,
        rate=rate,
        baseline=old,
        candidate=new,
        over_slo_difference=difference,
        over_slo_ci=ci,
        p99_ratio=p99.ratio if p99 else None,
        p99_ci=p99.ci if p99 else None,
        outputs_compared=count,
    )
    if new.errors > old.errors:
        result, reason = GateResult.FAIL, "more_errors"
    detail = (
        f"over the SLO: {old.over_slo} of {old.requests} before, {new.over_slo} of {new.requests} "
        f"after; difference {difference:+.2%} ({ci[0]:+.2%} to {ci[1]:+.2%})"
    )
    return test, Gate(name="commit", result=result, reason=reason, detail=detail)


def _arm_load(blocks: Sequence[Block], latencies_ms: np.ndarray) -> ArmLoad:
    """Sum one arm's segments up."""
    requests = sum(block.requests for block in blocks)
    offered_s = sum(block.requests / block.offered for block in blocks if block.offered)
    return ArmLoad(
        requests=requests,
        offered=requests / offered_s,
        achieved=sum(block.completed for block in blocks) / sum(block.wall_s for block in blocks),
        errors=sum(block.errors for block in blocks),
        over_slo=sum(block.over_slo or 0 for block in blocks),
        latency_ms=percentiles(latencies_ms),
        lag_p99_ms=max(block.lag_p99_ms or 0.0 for block in blocks),
    )
