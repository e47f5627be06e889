"""The proposers of a run: asked for candidates in order, told the verdicts, as a journal can repeat it.

Each answer is journalled whole, with the state that its author goes on from: a resumed run asks
nobody again for what was written, and pays for it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from layers.base import Candidate, Edit, Hypothesis, StackView
from layers.errors import InvalidInput, RunStopped
from layers.events import Events
from layers.evidence import Gate, Iteration
from layers.gates.paths import judging_modules, protected_files, touched
from layers.loop.proposing import Check, Checked, Heard, Proposer, Situation, Written
from layers.loop.resume import Earlier
from layers.record.answers import HeardAnswer, WrittenAnswer, encoded
from layers.record.journal import Journal
from layers.repository import git
from layers.repository.stack import Stack
from layers.story import Story


@dataclass
class Authors:
    """Asks the proposers of a run, the first of them until it ends, then the next."""

    waiting: list[Proposer]  # those still to be asked, in order
    stack: Stack
    journal: Journal
    earlier: Earlier
    events: Events
    worktrees: Path
    check: Callable[[Candidate, StackView], Checked]  # the public checks, of a committed draft
    known: dict[str, Proposer] = field(default_factory=dict)  # that wrote anything, by name
    written: WrittenAnswer | None = None  # the newest

    def write(self, situation: Situation) -> Written | None:
        """Have the next proposer write a candidate; None once none is left to be asked."""
        while self.waiting:
            author = self.waiting[0]
            answer = self.earlier.take("written", WrittenAnswer)
            if answer is None:
                answer = self._ask(author, situation)
            elif (answer.proposer, answer.number) != (author.name, situation.number):
                raise self.earlier.mismatch(f"the journal asks {answer.proposer} next")
            author.restore(answer.state)
            self.known[author.name], self.written = author, answer
            if answer.ended:
                self.waiting.pop(0)
            if answer.hypothesis is not None or not answer.ended:
                return Written(answer.story, answer.state, answer.hypothesis, answer.edit)
        return None

    def heard(self, iteration: Iteration, situation: Situation) -> Heard:
        """Tell the author of a candidate what became of it."""
        author = self.known[iteration.hypothesis.proposer]
        answer = self.earlier.take("heard", HeardAnswer)
        if answer is None:
            found = author.heard(iteration, situation)
            answer = HeardAnswer(
                n=iteration.n,
                proposer=author.name,
                state=dict(found.state),
                backlog=list(found.backlog),
                steps=list(found.steps),
                ended=found.ended,
            )
            self.journal.append("heard", answer)
        elif (answer.n, answer.proposer) != (iteration.n, author.name):
            raise self.earlier.mismatch(f"the journal tells {answer.proposer} of {answer.n} next")
        author.restore(answer.state)
        if answer.ended and author in self.waiting:
            self.waiting.remove(author)
        return Heard(answer.state, tuple(answer.steps), answer.ended)

    def story(self, hypothesis: Hypothesis) -> Story | None:
        """Return how a candidate came about, None for one that no agent wrote."""
        if self.written is None or self.written.hypothesis is None:
            return None
        same = self.written.hypothesis.change == hypothesis.change
        return self.written.story if same and hypothesis.proposer in self.known else None

    def kept(self) -> Mapping[str, bytes]:
        """Return the files that outlive the run, by path below the repository's folder of cards."""
        return {name: text for one in self.known.values() for name, text in one.kept().items()}

    def _ask(self, author: Proposer, situation: Situation) -> WrittenAnswer:
        self.events.phase("write", f"candidate {situation.number} of {author.name}")
        found = author.write(situation, self._check(situation.base))
        answer = WrittenAnswer(
            proposer=author.name,
            number=situation.number,
            story=found.story,
            state=dict(found.state),
            backlog=list(found.backlog),
            hypothesis=found.hypothesis,
            files=encoded(found.edit),
            summary=found.edit.summary if found.edit else "",
            explanation=found.edit.explanation if found.edit else "",
            ended=found.ended,
        )
        self.journal.append("written", answer)
        last = f": {found.story.steps[-1].outcome}" if found.story.steps else ""
        self.events.note(f"{author.name}: {found.story.title}{last}")
        return answer

    def _check(self, base: StackView) -> Check:
        """Return the public checks of drafts on `base`."""

        def check(hypothesis: Hypothesis, edit: Edit) -> Checked:
            refused = self._touched(edit, base)  # before git adds a file that could bid it anything
            if refused is not None:
                return Checked(
                    (refused,), passed=False, reason=refused.reason, detail=refused.detail
                )
            try:
                with self._draft(hypothesis, edit, base) as draft:
                    return self.check(draft, base)
            except RunStopped:
                raise
            except InvalidInput as error:  # a path that may not be edited
                return Checked((), passed=False, reason="edit_refused", detail=error.message)

        return check

    def _touched(self, edit: Edit, base: StackView) -> Gate | None:
        manifest = self.stack.manifest
        protected = (*protected_files(manifest), *judging_modules(manifest, base.root))
        return touched(edit.files, protected, manifest.stack.requirements)

    @contextmanager
    def _draft(self, hypothesis: Hypothesis, edit: Edit, base: StackView) -> Iterator[Candidate]:
        """Commit a draft on no branch, in a worktree that goes again."""
        worktree = self.stack.worktree(base.commit, self.worktrees)
        try:
            commit, patch = git.commit_edit(worktree, edit, as_it_is=True)
            yield Candidate(hypothesis, edit, "", base.commit, commit, worktree, patch)
        finally:
            self.stack.remove_worktree(worktree)
