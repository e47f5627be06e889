import re

import pytest

from bot.render import again, as_markdown, measured, pull_request
from bot.render import body as body_parts
from bot.render.again import Kept
from layers.evidence import EvidenceFile, Peak, Verdict
from tests.golden_files import assert_golden
from tests.render_fixture import (
    BASE,
    accepted_iteration,
    evidence,
    refused_iterations,
    run_report,
)

PLOTS = {name: f"plots/{name}.svg" for name in ("pairs", "latency", "time")}
HEADINGS = [
    "What was slow, and how we know",
    "What changed, and why it is right",
    "How much faster, and how sure",
    "Load test at the SLO",
    "What it means in replicas",
    "What else this run tried",
    "Where it was measured",
    "Run it again",
]


def headings(body: str) -> list[str]:
    return re.findall(r"^## (.+)$", body, flags=re.MULTILINE)


def changed(**fields: object) -> EvidenceFile:
    """Evidence whose iteration has other values."""
    whole = evidence()
    return whole.model_copy(update={"iteration": whole.iteration.model_copy(update=fields)})


def test_the_whole_body_reads_as_expected():
    assert_golden("pull_request.md", pull_request.render(evidence(), PLOTS))


def test_sections_come_in_the_order_in_which_a_reviewer_asks():
    assert headings(pull_request.render(evidence(), PLOTS)) == HEADINGS


def test_the_title_names_layer_change_and_gain():
    assert pull_request.title(evidence()) == (
        "features: Look the request's inputs up in one pass (1.42\u00d7 throughput)"
    )


def test_a_long_title_is_cut_and_keeps_its_gain():
    hypothesis = accepted_iteration().hypothesis.model_copy(update={"title": "x" * 500})
    title = pull_request.title(changed(hypothesis=hypothesis))
    assert len(title) == pull_request.TITLE_LIMIT
    assert title.endswith("\u2026 (1.42\u00d7 throughput)")


def test_no_percentile_is_shown_that_was_not_measured():
    body = pull_request.render(evidence())
    assert "| p99 |" in body
    assert "p99.9 |" not in body.partition("## Load test at the SLO")[2]


def test_a_percentile_of_one_arm_alone_is_not_shown():
    test = accepted_iteration().load_test
    assert test is not None
    fewer = test.candidate.model_copy(update={"latency_ms": {"p50": 14.8}})
    other = changed(load_test=test.model_copy(update={"candidate": fewer}))
    body = as_markdown.table(measured.load_test(other.iteration))
    assert re.findall(r"^\| (p\d\S*) \|", body, flags=re.MULTILINE) == ["p50"]


def test_what_was_not_measured_has_no_section():
    bare = changed(load_test=None, end_to_end=None, local=None, looks=[], pairs=[], confirm=[])
    bare = bare.model_copy(update={"profile": None, "blocks": [], "others": [], "on_top": None})
    assert headings(pull_request.render(bare)) == [HEADINGS[0], HEADINGS[1], *HEADINGS[6:]]


@pytest.mark.parametrize(
    ("low", "said"),
    [
        (1.05, "**10 -> 10 replicas**"),
        (1.112, "**10 -> 9 replicas**"),
        (2.0, "**10 -> 5 replicas**"),
        (1.9999, "**10 -> 6 replicas**"),
        (30.0, "**10 -> 1 replicas**"),
    ],
)
def test_replicas_are_rounded_up_from_the_lower_end(low, said):
    end = accepted_iteration().end_to_end
    assert end is not None
    whole = changed(end_to_end=end.model_copy(update={"ci": (low, low * 1.1)}))
    assert said in pull_request.render(whole)


def test_a_stacked_change_says_what_it_was_measured_on():
    body = pull_request.render(changed(base_commit="91c22e7f3f6a2b55f0d1c7be2e0c8b8a93f4d102"))
    assert "Measured on top of `91c22e7f3f`, itself a change of this run" in body
    assert "git checkout 91c22e7f3f6a2b55f0d1c7be2e0c8b8a93f4d102" in body
    # The run that found it began at the stack, not at the change below.
    tail = body.partition("# the whole run that found it\n")[2]
    assert tail.startswith(
        "git checkout 4be1c60b0c8f0d7a1d1f4b6f0f5e6a77c2a9d310\nfvec run . --seed 7"
    )


def test_moved_bits_are_counted_in_the_summary():
    moved = refused_iterations()[0].equivalence
    assert "18 of 409,528 elements differ in bits on 412 requests" in pull_request.render(
        changed(equivalence=moved)
    )


def test_a_body_over_the_limit_sheds_the_stated_sections_first_and_says_so():
    whole = evidence()
    many = whole.model_copy(update={"blocks": whole.blocks * 60})
    body = pull_request.render(many, PLOTS)
    assert len(body) <= body_parts.LIMIT
    assert headings(body) == HEADINGS
    assert "Left out for its size: blocks. All of it is in `evidence.json`." in body
    assert "Every pair (12)" in body


