"""`/fvec rerun`: the evidence of one of our pull requests, measured again at the pinned commit.

Where the head is the commit that we pushed, `fvec verify` measures its evidence; where a person has
committed to the branch since, the whole of it is judged like any other, by the class that was
recorded. Neither ever promotes a claim.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bot.github.archive import BRANCH as EVIDENCE_BRANCH
from bot.github.archive import EvidenceBranch, folder_of
from bot.jobs import checkouts, manifests
from bot.jobs.context import Refusal
from bot.jobs.measuring import EVIDENCE, PATCH, Measurement
from bot.jobs.pulls import Subject, difference, is_ours, pinned
from layers.errors import InvalidInput
from layers.evidence import EvidenceFile
from layers.repository.patches import MOST_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from bot.github.replies import Pull
    from bot.jobs.context import Context

MOST_EVIDENCE_BYTES = 64 * 2**20
_COMMIT = re.compile(r"[0-9a-f]{40}")


def prepare(context: Context) -> Subject:
    """Return what is to be measured again.

    Raises Superseded, Refusal, InvalidInput and GitHubError.
    """
    pull = pinned(context)
    if not is_ours(pull, context.repository):
        raise Refusal("fvec did not open this pull request; `/fvec judge` judges any")
    archive = EvidenceBranch(context.repository)
    folder = folder_of(pull.branch)
    content = kept(context, f"{folder}/{EVIDENCE}")
    patch = kept(context, f"{folder}/{PATCH}", MOST_BYTES)
    if content is None or patch is None:
        raise Refusal("no evidence is kept of this pull request; `/fvec judge` judges it")
    evidence = read_evidence(content)
    if archive.state().pushed.get(pull.branch) == pull.head_sha:
        return _as_pushed(context, pull, evidence, {EVIDENCE: content, PATCH: patch})
    found = difference(context, pull)
    wanted = Measurement(
        "judge",
        found.base,
        change_class=str(evidence.iteration.hypothesis.change_class),
        inputs={PATCH: found.patch},
    )
    return Subject(
        wanted,
        found.mirror,
        pull.base,
        found.base,
        found.patch,
        folder,
        claimed=True,
        edited=True,
    )


def _as_pushed(
    context: Context, pull: Pull, evidence: EvidenceFile, inputs: dict[str, bytes]
) -> Subject:
    """Return the evidence of the commit that we pushed, held to what that commit changes."""
    base, loaded = measured_on(evidence), manifests.needed(context.repository)
    mirror = checkouts.fetched(context.home, branches=(loaded.branch,), pull=pull.number)
    _check_what_is_kept(mirror, base, pull, inputs[PATCH])
    manifests.check_base(mirror, base, loaded)
    return Subject(
        Measurement("verify", pull.head_sha, inputs=inputs),
        mirror,
        pull.branch,
        base,
        inputs[PATCH],
        folder_of(pull.branch),
        claimed=True,
    )


def kept(context: Context, path: str, most_bytes: int = MOST_EVIDENCE_BYTES) -> bytes | None:
    """Return a file of the evidence branch, which may be larger than what is read elsewhere."""
    return context.repository.file(path, EVIDENCE_BRANCH, limit_bytes=most_bytes)


def _check_what_is_kept(mirror: Path, base: str, pull: Pull, patch: bytes) -> None:
    """Hold the patch on the evidence branch to the pull request: anybody who may write can edit it."""
    there = checkouts.builds_on(mirror, pull.head_sha, base)
    if not there or checkouts.patch(mirror, base, pull.head_sha) != patch:
        raise InvalidInput(
            f"the patch that is kept of #{pull.number} is not what its branch changes",
            hint="the bot alone writes the branch fvec/evidence: revert what else was committed "
            "there, or say `/fvec judge`",
        )


def read_evidence(content: bytes) -> EvidenceFile:
    """Return evidence as it is kept; InvalidInput for anything else."""
    try:
        return EvidenceFile.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise InvalidInput(
            f"the evidence that is kept is none: {place}: {first['msg']}",
            hint="the bot alone writes the branch fvec/evidence: revert what else was committed "
            "there",
        ) from None


def measured_on(evidence: EvidenceFile) -> str:
    """Return the commit that evidence was measured on; InvalidInput where it names none."""
    base = evidence.iteration.base_commit or evidence.stack.commit
    if not _COMMIT.fullmatch(base):
        raise InvalidInput(f"the evidence that is kept names no commit as its base: {base!r:.60}")
    return base
