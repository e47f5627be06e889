"""The generator's process against a real gRPC server on loopback."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import numpy as np
import psutil
import pytest

from layers.errors import ToolFailed
from layers.measure import load as loads
from layers.measure.fresh import write_set
from layers.measure.load import LoadGenerator
from layers.measure.records import NOT_SENT, UNANSWERED
from tests.grpc_peer import CPUS, peer, record, show

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    folder = tmp_path_factory.mktemp("load")
    with LoadGenerator(record(folder), cpus=CPUS, work_dir=folder / "work") as generator:
        yield generator


def indices(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64) % 20


def test_closed_sends_the_order_once_and_keeps_every_response(load):
    with peer() as server:
        order = indices(45)[::-1].copy()
        result = load.closed(server.address, order, 4)
        assert result.errors == 0
        assert result.completed == 45
        assert result.records["index"].tolist() == order.tolist()
        assert sorted(server.seen) == sorted(load.traffic.requests[int(i)] for i in order)
        for position, index in enumerate(order):
            assert result.response(position) == b"ok:" + load.traffic.requests[int(index)]


def test_closed_keeps_exactly_the_given_number_in_flight(load):
    with peer(threads=16) as server:
        flying, peak, lock = [0], [0], threading.Lock()

        def count(turn, context):
            with lock:
                flying[0] += 1
                peak[0] = max(peak[0], flying[0])
            time.sleep(0.01)
            with lock:
                flying[0] -= 1

        server.behaviour = count
        load.closed(server.address, indices(40), 3)
        assert peak[0] == 3


def test_a_request_set_is_sent_instead_of_the_recording(load, tmp_path):
    messages = [b"new-%d" % i * (i + 1) for i in range(3)]
    order = np.array([2, 0, 1, 2], dtype=np.int64)
    with peer() as server, write_set(tmp_path / "fresh.bin", messages) as requests:
        closed = load.closed(server.address, order, 1, requests=requests)
        opened = load.open(server.address, order, np.arange(4) * 0.01, requests=requests)
        recorded = load.closed(server.address, order, 1)
        seen = server.seen
    assert seen[:4] == [messages[i] for i in order]
    assert sorted(seen[4:8]) == sorted(seen[:4])
    assert seen[8:] == [load.traffic.requests[int(i)] for i in order]
    assert closed.request_set == opened.request_set == requests.digest
    assert recorded.request_set == load.traffic.digest
    assert closed.sent_bytes == sum(len(messages[i]) for i in order)


def test_an_order_beyond_the_request_set_is_refused(load, tmp_path):
    with (
        write_set(tmp_path / "fresh.bin", [b"one"]) as requests,
        pytest.raises(ValueError, match="indices of the requests"),
    ):
        load.closed("127.0.0.1:1", np.array([1]), 1, requests=requests)


def test_closed_yields_no_latency(load):
    with peer() as server:
        result = load.closed(server.address, indices(3), 1)
    assert result.lag_p99_ms is None
    with pytest.raises(ValueError, match="no latency"):
        result.latencies_ms()


def test_open_sends_at_the_scheduled_times(load):
    with peer() as server:
        arrivals_s = np.cumsum(np.random.default_rng(1).exponential(0.005, 200))
        result = load.open(server.address, indices(200), arrivals_s)
    assert result.errors == 0
    assert result.records["scheduled_s"].tolist() == arrivals_s.tolist()
    assert (result.records["sent_s"] >= result.records["scheduled_s"]).all()
    assert len(result.latencies_ms()) == 200
    cores = result.generator_cpu_s / result.generator_wall_s
    show(f"lag p99 {result.lag_p99_ms:.2f} ms, generator {cores:.3f} cores at 200 requests/s")


def test_a_stall_of_the_server_shows_in_every_request_that_it_delays(load):
    """Coordinated omission: a closed loop sees one slow request, an open loop all that waited."""
    with peer(threads=1) as server:
        server.behaviour = lambda turn, context: time.sleep(0.5) if turn == 20 else None
        closed = load.closed(server.address, indices(120), 1)
        server.seen.clear()
        arrivals_s = np.arange(120) * 0.005
        opened = load.open(server.address, indices(120), arrivals_s)
    service_ms = (closed.records["done_s"] - closed.records["sent_s"]) * 1e3
    # Request 20 is due at 0.1 s and holds the only thread until 0.6 s.
    least_ms = (0.6 - arrivals_s[20:]) * 1e3
    waited_ms = (opened.records["done_s"] - opened.records["scheduled_s"])[20:] * 1e3
    show(f"over 100 ms: closed {np.sum(service_ms > 100)}, open {np.sum(waited_ms > 100)} of 120")
    show(
        f"p95: closed {np.quantile(service_ms, 0.95):.0f} ms, open {np.quantile(waited_ms, 0.95):.0f}"
    )
    assert (waited_ms >= least_ms - 1).all()
    assert np.quantile(opened.latencies_ms(), 0.95) >= 400


def test_refused_requests_are_errors_with_their_status(load):
    with peer() as server:

        def refuse(turn, context):
            if turn % 4 == 0:
                context.abort(grpc.StatusCode.UNAVAILABLE, "queue is full")

        server.behaviour = refuse
        result = load.closed(server.address, indices(40), 2)
    assert result.errors == 10
    assert sorted(set(result.records["code"].tolist())) == [0, grpc.StatusCode.UNAVAILABLE.value[0]]
    assert result.messages == ("UNAVAILABLE: queue is full",)
    failed = int(np.flatnonzero(result.records["code"])[0])
    assert result.response(failed) == b""


@pytest.mark.parametrize("mode", ["closed", "open"])
def test_a_hung_server_ends_the_block_at_its_deadline(load, mode):
    with peer() as server:
        server.behaviour = lambda turn, context: server.release.wait(60) and None
        if mode == "closed":
            result = load.closed(server.address, indices(20), 4, deadline_s=1.0)
            expected = [UNANSWERED] * 4 + [NOT_SENT] * 16
        else:
            result = load.open(server.address, indices(20), np.arange(20) * 0.001, drain_s=1.0)
            expected = [UNANSWERED] * 20
    assert result.records["code"].tolist() == expected
    assert (result.errors, result.completed, result.wall_s) == (20, 0, 0.0)


def test_a_request_deadline_frees_its_slot(load):
    with peer() as server:
        server.behaviour = lambda turn, context: (turn < 2 and server.release.wait(60)) or None
        result = load.closed(server.address, indices(10), 2, request_deadline_s=1.0)
    deadline_exceeded = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
    assert result.records["code"].tolist() == [deadline_exceeded] * 2 + [0] * 8


def test_the_generator_works_on_after_a_hung_block(load):
    with peer() as server:
        server.behaviour = lambda turn, context: (turn < 2 and server.release.wait(60)) or None
        assert load.closed(server.address, indices(20), 2, deadline_s=1.0).errors == 20
        assert load.closed(server.address, indices(20), 2).errors == 0


def test_an_address_where_nobody_listens_is_a_tool_failure(load, monkeypatch):
    with peer() as server:
        address = server.address
    with pytest.raises(ToolFailed, match="no connection"):
        load.closed(address, indices(2), 1)


def test_orders_and_arrivals_that_make_no_sense_are_refused(load):
    with pytest.raises(ValueError, match="indices"):
        load.closed("127.0.0.1:1", np.array([20]), 1)
    with pytest.raises(ValueError, match="not decreasing"):
        load.open("127.0.0.1:1", indices(2), np.array([1.0, 0.5]))
    with pytest.raises(ValueError, match="not decreasing"):
        load.open("127.0.0.1:1", indices(2), np.array([-1.0, 0.5]))


def own_generator() -> psutil.Process:
    children = psutil.Process().children()
    return max(children, key=lambda child: child.create_time())


def test_a_killed_generator_is_a_tool_failure_and_stays_one(tmp_path: Path):
    with (
        peer() as server,
        LoadGenerator(record(tmp_path), cpus=CPUS, work_dir=tmp_path / "w") as load,
    ):
        own_generator().send_signal(signal.SIGKILL)
        with pytest.raises(ToolFailed, match="exit code -9"):
            load.closed(server.address, indices(2), 1)
        with pytest.raises(ToolFailed, match="not running"):
            load.closed(server.address, indices(2), 1)


def test_the_generator_is_pinned_and_gone_afterwards(tmp_path: Path):
    with LoadGenerator(record(tmp_path), cpus=CPUS, work_dir=tmp_path / "w"):
        child = own_generator()
        assert child.cpu_affinity() == CPUS
    assert not child.is_running()


PARENT = """
import sys, time
from pathlib import Path
from layers.measure import load as loads
from layers.measure.fresh import write_set
from layers.measure.load import LoadGenerator
from tests.grpc_peer import record
folder = Path(sys.argv[1])
load = LoadGenerator(record(folder), cpus=[int(sys.argv[2])], work_dir=folder / "w").__enter__()
print(load._process.pid, flush=True)
time.sleep(60)
"""


def test_the_generator_dies_with_its_parent(tmp_path: Path):
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), str(CPUS[0])],
        stdout=subprocess.PIPE,
        cwd=root,
    )
    with parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(timeout=20)
    assert not child.is_running()


def test_an_answer_larger_than_may_be_held_is_an_error_that_says_so(load, monkeypatch):
    monkeypatch.setattr(loads, "MAX_RESPONSE_BYTES", 1000)
    with peer() as server:
        server.behaviour = lambda turn, context: b"x" * (1001 if turn == 3 else 1000)
        result = load.closed(server.address, indices(20), 1)
    assert (result.errors, result.completed) == (1, 19)
    [message] = result.messages
    assert message.startswith("RESOURCE_EXHAUSTED")
    assert "1001 vs. 1000" in message


def test_answers_beyond_what_a_block_may_keep_are_errors(load, monkeypatch):
    monkeypatch.setattr(loads, "MAX_SPOOL_BYTES", 1000)
    with peer() as server:
        server.behaviour = lambda turn, context: b"x" * 300
        result = load.closed(server.address, indices(20), 1)
    assert (result.errors, result.completed) == (17, 3)
    assert result.messages == ("the answers of this block take more than 1000 bytes",)
    assert (result.folder / "responses.bin").stat().st_size == 900
