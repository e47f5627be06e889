"""What a run, a plan and a measurement share: the stack built, the instruments set up.

Everything opened here is closed here, in reverse order, whatever happens: servers, generator,
worktrees. The checkout itself is only read.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from importlib import metadata
from pathlib import Path

import numpy as np
from scipy import stats as scipy_stats

from layers.agent_settings import AgentOptions
from layers.base import COOKBOOK, Ground, Hotspot, LayerName, Profile, StackView
from layers.errors import InvalidInput, Location, ToolFailed
from layers.events import Events
from layers.evidence import (
    Block,
    Environment,
    FloorRecord,
    HotspotRecord,
    Peak,
    ProfileRecord,
    StackRecord,
)
from layers.gates.interface import unknown_outputs
from layers.manifest import MANIFEST_PATH, Manifest, SandboxMode
from layers.measure import bandwidth, request_floor, tally
from layers.measure.blocks import BlockContext, rate_block
from layers.measure.checks import ENVIRONMENT
from layers.measure.launch import RECORDED_LIMITS, Bench, Served
from layers.measure.load import LoadGenerator
from layers.places import usable_cpus
from layers.profile.profiler import OUTSIDE_PYTHON, profile
from layers.record.environment_record import hardware
from layers.record.publishing import ForgeOpener
from layers.record.results_folder import prepared
from layers.repository.stack import Stack
from layers.sandbox.box import Sandbox
from layers.shards import Shard
from layers.traffic.recorded import Traffic, decode_response
from layers.triton import loading, pbtxt, starting
from layers.triton.client import Client
from layers.triton.environment import ServerEnvironment, absent, ensure

BLOCK_S = 3.0  # wanted length of a work block of the unmodified stack
MIN_BLOCK_REQUESTS = 60
PROFILE_S = 8.0
SLO_REQUESTS = 400  # of the recording, to see whether the baseline meets its own SLO
SLO_TRIES = 4  # on a machine whose neighbours void the check, or stall it once
SLO_MISSES = 2  # blocks that must say that the stack misses its SLO
SLO_SHARE = 0.01  # of requests that may be slower than a p99 objective
SHOWN_HOTSPOTS = 12
UNPROFILED = "no profiler"  # stands for the tool where the floor is near
RATE_PROBE = 64  # requests from which the length of a block is estimated


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line decides; None takes the manifest's value."""

    out: Path
    layers: tuple[LayerName, ...] | None
    minutes: float | None
    seed: int
    cookbook: Path | None
    forge: ForgeOpener
    sandbox: SandboxMode | None = None  # the weakest that will do, whatever the manifest says
    resume: bool = False  # go on with the unfinished run in `out`, if there is one
    shard: Shard | None = None  # of a run that several runners share: this one's part
    proposers: tuple[str, ...] = (COOKBOOK,)  # what writes candidates, in the order they are asked
    agents: AgentOptions | None = None  # for proposers beside the cookbook


