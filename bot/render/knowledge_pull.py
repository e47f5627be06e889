"""The pull request of `fvec/knowledge`: what runs learned, and what is left to a person. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.render import numbers
from bot.render.body import Ending, Section, fit
from bot.render.markdown import bullets, details, table
from bot.render.text import code, fence, inline, one_line, title

if TYPE_CHECKING:
    from knowledge.cards import Finding

MOST_FINDINGS = 100  # rows
MOST_SHOWN = 4  # cards left to a person whose two sides stand in the body
MOST_LISTED = 50
LONGEST_SIDE = 6000  # characters of one of them
SHED_FIRST = ("findings", "problems")
_HEAD = ("card", "model", "verdict", "gain", "reason", "measured on", "run")
_PURPOSE = (
    "What runs of `fvec` found on this repository, in the cards that it belongs to. Only `findings` "
    "and `earlier` of a card differ; every other byte is as its last author left it. What agents tried "
    "and have left to try, where a run asked any, stands in `memory.yaml`, which is rewritten as a whole."
)
_HOW = (
    "Later runs read this branch as it is, merged or not. Commit to it as you like: a card that you "
    "edit stays edited, a finding that you delete stays deleted. Closing this pull request says no to "
    "merging; the branch stays until you delete it."
)
_SETTLE = (
    "These findings found no place. To settle one: take its findings into the card, or not, and "
    "delete the file."
)


@dataclass(frozen=True, slots=True)
class Learned:
    """A card, by its id, with the findings that the base does not have."""

    card: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Findings that their card cannot take; both sides as text, `theirs` None without a file.

    Ours lies on the branch at `path`.
    """

    card: str
    path: str
    reason: str
    ours: str
    theirs: str | None


def headline(learned: Sequence[Learned], conflicts: Sequence[Conflict]) -> str:
    """Return the title."""
    findings = sum(len(one.findings) for one in learned)
    told = f"{numbers.counted(findings, 'finding')} on {numbers.counted(len(learned), 'card')}"
    if conflicts:
        told += f", {len(conflicts)} left to a person"
    return title(f"knowledge: {told}")


def render(
    learned: Sequence[Learned],
    conflicts: Sequence[Conflict],
    problems: Sequence[str],
    *,
    owner: str | None,
) -> str:
    """Return the body in GitHub-flavoured markdown, at most `body.LIMIT` characters.

    `problems` are what the last run says of cards that could not take its findings; `owner` is who
    answers for the bot's pull requests.
    """
    sections = [
        Section("summary", "", f"{_PURPOSE}\n\n{_HOW}"),
        Section("conflicts", "Left to a person", _conflicts(conflicts)),
        Section("findings", "What was found", _findings(learned)),
        Section("problems", "Cards that the last run could not read", _problems(problems)),
    ]
    who = f"{inline(owner, 100)} answers for it." if owner else "No owner is named."
    footer = f"Opened by `fvec`. {who} It does not merge, and it pushes to no branch but its own."
    return fit(sections, Ending(footer, "the branch", SHED_FIRST))


def _findings(learned: Sequence[Learned]) -> str:
    rows = [_row(one.card, finding) for one in learned for finding in one.findings]
    if not rows:
        return ""
    shown = table(_HEAD, rows[:MOST_FINDINGS], right="lllr")
    more = len(rows) - MOST_FINDINGS
    return f"{shown}\n\nand {numbers.counted(more, 'more finding')}." if more > 0 else shown


def _row(card: str, finding: Finding) -> list[str]:
    gain = numbers.ABSENT
    if finding.gain is not None:
        ends = finding.ci
        gain = numbers.times_between(finding.gain, ends) if ends else numbers.times(finding.gain)
    place = f"{inline(finding.stack, 60)} at {code(numbers.short(finding.commit))}"
    return [
        code(card),
        code(finding.model, 60),
        finding.verdict,
        gain,
        code(finding.reason, 80),
        f"{place}, {finding.date}",
        code(finding.run, 40),
    ]


def _conflicts(conflicts: Sequence[Conflict]) -> str:
    if not conflicts:
        return ""
    parts = [_SETTLE, *(part for one in conflicts[:MOST_SHOWN] for part in _both_sides(one))]
    rest = conflicts[MOST_SHOWN:]
    if rest:
        listed = [f"{code(one.path)}: {inline(one.reason, 200)}" for one in rest[:MOST_LISTED]]
        parts.append(bullets(listed))
    if len(rest) > MOST_LISTED:
        parts.append(f"and {len(rest) - MOST_LISTED} more files of that kind.")
    return "\n\n".join(parts)


def _both_sides(conflict: Conflict) -> Iterator[str]:
    yield f"**{code(conflict.card)}**: {inline(conflict.reason, 300)}"
    yield details(f"Ours: {_plain(conflict.path)}", _side(conflict.ours))
    if conflict.theirs is None:
        yield "Theirs: there is no file with this card."
    else:
        yield details("Theirs: the card as it is on the branch", _side(conflict.theirs))


def _side(content: str) -> str:
    shown = fence(content[:LONGEST_SIDE], "yaml")
    more = len(content) - LONGEST_SIDE
    return (
        f"{shown}\n\n{numbers.counted(more, 'more character')} in the file." if more > 0 else shown
    )


def _plain(path: str) -> str:
    """Return a path for a summary line, which is HTML and no markdown."""
    return f"<code>{html.escape(one_line(path, 200))}</code>"


def _problems(problems: Sequence[str]) -> str:
    return bullets(inline(problem, 300) for problem in problems[:MOST_LISTED])
