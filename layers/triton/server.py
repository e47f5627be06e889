"""A model server of our own on loopback: started, watched, reconfigured for a trial, ended."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from layers.base import StackView
from layers.errors import InvalidInput, Missing, ToolFailed
from layers.programs import ONE_THREAD, describe_log, kill_group, scrubbed_environment
from layers.triton import guard, processes, serverlog
from layers.triton.client import Client, ModelCounts, Refused
from layers.triton.environment import ServerEnvironment

EXIT_TIMEOUT_S = 5  # the server's own default is 30 s with a stopped stub
_POLL_S = 0.05
# The Python backend starts its processes by a shell line in which it quotes nothing.
_SHELL_SAFE = re.compile(r"^[A-Za-z0-9_./@+,:=-]+$")
_SETTLE_S = 10.0
_PORT_ATTEMPTS = 3  # between our choice of a free port and the server's use another may take it
_STOP_S = 2 * guard.GRACE_S + 5.0


class Deployment:
    """A server on 127.0.0.1 that serves one built stack, as a context manager.

    Whatever ends this process (return, exception, interrupt, SIGTERM, SIGKILL), the guard process
    ends the server, its stubs and its shared memory within seconds.
    """

    def __init__(
        self,
        view: StackView,
        env: ServerEnvironment,
        *,
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
        self._env = env
        self._cpus = tuple(cpus) if cpus is not None else None
        self._start_timeout_s = start_timeout_s
        self._probe = probe
        self._guard: subprocess.Popen[bytes] | None = None
        self._server: psutil.Process | None = None
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
        """`127.0.0.1:port` of the gRPC endpoint."""
        return self._running().address

    def start(self) -> None:
        """Start the server and return once it has answered the probe.

        Raises InvalidInput when the stack has no model repository, Missing for a CPU that this
        process may not use, and ToolFailed when a model fails to load, the probe is refused or
        the time is up: with the reasons from the server's log.
        """
        self._check()
        processes.remove_leftovers()
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            with ExitStack() as undo:
                undo.callback(self.stop)
                try:
                    self._launch()
                except ToolFailed:
                    if attempt < _PORT_ATTEMPTS and serverlog.port_taken(self.log):
                        continue
                    raise
                undo.pop_all()
                return

    def begin_stop(self) -> None:
        """Tell the server to end without waiting for it: several can end at the same time."""
        if self.client is not None:
            self.client.close()  # an open connection would be waited for
            self.client = None
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()  # the guard's signal to end the server

    def stop(self) -> None:
        """End the server: politely, then by force; waits until nothing is left. Idempotent."""
        self.begin_stop()
        if self._guard is None:
            return
        if self._guard.stdout is not None:
            self._guard.stdout.close()
        try:
            killed = self._guard.wait(_STOP_S) < 0
        except subprocess.TimeoutExpired:
            killed = True
        if killed:
            self._end_by_force(self._guard)
        self._guard = None
        self._server = None
        self._stubs = ()

    def pids(self) -> dict[str, int]:
        """Return the process id of each Python-backend model, of the youngest if several."""
        return processes.newest(processes.stubs_of(self._process()))

    def cpu_seconds(self) -> dict[str, float]:
        """Return CPU seconds since the start, of "tritonserver" and of each model's processes.

        Differences are meaningful while no model is reloaded. Raises ToolFailed when a process
        has gone.
        """
        return processes.cpu_seconds(self._process().pid, self._stubs)

    def alive(self) -> None:
        """Raise ToolFailed when the server or a backend process has died or is stopped."""
        server = self._process()
        if self._guard is None or self._guard.poll() is not None:
            raise ToolFailed(f"the model server has ended\n{serverlog.reasons(self.log)}")
        processes.check_alive(server.pid, processes.SERVER)
        for stub in self._stubs:
            processes.check_alive(stub.pid, stub.model, stub.started)

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

    def _check(self) -> None:
        models = self._repository()
        if not models.is_dir():
            raise InvalidInput(
                f"{self.view.manifest.stack.models} is not a folder of the stack",
                hint="stack.models of the manifest names the Triton model repository",
            )
        names = [models.resolve(), self._env.backends, *models.iterdir()]
        unsafe = [str(name) for name in names if not _SHELL_SAFE.match(str(name))]
        if unsafe:
            raise InvalidInput(
                f"the Python backend cannot serve from {unsafe[0]!r}",
                hint="use a path of ASCII letters, digits and _ . / @ + , : = - only",
            )
        absent = set(self._cpus or ()) - os.sched_getaffinity(0)
        if absent:
            raise Missing(
                f"CPUs {sorted(absent)} cannot be used by this process",
                hint=f"server.cpus may name any of {sorted(os.sched_getaffinity(0))}",
            )

    def _repository(self) -> Path:
        return self.view.root / self.view.manifest.stack.models

    def _launch(self) -> None:
        """Start the guard, which starts the server, and wait for readiness."""
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self.log = _fresh_log(self.log_dir)
        home = self.log_dir / "home"
        home.mkdir(exist_ok=True)
        environment = scrubbed_environment(path_first=self._env.python.parent, home=home)
        environment |= {**ONE_THREAD, "LD_LIBRARY_PATH": self._env.library_path}
        self._hung = False
        self._prefix = processes.new_prefix()
        ports = free_ports(3)
        cpus = ",".join(str(cpu) for cpu in self._cpus or ())
        with self.log.open("xb") as log:
            self._guard = subprocess.Popen(
                [
                    *(sys.executable, "-I", guard.__file__),
                    *(str(os.getpid()), cpus, self._prefix, "--"),
                    *self._argv(ports),
                ],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # ctrl-C at the terminal is ours to handle
            )
        self.client = Client(f"127.0.0.1:{ports[1]}")
        self._server = self._started(self._guard)
        self._await_ready(self.client, time.monotonic() + self._start_timeout_s)
        self._stubs = processes.stubs_of(self._server)

    def _argv(self, ports: Sequence[int]) -> list[str]:
        http, grpc, metrics = (str(port) for port in ports)
        host = "127.0.0.1"
        prefix = f"python,shm-region-prefix-name={self._prefix}"
        return [
            *(str(self._env.tritonserver), "--model-repository", str(self._repository())),
            *("--backend-directory", str(self._env.backends)),
            *("--cache-directory", str(self._env.caches)),
            *("--backend-config", prefix),
            # An ensemble takes the models it is made of with it.
            *("--model-control-mode", "explicit"),
            *("--load-model", self.view.manifest.stack.entry),
            *("--http-address", host, "--http-port", http),
            *("--grpc-address", host, "--grpc-port", grpc),
            *("--metrics-address", host, "--metrics-port", metrics),
            *("--allow-gpu-metrics", "false", "--exit-timeout-secs", str(EXIT_TIMEOUT_S)),
        ]

    def _started(self, started: subprocess.Popen[bytes]) -> psutil.Process:
        """Return the server's process, whose id the guard says in its first line."""
        line = started.stdout.readline() if started.stdout else b""
        try:
            return psutil.Process(int(line))
        except (ValueError, psutil.NoSuchProcess) as error:
            raise ToolFailed(
                f"the model server could not be started\n{describe_log(self.log)}"
            ) from error

    def _await_ready(self, client: Client, deadline: float) -> None:
        """Wait until the server is ready, then have it answer a real request."""
        while not client.server_ready():
            if self._guard is None or self._guard.poll() is not None:
                raise ToolFailed(
                    f"the model server ended while it started\n{serverlog.reasons(self.log)}"
                )
            if time.monotonic() > deadline:
                raise ToolFailed(
                    f"the model server was not ready after {self._start_timeout_s:g} s\n"
                    f"{serverlog.reasons(self.log)}",
                    hint="server.start_timeout_s of the manifest",
                )
            time.sleep(_POLL_S)
        reason = self._probe_reason(max(1.0, deadline - time.monotonic()))
        if reason is not None:
            raise ToolFailed(f"the model server refused the first request: {reason}")

    def _probe_reason(self, timeout_s: float = 30.0) -> str | None:
        """Return why the probe failed; without a probe, which model is not ready."""
        client = self._running()
        if self._probe is None:
            entry = self.view.manifest.stack.entry
            lacking = [m for m in {entry, *client.loaded_models()} if not client.model_ready(m)]
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
            lines = serverlog.problems(self.log, since=before)
            told = serverlog.one_line(error.detail)
            return "; ".join([told, *(line for line in lines if line not in told)])
        self._settle(model)
        return None

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
        if self._server is not None and self._server.is_running():
            kill_group(self._server.pid)
        processes.kill(self._stubs)
        if stuck.poll() is None:
            kill_group(stuck.pid)
            stuck.wait()
        guard.remove_shared_memory(self._prefix)


def _fresh_log(folder: Path) -> Path:
    """Return a name that no earlier server logged under."""
    number = 1 + sum(1 for _ in folder.glob("tritonserver*.log"))
    return folder / ("tritonserver.log" if number == 1 else f"tritonserver-{number}.log")


def free_ports(count: int) -> list[int]:
    """Return TCP ports of 127.0.0.1 that nobody listens on now, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
