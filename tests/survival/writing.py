"""Made-up proposers for a replayed run: they write in order, and tell each time they are asked.

What they do next follows from what they know alone (`state`), so that a run which lost it, or gave
an old one back, comes to another result. Each question is told in a file beside the results, with
whether the journal held its answer by then: no process may ask for what an earlier one was told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from layers.base import (
    Activation,
    Candidate,
    ChangeClass,
    Contract,
    Edit,
    Hypothesis,
    LayerName,
    Sign,
)
from layers.evidence import Iteration
from layers.loop import instruments
from layers.loop.proposing import Check, Heard, Situation, Written
from layers.loop.stations import ProposersOpener
from layers.record.journal import read
from layers.run import run
from layers.story import Cost, Outcome, Role, Step, Story
from tests.survival import world
from tests.survival.replay import Recording, Replayed, Trial, opener

MODEL = "features"
SOURCE = f"models/{MODEL}/1/model.py"
GOOD, BAD = "rows-in-one-pass", "rows-kept-apart"  # issues: the first gains, the other does not
AGENTS = "schema: fvec.agents/1\ncommand: {run: ['true']}\n"  # made-up proposers stand for it
COST = Cost(calls=1, input_tokens=1000, output_tokens=100, usd=0.01, wall_s=2.0)


@dataclass(frozen=True)
class Draft:
    """What a proposer writes when its turn comes; `last`: it is not to be asked again after it."""

    issue: str | None = None  # None: no candidate
    last: str = ""


# The second takes over once the first has heard of its third candidate: the same change as the
# second, another way. What it says first is no candidate and no end.
FIRST = (Draft(GOOD), Draft(BAD), Draft(BAD, "first has no other idea"))
SECOND = (Draft(), Draft(last="second found nothing"))
QUESTIONS = [
    *(("written", 1), ("heard", 1), ("written", 2), ("heard", 2), ("written", 3), ("heard", 3)),
    *(("written", 4), ("written", 5)),
]


@dataclass(frozen=True)
class Asked:
    """One question that a proposer was asked."""

    kind: str  # of the journal's entry that answers it
    number: int  # of the request, or of the candidate
    journalled: bool  # before it was asked


class Author:
    """A proposer that writes its drafts in order."""

    def __init__(self, name: str, drafts: Sequence[Draft], out: Path, run_id: str) -> None:
        """Take what it writes, the results folder of the run, and the run's name."""
        self.name, self.drafts, self.out = name, drafts, out
        self.known: Mapping[str, Any] = {"run": run_id, "wrote": [], "heard": []}

    def write(self, situation: Situation, check: Check) -> Written:
        """Write the next draft."""
        tell(self.out, "written", situation.number)
        assert situation.number <= len([*FIRST, *SECOND]), "it forgets what it wrote"
        wrote = self.known["wrote"]
        draft = self.drafts[len(wrote)]
        after = {**self.known, "wrote": [*wrote, situation.number]}
        ended = draft.last if draft.issue is None else ""
        if draft.issue is None:
            story = self._story("nothing", _step(Role.PLANNER, Outcome.NOTHING_LEFT, self.known))
            return Written(story, after, ended=ended, backlog=self._backlog(after))
        hypothesis = _hypothesis(self.name, draft.issue)
        text = (situation.base.root / SOURCE).read_bytes()
        line = f"# {self.name} knows {json.dumps(self.known)}\n"
        edit = Edit({SOURCE: text + line.encode()}, f"Try {draft.issue}", "A comment is exact.")
        checked = check(hypothesis, edit)
        assert checked.passed, checked.detail
        story = self._story(
            draft.issue,
            _step(Role.PLANNER, Outcome.PLANNED, self.known),
            _step(Role.IMPLEMENTER, Outcome.EDITED, self.known),
        )
        return Written(story, after, hypothesis, edit, backlog=self._backlog(after))

    def heard(self, iteration: Iteration, situation: Situation) -> Heard:
        """Take a verdict; the last draft of all was the last idea."""
        tell(self.out, "heard", iteration.n)
        verdict = [iteration.n, iteration.card, iteration.verdict.value, iteration.commit]
        after = {**self.known, "heard": [*self.known["heard"], verdict]}
        step = _step(Role.EVALUATOR, Outcome.HINTS, after)
        return Heard(
            after, (step,), self.drafts[len(after["heard"]) - 1].last, self._backlog(after)
        )

    def restore(self, state: Mapping[str, Any]) -> None:
        """Know what the state says, and nothing else."""
        self.known = json.loads(json.dumps(state))

    def kept(self) -> Mapping[str, bytes]:
        """Return all that it knows, as a file."""
        return {f"{self.name}.json": json.dumps(self.known).encode()}

    def _story(self, issue: str, *steps: Step) -> Story:
        return Story(proposer=self.name, issue=issue, title=f"Try {issue}", steps=list(steps))

    def _backlog(self, after: Mapping[str, Any]) -> tuple[str, ...]:
        return (f"{self.name} wrote {len(after['wrote'])}, heard of {len(after['heard'])}",)


