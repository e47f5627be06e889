"""A model server as its owner runs it: on a TCP port of loopback, in no sandbox of ours."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from layers.base import StackView
from layers.triton import processes, starting
from layers.triton.client import Client
from layers.triton.environment import ServerEnvironment


@dataclass(frozen=True)
class OwnedServer:
    address: str
    process: psutil.Process

    def pids(self) -> dict[str, int]:
        return processes.newest(processes.stubs_of(self.process))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def owned_server(view: StackView, env: ServerEnvironment, folder: Path) -> Iterator[OwnedServer]:
    port = free_port()
    argv = starting.server_argv(view, env, f"owned-{os.getpid()}-{port}-")
    argv[argv.index("--grpc-address") + 1] = "127.0.0.1"
    argv[argv.index("--grpc-port") + 1] = str(port)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=starting.server_environment(env, folder),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        with Client(f"127.0.0.1:{port}") as client:
            while not client.server_ready():
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.05)
        yield OwnedServer(f"127.0.0.1:{port}", psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait(30)
