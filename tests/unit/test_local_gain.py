"""What the changed part gained by itself: its layer's measurement decides, one process's CPU is told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName
from layers.evidence import Block, LocalGain
from layers.trial.trial import Trial, TrialEnded
from layers.trial.verify import Verifier


def trial(candidate_cpu_s: float) -> Trial:
    """A trial of model `m` whose process took a second of CPU a block before."""
    hypothesis = Hypothesis(
        layer=LayerName.CONFIG,
        card="instances",
        model="m",
        title="Title",
        why="because",
        share=0.5,
        expected_gain=0.2,
        best_gain=0.4,
        change_class=ChangeClass.CONFIG,
        transform="instances",
    )
    edit = Edit({"models/m/config.pbtxt": b""}, "Do it", "It is right.")
    made = Trial(1, Candidate(hypothesis, edit, "b", "c0", "c1", Path("w"), "patch"))
    spent = {"baseline": 1.0, "candidate": candidate_cpu_s}
    made.block_cpu = [{arm: block(arm, cpu_s) for arm, cpu_s in spent.items()}] * 4
    return made


def block(arm: str, cpu_s: float) -> Block:
    return Block(
        arm=arm,
        measure="work",
        launch=1,
        pair=1,
        position=1,
        requests=100,
        completed=100,
        errors=0,
        wall_s=1.0,
        rate=100.0,
        cpu_s={"m": cpu_s, "tritonserver": 1.0},
        generator_cpu=0.1,
        neighbour_cpu=0.0,
    )


def local(tried: Trial, own: LocalGain | None = None) -> None:
    verifier = Verifier(SimpleNamespace(), None, None, None, None)
    layer = SimpleNamespace(verify=lambda *_: own)
    verifier._local(tried, layer, None, None)


def test_more_cpu_of_one_process_is_told_and_decides_nothing():
    tried = trial(1.25)
    local(tried)
    assert tried.local is not None
    assert tried.local.ci[1] < 1
    assert tried.warnings == [
        "locally slower: CPU per request of the m process, 4 pairs of blocks: 0.8 times"
    ]
    assert tried.gates == []


def test_less_cpu_is_no_warning():
    tried = trial(0.5)
    local(tried)
    assert (tried.warnings, tried.gates) == ([], [])


def test_what_a_layer_measures_itself_decides():
    tried = trial(0.5)
    own = LocalGain(what="200 strings, interleaved", speedup=0.8, ci=(0.7, 0.9), n=20)
    with pytest.raises(TrialEnded) as ended:
        local(tried, own)
    assert (ended.value.verdict.value, ended.value.reason) == ("rejected", "locally_slower")
    assert tried.local == own
