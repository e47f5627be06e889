"""What a resumed run does.

The course of a run follows from its seed, the commit, the cards that it started with and the
answers of its stations. So `fvec run --resume` takes the same course from the start, in a new
process, and a station whose answer the journal holds gives that answer instead of measuring. The
first station without one is where the killed process was; from there on everything is real again.

What is restarted. Answers are whole or not there. Calibration, a profile, the total: measured
afresh. A trial without a verdict: the same commit is judged anew, from its first launch; the
blocks and looks of the cut attempt stay in the journal and count nowhere. A verdict that is there
is never judged again; a look that ends a trial is told in the verdict's own entry and nowhere
before it, so that no look that was written down is taken a second time. For the rate of false accepts this means: when the time of the kill does not
depend on what was measured, a cut attempt has added to it at most what its looks had spent by
then, and a look that accepted adds nothing, because the new attempt has to accept too. What the
others spend is small (O'Brien-Fleming boundaries: under a tenth of the candidate's share before
the last look) and is paid for: a trial that was cut after a look counts as one more of the
candidates that the run is allowed, so that the run may try one fewer. That is known as soon as
the run goes on, and every answer about the budget says how many were counted, so that whatever is
killed later, the run stops at the same candidate. Looks at accepted changes on top of one another
let nothing new in, and cost nothing.

Agents. What a proposer wrote is one entry (`written`), with the state that it goes on from, and what
it made of a verdict is another (`heard`): nobody is asked again for either. A write that was cut is
asked again; the purse's ledger has what it spent by then.

Side effects. A branch, a pull request, a card edit is announced in the journal before it happens
and noted after it. On resume a noted one is not repeated; an announced one is completed: the same
edit of the same base is the same commit. A refusal is noted too, and stands: a branch that was
not the bot's when it was asked for is not asked for again. A pull request is found by its branch and left alone
when nothing in it differs, and a commit that refined the cards names its run. The cards are read
as they were when the run began, not with what it has learned since.

What must be as it was: the version of fvec and its code, commit, manifest, traffic, referee,
options, seed, cards and machine; and the branches that the run made. Else a `JournalMismatch`
says what differs, and nothing is touched.

The budget of time is that of all processes together; what lies between them does not count. A write
that was killed counts up to the last line that its author's ledger has of it.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from knowledge.store import Cards
from layers.errors import JournalMismatch, Location
from layers.evidence import Iteration, KnowledgeRecord, Record, Verdict
from layers.gates.paths import judging_modules, protected_files
from layers.record.answers import (
    ANSWERS,
    MEASURED,
    RESUMED,
    STARTED,
    Basis,
    CommitAnswer,
    CommitIntent,
    CommitRefused,
    Head,
    TakenOut,
)
from layers.record.journal import Entry
from layers.repository import git
from layers.repository.stack import Stack
from layers.session import RunOptions
from layers.trial.integrity import ENGINE, Evaluator

_R = TypeVar("_R", bound=Record)
_OfBranch = TypeVar("_OfBranch", CommitAnswer, CommitRefused)
_ENGINE_PREFIX = "fvec:"  # of the names of our own code among an evaluator's files


class Earlier:
    """The answers of the processes that worked on a run before, each given once, in order."""

    def __init__(self, entries: Sequence[Entry], path: Path, worked: Sequence[str] = ()) -> None:
        """Take the entries of the journal at `path`. JournalMismatch for one that is not ours.

        `worked` are moments at which an author worked, in the same form: see `worked_at`.
        """
        self._path = path
        self._queues: dict[str, deque[object]] = defaultdict(deque)
        for entry in entries:
            if entry.kind in ANSWERS:
                model = ANSWERS[entry.kind]
                answer = entry.data if model is None else self._read(entry, model)
                self._queues[entry.kind].append(answer)
            elif entry.kind not in (*MEASURED, STARTED, RESUMED):
                raise self.mismatch(f"{entry.kind!r} is no entry of a run's journal", entry)
        if entries and entries[0].kind != STARTED:
            raise self.mismatch("the journal does not begin with run_started", entries[0])
        self.head = self._read(entries[0], Head) if entries else None
        self.lives = 1 + sum(entry.kind == RESUMED for entry in entries) if entries else 0
        self.spent_s = sum(_lives_s(entries, worked))
        self._cut = list(_cut(entries))

    def take(self, kind: str, model: type[_R]) -> _R | None:
        """Return the next recorded answer of a kind, None once all were given."""
        found = self._next(kind)
        if found is not None and not isinstance(found, model):
            raise TypeError(f"{kind} is not a {model.__name__}")
        return found

    def peek(self, kind: str, model: type[_R]) -> _R | None:
        """Return the next recorded answer of a kind without taking it."""
        found = next(iter(self._queues[kind]), None)
        return found if isinstance(found, model) else None

    def take_of(self, kind: str, model: type[_OfBranch], n: int, branch: str) -> _OfBranch | None:
        """Return the next recorded answer of a kind if it is about this candidate and branch."""
        found = self.peek(kind, model)
        if found is None or (found.n, found.branch) != (n, branch):
            return None
        return self.take(kind, model)

    def take_text(self, kind: str) -> object:
        """Return the next recorded line, or list of lines, of a kind; None once all were given."""
        return self._next(kind)

    def verdict(self) -> Iteration | None:
        """Return the next recorded iteration without taking it."""
        return next(iter(self.iterations()), None)

    def cut(self, tried: int) -> int:
        """Return how many attempts at the first `tried` candidates were cut after a look."""
        return sum(n <= tried for n in self._cut)

    def iterations(self) -> list[Iteration]:
        """Return all recorded iterations that were not given yet."""
        return [found for found in self._queues["iteration"] if isinstance(found, Iteration)]

    def intents(self) -> list[CommitIntent]:
        """Return all recorded intents to commit that were not given yet."""
        queue = self._queues["candidate_intended"]
        return [found for found in queue if isinstance(found, CommitIntent)]

    def refused(self) -> set[tuple[int, str]]:
        """Return number and branch of what was refused, as far as it was not given yet."""
        queue = self._queues["candidate_refused"]
        return {(found.n, found.branch) for found in queue if isinstance(found, CommitRefused)}

    def moved(self, branch: str) -> set[str]:
        """Return where a branch went when changes before it were taken out."""
        found = [taken for taken in self._queues["taken_out"] if isinstance(taken, TakenOut)]
        return {m.commit for taken in found for m in taken.moved if m.branch == branch}

    def mismatch(self, why: str, entry: Entry | None = None) -> JournalMismatch:
        """Return the error that says why the run cannot go on."""
        return JournalMismatch(
            f"the run cannot be resumed: {why}",
            at=Location(self._path, entry.seq + 1 if entry else None),
            hint="put it back as it was, or start a new run with another --out; "
            "the journal and what the run made stay as they are",
        )

    def _next(self, kind: str) -> object:
        queue = self._queues[kind]
        return queue.popleft() if queue else None

    def _read(self, entry: Entry, model: type[_R]) -> _R:
        try:
            return model.model_validate(entry.data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise self.mismatch(f"{entry.kind}: {where}: {first['msg']}", entry) from error


def basis(stack: Stack, root: Path, options: RunOptions, known: Cards) -> Basis:
    """Return what a run on the stack, checked out at `root`, stands on."""
    protected = (*protected_files(stack.manifest), *judging_modules(stack.manifest, root))
    digests = Evaluator.of(root, protected).digests()
    own = {name: sha for name, sha in digests.items() if name.startswith(_ENGINE_PREFIX)}
    judging = {name: sha for name, sha in digests.items() if name not in own}
    cards = {i: hashlib.sha256(p.read_bytes()).hexdigest() for i, p in known.paths.items()}
    return Basis(
        fvec=metadata.version("fvec"),
        options={
            "layers": [name.value for name in options.layers] if options.layers else None,
            "minutes": options.minutes,
            "cookbook": options.cookbook is not None,
            "sandbox": options.sandbox.value if options.sandbox else None,
            "shard": str(options.shard) if options.shard else None,
            "proposers": list(options.proposers),
            # By its digest: the words of a program may hold what nobody should read.
            "agents": _text_digest(options.agents.settings.model_dump_json())
            if options.agents
            else None,
        },
        evaluator={f"fvec, {ENGINE.name}/": _digest(own), **judging},
        cards=_digest(cards),
    )


def check(earlier: Earlier, recorded: Head, now: Head, stack: Stack) -> None:
    """Raise JournalMismatch unless the run can go on here: the same ground, its branches in place."""
    differing = [
        f"{name} was {_short(old)} and is {_short(new)}"
        for name, old, new in _differences(_plain(recorded), _plain(now))
    ]
    if differing:
        raise earlier.mismatch("; ".join(differing))
    _check_branches(earlier, stack)


def head_of(entries: Sequence[Entry]) -> Head | None:
    """Return the head of a journal, None where it is not of this version."""
    try:
        return Head.model_validate(entries[0].data)
    except ValidationError:
        return None


def since(recorded: Head, stack: Stack, options: RunOptions, known: Cards, cpu: str) -> list[str]:
    """Say what a new run on the stack would not have in common with a recorded one.

    Nothing is built for it: what the commit holds is known by the commit.
    """
    was, found = recorded.stack, recorded.basis
    old = _begun(was.commit, was.name, recorded.seed, recorded.environment.cpu, found)
    now = basis(stack, stack.root, options, known)
    new = _begun(stack.commit, stack.name, options.seed, cpu, now)
    return [f"{n} was {_short(a)} and is {_short(b)}" for n, a, b in _differences(old, new)]


def _begun(commit: str, name: str, seed: int, cpu: str, found: Basis) -> dict[str, Any]:
    """Return what a run is known by before anything is built, by a name for people."""
    engine = f"fvec, {ENGINE.name}/"
    known: dict[str, Any] = {"commit": commit, "stack.name": name, "seed": seed}
    known |= {"environment.cpu": cpu, "fvec": found.fvec}
    known |= {f"option {option}": value for option, value in found.options.items()}
    known[f"content of {engine}"] = found.evaluator.get(engine)
    return known | {"the cards' content": found.cards}


def _check_branches(earlier: Earlier, stack: Stack) -> None:
    """Refuse where somebody moved a branch that this run made, or was about to make."""
    verdicts = {(judged.n, judged.branch): judged for judged in earlier.iterations()}
    refused = earlier.refused()
    for intent in earlier.intents():
        if (intent.n, intent.branch) in refused:
            continue  # never this run's
        judged = verdicts.get((intent.n, intent.branch))
        if judged is not None and judged.verdict is not Verdict.ACCEPTED:
            continue  # it was, or will be, put back; a branch that somebody made since stays
        tip = git.tip(stack.root, intent.branch)
        if tip is None or tip == intent.before or _is_run_s(stack, tip, judged):
            continue
        if tip in earlier.moved(intent.branch):
            continue
        raise earlier.mismatch(
            f"the branch {intent.branch} is at {tip[:12]}, where this run did not leave it"
        )


def _is_run_s(stack: Stack, tip: str, judged: Iteration | None) -> bool:
    """Say whether a tip is the candidate, or what the bot committed and did not get to note."""
    if judged is not None:
        return tip == judged.commit
    return git.git(stack.root, "show", "--no-patch", "--format=%ce", tip).strip() == git.BOT_EMAIL


def refined_since(stack: Stack, branch: str, before: str | None, run_id: str) -> KnowledgeRecord:
    """Return what a run committed on the knowledge branch after `before`; empty for nothing.

    Its commits are told by the bot's address and by the run that their message names.
    """
    nothing = KnowledgeRecord(branch=None, cards_changed=[])
    tip = git.tip(stack.root, branch)
    if tip is None or tip == before:
        return nothing
    span = [f"{before or stack.commit}..{tip}"]
    ours = (
        "--fixed-strings",
        f"--committer={git.BOT_EMAIL}",
        f"--grep=run {run_id}",
        "--all-match",
    )
    commits = git.git(stack.root, "rev-list", "-1", *ours, *span).split()
    if not commits:
        return nothing
    options = ("--no-commit-id", "--name-only", "-r", "-z")
    changed = git.git(stack.root, "diff-tree", *options, commits[0]).split("\0")
    return KnowledgeRecord(branch=branch, cards_changed=sorted(filter(None, changed)))


def _cut(entries: Sequence[Entry]) -> Iterator[int]:
    """Yield the number of a candidate for every attempt at it that was cut after a look.

    The newest one may have been cut by what ended the last process, which no entry tells.
    """
    n, inside, looked = 0, False, False
    for entry in entries:
        if entry.kind == "candidate":
            n, inside, looked = int(entry.data["n"]), True, False
        elif entry.kind == "look":
            looked = inside  # a look at an accepted change lets nothing new in
        elif entry.kind == RESUMED:
            if looked:
                yield n
            looked = False
        elif entry.kind == "iteration":
            inside = looked = False
    if looked:
        yield n


def _lives_s(entries: Sequence[Entry], worked: Sequence[str]) -> Iterator[float]:
    """Yield the seconds of each process, from its first entry to the last that is known of it.

    That is its last entry, or a moment after it at which an author worked: who is killed while one
    writes leaves nothing else.
    """
    lives: list[list[datetime]] = []
    for entry in entries:
        if entry.kind == RESUMED or not lives:
            lives.append([])
        lives[-1].append(datetime.fromisoformat(entry.at))
    moments = [datetime.fromisoformat(at) for at in worked]
    for life, after in zip_longest(lives, lives[1:]):
        known = [at for at in moments if at >= life[-1] and (after is None or at < after[0])]
        yield (max([life[-1], *known]) - life[0]).total_seconds()


def worked_at(ledger: Path) -> list[str]:
    """Return the moments at which an author's ledger counts time that was worked up to them.

    Empty where there is none, or it cannot be read: whoever opens it says so.
    """
    found: list[str] = []
    with suppress(OSError, ValueError, KeyError, TypeError):
        for line in ledger.read_bytes().splitlines():
            told = json.loads(line)
            if told["worked_s"] > 0:  # not what a later process makes good
                found.append(datetime.fromisoformat(told["at"]).isoformat())
    return found


def _plain(head: Head) -> dict[str, Any]:
    """Return what has to be equal, by a name for people."""
    environment = head.environment.model_dump(mode="json", exclude={"bandwidth"})
    stack = head.stack.model_dump(mode="json")
    found = {"commit": stack.pop("commit"), "seed": head.seed, "fvec": head.basis.fvec}
    found |= {f"stack.{name}": value for name, value in stack.items()}
    found |= {f"environment.{name}": value for name, value in environment.items()}
    found |= {f"option {name}": value for name, value in head.basis.options.items()}
    found |= {f"content of {name}": sha for name, sha in head.basis.evaluator.items()}
    return found | {"the cards' content": head.basis.cards}


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield name, old.get(name), new.get(name)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:12]}..."


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest(parts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(sorted(parts.items()))).encode()).hexdigest()
