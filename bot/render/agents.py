"""How agents wrote candidates, as facts, chapters and tables that every rendering shows. Pure.

Words, columns and numbers are decided here alone. What a model, a program or a repository said
stands in a quotation, a cell or a fact of its own: it is data, and the back ends escape it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from bot.render import numbers, text
from bot.render.content import (
    Chapter,
    Column,
    Facts,
    Line,
    Row,
    Table,
    code,
    left,
    right,
    row,
    said,
    strong,
    theirs,
    verdict,
    words,
)
from bot.render.surroundings import MOST_TITLE, why
from layers.base import Sign
from layers.story import Cost, Outcome, Role

if TYPE_CHECKING:
    from layers.evidence import Iteration, RunReport
    from layers.story import (
        AgentsReport,
        ContractRecord,
        Refusal,
        SignRecord,
        Step,
        Story,
        Suspicion,
        Yield,
    )

WRITTEN = "How it was written"
MOST_CLAIM = 800  # characters of a claim or a falsifier
MOST_TOLD = 2000  # of what one step says; its transcript has all of it
MOST_NAME = 80  # of an issue, a skill, a proposer or a reason code
MOST_LINE = 400
MOST_SEEN = 40  # rows
MOST_BACKLOG = 60  # lines
OUTCOMES: Mapping[Outcome, str] = {
    Outcome.PLANNED: "planned",
    Outcome.NOTHING_LEFT: "found nothing left to try",
    Outcome.EDITED: "wrote an edit",
    Outcome.NO_EDIT: "wrote no edit",
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.REJECTED: "rejected it",
    Outcome.NOTHING_FOUND: "found nothing to reject",
    Outcome.HINTS: "said why, and what to try next",
    Outcome.REFUSED: "the model would not",
    Outcome.MALFORMED: "gave no usable answer",
    Outcome.OUT_OF_TURNS: "used up its turns",
    Outcome.OUT_OF_BUDGET: "the budget was spent",
    Outcome.OUT_OF_TIME: "the time was up",
    Outcome.UNREACHABLE: "the service could not be reached",
    Outcome.BROKE: "the program ended badly",
}
SIGNS: Mapping[Sign, str] = {
    Sign.RUNS: "Runs: the function is on a stack of the model's process under load, and was not "
    "before the change or is changed by it.",
    Sign.GONE: "Gone: the function takes at most half of the CPU per request that it takes in the "
    "baseline.",
    Sign.LOADED: "Loaded: the file is mapped by the model's process, and was not before or is changed.",
    Sign.SERVED: "Served: the server reports the value, and reported another one before.",
}
SUSPICIONS: Mapping[str, str] = {  # by code; one that is not known is shown as it is
    "instruction": "reads as an instruction",
    "role_marker": "looks like another speaker's turn",
    "hidden_characters": "holds characters that nobody sees",
    "asks_for_secret": "asks for a secret",
    "asks_for_more": "asks for limits or tools of its own",
}
_SIGNS = "What its author named beforehand as signs that the change runs:"
_SEEN = (
    "Refused: what an agent asked of a tool, or wrote, and was not let do. Seen: text that reads as if "
    "it were meant to steer an agent; where it was handed over, it was so as a quotation."
)
_YIELDS = (
    "No candidate: what ended before a trial. Tokens: all of them, those read from cache too; a dash "
    "where no model was asked. Money: by the prices of the settings, a dash without. Time: of writing "
    "and trials. Trials/gain: trials for one accepted change, a dash where none was."
)
# As `layers.agents` names them, beside the report: nothing else is linked.
_TRANSCRIPT = re.compile(r"transcripts/[A-Za-z0-9][A-Za-z0-9 ._-]{0,100}\.jsonl", re.ASCII)


@dataclass(frozen=True, slots=True)
class Written:
    """How one candidate came about, or why none did."""

    facts: Facts
    signs: Table
    chapters: tuple[Chapter, ...]
    seen: Table


@dataclass(frozen=True, slots=True)
class Work:
    """What agents did in a run: one line a story, and what all of it came to."""

    tried: tuple[Line, ...]  # of the stories that led to a trial
    without: tuple[tuple[Line, Written], ...]  # of those that did not
    yields: Table
    ended: Line
    backlog: tuple[Line, ...]


def of_iteration(iteration: Iteration) -> Written | None:
    """Return how a candidate was written, claim and trial included; None for a card's rewrite."""
    story, contract = iteration.story, iteration.hypothesis.contract
    if story is None and contract is None:
        return None
    claimed = _claimed(contract, iteration) if contract else ()
    return Written(
        facts=(_by(iteration.hypothesis.proposer, story), *claimed, *_paid(story)),
        signs=_signs(contract.activation if contract else ()),
        chapters=_chapters(story, iteration) if story else (),
        seen=_seen(story),
    )


def of_story(story: Story) -> Written:
    """Return how a story went that led to no trial."""
    return Written(
        facts=(_by(story.proposer, story), *_paid(story)),
        signs=_signs(()),
        chapters=_chapters(story, None),
        seen=_seen(story),
    )


