"""A server that fails every request ends a block at fixed in-flight load, and no other does."""

from __future__ import annotations

import time

import grpc
import numpy as np
import pytest

from layers.measure.load import LoadGenerator
from layers.measure.records import NOT_SENT, OK
from tests.grpc_peer import CPUS, peer, record

FAILED = grpc.StatusCode.INTERNAL.value[0]


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failing")
    with LoadGenerator(record(folder), cpus=CPUS, work_dir=folder / "work") as generator:
        yield generator


def indices(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64) % 20


def fail(turn: int, context: grpc.ServicerContext) -> None:
    """Fail as a model does whose process has died: not at once."""
    time.sleep(0.5)
    context.abort(grpc.StatusCode.INTERNAL, "the process of the model is not healthy")


def test_the_rest_of_a_block_is_not_sent_to_a_server_that_only_fails(load):
    with peer() as server:
        server.behaviour = fail
        result = load.closed(server.address, indices(100), 2)
    codes = result.records["code"].tolist()
    assert codes.count(FAILED) >= 3
    assert codes[-1] == NOT_SENT
    assert (result.errors, result.completed, result.wall_s) == (100, 0, 0.0)
    assert result.messages[:2] == (
        "INTERNAL: the process of the model is not healthy",
        "nothing was answered for 3 s: the rest was not sent",
    )


def test_a_server_that_still_answers_some_is_sent_the_whole_block(load):
    with peer() as server:
        server.behaviour = lambda turn, context: fail(turn, context) if turn % 4 else None
        result = load.closed(server.address, indices(20), 2)
    codes = result.records["code"].tolist()
    assert (codes.count(OK), codes.count(FAILED)) == (5, 15)


def test_an_open_loop_sends_its_whole_schedule(load):
    with peer() as server:
        server.behaviour = fail
        result = load.open(server.address, indices(10), np.arange(10) * 0.4)
    assert result.records["code"].tolist() == [FAILED] * 10