@dataclass(frozen=True)
class Session:
    """One stack ready to be measured."""

    stack: Stack
    view: StackView
    env: ServerEnvironment
    environment: Environment
    traffic: Traffic
    bench: Bench
    out: Path
    started_at: str
    run_id: str

    def record(self) -> StackRecord:
        """Return which serving repository this is."""
        manifest = self.stack.manifest
        return StackRecord(
            name=self.stack.name,
            commit=self.stack.commit,
            entry=manifest.stack.entry,
            slo_p99_ms=manifest.slo.p99_ms,
            recorded_rate=self.traffic.rate,
            requests=len(self.traffic.requests),
            owner=manifest.owner,
            peak=Peak(**manifest.slo.peak.model_dump()) if manifest.slo.peak else None,
        )

    @property
    def sandbox(self) -> Sandbox:
        """What everything under judgement runs in, the baseline alike."""
        return self.bench.sandbox

    def ground(self) -> Ground:
        """Return what this run's findings are made on."""
        usable = usable_cpus()
        versions = {"triton": self.env.version}
        versions |= {
            name: version
            for name, version in self.environment.packages.items()
            if name in {"numpy", "torch"}
        }
        return Ground(
            date=date.fromisoformat(self.started_at[:10]),
            stack=self.stack.name,
            commit=self.stack.commit,
            hardware=f"{self.environment.cpu}, {len(self.environment.server_cpus) or usable} CPU",
            versions=versions,
            workload=self.traffic.digest[:12],
            run=self.run_id,
            fvec=metadata.version("fvec"),
            code=self.stack.code(),
        )

    def profile(self, view: StackView, name: str) -> Profile:
        """Start `view` alone, hold it to its floor, and profile it unless that is near."""
        with self.bench.deploy(view, f"profile-{name}") as deployment:
            self.bench.warm(deployment)
            return self.floor_first(deployment, view, name)

    def floor_first(self, deployment: Served, view: StackView, name: str) -> Profile:
        """Hold a warm deployment to its floor; open a profiler only where a residual is left.

        Raises InvalidInput where the manifest declares a floor that the stack is below.
        """
        floor = self._floor(deployment)
        self.bench.events.note(floor.reason)
        if floor.action == "suspect":
            raise InvalidInput(
                floor.reason,
                at=Location(Path(MANIFEST_PATH)),
                hint="`floor` must state the least that any right answer needs: without what "
                "requests share, caches hold or the model does not compute",
            )
        if floor.action == "stop":
            return Profile(
                UNPROFILED, self.out / "profiles" / name, 0.0, 0, {}, {}, (), floor=floor
            )
        return replace(self.profile_running(deployment, view, name), floor=floor)

    def _floor(self, deployment: Served) -> FloorRecord:
        """Return the floor of one request beside what one takes now."""
        section = self.stack.manifest.floor
        ceilings = self.bench.ceilings or bandwidth.measure(section)
        order = self.bench.draw()[:RATE_PROBE]
        probe = self.bench.load.closed(
            deployment.grpc, order, self.stack.manifest.traffic.in_flight
        )
        size = tally.message_bytes(probe) / len(order)
        probe.discard()
        return request_floor.triage(
            request_floor.times(size, ceilings),
            probe.wall_s / max(1, probe.completed),
            section.stop_at,
            declared=section.declared,
        )

    def profile_running(self, deployment: Served, view: StackView, name: str) -> Profile:
        """Profile a running deployment under the work load."""
        blocks = max(1, round(PROFILE_S / BLOCK_S))
        order = np.concatenate([self.bench.draw() for _ in range(blocks)])
        in_flight = self.stack.manifest.traffic.in_flight
        raw = self.out / "profiles" / name
        with self.bench.sending(order) as (sent, requests):

            def load() -> int:
                result = self.bench.load.closed(deployment.grpc, sent, in_flight, requests=requests)
                result.discard()  # nobody compares what a profile answered
                return result.completed

            return profile(deployment, load, raw_dir=raw, stack=view)


def run_id(commit: str, started_at: str, options: RunOptions) -> str:
    """Return the name of a run: another one for every part of a run that runners share."""
    part = f"{','.join(options.layers or ())}{options.shard or ''}"
    return hashlib.sha256(f"{commit}{started_at}{options.seed}{part}".encode()).hexdigest()[:12]


