"""The chain of accepted changes in git: shortened, moved, and measured, as a journal can repeat it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from layers.base import Candidate, StackView
from layers.errors import FvecError, InvalidInput, RunStopped, ToolFailed
from layers.evidence import Iteration, Moved, OnTop, Verdict
from layers.loop import combination
from layers.loop.combination import Chain
from layers.loop.instruments import Instruments
from layers.loop.resume import Earlier
from layers.record.answers import CommitAnswer, TakenOut
from layers.record.journal import Journal
from layers.repository import git


@dataclass
class Chains:
    """`Combining` over the stack and the instruments of one run."""

    instruments: Instruments
    journal: Journal
    earlier: Earlier
    judged: Mapping[int, Candidate]  # as they were accepted
    withdraw: Callable[[Candidate], None]
    time_left: Callable[[], bool]

    def without(self, n: int, chain: Chain) -> Chain | None:
        """Return the chain without one candidate, None where later ones build on its lines."""
        stack, numbers = self.instruments.stack, list(chain.candidates)
        at = numbers.index(n)
        base = chain.candidates[n].base_commit
        worktree = stack.worktree(base, self._worktrees)
        kept = {m: chain.candidates[m] for m in numbers[:at]}
        for m in numbers[at + 1 :]:
            commit = git.pick(worktree, self.judged[m].commit)
            if commit is None:
                stack.remove_worktree(worktree)
                return None
            patch = git.patch_between(worktree, base, commit)
            kept[m] = replace(
                self.judged[m], base_commit=base, commit=commit, worktree=worktree, patch=patch
            )
            base = commit
        return Chain(kept, self.instruments.seen(worktree))

    def on_top(self, n: int, shorter: Chain, chain: Chain) -> OnTop:
        """Measure a candidate on top of the others, unless that was done."""
        recorded = self._recorded(n)
        if recorded is not None:
            if recorded.verdict == "dropped":
                self.instruments.build(shorter.end)
            return recorded
        return self._tell(self._measured(n, shorter, chain))

    def told(self, found: OnTop) -> OnTop:
        """Journal an answer that needed no measurement, unless that was done."""
        return self._recorded(found.n) or self._tell(found)

    def take_out(self, n: int, shorter: Chain) -> None:
        """Move the branches of the candidates that are left; remove the one taken out."""
        moved = [
            CommitAnswer(n=m, branch=c.branch, commit=c.commit, patch=c.patch)
            for m, c in shorter.candidates.items()
            if c.commit != self.judged[m].commit
        ]
        if self.earlier.take("taken_out", TakenOut) is None:
            self.journal.append("taken_out", TakenOut(n=n, moved=moved))
        for answer in moved:
            git.set_branch(self.instruments.stack.root, answer.branch, answer.commit)
        self.withdraw(self.judged[n])

    def _measured(self, n: int, shorter: Chain, chain: Chain) -> OnTop:
        try:
            self.instruments.build(shorter.end)
        except RunStopped:
            raise
        except (InvalidInput, ToolFailed):
            reason = "does_not_build_without_it"
            others = chain.others(n)
            return OnTop(n=n, verdict="not_separable", reason=reason, others=others)
        end = chain.end
        candidate = replace(
            self.judged[n], base_commit=shorter.end.commit, commit=end.commit, worktree=end.root
        )
        again = self.instruments.remeasure(candidate, shorter.end, end, n)
        found = combination.answer(n, chain, again)
        return self._held(found, shorter, chain) if found.verdict == "dropped" else found

    def _held(self, found: OnTop, shorter: Chain, chain: Chain) -> OnTop:
        """Hold each change that would move to its class where it would stand; else none moves."""
        later = [
            (m, candidate)
            for m, candidate in shorter.candidates.items()
            if candidate.commit != chain.candidates[m].commit
        ]
        moved: list[Moved] = []
        made: list[StackView] = []
        try:
            for m, candidate in later:
                if not made:
                    made.append(self._seen(candidate.base_commit))
                    self.instruments.build(made[0])
                last = candidate.commit == shorter.end.commit
                view = shorter.end if last else self._seen(candidate.commit)
                made.append(view)
                at = replace(candidate, worktree=view.root)
                again = self.instruments.recheck(at, made[-2], m)
                moved.append(self._moved(at, again, m))
                if again.verdict is not Verdict.ACCEPTED:
                    return _kept(found, moved, again)
        except RunStopped:
            raise
        except FvecError:
            return found.model_copy(update={"verdict": "not_measured", "reason": "tool_failed"})
        finally:
            for view in made:
                if view.root != shorter.end.root:
                    self.instruments.stack.remove_worktree(view.root)
        return found.model_copy(update={"moved": moved})

    def _moved(self, candidate: Candidate, again: Iteration, m: int) -> Moved:
        return Moved(
            n=m,
            commit=candidate.commit,
            base_commit=candidate.base_commit,
            measured_commit=self.judged[m].commit,
            gates=again.gates,
            outputs_compared=again.outputs_compared,
        )

    def _seen(self, commit: str) -> StackView:
        worktree = self.instruments.stack.worktree(commit, self._worktrees)
        return self.instruments.seen(worktree)

    def _recorded(self, n: int) -> OnTop | None:
        recorded = self.earlier.take("on_top", OnTop)
        if recorded is not None and recorded.n != n:
            raise self.earlier.mismatch(f"the journal measures change {recorded.n} next, not {n}")
        return recorded

    def _tell(self, found: OnTop) -> OnTop:
        self.journal.append("on_top", found)
        return found

    @property
    def _worktrees(self) -> Path:
        return self.instruments.out / "worktrees"


def _kept(found: OnTop, moved: list[Moved], again: Iteration) -> OnTop:
    """Return the answer where a later change does not pass its gate without this one."""
    if again.verdict is Verdict.REJECTED:
        told = {"verdict": "not_separable", "reason": "later_change_fails_without_it"}
    else:
        told = {"verdict": "not_measured", "reason": again.reason}
    return found.model_copy(update={**told, "moved": moved})
