"""A small gRPC server that speaks ModelInfer on loopback: the generator's peer in tests.

It answers any request with an echo of its bytes' length, and can be told to wait, to stall, to
fail, to hang or to answer nothing. A `ModelPeer` has a model: it answers as a model server does,
counts what it computes, and stands for one arm of a launch.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import grpc
import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype

from layers.traffic import recorded as traffic
from layers.traffic.recorded import decode

SERVICE = "inference.GRPCInferenceService"
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
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, self._methods()),)
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _methods(self) -> dict[str, grpc.RpcMethodHandler]:
        return {"ModelInfer": grpc.unary_unary_rpc_method_handler(self._answer)}

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        with self._lock:
            turn = len(self.seen)
            self.seen.append(request)
        answer = self.behaviour(turn, context)
        return self.compute(request) if answer is None else answer

    def compute(self, request: bytes) -> bytes:
        """Return the answer of a peer that was told nothing else."""
        return b"ok:" + request

    def stop(self) -> None:
        self.release.set()
        self._server.stop(0).wait()

    # The members of a deployment that blocks need.
    @property
    def grpc(self) -> str:
        return self.address

    def cpu_seconds(self) -> dict[str, float]:
        return {"tritonserver": 0.001 * len(self.seen)}

    def all_cpu_seconds(self) -> float:
        return sum(self.cpu_seconds().values())

    def pinned(self) -> None:
        return None

    def strayed(self) -> None:
        return None

    def waits(self) -> None:
        return None

    def alive(self) -> None:
        return None


class ModelPeer(Peer):
    """A peer with a model `m`: float output `y` doubles `x`, string output `t` repeats `s`.

    It is a deployment as far as a launch needs one.
    """

    def __init__(self, threads: int = 8) -> None:
        self.ran = 0
        super().__init__(threads)

    def compute(self, request: bytes) -> bytes:
        with self._lock:
            self.ran += 1
        inputs = decode(request)
        return response({"y": inputs["x"] * 2, "t": inputs["s"]})

    def _methods(self) -> dict[str, grpc.RpcMethodHandler]:
        statistics = grpc.unary_unary_rpc_method_handler(
            self._statistics, response_serializer=lambda message: message.SerializeToString()
        )
        return super()._methods() | {"ModelStatistics": statistics}

    def _statistics(
        self, request: bytes, context: grpc.ServicerContext
    ) -> service_pb2.ModelStatisticsResponse:
        answer = service_pb2.ModelStatisticsResponse()
        answer.model_stats.add(name="m", inference_count=self.ran, execution_count=self.ran)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def begin_stop(self) -> None:
        return None


def response(outputs: Mapping[str, np.ndarray]) -> bytes:
    """Return a response of model `m`: float arrays and object arrays of bytes."""
    message = service_pb2.ModelInferResponse(model_name="m")
    for name, values in outputs.items():
        datatype = "BYTES" if values.dtype == object else np_to_triton_dtype(values.dtype)
        message.outputs.add(name=name, datatype=datatype, shape=values.shape)
        raw = values.tobytes() if values.dtype != object else b"".join(map(_framed, values.ravel()))
        message.raw_output_contents.append(raw)
    data: bytes = message.SerializeToString()
    return data


def _framed(item: bytes) -> bytes:
    return len(item).to_bytes(4, "little") + item


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
    x = np.arange(rows, dtype=np.float32) + np.float32(0.25)
    message.raw_input_contents.append(x.tobytes())
    message.raw_input_contents.append(
        b"".join(_framed(f"{index}-{i}".encode()) for i in range(rows))
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
