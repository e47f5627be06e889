"""The `server` layer: what the model server does in Python before a model's code runs.

The server turns each string tensor into an object array by a Python loop that only a profile of
the process sees. The one change proposed is a native pass that the model installs itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

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
from layers.profile.profiler import CONVERSION, SERVER_MODULE
from layers.server import local_gain, sites
from layers.server.hook import PACKAGE, hooked

TRANSFORM = "native_string_tensors"
TEMPLATES = ("__init__.py", "_bytes.c", "build.py")
_IGNORED = b"# built by build.py for one interpreter\n*.so\n"


class ServerLayer:
    """Proposes to read string tensors natively, one hypothesis for each model that pays."""

    name = LayerName.SERVER

    def profile(self, profile: Profile, stack: StackView) -> Sequence[Hotspot]:
        """Return the time inside the server's string conversion, callees included, by process."""
        return tuple(
            spot
            for spot in profile.hotspots
            if spot.inclusive
            and spot.function == CONVERSION
            and PurePosixPath(spot.file).name == SERVER_MODULE
            and sites.module_file(stack, spot.process)
        )

    def diagnose(
        self, hotspots: Sequence[Hotspot], stack: StackView, cards: Sequence[Card]
    ) -> Sequence[Hypothesis]:
        """Return one hypothesis for each card and Python model that converts strings so."""
        shares: dict[str, float] = {}
        for spot in hotspots:
            shares[spot.process] = max(spot.share, shares.get(spot.process, 0.0))
        found = {model: sites.find(stack, model) for model in shares}
        return tuple(
            _hypothesis(card, model, shares[model], site)
            for card in cards
            if card.transform == TRANSFORM
            for model, site in found.items()
            if site is not None
        )

    def refusals(self, stack: StackView, cards: Sequence[Card]) -> Sequence[str]:
        """Return nothing: a model without a place for the hook is not looked at further."""
        del stack, cards
        return ()

    def optimize(self, hypothesis: Hypothesis, stack: StackView) -> Edit | None:
        """Return the package and its hook, or None when the model no longer has a place for it."""
        site = sites.find(stack, hypothesis.model)
        if site is None or (stack.root / site.folder / PACKAGE).exists():
            return None
        content = hooked(site.content)
        if content is None:
            return None
        package = site.folder / PACKAGE
        files: dict[str, bytes | None] = {
            str(package / name): (local_gain.NATIVE / name).read_bytes() for name in TEMPLATES
        }
        files |= {str(package / ".gitignore"): _IGNORED, str(site.file): content}
        summary = f"Read the string inputs of {hypothesis.model} in one native pass"
        return Edit(files, summary, _explanation(hypothesis, package))

    def verify(
        self, candidate: Candidate, baseline: StackView, patched: StackView
    ) -> LocalGain | None:
        """Return the gain of the conversion alone, in the server's interpreter."""
        package = _package(candidate, patched)
        if package is None:
            return None
        return local_gain.measure(package, baseline, seed=int(candidate.commit[:8], 16))

    def refine(self, iteration: Iteration, ground: Ground) -> Finding | None:
        """Return what the iteration taught about its card."""
        return findings.finding(iteration, ground)


def _hypothesis(card: Card, model: str, share: float, site: sites.Site) -> Hypothesis:
    return Hypothesis(
        layer=LayerName.SERVER,
        card=card.id,
        model=model,
        title=f"{card.title} ({model})",
        why=f"{CONVERSION} takes {share:.1%} of all server CPU time, in the process of {model}, "
        "before its code runs",
        share=share,
        expected_gain=card.gain.expected,
        best_gain=card.gain.best,
        change_class=ChangeClass(card.change_class),
        transform=card.transform,
        sites=(f"{site.file}:{site.line}",),
    )


def _package(candidate: Candidate, patched: StackView) -> Path | None:
    """Return the folder that the candidate added."""
    added = (PurePosixPath(name) for name in candidate.edit.files)
    found = (path.parent for path in added if path.parts[-2:] == (PACKAGE, TEMPLATES[0]))
    folder = next(found, None)
    return patched.root / folder if folder else None


def _explanation(hypothesis: Hypothesis, package: PurePosixPath) -> str:
    return f"""\
The server calls {CONVERSION} for each string input before the model's code runs. Its loop in
Python makes two calls and an append per string; here it is {hypothesis.share:.1%} of all server
CPU time. This adds {package}/, a C extension of one file that does the same in one pass, and
installs it where the server looks the function up.

Outputs do not change: for every valid tensor it returns the same one-dimensional object array of
the same bytes, empty strings, NUL bytes and tensors without elements included. Every length is
checked against the tensor's end; a malformed tensor raises ValueError (the server's own function
raises struct.error).

Add to the image build, after the models are copied, with the interpreter that runs the models
(it needs a C compiler and Python's headers, no package):

    RUN python {package}/build.py

It exits with 1 when it cannot build. Without it the model still works: the package then reads
strings by a tuned loop in Python, and says so once in the server's log. The built file is ignored
by git and fits one minor version of Python. From release 25.10 on the server does this itself;
drop the package when you upgrade.
"""
