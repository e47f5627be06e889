"""Places of a machine: named by what they are, in no text that leaves it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from layers.places import without_places


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/somebody/.cache")
    monkeypatch.setattr(sys, "prefix", "/srv/venv")
    monkeypatch.setattr(sys, "base_prefix", "/usr")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/home/somebody/.cache/fvec/env/lib: no such file", "CACHE/env/lib: no such file"),
        ("File '/home/somebody/ads/x.py', line 3", "File 'HOME/ads/x.py', line 3"),
        ("/srv/venv/lib/python3.11/site-packages/a.py", "PYTHON/lib/python3.11/site-packages/a.py"),
        ("cwd=/home/somebody", "cwd=HOME"),
        ("/data/run/out/worktrees/7", "RESULTS/worktrees/7"),
        ("/usr/lib/libm.so, /home/somebody-else/x", "/usr/lib/libm.so, /home/somebody-else/x"),
        ("models/home/somebody/1", "models/home/somebody/1"),
    ],
)
def test_places_are_named_and_what_only_looks_like_one_is_let_be(text: str, told: str) -> None:
    more = {Path("/data/run/out"): "RESULTS"}

    assert without_places(text, more) == told
    assert without_places(told, more) == told
