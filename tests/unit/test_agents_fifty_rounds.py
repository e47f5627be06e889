"""Fifty rounds of agents: memory and cards stay within their bounds and forget no verdict."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest

from knowledge.cards import MAX_FINDINGS, MAX_SKILL_BYTES, TRIED, SkillCard
from knowledge.memory import MOST_BYTES, Memory, parsed, rendered
from knowledge.refine import merge_findings
from knowledge.store import builtin_directory, load_cards
from knowledge.yamlfile import loads
from layers.agents.memory import backlog, kept
from layers.base import Ground
from layers.evidence import Iteration, Verdict
from layers.findings import finding
from tests.agents_judged import judged, plan

ROUNDS = 50
FIRST_DAY = date(2026, 1, 1)
HERE = Path("memory.yaml")
WIDE = "ü" * 5000  # two bytes each: the bound is in bytes
ENDS = (
    (Verdict.ACCEPTED, "gain_confirmed", 1.08),
    (Verdict.REJECTED, "below_noise_floor", 1.003),
    (Verdict.REJECTED, "slower", 0.93),
    (Verdict.REJECTED, "outputs_differ", None),
    (Verdict.INCONCLUSIVE, "last_look_reached", 1.01),
    (Verdict.FAILED, "tool_failed", None),
)
CARDS = load_cards(builtin_directory())
TRIED_CARDS = [CARDS.for_layer("features")[0].id, CARDS.skills[0].id]


def name_of(n: int) -> str:
    return f"round-{n:03}-".ljust(63, "x")  # as long as an id may be


def end_of(n: int) -> tuple[Verdict, str, float | None]:
    return ENDS[n % len(ENDS)]


def test_a_memory_keeps_every_accepted_and_refuted_finding_of_fifty_rounds() -> None:
    memory, told = Memory(), {"accepted": set[str](), "refuted": set[str]()}
    for n in range(ROUNDS):
        memory = backlog.opened(memory, plan(name_of(n), claim=WIDE[:1500]), f"run-{n // 5}")
        memory = backlog.started(memory, name_of(n))
        one = judged(*end_of(n), issue=name_of(n), commit=f"{n:040x}", detail=WIDE)
        signs, today = backlog.saw_signs(one), FIRST_DAY + timedelta(days=n)
        memory = backlog.settled(memory, one, signs, WIDE, today)
        memory = backlog.noted(memory, f"round {n}\n{WIDE}")
        kind = backlog.kind_of(one)
        if kind in {"done", "design"}:
            told["accepted" if kind == "done" else "refuted"].add(name_of(n))
        assert len(rendered(memory).encode()) <= MOST_BYTES
        if n % 5 == 4:  # a run ends, and the next one begins with the file
            memory = parsed(kept.file_for(memory)[1].decode(), HERE)
    assert {verdict: memory.named(verdict) for verdict in told} == told
    assert list(map(len, told.values())) == [9, 17]
    assert memory.earlier.more_accepted == memory.earlier.more_refuted == 0
    assert memory.findings[0].issue == name_of(ROUNDS - 1)
    assert memory.issue(name_of(ROUNDS - 3)) is not None  # of a tool that broke: still open
    assert parsed(rendered(memory), HERE) == memory


def test_a_refuted_issue_is_refuted_still_once_its_text_is_gone() -> None:
    slower = judged(Verdict.REJECTED, "slower", 0.93, issue="the-first")
    signs = backlog.saw_signs(slower)
    memory = backlog.settled(Memory(), slower, signs, "Its copies cost as much.", FIRST_DAY)
    for n in range(4 * ROUNDS):
        good = judged(Verdict.ACCEPTED, "gain_confirmed", 1.08, issue=name_of(n))
        memory = backlog.settled(memory, good, signs, WIDE, FIRST_DAY)
    assert memory.issue("the-first") is None
    assert "the-first" not in {found.issue for found in memory.findings}
    assert memory.named("refuted") == {"the-first"}
    assert memory.named("accepted") == {name_of(n) for n in range(4 * ROUNDS)}
    assert len(rendered(memory).encode()) <= MOST_BYTES


def ground_of(n: int) -> Ground:
    return Ground(
        date=FIRST_DAY + timedelta(days=n),
        stack="ads-serving",
        commit=f"{n:040x}",
        hardware="Intel Xeon Platinum 8481C @ 2.70GHz, 1 CPU",
        versions={"triton": "2.51.0", "numpy": "1.26.4", "torch": "2.9.1"},
        workload=f"{n:012x}",
        run=f"run-{n}",
        fvec="0.1.0",
        code={"features": f"{n:064x}"},
    )


def tried(card: str, n: int) -> Iteration:
    """A candidate of the cookbook's card, or one of an agent that applied the skill."""
    skill = isinstance(CARDS.get(card), SkillCard)
    if skill:
        one = judged(*end_of(n), issue=name_of(n), skill=card)
    else:
        one = judged(*end_of(n), issue=card, proposer="cookbook")
    return one.model_copy(update={"base_commit": f"{n:040x}"})


@pytest.mark.parametrize("card", TRIED_CARDS)
def test_a_card_counts_every_verdict_of_fifty_rounds_and_stays_short(card) -> None:
    text, counts = CARDS.path_of(card).read_text("utf-8"), Counter[str]()
    skill = isinstance(CARDS.get(card), SkillCard)
    most = MAX_SKILL_BYTES if skill else len(text.encode()) + 14 * 1024  # 12 findings, best, last
    for n in range(ROUNDS):
        ground = ground_of(n)
        found = finding(tried(card, n), ground)
        text = merge_findings(text, [found], today=ground.date)
        counts[found.verdict] += 1
        assert len(text.encode()) <= most
    refined = loads(text, HERE, TRIED)
    assert 1 <= len(refined.findings) <= MAX_FINDINGS
    assert refined.earlier is not None
    there = Counter(found.verdict for found in refined.findings)
    for verdict, count in counts.items():
        assert there[verdict] + getattr(refined.earlier, verdict) == count
    assert refined.findings[0].run == f"run-{ROUNDS - 1}"