@contextmanager
def open_session(
    path: Path,
    options: RunOptions,
    events: Events,
    on_block: Callable[[Block], None],
    *,
    afresh: bool = False,
) -> Iterator[Session]:
    """Open the stack at `path` and its instruments; `on_block` receives every measured block.

    `afresh` says that servers will be started: a user's own running one will not do.

    Raises InvalidInput, Missing or ToolFailed with what to do; the repository stays untouched.
    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    with Stack.open(path) as stack, ExitStack() as undo:
        if afresh:
            _refuse_remote(stack.manifest)
        if stack.manifest.server.address is None:
            starting.check_folder(options.out.resolve())
        _shut_in(stack, options.sandbox)
        env = _environment(stack)
        out = undo.enter_context(prepared(options.out, resume=options.resume))
        events.phase("build", f"{stack.name} at {stack.commit[:12]}")
        sandbox = Sandbox.open(stack.manifest.sandbox)
        worktree = stack.worktree(stack.commit, out / "worktrees")
        view = _seen(stack.view(worktree, env), stack)
        _check_configs(view)
        _build(stack, worktree, env, sandbox)
        loading.check(stack.manifest, view.root, steps=starting.steps)
        traffic = replace(
            Traffic.load(worktree, stack.manifest.traffic), optional=_optional_inputs(view)
        )
        cpus = generator_cpus(stack.manifest.server.cpus)
        with LoadGenerator(traffic, cpus=cpus, work_dir=out / "load") as load:
            bench = Bench(
                env=env,
                sandbox=sandbox,
                load=load,
                manifest=stack.manifest,
                log_dir=out / "logs",
                rng=np.random.default_rng(options.seed or secrets.randbits(128)),
                block_requests=RATE_PROBE,
                events=events,
                on_block=on_block,
                start_seed=secrets.randbits(32),
                replay=options.seed != 0,
            )
            environment = hardware(
                env,
                sandbox=sandbox.describe(),
                server_cpus=stack.manifest.server.cpus or [],
                generator_cpus=cpus,
            )
            name = run_id(stack.commit, started_at, options)
            try:
                yield Session(stack, view, env, environment, traffic, bench, out, started_at, name)
            finally:
                shutil.rmtree(out / "load", ignore_errors=True)


@contextmanager
def settled(session: Session) -> Iterator[tuple[Session, Served]]:
    """Serve the unmodified stack, checked, the blocks sized to it.

    Raises InvalidInput when it does not serve, and as `_settle` does.
    """
    with ExitStack() as undo:
        # Not probed: the check of the traffic says more than the server's refusal of a request.
        deployment = session.bench.deploy(session.view, "baseline", probed=False)
        try:
            undo.enter_context(deployment)
        except ToolFailed as error:
            raise InvalidInput(
                f"the unmodified stack does not serve: {error.message}",
                hint=error.hint or "mend the stack first; its log has the reason",
            ) from error
        yield _settle(session, deployment), deployment


def _settle(session: Session, deployment: Served) -> Session:
    """Check the traffic against the served model, and size the blocks; on the running baseline.

    Raises InvalidInput when the traffic does not fit the model's inputs, when the manifest names
    outputs that it lacks, or when the baseline itself misses its SLO at the recorded rate.
    """
    manifest = session.stack.manifest
    config = deployment.config(manifest.stack.entry)
    session.traffic.check(config)
    unknown = unknown_outputs(manifest.correctness.approximate_outputs or (), config)
    if unknown:
        raise InvalidInput(
            f"{manifest.stack.entry} has no output {unknown[0]!r}",
            at=Location(Path(MANIFEST_PATH)),
            hint="correctness.approximate_outputs names outputs of stack.entry",
        )
    session.bench.warm(deployment)
    order = session.bench.draw()[:RATE_PROBE]
    probe = session.bench.load.closed(deployment.grpc, order, manifest.traffic.in_flight)
    if probe.errors:
        raise InvalidInput(
            f"the unmodified stack fails {probe.errors} of {len(order)} recorded requests: "
            f"{'; '.join(probe.messages)}",
            hint=_mended(probe.messages),
        )
    wanted = round(BLOCK_S * probe.completed / probe.wall_s)
    size = min(max(MIN_BLOCK_REQUESTS, wanted), len(session.traffic.requests))
    sized = replace(session, bench=replace(session.bench, block_requests=size))
    _check_slo(sized, deployment)
    return sized


def _mended(messages: Sequence[str]) -> str:
    """Say what to do about requests that the unmodified stack fails."""
    if any("is not ready" in message for message in messages):
        return (
            "a model that code calls by name is loaded where stack.load of the manifest lists it: "
            "nothing else says that it is needed"
        )
    return "mend the stack or its traffic first; nothing can be compared with a broken baseline"


def _check_slo(session: Session, deployment: Served) -> None:
    """Replay part of the recording on the baseline; it must meet the SLO that it is judged by.

    Said to be missed only by two blocks that no neighbour disturbed: one stall of a second makes
    a block late. A stack that falls behind the recorded rate misses it too.
    """
    traffic, slo_ms = session.traffic, session.stack.manifest.slo.p99_ms
    order = traffic.order[:SLO_REQUESTS]
    arrivals_s = traffic.arrivals_s[:SLO_REQUESTS] - traffic.arrivals_s[0]
    context = BlockContext(arm="baseline", launch=0, pair=0, position=1, limits=RECORDED_LIMITS)
    missed = 0
    for _ in range(SLO_TRIES):
        block, result = rate_block(
            deployment, session.bench.load, order, arrivals_s, slo_ms, context
        )
        session.bench.on_block(block)
        result.discard()
        if block.void in ENVIRONMENT:
            continue
        if not _misses(block):
            return
        missed += 1
        if missed == SLO_MISSES:
            raise InvalidInput(
                f"the unmodified stack misses its own SLO: {block.over_slo} of {block.requests} "
                f"requests took longer than {slo_ms:g} ms at the recorded rate of "
                f"{traffic.rate:.1f} per second",
                at=Location(Path(MANIFEST_PATH)),
                hint="raise slo.p99_ms to what the service promises today, or record at a lower "
                "rate",
            )
    session.bench.events.note(
        f"whether the SLO is met could not be checked: of {SLO_TRIES} blocks {missed} missed it, the "
        "others were disturbed"
    )


def _misses(block: Block) -> bool:
    """Whether more requests of a block than a p99 allows were surely over the SLO."""
    found = scipy_stats.binomtest(block.over_slo or 0, block.requests)
    surely: float = found.proportion_ci(0.95, method="wilson").low
    return surely > SLO_SHARE


def outputs_of(session: Session, deployment: Served) -> frozenset[str]:
    """Return the names of the entry model's outputs, from a real answer."""
    with Client(deployment.grpc) as client:
        return frozenset(decode_response(client.infer(session.traffic.requests[0])))


