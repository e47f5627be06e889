"""What a server offers by its own word, and whether another one offers as much. Pure.

Recorded requests use a part of what a model takes. What its configuration promises besides them,
clients may rely on: the candidate's entry has to promise the same, or more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tritonclient.grpc import model_config_pb2, service_pb2

from layers.evidence import Gate, GateResult
from layers.traffic.tensors import parse

ANY = -1  # of a dimension: every size
MOST_TOLD = 4  # differences in a detail


@dataclass(frozen=True, slots=True)
class Offer:
    """What one arm says of its entry: configuration as the server completed it, versions ready."""

    config: model_config_pb2.ModelConfig
    versions: Collection[str]


def interface_gate(old: Offer, new: Offer) -> Gate | None:
    """Return the gate that fails where the candidate offers less than the baseline, else None."""
    found = list(narrower(old, new))
    if not found:
        return None
    more = len(found) - MOST_TOLD
    detail = "; ".join(found[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
    return Gate(name="interface", result=GateResult.FAIL, reason="interface_differs", detail=detail)


def narrower(old: Offer, new: Offer) -> Iterator[str]:
    """Yield what clients of the old entry may not do, or rely on, with the new one."""
    yield from _inputs(old.config, new.config)
    yield from _outputs(old.config, new.config)
    was, now = old.config.max_batch_size, new.config.max_batch_size
    if now < was or (was == 0) != (now == 0):
        yield f"max_batch_size is {now}, was {was}"
    if old.config.model_transaction_policy != new.config.model_transaction_policy:
        yield "its transaction policy is another: one request may have other than one answer"
    if old.config.sequence_batching != new.config.sequence_batching:
        yield "its sequence batching is another"
    gone = sorted(set(old.versions) - set(new.versions))
    if gone:
        yield f"version {', '.join(gone)} is not ready any more"
    was, now = _latest(old.versions), _latest(new.versions)
    if was != now and not gone:
        yield f"a request that names no version is answered by {now}, was {was}"


def _latest(versions: Collection[str]) -> int:
    """Return the version that answers requests which name none."""
    return max((int(version) for version in versions if version.isdecimal()), default=0)


def _inputs(old: model_config_pb2.ModelConfig, new: model_config_pb2.ModelConfig) -> Iterator[str]:
    """Yield how inputs take less: what was sent before has to be taken as it was."""
    left = {one.name: one for one in new.input}
    for one in old.input:
        other, where = left.pop(one.name, None), f"input {one.name!r}"
        if other is None:
            yield f"{where} is gone"
            continue
        if other.data_type != one.data_type:
            yield f"{where} is {_type(other.data_type)}, was {_type(one.data_type)}"
        if not _takes(other.dims, one.dims):
            yield f"{where} has dims {[*other.dims]}, had {[*one.dims]}"
        if one.optional and not other.optional:
            yield f"{where} can be left out no more"
    for name, other in sorted(left.items()):
        if not other.optional:
            yield f"input {name!r} is new, and has to be sent"


def _takes(new: Sequence[int], old: Sequence[int]) -> bool:
    """Whether every shape of the old dimensions fits the new ones."""
    same_rank = len(new) == len(old)
    return same_rank and all(n in (ANY, o) for n, o in zip(new, old, strict=True))


def _outputs(old: model_config_pb2.ModelConfig, new: model_config_pb2.ModelConfig) -> Iterator[str]:
    """Yield how outputs promise something else; what clients read of them has to stay."""
    theirs = {one.name: one for one in new.output}
    for one in old.output:
        other, where = theirs.get(one.name), f"output {one.name!r}"
        if other is None:
            yield f"{where} is gone"
            continue
        if other.data_type != one.data_type:
            yield f"{where} is {_type(other.data_type)}, was {_type(one.data_type)}"
        if [*other.dims] != [*one.dims]:
            yield f"{where} has dims {[*other.dims]}, had {[*one.dims]}"
        if other.label_filename != one.label_filename:
            yield f"{where} has the labels of {other.label_filename!r}, had {one.label_filename!r}"


def _type(number: int) -> str:
    found = model_config_pb2.DataType.DESCRIPTOR.values_by_number.get(number)
    return str(number) if found is None else str(found.name).removeprefix("TYPE_")


def sent_otherwise(old: bytes, new: bytes) -> str | None:
    """Say how two answers differ in what no array of theirs shows, None where they do not.

    That is the model and the version that answered, BF16 beside FP32 (arrays hold both as float32),
    and the names of parameters. Answers without outputs of the same names differ more than that.
    """
    try:
        was, now = (parse(service_pb2.ModelInferResponse, data) for data in (old, new))
    except ValueError:
        return None
    if sorted(one.name for one in was.outputs) != sorted(one.name for one in now.outputs):
        return None
    for field, before, after in zip(_FIELDS, _envelope(was), _envelope(now), strict=True):
        if before != after:
            return f"an answer's {field}: {after or 'none'}, was {before or 'none'}"
    return None


_FIELDS = ("model", "model version", "outputs in BF16", "parameters")


def _envelope(response: service_pb2.ModelInferResponse) -> tuple[str, ...]:
    """Return the fields of an answer that are compared, in words."""
    halves = sorted(one.name for one in response.outputs if one.datatype == "BF16")
    return (
        response.model_name,
        response.model_version,
        ", ".join(halves),
        ", ".join(sorted(response.parameters)),
    )


def unknown_outputs(named: Collection[str], config: model_config_pb2.ModelConfig) -> list[str]:
    """Return the names that no output of a configuration has, sorted."""
    return sorted(set(named) - {one.name for one in config.output})
