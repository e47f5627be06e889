"""Patches without effect that were judged on the running example: replayed, and drawn from again.

`make record-noise` made the file. `pytest -s` shows the figures.
"""

import ast
import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.record_noise import Session, append, checkout, no_ops, record, resumed
from layers.errors import InvalidInput
from layers.evidence import Verdict
from layers.measure.boundaries import LookPlan
from layers.measure.intervals import at_most
from layers.measure.recordings import RecordedLaunch, Recording, noise_of, read
from layers.measure.resample import pool_of, resample
from layers.measure.stats import look, noise_floor
from layers.repository.git import git

RECORDED = Path(__file__).parents[1] / "data" / "recorded" / "ads_noop.jsonl"
RUNS = 10_000
PLAN = LookPlan(candidates=10)


def show(line):
    sys.stdout.write(f"{line}\n")


@pytest.fixture(scope="module")
def recorded():
    if not RECORDED.exists():
        pytest.skip("nothing is recorded yet: make record-noise")
    return read(RECORDED)


# --- what was recorded on the example


def test_no_recorded_no_op_was_accepted(recorded):
    accepted = [found.patch for found in recorded if found.verdict == "accepted"]
    bound = at_most(len(accepted), len(recorded))
    show(f"{len(accepted)} of {len(recorded)} no-op patches accepted: below {bound:.1%} (95 %)")
    assert accepted == []
    assert bound < 3 / len(recorded)  # the rule of three


def test_every_recorded_patch_is_judged_alike_again(recorded):
    launches = noise_of(recorded)
    for found in recorded:
        if not found.looks:
            continue
        noise = noise_floor(launches[found.session])
        pairs, plan = found.of_kind("candidate"), LookPlan(candidates=found.candidates)
        again = [look(pairs[: x.k], noise, plan) for x in found.looks]
        assert [(x.k, x.decision, x.reason) for x in again] == [
            (x.k, x.decision, x.reason) for x in found.looks
        ], found.patch
        assert again[-1].decision != "accept"


def test_runs_drawn_from_recorded_launches_hold_below_one_percent(recorded):
    pool = pool_of(recorded, PLAN.pairs_per_launch)
    found = resample(pool, PLAN, RUNS, seed=11)
    for rule, outcome in found.items():
        show(
            f"{rule}: {100 * outcome.per_run:.2f} % of {outcome.runs:,} runs of ten accept "
            f"something, below {100 * outcome.per_run_at_most:.2f} % (95 %)"
        )
    assert found["fvec"].per_run_at_most < 0.01


def sds(pool):
    """Return the sd of pairs within launches, and of launches beyond what pairs explain."""
    within = pool.log_ratios.var(1, ddof=1).mean()
    between = pool.log_ratios.mean(1).var(ddof=1) - within / pool.log_ratios.shape[1]
    return np.sqrt(within), np.sqrt(max(0.0, between))


def as_quiet_as(pool, pair_sd, launch_sd):
    """Return the launches with their own shapes, and those standard deviations.

    Rates stay as they were recorded: what "sequential" shows of them is not scaled.
    """
    means = pool.log_ratios.mean(1, keepdims=True)
    within = (pool.log_ratios - means) * pair_sd / sds(pool)[0]
    wanted = np.sqrt(launch_sd**2 + pair_sd**2 / pool.log_ratios.shape[1])
    shifts = (means - means.mean()) * wanted / means.std(ddof=1)
    return replace(pool, log_ratios=means.mean() + shifts + within)


def found_at(pool, ratio):
    """Return what each rule accepts of a planted ratio, and show it."""
    pairs, launches = sds(pool)
    found = resample(pool, PLAN, 1000, seed=12, ratio=ratio)
    for rule, outcome in found.items():
        show(
            f"{rule}: {100 * (ratio - 1):+.0f} % at sds of {pairs:.2%} and {launches:.2%} accepted "
            f"{' '.join(f'{x:.1%}' for x in outcome.by_look)} by look"
        )
    return found["fvec"].per_candidate


def test_a_planted_gain_of_three_percent_is_found_among_launches_of_the_recorded_shapes(recorded):
    quiet = as_quiet_as(pool_of(recorded, PLAN.pairs_per_launch), 0.02, 0.005)
    assert sds(quiet) == pytest.approx((0.02, 0.005))
    assert found_at(quiet, 1.03) >= 0.9


def test_a_planted_gain_of_four_percent_is_found_among_the_launches_as_they_were(recorded):
    # The machine was noisier than 2 % and 0.5 %: of three percent, which is shown too, it lost some.
    pool = pool_of(recorded, PLAN.pairs_per_launch)
    three, four = found_at(pool, 1.03), found_at(pool, 1.04)
    assert three < four
    assert four >= 0.9


# --- the recorder


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    return checkout(tmp_path_factory.mktemp("recorder"))


