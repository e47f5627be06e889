"""One rule per card: the change that it makes to one model, or why it makes none. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from layers.config.models import ServedModel
from layers.triton.pbtxt import Document, Value

IN_FLIGHT_MARGIN = 2  # instances per request in flight: arrivals come in bursts
LIMIT_SHARE = 0.5  # of a server's limits for the instances of one model; the rest is for all others
LEAST_INSTANCE_BYTES = 64 << 20  # an interpreter with NumPy, without what the model holds
INSTANCE_TASKS = 8  # processes and threads for an instance in its process and in the server's
BATCH_LIMIT = 8  # requests per call, for a model that says 1; enough for a few clients in flight
_NOT_CPU = frozenset({"KIND_GPU", "KIND_MODEL"})
# The parameter by which a backend of Triton itself sets its intra-op threads.
_THREAD_SWITCH = MappingProxyType(
    {
        "onnxruntime": "intra_op_thread_count",
        "pytorch": "INTRA_OP_THREAD_COUNT",
        "tensorflow": "TF_NUM_INTRA_THREADS",
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the stack gives a configuration to work with."""

    cpus: int  # cores of the server
    slo_p99_ms: float
    in_flight: int  # requests on their way at once, in the measure that decides
    memory_bytes: int  # of a server, with all its processes
    processes: int  # and threads, of a server
    called: frozenset[str] = frozenset()  # models that code calls, as often as it likes at once


@dataclass(frozen=True, slots=True)
class Change:
    """An edited configuration, and the reason for it."""

    document: Document
    field: str  # path of the field that it is about
    why: str
    explanation: str
    gain_limit: float = 1.0  # no more than this can come of it, 1 - 1/speedup


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a card makes no change to a model."""

    reason: str


Rule = Callable[[ServedModel, Limits], Change | Refusal]


def instance_count(model: ServedModel, limits: Limits) -> Change | Refusal:
    """As many instances as cores, divided by the threads of each; no more than could ever work."""
    refusal = _no_instances(model)
    if refusal:
        return refusal
    now, threads = _instances(model.document), _threads(model)
    if threads is None:
        return Refusal(
            "nothing bounds its threads per instance: instances x threads could exceed the cores"
        )
    target = max(1, limits.cpus // threads)
    if target == now:
        return Refusal(f"{now} x {threads} thread(s) already match {limits.cpus} core(s)")
    if target < now and threads == 1 and model.document.get("dynamic_batching") is None:
        return Refusal(f"{now} single-threaded instances cost nothing measurable on fewer cores")
    if target > now:
        return _more_instances(model, limits, now, target)
    return _counted(
        model,
        now,
        target,
        f"{target} instance(s) of {threads} thread(s) match the server's {limits.cpus} core(s); more "
        "would make the threads take turns",
        limits,
    )


def _more_instances(model: ServedModel, limits: Limits, now: int, wanted: int) -> Change | Refusal:
    """Return the change to more instances, as far as load and limits have room for them."""
    most, bound = _most_instances(model, limits)
    in_flight = _in_flight(model, limits)
    if now >= in_flight:
        return Refusal(f"{now} instance(s) already take the {in_flight} request(s) in flight")
    if now >= most:
        return Refusal(f"{bound} has room for {most} instance(s), and it has {now}")
    target = min(wanted, most)
    why = f"{target} instance(s) match the server's {limits.cpus} core(s); fewer would leave cores idle"
    if target < wanted:
        why = f"{target} instance(s) are what {bound} has room for; {wanted} would match the cores"
    return _counted(model, now, target, why, limits)


def _counted(model: ServedModel, now: int, target: int, why: str, limits: Limits) -> Change:
    field = "instance_group[0].count"
    return Change(
        model.document.set(field, target),
        field,
        f"{now} instance(s) of {_threads(model)} thread(s) on {limits.cpus} core(s)",
        f"A Python backend instance is one process and runs one call at a time. {why}.",
        gain_limit=1 - now / min(target, _in_flight(model, limits)) if target > now else 1.0,
    )


def dynamic_batching(model: ServedModel, limits: Limits) -> Change | Refusal:
    """Let the server hand waiting requests over together, without waiting for more."""
    del limits
    message = model.document.message
    scheduler = message.WhichOneof("scheduling_choice")
    if scheduler:
        return Refusal(f"{scheduler} is set already")
    if model.code is None:
        return Refusal("its source cannot be checked for handling several requests per call")
    if not model.code.loops_over_requests:
        return Refusal("execute() does not loop over its requests")
    if message.model_transaction_policy.decoupled:
        return Refusal("it is decoupled: its responses are not one per request")
    if message.max_batch_size == 0:
        return Refusal("max_batch_size 0 says that its tensors have no batch dimension")
    document = model.document
    if message.max_batch_size == 1:
        document = document.set("max_batch_size", BATCH_LIMIT)
    return Change(
        document.set("dynamic_batching", {}),
        "dynamic_batching",
        f"requests are handed over one at a time; up to {document.get('max_batch_size')} could be",
        "execute() loops over the requests that it is given, so each is computed as before. "
        "Requests that wait are handed over in one call; with no queue delay none waits for "
        "others to come.",
    )


def queue_delay(model: ServedModel, limits: Limits) -> Change | Refusal:
    """Hand requests over as soon as an instance is free."""
    del limits
    field = "dynamic_batching.max_queue_delay_microseconds"
    now = model.document.get(field)
    if not now:
        return Refusal("no request is delayed")
    return Change(
        model.document.set(field, 0),
        field,
        f"each request may wait {now} us for others to fill a batch",
        "Under load a queue fills while the instances are busy, and batches form without a "
        "delay; below that the delay is added to every request. Preferred batch sizes stay.",
    )


def intra_op_threads(model: ServedModel, limits: Limits) -> Change | Refusal:
    """As many threads per instance as there are cores for it, where a parameter sets them."""
    refusal = _no_instances(model)
    if refusal:
        return refusal
    key = _thread_key(model)
    if key is None:
        return Refusal("no parameter of its configuration sets its threads")
    field = f'parameters["{key}"].string_value'
    written, now, instances = model.document.get(field), _threads(model), _instances(model.document)
    if written and now is None:
        return Refusal(f"its parameter {key} is not a number of threads")
    if now is None and instances == 1 and model.code is None:
        return Refusal("by default its one instance uses every core already")
    target = max(1, limits.cpus // instances)
    if now == target:
        return Refusal(f"{instances} x {now} thread(s) already match {limits.cpus} core(s)")
    return Change(
        model.document.set(field, str(target)),
        field,
        f"{instances} instance(s) of {now or 'unbounded'} thread(s) on {limits.cpus} core(s)",
        f"{instances} instance(s) of {target} thread(s) match the server's {limits.cpus} "
        "core(s). With more, the threads of one call wait for cores that those of another hold; "
        "a different number of threads may sum in a different order.",
        gain_limit=1 - now / target if now and now < target else 1.0,
    )


def queue_policy_from_slo(model: ServedModel, limits: Limits) -> Change | Refusal:
    """Reject what has waited for the whole latency budget: its answer could only be late."""
    document = model.document
    if document.get("dynamic_batching") is None:
        return Refusal("it has no dynamic batching, and so no queue that a policy could govern")
    settled = ("default_queue_policy", "priority_levels", "priority_queue_policy")
    if any(document.get(f"dynamic_batching.{name}") for name in settled):
        return Refusal("a queue policy is set already")
    timeout_us = round(limits.slo_p99_ms * 1000)
    if timeout_us < 1:
        return Refusal("the SLO is shorter than the unit of the timeout, 1 us")
    field = "dynamic_batching.default_queue_policy"
    policy: dict[str, Value] = {
        "timeout_action": "REJECT",
        "default_timeout_microseconds": timeout_us,
    }
    return Change(
        document.set(field, policy),
        field,
        f"a request may wait longer than its SLO of {limits.slo_p99_ms:g} ms allows",
        f"The timeout is the SLO itself, {timeout_us} us: a request that waited so long cannot "
        "be answered in time, and rejecting it leaves the instances to those that can. It sheds "
        "load under overload and gains nothing below it.",
    )


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.__name__: rule
        for rule in (
            instance_count,
            dynamic_batching,
            queue_delay,
            intra_op_threads,
            queue_policy_from_slo,
        )
    }
)


def _no_instances(model: ServedModel) -> Refusal | None:
    """Return why the number of instances or threads is not this bot's to choose."""
    document = model.document
    if model.backend == "ensemble":
        return Refusal("an ensemble has no instances of its own")
    groups = document.get("instance_group") or []
    if len(groups) > 1:
        return Refusal("it has several instance groups: somebody chose them")
    if groups and document.get("instance_group[0].kind") in _NOT_CPU:
        return Refusal("its instances are not on the CPU")
    if document.get("sequence_batching") is not None:
        return Refusal("it is stateful: sequences are bound to their instance")
    return None


