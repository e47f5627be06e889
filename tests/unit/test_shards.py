"""Shards: whose a hypothesis is, and what the jobs of a matrix are."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.publishing.local import open_local
from layers.base import LayerName
from layers.session import RunOptions, run_id
from layers.shards import Job, Shard, matrix

LAYERS = [LayerName.FEATURES, LayerName.SERVER, LayerName.CONFIG]


@dataclass(frozen=True)
class Change:
    card: str
    model: str


def test_a_shard_is_written_as_it_is_read():
    assert Shard.read("2/3") == Shard(2, 3)
    assert str(Shard(2, 3)) == "2/3"


@pytest.mark.parametrize(
    "text", ["", "1", "0/2", "3/2", "1/65", "1/0", "01/2", " 1/2", "1/2\n", "½", "1/2/3", "-1/2"]
)
def test_what_is_no_part_of_a_run_is_refused(text):
    with pytest.raises(ValueError, match="no part of a run"):
        Shard.read(text)


def test_parts_that_begin_in_the_same_second_have_names_of_their_own():
    options = RunOptions(Path("out"), None, None, 0, None, open_local)
    whose = [None, (LayerName.SERVER,), (LayerName.CONFIG,), (LayerName.SERVER, LayerName.CONFIG)]
    parts = [
        replace(options, layers=layers, shard=shard)
        for layers in whose
        for shard in (None, Shard(1, 1), Shard(1, 2), Shard(2, 2))
    ]
    names = {run_id("c" * 40, "2026-01-02T03:04:05+00:00", part) for part in parts}
    assert len(names) == len(parts)


def test_the_deal_is_the_same_on_every_machine():
    # Written down: another hash would deal a run that is under way anew.
    dealt = {
        card: next(k for k in (1, 2, 3) if Shard(k, 3).takes(Change(card, "features")))
        for card in ("lookups-one-pass", "native-string-tensors", "regex-per-call")
    }
    assert dealt == {"lookups-one-pass": 3, "native-string-tensors": 2, "regex-per-call": 1}


def test_card_and_model_both_decide():
    both = {Shard(1, 2).takes(Change("card", f"model-{number}")) for number in range(20)}
    assert both == {True, False}


def test_candidates_that_do_not_divide_go_to_the_first_shards():
    allowed = {
        (layer, number): Shard(number, 2).allowance(10, LAYERS, [layer])
        for number in (1, 2)
        for layer in LAYERS
    }
    assert allowed == {
        (LayerName.FEATURES, 1): 2,
        (LayerName.SERVER, 1): 2,
        (LayerName.CONFIG, 1): 2,
        (LayerName.FEATURES, 2): 2,
        (LayerName.SERVER, 2): 1,
        (LayerName.CONFIG, 2): 1,
    }


def test_a_shard_of_all_layers_may_try_what_its_layers_may():
    assert [Shard(number, 2).allowance(10, LAYERS, LAYERS) for number in (1, 2)] == [6, 4]


def test_a_matrix_has_a_job_for_each_layer_and_shard():
    assert matrix(10, LAYERS[:2], LAYERS[:2], 2) == [
        Job("features", "1/2", "features-1-of-2"),
        Job("features", "2/2", "features-2-of-2"),
        Job("server", "1/2", "server-1-of-2"),
        Job("server", "2/2", "server-2-of-2"),
    ]


def test_a_matrix_has_no_job_without_a_candidate():
    assert matrix(4, LAYERS[:2], LAYERS[:1], 50) == [
        Job("features", "1/2", "features-1-of-2"),
        Job("features", "2/2", "features-2-of-2"),
    ]


def test_fewer_candidates_than_layers_cannot_be_shared_out():
    with pytest.raises(ValueError, match="2 candidates are too few for 3 layers"):
        matrix(2, LAYERS, LAYERS, 1)


def test_a_matrix_of_no_shards_is_one_job_for_the_whole_run():
    assert matrix(2, LAYERS, LAYERS, 0) == [Job("", "", "whole")]


def test_a_whole_run_can_be_of_some_layers():
    assert matrix(2, LAYERS, LAYERS[1:], 0) == [Job("server,config", "", "whole")]
