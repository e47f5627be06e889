"""The dashboard issue: what woke the bot, what it did, what it waits for, what went wrong.

Rendered from data alone: the issue is replaced as a whole, and nothing is ever read from it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from bot.render import numbers, text
from bot.render.body import Ending, Section, fit
from bot.render.markdown import bullets, table
from bot.render.numbers import moment
from bot.render.text import code, inline

TITLE = "fvec dashboard"
MOST_RUNS = 20
MOST_PULLS = 50
State = Literal[
    "taken back",
    "open",
    "stale",
    "edited",
    "awaiting",
    "closed",
    "merged",
    "superseded",
    "refused",
]
STATES: tuple[State, ...] = get_args(State)  # in the order in which a person may have to act
MEANINGS: dict[str, str] = {
    "taken back": "its last rerun was rejected: close it, or `/fvec recreate`",
    "open": "waits for review",
    "stale": "what is served has changed in its base: `/fvec recreate` measures on what is there now",
    "edited": "a person committed to it, so fvec leaves it alone: `/fvec recreate` starts over",
    "awaiting": "held back by `max_open_pull_requests`",
    "closed": "closed without merging, which means no: `/fvec recreate` opens it again",
    "merged": "merged",
    "superseded": "replaced by a newer one",
    "refused": "not published: its files are not what its evidence says",
}
SHED_FIRST = ("runs", "pulls", "trouble")
_FOOTER = (
    "Kept by `fvec`, which replaces this text: nothing that is written here is read. Commands are "
    "given in comments on pull requests; `/fvec help` there says which."
)


@dataclass(frozen=True, slots=True)
class RunLine:
    """One job that ended; `hint` says what to do where it failed."""

    at: str  # ISO 8601, UTC
    job: str  # its id, which logs name too
    kind: str
    state: str  # "done", "superseded", "refused", "failed"
    why: str  # what woke it
    summary: str
    commit: str | None = None
    number: int | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class PullLine:
    """One pull request of ours, or one that is held back; `number` is None for that."""

    branch: str
    state: State
    title: str = ""
    number: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What the issue shows: `runs` newest first, `nothing` why nothing is to be done now."""

    runs: Sequence[RunLine] = ()
    pulls: Sequence[PullLine] = ()
    nothing: str = ""
    onboarding: int | None = None  # the onboarding pull request, while there is no manifest


def body(shown: Dashboard) -> str:
    """Return the issue's body in markdown, at most `body.LIMIT` characters."""
    sections = [
        Section("summary", "", _now(shown)),
        Section("trouble", "What went wrong", _trouble(shown.runs)),
        Section("pulls", "Pull requests", _pulls(shown.pulls)),
        Section("runs", "Last runs", _runs(shown.runs)),
    ]
    ending = Ending(_FOOTER, "fvec/evidence:runs/runs.json", SHED_FIRST)
    return fit(sections, ending)


def _now(shown: Dashboard) -> str:
    lines = []
    if shown.onboarding is not None:
        lines.append(
            f"There is no manifest yet: #{shown.onboarding} proposes one, and nothing is measured "
            "before it is merged."
        )
    if shown.runs:
        last = shown.runs[0]
        lines.append(
            f"Last run: {inline(last.kind, 20)}, **{inline(last.state, 20)}**, {moment(last.at)}. "
            f"Why: {_sentence(last.why)}"
        )
    if shown.nothing:
        lines.append(f"Now: {_sentence(shown.nothing)}")
    return "\n\n".join(lines) or "Nothing has happened yet."


def _trouble(runs: Sequence[RunLine]) -> str:
    """List the failures since the last run of their kind that went well."""
    well: set[tuple[str, int | None]] = set()
    lines = []
    for run in runs[:MOST_RUNS]:
        subject = (run.kind, run.number)
        if run.state == "failed" and subject not in well:
            hint = f" To do: {_words(run.hint, 300)}" if run.hint else ""
            lines.append(f"{_what(run)}, job {code(run.job, 60)}: {_sentence(run.summary)}{hint}")
        elif run.state == "done":
            well.add(subject)
    return bullets(lines)


def _pulls(pulls: Sequence[PullLine]) -> str:
    ordered = sorted(pulls, key=lambda pull: STATES.index(pull.state))
    rows = [
        [
            f"#{pull.number}" if pull.number is not None else "",
            pull.state,
            inline(pull.title, 120) or code(pull.branch, 120),
            _words(pull.note, 200) or MEANINGS[pull.state],
        ]
        for pull in ordered[:MOST_PULLS]
    ]
    if not rows:
        return ""
    more = len(ordered) - MOST_PULLS
    note = f"\n\nand {more} more." if more > 0 else ""
    return table(["", "state", "what", "what it means"], rows, right="r") + note


def _runs(runs: Sequence[RunLine]) -> str:
    rows = [
        [
            moment(run.at),
            _what(run),
            inline(run.state, 20),
            _words(run.why, 160),
            _words(run.summary, 200),
            code(run.job, 60),
        ]
        for run in runs[:MOST_RUNS]
    ]
    head = ["when", "what", "state", "why", "outcome", "job"]
    return table(head, rows) if rows else ""


def _what(run: RunLine) -> str:
    about = f" of #{run.number}" if run.number is not None else ""
    at = f" at {code(numbers.short(run.commit))}" if run.commit else ""
    return f"{inline(run.kind, 20)}{about}{at}"


def _sentence(words: str) -> str:
    told = _words(words.rstrip(" ."), 400)
    return f"{told}." if told else "not said."


def _words(words: str, limit: int) -> str:
    """Return one line of words, in which code stays code."""
    return text.prose(text.one_line(words, limit))
