"""A layer that proposes given edits, and a tiny stack with something to gain."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot import results
from bot.publishing.local import open_local
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
from layers.events import Silent
from layers.evidence import Iteration, LocalGain, RunReport
from layers.run import RunOptions, run

TINY_STACK = Path(__file__).parents[1] / "tiny_stack"
FEATURES = "models/tiny_features/1/model.py"
RANKER = "models/tiny_ranker/1/model.py"
CARD = """\
schema: fvec.card/1
kind: cookbook
id: rank-by-search
layer: features
title: Rank by binary search
symptom: a rank is counted row by row in Python  # seen in three services
why: each row walks the whole table
change: np.searchsorted over the sorted table
transform: rank_by_search
change_class: exact
exactness: the same count of entries that are not larger
gain: {expected: 0.8, best: 0.95}
sources:
  - title: this test
"""
# One change of the model's code makes it slow in a way that people write.
COUNTED = (
    "log_clicks = np.log1p(np.maximum(clicks, 0)).astype(np.float32).reshape(-1, 1)",
    "ranks = [self._rank(c) for c in clicks.tolist()]\n"
    "        log_clicks = np.array(ranks, dtype=np.float32).reshape(-1, 1)",
)
TABLE = """\
PERCENTILES = np.linspace(0, 80, 1500)  # of clicks, from last month's report


class TritonPythonModel:
    def _rank(self, clicks):
        return sum(1 for limit in PERCENTILES.tolist() if limit <= clicks)

"""
SEARCHED = (
    "return sum(1 for limit in PERCENTILES.tolist() if limit <= clicks)",
    'return np.searchsorted(PERCENTILES, clicks, side="right")',
)

Write = Callable[[StackView], Edit | None]


def replaced(stack: StackView, path: str, old: str, new: str) -> Edit | None:
    """Return the edit that replaces `old`, None where it is not there."""
    text = (stack.root / path).read_text()
    if old not in text:
        return None
    return Edit({path: text.replace(old, new).encode()}, "Rank by binary search", "Same counts.")


@dataclass
class Proposals:
    """Proposes each edit, by card, as long as it can be written."""

    edits: Mapping[str, Write]
    change_class: ChangeClass = ChangeClass.EXACT
    name: LayerName = LayerName.FEATURES

    def profile(self, profile: Profile, stack: StackView) -> Sequence[Hotspot]:
        return [spot for spot in profile.hotspots if spot.file.startswith("models/")]

    def diagnose(
        self, hotspots: Sequence[Hotspot], stack: StackView, cards: Sequence[Card]
    ) -> Sequence[Hypothesis]:
        return [
            Hypothesis(
                layer=self.name,
                card=card,
                transform=card.replace("-", "_"),
                model="tiny_features",
                title=f"Try {card}",
                why="the test says so",
                share=1.0,
                expected_gain=0.5,
                best_gain=0.99,
                change_class=self.change_class,
            )
            for card, write in self.edits.items()
            if write(stack) is not None
        ]

    def refusals(self, stack: StackView, cards: Sequence[Card]) -> Sequence[str]:
        return []

    def optimize(self, hypothesis: Hypothesis, stack: StackView) -> Edit | None:
        return self.edits[hypothesis.card](stack)

    def verify(
        self, candidate: Candidate, baseline: StackView, patched: StackView
    ) -> LocalGain | None:
        return None

    def refine(self, iteration: Iteration, ground: Ground) -> Finding | None:
        return findings.finding(iteration, ground)


def git(root: Path, *arguments: str) -> str:
    """Run git in `root` and return what it says."""
    identity = ["-c", "user.name=Serving", "-c", "user.email=serving@example.com"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def state_of(root: Path) -> tuple[str, str, str]:
    """Return what a bot must not change: commit, branches and local changes."""
    return (
        git(root, "rev-parse", "HEAD"),
        git(root, "for-each-ref", "--format=%(refname)"),
        git(root, "status", "--porcelain"),
    )


def slow_repository(root: Path) -> Path:
    """Make a tiny stack with a slow idiom and 1,200 recorded requests, at `root`."""
    shutil.copytree(
        TINY_STACK, root, ignore=shutil.ignore_patterns("__pycache__", "*.bin", "*.csv")
    )
    edit(root, FEATURES, *COUNTED)
    edit(root, FEATURES, "class TritonPythonModel:\n", TABLE)
    edit(root, "traffic/record.py", "RATE_PER_S = 120.0", "RATE_PER_S = 300.0")
    edit(root, ".github/fvec.yml", '"400"', '"1200"')
    edit(root, ".github/fvec.yml", "p99_ms: 50", "p99_ms: 250")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "The stack")
    return root


def edit(root: Path, path: str, old: str, new: str) -> None:
    """Replace `old`, which must be there once, in a file of the repository."""
    text = (root / path).read_text()
    assert text.count(old) == 1
    (root / path).write_text(text.replace(old, new))


def commit(root: Path, path: str, old: str, new: str) -> None:
    """Edit one file and commit it."""
    edit(root, path, old, new)
    git(root, "commit", "--quiet", "--all", "--message", "Change the stack")


def options_of(layer: Proposals, out: Path, cookbook: Path | None = None) -> RunOptions:
    """Return the options of a run with one layer."""
    return RunOptions(
        out=out, layers=(layer.name,), minutes=60, seed=7, cookbook=cookbook, forge=open_local
    )


def run_with(layer: Proposals, root: Path, options: RunOptions) -> RunReport:
    """Run the engine as `fvec run` does, with one layer."""
    report = run(root, options, Silent(), {layer.name: layer})
    results.write(options.out, report)
    return report
