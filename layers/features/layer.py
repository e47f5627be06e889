"""Layer `features`: the models' own Python, rewritten by codemods that match code patterns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

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
from layers.features import concat, lookups
from layers.features.sites import Found, Site, refusals, sites
from layers.profiler import LOOKUP

SHOWN_REFUSALS = 3
MAX_SOURCE_BYTES = 200_000  # a larger file is data or generated code, and slow to analyse


@dataclass(frozen=True, slots=True)
class Codemod:
    """One rewrite, and what part of a profile its sites stand for."""

    find: Callable[[str, str], list[Found]]
    apply: Callable[[str], str]
    share: Callable[[Sequence[Hotspot], Sequence[Site]], float]
    explanation: str


class FeaturesLayer:
    """Rewrites of feature code; holds no state, every verb reads what it is given."""

    name = LayerName.FEATURES

    def profile(self, profile: Profile, stack: StackView) -> Sequence[Hotspot]:
        """Return hotspots in the models' own files, and of the server's look-up function."""
        models = stack.manifest.stack.models
        return tuple(
            spot
            for spot in profile.hotspots
            if spot.function == LOOKUP or PurePosixPath(spot.file).is_relative_to(models)
        )

    def diagnose(
        self, hotspots: Sequence[Hotspot], stack: StackView, cards: Sequence[Card]
    ) -> Sequence[Hypothesis]:
        """Return one hypothesis per card and model whose code has sites that cost time."""
        spots: dict[str, list[Hotspot]] = defaultdict(list)
        for spot in hotspots:
            spots[spot.process].append(spot)
        sources = _sources(stack)
        known = [card for card in cards if card.layer == self.name and card.transform in CODEMODS]
        made = (
            _hypothesis(card, model, spots[model], files)
            for card in known
            for model, files in sources.items()
        )
        return tuple(hypothesis for hypothesis in made if hypothesis is not None)

    def refusals(self, stack: StackView, cards: Sequence[Card]) -> Sequence[str]:
        """Return the look-alikes that stay as they are in models without a site of the card."""
        sources = _sources(stack)
        return tuple(
            f"{card.id} on {model}: {PurePosixPath(path).name}:{refusal.line}: {refusal.reason}"
            for card in cards
            if card.transform in CODEMODS
            for model, files in sources.items()
            for path, found in _found(CODEMODS[card.transform], files).items()
            for refusal in refusals(found)
        )

    def optimize(self, hypothesis: Hypothesis, stack: StackView) -> Edit | None:
        """Rewrite the model's files at the sites, None when no site is left there."""
        codemod = CODEMODS.get(hypothesis.transform)
        files = _sources(stack).get(hypothesis.model, {})
        if codemod is None:
            return None
        changed: dict[str, bytes | None] = {
            path: codemod.apply(text).encode()
            for path, text in files.items()
            if sites(codemod.find(text, path))
        }
        if not changed:
            return None
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
    card: Card, model: str, spots: Sequence[Hotspot], files: Mapping[str, str]
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
    why = f"{share:.1%} of the server's CPU time is spent at {len(matched)} place(s) of this kind"
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


def _found(codemod: Codemod, files: Mapping[str, str]) -> dict[str, list[Found]]:
    return {path: codemod.find(text, path) for path, text in files.items()}


def _lookup_share(spots: Sequence[Hotspot], matched: Sequence[Site]) -> float:
    """Return the share of the look-up function, at most that of the lines that are rewritten.

    A line that looks up also uses what it found, hence the smaller of the two. Where it does
    not, its own time counts too: the list of inputs is freed there, after the function's end.
    """
    whole = sum(
        spot.share for spot in spots if spot.function == LOOKUP and spot.inclusive and not spot.line
    )
    alone = {(site.path, line) for site in matched for line in site.alone}
    lines = {(site.path, line) for site in matched for line in site.lines}
    called = min(whole, _on_lines(spots, lines, inclusive=True))
    return min(1.0, called + _on_lines(spots, alone, inclusive=False))


def _concat_share(spots: Sequence[Hotspot], matched: Sequence[Site]) -> float:
    """Return the self time of the sites' lines: NumPy's C functions have no frame of their own."""
    lines = {(site.path, line) for site in matched for line in site.lines}
    return _on_lines(spots, lines, inclusive=False)


def _on_lines(spots: Sequence[Hotspot], lines: set[tuple[str, int]], *, inclusive: bool) -> float:
    share = sum(
        spot.share
        for spot in spots
        if spot.line and spot.inclusive is inclusive and (spot.file, spot.line) in lines
    )
    return min(1.0, share)


def _sources(stack: StackView) -> dict[str, dict[str, str]]:
    """Return the text of each model's Python files, by model and path from the root."""
    models = stack.root / stack.manifest.stack.models
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path in _python_files(models):
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        model = path.relative_to(models).parts[0]
        found[model][path.relative_to(stack.root).as_posix()] = text
    return dict(found)


def _python_files(models: Path) -> Iterator[Path]:
    """Yield regular files only: a link may lead out of the checkout."""
    for path in sorted(models.glob("*/**/*.py")):
        inside = not any(p.is_symlink() for p in (path, *path.parents) if p.is_relative_to(models))
        if inside and path.is_file() and path.stat().st_size <= MAX_SOURCE_BYTES:
            yield path


CODEMODS: Mapping[str, Codemod] = MappingProxyType(
    {
        "lookups_one_pass": Codemod(
            lookups.find,
            lookups.apply,
            _lookup_share,
            "Each look-up by name asked the request for its list of inputs and walked it. The inputs "
            "are now walked once per request into a dict, which lives no longer than the request. Of "
            "equal names the first counts and a missing name gives None, as before; the tensors are "
            "the same objects.",
        ),
        "concat_to_slices": Codemod(
            concat.find,
            concat.apply,
            _concat_share,
            "Each column was an array of its own, allocated only to be copied again when all were "
            "joined. The columns are now written into one buffer as they come. Assignment converts "
            "as astype did, and whenever the parts differ in dtype, rows or layout the arrays are "
            "kept and joined as before.",
        ),
    }
)
