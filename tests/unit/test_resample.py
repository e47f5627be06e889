"""Runs drawn from recorded launches, and the recordings themselves."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from layers.base import ChangeClass
from layers.errors import InvalidInput
from layers.evidence import Block, Environment, JudgeReport, Noise, Pair, Verdict
from layers.measure.boundaries import LookPlan
from layers.measure.recordings import (
    RecordedLaunch,
    RecordedPair,
    Recording,
    line,
    parse,
    read,
    recording,
)
from layers.measure.resample import Pool, pool_of, resample
from layers.measure.stats import look, noise_floor

PLAN = LookPlan(candidates=10)


def pair(baseline, candidate, **more):
    return RecordedPair(
        ratio=candidate / baseline,
        rates=[baseline, candidate],
        cpu_ms=[20.0, 20.0],
        first="baseline",
        **more,
    )


def launch(logs, kind="candidate", number=1, level=50.0):
    pairs = [pair(level, level * math.exp(x)) for x in logs]
    return RecordedLaunch(kind=kind, number=number, pairs=pairs)


def recorded(launches, **more):
    return Recording.model_validate(
        {
            "patch": "a comment before line 3 of models/features/1/model.py",
            "session": "s",
            "patch_sha256": "0" * 64,
            "seed": 1,
            "change_class": "exact",
            "candidates": 1,
            "verdict": "rejected",
            "reason": "below_noise_floor",
            "floor_pct": 2.0,
            "looks": [],
            "launches": [found.model_dump() for found in launches],
            "machine": "a CPU, 2 cores",
            "versions": {"server": "tritonserver 2.69.0"},
            "commit": "1" * 40,
            "recorded_at": "2026-01-01T00:00:00+00:00",
            "wall_s": 70.0,
            **more,
        },
        strict=False,
    )


def machine(count, pair_sd, launch_sd, seed=1):
    """Return recordings of two A/A launches and two of the candidate each."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        logs = rng.normal(0, launch_sd, (4, 1)) + rng.normal(0, pair_sd, (4, 4))
        kinds = [("noise", 1), ("noise", 2), ("candidate", 1), ("candidate", 2)]
        level = float(rng.normal(50, 1))
        rows = zip(logs, kinds, strict=True)
        found.append(recorded([launch(x, kind, n, level) for x, (kind, n) in rows]))
    return found


# --- the file


def test_a_recording_survives_its_line(tmp_path):
    found = recorded([launch([0.01, -0.01, 0.0, 0.005], "noise"), launch([0.0] * 4)])
    file = tmp_path / "noop.jsonl"
    file.write_text(line(found) + "\n" + line(found) + "\n")
    assert read(file) == [found, found]
    assert json.loads(line(found))["schema"] == "fvec.launches/1"


def test_sixty_recordings_are_well_below_a_megabyte():
    size = sum(len(line(found)) for found in machine(60, 0.01, 0.005))
    assert size < 300_000


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (
            lambda d: d["launches"][0]["pairs"][0].update(ratio=1.5),
            "ratio is not that of the rates",
        ),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d.update(schema="fvec.launches/2"), "schema"),
        (lambda d: d.pop("seed"), "seed"),
        (lambda d: d.update(seed="1"), "seed"),
        (lambda d: d["launches"][0]["pairs"][0].update(rates=[50.0]), "rates"),
        (lambda d: d["launches"][0]["pairs"][0].update(rates=[0.0, 0.0]), "ratio"),
        (lambda d: d.update(verdict="perhaps"), "verdict"),
    ],
)
def test_a_line_that_is_no_recording_is_refused_with_its_place(edit, told):
    good = line(recorded([launch([0.0] * 4)]))
    data = json.loads(good)
    edit(data)
    with pytest.raises(InvalidInput, match=r"noop\.jsonl:2") as caught:
        parse([good, json.dumps(data)], Path("noop.jsonl"))
    assert told in str(caught.value)
    assert caught.value.hint == "remove the line and record again: make record-noise"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ratio": NaN}'])
