"""What surrounds evidence on GitHub: the pull request's frame, its first check, comments. Pure.

The evidence itself is rendered by `bot.render.pull_request`, as for every other forge.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from bot.render import check, numbers, pull_request, sections, text
from bot.render.again import Kept
from bot.render.check import Check
from bot.render.terminal import plain_table
from bot.render.text import code, one_line

if TYPE_CHECKING:
    from bot.publishing.github import Published
    from layers.evidence import EvidenceFile

COMMANDS = (
    "Commands are comments of one line, by people who may write to this repository: `/fvec rerun` "
    "measures the evidence again at the head of this pull request, `/fvec recreate` starts over, "
    "`/fvec judge` holds any pull request against the same gates, `/fvec help` lists them."
)
DISCLOSURE = "This pull request was written and measured by a program; {who}."
TAKEN_BACK = (
    "**Taken back**: at {commit} this change was rejected when it was measured again ({reason}). Below "
    "stands what was measured before; the comment with the report has the new numbers."
)
STANDING = "<!-- fvec:standing -->"  # before the paragraph that a rerun puts first


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a body's parts lie on the evidence branch, at one commit of it."""

    evidence: str
    patch: str
    whole: str  # the body with nothing shed
    plots: Mapping[str, str]
    kept: Kept  # where to fetch them from by git


@dataclass(frozen=True, slots=True)
class Ties:
    """What a pull request stands on, and which ones it follows; numbers are GitHub's."""

    base: str  # branch that it goes to
    base_commit: str  # that it was measured on
    stacked_on: int | None = None
    supersedes: Sequence[int] = ()
    recreates: int | None = None


def body(marker: str, evidence: EvidenceFile, ties: Ties, addresses: Addresses) -> str:
    """Return the body of a pull request at GitHub, at most 65,536 characters.

    `marker` is the hidden first line that it is known by.
    """
    plots, kept = addresses.plots, addresses.kept
    shown = pull_request.render(evidence, plots, kept=kept)
    shed = shown != pull_request.render(evidence, plots, kept=kept, limit=sys.maxsize)
    summary, heading, rest = shown.rstrip().partition("\n\n## ")
    ties_told = "\n\n".join(_notes(ties))
    parts = [marker, summary, f"{ties_told}{heading}{rest}", _files(addresses, shed=shed)]
    return "\n\n".join([*parts, disclosure(evidence), COMMANDS]) + "\n"


def disclosure(evidence: EvidenceFile) -> str:
    """Say that no person wrote this, and who answers for it."""
    if evidence.stack.owner:
        return DISCLOSURE.format(who="the person or team named above answers for it")
    return DISCLOSURE.format(
        who="nobody answers for it yet: name a person or team by `owner` in the manifest"
    )


def standing(body: str, verdict: str, reason: str, commit: str) -> str:
    """Return a pull request's body that says first whether its claim still stands.

    `verdict` is the last one, at `commit`; what an earlier one had put there goes.
    """
    first, *parts = body.replace("\r\n", "\n").split("\n\n")
    parts = [part for part in parts if not part.startswith(STANDING)]
    if verdict == "rejected":
        told = TAKEN_BACK.format(commit=code(numbers.short(commit)), reason=code(reason, 60))
        parts.insert(0, f"{STANDING}\n{told}")
    return "\n\n".join([first, *parts])


def whole(evidence: EvidenceFile, plots: Mapping[str, str]) -> str:
    """Return the body with nothing shed, however long: it lies beside the evidence."""
    return pull_request.render(evidence, plots, limit=sys.maxsize)


def accepted(evidence: EvidenceFile) -> Check:
    """Return the check of a commit whose evidence was just published."""
    gain = evidence.iteration.end_to_end
    told = f": {numbers.times_between(gain.throughput_ratio, gain.ci)} throughput" if gain else ""
    return Check(
        "success",
        text.title(f"{evidence.iteration.verdict}{told}", check.TITLE_LIMIT),
        sections.summary(evidence),
    )


def base_merged_otherwise(base: str, base_commit: str, now: str) -> Check:
    """Return the check of a stacked pull request whose base was merged with other content."""
    return Check(
        "neutral",
        text.title(
            f"Its base was merged otherwise than it was measured: {base}", check.TITLE_LIMIT
        ),
        f"The evidence was measured on {code(numbers.short(base_commit))}, the head of {code(base)}. "
        f"What was merged of that is not the same: {code(numbers.short(now))} has other files. The "
        "gain there is not known.\n\n`/fvec recreate` looks for the change anew.",
    )


def edited(branch: str) -> str:
    """Return the comment on a pull request that a person has committed to."""
    return (
        f"A commit on {code(branch)} is not of `fvec`, so it leaves this pull request "
        "to you: nothing is pushed over it, and there is newer evidence that is not shown here.\n\n"
        "- `/fvec rerun` judges the whole of your head by the same gates; it is not compared with the "
        "evidence above.\n"
        "- `/fvec recreate` publishes the newer change in a pull request of its own; this one stays "
        "as it is.\n"
    )


def continued(number: int) -> str:
    """Return the comment on a pull request that was left for a new one, on request."""
    return f"`/fvec recreate` went on in #{number}.\n"


def superseded(number: int, *, closed: bool) -> str:
    """Return the comment on a pull request whose changes a newer one has."""
    then = (
        "This one is closed."
        if closed
        else "This one holds commits that are not of `fvec`, so it stays open: close it if they are "
        "not needed."
    )
    return f"#{number} has the same change, measured anew. {then}\n"


def outcome(published: Sequence[Published]) -> RenderableType:
    """Show in a terminal what became of each pull request."""
    if not published:
        return Text("no pull request to publish: the run accepted no change", style="bold")
    head = ["#", "became", "pull request", "why"]
    rows = [
        [str(one.number or numbers.ABSENT), one.kind, one.title or one.branch, one.detail]
        for one in published
    ]
    addresses = [
        Padding(Text(one_line(one.url), no_wrap=True, overflow="ignore"), (0, 0, 0, 2))
        for one in published
        if one.url
    ]
    return Group(plain_table(head, rows, right={0}), *addresses)


def _notes(ties: Ties) -> list[str]:
    """Return what a reviewer should know right after the summary, one paragraph each."""
    notes = []
    measured = f"Measured on commit {code(ties.base_commit)}"
    if ties.stacked_on is not None:
        notes.append(
            f"Stacked on #{ties.stacked_on}. {measured}, the head of its branch {code(ties.base)}: "
            "that one comes first."
        )
    else:
        notes.append(f"{measured} of {code(ties.base)}.")
    if ties.supersedes:
        numbered = ", ".join(f"#{number}" for number in ties.supersedes)
        notes.append(f"Supersedes {numbered}.")
    if ties.recreates is not None:
        notes.append(f"Started over on request, after #{ties.recreates}.")
    return notes


def _files(addresses: Addresses, *, shed: bool) -> str:
    links = [f"[evidence.json]({addresses.evidence})", f"[patch.diff]({addresses.patch})"]
    if shed:
        links.append(f"[all sections, none left out]({addresses.whole})")
    return f"Data of this pull request: {', '.join(links)}."
