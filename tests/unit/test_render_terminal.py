from pathlib import Path

from rich.console import Console

from bot.render import terminal
from bot.render.context import on_top_line
from tests.golden_files import assert_golden
from tests.render_fixture import (
    FLOOR,
    ON_TOP,
    PROFILE,
    empty_report,
    measure_report,
    plan_report,
    run_report,
)

FILES = {"run": Path(".fvec/ads-serving/run.json"), "report": Path(".fvec/ads-serving/report.html")}


def shown(view) -> str:
    console = Console(width=120, color_system=None, force_terminal=False, record=False)
    with console.capture() as captured:
        console.print(view)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def test_a_run_ends_in_conclusion_table_and_places():
    assert_golden("run.txt", shown(terminal.run(run_report(), FILES)))


def test_a_run_that_tried_nothing_says_so_in_one_line():
    assert shown(terminal.run(empty_report(), FILES)) == (
        "nothing to try: the cookbook holds no card for the layers features, server, config\n"
        "report: .fvec/ads-serving/report.html\n"
    )


def test_a_change_that_cannot_be_told_to_pay_is_not_called_rejected():
    found = ON_TOP.model_copy(update={"verdict": "inconclusive"})
    line = on_top_line(found)
    assert line.endswith(
        "it cannot be told whether it still pays, so it stays for what it gained when it was accepted"
    )
    assert "no longer pays" not in line


def test_a_plan_is_ranked_with_the_skipped_at_the_end():
    assert_golden("plan.txt", shown(terminal.plan(plan_report())))


def test_a_plan_without_hypotheses_says_so():
    empty = plan_report().model_copy(update={"hypotheses": []})
    assert shown(terminal.plan(empty)).startswith("no hypothesis: no card matches this stack\n")


def test_a_plan_near_the_floor_says_that_nothing_was_profiled():
    floor = FLOOR.model_copy(update={"action": "stop", "reason": "a request takes 1.1 times it"})
    unprofiled = PROFILE.model_copy(
        update={
            "tool": "no profiler",
            "cpu_s": 0.0,
            "requests": 0,
            "hotspots": [],
            "by_phase": {},
            "floor": floor,
        }
    )
    near = plan_report().model_copy(update={"profile": unprofiled, "hypotheses": []})
    assert shown(terminal.plan(near)) == (
        "no hypothesis: a request is near its floor, no profiler was opened\n"
        "a request takes 1.1 times it\n"
    )


def test_a_calibration_shows_floors_and_gains_in_reach():
    assert_golden("measure.txt", shown(terminal.measure(measure_report())))


def test_markup_in_a_repository_s_text_is_shown_and_not_obeyed():
    run = empty_report().model_copy(update={"conclusion": "[red]x[/red] :smile: \x1b[31m"})
    assert shown(terminal.run(run, FILES)).startswith("[red]x[/red] :smile: [31m\n")
