"""A judgement for people: whole outputs, the same words everywhere, hostile text made harmless."""

import re

from rich.console import Console

from bot.render import judge_terminal, judgement
from bot.render.measured import folded
from layers.base import ChangeClass
from layers.evidence import Gate, GateResult, JudgeReport, Verdict
from tests.golden_files import assert_golden
from tests.render_fixture import (
    ENVIRONMENT,
    NOISE,
    STACK,
    accepted_iteration,
    equivalence,
    evidence,
)

FILES = {"report": "judge.md", "data": "judge.json"}


def shown(view) -> str:
    console = Console(width=120, color_system=None, force_terminal=False, record=False)
    with console.capture() as captured:
        console.print(view)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def accepted() -> JudgeReport:
    """A patch that was accepted, with everything that led there."""
    iteration = accepted_iteration()
    return JudgeReport(
        target="patch",
        subject=f"their.diff on ads-serving at {STACK.commit[:12]}",
        change_class=ChangeClass.EXACT,
        verdict=Verdict.ACCEPTED,
        reason="gain_confirmed",
        gates=iteration.gates,
        equivalence=iteration.equivalence,
        outputs_compared=iteration.outputs_compared,
        noise=NOISE,
        looks=iteration.looks,
        pairs=iteration.pairs,
        confirm=iteration.confirm,
        local=iteration.local,
        end_to_end=iteration.end_to_end,
        load_test=iteration.load_test,
        resolvable=[(0.0231, 1, 1.4), (0.0163, 2, 2.8), (0.0116, 4, 5.6), (0.0082, 8, 11.2)],
        warnings=["no class was given: judged as exact, since not only config.pbtxt changes"],
        stack=STACK,
        environment=ENVIRONMENT,
        seed=7,
        patch_sha256="0" * 64,
        files_changed=iteration.files_changed,
        blocks=evidence().blocks,
        reproduce=["fvec", "judge", ".", "--patch", "their.diff", "--class", "exact"],
        wall_s=171.0,
    )


def rejected() -> JudgeReport:
    """A patch that changed outputs: nothing was timed to the end."""
    detail = "score: bits differ in 18 of 204,764 elements"
    gates = [
        Gate(name="paths", result=GateResult.PASS, reason="paths_allowed", detail="models/x.py"),
        Gate(name="correctness", result=GateResult.FAIL, reason="outputs_differ", detail=detail),
    ]
    return accepted().model_copy(
        update={
            "verdict": Verdict.REJECTED,
            "reason": "outputs_differ",
            "detail": detail,
            "gates": gates,
            "equivalence": equivalence(18),
            "looks": [],
            "pairs": [],
            "confirm": [],
            "local": None,
            "end_to_end": None,
            "load_test": None,
            "blocks": [],
        }
    )


def test_an_accepted_patch_reads_as_expected():
    assert_golden("judge.md", judgement.body(accepted()))
    assert_golden("judge.txt", shown(judge_terminal.judge(accepted(), FILES)))


def test_a_rejected_patch_reads_as_expected():
    assert_golden("judge_rejected.md", judgement.body(rejected()))
    assert_golden("judge_rejected.txt", shown(judge_terminal.judge(rejected(), FILES)))


def test_the_verdict_is_the_first_line():
    first = shown(judge_terminal.judge(rejected(), FILES)).splitlines()[0]
    assert first == (
        f"rejected: outputs_differ  their.diff on ads-serving at {STACK.commit[:12]}, class exact"
    )
    assert judgement.body(rejected()).startswith("**rejected**: `outputs_differ`. ")


def test_a_callable_is_described_in_its_own_words():
    update = {"target": "callable", "stack": None, "subject": "m:new against m:ref"}
    body = judgement.body(accepted().model_copy(update=update))
    assert "| calls per second | 1.42\u00d7 |" in body
    assert "server CPU per request" not in body
    assert "git checkout" not in body
    assert "1.42\u00d7 (1.38 to 1.47) speed, 4 fresh pairs" in body


def test_a_gain_that_was_not_confirmed_is_shown_as_such():
    report = accepted().model_copy(update={"end_to_end": None, "looks": accepted().looks[:1]})
    assert judgement.gain_line(report) == (
        "1.44\u00d7 (1.42 to 1.46) throughput after 1 launch, 4 pairs, not confirmed; "
        "noise floor 2.31\u00a0% at this look"
    )


def test_what_could_have_been_seen_is_said_in_one_line():
    assert judgement.resolution_line(accepted()) == (
        "a gain of 2.31\u00a0% is seen nine times in ten after 1 launch (1\u00a0min 24\u00a0s); "
        "of 0.820\u00a0% after 8 launches (11\u00a0min 12\u00a0s)"
    )


def test_an_unknown_reason_is_explained_by_its_verdict():
    assert judgement.meaning("rejected", "outputs_differ") == "the outputs are not the same"
    assert judgement.meaning("rejected", "of_a_later_version") == "a gate failed"


def test_a_gate_that_answered_alike_several_times_is_one_row():
    def gate(reason: str, detail: str) -> Gate:
        return Gate(name="idle", result=GateResult.PASS, reason=reason, detail=detail)

    rows = [gate("idle", "1 us"), gate("idle", "2 us"), gate("busy", "3 us")]
    assert folded(rows) == [gate("idle", "2 times, lastly: 2 us"), gate("busy", "3 us")]


HOSTILE = "x\n\n<img src=x onerror=y> @team fixes #1 ``` | [a](b)\n# see \x1b[31m"


def hostile() -> JudgeReport:
    """A judgement whose every text comes from an attacker."""
    gates = [Gate(name=HOSTILE, result=GateResult.FAIL, reason=HOSTILE, detail=HOSTILE)]
    return rejected().model_copy(
        update={
            "subject": HOSTILE,
            "detail": HOSTILE,
            "reason": HOSTILE,
            "gates": gates,
            "warnings": [HOSTILE],
            "files_changed": [HOSTILE],
            "reproduce": ["fvec", "judge", ".", "--patch", f"```\n{HOSTILE}"],
            "stack": STACK.model_copy(update={"name": HOSTILE}),
        }
    )


def test_hostile_text_reaches_no_reader_as_markup():
    body = judgement.body(hostile())
    unfenced = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", body)
    outside_code = re.sub(r"(`+)[^`].*?(?<!`)\1(?!`)", "", unfenced)
    for markup in ("<img", "@team", "#1 ", "](b)", "\n# see"):
        assert markup not in outside_code
    assert "\x1b" not in body
    text = shown(judge_terminal.judge(hostile(), FILES))
    assert "\x1b" not in text


def test_a_body_over_the_limit_sheds_raw_data_first():
    many = accepted().model_copy(update={"blocks": evidence().blocks * 60})
    body = judgement.body(many)
    assert len(body) <= 60_000
    assert "Left out for its size: blocks. All of it is in `judge.json`." in body
