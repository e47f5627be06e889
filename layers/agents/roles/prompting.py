"""The packaged prompts: text alone, nothing of a run is put into them."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from layers.agents.workbench.quoting import HOW_QUOTED


@lru_cache(maxsize=32)
def prompt(name: str) -> str:
    """Return one packaged prompt, `layers/agents/roles/prompts/NAME.md`."""
    file = resources.files("layers.agents.roles").joinpath("prompts", f"{name}.md")
    return file.read_text(encoding="utf-8").strip()


def system(*names: str) -> str:
    """Return several prompts as one text, and how data is quoted.

    It is the same for every run, so that a service need not read it anew.
    """
    return "\n\n".join([*map(prompt, names), HOW_QUOTED])