def _step(role: Role, outcome: Outcome, known: Mapping[str, Any]) -> Step:
    return Step(role=role, round=0, outcome=outcome, text=json.dumps(known), cost=COST)


def _hypothesis(proposer: str, issue: str) -> Hypothesis:
    sign = Activation(Sign.RUNS, MODEL, f"{SOURCE}:execute")
    claim = "Each row is looked at by itself, and all of them could be at once."
    return Hypothesis(
        layer=LayerName.FEATURES,
        card=issue,
        model=MODEL,
        title=f"Try {issue}",
        why=claim,
        share=0.6,
        expected_gain=0.2,
        best_gain=0.3,
        change_class=ChangeClass.EXACT,
        transform="written",
        proposer=proposer,
        contract=Contract(claim, (1.02, 1.3), (sign,), "Completions per second do not rise."),
    )


# --- what they were asked ----------------------------------------------------------------------


def tell(out: Path, kind: str, number: int) -> None:
    """Note a question before it is answered."""
    held = any((e.kind, _number(e.data)) == (kind, number) for e in read(out / "journal.jsonl"))
    with (out.parent / "asked.jsonl").open("a") as file:
        file.write(json.dumps([kind, number, held]) + "\n")


def _number(answer: Any) -> object:
    return answer.get("number", answer.get("n")) if isinstance(answer, dict) else None


def asked(place: Path) -> list[Asked]:
    """Return what was asked in all processes of a run, in order."""
    return [Asked(*json.loads(line)) for line in (place / "asked.jsonl").read_text().splitlines()]


# --- the run ------------------------------------------------------------------------------------


class WithDrafts(Recording):
    """A recording that knows what gains."""

    def trial(self, candidate: Candidate) -> Trial:
        if candidate.hypothesis.card == GOOD:
            return self.trials["lookups-one-pass", MODEL]
        return super().trial(candidate)


@contextmanager
def opened(*arguments: Any) -> Iterator[instruments.Instruments]:
    """Open the stack; a process that goes on does not know the run's name yet, as with real servers."""
    recording = Recording.read()
    recording = WithDrafts(**{f.name: getattr(recording, f.name) for f in fields(recording)})
    with opener(recording)(*arguments) as taken:
        assert isinstance(taken, Replayed)
        if arguments[1].resume:
            taken.run_id = "0" * 12
        yield taken


def authors(taken: instruments.Instruments, *_: object) -> list[Author]:
    """Return both proposers."""
    return [
        Author("first", FIRST, taken.out, taken.run_id),
        Author("second", SECOND, taken.out, taken.run_id),
    ]


def prepared(then: Callable[[], object] | None = None) -> Callable[[], None]:
    """Return what sets a life up to be written for; `then` is called after it."""
    opens: ProposersOpener = authors

    def prepare() -> None:
        instruments.open_live = opened
        assert run.__defaults__ is not None
        run.__defaults__ = (*run.__defaults__[:-1], opens)
        if then is not None:
            then()

    return prepare


def place(folder: Path) -> tuple[Path, list[str]]:
    """Make a repository in `folder`; return it, and the command line of a run on it."""
    root, agents = world.repository(folder / "ads"), folder / "agents.yml"
    agents.write_text(AGENTS)
    options = ["--proposer", "command", "--agents", str(agents), "--out", str(folder / "out")]
    return root, ["run", str(root), *options]
