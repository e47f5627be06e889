"""What `fvec verify` or `judge` reports of a patch, held to what was asked.

A runner measures without credentials and leaves a report; here it decides a check run. What it is
about is compared, an acceptance needs all that one takes (`layers.trial.grounds`), and what is said
of evidence that was measured again is said anew from the two measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.publishing.claims import other_stack
from layers.errors import InvalidInput
from layers.evidence import JudgeReport, Verdict, VerifyReport
from layers.gates.paths import class_of
from layers.repository import patches
from layers.trial.grounds import Ground, contradictions

_ASK_AGAIN = "the results of another job were handed over, or edited: ask again"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a patch was measured for: `root` has the commit `base` that it is applied to.

    `change_class` None leaves the class to the judge. `evidence` is what is measured again, if so.
    """

    root: Path
    base: str
    patch: bytes
    change_class: str | None = None
    evidence: bytes | None = None


def check(found: VerifyReport | JudgeReport, asked: Asked) -> None:
    """Hold a report to what was asked, and one that accepts to all that an acceptance takes.

    That it is about the patch is known. Raises InvalidInput: it is about another commit or class; its stack is not the one of the
    manifest; its own record does not bear its verdict out; or, of evidence that was measured again,
    its verdict is not what the two measurements say together.
    """
    files = patches.read(asked.patch, Path("patch.diff")).paths
    if isinstance(found, JudgeReport):
        _check_judged(found, asked, asked.change_class or class_of(files), files)
        return
    # It imports what judges evidence, which a host that only reads cards does without.
    from layers import reverify

    recorded = reverify.read(asked.evidence or b"", asked.patch, Path(reverify.EVIDENCE))
    change_class = recorded.evidence.iteration.hypothesis.change_class
    _check_judged(found.judged, asked, change_class, files)
    if _said(reverify.compare(recorded, found.judged)) != _said(found):
        raise _unborne("it does not say what the two measurements say together")


def _check_judged(
    judged: JudgeReport, asked: Asked, change_class: str, files: Sequence[str]
) -> None:
    """Hold one judgement to what was asked."""
    stack = judged.stack
    for what, told, wanted in (
        ("commit", stack.commit if stack is not None else None, asked.base),
        ("class", judged.change_class, change_class),
    ):
        if told != wanted:
            raise InvalidInput(
                f"the report is about another {what} than the one that was asked about",
                hint=_ASK_AGAIN,
            )
    if stack is None or judged.verdict is not Verdict.ACCEPTED:
        return
    other = other_stack(stack, asked.root)
    if other is not None:
        raise _unborne(f"its stack has another {other} than the manifest")
    if sorted(judged.files_changed) != sorted(files):
        raise _unborne("it names other files than the patch changes")
    noise = judged.noise.work if judged.noise is not None else None
    ground = Ground(judged.change_class, noise, judged.blocks, stack.slo_p99_ms)
    for said in contradictions(judged, ground):
        raise _unborne(said)


def _said(report: VerifyReport) -> tuple[object, ...]:
    """Return what a report says of two measurements, but for digits that depend on the machine."""
    return (report.evidence, report.verdict, report.reason, report.recorded, report.again)


def _unborne(why: str) -> InvalidInput:
    return InvalidInput(f"the report does not bear its verdict out: {why}", hint=_ASK_AGAIN)
