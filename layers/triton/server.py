"""A model server of our own in a sandbox: started, watched, reconfigured for a trial, ended."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from layers.base import StackView
from layers.errors import ToolFailed
from layers.manifest import SandboxMode
from layers.programs import describe_log, kill_group
from layers.sandbox.base import MIB, Ending, Limits
from layers.sandbox.box import LimitReached, Sandbox
from layers.sandbox.cgroups import Group, Memory, Waits
from layers.triton import endpoint, guard, loading, processes, serverlog, starting
from layers.triton.client import Client, ModelCounts, Refused
from layers.triton.confinement import server_confinement
from layers.triton.environment import ServerEnvironment

_POLL_S = 0.05
_SETTLE_S = 10.0
_EXEC_S = 20.0  # from the sandbox's start to the server's; longer than any machine needs
_STOP_S = 2 * guard.GRACE_S + 5.0
_ARMS = 2  # servers that share this machine


class Deployment:
    """A server that serves one built stack from inside a sandbox, as a context manager.

    It listens on a unix socket of its own and on nothing else. Whatever ends this process (return,
    exception, interrupt, SIGTERM, SIGKILL), the guard process ends the server and its stubs.
    """

    def __init__(
        self,
        view: StackView,
        env: ServerEnvironment,
        *,
        sandbox: Sandbox,
        cpus: Sequence[int] | None,
        log_dir: Path,
        start_timeout_s: float = 90.0,
        probe: bytes | None = None,
    ) -> None:
        """Prepare; nothing runs before `start` or `with`.

        `cpus`: CPU numbers that server and stubs are pinned to; None leaves them free. `probe`:
        bytes of a `ModelInferRequest` whose answer proves readiness; None asks each model only.
        """
        self.view = view
        self.log_dir = log_dir
        self.log = log_dir / "tritonserver.log"  # another name when a server has logged there
        self.client: Client | None = None
        self.ready_s = 0.0  # from its start to the first answer
        self._env = env
        self._sandbox = sandbox
        self._cpus = tuple(cpus) if cpus is not None else None
        self._start_timeout_s = start_timeout_s
        self._probe = probe
        self._limits = sandbox.shared(Limits.of(view.manifest.sandbox), _ARMS)
        self._own = ExitStack()  # what is removed once the server has ended
        self._group: Group | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._server: psutil.Process | None = None
        self._socket = Path()
        self._endpoint: endpoint.Endpoint | None = None
        self._stubs: tuple[processes.Stub, ...] = ()
        self._prefix = ""
        self._hung = False  # a load never came back: nothing else will load either

    def __enter__(self) -> Self:
        """Start the server; see `start`."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self.stop()

    @property
    def grpc(self) -> str:
        """The gRPC endpoint as a client's target: `unix:` and a path that leads to its socket."""
        return self._running().address

    def start(self) -> None:
        """Start the server and return once it has answered the probe.

        Raises InvalidInput when the stack has no model repository, Missing for a CPU that this
        process may not use, and ToolFailed when a model fails to load, the probe is refused or
        the time is up: with the reasons from the server's log. It is LimitReached, with the
        limit, when one of the sandbox ended it.
        """
        starting.check(self.view, self._env, self._cpus)
        processes.remove_leftovers()
        begun = time.monotonic()
        with ExitStack() as undo:
            undo.callback(self.stop)
            with self._limits_blamed():
                self._launch()
            undo.pop_all()
        self.ready_s = time.monotonic() - begun

    def begin_stop(self) -> None:
        """Tell the server to end without waiting for it: several can end at the same time."""
        if self._group is not None:
            self._group.thaw()  # else it would wait for whoever held it still
        if self.client is not None:
            self.client.close()  # an open connection would be waited for
            self.client = None
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()  # the guard's signal to end the server

    def stop(self) -> None:
        """End the server: politely, then by force; waits until nothing is left. Idempotent."""
        self.begin_stop()
        if self._guard is None:
            self._own.close()
            return
        if self._guard.stdout is not None:
            self._guard.stdout.close()
        try:
            killed = self._guard.wait(_STOP_S) < 0
        except subprocess.TimeoutExpired:
            killed = True
        if killed:
            self._end_by_force(self._guard)
        self._guard = self._server = self._group = self._endpoint = None
        self._stubs = ()
        self._own.close()

    def pids(self) -> dict[str, int]:
        """Return the process id of each Python-backend model, of the youngest if several."""
        return processes.newest(processes.stubs_of(self._process()))

    def cpu_seconds(self) -> dict[str, float]:
        """Return CPU seconds since the start, of "tritonserver" and of each model's processes.

        Differences are meaningful while no model is reloaded. Raises ToolFailed when a process
        has gone.
        """
        with self._limits_blamed():
            return processes.cpu_seconds(self._process().pid, self._stubs)

    def all_cpu_seconds(self) -> float:
        """Return CPU seconds since the start of all that ran inside, ended processes included.

        The relay of its log is of it. Without a control group what has ended is counted only where
        something waited for it.
        """
        if self._group is not None:
            return self._group.cpu_seconds()
        guarded = processes.descendants_cpu_s(self._guard.pid) if self._guard else 0.0
        return max(guarded, sum(self.cpu_seconds().values()))

    def memory(self) -> Memory | None:
        """Return what all of it holds of memory; None without a control group."""
        return self._group.memory() if self._group is not None else None

    def waits(self) -> Waits | None:
        """Return how much it has waited for memory so far; None without a control group."""
        return self._group.waits() if self._group is not None else None

    @contextmanager
    def held_still(self) -> Iterator[bool]:
        """Hold all of it still, the relay of its log too; yields whether that is possible here.

        It takes a control group. Raises ToolFailed when it cannot be brought to stand still.
        """
        group = self._group
        if group is None or not group.freezes:
            yield False
            return
        group.freeze()
        try:
            yield True
        finally:
            group.thaw()

    def pinned(self) -> tuple[int, ...] | None:
        """Return the CPUs that all of it was pinned to; None when it is free."""
        return self._cpus

    def strayed(self) -> str | None:
        """Say which thread of it may run where it was not pinned to, None while none may."""
        if self._cpus is None:
            return None
        pids = self._group.pids() if self._group else processes.family(self._process())
        return processes.outside(pids, self._cpus)

    def alive(self) -> None:
        """Raise ToolFailed when the server or a backend process has died or is stopped.

        Also, as TakenOver, when something else wants to answer in its place. LimitReached says which
        limit ended it.
        """
        server = self._process()
        with self._limits_blamed():
            if self._guard is None or self._guard.poll() is not None:
                raise ToolFailed(f"the model server has ended\n{serverlog.reasons(self.log)}")
            self._check_limits()
            processes.check_alive(server.pid, processes.SERVER)
            for stub in self._stubs:
                processes.check_alive(stub.pid, stub.model, stub.started)
            self._check_endpoint(server)

    def config(self, model: str) -> ModelConfig:
        """Return the configuration of a model in force, completed by the server."""
        return self._running().config(model)

    def statistics(self, model: str) -> ModelCounts:
        """Return what a model has done since it was loaded."""
        return self._running().statistics(model)

    def try_config(self, model: str, config_pbtxt: str) -> str | None:
        """Load a model under another configuration, then put the previous one back.

        Returns None when the server took it (and, if it was given one, answered the probe), else
        the reason of its refusal. Raises ToolFailed when the previous one cannot be put back.
        """
        try:
            wanted = text_format.Parse(config_pbtxt, ModelConfig())
        except text_format.ParseError as error:
            return f"config.pbtxt:{error}"
        if wanted.name not in ("", model):
            return f"config.pbtxt names the model {wanted.name!r}, its folder {model!r}"
        wanted.name = model
        previous = self._running().config(model)
        if wanted.default_model_filename not in ("", previous.default_model_filename):
            # This server version hangs for good when it finds no such file.
            return "default_model_filename cannot be changed in a trial"
        try:
            return self._load(model, wanted) or self._probe_reason()
        finally:
            if not self._hung:
                self._restore(model, previous)

    def _launch(self) -> None:
        """Start the guard, which starts the server, and wait for readiness."""
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self.log = serverlog.fresh(self.log_dir)
        self._hung = False
        self._prefix = processes.new_prefix()
        shut_in = self._sandbox.mode is not SandboxMode.PROCESS
        folder = endpoint.SHUT_IN
        if not shut_in:
            folder = Path(self._own.enter_context(endpoint.own_folder()))
        seen = server_confinement(self.view, self._env, *([] if shut_in else [folder]))
        argv = starting.server_argv(self.view, self._env, self._prefix)
        environment = starting.server_environment(self._env, folder)
        command = self._sandbox.argv(argv, folder, environment, seen)
        plan = self._plan(folder, shut_in=shut_in)
        with self.log.open("xb") as log:
            self._guard = starting.start_guard(plan, command, folder, environment, log)
        self._server = self._started(self._guard)
        self._socket = endpoint.socket_of(folder, self._server.pid, shut_in=shut_in)
        self._await_ready(time.monotonic() + self._start_timeout_s)
        self._stubs = processes.stubs_of(self._server)

    def _plan(self, folder: Path, *, shut_in: bool) -> guard.Plan:
        """Make the server's control group; return what the guard has to know."""
        group = self._sandbox.group(self._limits, self._cpus or ())
        self._group = self._own.enter_context(group) if group is not None else None
        thaw: list[str] = []
        if self._group is not None and self._group.freezes:
            file, _, thawed = self._group.freezer
            thaw = [str(file), thawed]
        return guard.Plan(
            parent=os.getpid(),
            cpus=list(self._cpus or ()),
            shared_memory="" if shut_in else self._prefix,
            attach=[str(file) for file in self._group.attach_paths] if self._group else [],
            log_bytes=self._limits.output_bytes,
            rlimits=self._sandbox.rlimits(self._limits),
            folder="" if shut_in else str(folder),
            at_once=shut_in,
            thaw=thaw,
            barred=self._sandbox.barred.hex(),
        )

    def _started(self, started: subprocess.Popen[bytes]) -> psutil.Process:
        """Return the server's process, at or below the one whose id the guard says first.

        The guard says the id of the relay of its log after it.
        """
        line = started.stdout.readline() if started.stdout else b""
        deadline = time.monotonic() + _EXEC_S
        while line.strip() and started.poll() is None and time.monotonic() < deadline:
            found = processes.running(self._env.tritonserver, int(line.split()[0]))
            if found is not None:
                return found
            time.sleep(_POLL_S / 5)
        if started.poll() is None:
            self.begin_stop()
        raise ToolFailed(f"the model server could not be started\n{describe_log(self.log)}")

    def _await_ready(self, deadline: float) -> None:
        """Wait until the server is ready, then have it answer a real request."""
        loading = processes.Loading(self._process())
        while not self._ready():
            if self._guard is None or self._guard.poll() is not None:
                raise ToolFailed(
                    f"the model server ended while it started\n{serverlog.reasons(self.log)}"
                )
            self._check_limits()
            if loading.broken():
                raise ToolFailed(
                    f"a model's process ended while it loaded\n{serverlog.reasons(self.log)}"
                )
            if time.monotonic() > deadline:
                raise _limit_reached(
                    f"the model server was not ready after {self._start_timeout_s:g} s\n"
                    f"{serverlog.reasons(self.log)}",
                    Ending.TIME_LIMIT,
                    hint="server.start_timeout_s of the manifest",
                )
            time.sleep(_POLL_S)
        reason = self._probe_reason(max(1.0, deadline - time.monotonic()))
        if reason is not None:
            raise ToolFailed(f"the model server refused the first request: {reason}")

    def _ready(self) -> bool:
        """Say whether the server takes requests; once it listens, hold on to its socket."""
        if self._endpoint is None:
            self._endpoint = endpoint.Endpoint.of(self._socket, self._process().pid)
            if self._endpoint is None:
                return False
            self._own.callback(self._endpoint.close)
            self.client = Client(f"unix:{self._endpoint.place}")
        return self._running().server_ready()

    def _check_endpoint(self, server: psutil.Process) -> None:
        """Raise TakenOver when something else stands where the server listens."""
        try:
            if self._endpoint is not None:
                self._endpoint.check()
        except endpoint.TakenOver:
            processes.check_alive(server.pid, processes.SERVER)  # its folder goes with it
            raise

    def _probe_reason(self, timeout_s: float = 30.0) -> str | None:
        """Return why the probe failed; without a probe, which model is not ready."""
        client = self._running()
        if self._probe is None:
            wanted = {*loading.told(self.view.manifest), *client.loaded_models()}
            lacking = [model for model in wanted if not client.model_ready(model)]
            return f"not ready: {', '.join(sorted(lacking))}" if lacking else None
        try:
            client.infer(self._probe, timeout_s)
        except Refused as error:
            return f"{error.code}: {error.detail}"
        return None

    def _load(self, model: str, config: ModelConfig) -> str | None:
        """Load a model under `config`; return why the server refused, from its log."""
        before = self.log.stat().st_size
        try:
            self._running().load(model, config)
        except Refused as error:
            if error.code == "DEADLINE_EXCEEDED":
                self._hung = True
                raise ToolFailed(
                    f"the model server hangs while it loads {model}\n{describe_log(self.log)}"
                ) from error
            lines = serverlog.settled(self.log, since=before)
            told = serverlog.one_line(error.detail)
            return "; ".join([told, *(line for line in lines if line not in told)])
        self._settle(model)
        return None

    @contextmanager
    def _limits_blamed(self) -> Iterator[None]:
        """Say which limit of the sandbox was reached, where one was, when the server fails."""
        try:
            yield
        except ToolFailed as error:
            limit = self._reached()
            if limit is None:
                raise
            hint = error.hint
            if limit is Ending.OUTPUT_LIMIT:
                most = self._limits.output_bytes // MIB
                hint = hint or f"a server may print {most} MiB in all: have its models log less"
            raise _limit_reached(error.message, limit, hint=hint) from error

    def _check_limits(self) -> None:
        """Raise where the kernel enforced a limit, though the server may still run."""
        limit = self._reached()
        if limit in (Ending.MEMORY_LIMIT, Ending.PROCESS_LIMIT):
            what = limit.value.replace("_", " ")
            raise ToolFailed(f"the model server reached its {what}\n{serverlog.reasons(self.log)}")

    def _reached(self) -> Ending | None:
        if self._group is not None and self._group.memory_killed():
            return Ending.MEMORY_LIMIT
        if self._group is not None and self._group.processes_refused():
            return Ending.PROCESS_LIMIT
        flooded = self.log.exists() and self.log.stat().st_size >= self._limits.output_bytes
        return Ending.OUTPUT_LIMIT if flooded else None

    def _restore(self, model: str, previous: ModelConfig) -> None:
        reason = self._load(model, previous)
        if reason is not None or self._running().config(model) != previous:
            raise ToolFailed(
                f"the previous configuration of {model} could not be put back: "
                f"{reason or 'the server runs another one'}\n  log: {self.log}"
            )

    def _settle(self, model: str) -> None:
        """Wait for the stubs of an earlier configuration to go, then take note of the new ones."""
        groups = self._running().config(model).instance_group
        expected = sum(group.count for group in groups)
        deadline = time.monotonic() + _SETTLE_S
        while True:
            self._stubs = processes.stubs_of(self._process())
            found = sum(stub.model == model for stub in self._stubs)
            if found in (0, expected) or time.monotonic() > deadline:
                return  # 0: a model without processes of its own
            time.sleep(_POLL_S)

    def _running(self) -> Client:
        if self.client is None:
            raise ToolFailed("the model server is not running")
        return self.client

    def _process(self) -> psutil.Process:
        if self._server is None:
            raise ToolFailed("the model server is not running")
        return self._server

    def _end_by_force(self, stuck: subprocess.Popen[bytes]) -> None:
        """Do what the guard, killed or stuck, did not."""
        if self._group is not None:
            self._group.kill()
        if self._server is not None and self._server.is_running():
            self._server.kill()
            kill_group(self._server.pid)
        processes.kill(self._stubs)
        if stuck.poll() is None:
            kill_group(stuck.pid)
            stuck.wait()
        guard.remove_shared_memory(self._prefix)


def _limit_reached(message: str, limit: Ending, *, hint: str | None) -> LimitReached:
    error = LimitReached(message, limit)
    error.hint = hint
    return error
