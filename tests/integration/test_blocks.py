"""Blocks on a real gRPC server: what they say of the load, the server and the neighbours."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import grpc
import numpy as np
import pytest

from layers.measure.blocks import BlockContext, exponential_arrivals, rate_block, work_block
from layers.measure.checks import Limits
from layers.measure.load import LoadGenerator
from layers.measure.share_model import Window
from layers.measure.sustained import served, window_of
from tests.grpc_peer import CPUS, peer, record

pytestmark = pytest.mark.alone

# The machine of the tests is not quiet; only the test of that rule minds.
LAX = Limits(neighbour_cores=1e3, generator_cores=1e3, lag_floor_ms=1e9)
CONTEXT = BlockContext(arm="candidate", launch=3, pair=2, position=1, limits=LAX)
ORDER = np.arange(60, dtype=np.int64) % 20


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    with LoadGenerator(record(folder), cpus=CPUS, work_dir=folder / "work") as generator:
        yield generator


def test_a_work_block_has_a_rate_and_cpu_and_no_latency(load):
    with peer() as server:
        block, result = work_block(server, load, ORDER, 4, CONTEXT)
    assert (block.arm, block.measure, block.launch, block.pair) == ("candidate", "work", 3, 2)
    assert (block.requests, block.completed, block.errors, block.void) == (60, 60, 0, None)
    assert block.in_flight == 4
    assert block.rate == 60 / result.wall_s == 60 / block.wall_s
    assert block.cpu_s == pytest.approx({"tritonserver": 0.06})
    assert (block.offered, block.lag_p99_ms, block.over_slo, block.latency_ms) == (
        None,
        None,
        None,
        {},
    )


def test_a_rate_block_has_latencies_from_the_schedule(load):
    arrivals_s = np.arange(1, 61) * 0.01
    with peer() as server:
        block, result = rate_block(server, load, ORDER, arrivals_s, 1e6, CONTEXT)
    assert (block.measure, block.completed, block.over_slo, block.void) == ("tail", 60, 0, None)
    assert block.offered == pytest.approx(100)
    assert block.latency_ms == {"p50": float(np.median(result.latencies_ms()))}
    assert block.lag_p99_ms == result.lag_p99_ms
    assert block.in_flight is None


def test_a_response_later_than_the_slo_is_counted(load):
    with peer(threads=60) as server:
        server.behaviour = lambda turn, context: time.sleep(0.2)
        block, _ = rate_block(server, load, ORDER, np.arange(60) * 0.01, 100.0, CONTEXT)
    assert block.over_slo == 60


def test_errors_void_a_block(load):
    with peer() as server:
        server.behaviour = lambda turn, context: (
            context.abort(grpc.StatusCode.INTERNAL, "broken") if turn == 7 else None
        )
        block, result = work_block(server, load, ORDER, 4, CONTEXT)
    assert (block.errors, block.completed, block.void) == (1, 59, "errors")
    assert result.messages == ("INTERNAL: broken",)


def test_empty_outputs_void_a_block(load):
    with peer() as server:
        server.behaviour = lambda turn, context: b"" if turn == 7 else None
        block, _ = work_block(server, load, ORDER, 4, CONTEXT)
    assert block.void == "short_outputs"


def test_outputs_shorter_than_they_have_to_be_void_a_block(load):
    least_bytes = np.array([3 + len(request) for request in load.traffic.requests])
    with peer() as server:
        good, _ = work_block(server, load, ORDER, 4, replace(CONTEXT, least_bytes=least_bytes))
        short, _ = work_block(server, load, ORDER, 4, replace(CONTEXT, least_bytes=least_bytes + 1))
    assert (good.void, short.void) == (None, "short_outputs")


def test_a_server_that_falls_behind_voids_a_rate_block(load):
    with peer(threads=1) as server:
        server.behaviour = lambda turn, context: time.sleep(0.02)
        block, _ = rate_block(server, load, ORDER, np.arange(60) * 0.01, 50.0, CONTEXT)
    assert block.void == "behind_offered"
    assert block.offered is not None
    assert block.rate < block.offered


def test_too_few_requests_void_a_block(load):
    with peer() as server:
        block, _ = work_block(server, load, ORDER[:59], 4, CONTEXT)
    assert block.void == "too_few_requests"


def test_a_busy_neighbour_voids_a_block(load):
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with peer() as server:
            context = replace(CONTEXT, limits=Limits(lag_floor_ms=1e9))
            block, _ = rate_block(server, load, ORDER, np.arange(60) * 0.025, 1e6, context)
    finally:
        burner.kill()
        burner.wait()
    assert block.void == "noisy_neighbour"
    assert block.neighbour_cpu > 0.2


def test_exponential_arrivals_offer_exactly_their_rate():
    arrivals_s = exponential_arrivals(np.random.default_rng(1), 50.0, 2_000)
    gaps_s = np.diff(arrivals_s, prepend=0.0)
    assert arrivals_s[-1] == pytest.approx(40.0)
    assert (gaps_s >= 0).all()
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(1.0, abs=0.1)


def test_a_served_window_reports_its_block(load):
    blocks = []
    with peer() as server:
        run = served(
            server, load, 1e6, CONTEXT, np.random.default_rng(1), lambda b, r: blocks.append((b, r))
        )
        windows = [run(200.0, 60), run(400.0, 80)]
    assert [(w.requests, w.over, w.void) for w in windows] == [(60, 0, None), (80, 0, None)]
    assert [w.rate for w in windows] == pytest.approx([200.0, 400.0])
    assert [(b.measure, b.pair, b.offered) for b, _ in blocks] == [
        ("sustained", 2, windows[0].rate),
        ("sustained", 3, windows[1].rate),
    ]
    assert all(r.response(0) for _, r in blocks)


def test_errors_count_against_the_rate_but_a_noisy_machine_only_voids(load):
    with peer() as server:
        block, _ = rate_block(server, load, ORDER, np.arange(60) * 0.01, 1e6, CONTEXT)
    failing = block.model_copy(update={"errors": 4, "over_slo": 4, "void": "errors"})
    assert window_of(failing) == Window(block.offered, 60, 4, None)
    noisy = block.model_copy(update={"void": "noisy_neighbour"})
    assert window_of(noisy) == Window(block.offered, 60, 0, "noisy_neighbour")
