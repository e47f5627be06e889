"""The stations between a candidate and its verdict, in order.

    paths, class -> build -> [launch 1] serves -> correctness, memory, metric -> signs of activation
          -> looks (launches of pairs; after the first one's a burst) -> local gain
          -> [fresh launch] commit gate at the SLO -> [fresh launches] a pair of each
          -> CPU of whole arms, void pairs, neighbours -> accepted

Every station either lets the trial go on or ends it with a verdict and a reason code. The parent
draws the inputs after the candidate was written and compares every timed output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np

from layers.base import COOKBOOK, Candidate, ChangeClass, Layer, StackView
from layers.errors import FvecError, Inconclusive, InvalidInput, ToolFailed
from layers.evidence import EndToEnd, Gate, GateResult, Iteration, Look, NoiseFloor, Verdict
from layers.gates import quieter
from layers.gates.contents import contents_gate, unreadable
from layers.gates.correctness import Comparison, Limits, compare
from layers.gates.paths import (
    judging_modules,
    not_exercised,
    paths_gate,
    plan_gate,
    protected_files,
    remakes_traffic,
)
from layers.gates.referee import Referee
from layers.measure import bound, stats
from layers.measure.launch import Arm, Bench, DoesNotServe, Launch, MeasuredPair
from layers.measure.load import LoadResult
from layers.sandbox.box import LimitReached
from layers.trial import (
    accounts,
    activation,
    burst,
    equivalence,
    integrity,
    observing,
    public_checks,
    served,
)
from layers.trial.business_metric import (
    LEAST_REQUESTS,
    PER_PAIR,
    PER_SEGMENT,
    UnderLoad,
    Values,
    opted_in,
    scoring,
)
from layers.trial.load_gate import load_test
from layers.trial.load_probe import MemoryProbe
from layers.trial.memory_probe import REQUESTS
from layers.trial.probes import Probes, completed, warnings_of
from layers.trial.trial import DRAFT, Trial, TrialEnded, process_gain
from layers.trial.truths import Truths

__all__ = ["Rules", "Verifier", "protected_files"]

COMMIT_REQUESTS = 1000  # of the recording, per arm: the least that a p99 is printed for
COMMIT_SEGMENTS = 4
CONFIRMING = 4  # fresh launches of one pair each: what only a good start gains shows in another


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
        *,
        metric: Callable[[StackView], Referee] | None = None,
        profiling: observing.Profiling | None = None,
    ) -> None:
        """`build` prepares a worktree for serving; `referee` opens the float64 reference.

        `on_look` receives every look as it is taken; `metric` opens the business metric;
        `profiling` is asked for the signs of a candidate that has a contract.
        """
        self._bench = bench
        self._rules = rules
        self._build = build
        self._referee = referee
        self._on_look = on_look
        self._metric = metric
        self._profiling = profiling
        self._first: dict[str, str] = {}  # digests of what is of no base, at the first trial
        self._under_load: UnderLoad | None = None  # of the trial under way, if an approximation
        self._truths: Truths | None = None  # of the trial under way, where there is a referee

    def verify(
        self, candidate: Candidate, layer: Layer | None, baseline: StackView, n: int
    ) -> Iteration:
        """Return the iteration with the verdict and all that led to it.

        Without a layer it ends once paths, build and correctness have passed: no gain is measured,
        and no sign looked for.
        A trial during which a file of the evaluator changed is `failed`, whatever it found.
        """
        trial, patched = Trial(n, candidate), _patched(candidate, baseline)

        def stations() -> None:
            with ExitStack() as undo:
                self._stations(trial, layer, baseline, patched, undo)

        return self._judged(trial, baseline, stations)

    def check(self, candidate: Candidate, baseline: StackView) -> public_checks.Answer:
        """Return what the author of a draft may know: paths, build, serving, recorded answers.

        It is no trial: nothing is changed, refereed or timed, and nothing is accepted.
        """
        trial, patched = Trial(DRAFT, candidate), _patched(candidate, baseline)
        told = public_checks.Told(candidate.hypothesis.change_class, self._rules.limits)
        end = self._watched(baseline, lambda: self._public(trial, baseline, patched, told))
        return public_checks.answer(trial, end, told.lines)

    def remeasure(
        self, candidate: Candidate, without: StackView, end: StackView, n: int
    ) -> Iteration:
        """Measure an accepted change again: a stack with it against the same stack without it.

        By the looks alone, every timed output compared; what it was accepted for stays as it is.
        """
        trial = Trial(n, candidate)
        return self._judged(trial, without, lambda: self._looks(trial, without, end))

    def _judged(self, trial: Trial, baseline: StackView, stations: Callable[[], None]) -> Iteration:
        started = time.monotonic()
        end = self._watched(baseline, stations)
        files, fresh = trial.candidate.edit.files, self._bench.fresh
        if fresh is not None:
            fresh.mix(())
        trial.traffic = completed(trial.traffic, fresh)
        unseen = not_exercised(files, baseline.manifest)
        remade = remakes_traffic(files, baseline.manifest)
        repeated = fresh.warning() if fresh else None
        quiet = quieter.warning(trial.block_cpu)
        trial.warnings += filter(None, [unseen, remade, repeated, quiet])
        trial.warnings += [*warnings_of(trial.traffic), *trial.ledger.warnings()]
        binary = unreadable(files)
        if binary is not None:  # the first that a reviewer should know
            trial.warnings.insert(0, binary)
            end.detail = end.detail or (binary if end.verdict is Verdict.ACCEPTED else "")
        return trial.iteration(end, time.monotonic() - started)

    def _watched(self, baseline: StackView, stations: Callable[[], None]) -> TrialEnded:
        """Run the stations; whatever they found is void if a file of the evaluator changed.

        What is of no base (our own code, the traffic in use) stays what it was at the first trial:
        an earlier candidate may have changed it, too.
        """
        evaluator = self._evaluator(baseline)
        before = evaluator.digests()
        self._first = self._first or integrity.of_no_base(before)
        altered = integrity.changed(self._first, integrity.of_no_base(before))
        if altered:
            return TrialEnded(Verdict.FAILED, "evaluator_changed", ", ".join(altered))
        end = self._end_of(stations)
        altered = integrity.changed(before, evaluator.digests())
        if altered:
            return TrialEnded(Verdict.FAILED, "evaluator_changed", ", ".join(altered))
        return end

    def _end_of(self, stations: Callable[[], None]) -> TrialEnded:
        """Run the stations; return how the trial ended."""
        try:
            stations()
        except TrialEnded as ended:
            return ended
        except DoesNotServe as error:
            return TrialEnded(Verdict.REJECTED, error.reason, error.message)
        except Inconclusive as error:
            return TrialEnded(Verdict.INCONCLUSIVE, "machine_too_noisy", error.message)
        except FvecError as error:
            return TrialEnded(Verdict.FAILED, "tool_failed", error.message)
        return TrialEnded(Verdict.ACCEPTED, "gain_confirmed")

    def _evaluator(self, baseline: StackView) -> integrity.Evaluator:
        """Return the files that this verdict rests on; the traffic in use is the first base's."""
        used = self._bench.load.traffic.requests.path
        return integrity.Evaluator.of(baseline.root, self._protected(baseline), [used])

    def _protected(self, baseline: StackView) -> tuple[str, ...]:
        """Return what no candidate may touch: the rules' files, and what judges are made of."""
        return (*self._rules.protected, *judging_modules(baseline.manifest, baseline.root))

    def _stations(
        self,
        trial: Trial,
        layer: Layer | None,
        baseline: StackView,
        patched: StackView,
        undo: ExitStack,
    ) -> None:
        """Run the stations in order; TrialEnded leaves early. `undo` closes what a trial needs."""
        self._before_serving(trial, baseline, patched)
        undo.callback(self._forget, trial)
        fresh, traffic = self._bench.fresh, self._bench.load.traffic
        if trial.approximate and self._metric is not None:
            self._under_load = undo.enter_context(scoring(self._metric(baseline), fresh, traffic))
        if self._referee is not None:
            opened, claimed = partial(self._referee, baseline), trial.candidate.hypothesis
            truths = Truths(opened, fresh, traffic, claimed.change_class)
            self._truths = undo.enter_context(truths)
        with self._launch(trial, 1, baseline, patched) as launch:
            self._correctness(trial, launch, baseline)
            if layer is None:
                return
            self._activation(trial, launch, {"baseline": baseline, "candidate": patched})
            self._measure(trial, launch)
            self._burst(trial, launch)
        self._looks(trial, baseline, patched)
        self._local(trial, layer, baseline, patched)
        for number in range(CONFIRMING):
            with self._launch(trial, len(trial.launches) + 1 + number, baseline, patched) as launch:
                if number == 0:
                    self._commit_gate(trial, launch)
                self._fresh_pair(trial, launch)
        self._confirm(trial)
        for gate in accounts.gates(trial):
            trial.pass_or_end(gate)
        self._metric_under_load(trial, last=True)

    def _forget(self, trial: Trial) -> None:
        """Keep nothing of a trial that has ended but what its referee could not answer."""
        told = self._truths.warning() if self._truths is not None else None
        trial.warnings += [told] if told else []
        self._under_load = self._truths = None

    def _before_serving(self, trial: Trial, baseline: StackView, patched: StackView) -> None:
        """Hold the patch to paths, class and contract, then build it."""
        requirements = baseline.manifest.stack.requirements
        trial.pass_or_end(paths_gate(trial.candidate, self._protected(baseline), requirements))
        refused = contents_gate(trial.candidate, baseline)
        if refused is not None:
            trial.pass_or_end(refused)
        if trial.candidate.hypothesis.proposer != COOKBOOK:
            trial.pass_or_end(plan_gate(trial.candidate, baseline.manifest))
        self._class_gate(trial)
        unnamed = activation.unnamed(trial.candidate.hypothesis)
        if unnamed is not None:
            trial.pass_or_end(unnamed)
        self._build_candidate(patched)

    def _public(
        self, trial: Trial, baseline: StackView, patched: StackView, told: public_checks.Told
    ) -> None:
        """Run the stations that the author of a draft may know about."""
        self._before_serving(trial, baseline, patched)
        trial.gates.append(public_checks.passed("build", "builds"))
        with self._launch(trial, 1, baseline, patched) as launch:
            trial.gates.append(public_checks.passed("serves", "serves"))
            served.station(trial, launch, {"baseline": baseline, "candidate": patched})
            sequential = equivalence.Sequential(launch, referee=None, observe=None)
            answers = told.answers(sequential, self._bench.load.traffic)
            self._compare_probes(trial, sequential, answers, refereed=False)

    def _activation(self, trial: Trial, launch: Launch, views: Mapping[Arm, StackView]) -> None:
        """See whether the new path runs, by the signs that the candidate's contract names."""
        if trial.candidate.hypothesis.contract is None:
            return
        self._bench.events.phase(trial.name, "profiles of both arms: does its new path run?")
        observing.station(trial, launch, views, self._profiling)

    def _metric_under_load(self, trial: Trial, *, last: bool) -> None:
        """Hold an approximation's timed answers to the metric; before the `last` time to fail only."""
        if self._under_load is None:
            return
        margin = self._bench.manifest.correctness.approximate_margin
        if margin is None:
            return
        gate = self._under_load.values.gate(margin, "metric under load")
        if last or gate.result is GateResult.FAIL:
            trial.pass_or_end(gate)

    def _launch(self, trial: Trial, number: int, base: StackView, patched: StackView) -> Launch:
        self._bench.events.phase(trial.name, f"{trial.candidate.edit.summary}: launch {number}")
        label = trial.name.replace(" ", "-")
        return Launch(
            self._bench,
            number,
            base,
            patched,
            label,
            warnings=trial.warnings,
            ledger=trial.ledger,
        )

    def _class_gate(self, trial: Trial) -> None:
        """Refuse an approximation where the manifest does not opt in to it."""
        if trial.approximate and not opted_in(self._bench.manifest.correctness):
            raise TrialEnded(Verdict.REJECTED, "approximate_not_allowed")

    def _build_candidate(self, patched: StackView) -> None:
        """Build the candidate; its own failure to build is a verdict, the baseline's is not."""
        try:
            self._build(patched)
        except LimitReached as error:
            raise TrialEnded(Verdict.REJECTED, error.reason.value, error.message) from error
        except (InvalidInput, ToolFailed) as error:
            raise TrialEnded(Verdict.REJECTED, "build_failed", error.message) from error

    def _correctness(self, trial: Trial, launch: Launch, baseline: StackView) -> None:
        """Compare outputs of recorded, new and mutated requests; some against the referee.

        They come in one random order; what both arms answered of them takes places in timed blocks,
        too. An approximation is held to its metric instead, over the recorded and the new ones.
        """
        patched = _patched(trial.candidate, baseline)
        served.station(trial, launch, {"baseline": baseline, "candidate": patched})
        probes = Probes(self._bench, trial.candidate.hypothesis.change_class)
        values = None
        if self._under_load is not None:
            values = Values(self._under_load.values.process)
        observe = values.observe if values else None
        sequential = equivalence.Sequential(launch, self._truths, observe)
        sent = probes.drawn(LEAST_REQUESTS if values else 0)
        try:
            self._compare_probes(trial, sequential, sequential.probed(sent))
        finally:
            trial.traffic = probes.record(sequential.counts)
        self._memory(trial, launch, probes)
        margin = self._bench.manifest.correctness.approximate_margin
        if values is not None and margin is not None:
            trial.pass_or_end(values.gate(margin))
        if self._bench.fresh is not None:
            self._bench.fresh.mix(sequential.odd)

    def _memory(self, trial: Trial, launch: Launch, probes: Probes) -> None:
        """Ask both arms new requests and the same again, under load; compare all answers."""

        def verify(old: LoadResult, new: LoadResult) -> None:
            self._verify_timed(trial, old, new, 0)

        probe = MemoryProbe(self._bench, launch, probes.rng)
        trial.pass_or_end(probe.gate(probes.unsent, REQUESTS, verify))

    def _compare_probes(
        self,
        trial: Trial,
        sequential: equivalence.Sequential,
        answers: Iterable[equivalence.Compared],
        *,
        refereed: bool = True,
    ) -> None:
        """Compare what both arms answered to the probes, refusals included."""
        comparison = self._compare(trial, answers, refereed=refereed)
        trial.equivalence.extend(comparison.rows)
        trial.outputs_compared += sequential.answered
        trial.pass_or_end(sequential.gate())
        for gate in comparison.gates:
            trial.pass_or_end(sequential.named(gate))

    def _measure(self, trial: Trial, launch: Launch) -> None:
        """Measure one launch's pairs and verify every timed output of them."""
        wanted = self._rules.plan.pairs_per_launch
        measured = [self._verified(trial, pair) for pair in launch.pairs(wanted)]
        logs = [float(np.log(one.pair.throughput_ratio)) for one in measured]
        alone = stats.outlying_pair(logs, self._rules.noise)
        if alone is not None:
            void = measured.pop(alone).pair
            line = (
                f"pair {void.pair} of launch {void.launch} stood alone at "
                f"{void.throughput_ratio:.3f} times: it is void and was measured again"
            )
            trial.warnings.append(line)
            self._bench.events.note(line)
            measured += [self._verified(trial, pair) for pair in launch.pairs(1)]
        pairs = [one.pair for one in measured]
        trial.block_cpu.extend(one.blocks for one in measured)
        trial.pairs.extend(pairs)
        trial.launches.append(pairs)
        self._bench.events.progress(len(pairs), wanted, "pairs of blocks")
        self._metric_under_load(trial, last=False)

    def _burst(self, trial: Trial, launch: Launch) -> None:
        """Hold the answers to a burst to the class; what the baseline does not repeat, to limits."""

        def hold(
            answers: Iterable[equivalence.Compared], same: frozenset[str] | None
        ) -> Comparison:
            if same is None:
                return self._compare(trial, answers, refereed=False)
            as_config, repeated = ChangeClass.CONFIG, self._rules.reproducible & same
            limits = self._rules.limits
            return compare(answers, as_config, limits, repeated, referee_required=False)

        burst.station(trial, launch, self._bench, hold)

    def _verified(self, trial: Trial, measured: MeasuredPair) -> MeasuredPair:
        """Compare every output of a measured pair, then return it."""
        results = measured.results
        self._verify_timed(trial, results["baseline"], results["candidate"], PER_PAIR)
        return measured

    def _compare(
        self, trial: Trial, answers: Iterable[equivalence.Compared], *, refereed: bool
    ) -> Comparison:
        """Compare outputs; `refereed` where the referee answers some of the requests too."""
        return compare(
            answers,
            trial.candidate.hypothesis.change_class,
            self._rules.limits,
            self._rules.reproducible,
            referee_required=refereed,
            movable=self._bench.manifest.correctness.approximate_outputs,
            errors=self._truths.errors if self._truths is not None else None,
        )

    def _verify_timed(
        self, trial: Trial, baseline: LoadResult, candidate: LoadResult, scored: int
    ) -> None:
        """Compare every output of two timed blocks; score up to `scored` of an approximation's."""
        answers = equivalence.timed(baseline, candidate)
        if self._truths is not None:
            answers = self._truths.joined(answers, baseline, candidate)
        comparison = self._compare(trial, answers, refereed=False)
        if self._truths is not None:
            trial.equivalence = self._truths.completed(trial.equivalence)
        trial.outputs_compared += baseline.completed
        passed = all(gate.result is GateResult.PASS for gate in comparison.gates)
        if passed and self._under_load is not None:
            self._under_load.score(baseline, candidate, equivalence.outputs, scored)
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
                if bound.any_bound(trial.pairs):  # it may do better than could be measured
                    reason = "generator_bound"
                    trial.pass_or_end(_gain_gate(GateResult.INCONCLUSIVE, reason, trial))
                trial.pass_or_end(_gain_gate(GateResult.FAIL, look.reason, trial))
        trial.pass_or_end(_gain_gate(GateResult.INCONCLUSIVE, trial.looks[-1].reason, trial))

    def _local(self, trial: Trial, layer: Layer, baseline: StackView, patched: StackView) -> None:
        """Take the layer's own measurement, else the CPU of the changed model's process.

        A layer measures by running parts of the candidate where we run: of its own rewrites alone.
        The CPU of one process is told and decides nothing: work may have moved to another, and two
        that run beside each other cost more a request than one.
        """
        ours = trial.candidate.hypothesis.proposer == COOKBOOK
        own = layer.verify(trial.candidate, baseline, patched) if ours else None
        trial.local = own or process_gain(trial)
        if trial.local is None or trial.local.ci[1] >= 1:
            return
        detail = f"{trial.local.what}: {trial.local.speedup:.3g} times"
        if own is None:
            trial.warnings.append(f"locally slower: {detail}")
            return
        trial.pass_or_end(
            Gate(name="local", result=GateResult.FAIL, reason="locally_slower", detail=detail)
        )

    def _commit_gate(self, trial: Trial, launch: Launch) -> None:
        """Replay recorded traffic open loop on the full stack; a regression there discards.

        It is some stretch of the recording, which nobody can foresee.
        """
        traffic = self._bench.load.traffic
        count = min(COMMIT_REQUESTS, len(traffic.order))
        first = int(self._bench.rng.integers(len(traffic.order) - count + 1))
        stretch = slice(first, first + count)
        recorded = launch.recorded(
            traffic.order[stretch], traffic.arrivals_s[stretch], COMMIT_SEGMENTS
        )
        for old, new in zip(
            recorded.results["baseline"], recorded.results["candidate"], strict=True
        ):
            self._verify_timed(trial, old, new, PER_SEGMENT)
        trial.load_test, gate = load_test(
            recorded, self._bench.manifest.slo.p99_ms, traffic.rate, count
        )
        trial.pass_or_end(gate)

    def _fresh_pair(self, trial: Trial, launch: Launch) -> None:
        """Measure one pair of a fresh launch."""
        trial.confirm += [self._verified(trial, measured).pair for measured in launch.pairs(1)]
        self._bench.events.progress(len(trial.confirm), CONFIRMING, "confirming pairs")

    def _confirm(self, trial: Trial) -> None:
        """Take the fresh pairs: the gain that is printed. It must be positive, and no start differ."""
        fresh = stats.by_launch(trial.confirm)
        gain = stats.confirm(fresh, self._rules.noise)
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
        result, reason = stats.confirmed(fresh, stats.by_launch(trial.pairs), self._rules.noise)
        detail = (
            f"{gain.ratio:.3f} times in {gain.n} fresh pairs, one of each start: {starts(fresh)}"
        )
        trial.pass_or_end(Gate(name="confirm", result=result, reason=reason, detail=detail))


def _patched(candidate: Candidate, baseline: StackView) -> StackView:
    """Return the stack with the candidate in it, otherwise as the baseline is."""
    return StackView(
        candidate.worktree, candidate.commit, baseline.manifest, baseline.server_python
    )


def starts(launches: stats.Launches) -> str:
    """Return the ratio of each fresh start, in order."""
    return ", ".join(f"{np.exp(np.mean(launch)):.3f}" for launch in launches)


def _gain_gate(result: GateResult, reason: str, trial: Trial) -> Gate:
    look = trial.looks[-1]
    detail = (
        f"{look.estimate:.3f} times ({look.ci[0]:.3f} to {look.ci[1]:.3f}) after {look.k} launch{'es' * (look.k > 1)}, "
        f"{look.pairs} pairs; gain {look.gain:.1%} against a floor of {look.floor:.1%}, "
        f"z {look.z:.1f} against {look.boundary:.1f}"
    )
    return Gate(name="gain", result=result, reason=reason, detail=detail)
