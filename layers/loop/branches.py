"""The branches of a run's candidates: announced, made, refused and put back, as a journal can repeat it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from layers.base import Candidate, Edit, Hypothesis, StackView
from layers.errors import InvalidInput, RunStopped
from layers.evidence import Verdict
from layers.loop.resume import Earlier
from layers.record.answers import CommitAnswer, CommitIntent, CommitRefused
from layers.record.journal import Journal
from layers.repository import git
from layers.repository.stack import Stack


@dataclass
class Branches:
    """Makes one branch per candidate; each step is journalled."""

    stack: Stack
    journal: Journal
    earlier: Earlier
    worktrees: Path
    before: dict[str, str | None] = field(default_factory=dict)  # tips, by branch of a candidate

    def commit(self, n: int, base: StackView, hypothesis: Hypothesis, edit: Edit) -> Candidate:
        """Commit an edit on a branch of its own, in a worktree of its own, as candidate `n`.

        Raises InvalidInput, again in every process of the run, for an edit that may not be made, a
        branch that is not the bot's, and one that this run made for another change.
        """
        branch = hypothesis.branch
        if branch in self.before:
            raise InvalidInput(
                f"the branch {branch} is of another change of this run",
                hint="two models or cards have names that differ in signs alone: rename one",
            )
        before = self._announced(n, branch)
        refused = self.earlier.take_of("candidate_refused", CommitRefused, n, branch)
        if refused is not None:
            raise InvalidInput(refused.message, hint=refused.hint)
        noted = self.earlier.take_of("candidate", CommitAnswer, n, branch)
        try:
            candidate = self._committed(n, base, hypothesis, edit, noted)
        except RunStopped:
            raise
        except InvalidInput as error:
            if noted is not None:
                raise self.earlier.mismatch(error.message) from error
            told = CommitRefused(n=n, branch=branch, message=error.message, hint=error.hint)
            self.journal.append("candidate_refused", told)
            raise
        self.before[branch] = before
        return candidate

    def withdraw(self, candidate: Candidate) -> None:
        """Remove the candidate's branch, or put it back: it may be of an open pull request.

        The name is free again: an author may try the same change another way.
        """
        earlier = self.before.pop(candidate.branch)
        self.stack.remove_worktree(candidate.worktree)
        if earlier is None:
            self.stack.drop_branch(candidate.branch, candidate.commit)
        elif git.tip(self.stack.root, candidate.branch) == candidate.commit != earlier:
            git.set_branch(self.stack.root, candidate.branch, earlier)

    def _announced(self, n: int, branch: str) -> str | None:
        """Announce a branch unless that was done; return its tip before this run touched it."""
        intent = self.earlier.take("candidate_intended", CommitIntent)
        if intent is None:
            intent = CommitIntent(n=n, branch=branch, before=git.tip(self.stack.root, branch))
            self.journal.append("candidate_intended", intent)
        elif (intent.n, intent.branch) != (n, branch):
            raise self.earlier.mismatch(f"the journal goes on with {intent.branch}, not {branch}")
        return intent.before

    def _committed(
        self,
        n: int,
        base: StackView,
        hypothesis: Hypothesis,
        edit: Edit,
        noted: CommitAnswer | None,
    ) -> Candidate:
        branch, judged = hypothesis.branch, self.earlier.verdict()
        if noted is not None and judged is not None and judged.verdict is not Verdict.ACCEPTED:
            # Its branch went again when the verdict fell; nothing is to be built on it.
            gone = self.worktrees / "gone"
            return Candidate(hypothesis, edit, branch, base.commit, noted.commit, gone, noted.patch)
        commit, patch, worktree = self.stack.commit_edit(base.commit, branch, edit, self.worktrees)
        answer = CommitAnswer(n=n, branch=branch, commit=commit, patch=patch)
        if noted is None:
            self.journal.append("candidate", answer)
        elif noted != answer:
            raise self.earlier.mismatch(f"candidate {n} is {commit[:12]}, not {noted.commit[:12]}")
        return Candidate(hypothesis, edit, branch, base.commit, commit, worktree, patch)
