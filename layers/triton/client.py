"""A thin gRPC client of a model server: raw inference, model control, configuration, counts.

Requests are bytes of `inference.ModelInferRequest`; they are sent as recorded, never rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from google.protobuf import json_format
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.grpc.model_config_pb2 import ModelConfig

from layers.errors import ToolFailed

INFER_METHOD = "/inference.GRPCInferenceService/ModelInfer"
MAX_RESPONSE_BYTES = 256 << 20  # a larger answer is refused: it would be held in our memory
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    ("grpc.enable_http_proxy", 0),  # a proxy setting of the environment is not for loopback
    ("grpc.initial_reconnect_backoff_ms", 100),  # we begin to ask before the server listens
    ("grpc.max_reconnect_backoff_ms", 100),  # half of it is waited for at every start
)
_TIMEOUT_S = 30.0
_LOAD_TIMEOUT_S = 120.0

T = TypeVar("T")


class Refused(ToolFailed):
    """The server answered a call with an error; `code` is gRPC's name for it."""

    def __init__(self, call: str, code: str, detail: str) -> None:
        """Keep gRPC's status beside the text."""
        super().__init__(f"{call}: {code}: {detail}")
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class ModelCounts:
    """What a model has done since it was first loaded: counts, and times summed over requests."""

    succeeded: int
    failed: int
    inferences: int  # rows of the batch dimension
    executions: int  # calls of the model; fewer than requests when batched
    queue_s: float
    compute_s: float
    cache_hits: int = 0  # requests answered by the server's response cache


class Client:
    """A channel to one server, `host:port`. Not thread-safe for closing; calls are."""

    def __init__(self, address: str) -> None:
        """Open a channel; nothing is sent before the first call."""
        self.address = address
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._infer = self._channel.unary_unary(
            INFER_METHOD, request_serializer=None, response_deserializer=None
        )

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the channel."""
        self.close()

    def close(self) -> None:
        """Close the channel: an open one makes the server wait for its whole exit timeout."""
        self._channel.close()

    def infer(self, request: bytes, timeout_s: float = _TIMEOUT_S) -> bytes:
        """Send one request; return the bytes of its `ModelInferResponse`. Raises Refused."""
        answer: bytes = _called("inference", lambda: self._infer(request, timeout=timeout_s))
        return answer

    def server_ready(self) -> bool:
        """Say whether the server takes requests now; False while nobody listens."""
        request = service_pb2.ServerReadyRequest()
        return self._ready(lambda: self._stub.ServerReady(request, timeout=2.0))

    def model_ready(self, model: str) -> bool:
        """Say whether a model is loaded. A dead backend process does not show here."""
        request = service_pb2.ModelReadyRequest(name=model)
        return self._ready(lambda: self._stub.ModelReady(request, timeout=2.0))

    def config(self, model: str) -> ModelConfig:
        """Return the configuration in force, completed by the server. Raises Refused."""
        request = service_pb2.ModelConfigRequest(name=model)
        answer = _called(
            f"configuration of {model}",
            lambda: self._stub.ModelConfig(request, timeout=_TIMEOUT_S),
        )
        return answer.config

    def load(self, model: str, config: ModelConfig | None = None) -> None:
        """Load or reload a model, with a whole configuration in place of its file's.

        Without `config` a model that runs under an override keeps it: the server answers OK and
        does nothing. Raises Refused; the reason is often in the server's log only.
        """
        request = service_pb2.RepositoryModelLoadRequest(model_name=model)
        if config is not None:
            text = json_format.MessageToJson(config, preserving_proto_field_name=True, indent=None)
            request.parameters["config"].string_param = text
        _called(
            f"loading {model}",
            lambda: self._stub.RepositoryModelLoad(request, timeout=_LOAD_TIMEOUT_S),
        )

    def loaded_models(self) -> tuple[str, ...]:
        """Return the names of all models that are ready. Raises Refused."""
        return tuple(sorted(self.loaded_versions()))

    def loaded_versions(self) -> dict[str, frozenset[str]]:
        """Return the versions that are ready of each model that has any. Raises Refused."""
        request = service_pb2.RepositoryIndexRequest(ready=True)
        answer = _called(
            "model index", lambda: self._stub.RepositoryIndex(request, timeout=_TIMEOUT_S)
        )
        found: dict[str, set[str]] = {}
        for model in answer.models:
            found.setdefault(model.name, set()).add(model.version)
        return {name: frozenset(versions) for name, versions in found.items()}

    def statistics(self, model: str) -> ModelCounts:
        """Return the counts of a model over all its versions. Raises Refused."""
        request = service_pb2.ModelStatisticsRequest(name=model)
        answer = _called(
            f"statistics of {model}",
            lambda: self._stub.ModelStatistics(request, timeout=_TIMEOUT_S),
        )
        return _counts(answer.model_stats)

    def all_statistics(self) -> dict[str, ModelCounts]:
        """Return the counts of every loaded model by name. Raises Refused."""
        request = service_pb2.ModelStatisticsRequest()
        answer = _called(
            "statistics", lambda: self._stub.ModelStatistics(request, timeout=_TIMEOUT_S)
        )
        names = {row.name for row in answer.model_stats}
        return {
            name: _counts([row for row in answer.model_stats if row.name == name]) for name in names
        }

    def _ready(self, call: Callable[[], Any]) -> bool:
        try:
            return bool(call().ready)
        except grpc.RpcError:
            return False


def _called(what: str, call: Callable[[], T]) -> T:
    """Return the call's answer; gRPC's error becomes ours."""
    try:
        return call()
    except grpc.RpcError as error:
        raise Refused(what, error.code().name, error.details() or "no details") from error


def _counts(rows: Sequence[service_pb2.ModelStatistics]) -> ModelCounts:
    """Sum up the statistics of a model's versions."""
    return ModelCounts(
        succeeded=sum(row.inference_stats.success.count for row in rows),
        failed=sum(row.inference_stats.fail.count for row in rows),
        inferences=sum(row.inference_count for row in rows),
        executions=sum(row.execution_count for row in rows),
        queue_s=sum(row.inference_stats.queue.ns for row in rows) / 1e9,
        compute_s=sum(row.inference_stats.compute_infer.ns for row in rows) / 1e9,
        cache_hits=sum(row.inference_stats.cache_hit.count for row in rows),
    )