def _instances(document: Document) -> int:
    return max(1, document.get("instance_group[0].count") or 1)


def _in_flight(model: ServedModel, limits: Limits) -> int:
    """Return how many requests a model may have at once, as far as its cores could work on them."""
    if model.name in limits.called:
        return max(limits.in_flight, limits.cpus)
    return limits.in_flight


def _most_instances(model: ServedModel, limits: Limits) -> tuple[int, str]:
    """Return the most instances that could work beside each other, and what bounds them.

    What one holds is at least what is known before it runs: an interpreter, and its files.
    """
    instance_bytes = LEAST_INSTANCE_BYTES + model.size_bytes
    tasks = INSTANCE_TASKS + (_threads(model) or 1)
    return min(
        (IN_FLIGHT_MARGIN * _in_flight(model, limits), "traffic.in_flight"),
        (int(limits.memory_bytes * LIMIT_SHARE) // instance_bytes, "sandbox.memory_gib"),
        (int(limits.processes * LIMIT_SHARE) // tasks, "sandbox.processes"),
    )


def _thread_key(model: ServedModel) -> str | None:
    if model.code is not None and model.code.thread_parameter is not None:
        return model.code.thread_parameter
    return _THREAD_SWITCH.get(model.backend)


def _threads(model: ServedModel) -> int | None:
    """Return the intra-op threads of one instance, None where nothing bounds them."""
    key = _thread_key(model)
    if key is None:
        return model.code.threads if model.code is not None else None
    text = model.document.get(f'parameters["{key}"].string_value') or ""
    return int(text) if text.isascii() and text.isdigit() and int(text[:6]) > 0 else None
