from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.cards import MAX_FINDINGS, CookbookCard, Finding
from knowledge.refine import Ground, bounded, is_refuted, merge_finding, still_counts
from knowledge.yamlfile import YamlError, loads

TODAY = date(2026, 11, 29)
HEAD = """\
# what a person wrote
schema:   fvec.card/1   # two spaces
kind: cookbook
id: a-card
layer: server
title: 'single quoted'
symptom: >
  folded
  text
why: "double \\t quoted"
change: |
  # not a comment
  - not a finding
transform: rewrite
change_class: exact
exactness: same
gain: {expected: 0.5,   best: 0.9}
sources:
    - title: indented by four
      url: https://example.com/a
"""
BLOCK = """\
findings:
  # newest first
  - date: 2026-11-01
    stack: ads   # the big one
    commit: "0123456"
    verdict: rejected
    reason: below_noise
    hardware: xeon
  # about the older one
  - date: 2026-10-01
    stack: search
    commit: 1e3x
    verdict: accepted
    reason: |
      # kept
    hardware: xeon
# the end
"""


def finding(**changes: object) -> Finding:
    values = {
        "date": TODAY,
        "stack": "ads",
        "commit": "abc",
        "verdict": "accepted",
        "reason": "gain_above_floor",
        "hardware": "xeon",
    }
    return Finding.model_validate({**values, **changes})


def test_a_new_finding_is_written_on_top_and_every_other_byte_stays() -> None:
    new = finding(
        gain=1.25, ci=(1.2, 1.3), share=0.45, versions={"triton": "2.51.0", "python": "3.11"}
    )
    inserted = """\
  - date: 2026-11-29
    stack: ads
    commit: abc
    verdict: accepted
    reason: gain_above_floor
    gain: 1.25
    ci: [1.2, 1.3]
    share: 0.45
    hardware: xeon
    versions:
      triton: 2.51.0
      python: '3.11'
"""
    before, after = BLOCK.split("  - date: 2026-11-01", 1)
    expected = f"{HEAD}{before}{inserted}  - date: 2026-11-01{after}"
    assert merge_finding(HEAD + BLOCK, new) == expected


def test_a_finding_of_the_same_stack_and_commit_is_replaced() -> None:
    text = merge_finding(HEAD + BLOCK, finding(commit="0123456", reason="again"))
    card = loads(text, Path("c.yaml"), CookbookCard)
    assert [(f.commit, f.reason) for f in card.findings] == [
        ("0123456", "again"),
        ("1e3x", "# kept\n"),
    ]
    assert text.startswith(f"{HEAD}findings:\n  # newest first\n  - date: 2026-11-29\n")
    assert text.endswith(BLOCK[BLOCK.index("  # about the older one") :])


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("", "findings:\n  - date: "),
        ("findings: []\n", "findings:\n  - date: "),
        ("findings: []  # none yet\nwhen_not: []\n", "findings:  # none yet\n  - date: "),
        ("when_not: []\n# the end", "when_not: []\nfindings:\n  - date: "),
    ],
)
def test_a_card_without_findings_gets_its_first(tail: str, expected: str) -> None:
    text = merge_finding(HEAD + tail, finding())
    assert text.startswith(HEAD + expected)
    assert list(loads(text, Path("c.yaml"), CookbookCard).findings) == [finding()]
    assert merge_finding(text, finding()) == text


def test_windows_line_ends_stay() -> None:
    text = merge_finding((HEAD + BLOCK).replace("\n", "\r\n"), finding())
    assert text == merge_finding(HEAD + BLOCK, finding()).replace("\n", "\r\n")


@pytest.mark.parametrize("odd", ["\x85", "a\u2028b", "\u2029", "\ufeffx"])
def test_characters_that_yaml_breaks_lines_at_survive(odd: str) -> None:
    new = finding(stack=odd, versions={"triton": odd})
    assert loads(merge_finding(HEAD, new), Path("c.yaml"), CookbookCard).findings == [new]


def test_a_card_that_cannot_be_read_is_refused_with_its_place() -> None:
    with pytest.raises(YamlError, match=r"card.yaml:3:1: verdct: unknown key"):
        merge_finding("schema: fvec.card/1\nkind: cookbook\nverdct: 1\n", finding())


