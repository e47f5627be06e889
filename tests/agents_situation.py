"""A small stack in git, and what a proposer is told of it: for tests without a model server."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from knowledge.cards import SkillCard
from knowledge.store import Cards, builtin_directory, load_cards
from layers.base import ChangeClass, Hotspot, Hypothesis, LayerName, Profile, StackView
from layers.evidence import Noise, NoiseFloor
from layers.loop.proposing import Situation
from layers.manifest import Manifest
from tests.init_repositories import put, python_model

MODEL = "models/features/1/model.py"
WORKFLOW = ".github/workflows/ci.yml"
SOURCE = """\
class TritonPythonModel:
    def execute(self, requests):
        return [_rows(request) for request in requests]


def _rows(request):
    return [str(value) for value in request]
"""
FASTER = SOURCE.replace("[str(value) for value in request]", "list(map(str, request))")
MANIFEST = """\
schema: fvec.manifest/1
stack: {name: small, models: models, entry: features, requirements: requirements.txt}
traffic: {requests: traffic/requests.bin, arrivals: traffic/arrivals.csv}
slo: {p99_ms: 25}
"""
FILES = {
    ".github/fvec.yml": MANIFEST,
    WORKFLOW: "on: push\n",
    "requirements.txt": "numpy\n",
    "traffic/requests.bin": b"\x00\x01",
    "traffic/arrivals.csv": "offset_s,request\n",
    **python_model("features", code=SOURCE),
    **python_model("ranker"),
}
NOISE = Noise(work=NoiseFloor(floor_pct=2.0, pair_sd_pct=1.0, pairs=8, launches=2))
PROFILE = Profile(
    tool="py-spy 0.4.3",
    raw=Path("profile.collapsed"),
    cpu_s=10.0,
    requests=1000,
    by_process={"features": 0.6, "ranker": 0.3, "tritonserver": 0.1},
    by_layer={LayerName.FEATURES: 0.5, LayerName.CONFIG: 1.0},
    hotspots=(
        Hotspot("features", MODEL, "_rows", 0, 0.5, inclusive=True),
        Hotspot("features", MODEL, "_rows", 7, 0.4),
        Hotspot("ranker", "/venv/lib/python3.11/site-packages/numpy/core/x.py", "dot", 3, 0.2),
    ),
)
SKILL = SkillCard.model_validate(
    {
        "schema": "fvec.card/1",
        "kind": "skill",
        "id": "rows-at-once",
        "tier": "algorithm",
        "title": "Convert rows at once",
        "tags": ["features", "rows"],
        "when": "a function walks rows one by one",
        "how": ["Convert all of them with one call."],
        "activation": "the function that converts them all is on the stacks",
        "pitfalls": ["An order that depends on the rows."],
        "sources": [{"title": "this test", "url": "https://example.com/rows"}],
    }
)


def repository(root: Path, files: Mapping[str, str | bytes] = FILES) -> Path:
    """Make a checkout of one commit."""
    put(root, files)
    identity = ["-c", "user.name=Serving", "-c", "user.email=serving@example.com"]
    for arguments in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        [*identity, "commit", "--quiet", "--message", "The stack"],
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


def manifest() -> Manifest:
    """The manifest as a run has it."""
    return Manifest.model_validate(
        {
            "schema": "fvec.manifest/1",
            "stack": {
                "name": "small",
                "models": "models",
                "entry": "features",
                "requirements": "requirements.txt",
            },
            "traffic": {"requests": "traffic/requests.bin", "arrivals": "traffic/arrivals.csv"},
            "slo": {"p99_ms": 25},
        }
    )


def situation(root: Path, **changes: object) -> Situation:
    """What a proposer is told of the checkout at `root`."""
    base = StackView(root, "b" * 40, manifest(), Path("python"))
    first = Situation(base, PROFILE, NOISE, (), (), number=1, left=5)
    return replace(first, **changes)


def cards() -> Cards:
    """The packaged cards, and one skill that fits the profile."""
    packaged = load_cards(builtin_directory())
    return replace(packaged, skills=(SKILL,))


def hypothesis(card: str = "look-ups-in-one-pass") -> Hypothesis:
    """A hypothesis as a plan becomes one."""
    return Hypothesis(
        layer=LayerName.FEATURES,
        card=card,
        model="features",
        title="Convert all rows at once",
        why="each row is converted by itself",
        share=0.6,
        expected_gain=0.1,
        best_gain=0.2,
        change_class=ChangeClass.EXACT,
        transform="written",
        proposer="anthropic",
    )
