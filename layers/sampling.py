"""Which layer next, and which hypotheses are worth a trial. Pure: the random source is passed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from random import Random

from layers.base import Hypothesis, LayerName
from layers.evidence import Verdict

EXPLORE = 0.1  # of every draw goes to all layers alike, so that none starves


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier trial, of this run or another, found in one layer."""

    layer: LayerName
    verdict: Verdict


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
    2); inconclusive and failed trials say nothing about it. Raises ValueError for no layers, or a
    share that is negative or not finite.
    """
    chances = layer_chances(shares, history)
    layers = list(chances)
    chosen = rng.choices(layers, [chances[layer] for layer in layers])[0]
    total = sum(shares.values())
    accepted, judged = _record(chosen, history)
    share = f"{shares[chosen] / total:.0%} of what is in reach" if total else "no share measured"
    others = ", ".join(f"{layer} {chances[layer]:.0%}" for layer in layers if layer != chosen)
    why = f"{chosen}: drawn with a chance of {chances[chosen]:.0%} ({share}"
    why += (
        f", {accepted} of {judged} earlier candidates accepted)" if judged else ", not tried yet)"
    )
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
        accepted, judged = _record(layer, history)
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


def rank(
    hypotheses: Iterable[Hypothesis],
    noise: float,
    looks: Sequence[int] = (1, 2, 4, 8),
    *,
    refuted: Callable[[Hypothesis], str | None] = lambda _: None,
) -> tuple[list[Hypothesis], list[Skipped]]:
    """Return the hypotheses worth a trial, highest score first, and the others with the reason.

    `noise` is e, the noise floor at the base look, as a fraction: a best case below e / sqrt(k) of
    the last look cannot be told from noise and is never tried. `refuted` says why earlier findings
    already answer a hypothesis, or None. Equal scores are ordered by card and model.
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
        reason = below or refuted(hypothesis)
        if reason is None:
            worth.append(hypothesis)
        else:
            skipped.append(Skipped(hypothesis, reason, refuted=below is None))
    return sorted(worth, key=lambda h: (-h.score, h.card, h.model)), skipped
