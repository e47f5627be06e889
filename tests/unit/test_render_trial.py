"""How a change was tried and what it took: each fact with its data, and nothing without."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.console import Console

from bot.render import body, judge_terminal, judgement, pull_request, report, trial
from bot.render.content import plain
from layers.base import ChangeClass
from layers.evidence import (
    ArmCosts,
    Block,
    Costs,
    EvidenceFile,
    Gate,
    GateResult,
    Iteration,
    JudgeReport,
    KindCount,
    TrafficRecord,
    Verdict,
    VoidPair,
)
from layers.trial import equivalence, probes
from tests.render_fixture import ENVIRONMENT, NOISE, STACK, accepted_iteration, evidence, run_report
from tests.rendered_tables import of_html, of_markdown

TRAFFIC = TrafficRecord(
    kinds={
        "floats moved": KindCount(answered=31, refused=0),
        "no candidates": KindCount(answered=0, refused=6),
        "recorded": KindCount(answered=24, refused=0),
        "renewed": KindCount(answered=12, refused=0),
        "strings empty": KindCount(answered=22, refused=1),
    },
    not_tried=[
        "floats missing of age: the unmodified stack does not repeat its answer",
        "flags turned: the recording has nothing to change so",
        "several rows: the recording has nothing to change so",
    ],
    renewed="rows of several requests and floats up to 10% smaller, each by itself",
    elements=4_000,
    kept=500,
)
COSTS = Costs(
    launches=6,
    baseline=ArmCosts(
        ready_s=3.0, memory_begin_mib=790.0, memory_end_mib=812.0, memory_peak_mib=901.0
    ),
    candidate=ArmCosts(
        ready_s=3.25, memory_begin_mib=801.0, memory_end_mib=823.0, memory_peak_mib=1240.0
    ),
    cpu_ratio=1.25,
    cpu_ci=(1.0, 2.0),
)
VOIDS = [
    VoidPair(
        launch=1,
        pair=2,
        measure="work",
        arms=["baseline"],
        reason="noisy_neighbour",
        throughput_ratio=1.39,
        requests=120,
    ),
    VoidPair(
        launch=2,
        pair=1,
        measure="work",
        arms=["baseline", "candidate"],
        reason="noisy_neighbour",
        throughput_ratio=1.45,
        requests=120,
    ),
    VoidPair(
        launch=3,
        pair=4,
        measure="tail",
        arms=["candidate"],
        reason="late_sends",
        requests=250,
        over_slo_in_time=(1, 0),
    ),
]
WARNINGS = ["it logs less: 0 lines and 0 bytes a request, 1 and 80 before (8 pairs of blocks)"]
FACTS = (
    (
        "requests",
        "one at a time to both arms: 24 as recorded, 12 made new, 60 changed in 3 kinds; 7 of them, "
        "of 2 kinds, refused by both arms alike",
    ),
    ("changed", "floats moved 31, no candidates 6 (6 refused), strings empty 23 (1 refused)"),
    (
        "not sent",
        "2 changes: the recording has nothing to change so; 1 change: the unmodified stack does not "
        "repeat its answer",
    ),
    (
        "timed",
        "each made new: rows of several requests and floats up to 10% smaller, each by itself; "
        "12.5\u00a0% of their values are of the recording",
    ),
    (
        "pairs",
        "12 counted, 3 void (noisy_neighbour 2, late_sends 1; the baseline's block in 1, the "
        "candidate's in 1, both in 1), by themselves, at fixed load, 1.39\u00d7 to 1.45\u00d7 throughput; "
        "no sure sign that the void ones or the load of others favoured the change",
    ),
    ("other arm", "held still while one was measured, in each of 24 blocks"),
    (
        "CPU",
        "0.800 of the baseline's per request (95 % interval 0.500 to 1.000), with all processes of "
        "an arm, over 3 launches",
    ),
    ("start", "3.25\u00a0s to the first answer, 3.00\u00a0s before (medians of 6 launches)"),
    (
        "memory",
        "before the load 801\u00a0MiB (baseline 790\u00a0MiB), after it 823\u00a0MiB (baseline "
        "812\u00a0MiB), at most, with files that were read, 1,240\u00a0MiB (baseline 901\u00a0MiB)",
    ),
)


def gate(name: str, result: GateResult = GateResult.PASS) -> Gate:
    return Gate(name=name, result=result, reason=f"{name}_even")


def tried(**fields: Any) -> Iteration:
    """The accepted iteration with all that a trial records, or other values of it."""
    known = accepted_iteration()
    full = {
        "gates": [*known.gates, gate("voids"), gate("neighbours")],
        "traffic": TRAFFIC,
        "costs": COSTS,
        "voids": VOIDS,
        "warnings": WARNINGS,
    }
    return known.model_copy(update={**full, **fields})


def blocks(*, still: bool | None = True, idle_cpu: float | None = None) -> list[Block]:
    update = {"idle_frozen": still, "idle_cpu": idle_cpu}
    return [block.model_copy(update=update) for block in evidence().blocks]


def whole(**fields: Any) -> EvidenceFile:
    update = {"iteration": tried(**fields), "blocks": blocks()}
    return evidence().model_copy(update=update)


def judged(iteration: Iteration, measured: list[Block]) -> JudgeReport:
    return JudgeReport(
        target="patch",
        subject="their.diff on ads-serving",
        change_class=ChangeClass.EXACT,
        verdict=Verdict.ACCEPTED,
        reason="gain_confirmed",
        gates=iteration.gates,
        noise=NOISE,
        pairs=iteration.pairs,
        confirm=iteration.confirm,
        voids=iteration.voids,
        costs=iteration.costs,
        end_to_end=iteration.end_to_end,
        traffic=iteration.traffic,
        warnings=iteration.warnings,
        stack=STACK,
        environment=ENVIRONMENT,
        seed=7,
        blocks=measured,
        wall_s=171.0,
    )


def shown(found: JudgeReport) -> list[str]:
    """The lines of a terminal, each wrapped one made whole: as label and text."""
    console = Console(width=2_000, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(judge_terminal.judge(found, {}))
    return [re.sub(r"  +", ": ", line.rstrip()) for line in captured.get().splitlines()]


def test_every_fact_is_said_with_its_numbers():
    found = trial.facts(tried(), blocks())
    assert [(name, plain(line)) for name, line in found] == list(FACTS)


def test_evidence_older_than_the_records_says_nothing():
    assert trial.facts(accepted_iteration(), evidence().blocks) == ()
    assert trial.notes(accepted_iteration().warnings) == []
    body_of = pull_request.render(evidence())
    page = report.render(run_report(), {1: evidence().blocks})
    said = judgement.body(judged(accepted_iteration(), evidence().blocks))
    for text in (body_of, page, said):
        assert trial.HEADING not in text
        assert "Notes" not in text
    lines = shown(judged(accepted_iteration(), evidence().blocks))
    assert not [line for line in lines if line.partition(":")[0] in trial.BRIEF]


def test_the_kinds_that_are_no_change_have_the_names_that_the_engine_gives_them():
    assert (trial.RECORDED, trial.RENEWED) == (equivalence.AS_RECORDED, probes.RENEWED)
    assert equivalence.AS_RECORDED in trial.AS_RECORDED


def test_body_and_report_say_the_same_facts_and_notes():
    run = run_report()
    run = run.model_copy(update={"iterations": [tried(), *run.iterations[1:]]})
    facts = [f"{name}: {text}" for name, text in FACTS]
    for page in (
        of_markdown(pull_request.render(whole())),
        of_html(report.render(run, {1: blocks()})),
        of_markdown(judgement.body(judged(tried(), blocks()))),
    ):
        assert [item for item in page.items if item in facts] == facts
        assert WARNINGS[0] in page.items


def test_a_terminal_says_the_facts_that_decide():
    lines = shown(judged(tried(), blocks()))
    brief = [f"{name}: {text}" for name, text in FACTS if name in trial.BRIEF]
    assert [line for line in lines if line in brief] == brief
    assert not any("floats moved" in line for line in lines)


def test_notes_come_before_the_case_and_facts_behind_the_load_test():
    headings = re.findall(r"^## (.+)$", pull_request.render(whole()), flags=re.MULTILINE)
    assert headings[0] == trial.NOTES
    assert headings[headings.index("Load test at the SLO") + 1] == trial.HEADING


def test_what_was_refused_is_alike_only_where_the_gate_says_so():
    differ = [gate("refusals", GateResult.FAIL)]
    for gates in (differ, []):
        (_, line), *_ = trial.facts(tried(gates=gates), [])
        assert plain(line).endswith("; 7 of them, of 2 kinds, refused by an arm")
    answered = TRAFFIC.model_copy(update={"kinds": {"recorded": KindCount(answered=1, refused=0)}})
    said = plain(trial.requests(tried(traffic=answered)))
    assert said == "one at a time to both arms: 1 as recorded; none was refused"


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"renewed": "recorded"}, "as recorded: none was made new"),
        (
            {"kept": 0},
            f"each made new: {TRAFFIC.renewed}; none of their values is of the recording",
        ),
        ({"elements": 0, "kept": 0}, f"each made new: {TRAFFIC.renewed}"),
    ],
)
def test_how_timed_requests_were_made_new_is_said_with_what_was_not(update, said):
    assert plain(trial.renewed(TRAFFIC.model_copy(update=update))) == said


def test_a_trial_that_dropped_nothing_says_that_too():
    assert plain(trial.pairs(tried(voids=[]))) == (
        "12 counted, 0 void; no sure sign that the load of others favoured the change"
    )
    assert plain(trial.pairs(tried(voids=[], gates=[]))) == "12 counted, 0 void"
    assert trial.pairs(tried(voids=[], gates=[], costs=None)) == ()


@pytest.mark.parametrize(
    ("name", "who"), [("voids", "the void ones"), ("neighbours", "the load of others")]
)
def test_what_is_one_sided_stands_out_with_its_gate(name, who):
    gates = [one for one in (gate("voids"), gate("neighbours")) if one.name != name]
    line = trial.pairs(tried(gates=[*gates, gate(name, GateResult.INCONCLUSIVE)]))
    assert plain(line).endswith(f"; {who} may favour the change: see gate {name}")
    assert "no sure sign" not in plain(line)
    assert [span.text for span in line if span.kind == "strong"] == [f"{who} may favour the change"]


def test_one_void_pair_says_one_ratio_and_a_segment_none():
    one = plain(trial.pairs(tried(voids=VOIDS[:1], gates=[])))
    assert one.endswith(
        "the baseline's block in 1), by themselves, at fixed load, 1.39\u00d7 throughput"
    )
    segment = plain(trial.pairs(tried(voids=VOIDS[2:], gates=[])))
    assert segment.endswith("(late_sends 1; the candidate's in 1)")


def test_an_arm_that_was_not_held_still_stands_out_with_what_it_used():
    line = trial.other_arm([*blocks()[:20], *blocks(still=False, idle_cpu=0.031)[20:]])
    assert plain(line) == (
        "not held still in 4 of 24 blocks, in which it used at most 0.0310 cores"
    )
    assert line[0].kind == "strong"
    assert plain(trial.other_arm(blocks(still=False))) == "not held still in 24 of 24 blocks"
    assert trial.other_arm(blocks(still=None)) == ()


@pytest.mark.parametrize(
    "update", [{"cpu_ratio": None}, {"cpu_ci": None}, {"cpu_ratio": 0.0}, {"cpu_ci": (0.0, 1.0)}]
)
def test_no_cpu_is_said_without_a_ratio_and_its_interval(update):
    assert trial.cpu(tried(costs=COSTS.model_copy(update=update))) == ()


def test_memory_is_said_of_both_arms_or_not_at_all():
    bare = ArmCosts(ready_s=1.0)
    assert trial.memory(COSTS.model_copy(update={"baseline": bare})) == ()
    half = COSTS.baseline.model_copy(update={"memory_begin_mib": None, "memory_peak_mib": None})
    said = trial.memory(COSTS.model_copy(update={"baseline": half}))
    assert plain(said) == "after it 823\u00a0MiB (baseline 812\u00a0MiB)"
    single = trial.start(COSTS.model_copy(update={"launches": 1}))
    assert plain(single).endswith(" before (1 launch)")


def test_names_from_outside_are_counted_and_end_somewhere():
    many = {f"kind {n:03d}": KindCount(answered=1, refused=0) for n in range(100)}
    line = trial.kinds(TRAFFIC.model_copy(update={"kinds": many}))
    assert plain(line).endswith("kind 039 1 and 60 more")
    reasons = [f"kind: why {n}" for n in range(9)]
    line = trial.not_sent(TRAFFIC.model_copy(update={"not_tried": reasons}))
    assert plain(line).endswith("1 change: why 5; 3 more reasons")
    notes = trial.notes([f"{n}" for n in range(25)])
    assert [plain(notes[-2]), plain(notes[-1])] == ["19", "and 5 more, in the data"]


HOSTILE = "x\n\n<img src=x onerror=y> @team fixes #1 ``` | [a](b)\n# see"


def test_hostile_names_reach_no_reader_as_markup():
    seen = {HOSTILE: KindCount(answered=1, refused=1)}
    traffic = TRAFFIC.model_copy(update={"kinds": seen, "not_tried": [HOSTILE], "renewed": HOSTILE})
    void = VOIDS[0].model_copy(update={"reason": HOSTILE})
    fields = {"traffic": traffic, "voids": [void], "warnings": [HOSTILE]}
    text = pull_request.render(whole(**fields))
    outside_code = re.sub(r"(`+)[^`].*?(?<!`)\1(?!`)", "", text)
    for markup in ("<img", "@team", "#1 ", "](b)", "\n# see"):
        assert markup not in outside_code
    run = run_report().model_copy(update={"iterations": [tried(**fields)]})
    assert "<img src=x" not in report.render(run, {1: blocks()})


def test_a_body_over_the_limit_sheds_the_facts_last_and_keeps_the_notes():
    assert pull_request.SHED_FIRST[-1] == judgement.SHED_FIRST[-1] == "trial"
    long = "word " * 12_000
    text = pull_request.render(whole(explanation=long))
    assert len(text) <= body.LIMIT
    assert trial.HEADING not in text
    assert "trial" in text.rpartition("Left out for its size: ")[2]
    assert WARNINGS[0][:12] in text
