"""The comments that the bot keeps: one report a pull request, edited in place, and one of help.

The report is the same rendering of evidence as a pull request's body. What earlier reruns said is
data of the evidence branch, shown collapsed: a comment holds no state. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.render import judgement, numbers, text
from bot.render.check import NEVER_PROMOTES
from bot.render.markdown import details, table
from bot.render.text import code, inline
from layers.evidence import VerifyReport
from layers.redact import redact

if TYPE_CHECKING:
    from layers.evidence import JudgeReport

KEY = "report"  # of the sticky comment with the last report
UP_TO_DATE = "`/fvec recreate` found this pull request as the change would be made anew.\n"
HELP = "help"  # of the one with the commands, and why the last one was refused
MOST_EARLIER = 10  # rows
# Characters of each: with a body of at most `body.LIMIT` they stay below GitHub's 65,536.
_GAIN, _REASON, _LOGIN = 60, 40, 40
COMMANDS = (
    ("/fvec rerun [SHA]", "measure the evidence of this pull request again, at its head"),
    ("/fvec judge [CLASS] [SHA]", "hold any pull request, a person's too, against the same gates"),
    ("/fvec recreate", "start over one of fvec's pull requests that was edited or closed"),
    ("/fvec help", "say these lines"),
)
WHO = (
    "Commands are taken from people who may write to this repository. A command is a new comment of "
    "one line, with nothing else in it. Of a fork, the App judges a commit that is named by all its 40 "
    "digits; a workflow judges none. fvec never merges, and pushes to no branch but its own."
)


@dataclass(frozen=True, slots=True)
class Told:
    """What one rerun or judgement said: one row of the history."""

    at: str  # ISO 8601, UTC
    commit: str
    verdict: str
    reason: str
    gain: str  # plain text, empty where nothing was timed
    asked_by: str  # login


@dataclass(frozen=True, slots=True)
class Occasion:
    """Why there is a report: the commit that it is about, who asked, where its data is."""

    commit: str
    measured_on: str  # the base commit
    asked_by: str
    data_url: str
    claimed: bool  # one of our own pull requests: its claim was at stake
    edited: bool = False  # it holds commits that fvec did not push
    run_again: str = ""  # the commands that measure it again, as markdown


def report(
    found: VerifyReport | JudgeReport, occasion: Occasion, earlier: Sequence[Told] = ()
) -> str:
    """Return the comment of a report, newest of `earlier` first."""
    if isinstance(found, VerifyReport):
        body, data = judgement.verified_body(found, occasion.run_again), "verify.json"
    else:
        body, data = judgement.body(found, occasion.run_again or None), "judge.json"
    parts = [_head(occasion), body.rstrip(), f"All of the data: [{data}]({occasion.data_url})."]
    if occasion.claimed:
        parts.append(NEVER_PROMOTES)
    return redact("\n\n".join([*parts, *_history(earlier)]) + "\n")


def told(found: VerifyReport | JudgeReport, at: str, commit: str, asked_by: str) -> Told:
    """Return the row that a report leaves in the history."""
    end = found.again if isinstance(found, VerifyReport) else found.end_to_end
    gain = numbers.times_between(end.throughput_ratio, end.ci) if end else ""
    return Told(at, commit, str(found.verdict), text.one_line(found.reason, 60), gain, asked_by)


def moved(asked: str, now: str | None, earlier: Sequence[Told] = ()) -> str:
    """Return the comment of work whose commit is the head no longer; `now` is None where closed."""
    if now is None:
        what = "the pull request was closed meanwhile"
    else:
        what = f"the head moved to {code(numbers.short(now))} meanwhile"
    lines = [
        f"**Not reported**: {code(numbers.short(asked))} was to be measured, and {what}. A report "
        "belongs to one commit, so nothing is said about another.",
    ]
    if now is not None:
        lines.append("Say `/fvec rerun` or `/fvec judge` again for the new head.")
    return "\n\n".join([*lines, *_history(earlier)]) + "\n"


def broken(message: str, hint: str | None, commit: str, earlier: Sequence[Told] = ()) -> str:
    """Return the comment of work that ended by an error."""
    first = message.strip().partition("\n")[0]
    lines = [
        f"**Nothing was decided** at {code(numbers.short(commit))}: {inline(first, 600)}",
        "This says nothing about the change.",
    ]
    if hint:
        lines.append(f"What to do: {inline(hint, 600)}")
    return "\n\n".join([*lines, *_history(earlier)]) + "\n"


def not_found_again(verdict: tuple[str, str] | None) -> str:
    """Return the answer to a recreation that did not accept the change: verdict and reason."""
    if verdict is None:
        why = "the analysis did not come to it"
    else:
        why = f"{verdict[0]}, {code(verdict[1], _REASON)}: {judgement.meaning(*verdict)}"
    return (
        f"`/fvec recreate` did not find this change again on what is there now: {why}. The check "
        "run of the default branch's commit says what the analysis found.\n"
    )


def held_back(why: str) -> str:
    """Return the answer to a recreation whose change was accepted and is not published."""
    return f"`/fvec recreate` found this change again and opened nothing: {inline(why, 300)}.\n"


def help_text(refused: str = "") -> str:
    """Return the commands, after the reason why the last one was refused."""
    rows = [[code(command), what] for command, what in COMMANDS]
    parts = [f"Refused: {text.prose(text.one_line(refused, 400))}."] if refused else []
    return "\n\n".join([*parts, table(["command", "what it does"], rows), WHO]) + "\n"


def _head(occasion: Occasion) -> str:
    what = "Measured again" if occasion.claimed else "Judged"
    asked = f", asked for by {code(occasion.asked_by, _LOGIN)}" if occasion.asked_by else ""
    lines = [
        f"### {what} at {code(numbers.short(occasion.commit))}",
        f"Against {code(numbers.short(occasion.measured_on))}{asked}.",
    ]
    if occasion.edited:
        lines.append(
            "This pull request holds commits that fvec did not push, so the whole of it was "
            "judged as any other would be."
        )
    return "\n\n".join(lines)


def _history(earlier: Sequence[Told]) -> list[str]:
    if not earlier:
        return []
    rows = [
        [
            numbers.moment(row.at),
            code(numbers.short(row.commit)),
            inline(row.verdict, 12),
            code(row.reason, _REASON),
            inline(row.gain, _GAIN),
            code(row.asked_by, _LOGIN),
        ]
        for row in earlier[:MOST_EARLIER]
    ]
    head = ["when", "commit", "verdict", "reason", "throughput", "asked by"]
    more = len(earlier) - MOST_EARLIER
    note = f"\n\nand {more} before that, in `history.json`." if more > 0 else ""
    return [details(f"Earlier ({len(earlier)})", table(head, rows) + note)]
