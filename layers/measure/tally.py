"""What a block and the server's own counters say of one stretch of load, for the checks of a pair."""

from __future__ import annotations

import time
from typing import TypeAlias

from layers.evidence import Block
from layers.measure import counters
from layers.measure.ceilings import Facts
from layers.measure.load import LoadResult
from layers.measure.records import OK
from layers.triton.client import Client, ModelCounts
from layers.triton.remote import RemoteDeployment
from layers.triton.server import Deployment

Served: TypeAlias = Deployment | RemoteDeployment

COUNT_WAIT_S = 0.02
COUNT_READINGS = 50


def facts_of(block: Block, result: LoadResult) -> Facts:
    """Return what the ceilings look at in a block."""
    answered = result.records[result.records["code"] == OK]
    taken_s = answered["done_s"] - answered["sent_s"]
    return Facts(
        completed=block.completed,
        wall_s=block.wall_s,
        message_bytes=message_bytes(result),
        server_cpu_s=sum(block.cpu_s.values()),
        generator_cpu_s=result.generator_cpu_s,
        fastest_s=float(taken_s.min()) if len(taken_s) else 0.0,
    )


def message_bytes(result: LoadResult) -> int:
    """Return the bytes of all requests sent and of all answers that came."""
    answered = result.records[result.records["code"] == OK]
    return result.sent_bytes + int(answered["length"].sum())


def counts(served: Served) -> dict[str, ModelCounts]:
    """Return the counts of a server of ours; a user's own answers others meanwhile."""
    if isinstance(served, RemoteDeployment):
        return {}
    with Client(served.grpc) as client:
        return client.all_statistics()


def since(served: Served, before: dict[str, ModelCounts]) -> dict[str, ModelCounts]:
    """Return what each model did since `before`; the server counts a little after it answers."""
    after = counts(served)
    for _ in range(COUNT_READINGS):
        time.sleep(COUNT_WAIT_S)
        again = counts(served)
        if again == after:
            break
        after = again
    return counters.difference(before, after)