def of_run(report: RunReport) -> Work | None:
    """Return what agents did in a run; None where none was asked."""
    tried = tuple(_told(each.story, each) for each in report.iterations if each.story is not None)
    found = report.agents
    if found is None and not tried:
        return None
    without = found.without_candidate if found else ()
    return Work(
        tried=tried,
        without=tuple((_told(story, None), of_story(story)) for story in without),
        yields=_yields(found.yields if found else ()),
        ended=_ended(found),
        backlog=_backlog(found.backlog if found else ()),
    )


def spent(cost: Cost, *, split: bool = False) -> str:
    """Say what was spent; `split` says what kind the tokens are of. Empty for nothing."""
    parts: list[str] = []
    if cost.calls:
        kinds = (
            f" ({numbers.count(cost.input_tokens)} in, {numbers.count(cost.output_tokens)} out, "
            f"{numbers.count(cost.cache_read_tokens)} read from cache, "
            f"{numbers.count(cost.cache_write_tokens)} written to it)"
        )
        parts = [
            numbers.counted(cost.calls, "call"),
            f"{numbers.count(cost.tokens)} tokens{kinds if split else ''}",
            "no price given" if cost.usd is None else numbers.money(cost.usd),
        ]
    if cost.wall_s:
        parts.append(numbers.duration(cost.wall_s))
    return ", ".join(parts)


def total(story: Story) -> Cost:
    """Return what all steps spent together; a step that asked no model took no money."""
    whole = Cost(usd=0.0)
    for step in story.steps:
        cost = step.cost
        whole += cost if cost.calls else cost.model_copy(update={"usd": cost.usd or 0.0})
    return whole


def _by(proposer: str, story: Story | None) -> tuple[str, Line]:
    named: Line = (code(proposer, MOST_NAME),)
    if story is not None:
        issue = code(story.issue, MOST_NAME)
        named += (words(", for issue "), issue, words(": "), theirs(story.title, MOST_TITLE))
    return "proposer", named


def _claimed(contract: ContractRecord, iteration: Iteration) -> Facts:
    """Return what was claimed before the trial, beside what the trial measured of it."""
    low, high = contract.expected
    expected = f"{numbers.times(low)} to {numbers.times(high)} throughput of the whole stack"
    if measured := _measured(iteration):
        expected += f"; measured: {measured}"
    known: Facts = (
        ("claim", (theirs(contract.claim, MOST_CLAIM),)),
        ("expected", (words(expected),)),
        ("falsifier", (theirs(contract.falsifier, MOST_CLAIM),)),
    )
    skill: Facts = (("skill", (code(contract.skill, MOST_NAME),)),) if contract.skill else ()
    return known + skill


def _measured(iteration: Iteration) -> str:
    if iteration.end_to_end:
        end = iteration.end_to_end
        return numbers.times_between(end.throughput_ratio, end.ci)
    if iteration.looks:
        look = iteration.looks[-1]
        return f"{numbers.times_between(look.estimate, look.ci)} at the last look"
    return ""


def _paid(story: Story | None) -> Facts:
    told = spent(total(story), split=True) if story else ""
    return (("cost", (words(told),)),) if told else ()


def _signs(found: Sequence[SignRecord]) -> Table:
    kinds = {record.sign for record in found}
    meaning = " ".join(told for sign, told in SIGNS.items() if sign in kinds)
    head = left("sign", "model")
    head += (Column("looked for", "title"), *left("seen"), Column("detail", "why"))
    return Table(
        "Signs that it runs",
        head,
        tuple(map(_sign, found)),
        before=(words(_SIGNS),),
        note=(words(meaning),),
    )


def _sign(record: SignRecord) -> Row:
    subject: Line = (code(record.subject, 160),)
    if record.value:
        subject += (words(" = "), code(record.value, MOST_NAME))
    seen = words("yes" if record.seen else "not looked for")
    return row(
        words(str(record.sign)),
        code(record.model, MOST_NAME),
        subject,
        strong("no") if record.seen is False else seen,
        theirs(record.detail, MOST_LINE),
    )


def _chapters(story: Story, iteration: Iteration | None) -> tuple[Chapter, ...]:
    """Return the steps in order, the trial before whatever was made of its verdict."""
    before = tuple(takewhile(lambda step: step.role is not Role.EVALUATOR, story.steps))
    after = story.steps[len(before) :]
    trial = () if iteration is None else (_trial(iteration),)
    return (*map(_chapter, before), *trial, *map(_chapter, after))


def _chapter(step: Step) -> Chapter:
    who = f"round {step.round}, {step.role}" if step.round else str(step.role)
    head: Line = (strong(who), words(f": {OUTCOMES[step.outcome]}"))
    if step.reason:
        head += (words(" "), code(step.reason, MOST_NAME))
    notes: list[Line] = []
    if step.commit:
        notes.append((words("Measured on commit "), code(numbers.short(step.commit)), words(".")))
    if told := spent(step.cost):
        notes.append((words(f"{told}."),))
    if step.transcript:
        notes.append((words("Transcript: "), *_transcript(step.transcript), words(".")))
    return Chapter(head, text.cut(step.text, MOST_TOLD), _sentences(notes))