def test_a_line_that_is_no_json_document_is_refused(text):
    with pytest.raises(InvalidInput, match="noop"):
        parse([text], Path("noop.jsonl"))


def test_a_file_that_is_missing_says_how_to_make_it(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path / "none.jsonl")
    assert caught.value.hint == "record it: make record-noise"


# --- from a judgement


def block(arm, launch_number, number, rate, **more):
    position = {"baseline": 1, "candidate": 2}[arm]
    fields = {"measure": "work", "requests": 60, "completed": 60, "errors": 0, "wall_s": 60 / rate}
    fields |= {
        "cpu_s": {"features": 0.6, "ranker": 0.3},
        "generator_cpu": 0.1,
        "neighbour_cpu": 0.0,
    }
    return Block.model_validate(
        fields
        | {"arm": arm, "launch": launch_number, "pair": number, "position": position, "rate": rate}
        | more
    )


def both(launch_number, number, ratio, **more):
    return [
        block("baseline", launch_number, number, 20.0, **more),
        block("candidate", launch_number, number, 20.0 * ratio, **more),
    ]


def judged(blocks, pairs):
    environment = Environment(
        cpu="a CPU", cores=2, memory_gib=8, kernel="Linux", python="3.11", server="tritonserver 1"
    )
    return JudgeReport(
        target="patch",
        subject="no-op 1 on ads-serving",
        change_class=ChangeClass.EXACT,
        verdict=Verdict.REJECTED,
        reason="below_noise_floor",
        noise=Noise(work=noise_floor([[0.01, -0.01]])),
        looks=[look([[0.0, 0.001, -0.001, 0.0]], noise_floor([[0.01, -0.01]]), PLAN)],
        pairs=pairs,
        environment=environment,
        seed=7,
        patch_sha256="a" * 64,
        blocks=blocks,
        wall_s=61.04,
    )


def kept(pairs):
    return [
        Pair(launch=number, pair=n, throughput_ratio=r, cpu_ratio=1.0) for number, n, r in pairs
    ]


def as_recording(report, *, calibrated=True):
    return recording(
        report,
        "a comment",
        candidates=1,
        session="s",
        calibrated=calibrated,
        recorded_at="2026-01-01T00:00:00+00:00",
    )


def test_later_judgements_of_a_session_have_no_a_a_launches_of_their_own():
    blocks = [*both(1, 1, 1.02), *both(1, 2, 0.98), *both(2, 1, 1.01)]
    found = as_recording(
        judged(blocks, kept([(1, 1, 1.02), (1, 2, 0.98), (2, 1, 1.01)])), calibrated=False
    )
    assert [(x.kind, x.number) for x in found.launches] == [("candidate", 1), ("candidate", 2)]


def test_a_judgement_is_recorded_with_its_a_a_launches_and_every_void_pair():
    blocks = [
        *both(0, 0, 1.0, measure="tail"),
        *both(1, 1, 1.01, started_at=100.0),
        *both(1, 2, 0.99, started_at=106.5),
        *both(2, 1, 1.0),
        *both(1, 1, 1.02),
        *both(1, 2, 1.5, void="neighbour_busy"),
        *both(1, 3, 1.4),
        *both(1, 4, 0.98),
    ]
    report = judged(blocks, kept([(1, 1, 1.02), (1, 4, 0.98)]))
    found = as_recording(report)
    shape = [(x.kind, x.number, [(p.ratio, p.void) for p in x.pairs]) for x in found.launches]
    assert shape == [
        ("noise", 1, [(1.01, None), (0.99, None)]),
        ("noise", 2, [(1.0, None)]),
        (
            "candidate",
            1,
            [(1.02, None), (1.5, "neighbour_busy"), (1.4, "not_judged"), (0.98, None)],
        ),
    ]
    first = found.launches[0].pairs
    assert (first[0].cpu_ms, first[0].rates, first[0].first) == (
        [15.0, 15.0],
        [20.0, 20.2],
        "baseline",
    )
    assert [p.at_s for p in first] == [0.0, 6.5]
    assert (found.seed, found.wall_s, found.patch_sha256) == (7, 61.0, "a" * 64)
    assert [(x.k, x.decision) for x in found.looks] == [(1, report.looks[0].decision)]
    assert parse([line(found)], Path("x")) == [found]


