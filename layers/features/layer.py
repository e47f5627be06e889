"""Layer `features`: the models' own Python, rewritten by codemods that match code patterns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

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
from layers.evidence import Iteration, LocalGain
from layers.features.codemod import Codemod, File
from layers.features.codemods.table import CODEMODS
from layers.features.files import read_files
from layers.features.sites import Found, refusals, sites
from layers.profile.profiler import CONVERSION, LOOKUP

SHOWN_REFUSALS = 3


class FeaturesLayer:
    """Rewrites of feature code; holds no state, every verb reads what it is given."""

    name = LayerName.FEATURES

    def profile(self, profile: Profile, stack: StackView) -> Sequence[Hotspot]:
        """Return hotspots in the models' own files, and of the server's own functions."""
        models = stack.manifest.stack.models
        return tuple(
            spot
            for spot in profile.hotspots
            if spot.function in (LOOKUP, CONVERSION)
            or PurePosixPath(spot.file).is_relative_to(models)
        )

    def diagnose(
        self, hotspots: Sequence[Hotspot], stack: StackView, cards: Sequence[Card]
    ) -> Sequence[Hypothesis]:
        """Return one hypothesis per card and model whose code has sites that cost time."""
        spots: dict[str, list[Hotspot]] = defaultdict(list)
        for spot in hotspots:
            spots[spot.process].append(spot)
        models = read_files(stack)
        known = [card for card in cards if card.layer == self.name and card.transform in CODEMODS]
        made = (
            _hypothesis(card, model, spots[model], files)
            for card in known
            for model, files in models.items()
        )
        return tuple(hypothesis for hypothesis in made if hypothesis is not None)

    def refusals(self, stack: StackView, cards: Sequence[Card]) -> Sequence[str]:
        """Return the look-alikes that stay as they are in models without a site of the card."""
        models = read_files(stack)
        return tuple(
            f"{card.id} on {model}: {PurePosixPath(path).name}:{refusal.line}: {refusal.reason}"
            for card in cards
            if card.transform in CODEMODS
            for model, files in models.items()
            for path, found in _found(CODEMODS[card.transform], files).items()
            for refusal in refusals(found)
        )

    def optimize(self, hypothesis: Hypothesis, stack: StackView) -> Edit | None:
        """Rewrite the model's files at the sites, None when no site is left there."""
        codemod = CODEMODS.get(hypothesis.transform)
        files = read_files(stack).get(hypothesis.model, [])
        if codemod is None:
            return None
        changed: dict[str, bytes | None] = {
            file.path: codemod.apply(file).encode() for file in files if sites(codemod.find(file))
        }
        if not changed:
            return None
        if codemod.package is not None:
            for folder in {str(PurePosixPath(path).parent) for path in changed}:
                for name, content in codemod.package.files().items():
                    changed[f"{folder}/{codemod.package.name}/{name}"] = content
        summary = f"{hypothesis.title} in {hypothesis.model}"
        return Edit(changed, summary, codemod.explanation)

    def verify(
        self, candidate: Candidate, baseline: StackView, patched: StackView
    ) -> LocalGain | None:
        """Return None: a rewrite's local gain is the CPU ratio of its model's process."""
        del candidate, baseline, patched
        return None

    def refine(self, iteration: Iteration, ground: Ground) -> Finding | None:
        """Return what the iteration says about its card."""
        return findings.finding(iteration, ground)


def _hypothesis(
    card: Card, model: str, spots: Sequence[Hotspot], files: Sequence[File]
) -> Hypothesis | None:
    codemod = CODEMODS[card.transform]
    found = _found(codemod, files)
    matched = [site for items in found.values() for site in sites(items)]
    share = codemod.share(spots, matched)
    if not matched or share <= 0.0:
        return None
    left = [
        f"{PurePosixPath(path).name}:{refusal.line} ({refusal.reason})"
        for path, items in found.items()
        for refusal in refusals(items)
    ]
    places = "1 place" if len(matched) == 1 else f"{len(matched)} places"
    why = f"{share:.1%} of the server's CPU time is spent at {places} of this kind"
    if left:
        why += f"; left as they are: {', '.join(left[:SHOWN_REFUSALS])}"
    if len(left) > SHOWN_REFUSALS:
        why += f" and {len(left) - SHOWN_REFUSALS} more"
    return Hypothesis(
        layer=LayerName.FEATURES,
        card=card.id,
        model=model,
        title=card.title,
        why=why,
        share=share,
        expected_gain=card.gain.expected,
        best_gain=card.gain.best,
        change_class=ChangeClass(card.change_class),
        transform=card.transform,
        sites=tuple(f"{site.path}:{site.line}" for site in matched),
    )


def _found(codemod: Codemod, files: Sequence[File]) -> dict[str, list[Found]]:
    return {file.path: codemod.find(file) for file in files}
