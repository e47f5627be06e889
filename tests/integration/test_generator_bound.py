"""The real generator as the limit: void for a baseline, a lower bound for a candidate."""

from __future__ import annotations

from dataclasses import replace

import grpc
import numpy as np
import pytest

from layers.measure import bound
from layers.measure.blocks import BlockContext
from layers.measure.checks import Limits
from layers.measure.load import LoadGenerator
from tests.grpc_peer import CPUS, peer, record

# Every block is one that the generator bounds; nothing else of the machine matters here.
BOUND = Limits(neighbour_cores=1e3, generator_cores=-1.0, lag_floor_ms=1e9)
CANDIDATE = BlockContext(arm="candidate", launch=1, pair=1, position=1, limits=BOUND)
ORDER = np.arange(60, dtype=np.int64) % 20


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bound")
    with LoadGenerator(record(folder), cpus=CPUS, work_dir=folder / "work") as generator:
        yield generator


def test_a_bound_block_of_the_baseline_is_void(load):
    with peer() as server:
        block, _ = bound.work(server, load, ORDER, 4, replace(CANDIDATE, arm="baseline"))
    assert (block.void, block.at_least) == ("generator_bound", False)


def test_a_bound_block_of_the_candidate_is_a_lower_bound(load):
    with peer() as server:
        block, _ = bound.work(server, load, ORDER, 4, CANDIDATE)
        lax = replace(CANDIDATE, limits=replace(BOUND, generator_cores=1e3))
        free, _ = bound.work(server, load, ORDER, 4, lax)
    assert (block.void, block.at_least, block.completed) == (None, True, 60)
    assert (free.void, free.at_least) == (None, False)


def test_other_faults_of_a_bound_block_stay(load):
    def fails(turn: int, context: grpc.ServicerContext) -> None:
        if turn == 7:
            context.abort(grpc.StatusCode.INTERNAL, "no")

    with peer() as server:
        server.behaviour = fails
        block, _ = bound.work(server, load, ORDER, 4, CANDIDATE)
    assert (block.void, block.at_least, block.errors) == ("errors", False, 1)
