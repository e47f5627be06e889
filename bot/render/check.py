"""What a check run says of a commit: conclusion, title and words. Pure.

A check run is pinned to one commit. `success` is an accepted verdict and nothing else; a tool
that broke, a measurement that could not decide and a base that has moved are `neutral`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from bot.render import judgement, numbers, text
from bot.render.text import code, inline
from layers.redact import redact

if TYPE_CHECKING:
    from layers.evidence import EndToEnd, JudgeReport, VerifyReport

NAME = "fvec"
VERDICT = "verdict"  # external id of the check run on the head of a pull request
ANALYSIS = "analysis"  # of the one on a commit of the default branch
TITLE_LIMIT = 120
MOST_MESSAGE = 4_000  # characters of an error's text

Conclusion = Literal["success", "failure", "neutral"]
CONCLUSIONS: Mapping[str, Conclusion] = {
    "accepted": "success",
    "rejected": "failure",
    "inconclusive": "neutral",
    "failed": "neutral",
}
NEVER_PROMOTES = (
    "A rerun may take a claim back. It never makes one larger, and a change that was not accepted "
    "is accepted only as a new candidate, on fresh measurements."
)


@dataclass(frozen=True, slots=True)
class Check:
    """A check run that has ended: `title` is plain text, `summary` and `text` are markdown."""

    conclusion: Conclusion
    title: str
    summary: str
    text: str = ""


def verified(report: VerifyReport, commit: str, run_again: str = "") -> Check:
    """Return the check of evidence that was measured again at `commit`, with all that was found.

    `run_again` has the commands that measure it once more, as markdown.
    """
    return Check(
        CONCLUSIONS[report.verdict],
        _title(report.verdict, report.reason, report.again),
        f"{_summary(report.verdict, report.reason, commit, report.detail)}\n\n{NEVER_PROMOTES}",
        judgement.verified_body(report, run_again),
    )


def judged(
    report: JudgeReport, commit: str, run_again: str = "", *, claimed: bool = False
) -> Check:
    """Return the check of a patch that was judged at `commit`, with all that was found.

    `claimed`: it is one of our own pull requests, whose claim was at stake.
    """
    summary = _summary(report.verdict, report.reason, commit, report.detail)
    return Check(
        CONCLUSIONS[report.verdict],
        _title(report.verdict, report.reason, report.end_to_end),
        f"{summary}\n\n{NEVER_PROMOTES}" if claimed else summary,
        judgement.body(report, run_again or None),
    )


def broken(message: str, hint: str | None, *, fault_of_input: bool = False) -> Check:
    """Return the check of work that ended by an error, which decides nothing about a change.

    `fault_of_input`: a file of the repository is wrong, which a person has to mend.
    """
    first, _, rest = message[:MOST_MESSAGE].strip().partition("\n")
    parts = [inline(first, 600)]
    if rest.strip():
        parts.append(text.fence(rest, "text"))
    if hint:
        parts.append(f"What to do: {inline(hint, 600)}")
    if not fault_of_input:
        parts.append("This says nothing about the change.")
    what = "Cannot work here" if fault_of_input else "Nothing was decided"
    return Check(
        "failure" if fault_of_input else "neutral",
        text.title(f"{what}: {first}", TITLE_LIMIT),
        "\n\n".join(parts),
    )


def stale(measured_on: str, base: str, now: str) -> Check:
    """Return the check of a pull request whose base is another commit than it was measured on."""
    return Check(
        "neutral",
        text.title(f"Measured on {numbers.short(measured_on)}; {base} has moved", TITLE_LIMIT),
        f"The evidence was measured on {code(numbers.short(measured_on))}. Since then {code(base)} "
        f"has moved to {code(numbers.short(now))}, and files that are served are among what "
        "changed: the gain there is not known.\n\n"
        "`/fvec recreate` looks for the change anew on what is there now. `/fvec rerun` measures the "
        f"evidence again, and on {code(numbers.short(measured_on))} as before: it says nothing of "
        f"{code(base)} as it is now.",
    )


def stands_on(told: Check, measured_on: str, base: str, now: str, what: str) -> Check:
    """Return the check of a verdict that was reached on a base that has moved since.

    `what` says in a word what it found there: "reproduced".
    """
    there = numbers.short(measured_on)
    return replace(
        told,
        conclusion="neutral",
        title=text.title(f"{what} on {there}; {base} has moved", TITLE_LIMIT),
        summary=f"{stale(measured_on, base, now).summary}\n\n{told.summary}",
    )


def current(measured_on: str, verdict: str, reason: str) -> Check:
    """Return the check of a pull request that is stale no longer: its last verdict."""
    return Check(
        CONCLUSIONS[verdict],
        text.title(f"{verdict}: measured on {numbers.short(measured_on)}", TITLE_LIMIT),
        f"That is: {judgement.meaning(verdict, reason)}. What is served has not changed since in the "
        "base. All of the evidence is in the pull request.",
    )


def ended(conclusion: str, run_id: str, accepted: int) -> Check:
    """Return the check of an analysis that came to its end: it never fails a commit."""
    changes = f"{numbers.counted(accepted, 'change')} accepted"
    return Check(
        "success" if accepted else "neutral",
        text.title(f"{changes}, run {run_id}", TITLE_LIMIT),
        f"{inline(conclusion, 600)}\n\nRun {code(run_id, 60)}.",
    )


def _title(verdict: str, reason: str, gain: EndToEnd | None) -> str:
    told = judgement.meaning(verdict, reason)
    if verdict == "accepted" and gain is not None:
        told = f"{judgement.end_line(gain)}"
    return text.title(f"{verdict}: {told}", TITLE_LIMIT)


def _summary(verdict: str, reason: str, commit: str, detail: str) -> str:
    lines = [
        f"**{verdict}**: {code(reason, 60)}, at {code(numbers.short(commit))}.",
        f"That is: {judgement.meaning(verdict, reason)}.",
    ]
    if detail:
        lines.append(inline(detail, judgement.MOST_DETAIL))
    return redact("\n\n".join(lines))
