from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from knowledge.cards import MAX_FINDINGS, CookbookCard, Earlier, Finding
from knowledge.refine import bounded, condensed, merge_finding, merge_findings
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
    before, after = BLOCK.split("  # newest first\n", 1)
    expected = f"{HEAD}{before}{inserted}  # newest first\n{after}"
    assert merge_finding(HEAD + BLOCK, new) == expected


def test_words_right_above_a_finding_stay_with_it_and_words_about_the_list_on_top() -> None:
    noted = BLOCK.replace("  # newest first\n", "  # the list\n\n# wrong:\n  # see 12\n")
    text = HEAD + noted
    for day, commit in ((1, "c1"), (2, "c2")):
        text = merge_finding(text, at(-day, commit=commit))
    assert text.startswith(f"{HEAD}findings:\n  # the list\n\n  - date: 2026-12-01\n")
    assert "hardware: xeon\n# wrong:\n  # see 12\n  - date: 2026-11-01\n" in text.replace(
        "    run: run--1\n", ""
    )
    assert text.endswith(noted[noted.index("# wrong:") :])


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
    kept = bounded([new, *repeated, unique])
    assert kept == [new, *repeated[:-1], unique]


def at(days_ago: int, **changes: object) -> Finding:
    when = TODAY - timedelta(days=days_ago)
    return finding(**{"date": when, "commit": f"c{days_ago}", "run": f"run-{days_ago}"} | changes)


def card_of(text: str) -> CookbookCard:
    return loads(text, Path("c.yaml"), CookbookCard)


def test_what_goes_beyond_the_bound_leaves_counts_the_best_and_the_last() -> None:
    verdicts = ["accepted", "rejected", "inconclusive", "failed"]
    made = [at(i, verdict=verdicts[i % 4], gain=1 + i / 100) for i in range(30)]
    text = HEAD
    for one in reversed(made):
        text = merge_finding(text, one)
    card = card_of(text)
    assert card.findings == made[:MAX_FINDINGS]
    assert card.earlier == Earlier(
        accepted=5,
        rejected=5,
        inconclusive=4,
        failed=4,
        since=made[-1].date,
        best=made[28],
        last=made[MAX_FINDINGS],
    )


def test_the_summary_is_written_behind_the_findings_and_comments_around_it_stay() -> None:
    text = FULL_BLOCK.replace("# the end", "# before\nwhen_not: []\n# the end")
    text = merge_finding(HEAD + text, at(0, commit="new"))
    assert text.endswith(
        """\
earlier:
  accepted: 1
  since: 2026-11-18
  last:
    date: 2026-11-18
    stack: ads
    commit: c11
    verdict: accepted
    reason: gain_above_floor
    hardware: xeon
# before
when_not: []
# the end
"""
    )
    noted = text.replace("earlier:\n", "earlier:  # the bot's\n  # mine\n").replace(
        "  last:\n", "  # about the last\n  last:\n"
    )
    again = merge_finding(noted, at(0, commit="newer"))
    kept = "earlier:  # the bot's\n  # mine\n  # about the last\n  accepted: 2\n"
    assert kept in again
    assert again.endswith("    hardware: xeon\n# before\nwhen_not: []\n# the end\n")


@pytest.mark.parametrize(
    "old", ["earlier: {since: 2026-01-01, last: LAST}", "earlier:", "earlier: null"]
)
def test_a_summary_in_another_style_is_rewritten(old: str) -> None:
    last = "{date: 2026-01-01, stack: s, commit: c, verdict: failed, reason: r, hardware: h}"
    line = old.replace("LAST", last)
    text = merge_finding(f"{HEAD}{line}  # kept\n{FULL_BLOCK}", at(0, commit="new"))
    card = card_of(text)
    assert card.earlier is not None
    assert (card.earlier.count, len(card.findings)) == (1, MAX_FINDINGS)
    assert "earlier:  # kept\n" in text


def test_a_merge_that_is_repeated_changes_nothing_even_where_all_did_not_fit() -> None:
    run = [at(0, model=f"m{i}", stack=f"s{i}") for i in range(MAX_FINDINGS + 5)]
    once = merge_findings(HEAD + BLOCK, run)
    assert card_of(once).earlier is not None
    assert card_of(once).earlier.count == 7
    assert merge_findings(once, run) == once


def test_an_older_run_that_is_merged_late_replaces_nothing() -> None:
    newer, older = finding(reason="newer"), finding(date=date(2026, 1, 1), reason="older")
    assert merge_finding(merge_finding(HEAD, newer), older) == merge_finding(HEAD, newer)


