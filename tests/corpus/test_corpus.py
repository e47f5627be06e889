"""The corpora keep to their conventions, and a fast part of the must-rejects is caught.

`make corpus` runs all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from layers.base import ChangeClass
from layers.errors import Missing
from layers.manifest import SandboxMode, SandboxSection
from layers.sandbox.box import Sandbox
from tests.corpus import cases, runner, stacks, summary
from tests.corpus.cases import LAYERS, NO_GAIN, BadCase
from tests.corpus.runner import Setting
from tests.corpus.summary import Result

HOSTILE = 60  # least number of must-rejects that run as callables
HONEST = 30
# One of each kind of defence, each a second or two.
FAST = (
    "config_collector_off",
    "config_fork_bomb",
    "kernel_replaces_the_copying_out",
    "features_case_folded",
    "graph_batch_one_squeezed",
    "kernel_exits_with_success",
    "kernel_float32_behind_float64",
    "kernel_id_cache",
    "kernel_nan_dropped",
    "kernel_packed_weights",
    "kernel_shared_output_buffer",
    "kernel_works_in_place",
    "load_drops_the_tail",
)


def test_every_case_keeps_to_the_conventions():
    assert len(cases.load("reject")) >= HOSTILE
    assert len(cases.load("accept")) >= HONEST
    assert 1 <= len(cases.load_stack()) <= 6


def test_must_rejects_cover_every_layer_and_class():
    hostile = cases.load("reject")
    assert {case.layer for case in hostile} == set(LAYERS)
    assert {case.change_class for case in hostile} == set(ChangeClass)


def test_must_rejects_name_one_reason_or_few_of_a_kind():
    for case in cases.load("reject"):
        assert len(set(case.expect) - set(NO_GAIN)) <= 5, case.name


def test_every_must_reject_names_its_source():
    for case in (*cases.load("reject"), *cases.load_stack()):
        assert "Source: " in case.path.read_text(), case.name


@pytest.mark.parametrize("case", cases.load_stack(), ids=lambda case: case.name)
def test_edits_of_a_full_stack_case_make_a_patch(case, tmp_path):
    root = stacks.repository(tmp_path / "stack")
    patch = stacks.patch_of(case, root)
    assert all(path.encode() in patch for path, _, _ in case.edits)
    assert stacks.git(root, "status", "--porcelain") == b""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('CLASS = "exact"\nEXPECT = ("raises",)\n', "a docstring"),
        ('"""Doc."""\nCLASS = "exactly"\nEXPECT = ("raises",)\n', "CLASS is one of"),
        ('"""Doc."""\nCLASS = "exact"\nEXPECT = ("caught",)\nref = new = make = 1\n', "caught"),
        ('"""Doc."""\nCLASS = "exact"\nEXPECT = ("raises",)\nref = 1\n', "missing"),
        (
            '"""Doc."""\nCLASS = "exact"\nEXPECT = ("gain_confirmed",)\nref = new = make = 1\n',
            "`accept` alone",
        ),
        (
            '"""Doc."""\nCLASS = "approximate"\nEXPECT = ("raises",)\nref = new = make = 1\n',
            "metric and MARGIN",
        ),
    ],
)
def test_a_case_that_breaks_a_convention_is_refused_with_its_file(text, problem, tmp_path):
    path = tmp_path / "kernel_bad.py"
    path.write_text(text)
    with pytest.raises(BadCase, match="kernel_bad") as caught:
        cases.read(path, "reject")
    assert problem in str(caught.value)


@pytest.fixture(scope="module")
def strict() -> Setting:
    try:
        Sandbox.open(SandboxSection())
    except Missing as error:
        pytest.skip(f"must-rejects run in the strict sandbox alone: {error.message}")
    return Setting(naive=False)


@pytest.mark.parametrize("name", FAST)
def test_judge_catches(name, strict):
    [case] = [case for case in cases.load("reject") if case.name == name]
    result = runner.run_case(case, strict)
    assert result.outcome == "caught", (result.verdict, result.reason, result.detail)


def test_naive_checker_accepts_what_the_judge_rejects(strict):
    [case] = [case for case in cases.load("reject") if case.name == "kernel_shape_zeros"]
    result = runner.run_case(case, replace(strict, naive=True))
    assert (result.verdict, result.naive_accepts) == ("rejected", True)


def test_cases_that_may_not_run_unconfined_are_left_out_without_a_sandbox():
    weak = Setting(mode=SandboxMode.PROCESS)
    hostile = Counter(runner.runnable(case, weak) for case in cases.load("reject") if case.unsafe)
    assert set(hostile) == {False}


def result(corpus, name, verdict, reason, expect, *, naive=None):
    return Result(
        corpus=corpus,
        name=name,
        layer=name.split("_")[0],
        change_class="exact",
        summary="<script>alert(1)</script>",
        expect=expect,
        verdict=verdict,
        reason=reason,
        detail="a & b",
        gain=None,
        wall_s=1.0,
        naive_accepts=naive,
        naive_why="faster",
        naive_speedup=3.0,
    )


CAUGHT = result("reject", "kernel_a", "rejected", "outputs_differ", ("outputs_differ",), naive=True)
MISSED = result("reject", "kernel_b", "accepted", "gain_confirmed", ("hangs",), naive=False)
OTHER = result("reject", "load_c", "rejected", "crashed", ("hangs",))
BROKE = result("reject", "load_d", "broke", "ToolFailed", ("hangs",))
HELD = result("accept", "graph_e", "accepted", "gain_confirmed", ("gain_confirmed",), naive=True)
REFUSED = result("accept", "graph_f", "rejected", "slower", ("gain_confirmed",), naive=True)


def test_outcome_tells_a_catch_from_a_catch_by_luck_and_a_broken_judge():
    told = [r.outcome for r in (CAUGHT, MISSED, OTHER, BROKE, HELD, REFUSED)]
    assert told == ["caught", "accepted", "caught-otherwise", "broke", "accepts", "refused"]


@pytest.mark.parametrize(
    ("results", "good"),
    [
        ([CAUGHT, HELD], True),
        ([CAUGHT, OTHER, HELD], True),
        ([CAUGHT, MISSED, HELD], False),
        ([CAUGHT, BROKE, HELD], False),
        ([CAUGHT, REFUSED], False),
        ([CAUGHT, REFUSED, *[HELD] * 19], True),
        ([CAUGHT, REFUSED, *[HELD] * 18], False),
    ],
)
def test_run_fails_on_a_miss_a_broken_judge_or_too_many_false_rejects(results, good):
    assert summary.passed(results) is good


def test_rates_have_exact_intervals_and_leave_out_what_did_not_run():
    rows = {row.what: row for row in summary.rates([CAUGHT, MISSED, OTHER, HELD])}
    judge = rows["must-reject accepted by fvec judge"]
    assert (judge.count, judge.of) == (1, 3)
    assert judge.low == pytest.approx(0.0084, abs=1e-4)
    assert judge.high == pytest.approx(0.9057, abs=1e-4)
    naive = rows["must-reject accepted by the naive checker"]
    assert (naive.count, naive.of) == (1, 2)


def test_table_counts_by_layer_and_names_every_case_to_look_at():
    text = summary.text([CAUGHT, MISSED, OTHER, HELD], 60.0)
    assert "reject  kernel         2            1           1" in text
    assert "accepted         reject/kernel_b: accepted gain_confirmed, not hangs" in text
    assert "wall time: 1.0 minutes" in text


def test_report_is_written_as_data_and_as_a_page_that_escapes(tmp_path: Path):
    summary.write(tmp_path, [CAUGHT, HELD], 60.0)
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["schema"] == "fvec.corpus/1"
    assert document["passed"] is True
    assert [row["outcome"] for row in document["results"]] == ["caught", "accepts"]
    page = (tmp_path / "report.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
