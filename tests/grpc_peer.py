"""A small gRPC server that speaks ModelInfer on loopback: the generator's peer in tests.

It answers any request with an echo of its bytes' length, and can be told to wait, to stall, to
fail, to hang or to answer nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

from layers import traffic

CPUS = sorted(os.sched_getaffinity(0))[-1:]  # where the generator runs

Behaviour = Callable[[int, grpc.ServicerContext], bytes | None]


class Peer:
    """Serves on a free port of loopback until stopped; `behaviour(turn, context)` may override."""

    def __init__(self, threads: int = 8) -> None:
        self.behaviour: Behaviour = lambda turn, context: None
        self.seen: list[bytes] = []
        self.release = threading.Event()
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(threads))
        method = grpc.unary_unary_rpc_method_handler(self._answer)
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "inference.GRPCInferenceService", {"ModelInfer": method}
                ),
            )
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        with self._lock:
            turn = len(self.seen)
            self.seen.append(request)
        answer = self.behaviour(turn, context)
        return b"ok:" + request if answer is None else answer

    def stop(self) -> None:
        self.release.set()
        self._server.stop(0).wait()

    # The members of a deployment that blocks need.
    @property
    def grpc(self) -> str:
        return self.address

    def cpu_seconds(self) -> dict[str, float]:
        return {"tritonserver": 0.001 * len(self.seen)}

    def alive(self) -> None:
        return None


@contextmanager
def peer(threads: int = 8) -> Iterator[Peer]:
    server = Peer(threads)
    try:
        yield server
    finally:
        server.stop()


def request(index: int, rows: int = 4) -> bytes:
    """Return a request of model `m` with one FP32 input [1, rows] and one BYTES input [1, rows]."""
    message = service_pb2.ModelInferRequest(model_name="m", id=str(index))
    for name, datatype in (("x", "FP32"), ("s", "BYTES")):
        tensor = message.inputs.add(name=name, datatype=datatype)
        tensor.shape.extend([1, rows])
    message.raw_input_contents.append(np.arange(rows, dtype=np.float32).tobytes())
    message.raw_input_contents.append(
        b"".join(
            len(s).to_bytes(4, "little") + s for s in (f"{index}-{i}".encode() for i in range(rows))
        )
    )
    data: bytes = message.SerializeToString()
    return data


def record(folder: Path, count: int = 20) -> traffic.Traffic:
    """Write and load recorded traffic of `count` requests, one each 10 ms."""
    messages = [request(i, rows=2 + i % 5) for i in range(count)]
    traffic.write(folder, messages, [(0.01 * i, i) for i in range(count)])
    requests = traffic.Requests(folder / "requests.bin")
    order = np.arange(count, dtype=np.int64)
    return traffic.Traffic(requests, order * 0.01, order, 100.0, "digest")


def show(text: str) -> None:
    """Print a measured figure where pytest shows it with -s."""
    sys.stdout.write(text + "\n")
