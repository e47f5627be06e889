"""One function against another: from two specs to a verdict with its evidence.

    loads -> correctness (by kinds of content) -> A/A noise -> looks (launches of pairs)
          -> fresh starts, one of them in another environment -> accepted

Reference, candidate and maker of inputs run in processes of their own, in the sandbox; inputs,
clock, comparison and verdict are here.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from layers.base import ChangeClass
from layers.callables import conduct, correctness, strays, timing
from layers.callables.audit import Audit
from layers.callables.cases import METRIC_DRAWS, REPEATS, Cases
from layers.callables.ceilings import write_floor_gate
from layers.callables.cell import Cell, Ended, laid_out
from layers.callables.compare import gate
from layers.callables.correctness import Correctness
from layers.callables.machine import aside, environment, quietest
from layers.callables.maker import Maker, Settings, of_ours, ours
from layers.callables.process import Process
from layers.callables.station import CallableOptions, Cast, Record, Specs, Stopped
from layers.errors import Inconclusive, InvalidInput
from layers.events import Events
from layers.evidence import (
    EndToEnd,
    Gate,
    GateResult,
    JudgeReport,
    Noise,
    NoiseFloor,
    Pair,
    Verdict,
)
from layers.measure import stats
from layers.sandbox.box import Sandbox

__all__ = ["CallableOptions", "judge_callable"]

CONFIRMING, CONFIRMING_PAIRS = 2, 2  # fresh starts, and pairs of each
NOISE_LAUNCHES = 1
HARNESS_SHARE = 3.0  # a candidate's call must last this many empty ones
LOAD_LIMIT_S, LOAD_FACTOR = 10.0, 10.0  # of a candidate, in loading times of the reference
STRIKING = 10.0  # times as fast: said, as too few such gains are honest


def judge_callable(options: CallableOptions, events: Events) -> JudgeReport:
    """Return the verdict on `candidate` against `reference`, with all that led to it.

    Raises InvalidInput for specs, a reference, a maker, a referee or a metric that do not work,
    Missing where the sandbox that is asked for is not on this machine. Whatever the candidate
    does is a verdict.
    """
    started = time.monotonic()
    specs = Specs.of(options)
    sandbox = Sandbox.open(options.sandbox)
    seed = options.seed or secrets.randbits(62)
    record = Record()
    cpus = sorted(os.sched_getaffinity(0))
    cpu = options.cpus[0] if options.cpus else quietest(cpus)
    with (
        tempfile.TemporaryDirectory(prefix="fvec-judge-") as folder,
        tempfile.TemporaryDirectory(prefix="app-") as seen,  # by the candidate
        aside(cpu),
    ):
        cell = Cell(
            sandbox=sandbox,
            python=options.python,
            limits=sandbox.limits,
            logs=_folder(options.logs or Path(folder)),
            cpu=cpu,
            spin=len(cpus) > 1,
            caller=laid_out(Path(seen)),
        )
        judgement = _Judgement(options, specs, cell, seed, record, events)
        end = _ended(judgement, record)
    return JudgeReport(
        target="callable",
        subject=f"{options.candidate} against {options.reference}, on {options.inputs}",
        change_class=options.change_class,
        verdict=end.verdict,
        reason=end.reason,
        detail=end.detail,
        gates=record.gates,
        equivalence=record.equivalence,
        outputs_compared=record.outputs_compared,
        noise=Noise(work=record.noise) if record.noise else None,
        looks=record.looks,
        pairs=record.pairs,
        confirm=record.confirm,
        end_to_end=record.end_to_end,
        resolvable=record.resolvable,
        warnings=record.warnings,
        environment=environment(sandbox, record, cpu),
        seed=seed,
        reproduce=options.reproduce(seed),
        wall_s=time.monotonic() - started,
    )


def _ended(judgement: _Judgement, record: Record) -> Stopped:
    """Run a judgement to its end, whichever it is."""
    try:
        judgement.run()
    except Stopped as stopped:
        return stopped
    except Inconclusive as error:
        return Stopped(Verdict.INCONCLUSIVE, "machine_too_noisy", error.message)
    except Ended as ended:
        if ended.role != "candidate":
            raise of_ours(ended) from ended
        record.gates.append(
            gate(judgement.station, GateResult.FAIL, ended.reason, ended.detail[:2000])
        )
        return Stopped(Verdict.REJECTED, ended.reason, ended.detail[:2000])
    return Stopped(Verdict.ACCEPTED, "gain_confirmed")


class _Judgement:
    """The stations in order; every one lets the judgement go on or ends it."""

    def __init__(
        self,
        options: CallableOptions,
        specs: Specs,
        cell: Cell,
        seed: int,
        record: Record,
        events: Events,
    ) -> None:
        self._options, self._specs, self._cell = options, specs, cell
        self._record, self._events = record, events
        self._rng = np.random.default_rng(seed)
        self._deadline = time.monotonic() + options.budget_s
        self._plan = stats.LookPlan(candidates=1)
        self._preload: list[str] = []
        self._calls = 0  # of each arm in a pair
        self._launches = 0
        self._outside: list[conduct.Outside] = []  # of every launch of the candidate
        self._alone_s = 0.0  # a call of the reference beside itself
        self._beside_s: list[float] = []  # beside the candidate, launch by launch
        self._audit = Audit(options.change_class, options.margin)
        self._audits: list[Gate] = []  # of all launches so far
        self._limit_s = 60.0
        self.station = "loads"

    def run(self) -> None:
        """Run all stations; Stopped or Ended leave early."""
        with Cast(self._cell, "maker") as cast:
            process = cast.start("inputs", self._specs.inputs)
            self._correctness(process)
            self.station = "timing"
            noise = self._noise()
            self._record.noise = noise
            self._looks(noise)
            self._confirm(noise)

    # --- loads and correctness ---

    def _correctness(self, inputs: Process) -> None:
        self._events.phase("correctness", "the same inputs in both, by kinds of content")
        with self._cast("correctness") as cast:
            reference = cast.start("reference", self._specs.reference)
            candidate = cast.start("candidate", self._specs.candidate)
            referee = self._start_referee(cast)
            self._maker = Maker(inputs, _settings(inputs), self._rng)
            self._load(reference, candidate)
            if referee is not None:
                ours(lambda: referee.load(self._preload))
            self.station = "correctness"
            self._check(
                Correctness(
                    reference,
                    candidate,
                    referee,
                    self._options.change_class,
                    self._record,
                    self._rng,
                ),
                cast,
            )
            self._timeable(reference, candidate)

    def _cast(self, attempt: str, *, elsewhere: bool = False) -> Cast:
        """Return what starts processes that hash alike, as nobody can know before."""
        hash_seed = int(self._rng.integers(1, 1 << 32))
        return Cast(replace(self._cell, hash_seed=hash_seed, elsewhere=elsewhere), attempt)

    def _start_referee(self, cast: Cast) -> Process | None:
        """Start the float64 referee: the one that is named, else the reference itself."""
        if self._options.change_class is not ChangeClass.REORDER:
            return None
        return cast.start("referee", self._specs.referee or self._specs.reference)

    def _load(self, reference: Process, candidate: Process) -> None:
        """Load both functions and hold the candidate's import to the reference's."""
        started = time.monotonic()
        old = ours(reference.load)
        took_s = time.monotonic() - started
        self._record.versions = old.versions
        self._preload = [name for name in ("torch",) if name in old.versions]
        self._parameters = old.parameters
        self._first_call_s = LOAD_LIMIT_S + LOAD_FACTOR * took_s  # it may compile then
        candidate.time_limit_s = candidate.first_call_s = self._first_call_s
        new = candidate.load(self._preload)
        self._record.take(correctness.loads_gate(old, new, reference, candidate))

    def _check(self, station: Correctness, cast: Cast) -> None:
        """Run the cases, then what only all of them together can say."""
        cases = Cases(self._maker, self._rng, self._record)
        approximate = self._options.change_class is ChangeClass.APPROXIMATE
        draws = METRIC_DRAWS if approximate else REPEATS
        try:
            station.run(cases.fresh(draws))
            station.writes(cases.written())
            station.run(cases.calls(self._parameters))
            station.run(cases.objects(station.calls))
            station.run(cases.unusual())
            station.run(cases.sizes(station.calls))
            station.settle()
            station.run(cases.contents())
            station.run(cases.again())
            station.finish()
        finally:
            station.rows()
        self._call_s = float(np.median(station.calls.reference_s))
        self._candidate_s = float(np.median(station.calls.candidate_s))
        self._limit_s = correctness.LEAST_LIMIT_S + correctness.LIMIT_FACTOR * self._call_s
        self._written_bytes = station.calls.written_bytes
        if approximate:
            for answer in self._metric(station, cast):
                self._record.take(answer)

    def _metric(self, station: Correctness, cast: Cast) -> list[Gate]:
        """Judge the business metric of both arms' outputs, call by call."""
        if self._specs.metric is None or self._options.margin is None:
            raise InvalidInput(
                "class approximate needs a metric and its margin",
                hint="--metric SPEC --margin M: how much the mean metric may fall",
            )
        metric = cast.start("metric", self._specs.metric)
        ours(lambda: metric.load(self._preload))
        audit = Audit(self._options.change_class, self._options.margin)
        found = [audit.metric(station.calls.scored, metric)]
        return [*found, *audit.of_other_calls(station.calls.others, metric)]

    def _timeable(self, reference: Process, candidate: Process) -> None:
        """Refuse what a clock cannot tell: memories, calls near the harness' own time."""
        arms: dict[timing.Arm, Process] = {"baseline": reference, "candidate": candidate}
        candidate.time_limit_s = self._limit_s
        self._record.take(timing.memory_gate(arms, self._maker, lambda r: stats.ratio_ci(r).ci))
        floor_s = timing.harness_s(reference)
        times = (
            f"a call of the candidate lasts {1e6 * self._candidate_s:.0f} us, "
            f"one that does nothing {1e6 * floor_s:.0f} us"
        )
        if floor_s * HARNESS_SHARE > self._candidate_s:
            hint = "; make.batch can be larger"
            self._record.take(
                gate("harness", GateResult.INCONCLUSIVE, "too_short_to_time", times + hint)
            )
        self._record.take(gate("harness", GateResult.PASS, "long_enough_to_time", times))
        self._record.take(write_floor_gate(self._written_bytes, self._candidate_s, self._call_s))

    # --- timing ---

    def _noise(self) -> NoiseFloor:
        """Measure the reference against itself."""
        self._events.phase("noise", "the reference against itself")
        self._calls = timing.calls_per_pair(self._call_s)
        launches = [self._launch(noise=True) for _ in range(NOISE_LAUNCHES)]
        seconds = self._launch_s
        noise = stats.noise_floor(stats.by_launch(pair for pairs in launches for pair in pairs))
        self._record.resolvable = stats.resolvable(noise, self._plan, seconds)
        return noise

    def _launch(
        self, *, noise: bool = False, count: int | None = None, elsewhere: bool = False
    ) -> list[Pair]:
        """Start both arms afresh and measure one launch's pairs: `count`, or as many as looks ask for.

        `elsewhere`: in another environment than all other launches.
        """
        if time.monotonic() > self._deadline:
            raise Stopped(Verdict.INCONCLUSIVE, "budget_spent", f"{self._options.budget_s:g} s")
        started = time.monotonic()
        self._launches += 1
        wanted = count or self._plan.pairs_per_launch
        with self._cast(f"launch-{self._launches}", elsewhere=elsewhere) as cast:
            arms = self._arms(cast, noise=noise)
            launch = timing.Launch(
                arms,
                self._maker,
                self._rng,
                self._options.change_class,
                self._record,
                timing.Extent(self._calls, wanted),
            )
            for n in range(wanted):
                launch.pair()
                self._events.progress(n + 1, wanted, "pairs")
            pairs = launch.close(self._launches - NOISE_LAUNCHES)
            if noise:
                times = [*launch.call_s["baseline"], *launch.call_s["candidate"]]
                self._alone_s = max(self._alone_s, float(np.median(times)))
            else:
                self._audited(launch, cast)
        self._record.outputs_compared += launch.compared
        self._launch_s = time.monotonic() - started
        return pairs

    def _audited(self, launch: timing.Launch, cast: Cast) -> None:
        """Hold a launch to what its pairs do not say; what passes is kept once all are over."""
        self._outside.append(launch.outside)
        self._beside_s.append(float(np.median(launch.call_s["baseline"])))
        old_s, new_s = (float(np.median(launch.call_s[arm])) for arm in timing.ARMS)
        floor = write_floor_gate(self._written_bytes, new_s, old_s)
        found = [
            conduct.company_gate(self._outside),
            conduct.outside_gate(self._outside),
            conduct.growth_gate(self._outside),
            conduct.sizes_gate(self._outside),
            floor.model_copy(update={"name": "timed floor"}),
        ]
        referee = self._start_referee(cast)
        if referee is not None:
            ours(lambda: referee.load(self._preload))
            found.append(self._audit.referee(launch.samples, referee))
            found.append(strays.refereed(launch.told, referee))
        if self._specs.metric is not None and launch.samples:
            metric = cast.start("metric", self._specs.metric)
            ours(lambda: metric.load(self._preload))
            timed = self._audit.metric(launch.samples, metric)
            found.append(timed.model_copy(update={"name": "timed metric"}))
        for answer in found:
            if answer.result is GateResult.FAIL:
                self._record.take(answer)
        self._audits = found

    def _arms(self, cast: Cast, *, noise: bool) -> dict[timing.Arm, Process]:
        """Start both arms in random order; the reference is both of them for the noise."""
        specs = self._specs
        plays = {
            "baseline": ("reference", specs.reference),
            "candidate": ("reference", specs.reference)
            if noise
            else ("candidate", specs.candidate),
        }
        order = [timing.ARMS[i] for i in self._rng.permutation(2)]
        arms: dict[timing.Arm, Process] = {arm: cast.start(*plays[arm]) for arm in order}
        loaded = {arm: arms[arm].load(self._preload) for arm in order}
        if not noise:
            arms["candidate"].time_limit_s = self._limit_s
            arms["candidate"].first_call_s = self._first_call_s
            answer = correctness.loads_gate(
                loaded["baseline"], loaded["candidate"], arms["baseline"], arms["candidate"]
            )
            if answer.result is GateResult.FAIL:
                self._record.take(answer.model_copy(update={"name": "timed loads"}))
        return arms

    def _looks(self, noise: NoiseFloor) -> None:
        """Look after 1, 2, 4, 8 launches; go on only inside the re-measuring band."""
        record, seen = self._record, 0
        self._events.phase("looks", "launches of pairs")
        for k in self._plan.looks:
            while seen < k:
                record.pairs.extend(self._launch())
                seen += 1
            look = stats.look(stats.by_launch(record.pairs), noise, self._plan)
            record.looks.append(look)
            if look.decision == "accept":
                record.take(self._gain_gate(GateResult.PASS))
                return
            if look.decision == "reject":
                record.take(self._gain_gate(GateResult.FAIL))
        record.take(self._gain_gate(GateResult.INCONCLUSIVE))

    def _gain_gate(self, result: GateResult) -> Gate:
        look = self._record.looks[-1]
        detail = (
            f"{look.estimate:.3f} times ({look.ci[0]:.3f} to {look.ci[1]:.3f}) after {look.k} "
            f"launch{'es' * (look.k > 1)}, {look.pairs} pairs of {self._calls} calls; gain {look.gain:.1%} against a "
            f"floor of {look.floor:.1%}, z {look.z:.1f} against {look.boundary:.1f}"
        )
        return gate("gain", result, look.reason, detail)

    def _confirm(self, noise: NoiseFloor) -> None:
        """Measure fresh pairs of fresh starts: the gain that is printed. It must be positive."""
        self._events.phase("confirm", f"{CONFIRMING} fresh starts of {CONFIRMING_PAIRS} pairs")
        for n in range(CONFIRMING):
            self._record.confirm += self._launch(count=CONFIRMING_PAIRS, elsewhere=n == 0)
        for answer in self._audits:
            self._record.take(answer)
        self._warn_of_sizes()
        pairs = self._record.confirm
        fresh = stats.by_launch(pairs)
        gain = stats.confirm(fresh, noise)
        cpu = stats.ratio_ci([pair.cpu_ratio for pair in pairs])
        self._record.end_to_end = EndToEnd(
            throughput_ratio=gain.ratio,
            ci=gain.ci,
            cpu_ratio=cpu.ratio,
            cpu_ci=cpu.ci,
            pairs=len(pairs),
        )
        if gain.ratio > STRIKING:
            self._record.warn(f"{gain.ratio:.3g} times: more than {STRIKING:g} is rarely honest")
        self._undisturbed(gain.ratio, noise)
        result, reason = stats.confirmed(fresh, stats.by_launch(self._record.pairs), noise)
        starts = ", ".join(f"{np.exp(np.mean(launch)):.3f}" for launch in fresh)
        detail = f"{gain.ratio:.3f} times in {gain.n} fresh pairs; by start: {starts}"
        self._record.take(gate("confirm", result, reason, detail))

    def _undisturbed(self, ratio: float, noise: NoiseFloor) -> None:
        """Hold the reference's time beside the candidate to its time beside itself.

        Where it is slower it is measured beside itself once more, now: the machine may be slower.
        """
        floor = noise.floor_pct / 100
        if conduct.slowed(self._alone_s, self._beside_s, floor):
            self._launch(noise=True, count=CONFIRMING_PAIRS)
        answer = conduct.reference_gate(self._alone_s, self._beside_s, ratio, floor)
        self._record.take(answer)

    def _warn_of_sizes(self) -> None:
        """Name the sizes at which the change is slower: what is printed holds for one of them."""
        slow = [one for launch in self._outside for one in launch.sizes if one.slower]
        for one in sorted(slow, key=lambda one: one.size):
            self._record.warn(conduct.told_of_size(one))


def _settings(inputs: Process) -> Settings:
    return Settings.of(ours(inputs.load).attributes)


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
