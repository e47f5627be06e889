"""Memories of any content: read back as written, bounded without losing a verdict unsaid."""

from __future__ import annotations

from pathlib import Path

from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from knowledge.memory import (
    MOST_FINDING,
    MOST_NOTES,
    MOST_TITLE,
    MOST_WHY,
    Earlier,
    Issue,
    Memory,
    MemoryFinding,
    bounded,
    one_line,
    onto,
    parsed,
    rendered,
    several_lines,
)
from knowledge.yamlfile import YamlError
from tests.unit.test_agents_memory import TEXT

HERE = Path("memory.yaml")
# Parsing YAML is slow, and a smaller memory says no more than the one that was found.
CHEAP = settings(deadline=None, max_examples=60, phases=[Phase.explicit, Phase.generate])
LAYERS = st.sampled_from(["kernel", "graph", "server", "features", "config"])
STATUSES = st.sampled_from(["open", "in_progress", "done", "parked", "abandoned"])
VERDICTS = st.sampled_from(["accepted", "refuted"])
SLUGS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True)
# What YAML would take for something else than a text.
ODD = st.sampled_from(
    ["null", "~", "1e3", ".5e3", "0x1f", "yes", "- a", "a: b", "# a", "&a", "*a", "!a", "%a", '"\\']
)
TEXTS = ODD | st.text(max_size=400)
RATIOS = st.floats(1e-3, 1e3)


def lines(most: int, least: int = 0) -> st.SearchStrategy[str]:
    short = TEXTS.map(lambda text: one_line(text, most))
    return short.filter(lambda text: len(text) >= least)


ISSUES = st.builds(
    Issue,
    id=SLUGS,
    title=lines(MOST_TITLE, 1),
    layer=LAYERS,
    model=lines(200),
    status=STATUSES,
    why=lines(MOST_WHY),
    attempts=st.integers(0, 5),
    commit=st.none() | lines(64),
    run=lines(200),
)
FINDINGS = st.builds(
    MemoryFinding,
    issue=SLUGS,
    change=lines(MOST_TITLE, 1),
    verdict=VERDICTS,
    gain=st.none() | RATIOS,
    ci=st.none() | st.tuples(RATIOS, RATIOS).map(lambda ends: (min(ends), max(ends))),
    why=lines(MOST_FINDING),
    commit=lines(64),
    date=st.dates(),
    skill=st.just("") | SLUGS,
)
NAMES = st.lists(SLUGS, max_size=12, unique=True).map(tuple)
MEMORIES = st.builds(
    Memory,
    issues=st.lists(ISSUES, max_size=8, unique_by=lambda issue: issue.id),
    findings=st.lists(FINDINGS, max_size=8, unique_by=lambda finding: finding.key),
    earlier=st.builds(Earlier, accepted=NAMES, refuted=NAMES),
    notes=st.text(max_size=3000).map(lambda text: several_lines(text, MOST_NOTES)),
)


def size(memory: Memory) -> int:
    return len(rendered(memory).encode())


@CHEAP
@given(MEMORIES)
def test_what_is_written_is_read_back(memory) -> None:
    memory = bounded(memory)
    assert parsed(rendered(memory), HERE) == memory


@CHEAP
@given(MEMORIES, st.integers(400, 4000))
def test_a_bounded_memory_fits_and_loses_no_verdict_that_it_does_not_count(memory, most) -> None:
    small = bounded(memory, most)
    assert size(small) <= most
    assert bounded(small, most) is small
    for verdict in ("accepted", "refuted"):
        before, after = memory.named(verdict), small.named(verdict)
        assert after <= before
        assert len(before) - len(after) == getattr(small.earlier, f"more_{verdict}")
    counted = small.earlier.more_accepted + small.earlier.more_refuted
    assert not counted or not (small.issues or small.findings or small.notes)


@CHEAP
@given(MEMORIES)
def test_what_is_bounded_is_still_a_memory(memory) -> None:
    small = bounded(memory, max(400, size(memory) // 2))
    assert parsed(rendered(small), HERE) == small


@CHEAP
@given(MEMORIES, MEMORIES, MEMORIES)
def test_a_run_on_top_of_a_reviewers_edits_is_a_memory_with_all_that_both_found(
    memory, base, now
) -> None:
    assert onto(memory, base, base) == bounded(memory)  # nobody edited: as the run left it
    assume(now != base)
    merged = onto(memory, base, now)
    Memory.model_validate(merged.model_dump())
    known = {finding.key for finding in [*base.findings, *now.findings]}
    for verdict in ("accepted", "refuted"):
        fresh = [f for f in memory.findings if f.verdict == verdict and f.key not in known]
        assert now.named(verdict) | {f.issue for f in fresh} <= merged.named(verdict)


@given(st.text(), st.integers(1, 50))
def test_any_text_becomes_lines_once_and_for_all(text, most) -> None:
    line, block = one_line(text, most), several_lines(text, most)
    assert line.isprintable()
    assert all(part.isprintable() for part in block.split("\n"))
    assert max(len(line), len(block)) <= most
    assert (one_line(line, most), several_lines(block, most)) == (line, block)
    assert Memory(notes=block).notes == block


SCRAPS = st.sampled_from(
    ["&x ", "*x", "!!str ", "<<: {}\n", "\t", "---\n", "...\n", "'", '"', "- ", ": ", "# c\n", "\n", "  ",
     "[", "]", "{", "}", "|\n", ">-\n", "? ", "\u2028", "\x85", "\ufeff", "\x00", "notes: x\n", "\r\n"]
)  # fmt: skip


@CHEAP
@given(st.lists(st.tuples(st.floats(0, 1), SCRAPS), min_size=1, max_size=4))
def test_a_file_that_was_edited_badly_is_read_whole_or_refused_with_its_place(scraps) -> None:
    text = TEXT
    for place, scrap in scraps:
        at = int(place * len(text))
        text = text[:at] + scrap + text[at:]
    memory, problems = None, ()
    try:
        memory = parsed(text, HERE)
    except YamlError as error:
        problems = error.problems
    assert all(str(problem).startswith("memory.yaml") for problem in problems)
    assert (memory is None) == bool(problems)
    if memory is not None:
        assert parsed(rendered(memory), HERE) == memory