@pytest.mark.parametrize("size", [50_000, 200_000])
def test_even_an_absurd_explanation_fits_and_keeps_the_summary(size):
    body = pull_request.render(changed(explanation="word " * (size // 5)), PLOTS)
    assert len(body) <= body_parts.LIMIT
    assert body.startswith("**Look the request's inputs up in one pass: 1.42\u00d7 throughput**")
    assert "evidence.json" in body


def test_hostile_text_reaches_no_reader_as_markup():
    attack = "x\n\n<img src=x onerror=y> @all fixes #1 ``` | [a](javascript:b)\n# h"
    hypothesis = accepted_iteration().hypothesis.model_copy(
        update={"title": attack, "why": attack, "sites": [attack]}
    )
    whole = changed(
        hypothesis=hypothesis,
        explanation=attack,
        detail=attack,
        reason=attack,
        files_changed=[attack],
    )
    whole = whole.model_copy(update={"stack": whole.stack.model_copy(update={"owner": attack})})
    body = pull_request.render(whole)
    outside_code = re.sub(r"(`+)[^`].*?(?<!`)\1(?!`)", "", body)
    for markup in ("<img", "@all", "#1 ", "](javascript", "\n# h"):
        assert markup not in outside_code
    assert headings(body) == HEADINGS


def test_an_absolute_path_of_the_machine_is_not_shown():
    whole = evidence()
    assert whole.profile is not None
    profile = whole.profile.model_copy(update={"raw": "/home/someone/run/profile/raw.txt"})
    body = pull_request.render(whole.model_copy(update={"profile": profile}))
    assert "Raw file: `profile/raw.txt`." in body
    assert "/home" not in body


def test_the_verdict_is_that_of_the_evidence():
    body = pull_request.render(changed(verdict=Verdict.INCONCLUSIVE, reason="looks_spent"))
    assert "Verdict: **inconclusive** (`looks_spent`)." in body


def with_peak(whole: EvidenceFile) -> EvidenceFile:
    """Evidence of a stack whose manifest names its peak."""
    peak = Peak(rate=900, replicas=12)
    return whole.model_copy(update={"stack": whole.stack.model_copy(update={"peak": peak})})


def test_replicas_are_those_of_the_peak_where_the_manifest_names_one():
    body = pull_request.render(with_peak(evidence()))
    assert "At 900\u00a0req/s peak: **12 -> 9 replicas**. That is 12 / 1.38, rounded up" in body
    assert "of throughput at fixed load in flight" in body
    assert "names no peak" not in body
    assert "The manifest names no peak (`slo.peak`)" in pull_request.render(evidence())


def test_replicas_are_counted_by_the_rate_at_the_slo_where_it_is_of_this_change_alone():
    whole = with_peak(evidence()).model_copy(update={"total": run_report().total})
    body = pull_request.render(whole)
    assert "**12 -> 4 replicas**. That is 12 / 3.61, rounded up" in body
    assert "of the rate held at the SLO" in body


def test_a_gain_that_saves_no_replica_is_called_headroom():
    end = accepted_iteration().end_to_end
    assert end is not None
    body = pull_request.render(changed(end_to_end=end.model_copy(update={"ci": (1.02, 1.1)})))
    assert "**10 -> 10 replicas**" in body
    assert "headroom, not a machine" in body


def test_a_pull_request_says_what_its_statistics_mean():
    body = pull_request.render(evidence())
    assert "at most 0.5 % of runs accept anything that has no effect" in body
    assert "what the unmodified stack differs by from itself in this run" in body
    assert "z is the gain in standard errors, and the boundary what a look asks of it" in body
    assert "it passes only where the whole interval is below +1 point" in body
    assert "the referee, which computes the same outputs in float64" in body
    assert "| 8 pairs |" in body


def test_commands_at_github_fetch_what_they_need_from_the_commit_that_has_it():
    kept = Kept("e" * 40, "pulls/fvec/features/x-y")
    commands = again.evidence(evidence(), kept).splitlines()
    assert commands[1:8] == [
        "# in a clone of this repository that has no changes of your own",
        f"git fetch origin {'e' * 40} {BASE}",
        "at=$(mktemp -d)",
        f'git show {"e" * 40}:pulls/fvec/features/x-y/evidence.json > "$at/evidence.json"',
        f'git show {"e" * 40}:pulls/fvec/features/x-y/patch.diff > "$at/patch.diff"',
        'fvec verify "$at"',
        "# the patch alone, by the same gates",
    ]
    assert commands[8:10] == [
        f"git checkout {BASE}",
        'fvec judge . --patch "$at/patch.diff" --class exact --seed 7',
    ]
