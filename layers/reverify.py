"""The evidence of a pull request, measured again: it may demote a claim, never promote one.

    read and check the evidence -> its base commit, checked out aside -> layers.judge, same class
        -> the difference of the two estimates, each with its own uncertainty

Evidence is outside input. What contradicts itself is refused before anything is measured; what
does not may still be false, which is what the measurement is for.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from layers.errors import InvalidInput, Location, ToolFailed
from layers.events import Events
from layers.evidence import (
    EndToEnd,
    Environment,
    EvidenceFile,
    GateResult,
    JudgeReport,
    LoadTest,
    Moved,
    Verdict,
    VerifyReport,
)
from layers.judge import JudgeOptions, judge_patch
from layers.manifest import SandboxMode
from layers.measure import stats
from layers.record import lock, plain_file
from layers.repository import git
from layers.repository.patches import MOST_BYTES
from layers.repository.stack import Stack
from layers.trial.grounds import Ground, contradictions

EVIDENCE, PATCH = "evidence.json", "patch.diff"
MOST_EVIDENCE_BYTES = 64 * 2**20
# One hiccup makes the interval of a p99, of one start, that much wider than another's: of 156 pairs
# of 13 measurements of one change, 27 disagreed with intervals as narrow as the later one's, now 2;
# the factor was chosen on the same 13, so what it does elsewhere is not known.
P99_WIDER = 4.0
GAIN_GATES = frozenset({"gain", "confirm"})  # of a trial: they say how much, the others whether
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_UNMEND = f"take {EVIDENCE} and {PATCH} of one folder from the pull request again, unedited"


@dataclass(frozen=True, slots=True)
class Recorded:
    """Evidence that is of one piece, with its patch."""

    evidence: EvidenceFile
    patch: bytes
    base_commit: str
    end_to_end: EndToEnd


def verify_evidence(
    evidence: Path, stack: Path, options: JudgeOptions, events: Events
) -> VerifyReport:
    """Judge the patch of `evidence` again on its base commit, and test the difference.

    `evidence` is an evidence.json with patch.diff beside it, or their folder; `stack` a clean
    checkout that has the base commit. Reasons: reproduced; gate_fails_now, gain_differs (rejected);
    gain_not_confirmed, or the judgement's own (inconclusive); the judgement's own (failed).
    Raises InvalidInput for evidence that is malformed, tampered with or contradicts itself, and as
    `layers.judge.judge_patch` does; the checkout stays as it was.
    """
    recorded = load(evidence)
    iteration = recorded.evidence.iteration
    with (
        lock.repository(stack, options.out),  # before anything is written beside it
        _checked_out(stack, recorded.base_commit) as (root, weakest),
    ):
        judged = judge_patch(
            root,
            replace(options, name=PATCH, sandbox=weakest),
            recorded.patch,
            iteration.hypothesis.change_class,
            events,
            held=True,
        )
    told = machine_warnings(recorded.evidence.environment, judged.environment)
    judged = judged.model_copy(update={"warnings": [*told, *judged.warnings]})
    return compare(recorded, judged)


def load(path: Path) -> Recorded:
    """Return the evidence at `path`, checked; raises InvalidInput as `verify_evidence` says."""
    file = path / EVIDENCE if path.is_dir() else path
    content = _bytes(file, MOST_EVIDENCE_BYTES)
    return read(content, _bytes(file.with_name(PATCH), MOST_BYTES), file)


def read(content: bytes, patch: bytes, file: Path) -> Recorded:
    """Return evidence with its patch, checked, where `file` is what errors call it; see `load`."""
    try:
        evidence = EvidenceFile.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise InvalidInput(
            f"not the evidence of a pull request: {place}: {first['msg']}",
            at=Location(file),
            hint="EVIDENCE is the evidence.json of a pull request, or the folder it lies in",
        ) from error
    base = evidence.iteration.base_commit or evidence.stack.commit
    if not _COMMIT.fullmatch(base):
        raise _contradiction(file, f"{base!r} is not the name of a commit")
    if hashlib.sha256(patch).hexdigest() != evidence.iteration.patch_sha256:
        raise _contradiction(file, f"{PATCH} is not the patch that the evidence is about")
    return Recorded(evidence, patch, base, _consistent(file, evidence))


def _bytes(file: Path, most: int) -> bytes:
    """Return a plain file of bounded size; a link that somebody names is followed."""
    return plain_file.read(file, most, links=True, hint=_UNMEND)


def _consistent(file: Path, evidence: EvidenceFile) -> EndToEnd:
    """Return the printed gain; InvalidInput unless all of the evidence bears it out."""
    iteration, moved = evidence.iteration, evidence.moved
    ground = Ground(
        iteration.hypothesis.change_class,
        evidence.noise.work,
        evidence.blocks,
        evidence.stack.slo_p99_ms,
    )
    said = next(contradictions(iteration, ground), None)
    if said is None and moved is not None and not _is_held(moved, iteration.commit):
        said = "it was committed anew, and not held to its class there"
    if said is not None or iteration.end_to_end is None:
        raise _contradiction(file, said or "it claims no gain")
    return iteration.end_to_end


def _is_held(moved: Moved, commit: str | None) -> bool:
    """Say whether a change that was committed anew passed its gates there, and is that commit."""
    passed = [gate.name for gate in moved.gates if gate.result is GateResult.PASS]
    return moved.commit == commit and len(passed) == len(moved.gates) and "correctness" in passed


def _contradiction(file: Path, what: str) -> InvalidInput:
    return InvalidInput(f"the evidence contradicts itself: {what}", at=Location(file), hint=_UNMEND)


@contextmanager
def _checked_out(path: Path, commit: str) -> Iterator[tuple[Path, SandboxMode]]:
    """Check `commit` out in a folder of its own, removed afterwards; yield it and the sandbox's mode.

    The mode is that of the checkout as it is: what the base commit says may not be weaker.
    """
    with Stack.open(path) as stack, tempfile.TemporaryDirectory(prefix="fvec-verify-") as folder:
        try:
            git.resolve(stack.root, commit)
        except ToolFailed as error:
            raise InvalidInput(
                f"the evidence is about commit {commit[:12]}, which {path} does not have",
                hint="name the stack's checkout with --stack, and fetch the branch that the pull "
                "request is based on, with its history (`git fetch --unshallow`)",
            ) from error
        _check_history(stack, commit)
        yield stack.worktree(commit, Path(folder)), stack.manifest.sandbox.mode


def _check_history(stack: Stack, commit: str) -> None:
    """Refuse a base that the checkout does not build on: its manifest would rule, and its code run."""
    try:
        git.git(stack.root, "merge-base", "--is-ancestor", commit, stack.commit)
    except ToolFailed as error:
        raise InvalidInput(
            f"the evidence is about commit {commit[:12]}, which the checked-out "
            f"{stack.commit[:12]} does not build on",
            hint="check out the branch that the pull request is based on, if you trust it; a shallow "
            "clone does not know what it builds on: `git fetch --unshallow`",
        ) from error


def compare(recorded: Recorded, judged: JudgeReport) -> VerifyReport:
    """Return what the new judgement says about the recorded claim. Pure."""
    first, again = recorded.end_to_end, judged.end_to_end
    seen = _throughput(again) if again else _last_look(judged)
    difference = held_to(_throughput(first), seen) if seen else None
    lower = _surely_lower(recorded, judged, difference)
    verdict, reason, detail = _conclusion(judged, lower)
    if difference is not None and verdict is Verdict.ACCEPTED:
        if difference.ci[0] > 1:
            detail = "the gain is higher than recorded; the recorded one stays the claim"
        elif difference.ci[1] < 1:
            detail = (
                "lower by the throughput's own interval; not surely, with all claims held at once"
            )
    iteration = recorded.evidence.iteration
    return VerifyReport(
        evidence=f"run {recorded.evidence.run_id}, {iteration.branch or iteration.card}",
        verdict=verdict,
        reason=reason,
        detail=detail,
        recorded=first,
        again=again,
        difference=difference.ratio if difference else None,
        difference_ci=difference.ci if difference else None,
        judged=judged,
    )


def held_to(claim: stats.Estimate, now: stats.Estimate, wider: float = 1.0) -> stats.Estimate:
    """Return now over claim, with the 95 % interval that the measurement of now allows.

    How unsure a claim says it is may not help it: it is taken to be no wider than what was measured
    now, to each side, or than so many times as wide.
    """
    below = min(claim.ratio / claim.ci[0], (now.ratio / now.ci[0]) ** wider)
    above = min(claim.ci[1] / claim.ratio, (now.ci[1] / now.ratio) ** wider)
    narrow = stats.Estimate(claim.ratio, (claim.ratio / below, claim.ratio * above), claim.n)
    return stats.ratio_between(narrow, now)


def _surely_lower(
    recorded: Recorded, judged: JudgeReport, difference: stats.Estimate | None
) -> list[str]:
    """Return which of the printed gains are surely lower now, by name.

    All are asked at once, so each must be so at the level that keeps all of them to that of one.
    """
    claims = {"throughput": difference} if difference is not None else {}
    first, again = recorded.end_to_end, judged.end_to_end
    if again is not None:
        claims["CPU"] = held_to(_cpu(first), _cpu(again))
        old, new = _p99(recorded.evidence.iteration.load_test), _p99(judged.load_test)
        if old and new:
            claims["p99"] = held_to(old, new, P99_WIDER)
    return [name for name, one in claims.items() if stats.upper_at_once(one, len(claims)) < 1]


def _conclusion(judged: JudgeReport, lower: Sequence[str]) -> tuple[Verdict, str, str]:
    """Return verdict, reason and detail; `lower` names the gains that are surely lower than recorded.

    A gain that could not be shown again, on a noisier machine say, and is not surely lower either,
    decides nothing.
    """
    told = f"{judged.reason}: {judged.detail}" if judged.detail else judged.reason
    if judged.verdict is Verdict.ACCEPTED:
        if lower:
            what = " and ".join(lower)
            return Verdict.REJECTED, "gain_differs", f"a gain is there; lower than recorded: {what}"
        return Verdict.ACCEPTED, "reproduced", ""
    if judged.verdict is Verdict.REJECTED:
        of_gain = bool(judged.gates) and judged.gates[-1].name in GAIN_GATES
        if not of_gain:
            return Verdict.REJECTED, "gate_fails_now", told
        if lower:
            return Verdict.REJECTED, "gain_differs", told
        return Verdict.INCONCLUSIVE, "gain_not_confirmed", told
    return judged.verdict, judged.reason, judged.detail


def _throughput(end: EndToEnd) -> stats.Estimate:
    return stats.Estimate(end.throughput_ratio, end.ci, end.pairs)


def _cpu(end: EndToEnd) -> stats.Estimate:
    return stats.Estimate(end.cpu_ratio, end.cpu_ci, end.pairs)


def _p99(test: LoadTest | None) -> stats.Estimate | None:
    if test is None or test.p99_ratio is None or test.p99_ci is None:
        return None
    return stats.Estimate(test.p99_ratio, test.p99_ci, test.candidate.requests)


def _last_look(judged: JudgeReport) -> stats.Estimate | None:
    """Return what the last look saw of a gain that was not confirmed."""
    if not judged.looks:
        return None
    look = judged.looks[-1]
    return stats.Estimate(look.estimate, look.ci, look.pairs)


def machine_warnings(recorded: Environment, now: Environment) -> list[str]:
    """Say where this machine is another one than that of the evidence, one line each."""
    old, new = recorded.model_dump(), now.model_dump()
    packages = [old.pop("packages"), new.pop("packages")]
    del old["bandwidth"], new["bandwidth"]  # measured, and never the same twice
    lines = [
        f"{name.replace('_', ' ')} differs: recorded {old[name]}, here {new[name]}"
        for name in old
        if old[name] != new[name]
    ]
    names = sorted(
        n for n in {**packages[0], **packages[1]} if packages[0].get(n) != packages[1].get(n)
    )
    if names:
        moved = [
            f"{n} {packages[0].get(n, 'absent')} to {packages[1].get(n, 'absent')}" for n in names
        ]
        lines.append(f"packages differ, recorded to here: {', '.join(moved)}")
    return lines
