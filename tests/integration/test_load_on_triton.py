"""Load, blocks and mutated requests on the real model server with the tiny stack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from layers.measure.blocks import BlockContext, rate_block, work_block
from layers.measure.checks import Limits
from layers.measure.load import LoadGenerator
from layers.traffic import recorded as traffic_files
from layers.traffic.recorded import Requests, Traffic, decode_response
from tests.grpc_peer import CPUS, show

pytestmark = pytest.mark.triton

LAX = Limits(neighbour_cores=1e3, generator_cores=1e3, lag_floor_ms=1e9, achieved_share=0.0)
CONTEXT = BlockContext(arm="baseline", launch=1, pair=1, position=1, limits=LAX)


@pytest.fixture(scope="module")
def traffic(tiny_view):
    return Traffic.load(tiny_view.root, tiny_view.manifest.traffic)


@pytest.fixture(scope="module")
def load(tmp_path_factory, traffic):
    with LoadGenerator(traffic, cpus=CPUS, work_dir=tmp_path_factory.mktemp("load")) as generator:
        yield generator


def test_the_recorded_traffic_fits_the_entry_model(traffic, tiny_view):
    entry = tiny_view.root / tiny_view.manifest.stack.models / tiny_view.manifest.stack.entry
    config = text_format.Parse((entry / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    traffic.check(config)


def test_work_on_triton_is_counted_and_every_output_kept(load, tiny_deployment):
    order = np.resize(load.traffic.order, 120)
    block, result = work_block(tiny_deployment, load, order, 4, CONTEXT)
    assert (block.completed, block.errors, block.void) == (120, 0, None)
    assert sum(block.cpu_s.values()) > 0
    outputs = [decode_response(result.response(position)) for position in range(len(order))]
    first = {name: values.dtype for name, values in outputs[0].items()}
    assert first
    assert all({n: v.dtype for n, v in tensors.items()} == first for tensors in outputs)
    show(
        f"tiny stack: {block.rate:.0f}/s, server CPU {sum(block.cpu_s.values()) / 120 * 1e3:.2f} ms "
        f"a request, generator {block.generator_cpu:.2f} cores, neighbours {block.neighbour_cpu:.2f}"
    )


def test_the_same_request_is_answered_alike_in_both_modes(load, tiny_deployment):
    order = np.arange(60, dtype=np.int64) % len(load.traffic.requests)
    _, closed = work_block(tiny_deployment, load, order, 4, CONTEXT)
    block, opened = rate_block(
        tiny_deployment, load, order, np.arange(1, 61) * 0.02, 1e6, CONTEXT, measure="sustained"
    )
    assert (block.completed, block.errors, block.void) == (60, 0, None)
    assert block.offered == pytest.approx(50)
    for position in range(60):
        first = decode_response(closed.response(position))
        second = decode_response(opened.response(position))
        assert {name: values.tolist() for name, values in first.items()} == {
            name: values.tolist() for name, values in second.items()
        }


def test_mutated_requests_are_answered(traffic, tiny_deployment, tmp_path: Path):
    mutated = traffic.mutated(seed=3, count=40)
    traffic_files.write(tmp_path, mutated, [(0.1 * i, i) for i in range(40)])
    order = np.arange(40, dtype=np.int64)
    changed = Traffic(Requests(tmp_path / "requests.bin"), order * 0.1, order, 10.0, "mutated")
    with LoadGenerator(changed, cpus=CPUS, work_dir=tmp_path / "work") as generator:
        result = generator.closed(tiny_deployment.grpc, order, 4)
    assert (result.errors, result.messages) == (0, ())