def _transcript(name: str) -> Line:
    link = text.address(name) if _TRANSCRIPT.fullmatch(name) else ""
    return (code(name, 160, link),)


def _trial(iteration: Iteration) -> Chapter:
    """Return what the framework found, in one line."""
    head = (
        strong("trial, by the framework"),
        words(": "),
        verdict(iteration.verdict),
        words(" "),
        *why(iteration),
    )
    notes: list[Line] = []
    if iteration.commit:
        notes.append((words("Commit "), code(numbers.short(iteration.commit)), words(".")))
    notes.append((words(f"Took {numbers.duration(iteration.wall_s)}."),))
    return Chapter(head, note=_sentences(notes))


def _sentences(parts: Iterable[Line]) -> Line:
    line: Line = ()
    for part in parts:
        line += (words(" "), *part) if line else part
    return line


def _seen(story: Story | None) -> Table:
    """List what an agent was not let do, then what tried to steer one."""
    rows: list[Row] = []
    if story is not None:
        rows = [*map(_refusal, story.refusals), *map(_suspicion, story.suspicions)]
    more = len(rows) - MOST_SEEN
    note = f"{_SEEN} {more} more are in the data." if more > 0 else _SEEN
    head = (*left("", "where"), Column("what", "title"), Column("why", "why"))
    title = f"What was seen and refused ({numbers.count(len(rows))})"
    return Table(title, head, tuple(rows[:MOST_SEEN]), note=(words(note),))


def _refusal(found: Refusal) -> Row:
    return row(
        words("refused"),
        words(str(found.role)),
        theirs(found.what, MOST_LINE),
        theirs(found.why, MOST_LINE),
    )


def _suspicion(found: Suspicion) -> Row:
    known = SUSPICIONS.get(found.kind)
    return row(
        words("seen"),
        code(found.place, 120),
        theirs(found.excerpt, MOST_LINE),
        words(known) if known else code(found.kind, MOST_NAME),
    )


def _told(story: Story, iteration: Iteration | None) -> Line:
    """Return a story in one line: who, what for, what it came to and what it cost."""
    link = f"#w{iteration.n}" if iteration else ""
    who = (code(story.proposer, MOST_NAME), words(": "), theirs(story.title, MOST_TITLE, link))
    issue = (words(", issue "), code(story.issue, MOST_NAME), words(": "))
    cost = spent(total(story))
    paid: Line = (words(f"; {cost}"),) if cost else ()
    return (*who, *issue, *_became(story, iteration), *paid)


def _became(story: Story, iteration: Iteration | None) -> Line:
    rounds = max((step.round for step in story.steps), default=0)
    after = f" after {numbers.counted(rounds, 'round')}" if rounds else ""
    if iteration is not None:
        reason = code(iteration.reason, MOST_NAME)
        return (
            words(f"candidate {iteration.n}{after}, "),
            verdict(iteration.verdict),
            words(" "),
            reason,
        )
    if not story.steps:
        return (words("no candidate"),)
    last = story.steps[-1]
    line: Line = (words(f"no candidate{after}: {last.role}, {OUTCOMES[last.outcome]}"),)
    return (*line, words(" "), code(last.reason, MOST_NAME)) if last.reason else line


def _yields(found: Sequence[Yield]) -> Table:
    counts = right("tried", "accepted", "rejected", "inconclusive", "failed", "no candidate")
    return Table(
        "What proposers yielded",
        left("proposer") + counts + right("tokens", "money", "time", "trials/gain"),
        tuple(map(_yield, found)),
        note=(words(_YIELDS),),
    )


def _yield(found: Yield) -> Row:
    counts = (found.tried, found.accepted, found.rejected, found.inconclusive, found.failed)
    trials = found.trials_per_gain
    asked = found.cost if found.cost and found.cost.calls else None
    return row(code(found.proposer, MOST_NAME)) + said(
        *map(numbers.count, (*counts, found.no_candidate)),
        numbers.count(asked.tokens) if asked else numbers.ABSENT,
        numbers.money(asked.usd) if asked and asked.usd is not None else numbers.ABSENT,
        numbers.duration(found.wall_s),
        numbers.ABSENT if trials is None else numbers.number(trials),
    )


def _ended(found: AgentsReport | None) -> Line:
    if found is None or not found.ended:
        return ()
    return words("Why no agent was asked further: "), theirs(found.ended, MOST_LINE)


def _backlog(lines: Sequence[str]) -> tuple[Line, ...]:
    shown: list[Line] = [(theirs(line, MOST_LINE),) for line in lines[:MOST_BACKLOG]]
    more = len(lines) - MOST_BACKLOG
    if more > 0:
        shown.append((words(f"and {numbers.count(more)} more"),))
    return tuple(shown)
