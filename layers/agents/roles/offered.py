"""Skills and cards, offered by name and one line: an agent reads what it needs. Does no I/O.

Both are quoted: a serving repository may bring its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import Field

from knowledge.cards import CookbookCard, Finding, SkillCard
from knowledge.retrieval import matching
from knowledge.store import Cards
from layers.agents.service.conversation import Tool, ToolRefused
from layers.agents.workbench.quoting import Seen
from layers.base import LayerName
from layers.story import Told

MOST_SKILLS = 5  # that are offered as fitting
MOST_FOUND = 8  # that a search returns
MOST_FINDINGS = 5  # of one card

_Card = TypeVar("_Card", CookbookCard, SkillCard)


class _Named(Told):
    id: str = Field(min_length=1, max_length=100, description="as it was offered or found")


class _Wanted(Told):
    text: str = Field(min_length=2, max_length=500, description="a few words of the mechanism")


@dataclass(frozen=True, slots=True)
class Offered:
    """What may be read of the cards in one run."""

    cards: Cards
    layers: Collection[LayerName]  # that the run may change

    def knows(self, skill: str) -> bool:
        """Whether there is a skill of this id."""
        return any(one.id == skill for one in self.cards.skills)

    def lines(self, situation: str) -> list[str]:
        """Return one line for each skill that fits a situation and each card of the cookbook."""
        fitting = matching(self.cards.skills, situation, self._tags(), MOST_SKILLS)
        skills = [f"skill {one.skill.id}: {one.skill.title} ({one.why})" for one in fitting]
        return [*skills, *(f"card {card.id}: {card.title}" for card in self._cookbook())]

    def fitting(self, situation: str, most: int = MOST_SKILLS) -> list[str]:
        """Return the text of the skills that fit a situation, for who cannot ask for them."""
        found = matching(self.cards.skills, situation, self._tags(), most)
        return [skill_text(one.skill) for one in found]

    def tools(self, seen: Seen) -> list[Tool]:
        """Return the tools that find and read skills and cards."""

        def find(wanted: _Wanted) -> str:
            found = matching(self.cards.skills, wanted.text, self._tags(), MOST_FOUND)
            lines = [f"{one.skill.id}: {one.skill.title} ({one.why})" for one in found]
            return seen.quoted("\n".join(lines) or "no skill says any of this", "the skills")

        def skill(named: _Named) -> str:
            known = {one.id: one for one in self.cards.skills}
            return seen.quoted(skill_text(_one(known, named.id)), f"skill {named.id}")

        def card(named: _Named) -> str:
            known = {one.id: one for one in self._cookbook()}
            return seen.quoted(card_text(_one(known, named.id)), f"card {named.id}")

        return [
            Tool("find_skills", "Find skills by a few words of a mechanism.", _Wanted, find),
            Tool("read_skill", "Read a skill: when, how, signs, pitfalls.", _Named, skill),
            Tool("read_card", "Read a card: a change that rules make elsewhere.", _Named, card),
        ]

    def _cookbook(self) -> list[CookbookCard]:
        return [card for card in self.cards.cookbook if LayerName(card.layer) in self.layers]

    def _tags(self) -> list[str]:
        return [layer.value for layer in self.layers]


def skill_text(skill: SkillCard) -> str:
    """Return a skill as an agent reads it."""
    return "\n".join(
        [
            f"{skill.title} ({skill.tier})",
            f"When: {skill.when}",
            *_listed("How", skill.how),
            f"How to see it run: {skill.activation}",
            *_listed("Pitfalls", skill.pitfalls),
            *_findings(skill.findings),
        ]
    )


def card_text(card: CookbookCard) -> str:
    """Return a card of the cookbook as an agent reads it."""
    return "\n".join(
        [
            f"{card.title} (layer {card.layer}, {card.change_class})",
            f"Symptom: {card.symptom}",
            f"Why: {card.why}",
            f"Change: {card.change}",
            f"Outputs: {card.exactness}",
            *_listed("When not", card.when_not),
            *_findings(card.findings),
        ]
    )


def _listed(head: str, items: Iterable[str]) -> list[str]:
    lines = [f"- {item}" for item in items]
    return [f"{head}:", *lines] if lines else []


def _findings(findings: Iterable[Finding]) -> list[str]:
    newest = sorted(findings, key=lambda one: one.date, reverse=True)[:MOST_FINDINGS]
    return _listed("Found so far", [_finding(one) for one in newest])


def _finding(one: Finding) -> str:
    gain = f", {one.gain:.3f} times" if one.gain is not None else ""
    span = f" ({one.ci[0]:.3f} to {one.ci[1]:.3f})" if one.ci is not None else ""
    return f"{one.date} on {one.stack}: {one.verdict} ({one.reason}){gain}{span}"


def _one(known: Mapping[str, _Card], name: str) -> _Card:
    if name not in known:
        raise ToolRefused(f"there is no {name!r}; there are {', '.join(sorted(known)) or 'none'}")
    return known[name]
