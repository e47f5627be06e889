"""Accepted changes measured on top of one another: who is asked what, and what is taken out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName, StackView
from layers.evidence import EndToEnd, HypothesisRecord, Iteration, Look, OnTop, Verdict
from layers.loop.combination import Chain, answer, combine, published, settled
from layers.manifest import Manifest
from layers.repository.git import git, pick

MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {"name": "s", "models": "models", "entry": "m"},
        "traffic": {"requests": "r.bin", "arrivals": "a.csv"},
        "slo": {"p99_ms": 10},
    }
)


def view(commit):
    return StackView(Path("/stack"), commit, MANIFEST, Path("python"))


def candidate(n, base):
    hypothesis = Hypothesis(
        layer=LayerName.FEATURES,
        card=f"card-{n}",
        transform="t",
        model="m",
        title="t",
        why="w",
        share=0.5,
        expected_gain=0.5,
        best_gain=0.5,
        change_class=ChangeClass.EXACT,
    )
    return Candidate(hypothesis, Edit({}, "s", ""), f"b{n}", base, f"{base}+{n}", Path("/w"), "")


def chain(*numbers):
    made, base = {}, "start"
    for n in numbers:
        made[n] = candidate(n, base)
        base = made[n].commit
    return Chain(made, view(base))


def iteration(n, base, gain):
    record = HypothesisRecord(
        title="t", why="w", model="m", share=0.5, expected_gain=0.5, score=0.2, change_class="exact"
    )
    end = EndToEnd(throughput_ratio=gain, ci=(1, 2), cpu_ratio=gain, cpu_ci=(1, 2), pairs=4)
    return Iteration(
        n=n,
        layer="features",
        card=f"card-{n}",
        hypothesis=record,
        verdict="accepted",
        reason="gain_confirmed",
        base_commit=base,
        end_to_end=end,
    )


def judged(of, gains):
    return [iteration(n, c.base_commit, gains[n]) for n, c in of.candidates.items()]


@dataclass
class Script:
    """Stations that answer from a table and write down what they were asked."""

    dropped: dict[int, tuple[int, ...]] = field(default_factory=dict)  # n: on top of which others
    stuck: tuple[int, ...] = ()
    minutes: int = 99
    log: list[str] = field(default_factory=list)
    answers: list[OnTop] = field(default_factory=list)

    def without(self, n, of):
        return None if n in self.stuck else chain(*of.others(n))

    def on_top(self, n, shorter, of):
        others = of.others(n)
        self.log.append(f"{n} on {others}: {of.end.commit} against {shorter.end.commit}")
        verdict = "dropped" if self.dropped.get(n) == tuple(others) else "pays"
        return self.told(OnTop(n=n, verdict=verdict, reason="r", others=others))

    def told(self, found):
        self.answers.append(found)
        return found

    def take_out(self, n, shorter):
        self.log.append(f"take out {n}, {list(shorter.candidates)} are left")

    def time_left(self):
        self.minutes -= 1
        return self.minutes >= 0


def run(script, of, gains):
    return combine(script, of, judged(of, gains))


def test_one_accepted_change_was_measured_on_top_of_all_others():
    script, of = Script(), chain(1)
    assert run(script, of, {1: 2.0}) == of
    assert script.log == []


def test_all_but_the_last_are_measured_again_the_smallest_gain_first():
    script, of = Script(), chain(1, 2, 3)
    assert run(script, of, {1: 2.0, 2: 1.1, 3: 1.05}) == of
    assert script.log == [
        "2 on [1, 3]: start+1+2+3 against start+1+3",
        "1 on [2, 3]: start+1+2+3 against start+2+3",
    ]
    assert [(a.n, a.verdict) for a in script.answers] == [(2, "pays"), (1, "pays")]


def test_what_stops_paying_is_taken_out_and_all_that_is_left_is_measured_again():
    script, of = Script(dropped={2: (1, 3)}), chain(1, 2, 3)
    assert run(script, of, {1: 2.0, 2: 1.1, 3: 1.05}) == chain(1, 3)
    assert script.log == [
        "2 on [1, 3]: start+1+2+3 against start+1+3",
        "take out 2, [1, 3] are left",
        "3 on [1]: start+1+3 against start+1",
        "1 on [3]: start+1+3 against start+3",
    ]


def test_a_chain_of_one_that_is_left_is_measured_unless_it_was_judged_on_the_start():
    script, of = Script(dropped={1: (2,)}), chain(1, 2)
    assert run(script, of, {1: 1.1, 2: 2.0}) == chain(2)
    assert script.log[-1] == "2 on []: start+2 against start"


def test_a_change_that_later_ones_build_on_stays_and_is_told():
    script, of = Script(stuck=(1,)), chain(1, 2)
    assert run(script, of, {1: 1.1, 2: 2.0}) == of
    assert script.answers == [
        OnTop(n=1, verdict="not_separable", reason="later_changes_build_on_it", others=[2])
    ]


def test_what_there_is_no_time_for_stays_and_is_told():
    script, of = Script(minutes=1), chain(1, 2, 3)
    assert run(script, of, {1: 2.0, 2: 1.1, 3: 1.05}) == of
    assert [(a.n, a.verdict, a.reason) for a in script.answers] == [
        (2, "pays", "r"),
        (1, "not_measured", "time_budget_spent"),
    ]


def look(decision, reason):
    return Look(
        k=2,
        pairs=8,
        estimate=1.02,
        ci=(0.99, 1.05),
        gain=0.02,
        floor=0.01,
        z=1.0,
        boundary=3.0,
        decision=decision,
        reason=reason,
    )


@pytest.mark.parametrize(
    ("looks", "verdict", "reason", "told"),
    [
        ([look("accept", "gain_above_noise")], "accepted", "gain_confirmed", "pays"),
        ([look("reject", "below_noise_floor")], "rejected", "below_noise_floor", "dropped"),
        (
            [look("inconclusive", "last_look_reached")],
            "inconclusive",
            "last_look_reached",
            "inconclusive",
        ),
        ([look("accept", "gain_above_noise")], "failed", "evaluator_changed", "not_measured"),
        ([look("reject", "below_noise_floor")], "failed", "evaluator_changed", "not_measured"),
        ([look("continue", "in_remeasuring_band")], "rejected", "outputs_differ", "not_separable"),
        ([look("continue", "x")], "inconclusive", "machine_too_noisy", "not_measured"),
        ([], "failed", "tool_failed", "not_measured"),
        ([], "rejected", "does_not_serve", "not_separable"),
    ],
)
def test_only_looks_say_that_a_change_no_longer_pays(looks, verdict, reason, told):
    again = iteration(1, "b", 1.0).model_copy(
        update={"looks": looks, "verdict": Verdict(verdict), "reason": reason}
    )
    found = answer(1, chain(1, 2), again)
    assert (found.n, found.verdict, found.others) == (1, told, [2])
    by_look = told in {"pays", "dropped", "inconclusive"}
    assert found.reason == (looks[-1].reason if by_look else reason)
    assert found.look == (looks[-1] if by_look else None)


def test_what_cannot_be_told_stays_accepted_and_its_evidence_says_so():
    of = chain(1, 2)
    kept = judged(of, {1: 1.1, 2: 2.0})[0]
    kept = kept.model_copy(update={"commit": of.candidates[1].commit})
    found = OnTop(n=1, verdict="inconclusive", reason="last_look_reached", others=[2])
    assert settled([kept], [found]) == [kept]
    shown = published(kept, of.candidates[1], [found])
    assert (shown.verdict, shown.reason) == (Verdict.ACCEPTED, kept.reason)
    assert "could not be told whether it still pays" in shown.warnings[-1]
    assert published(kept, of.candidates[1], []) == kept


def test_what_was_taken_out_is_told_as_rejected_with_its_last_look():
    kept, gone = judged(chain(1, 2), {1: 2.0, 2: 1.1})
    last = look("reject", "below_noise_floor")
    found = OnTop(n=2, verdict="dropped", reason="below_noise_floor", others=[1], look=last)
    first, second = settled([kept, gone], [found])
    assert first == kept
    assert (second.verdict, second.reason) == (Verdict.REJECTED, "no_gain_on_top_of_others")
    assert second.detail == (
        "accepted at 1.100 times; on top of card-1 on m it no longer pays (below_noise_floor)"
    )
    assert (second.looks, second.end_to_end) == ([last], None)
    assert second.hypothesis.on_top == ["card-1 on m"]


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n5\n6\n7\n8\n")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "start")
    return tmp_path


def commit(root, old, new):
    file = root / "a.txt"
    file.write_text(file.read_text().replace(old, new))
    git(root, "commit", "--quiet", "--all", "--message", f"{old} to {new}\n\nbecause")
    return git(root, "rev-parse", "HEAD").strip()


def test_a_change_is_picked_onto_another_base_and_is_the_same_commit_each_time(repository):
    start = git(repository, "rev-parse", "HEAD").strip()
    commit(repository, "1", "one")
    second = commit(repository, "8", "eight")
    found = []
    for _ in range(2):
        git(repository, "checkout", "--quiet", "--detach", start)
        found.append(pick(repository, second))
    assert found[0] == found[1]
    assert (repository / "a.txt").read_text() == "1\n2\n3\n4\n5\n6\n7\neight\n"
    assert git(repository, "show", "--no-patch", "--format=%B").strip() == "8 to eight\n\nbecause"


def test_a_change_that_does_not_fit_on_another_base_leaves_it_clean(repository):
    start = git(repository, "rev-parse", "HEAD").strip()
    commit(repository, "1", "one")
    second = commit(repository, "one", "uno")
    git(repository, "checkout", "--quiet", "--detach", start)
    assert pick(repository, second) is None
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "rev-parse", "HEAD").strip() == start


@pytest.mark.parametrize("driver", [None, "* merge=union\n"])
def test_a_change_that_a_merge_driver_would_bend_to_fit_does_not_fit(repository, driver):
    if driver:
        (repository / ".gitattributes").write_text(driver)
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "--message", "attributes")
    start = git(repository, "rev-parse", "HEAD").strip()
    commit(repository, "4", "four")
    second = commit(repository, "four", "vier")
    git(repository, "checkout", "--quiet", "--detach", start)
    assert pick(repository, second) is None
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "rev-parse", "HEAD").strip() == start


def test_a_change_of_which_a_part_is_there_already_does_not_fit(repository):
    start = git(repository, "rev-parse", "HEAD").strip()
    commit(repository, "1", "one")
    git(repository, "checkout", "--quiet", "--detach", start)
    text = (repository / "a.txt").read_text()
    (repository / "a.txt").write_text(text.replace("1", "one").replace("8", "eight"))
    git(repository, "commit", "--quiet", "--all", "--message", "both")
    second = git(repository, "rev-parse", "HEAD").strip()
    git(repository, "checkout", "--quiet", "--detach", start)
    there = commit(repository, "1", "one")
    assert pick(repository, second) is None
    assert git(repository, "rev-parse", "HEAD").strip() == there
