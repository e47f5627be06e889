"""Cards for a terminal: per card one block with what it says and what its findings say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bot.render import numbers
from bot.render.text import one_line
from knowledge.standing import State

if TYPE_CHECKING:
    from knowledge.cards import CookbookCard, Earlier, FactCard, Finding, SkillCard, TriedCard
    from knowledge.overview import Known, Overview

LABELS = {
    State.CONFIRMED: ("current", "green"),
    State.REFUTED: ("refuted", "red"),
    State.RESTING: ("resting", "yellow"),
    State.OPEN: ("open", "yellow"),
    State.STALE: ("stale", "dim"),
    State.UNTRIED: ("failed", "dim"),  # a finding that decides nothing
}
LEGEND = (
    "current: accepted on this ground, tried first and measured again; refuted: not tried again on "
    "this ground; resting, open: inconclusive, not yet or again to be tried; stale: the ground has "
    "moved, to be tried again"
)


def blocks(
    overviews: Sequence[Overview],
    facts: Sequence[FactCard],
    skills: Sequence[SkillCard] = (),
    *,
    whole: bool = False,
) -> RenderableType:
    """Show the cards, one block each; `whole` adds why, exactness, when not, and sources."""
    parts: list[RenderableType] = [_block(overview, whole=whole) for overview in overviews]
    parts += [_fact(card, whole=whole) for card in facts]
    parts += [_skill(card, whole=whole) for card in skills]
    if any(overview.card.findings for overview in overviews):
        parts.append(Text(LEGEND, style="dim"))
    return Group(*parts) if parts else Text("no card")


def _block(overview: Overview, *, whole: bool) -> RenderableType:
    card = overview.card
    rows = [("when", Text(one_line(card.symptom))), ("do", Text(one_line(card.change)))]
    if whole:
        rows += [("why", Text(one_line(card.why))), ("exact", Text(one_line(card.exactness)))]
        rows += [("not", Text(one_line(line))) for line in card.when_not]
        rows += _sources(card)
    rows.append(("gain", Text(_card_gain(card))))
    rows += [row for known in overview.known for row in _known(known)]
    rows += [("together", Text(_joint(finding))) for finding in overview.together]
    if card.earlier is not None:
        rows.append(("earlier", Text(_earlier(card.earlier))))
    if not (card.findings or card.earlier):
        rows.append(("found", Text("nothing yet: never tried where these cards come from")))
    head = f"{card.layer}, {card.change_class}"
    return _framed(card.id, head, card.title, rows)


def _fact(card: FactCard, *, whole: bool) -> RenderableType:
    rows: list[tuple[str, Text]] = []
    if whole:
        rows += [("fact", Text(one_line(f"{key}: {value}"))) for key, value in card.facts.items()]
        rows += [("note", Text(one_line(note))) for note in card.notes]
        rows += _sources(card)
    return _framed(card.id, card.kind.replace("_", " "), card.title, rows)


def _skill(card: SkillCard, *, whole: bool) -> RenderableType:
    rows = [("when", Text(one_line(card.when)))]
    if whole:
        rows += [("do", Text(one_line(line))) for line in card.how]
        rows.append(("seen", Text(one_line(card.activation))))
        rows += [("not", Text(one_line(line))) for line in card.pitfalls]
        rows.append(("tags", Text(one_line(", ".join(card.tags)))))
        rows += _sources(card)
    rows += [("tried", Text(_tried(finding))) for finding in card.findings]
    if card.earlier is not None:
        rows.append(("earlier", Text(_earlier(card.earlier))))
    if not (card.findings or card.earlier):
        rows.append(("tried", Text("not yet where these cards come from")))
    return _framed(card.id, f"skill, {card.tier}", card.title, rows)


def _tried(finding: Finding) -> str:
    """Say what became of one change that an agent wrote with a skill."""
    what = f"{finding.issue or 'a change'} on {finding.model} of {finding.stack}"
    told = f"{what}: {finding.verdict} on {finding.date} ({finding.reason}); {_gain(finding)}"
    return one_line("; ".join(filter(None, [told, _ground(finding)])))


def _framed(
    card_id: str, head: str, title: str, rows: Iterable[tuple[str, Text]]
) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        style = next((style for name, style in LABELS.values() if name == label), "")
        table.add_row(Text(label, style=style), text)
    top = Text.assemble((card_id, "bold"), f"  {head}\n", one_line(title))
    return Padding(Group(top, Padding(table, (0, 0, 0, 2))), (0, 0, 1, 0))


def _sources(card: TriedCard | FactCard) -> list[tuple[str, Text]]:
    return [
        ("source", Text(one_line(f"{source.title}{f' ({source.url})' if source.url else ''}")))
        for source in card.sources
    ]


def _card_gain(card: CookbookCard) -> str:
    expected, best = (numbers.percent(x) for x in (card.gain.expected, card.gain.best))
    return f"{expected} of what it touches, at best {best}, says the card"


def _known(known: Known) -> Iterator[tuple[str, Text]]:
    """Yield what is known about one model: the state, the numbers, and their ground."""
    label, _ = LABELS[known.standing.state]
    finding = known.standing.finding or known.findings[0]
    place = f"{known.model} of {known.stack}" if known.model else known.stack
    setting = f", on top of {', '.join(known.on_top)}" if known.on_top else ""
    why = known.standing.why or f"{finding.verdict} on {finding.date} ({finding.reason})"
    yield label, Text(one_line(f"{place}{setting}: {why}"))
    measured = [_gain(finding), _ground(finding)]
    if known.expected.findings:
        weight = numbers.percent(known.expected.weight)
        measured.insert(
            1, f"{numbers.percent(known.expected.mean)} to expect, findings count for {weight}"
        )
    yield "", Text(one_line("; ".join(filter(None, measured))), style="dim")
    if len(known.findings) > 1:
        others = ", ".join(f"{f.verdict} {f.date}" for f in known.findings if f is not finding)
        yield "", Text(one_line(f"also {others}"), style="dim")


def _gain(finding: Finding) -> str:
    """Return a finding's gain with its interval, and the share of time it was made at."""
    if finding.gain is None:
        return "no gain measured"
    ratio = (
        numbers.times_between(finding.gain, finding.ci)
        if finding.ci
        else numbers.times(finding.gain)
    )
    share = f", at {numbers.percent(finding.share)} of the time" if finding.share else ""
    return f"{ratio}{share}"


def _ground(finding: Finding) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in finding.versions.items())
    traffic = f"traffic {finding.workload}" if finding.workload else ""
    return "; ".join(filter(None, [finding.hardware, versions, traffic]))


def _joint(finding: Finding) -> str:
    names = ", ".join(finding.together)
    told = f"{finding.stack}: {finding.verdict} on {finding.date} ({finding.reason}): {names}"
    return one_line(f"{told}; {_gain(finding)}")


def _earlier(earlier: Earlier) -> str:
    counts = [
        f"{count} {verdict}"
        for verdict in ("accepted", "rejected", "inconclusive", "failed")
        if (count := getattr(earlier, verdict))
    ]
    told = f"{earlier.count} more since {earlier.since}: {', '.join(counts)}"
    if earlier.best is not None:
        told += f"; best {_gain(earlier.best)}, {earlier.best.stack}, {earlier.best.date}"
    last = earlier.last
    return one_line(f"{told}; last {last.verdict} on {last.date}, {last.stack} ({last.reason})")