def test_beyond_the_bound_the_oldest_repetition_goes_first() -> None:
    unique = finding(date=TODAY - timedelta(days=900), stack="only", commit="u")
    repeated = [
        finding(date=TODAY - timedelta(days=i), commit=f"c{i}") for i in range(1, MAX_FINDINGS)
    ]
    new = finding(stack="new")
    kept = bounded([new, *repeated, unique], keep=new)
    assert kept == [new, *repeated[:-1], unique]


def full_block() -> str:
    text = HEAD
    for i in range(MAX_FINDINGS):
        text = merge_finding(text, finding(commit=f"c{i}", date=TODAY - timedelta(days=i)))
    return text.removeprefix(HEAD) + "# the end\n"


FULL_BLOCK = full_block()


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_merging_touches_only_the_findings(data: st.DataObject) -> None:
    words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)
    text = HEAD + data.draw(st.sampled_from(["", "findings: []\n", BLOCK, FULL_BLOCK]))
    for _ in range(data.draw(st.integers(1, 3))):
        new = finding(
            date=data.draw(st.dates(date(2020, 1, 1), date(2030, 1, 1))),
            stack=data.draw(words),
            commit=data.draw(words | st.sampled_from(["012", "1e3", "0x1", "1_0", "yes", "~", ""])),
            reason=data.draw(words),
            gain=data.draw(st.none() | st.floats(0.1, 10)),
            verdict=data.draw(st.sampled_from(["accepted", "rejected", "failed"])),
        )
        before = loads(text, Path("c.yaml"), CookbookCard)
        text = merge_finding(text, new)
        after = loads(text, Path("c.yaml"), CookbookCard)
        assert text.startswith(HEAD)
        assert text.endswith("# the end\n") == ("# the end\n" in text)
        assert after == before.model_copy(update={"findings": list(after.findings)})
        assert new in after.findings
        assert list(after.findings) == bounded(after.findings)
        assert {*map(repr, after.findings)} <= {*map(repr, before.findings), repr(new)}


GROUND = Ground("ads", "w1", "xeon", {"triton": "2.51.0", "numpy": "1.26.4"}, TODAY)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"stack": "search"}, False),
        ({"workload": "w2"}, False),
        ({"hardware": "epyc"}, False),
        ({"versions": {"triton": "2.60.0"}}, True),
        ({"versions": {"triton": "3.0.0"}}, False),
        ({"versions": {"numpy": "2.0"}}, False),
        ({"versions": {"torch": "9"}}, True),
        ({"date": TODAY - timedelta(days=89)}, True),
        ({"date": TODAY - timedelta(days=90)}, False),
    ],
)
def test_a_finding_counts_on_the_same_ground_while_it_is_fresh(
    changes: dict[str, object], *, counts: bool
) -> None:
    assert still_counts(finding(**{"workload": "w1", **changes}), GROUND) is counts


@pytest.mark.parametrize(
    ("verdicts", "reason"),
    [
        ([], None),
        (["rejected"], "a-card: rejected on 2026-11-29 at c0 (gain_above_floor)"),
        (["accepted"], None),
        (["inconclusive"], None),
        (["accepted", "rejected"], None),
        (["failed", "rejected"], "a-card: rejected on 2026-11-28 at c1 (gain_above_floor)"),
    ],
)
def test_only_a_rejection_that_nothing_newer_overrules_refutes(
    verdicts: list[str], reason: str | None
) -> None:
    card = loads(HEAD, Path("c.yaml"), CookbookCard)
    findings = [
        finding(verdict=verdict, commit=f"c{i}", date=TODAY - timedelta(days=i))
        for i, verdict in enumerate(verdicts)
    ]
    assert (
        is_refuted(
            card.model_copy(update={"findings": findings}),
            model="features",
            stack="ads",
            workload="",
            hardware="xeon",
            versions={},
            today=TODAY,
        )
        == reason
    )


def test_a_rejection_on_one_model_says_nothing_about_another():
    card = loads(HEAD, Path("c.yaml"), CookbookCard)
    rejected = finding(verdict="rejected", model="ranker", date=TODAY)
    tried = card.model_copy(update={"findings": [rejected]})
    ground = {"stack": "ads", "workload": "", "hardware": "xeon", "versions": {}, "today": TODAY}
    assert is_refuted(tried, model="features", **ground) is None
    assert is_refuted(tried, model="ranker", **ground) is not None
