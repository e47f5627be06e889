"""What a launch writes down of the pairs that it drops."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from layers.errors import Inconclusive
from layers.events import Silent
from layers.evidence import Block
from layers.measure.launch import MAX_VOID, Launch
from layers.measure.ledger import Ledger


class Spooled:
    def discard(self) -> None:
        return None


def block(arm: str, void: str | None, **changes: object) -> Block:
    values = {
        "arm": arm,
        "measure": "work",
        "launch": 3,
        "pair": 2,
        "position": 1,
        "requests": 100,
        "completed": 100,
        "errors": 0,
        "wall_s": 1.0,
        "rate": 100.0,
        "generator_cpu": 0.1,
        "neighbour_cpu": 0.0,
        "void": void,
    }
    return Block.model_validate(values | changes)


def drop(started: Launch, old: Block, new: Block) -> bool:
    return started._any_void(
        {"baseline": old, "candidate": new}, {"baseline": Spooled(), "candidate": Spooled()}
    )


def launch(ledger: Ledger) -> Launch:
    """A launch that has started nothing."""
    bench = SimpleNamespace(events=Silent())
    return Launch(bench, 3, None, None, "candidate-1", ledger=ledger)


def test_every_dropped_pair_is_kept_with_its_arm_and_its_ratio():
    ledger = Ledger()
    started = launch(ledger)
    assert not drop(started, block("baseline", None), block("candidate", None))
    assert drop(started, block("baseline", None), block("candidate", "noisy_neighbour", rate=60.0))
    assert drop(started, block("baseline", None, faults_per_s=90.0), block("candidate", None))
    told = [(void.arms, void.reason, void.throughput_ratio) for void in ledger.voids]
    assert told == [
        (["candidate"], "noisy_neighbour", 0.6),
        (["baseline"], "memory_pressure", 1.0),
    ]


def test_a_launch_that_drops_too_many_says_whose_they_were():
    ledger = Ledger()
    started = launch(ledger)
    for _ in range(MAX_VOID):
        assert drop(started, block("baseline", None), block("candidate", "late_sends"))
    told = r"7 pairs of one launch were void.*: 1 of the baseline's and 6 of the candidate's blocks"
    with pytest.raises(Inconclusive, match=told):
        drop(started, block("baseline", "noisy_neighbour"), block("candidate", None))