def test_a_report_whose_blocks_are_not_those_of_its_pairs_is_not_recorded():
    blocks = [*both(1, 1, 1.0), *both(2, 1, 1.0), *both(1, 1, 1.02)]
    for pairs, told in (
        ([(1, 1, 1.03)], "not those of its ratio"),
        ([(1, 2, 1.0)], "without blocks"),
    ):
        with pytest.raises(ValueError, match=told):
            as_recording(judged(blocks, kept(pairs)))


# --- the pool


def test_the_pool_holds_whole_launches_and_their_next_ones():
    short = launch([0.0, 0.0, 0.0])
    void = RecordedLaunch(
        kind="candidate",
        number=3,
        pairs=[pair(50.0, 80.0, void="neighbour_busy"), *launch([0.03] * 4).pairs],
    )
    found = pool_of(
        [recorded([launch([0.01] * 4), short, launch([0.02] * 5)]), recorded([void])], pairs=4
    )
    assert np.allclose(found.log_ratios, [[0.01] * 4, [0.02] * 4, [0.03] * 4])
    assert found.after.tolist() == [1, 0, 2]
    assert np.allclose(np.exp(found.log_rates[:, 0]), 50.0)


def test_a_pool_of_one_launch_is_refused():
    with pytest.raises(ValueError, match="at least two recorded launches"):
        pool_of([recorded([launch([0.0] * 4)])], pairs=4)


# --- runs drawn from it


def test_runs_of_a_quiet_machine_hold_hardly_a_false_accept():
    found = resample(pool_of(machine(30, 0.01, 0.005), 4), PLAN, 10_000, seed=1)
    assert list(found) == [
        "fvec",
        "published, 6 %",
        "published, measured",
        "fixed 5 %",
        "sequential",
    ]
    assert found["fvec"].runs == 10_000
    assert found["fvec"].per_run_at_most < 0.01
    assert found["published, measured"].per_run > 0.3
    assert found["sequential"].per_run > 0.3


def test_a_planted_gain_is_found_and_by_later_looks_more_often():
    pool = pool_of(machine(60, 0.02, 0.005), 4)
    found = resample(pool, PLAN, 1000, seed=1, ratio=1.03, symmetric=True)["fvec"]
    assert found.per_candidate >= 0.88  # sixty judgements are one draw of a machine
    assert list(found.by_look) == sorted(found.by_look)
    assert found.by_look[-1] == found.per_candidate


def test_a_difference_that_all_launches_share_is_removed_only_by_exchanging_arms():
    rng = np.random.default_rng(1)
    logs = 0.05 + rng.normal(0, 0.001, (50, 4))
    rates = np.stack([np.zeros((50, 4)), logs], axis=1)
    pool = Pool(logs, rates, np.roll(np.arange(50), -1))
    plain = resample(pool, PLAN, 500, seed=1)["published, 6 %"]
    turned = resample(pool, PLAN, 500, seed=1, symmetric=True)["published, 6 %"]
    assert plain.per_candidate == 1.0
    assert turned.per_candidate < 0.5


def test_draws_repeat_with_their_seed():
    pool = pool_of(machine(10, 0.02, 0.01), 4)
    assert resample(pool, PLAN, 300, seed=4) == resample(pool, PLAN, 300, seed=4)
    assert resample(pool, PLAN, 300, seed=4) != resample(pool, PLAN, 300, seed=5)