def profile_record(profiled: Profile, out: Path) -> ProfileRecord:
    """Return a profile as evidence: its largest hotspots, and where the raw file lies."""
    own: dict[tuple[str, str], float] = defaultdict(float)  # self time by process and function
    for spot in profiled.hotspots:
        if not spot.inclusive:
            own[spot.process, _place(spot)] += spot.share
    largest = sorted(own.items(), key=lambda item: (-item[1], item[0]))[:SHOWN_HOTSPOTS]
    return ProfileRecord(
        tool=profiled.tool,
        raw=os.path.relpath(profiled.raw, out),
        cpu_s=profiled.cpu_s,
        requests=profiled.requests,
        by_process=dict(profiled.by_process),
        by_layer={name.value: share for name, share in profiled.by_layer.items()},
        by_phase={model: dict(shares) for model, shares in profiled.by_phase.items()},
        floor=profiled.floor,
        hotspots=[
            HotspotRecord(process=process, place=place, share=min(1.0, share))
            for (process, place), share in largest
        ],
    )


def _place(spot: Hotspot) -> str:
    """Name a hotspot for a reader elsewhere: no path of this machine."""
    if spot.function == OUTSIDE_PYTHON:
        return "native code outside Python"
    file = Path(spot.file)
    return f"{spot.function} in {file.name if file.is_absolute() else file}"


def generator_cpus(server_cpus: Sequence[int] | None) -> list[int]:
    """Return the CPUs left for the load generator: those that the server is not pinned to."""
    usable = sorted(os.sched_getaffinity(0))
    return [cpu for cpu in usable if cpu not in (server_cpus or ())] or usable


def _environment(stack: Stack) -> ServerEnvironment:
    """Return the environment of the server and of build steps, which has to be installed if either is."""
    section = stack.manifest.stack
    requirements = stack.root / section.requirements if section.requirements else None
    if stack.manifest.server.address and not section.build:
        return absent(requirements)
    return ensure(requirements, allow_install=False)


def _build(stack: Stack, worktree: Path, env: ServerEnvironment, sandbox: Sandbox) -> None:
    try:
        stack.build(worktree, env, sandbox)
    except ToolFailed as error:
        raise InvalidInput(
            f"the unmodified stack does not build: {error.message}",
            hint=error.hint or "mend stack.build of the manifest, or what it runs",
        ) from error


def _check_configs(view: StackView) -> None:
    """Read every config.pbtxt before a server does: it says where one is wrong."""
    for path in sorted((view.root / view.manifest.stack.models).glob("*/config.pbtxt")):
        if path.is_file():
            relative = path.relative_to(view.root)
            try:
                pbtxt.parse(pbtxt.decode(path.read_bytes(), relative), relative)
            except InvalidInput as error:
                error.hint = error.hint or "the model server would refuse this file too: mend it"
                raise


def _optional_inputs(view: StackView) -> frozenset[str]:
    """Return what the entry model's configuration lets a client leave out."""
    section = view.manifest.stack
    path = view.root / section.models / section.entry / "config.pbtxt"
    if not path.is_file():
        return frozenset()
    config = pbtxt.parse(pbtxt.decode(path.read_bytes(), path), path).message
    return frozenset(entry.name for entry in config.input if entry.optional)


def _shut_in(stack: Stack, weakest: SandboxMode | None) -> None:
    """Have the stack's manifest name a sandbox that is no weaker than `weakest`."""
    modes = list(SandboxMode)  # from the strongest on
    section = stack.manifest.sandbox
    if weakest is not None and modes.index(section.mode) > modes.index(weakest):
        stronger = section.model_copy(update={"mode": weakest})
        stack.manifest = stack.manifest.model_copy(update={"sandbox": stronger})


def _seen(view: StackView, stack: Stack) -> StackView:
    """Return the view; of a running server, whose processes run the checkout's own files."""
    return replace(view, root=stack.root) if stack.manifest.server.address else view


def _refuse_remote(manifest: Manifest) -> None:
    if manifest.server.address:
        raise InvalidInput(
            "server.address names a running server, which cannot be started afresh",
            at=Location(Path(MANIFEST_PATH)),
            hint="`fvec plan` and `fvec measure` work on it; run, judge and verify start a server of "
            "their own, of Python models and ensembles alone: remove the address where that will do",
        )
