"""A user's own model server, reached by its address."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil
from tritonclient.grpc.model_config_pb2 import ModelConfig

from layers.errors import Missing, ToolFailed
from layers.sandbox.cgroups import Waits
from layers.triton import processes
from layers.triton.client import Client, ModelCounts

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class RemoteDeployment:
    """A user's own running server, by address: read and measured, never changed nor restarted.

    `pids`, `cpu_seconds` and the check of single processes need it on this machine and of the
    same user; otherwise they raise Missing, with the reason.
    """

    def __init__(self, address: str, *, probe: bytes | None = None) -> None:
        """Prepare to read the server at `host:port` (gRPC); nothing is sent before `with`."""
        self.grpc = address
        self.client = Client(address)
        self._probe = probe
        self._stubs: tuple[processes.Stub, ...] = ()

    def __enter__(self) -> Self:
        """Check that it answers (and the probe with it); raises Missing or ToolFailed."""
        if not self.client.server_ready():
            self.client.close()
            raise Missing(
                f"no model server answers at {self.grpc}",
                hint="server.address of the manifest is the gRPC address of a running server",
            )
        if self._probe is not None:
            self.client.infer(self._probe)
        with suppress(Missing):  # on another machine, or another user's: seen by gRPC alone
            self._stubs = processes.stubs_of(self._process())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; the server goes on."""
        self.client.close()

    def begin_stop(self) -> None:
        """Do nothing: the server is its owner's."""

    def pids(self) -> dict[str, int]:
        """Return the process id of each Python-backend model, of the youngest if several."""
        return processes.newest(processes.stubs_of(self._process()))

    def cpu_seconds(self) -> dict[str, float]:
        """Return CPU seconds since their start, of "tritonserver" and of each model's processes."""
        server = self._process()
        return processes.cpu_seconds(server.pid, processes.stubs_of(server))

    def all_cpu_seconds(self) -> float:
        """Return CPU seconds since their start, summed over the processes that can be named."""
        return sum(self.cpu_seconds().values())

    def waits(self) -> Waits | None:
        """Return None: what a user's own server waits for is not known."""
        return None

    def alive(self) -> None:
        """Raise ToolFailed when the server does not answer, or a backend process is gone."""
        if not self.client.server_ready():
            raise ToolFailed(f"the model server at {self.grpc} does not answer")
        for stub in self._stubs:
            processes.check_alive(stub.pid, stub.model, stub.started)

    def config(self, model: str) -> ModelConfig:
        """Return the configuration of a model in force, completed by the server."""
        return self.client.config(model)

    def statistics(self, model: str) -> ModelCounts:
        """Return what a model has done since it was loaded."""
        return self.client.statistics(model)

    def _is_local(self) -> bool:
        return self.grpc.rpartition(":")[0] in _LOOPBACK

    def _process(self) -> psutil.Process:
        if not self._is_local():
            raise Missing(
                f"the processes of {self.grpc} cannot be seen from this machine",
                hint="run fvec on the machine of the server",
            )
        return processes.listener(int(self.grpc.rpartition(":")[2]))
