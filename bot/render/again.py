"""The commands that measure again, as they work where they are read. Pure.

A stack has to be clean to be measured, so what they need lies in a folder outside its checkout,
which the lines call `$at`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.render import text
from layers.evidence import VerifyReport

if TYPE_CHECKING:
    from layers.evidence import EvidenceFile, JudgeReport

EVIDENCE, PATCH, JUDGED_PATCH = "evidence.json", "patch.diff", "judged.diff"
_BESIDE = (
    f"# {EVIDENCE} and {PATCH} lie beside this text; say the rest in a clean checkout of the stack",
    "at=FOLDER  # of this text",
)
_CLEAN = "# in a clone of this repository that has no changes of your own"


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the files of a pull request are kept at GitHub: a folder, in a commit of a branch."""

    commit: str
    folder: str


def evidence(found: EvidenceFile, where: Kept | None = None) -> str:
    """Return what measures a claim again, its patch alone, and the whole run that found it.

    Without `where` the files lie beside the text.
    """
    base = found.iteration.base_commit or found.stack.commit
    kind = found.iteration.hypothesis.change_class
    lines = list(_BESIDE) if where is None else _fetched(where, (EVIDENCE, PATCH), base)
    lines += [
        'fvec verify "$at"',
        "# the patch alone, by the same gates",
        f"git checkout {_word(base)}",
        _judge(PATCH, str(kind), found.seed),
    ]
    run = line(found.reproduce)
    if run:
        lines.append("# the whole run that found it")
        if base != found.stack.commit:
            lines.append(f"git checkout {_word(found.stack.commit)}")
        lines += run
    return text.fence("\n".join(lines), "sh")


def kept(found: VerifyReport | JudgeReport, where: Kept, base: str) -> str:
    """Return what measures again what a report is about, on `base` as the report did.

    Kept are, of a verification, the evidence and its patch; else the patch that was judged.
    """
    if isinstance(found, VerifyReport):
        lines = [*_fetched(where, (EVIDENCE, PATCH), base), 'fvec verify "$at"']
    else:
        lines = [
            *_fetched(where, (JUDGED_PATCH,), base),
            f"git checkout {_word(base)}",
            _judge(JUDGED_PATCH, str(found.change_class), found.seed),
        ]
    return text.fence("\n".join(lines), "sh")


def given(report: JudgeReport) -> str:
    """Return what judges the patch or callable again that a person had named; empty for none."""
    lines = line(report.reproduce)
    if not lines:
        return ""
    if report.stack:
        lines.insert(0, f"git checkout {_word(report.stack.commit)}")
    if report.patch_sha256:
        lines.append(f"# sha256 of the patch: {text.one_line(report.patch_sha256, 64)}")
    return text.fence("\n".join(lines), "sh")


def line(argv: Sequence[str]) -> list[str]:
    """Return the line of a shell that runs a recorded command of ours again; of any other none.

    It comes out of an evidence file, and people copy it.
    """
    return [text.one_line(shlex.join(argv))] if list(argv[:1]) == ["fvec"] else []


def _fetched(where: Kept, names: Sequence[str], base: str) -> list[str]:
    """Return the lines that bring kept files to `$at`, and the commit that they are about."""
    return [
        _CLEAN,
        f"git fetch origin {_word(where.commit)} {_word(base)}",
        "at=$(mktemp -d)",
        *(
            f'git show {_word(f"{where.commit}:{where.folder}/{name}", 400)} > "$at/{name}"'
            for name in names
        ),
    ]


def _judge(patch: str, change_class: str, seed: int) -> str:
    return f'fvec judge . --patch "$at/{patch}" --class {change_class} --seed {seed}'


def _word(name: str, limit: int = 64) -> str:
    return shlex.quote(text.one_line(name, limit))
