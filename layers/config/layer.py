"""Layer `config`: single changes of a model's `config.pbtxt`, edited in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge.cards import Card, Finding
from layers import findings
from layers.base import (
    Candidate,
    ChangeClass,
    Edit,
    Ground,
    Hotspot,
    Hypothesis,
    LayerName,
    Profile,
    StackView,
)
from layers.config.changes import RULES, Change, Limits, Refusal
from layers.config.models import ServedModel, read_models
from layers.evidence import Iteration, LocalGain
from layers.places import usable_cpus

WHOLE_PROCESS = "(whole process)"


class ConfigLayer:
    """Changes of the server's configuration; holds no state, every verb reads what it is given.

    The rule of a card is named by its `transform`, which is its id with underscores.
    """

    name = LayerName.CONFIG

    def profile(self, profile: Profile, stack: StackView) -> Sequence[Hotspot]:
        """Return one hotspot per model with a config.pbtxt: its process, as a whole.

        Raises InvalidInput, as all verbs that read the stack do, where a config.pbtxt is bad.
        """
        return tuple(
            Hotspot(model.name, model.config, WHOLE_PROCESS, 0, share, inclusive=True)
            for model in read_models(stack)
            if (share := profile.by_process.get(model.name, 0.0)) > 0.0
        )

    def diagnose(
        self, hotspots: Sequence[Hotspot], stack: StackView, cards: Sequence[Card]
    ) -> Sequence[Hypothesis]:
        """Return one hypothesis per card and model whose configuration its rule would change."""
        shares = {spot.process: spot.share for spot in hotspots if spot.function == WHOLE_PROCESS}
        return tuple(
            _hypothesis(card, model, change, min(1.0, shares[model.name]))
            for card, model, change in _considered(stack, cards)
            if isinstance(change, Change) and model.name in shares
        )

    def refusals(self, stack: StackView, cards: Sequence[Card]) -> Sequence[str]:
        """Return one line per card and model that the card's rule leaves as it is, and why."""
        return tuple(
            f"{card.id} on {model.name}: {change.reason}"
            for card, model, change in _considered(stack, cards)
            if isinstance(change, Refusal)
        )

    def optimize(self, hypothesis: Hypothesis, stack: StackView) -> Edit | None:
        """Edit the model's config.pbtxt, None where its card has nothing to change any more."""
        rule = RULES.get(hypothesis.transform)
        models = {model.name: model for model in read_models(stack)}
        model = models.get(hypothesis.model)
        if rule is None or model is None:
            return None
        change = rule(model, _limits(stack))
        if isinstance(change, Refusal):
            return None
        return Edit(
            files={model.config: change.document.text.encode("utf-8")},
            summary=f"{hypothesis.title} for {model.name}",
            explanation=change.explanation,
        )

    def verify(
        self, candidate: Candidate, baseline: StackView, patched: StackView
    ) -> LocalGain | None:
        """Return None: what a configuration does only the whole stack can tell."""
        del candidate, baseline, patched
        return None

    def refine(self, iteration: Iteration, ground: Ground) -> Finding | None:
        """Return what the iteration says about its card."""
        return findings.finding(iteration, ground)


def _limits(stack: StackView) -> Limits:
    manifest = stack.manifest
    pinned = set(manifest.server.cpus or ())
    return Limits(
        cpus=len(pinned) or usable_cpus(),
        slo_p99_ms=manifest.slo.p99_ms,
        in_flight=manifest.traffic.in_flight,
        memory_bytes=int(manifest.sandbox.memory_gib * 2**30),
        processes=manifest.sandbox.processes,
        called=frozenset(manifest.stack.load),
    )


def _considered(
    stack: StackView, cards: Sequence[Card]
) -> Iterator[tuple[Card, ServedModel, Change | Refusal]]:
    limits, models = _limits(stack), read_models(stack)
    for card in cards:
        if card.layer == "config" and card.transform in RULES:
            for model in models:
                yield card, model, RULES[card.transform](model, limits)


def _hypothesis(card: Card, model: ServedModel, change: Change, share: float) -> Hypothesis:
    line = model.document.location(change.field).line
    return Hypothesis(
        layer=LayerName.CONFIG,
        card=card.id,
        model=model.name,
        title=card.title,
        why=f"{change.why}; its process takes {share:.1%} of the server's CPU time",
        share=share,
        expected_gain=min(card.gain.expected, change.gain_limit),
        best_gain=min(card.gain.best, change.gain_limit),
        transform=card.transform,
        change_class=ChangeClass.CONFIG,
        sites=(f"{model.config}:{line}",),
    )
