"""What the cards know, for the person who reviews them: what is current, stale or refuted. Pure.

A finding is held against where its stack was last measured, as far as the cards tell: the hardware,
versions and traffic of the newest finding of that stack, in any card. A run compares with what
it finds itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from knowledge.cards import CookbookCard, Earlier, Finding
from knowledge.ground import Ground
from knowledge.standing import Expected, Standing, expected, standing


@dataclass(frozen=True, slots=True)
class Known:
    """What a card's findings say about one model of one stack, on top of the same changes."""

    stack: str
    model: str  # empty where findings do not name it
    on_top: tuple[str, ...]
    standing: Standing
    expected: Expected
    findings: tuple[Finding, ...]  # newest first


@dataclass(frozen=True, slots=True)
class Overview:
    """One card as a reviewer wants to see it."""

    card: CookbookCard
    known: tuple[Known, ...]
    together: tuple[Finding, ...]  # of several changes as one candidate

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "change_class": self.card.change_class,
            "gain": self.card.gain.model_dump(),
            "known": [_plain(known) for known in self.known],
            "together": [_dumped(finding) for finding in self.together],
            "earlier": _dumped(self.card.earlier) if self.card.earlier else None,
        }


def overviews(cards: Sequence[CookbookCard], today: date) -> list[Overview]:
    """Return one overview per card, in their order; all of them say where stacks stand."""
    grounds = _grounds(cards, today)
    return [_overview(card, grounds) for card in cards]


def _overview(card: CookbookCard, grounds: Mapping[str, Ground]) -> Overview:
    newest = sorted(card.findings, key=lambda f: f.date, reverse=True)
    groups: dict[tuple[str, str, tuple[str, ...]], list[Finding]] = {}
    for finding in newest:
        if not finding.together:
            place = (finding.stack, finding.model, tuple(sorted(finding.on_top)))
            groups.setdefault(place, []).append(finding)
    known = tuple(_known(card, place, found, grounds[place[0]]) for place, found in groups.items())
    return Overview(card, known, tuple(f for f in newest if f.together))


def _known(
    card: CookbookCard, place: tuple[str, str, tuple[str, ...]], found: list[Finding], last: Ground
) -> Known:
    stack, model, on_top = place
    ground = replace(last, on_top=frozenset(on_top))
    own = card.model_copy(update={"findings": found})
    return Known(
        stack,
        model,
        on_top,
        standing(own, model, ground),
        expected(card, model, ground),
        tuple(found),
    )


def _grounds(cards: Iterable[CookbookCard], today: date) -> dict[str, Ground]:
    """Return where each stack was last measured; a date after today is none that says so."""
    everything = (finding for card in cards for finding in card.findings)
    grounds: dict[str, Ground] = {}
    for f in sorted(everything, key=lambda f: (f.date <= today, f.date)):  # the newest comes last
        code = {**(grounds[f.stack].code if f.stack in grounds else {}), **f.code}
        grounds[f.stack] = Ground(
            f.stack, f.workload, f.hardware, f.versions, today, fvec=f.fvec, code=code
        )
    return grounds


def _plain(known: Known) -> dict[str, Any]:
    return {
        "stack": known.stack,
        "model": known.model,
        "on_top": list(known.on_top),
        "state": known.standing.state.value,
        "why": known.standing.why,
        "expected_gain": known.expected.mean,
        "weight_of_findings": known.expected.weight,
        "findings": [_dumped(finding) for finding in known.findings],
    }


def _dumped(model: Finding | Earlier) -> dict[str, Any]:
    return dict(model.model_dump(mode="json", exclude_defaults=True))
