"""Whole expected outputs under tests/golden, rewritten with FVEC_WRITE_GOLDEN=1 and reviewed."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Compare with the golden file, or write it when asked to."""
    path = FOLDER / name
    if os.environ.get("FVEC_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
