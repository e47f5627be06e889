"""What the scripted programs have in common: they edit the workspace and write their claim.

Each runs as a coding agent would, started by the proposer `command` in the sandbox: the working
folder is a copy of the stack of `tests.agents_stack`, `FVEC_PROMPT` names the prompt.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

CLAIM = "fvec-hypothesis.yaml"
FEATURES = "models/tiny_features/1/model.py"
PROSE = "the rank of every row walks the whole table in Python, and need not"
SEARCHED = (
    FEATURES,
    "return sum(1 for limit in PERCENTILES.tolist() if limit <= clicks)",
    'return np.searchsorted(PERCENTILES, clicks, side="right")',
)
RANK_RUNS = ("runs", "tiny_features", f"{FEATURES}:_rank")


def prompt() -> str:
    """Return what the program was told."""
    return Path(os.environ["FVEC_PROMPT"]).read_text(encoding="utf-8")


def replace(path: str, old: str, new: str) -> None:
    """Replace a text that is there once; an empty one makes a new file."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = file.read_text(encoding="utf-8") if old else ""
    if text.count(old) != 1:
        sys.exit(f"{path}: the text to replace is not there once")
    file.write_text(text.replace(old, new), encoding="utf-8")


def claim(sign: tuple[str, ...] = RANK_RUNS, **changed: object) -> None:
    """Write the hypothesis; `changed` are keys that are other than usual."""
    kind, model, subject, *value = sign
    whole = {
        "issue": Path(sys.argv[0]).stem.replace("_", "-"),
        "title": "Rank by binary search",
        "layer": "features",
        "model": model,
        "change_class": "exact",
        "claim": f"In {model} {PROSE}.",
        "expected": [1.02, 12.0],
        "activation": [{"sign": kind, "model": model, "subject": subject, "value": "".join(value)}],
        "falsifier": "The rank runs by binary search and the stack completes no more requests.",
        **changed,
    }
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in whole.items()]
    Path(CLAIM).write_text("".join(lines), encoding="utf-8")


def carry_out(
    edits: tuple[tuple[str, str, str], ...], sign: tuple[str, ...], change_class: str
) -> None:
    """Make the edits and claim that they are of a class."""
    for edit in edits:
        replace(*edit)
    layer = "config" if change_class == "config" else "features"
    claim(sign, layer=layer, change_class=change_class)
