"""What a story keeps of one conversation. Pure."""

from __future__ import annotations

from typing import Any

from layers.agents.service import broken
from layers.agents.service.conversation import Conversed
from layers.places import without_places
from layers.story import MOST_TEXT, Cost, Outcome, Role, Step

FREE = Cost(usd=0.0)  # of what no model did; `Cost()` alone says that the money is not known


def words(text: str, most: int = MOST_TEXT) -> str:
    """Return a text as a record can hold it: encodable, and cut with a mark where it is longer."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def told(
    role: Role,
    number: int,
    said: Conversed[Any],
    outcome: Outcome,
    text: str,
    *,
    reason: str = "",
    commit: str | None = None,
) -> Step:
    """Return the step of a conversation that came to an answer; `number` is the round."""
    return Step(
        role=role,
        round=number,
        outcome=outcome,
        text=words(text),
        reason=reason,
        commit=commit,
        cost=said.cost,
        transcript=said.transcript or None,
    )


def without_answer(role: Role, number: int, said: Conversed[Any]) -> Step:
    """Return the step of a conversation that came to none, with what it says of itself."""
    return told(role, number, said, said.outcome or Outcome.MALFORMED, said.text)


def broke(role: Role, number: int, error: Exception) -> Step:
    """Return the step of a role under which something broke; see `layers.agents.service.broken`."""
    text = words(without_places(broken.told(error)))
    return Step(role=role, round=number, outcome=Outcome.BROKE, text=text, cost=FREE)
