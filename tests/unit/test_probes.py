"""What a trial sends one at a time: mixed, unforeseeable, and told afterwards."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.base import ChangeClass
from layers.events import Silent
from layers.evidence import Iteration, KindCount, TrafficRecord
from layers.loop.instruments import _mutations, _mutator
from layers.measure.fresh import Fresh
from layers.measure.launch import Bench
from layers.record.answers import MutationsRecord
from layers.traffic.envelope import content
from layers.traffic.kinds import BY_NAME
from layers.traffic.mutations import EXACT_ONLY, WHY, Mutator, Taken
from layers.traffic.recorded import Requests, Traffic, write
from layers.traffic.salting import SALTS, Salter
from layers.trial import equivalence
from layers.trial.probes import MOST_NAMED, RENEWED, Probes, completed, warnings_of
from tests.grpc_peer import request

WIDE = [request(i, rows=8 + i % 3) for i in range(150)]
TAKEN = [
    Taken("floats moved", "answered"),
    Taken("floats missing", "answered", finite=False),
    Taken("one candidate", "answered"),
    Taken("strings long", "unstable"),
    Taken("flags turned", "absent"),
]


def bench_of(folder: Path, *, fresh: bool = True, replay: int = 0) -> Bench:
    write(folder, WIDE, [(float(i), i) for i in range(len(WIDE))])
    requests = Requests(folder / "requests.bin")
    order = np.arange(len(WIDE))
    traffic = Traffic(requests, order.astype(np.float64), order, 1.0, "recorded")
    axes = Mutator(requests).candidate_axes
    return Bench(
        env=None,
        sandbox=None,
        load=SimpleNamespace(traffic=traffic),
        manifest=None,
        log_dir=folder,
        rng=np.random.default_rng(replay),
        block_requests=60,
        events=Silent(),
        on_block=lambda block: None,
        fresh=Fresh(Salter(requests, axes, SALTS[0]), folder) if fresh else None,
        mutator=Mutator(requests, outputs=["y"], taken=TAKEN),
        replay=replay != 0,
    )


def test_probes_of_all_kinds_come_in_one_random_order(tmp_path):
    bench = bench_of(tmp_path)
    orders = []
    for _ in range(2):
        drawn = Probes(bench, ChangeClass.EXACT).drawn()
        kinds = [probe.kind for probe in drawn]
        assert kinds.count(equivalence.AS_RECORDED) == equivalence.RECORDED
        assert kinds.count(RENEWED) == equivalence.RENEWED
        assert len(kinds) == equivalence.RECORDED + equivalence.RENEWED + equivalence.MUTATED
        assert set(kinds) == {
            equivalence.AS_RECORDED,
            RENEWED,
            *(one.kind for one in TAKEN if one.answer == "answered"),
        }
        orders.append(kinds)
        thirds = [
            set(kinds[:84]),
            set(kinds[84:168]),
            set(kinds[168:]),
        ]  # no stretch is of one kind
        assert all({equivalence.AS_RECORDED, "floats moved"} <= third for third in thirds)
    assert orders[0] != orders[1]


def test_the_referee_sees_some_of_all_and_the_metric_none_that_is_mutated(tmp_path):
    drawn = Probes(bench_of(tmp_path), ChangeClass.EXACT).drawn()
    refereed = {probe.kind for probe in drawn if probe.refereed}
    assert {equivalence.AS_RECORDED, RENEWED, "floats moved"} <= refereed
    assert "floats missing" not in refereed  # a referee need not know what is like none recorded
    observed = {probe.kind for probe in drawn if probe.observed}
    assert observed == {equivalence.AS_RECORDED, RENEWED}


def test_a_metric_sees_as_many_as_it_asks_for(tmp_path):
    drawn = Probes(bench_of(tmp_path), ChangeClass.APPROXIMATE).drawn(200)
    assert sum(probe.observed for probe in drawn) == 200


def test_what_changes_sizes_takes_no_place_in_timed_blocks(tmp_path):
    drawn = Probes(bench_of(tmp_path), ChangeClass.EXACT).drawn()
    assert {probe.kind for probe in drawn if probe.odd} == {"floats moved", "floats missing"}
    assert BY_NAME["one candidate"].sized


@pytest.mark.parametrize("change_class", [c for c in ChangeClass if c is not ChangeClass.EXACT])
def test_other_classes_are_held_to_nothing_far(tmp_path, change_class):
    drawn = Probes(bench_of(tmp_path), change_class).drawn()
    assert "floats missing" not in {probe.kind for probe in drawn}
    assert {probe.far for probe in drawn if probe.kind != equivalence.AS_RECORDED} == {False}
    assert {probe.far for probe in drawn if probe.kind == equivalence.AS_RECORDED} == {True}


def test_nobody_can_foresee_what_is_drawn_unless_a_seed_was_given(tmp_path):
    secret = [Probes(bench_of(tmp_path), ChangeClass.EXACT) for _ in range(2)]
    assert len({tuple(probes._seeds.values()) for probes in secret}) == 2
    blocks = []
    for _ in range(2):
        bench = bench_of(tmp_path, replay=7)
        Probes(bench, ChangeClass.EXACT)
        blocks.append(bench.draw().tolist())
    assert blocks[0] == blocks[1]
    other = bench_of(tmp_path)
    told = Probes(other, ChangeClass.EXACT)._seeds["blocks"]
    assert other.draw().tolist() != blocks[0]
    again = bench_of(tmp_path)
    again.rng.bit_generator.state = np.random.default_rng(int(told, 16)).bit_generator.state
    other.rng.bit_generator.state = np.random.default_rng(int(told, 16)).bit_generator.state
    assert again.draw().tolist() == other.draw().tolist()


def test_a_trial_draws_anew_where_a_seed_was_given_too(tmp_path):
    bench = bench_of(tmp_path, replay=7)
    assert len({bench.reseed() for _ in range(4)}) == 4


def test_what_was_sent_is_told_with_its_seeds(tmp_path):
    probes = Probes(bench_of(tmp_path), ChangeClass.REORDER)
    counts = {"floats moved": KindCount(answered=3, refused=1)}
    record = probes.record(counts)
    assert record.kinds == counts
    assert record.renewed == str(SALTS[0])
    assert record.not_tried == [
        f"floats missing: {EXACT_ONLY}",
        "one candidate: none was drawn",
        f"strings long: {WHY['unstable']}",
        f"flags turned: {WHY['absent']}",
    ]
    assert set(record.seeds) == {"probes", "blocks", "renewed"}
    assert all(int(seed, 16) for seed in record.seeds.values())
    assert Iteration.model_fields["traffic"].default is None
    assert TrafficRecord.model_validate_json(record.model_dump_json()) == record


def test_without_renewing_blocks_send_the_recording(tmp_path):
    probes = Probes(bench_of(tmp_path, fresh=False), ChangeClass.EXACT)
    assert probes.record({}).renewed == "recorded"
    assert RENEWED not in {probe.kind for probe in probes.drawn()}
    assert completed(probes.record({}), None) == probes.record({})
    assert completed(None, None) is None


def test_a_reviewer_is_told_what_was_not_tried_and_what_could_not_be_new(tmp_path):
    bench = bench_of(tmp_path)
    record = Probes(bench, ChangeClass.EXACT).record(
        {"floats moved": KindCount(answered=1, refused=0)}
    )
    bench.fresh.messages(np.arange(10))
    told = warnings_of(completed(record, bench.fresh))
    assert told == [
        "changes of requests that were not tried: floats missing: none was drawn; "
        f"one candidate: none was drawn; strings long: {WHY['unstable']}",
        "50% of the values in renewed requests are values of the recording, in other rows "
        "(strings, integers, whole numbers): a table of them would show as a gain",
    ]
    assert warnings_of(None) == []
    many = record.model_copy(update={"not_tried": [f"k{i}: none was drawn" for i in range(11)]})
    assert f"k{MOST_NAMED - 1}: none was drawn; and 3 more" in warnings_of(many)[0]


def test_how_the_stack_takes_changes_is_kept_in_the_journal(tmp_path):
    bench = bench_of(tmp_path)
    kept = _mutations(bench.mutator)
    assert kept is not None
    read = MutationsRecord.model_validate_json(kept.model_dump_json())
    again = _mutator(SimpleNamespace(traffic=bench.load.traffic), read)
    assert again is not None
    assert (again.taken, again.outputs) == (bench.mutator.taken, ("y",))
    assert _mutations(None) is None
    assert _mutations(Mutator(WIDE)) is None
    assert _mutator(None, None) is None


def test_the_first_request_of_a_server_has_no_id_of_the_recording(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "layers.measure.launch.Deployment", lambda *_, probe, **__: seen.append(probe)
    )
    bench = bench_of(tmp_path)
    manifest = SimpleNamespace(server=SimpleNamespace(address=None, cpus=None, start_timeout_s=1.0))
    for probed in (True, True, False):
        object.__setattr__(bench, "manifest", manifest)
        bench.deploy(None, "x", probed=probed)
    assert seen[2] is None
    assert content(seen[0]) == content(seen[1]) == content(WIDE[0])
    ids = {service_pb2.ModelInferRequest.FromString(m).id for m in (*seen[:2], WIDE[0])}
    assert len(ids) == 3
