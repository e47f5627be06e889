"""Which layer next, and which hypotheses are worth a trial. Pure: the random source is passed in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from random import Random
from types import MappingProxyType

from layers.base import Hypothesis, LayerName
from layers.evidence import Verdict

EXPLORE = 0.1  # of every draw goes to all layers alike, so that none starves


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier trial, of this run or another, found in one layer."""

    layer: LayerName
    verdict: Verdict
    weight: float = 1.0  # less for another ground and with age


@dataclass(frozen=True, slots=True)
class Weighed:
    """Hypotheses in the light of earlier findings; of the findings no number becomes a result."""

    hypotheses: Sequence[Hypothesis]  # with the gain that card and findings let expect
    answered: Mapping[str, str]  # by change: why it is not tried now
    together: Hypothesis | None = None  # what was accepted before here, to be measured as one
    elsewhere: int = 0  # hypotheses that other shards of the run try


@dataclass(frozen=True, slots=True)
class Skipped:
    """A hypothesis that is not tried, and why, in one line."""

    hypothesis: Hypothesis
    reason: str
    refuted: bool  # by earlier findings; else its best case is below the noise


def choose_layer(
    shares: Mapping[LayerName, float], history: Sequence[Past], rng: Random
) -> tuple[LayerName, str]:
    """Draw one layer, and say why in one line.

    A layer's weight is its share of time (any common scale, such as the score of its best
    hypothesis) times its rate of acceptance so far by Laplace's rule, (accepted + 1) / (judged +
    2), each trial counted by its weight; inconclusive and failed trials say nothing about it.
    Raises ValueError for no layers, or a share that is negative or not finite.
    """
    chances = layer_chances(shares, history)
    layers = list(chances)
    chosen = rng.choices(layers, [chances[layer] for layer in layers])[0]
    total = sum(shares.values())
    accepted, judged = _record(chosen, history)
    counted = f"{accepted} of {judged} earlier candidates accepted{_discount(chosen, history)}"
    share = f"{shares[chosen] / total:.0%} of what is in reach" if total else "no share measured"
    others = ", ".join(f"{layer} {chances[layer]:.0%}" for layer in layers if layer != chosen)
    why = f"{chosen}: drawn with a chance of {chances[chosen]:.0%} ({share}"
    why += f", {counted})" if judged else ", not tried yet)"
    return chosen, f"{why}; {others}" if others else why


def layer_chances(
    shares: Mapping[LayerName, float], history: Sequence[Past]
) -> dict[LayerName, float]:
    """Return the chance of each layer to be drawn, bottom to top; they add up to 1."""
    if not shares or any(not isfinite(share) or share < 0 for share in shares.values()):
        raise ValueError("layers need shares, each finite and not negative")
    layers = [layer for layer in LayerName if layer in shares]
    weights = {}
    for layer in layers:
        accepted, judged = _weighed_record(layer, history)
        weights[layer] = shares[layer] * (accepted + 1) / (judged + 2)
    total = sum(weights.values())
    even = 1 / len(layers)
    return {
        layer: (1 - EXPLORE) * (weights[layer] / total if total else even) + EXPLORE * even
        for layer in layers
    }


def _record(layer: LayerName, history: Sequence[Past]) -> tuple[int, int]:
    """Return how many candidates of the layer were accepted, and how many were judged."""
    verdicts = [past.verdict for past in history if past.layer == layer]
    accepted = verdicts.count(Verdict.ACCEPTED)
    return accepted, accepted + verdicts.count(Verdict.REJECTED)


def _weighed_record(layer: LayerName, history: Sequence[Past]) -> tuple[float, float]:
    """Return the same two, each candidate counted by its weight."""
    own = [past for past in history if past.layer == layer]
    accepted = sum(past.weight for past in own if past.verdict is Verdict.ACCEPTED)
    return accepted, accepted + sum(p.weight for p in own if p.verdict is Verdict.REJECTED)


def _discount(layer: LayerName, history: Sequence[Past]) -> str:
    """Say what age and other ground leave of the candidates, where that is not all."""
    accepted, judged = _weighed_record(layer, history)
    if judged == _record(layer, history)[1]:
        return ""
    return f", which count as {accepted:.1f} of {judged:.1f} by age and ground"


def joined(members: Sequence[Hypothesis]) -> Hypothesis:
    """Return the hypotheses of one change class, at least two, as one candidate's.

    Its share and gains are the sums of theirs; it is named after them, and is of the layer and
    model of the one with the highest score. Raises ValueError for fewer, or for two classes.
    """
    first = max(members, key=lambda h: h.score, default=None)
    if first is None or len(members) < 2 or len({h.change_class for h in members}) > 1:
        raise ValueError("a joint candidate has two members or more, of one change class")
    share = sum(h.share for h in members)
    names, cards = ", ".join(h.change for h in members), ", ".join(h.card for h in members)
    digest = hashlib.sha256("\n".join(sorted(h.change for h in members)).encode()).hexdigest()
    return replace(
        first,
        card=f"together-{digest[:8]}",
        title=f"Make {len(members)} changes that were accepted before: {cards}",
        why=f"earlier runs accepted each of these here: {names}",
        share=min(1.0, share),
        expected_gain=sum(h.score for h in members) / share if share else 0.0,
        best_gain=sum(h.best_case for h in members) / share if share else 0.0,
        transform="together",
        sites=tuple(site for h in members for site in h.sites),
        together=tuple(members),
    )


def rank(
    hypotheses: Iterable[Hypothesis],
    noise: float,
    looks: Sequence[int] = (1, 2, 4, 8),
    *,
    answered: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[Hypothesis], list[Skipped]]:
    """Return the hypotheses worth a trial, highest score first, and the others with the reason.

    `noise` is e, the noise floor at the base look, as a fraction: a best case below e / sqrt(k) of
    the last look cannot be told from noise and is never tried. `answered` says, by change, why
    earlier findings already answer a hypothesis. Equal scores are ordered by card and model.
    """
    least = noise / sqrt(looks[-1])
    worth: list[Hypothesis] = []
    skipped: list[Skipped] = []
    for hypothesis in hypotheses:
        below = None
        if hypothesis.best_case < least:
            below = (
                f"its best case, {hypothesis.best_case:.2%} of all time, is below the noise: "
                f"{least:.2%} after {looks[-1]} launches"
            )
        reason = below or answered.get(hypothesis.change)
        if reason is None:
            worth.append(hypothesis)
        else:
            skipped.append(Skipped(hypothesis, reason, refuted=below is None))
    return sorted(worth, key=lambda h: (-h.score, h.card, h.model)), skipped
