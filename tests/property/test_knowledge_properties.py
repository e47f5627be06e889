"""Cards that people edited, by hand and badly, under the merge of findings."""

from __future__ import annotations

from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from knowledge.cards import MAX_FINDINGS, CookbookCard
from knowledge.refine import merge_finding
from knowledge.yamlfile import YamlError, loads
from tests.unit.test_knowledge_refine import BLOCK, FULL_BLOCK, HEAD, finding

# Parsing YAML is slow, and a smaller failing card says no more than the one that was found.
CHEAP = settings(deadline=None, max_examples=60, phases=[Phase.generate])
SCRAPS = st.sampled_from(
    [
        "&x ", "*x", "!!str ", "<<: {}\n", "\t", "---\n", "...\n", "%YAML 1.1\n", "'", '"', "- ", ": ",
        "# a comment\n", "\n", "\n\n", "  ", "[", "]", "{", "}", "|\n", ">-\n", "? ", "\u2028", "\x85",
        "\ufeff", "findings: []\n", "earlier: null\n", "earlier:\n", "  # here\n", "\r\n", "e\u0301", "~",
    ]
)  # fmt: skip
CARDS = (HEAD, HEAD + "findings: []\n", HEAD + BLOCK, HEAD + FULL_BLOCK)


def outcome(text: str) -> str | YamlError:
    try:
        return merge_finding(text, finding(commit="new"))
    except YamlError as error:
        return error


@CHEAP
@given(st.sampled_from(CARDS), st.lists(st.tuples(st.floats(0, 1), SCRAPS), min_size=1, max_size=3))
def test_an_odd_card_is_refined_whole_or_refused_with_its_place(card, scraps) -> None:
    for place, scrap in scraps:
        at = int(place * len(card))
        card = card[:at] + scrap + card[at:]
    told = outcome(card)
    if isinstance(told, YamlError):
        assert all(str(problem).startswith("card.yaml") for problem in told.problems)
        return
    before, after = (loads(text, Path("c"), CookbookCard) for text in (card, told))
    assert len(after.findings) == min(MAX_FINDINGS, len(before.findings) + 1)
    assert finding(commit="new") in after.findings
    assert merge_finding(told, finding(commit="new")) == told


@settings(CHEAP, max_examples=5)
@given(st.lists(st.integers(0, len(HEAD + BLOCK)), min_size=1, max_size=4))
def test_comments_on_lines_of_their_own_survive_merges_beyond_the_bound(places) -> None:
    lines = (HEAD + BLOCK).splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if line[:1] != " "] or [0]
    wanted = sorted((starts[place % len(starts)] for place in places), reverse=True)
    for number, start in enumerate(wanted):  # from the end: no insertion moves the next
        lines.insert(start, f"# remark {number}\n")
    text = "".join(lines)
    try:
        loads(text, Path("c"), CookbookCard)
    except YamlError:  # the remark fell into a scalar of several lines
        return
    remarks = [line for line in text.splitlines() if line.startswith("#")]
    for number in range(MAX_FINDINGS + 1):
        text = merge_finding(text, finding(commit=str(number), stack=f"s{number}"))
    assert [line for line in text.splitlines() if line.startswith("#")] == remarks