def test_sixty_patches_differ_apply_and_change_nothing(stack):
    found = no_ops(stack, 60, seed=60)
    diffs = [patch.diff(stack) for patch in found]
    assert len(set(diffs)) == 60
    assert len({patch.file for patch in found}) == 6
    assert git(stack, "status", "--porcelain") == ""
    for patch in found:
        before = (stack / patch.file).read_text()
        assert before != patch.text
        if patch.file.endswith(".py"):
            assert ast.dump(ast.parse(before)) == ast.dump(ast.parse(patch.text))
    for number, diff in enumerate(diffs[:6]):
        file = stack.parent / f"{number}.diff"
        file.write_bytes(diff)
        git(stack, "apply", "--check", str(file))


def test_the_same_patches_come_again(stack):
    assert no_ops(stack, 12, seed=60) == no_ops(stack, 12, seed=60)
    assert no_ops(stack, 12, seed=60) != no_ops(stack, 12, seed=61)


def test_the_copy_is_the_same_commit_everywhere_and_clean_after_a_kill(stack, tmp_path):
    commit = git(stack, "rev-parse", "HEAD")
    assert git(checkout(tmp_path), "rev-parse", "HEAD") == commit
    git(stack, "branch", "fvec/judge/left-over")
    (stack / "models/features/1/model.py").write_text("broken\n")
    assert git(checkout(stack.parent), "status", "--porcelain") == ""
    assert git(stack, "for-each-ref", "refs/heads/fvec/") == ""


def judgement(number, digest):
    return Recording(
        patch=f"patch {number}",
        session="s",
        patch_sha256=digest,
        seed=number,
        change_class="exact",
        candidates=1,
        verdict="rejected",
        reason="below_noise_floor",
        floor_pct=None,
        looks=[],
        launches=[],
        machine="m",
        versions={},
        commit="c",
        recorded_at="2026-01-01T00:00:00+00:00",
        wall_s=1.0,
    )


def recorder(asked):
    def judge(number, patch, diff):
        asked.append(number)
        if number == 3 and len(asked) == 3:
            raise KeyboardInterrupt
        return judgement(number, hashlib.sha256(diff).hexdigest())

    return judge


def test_recording_goes_on_where_it_was_ended(stack, tmp_path):
    patches = [(patch, patch.diff(stack)) for patch in no_ops(stack, 5, seed=60)]
    out, asked = tmp_path / "made" / "noop.jsonl", []
    with pytest.raises(KeyboardInterrupt):
        list(record(patches, out, recorder(asked)))
    assert [found.seed for found in read(out)] == [1, 2]
    list(record(patches, out, recorder(asked)))
    assert asked == [1, 2, 3, 3, 4, 5]
    assert [found.seed for found in read(out)] == [1, 2, 3, 4, 5]
    assert list(record(patches, out, recorder(asked))) == []


def test_a_judgement_in_which_the_tool_broke_is_tried_again(stack, tmp_path):
    patches = [(patch, patch.diff(stack)) for patch in no_ops(stack, 2, seed=60)]
    out = tmp_path / "noop.jsonl"

    def judge(verdict):
        def judged(number, patch, diff):
            found = judgement(number, hashlib.sha256(diff).hexdigest())
            return found.model_copy(update={"verdict": verdict})

        return judged

    broken = list(record(patches, out, judge(Verdict.FAILED)))
    assert [found.verdict for found in broken] == [Verdict.FAILED] * 2
    assert resumed(out) == []
    assert len(list(record(patches, out, judge(Verdict.REJECTED)))) == 2
    assert len(resumed(out)) == 2


class Reports:
    """A session of which every report has a verdict; the first has been calibrated for."""

    def __init__(self, monkeypatch, *verdicts):
        self.verdicts = list(verdicts)
        monkeypatch.setattr("benchmarks.record_noise.recording", self.recording)

    def judge(self, name, diff, change_class):
        return SimpleNamespace(noise="measured", verdict=self.verdicts.pop(0))

    def recording(self, report, patch, *, calibrated, session, **_):
        noise = [RecordedLaunch(kind="noise", number=1, pairs=[])] if calibrated else []
        own = RecordedLaunch(kind="candidate", number=1, pairs=[])
        told = {"verdict": report.verdict, "session": session, "launches": [*noise, own]}
        return judgement(1, "a").model_copy(update=told)


def test_the_a_a_launches_go_with_the_first_judgement_that_is_recorded(monkeypatch):
    reports = Reports(monkeypatch, Verdict.FAILED, Verdict.REJECTED, Verdict.REJECTED)
    session = Session(reports, "s")
    kinds = [
        [launch.kind for launch in session.judge(n, SimpleNamespace(what="x"), b"").launches]
        for n in range(3)
    ]
    assert kinds == [["noise", "candidate"], ["noise", "candidate"], ["candidate"]]


def test_a_line_that_was_cut_off_is_taken_away_and_a_broken_one_is_told(tmp_path):
    out = tmp_path / "noop.jsonl"
    append(out, judgement(1, "a"))
    whole = out.read_bytes()
    out.write_bytes(whole + whole[:40])
    assert [found.seed for found in resumed(out)] == [1]
    assert out.read_bytes() == whole
    out.write_bytes(b"{}\n" + whole)
    with pytest.raises(InvalidInput, match=r"noop\.jsonl:1"):
        resumed(out)


def test_nothing_is_recorded_at_first(tmp_path):
    assert resumed(tmp_path / "none.jsonl") == []
