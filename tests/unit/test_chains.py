"""Taking a change out: the later ones have to pass their own gate where they would stand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from layers.base import Candidate, Edit, StackView
from layers.errors import ToolFailed
from layers.evidence import Gate, GateResult, Verdict
from layers.loop.chains import Chains
from layers.loop.combination import Chain, check_of, published
from layers.loop.resume import Earlier
from layers.record.journal import Journal
from layers.repository import git
from layers.repository.stack import Stack
from tests.unit.test_branches import ASKED
from tests.unit.test_combination import iteration, look

PASSED = Gate(name="correctness", result=GateResult.PASS, reason="outputs_identical")


@dataclass
class Fake:
    """Instruments over a real repository: the change measured no longer pays."""

    stack: Stack
    out: Path
    verdicts: dict[int, tuple[Verdict, str]] = field(default_factory=dict)
    breaks: bool = False
    rechecked: list[tuple[int, list[str], list[str]]] = field(default_factory=list)

    def seen(self, worktree: Path) -> StackView:
        commit = git.resolve(worktree, "HEAD")
        return StackView(worktree, commit, self.stack.manifest, Path("python"))

    def build(self, view: StackView) -> None:
        assert view.root.is_dir()

    def remeasure(self, candidate, without, end, n):
        last = look("reject", "below_noise_floor")
        told = {"looks": [last], "verdict": Verdict.REJECTED, "reason": last.reason}
        return iteration(n, "b", 1.0).model_copy(update=told)

    def recheck(self, candidate, base, n):
        if self.breaks:
            raise ToolFailed("the server's log cannot be written")
        self.rechecked.append((n, _added(base.root), _added(candidate.worktree)))
        verdict, reason = self.verdicts.get(n, (Verdict.ACCEPTED, "gain_confirmed"))
        told = {"verdict": verdict, "reason": reason, "gates": [PASSED], "outputs_compared": 200}
        return iteration(n, candidate.base_commit, 1.0).model_copy(update=told)


def _added(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("*.txt") if path.name.startswith("added"))


@pytest.fixture
def fake(tiny_repo, tmp_path):
    with Stack.open(tiny_repo) as stack:
        yield Fake(stack, tmp_path)


def asked(fake: Fake) -> tuple[Chains, Chain]:
    """Accept three changes of files of their own."""
    base, made = fake.stack.commit, {}
    for n in (1, 2, 3):
        hypothesis = replace(ASKED, card=f"card-{n}")
        edit = Edit({f"added-{n}.txt": b"x\n"}, f"Add {n}", "")
        commit, patch, worktree = fake.stack.commit_edit(
            base, hypothesis.branch, edit, fake.out / "worktrees"
        )
        made[n] = Candidate(hypothesis, edit, hypothesis.branch, base, commit, worktree, patch)
        base = commit
    journal = Journal(fake.out / "journal.jsonl")
    earlier = Earlier(journal.entries, journal.path)
    chains = Chains(fake, journal, earlier, made, lambda _: None, lambda: True)
    return chains, Chain(made, fake.seen(made[3].worktree))


def test_each_later_change_is_held_to_its_class_on_the_commit_that_it_would_stand_on(fake):
    chains, chain = asked(fake)
    shorter = chains.without(1, chain)
    found = chains.on_top(1, shorter, chain)
    assert fake.rechecked == [
        (2, [], ["added-2.txt"]),
        (3, ["added-2.txt"], ["added-2.txt", "added-3.txt"]),
    ]
    assert found.verdict == "dropped"
    assert [(m.n, m.commit, m.base_commit, m.measured_commit) for m in found.moved] == [
        (n, c.commit, c.base_commit, chain.candidates[n].commit)
        for n, c in shorter.candidates.items()
    ]
    assert shorter.end.root.is_dir()


def test_evidence_of_a_moved_change_tells_the_measured_commit_from_the_published_one(fake):
    chains, chain = asked(fake)
    shorter = chains.without(1, chain)
    found = chains.on_top(1, shorter, chain)
    own = iteration(2, chain.candidates[2].base_commit, 1.2).model_copy(
        update={"commit": chain.candidates[2].commit}
    )
    shown = published(own, shorter.candidates[2], [found])
    assert shown.commit == shorter.candidates[2].commit
    assert f"measured at commit {own.commit[:12]}" in shown.warnings[-1]
    assert "200 answers compared" in shown.warnings[-1]
    assert check_of(shorter.candidates[2], [found]).measured_commit == own.commit
    with pytest.raises(RuntimeError, match="moved and not checked"):
        published(own, shorter.candidates[2], [])


@pytest.mark.parametrize(
    ("verdict", "reason", "told"),
    [
        (Verdict.REJECTED, "outputs_differ", ("not_separable", "later_change_fails_without_it")),
        (Verdict.REJECTED, "build_failed", ("not_separable", "later_change_fails_without_it")),
        (Verdict.INCONCLUSIVE, "no_referee", ("not_measured", "no_referee")),
        (Verdict.FAILED, "evaluator_changed", ("not_measured", "evaluator_changed")),
    ],
)
def test_nothing_is_taken_out_where_a_later_change_alone_does_not_pass(fake, verdict, reason, told):
    fake.verdicts[2] = (verdict, reason)
    chains, chain = asked(fake)
    found = chains.on_top(1, chains.without(1, chain), chain)
    assert (found.verdict, found.reason) == told
    assert [n for n, *_ in fake.rechecked] == [2]


def test_nothing_is_taken_out_where_the_check_breaks(fake):
    fake.breaks = True
    chains, chain = asked(fake)
    found = chains.on_top(1, chains.without(1, chain), chain)
    assert (found.verdict, found.reason) == ("not_measured", "tool_failed")


def test_the_last_change_is_taken_out_without_a_check(fake):
    chains, chain = asked(fake)
    found = chains.on_top(3, chains.without(3, chain), chain)
    assert (found.verdict, found.moved, fake.rechecked) == ("dropped", [], [])
