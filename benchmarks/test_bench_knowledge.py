"""Cards: loading the packaged ones, and merging a finding into a full one."""

from __future__ import annotations

from datetime import date, timedelta

from pytest_benchmark.fixture import BenchmarkFixture

from knowledge.cards import MAX_FINDINGS, Finding
from knowledge.refine import merge_finding
from knowledge.store import builtin_directory, load_cards

CARD = "concat-to-slices"
FIRST_DAY = date(2026, 1, 1)


def finding(n: int) -> Finding:
    """Return a finding of its own day and commit."""
    return Finding(
        date=FIRST_DAY + timedelta(days=n),
        stack="ads-serving",
        commit=f"{n:040x}",
        verdict="accepted",
        reason="gain_confirmed",
        gain=1.25,
        ci=(1.21, 1.29),
        share=0.31,
        hardware="x86-64, 2 cores",
        versions={"python": "3.11.7", "server": "2.51.0"},
    )


def full_card() -> str:
    """Return the text of a packaged card that holds as many findings as it may."""
    text = load_cards(builtin_directory()).path_of(CARD).read_text("utf-8")
    for n in range(MAX_FINDINGS):
        text = merge_finding(text, finding(n))
    return text


def test_merge_finding(benchmark: BenchmarkFixture) -> None:
    """Time one merge; the oldest finding makes room."""
    benchmark.group = "cards"
    benchmark(merge_finding, full_card(), finding(MAX_FINDINGS))


def test_load_cards(benchmark: BenchmarkFixture) -> None:
    """Time loading every packaged card."""
    benchmark.group = "cards"
    benchmark(load_cards, builtin_directory())
