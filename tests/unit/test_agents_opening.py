"""What proposers are opened with: their part of what may be spent, and the sandbox of the run."""

from types import SimpleNamespace

import pytest

from layers.agent_settings import BudgetSection
from layers.agents import opening
from layers.agents.opening import shard_share, shared_out
from layers.base import LayerName
from layers.loop.instruments import Live
from layers.manifest import SandboxMode, SandboxSection
from layers.sandbox.box import Sandbox
from layers.shards import Shard, matrix
from tests.agents_situation import manifest

LAYERS = (LayerName.FEATURES, LayerName.SERVER, LayerName.CONFIG)
BUDGET = BudgetSection(usd=5, tokens=100_000, minutes=60, rounds=4)


def _manifest(candidates: int):
    budget = manifest().budget.model_copy(update={"candidates": candidates})
    return manifest().model_copy(update={"layers": list(LAYERS), "budget": budget})


def _budget(shard: str, layers, candidates: int) -> BudgetSection:
    part = Shard.read(shard) if shard else None
    return shared_out(BUDGET, shard_share(part, _manifest(candidates), layers))


@pytest.mark.parametrize(("candidates", "shards"), [(3, 1), (10, 2), (12, 4), (7, 2)])
def test_the_jobs_of_a_run_spend_together_what_one_run_may(candidates, shards):
    jobs = matrix(candidates, LAYERS, LAYERS, shards)
    parts = [_budget(job.shard, [LayerName(job.layer)], candidates) for job in jobs]
    assert len(parts) > 1
    assert sum(part.usd or 0 for part in parts) == pytest.approx(5)
    assert sum(part.minutes for part in parts) == pytest.approx(60)
    assert 100_000 - len(parts) <= sum(part.tokens for part in parts) <= 100_000
    assert {part.rounds for part in parts} == {4}
    assert all(part.tokens > 0 for part in parts)


def test_a_run_by_itself_spends_it_all():
    assert _budget("", LAYERS, 10) == BUDGET
    assert _budget("", [LayerName.FEATURES], 10) == BUDGET


def test_money_without_a_bound_stays_without_one():
    assert shared_out(BudgetSection(), 0.5).usd is None


def test_the_sandbox_of_a_session_is_not_proven_again(monkeypatch):
    def proven_again(section: SandboxSection) -> Sandbox:
        raise AssertionError(f"proven again: {section}")

    weak = SandboxSection(mode=SandboxMode.PROCESS)
    own = Sandbox.open(weak)
    session = SimpleNamespace(sandbox=own, stack=SimpleNamespace())
    monkeypatch.setattr(Sandbox, "open", proven_again)
    assert opening._sandbox(Live(session, seed=0, on_look=print)) is own


def test_made_up_instruments_have_no_session_and_open_the_sandbox_of_the_manifest():
    section = SandboxSection(mode=SandboxMode.PROCESS, memory_gib=2)
    stack = SimpleNamespace(manifest=SimpleNamespace(sandbox=section))
    found = opening._sandbox(SimpleNamespace(stack=stack))
    assert found == Sandbox.open(section)