def test_dates_of_the_future_give_way_to_what_a_run_found() -> None:
    never = date(9999, 12, 31)
    block = merge_finding(HEAD, finding(date=never, verdict="rejected"))
    (replaced,) = card_of(merge_findings(block, [finding()], today=TODAY)).findings
    assert replaced == finding()
    text = HEAD
    for number in range(MAX_FINDINGS):
        text = merge_finding(text, finding(date=never, stack=f"s{number}"))
    for day in (2, 1, 0):
        text = merge_findings(text, [at(day)], today=TODAY)
    assert [f for f in card_of(text).findings if f.date != never] == [at(0), at(1), at(2)]


def test_what_a_reviewer_corrects_in_a_finding_survives_the_same_run() -> None:
    made = finding(run="run-1", reason="said_badly")
    text = merge_finding(HEAD, made).replace("said_badly", "said_well")
    assert merge_finding(text, made) == text


def test_findings_on_top_of_others_and_together_stand_beside_those_alone() -> None:
    alone = finding()
    on_top = finding(on_top=["one-pass on features"])
    joint = finding(together=["a-card on features", "one-pass on features"])
    text = merge_findings(HEAD, [alone, on_top, joint])
    assert card_of(text).findings == [alone, on_top, joint]
    assert merge_finding(text, finding(reason="again")).count("- date:") == 3


RUNS = range(18)
VERDICTS = st.sampled_from(["accepted", "rejected"])
SLOW_TO_SHRINK = settings(deadline=None, max_examples=40, phases=[Phase.generate])


@SLOW_TO_SHRINK
@given(st.permutations(RUNS), st.lists(VERDICTS, min_size=len(RUNS), max_size=len(RUNS)))
def test_whatever_the_order_of_merging_nothing_important_is_lost(order, verdicts) -> None:
    made = [at(i, verdict=v, model=f"m{i % 3}", gain=1 + i / 64) for i, v in enumerate(verdicts)]
    single = card_of(HEAD)
    for i in order:
        single = condensed(single, [made[i]])
    for card in (condensed(card_of(HEAD), made), single):
        assert len(card.findings) == MAX_FINDINGS
        assert card.earlier is not None
        assert card.earlier.count == len(RUNS) - MAX_FINDINGS
        told = [*card.findings, card.earlier.last, card.earlier.best]
        best = [f for f in made if f.verdict == "accepted"][-1:]
        assert all(f in told for f in best)
        newest = {(f.model, f.verdict): f for f in reversed(made)}
        assert all(f in card.findings for f in newest.values())


def test_in_order_of_time_one_by_one_gives_what_one_merge_of_all_gives() -> None:
    made = [at(i, verdict="rejected" if i % 2 else "accepted", model=f"m{i % 3}") for i in RUNS]
    single = card_of(HEAD)
    for one in reversed(made):
        single = condensed(single, [one])
    assert single == condensed(card_of(HEAD), made)


def test_a_card_stays_within_its_size_however_many_runs_there_were() -> None:
    text, sizes = HEAD, list[int]()
    for day in range(60, 0, -1):
        changes = {"versions": {"triton": "2.51.0"}, "gain": 1 + day / 7, "ci": (1.0, 9.9)}
        text = merge_findings(text, [at(day, model=m, **changes) for m in ("features", "ranker")])
        sizes.append(len(text))
    assert max(sizes) < max(sizes[:20]) + 50  # digits of numbers
    assert max(sizes) < len(HEAD) + (MAX_FINDINGS + 2) * 400


def merged_or_refused(text: str) -> str | YamlError:
    try:
        return merge_finding(text, finding())
    except YamlError as error:
        return error


@pytest.mark.parametrize("cut", range(10, len(HEAD + BLOCK), 37))
def test_a_torn_card_is_an_error_with_its_place_or_what_is_left_is_whole(cut: int) -> None:
    torn = (HEAD + BLOCK)[:cut]
    told = merged_or_refused(torn)
    if isinstance(told, YamlError):
        assert str(told).startswith("card.yaml:")
        assert told.line is not None
    else:
        assert told.startswith(torn[: len(HEAD)].rstrip("\n"))


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
        same = {"findings": list(after.findings), "earlier": after.earlier}
        assert after == before.model_copy(update=same)
        assert new in after.findings or any(f.date > new.date for f in after.findings)
        assert list(after.findings) == bounded(after.findings)
        assert {*map(repr, after.findings)} <= {*map(repr, before.findings), repr(new)}
