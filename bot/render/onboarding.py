"""The onboarding pull request: what was guessed, what to correct, what follows, how to say no. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.render import text
from bot.render.body import Ending, Section, fit
from bot.render.markdown import bullets, details, table
from bot.render.text import code, inline

TITLE = "Let fvec measure this repository"
MANIFEST = ".github/fvec.yml"
MOST_GUESSES = 60
MOST_NAMED = 20
SHED_FIRST = ("not_read", "guesses", "correct")
_OF_PATTERNS = re.compile(r"[*?+\[\]!]")  # what a filter of branches does not read as it stands
_FOOTER = (
    "Opened by `fvec`, which merges nothing and changes no workflow. Nothing of this repository "
    "was executed to write this."
)


@dataclass(frozen=True, slots=True)
class Guessed:
    """One value that nobody stated; `certainty` is as `fvec init` says it."""

    key: str
    value: str
    certainty: str
    why: str


@dataclass(frozen=True, slots=True)
class Found:
    """What `fvec init` found and would write."""

    models: str  # the model repository's folder
    entry: str
    files: Sequence[str]  # that the pull request adds
    guesses: Sequence[Guessed]
    correct_first: Sequence[str]  # most important first
    skipped: Sequence[tuple[str, str]] = ()  # path and reason


def body(found: Found, workflow: str | None) -> str:
    """Return the body in markdown.

    `workflow` is the text of the workflow that calls ours; None where the repository has one.
    """
    sections = [
        Section("summary", "", _summary(found)),
        Section("correct", "Correct first", _correct(found.correct_first)),
        Section("guesses", "What was guessed", _guesses(found.guesses)),
        Section("workflow", "Where it runs", _workflow(workflow)),
        Section("not_read", "", _not_read(found.skipped)),
        Section("no", "How to say no", _no()),
    ]
    return fit(sections, Ending(_FOOTER, MANIFEST, SHED_FIRST))


def _summary(found: Found) -> str:
    names = ", ".join(code(name, 200) for name in found.files[:MOST_NAMED])
    return (
        f"fvec makes model serving faster and proves it. This adds {names}: how the models in "
        f"{code(found.models, 200)} are served (entry {code(found.entry, 100)}), and what traffic "
        "they are measured under.\n\n"
        "**Nothing happens before this is merged.** After that fvec measures on a new release, when "
        "the models or their versions change, or when the last analysis has grown old, and opens a "
        "draft pull request for each change that passed every gate, with its evidence. "
        f"{code(MANIFEST)} says how often; its section `bot` has all the limits."
    )


def _correct(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    told = bullets(inline(line, 400) for line in lines[:MOST_NAMED])
    return (
        "Commit corrections to this branch, or to the default branch after merging. In this order: "
        f"who answers for it, then what stops a run first.\n\n{told}"
    )


def _guesses(guesses: Sequence[Guessed]) -> str:
    rows = [
        [code(g.key, 100), code(g.value, 100), inline(g.certainty, 20), inline(g.why, 200)]
        for g in guesses[:MOST_GUESSES]
    ]
    if not rows:
        return ""
    more = len(guesses) - MOST_GUESSES
    note = f"\n\nand {more} more." if more > 0 else ""
    return table(["what", "value", "certainty", "why"], rows) + note


def caller(workflow: str, branch: str) -> str:
    """Return the text of the workflow that calls ours, made out for the default branch `branch`.

    It is quoted, for `on`, `true` and `null` are names of branches too, and means itself alone.
    """
    name = json.dumps(_OF_PATTERNS.sub(r"\\\g<0>", branch), ensure_ascii=False)
    return workflow.replace("branches: [main", f"branches: [{name}")


def _workflow(workflow: str | None) -> str:
    if workflow is None:
        return ""
    return (
        "Where the fvec App is installed nothing more is needed. Without it, add this file yourself "
        "as `.github/workflows/fvec.yml`; fvec never writes workflows. Replace OWNER by whoever has "
        "the copy of fvec that you use, COMMIT by the full name of the commit of it, and the labels "
        f"by those of your own runners.\n\n{text.fence(workflow, 'yaml')}"
    )


def _not_read(skipped: Sequence[tuple[str, str]]) -> str:
    if not skipped:
        return ""
    lines = [f"{code(path, 200)}: {inline(reason, 200)}" for path, reason in skipped[:MOST_NAMED]]
    return details(f"Not read ({len(skipped)})", bullets(lines))


def _no() -> str:
    return (
        "Close this pull request. fvec opens it once; closed means no, and it does not come back. "
        f"To change your mind, reopen it, or add {code(MANIFEST)} yourself (`fvec init` writes one)."
    )
