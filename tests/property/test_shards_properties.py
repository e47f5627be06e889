"""Sharing a run out: nothing is tried twice, nothing is left out, and no more than is allowed."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from layers.base import LayerName
from layers.shards import MOST_SHARDS, Shard, matrix

layers = st.lists(st.sampled_from(list(LayerName)), min_size=1, unique=True)
counts = st.integers(1, MOST_SHARDS)
texts = st.text(max_size=30)


@dataclass(frozen=True)
class Change:
    card: str
    model: str


def parts(count: int) -> list[Shard]:
    return [Shard(number, count) for number in range(1, count + 1)]


@given(texts, texts, counts)
def test_every_hypothesis_is_of_exactly_one_shard(card, model, count):
    assert sum(shard.takes(Change(card, model)) for shard in parts(count)) == 1


@given(st.integers(1, 1000), layers, counts)
def test_all_jobs_together_may_try_what_the_run_may(candidates, names, count):
    allowed = [
        shard.allowance(candidates, names, [name]) for shard in parts(count) for name in names
    ]
    assert sum(allowed) == candidates
    assert max(allowed) - min(allowed) <= 1


@given(st.integers(1, 1000), layers, counts, st.data())
def test_a_shard_may_try_the_sum_of_its_layers(candidates, names, count, data):
    own = data.draw(st.lists(st.sampled_from(names), unique=True))
    for shard in parts(count):
        apart = sum(shard.allowance(candidates, names, [name]) for name in own)
        assert shard.allowance(candidates, names, own) == apart


@given(st.integers(1, 200), layers, st.integers(0, 99), st.data())
def test_no_job_of_a_matrix_is_without_a_candidate_or_a_name_of_its_own(
    candidates, names, shards, data
):
    own = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    if shards and candidates < len(names):
        return
    jobs = matrix(candidates, names, own, shards)
    assert len({job.name for job in jobs}) == len(jobs)
    shared = [(Shard.read(job.shard), LayerName(job.layer)) for job in jobs if job.shard]
    assert bool(shared) == bool(shards)
    assert all(shard.allowance(candidates, names, [layer]) for shard, layer in shared)
    tried = sum(shard.allowance(candidates, names, [layer]) for shard, layer in shared)
    assert tried <= candidates
    for layer in own if shared else []:  # each of a layer's shards is there
        of_layer = [shard for shard, name in shared if name is layer]
        assert sorted(shard.number for shard in of_layer) == list(range(1, len(of_layer) + 1))
        assert {shard.count for shard in of_layer} == {len(of_layer)}
