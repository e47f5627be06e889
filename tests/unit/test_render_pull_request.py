import re

import pytest

from bot.render import body as body_parts
from bot.render import pull_request, sections
from layers.evidence import EvidenceFile, Verdict
from tests.golden_files import assert_golden
from tests.render_fixture import accepted_iteration, evidence, refused_iterations

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
    body = sections.load_test(other.iteration)
    assert re.findall(r"^\| (p\d\S*) \|", body, flags=re.MULTILINE) == ["p50"]


def test_what_was_not_measured_has_no_section():
    bare = changed(load_test=None, end_to_end=None, local=None, looks=[], pairs=[], confirm=[])
    bare = bare.model_copy(update={"profile": None, "blocks": [], "others": [], "on_top": None})
    assert headings(pull_request.render(bare)) == [HEADINGS[0], HEADINGS[1], *HEADINGS[6:]]


@pytest.mark.parametrize(
    ("low", "said"),
    [
        (1.05, "10 replicas stay 10"),
        (1.112, "carried by 9"),
        (2.0, "carried by 5"),
        (1.9999, "carried by 6"),
        (30.0, "carried by 1:"),
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
