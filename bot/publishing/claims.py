"""What a results folder claims, read as hostile data, and held to the commits of a checkout.

A run measures without credentials and leaves a folder; who holds the credentials reads it here.
Nothing of it is believed that can be checked: the files are plain and of bounded size, the
documents are strict and agree with one another, the evidence bears out its gain
(`layers.reverify`), git's own diff of the two commits is the patch that was measured, and the stack
is what its manifest says.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from bot.forge.base import is_branch_name
from bot.forge.local import Meta
from bot.github import commits
from bot.publishing.local import FORGE_FOLDER
from knowledge import yamlfile
from knowledge.yamlfile import YamlError
from layers.base import LayerName
from layers.errors import InvalidInput, Location, ToolFailed
from layers.evidence import (
    EvidenceFile,
    Peak,
    PullRequestRecord,
    RunReport,
    StackRecord,
    Total,
)
from layers.manifest import MANIFEST_PATH, Manifest
from layers.repository import git

if TYPE_CHECKING:
    from layers.reverify import Recorded

RUN, META = "run.json", "meta.json"
MOST_PULLS = 20
MOST_ENTRIES = 2_000  # files and folders of the local forge
MOST_BYTES = 32 * 2**20  # of one file
# A branch of a change, as only a run of ours names it: no option, no path, no revision.
CHANGE_BRANCH = re.compile(rf"fvec/(?:{'|'.join(LayerName)})/[A-Za-z0-9][A-Za-z0-9_-]{{0,199}}")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_AGAIN = "take the results folder from the run again, unedited"

Document = TypeVar("Document", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Claim:
    """One pull request of a run: what it says, and the evidence and patch that it rests on."""

    meta: Meta
    iterations: tuple[int, ...]
    recorded: Recorded

    @property
    def branch(self) -> str:
        """Branch in the checkout."""
        return self.meta.branch

    @property
    def commit(self) -> str:
        """Head of the branch."""
        return self.meta.head_commit

    @property
    def base_commit(self) -> str:
        """Commit that it was measured on."""
        return self.recorded.base_commit


@dataclass(frozen=True, slots=True)
class Claims:
    """A run's report, and its pull requests in the order in which they stand on one another."""

    report: RunReport
    pulls: tuple[Claim, ...]

    @property
    def branches(self) -> tuple[str, ...]:
        """Branches of all pull requests, in the checkout."""
        return tuple(claim.branch for claim in self.pulls)


def read(results: Path) -> Claims:
    """Return what the results folder of a run claims; nothing of git is looked at.

    Raises InvalidInput, with the file and what is wrong: links and special files, too much of
    anything, documents that are malformed, that contradict one another or themselves.
    """
    _check_plain(results / RUN)
    report = _document(results / RUN, RunReport)
    if not _RUN_ID.fullmatch(report.run_id):
        raise _refused(results / RUN, "run_id is no name of a run")
    records = [pull for pull in report.pull_requests if pull.forge == "local"]
    if len(records) > MOST_PULLS:
        raise _refused(results / RUN, f"it names more than {MOST_PULLS} pull requests")
    forge = results / FORGE_FOLDER
    if records:
        _check_files(forge)
    claims: dict[str, Claim] = {}
    for record in records:
        place = forge / "pulls" / str(record.number)
        claim = _claim(place, record, report)
        _check_base(place / META, claim, claims, report)
        claims[claim.branch] = claim
    return Claims(report, tuple(claims.values()))


def check_commits(claims: Claims, root: Path) -> None:
    """Hold every claim to the commits that the checkout at `root` has.

    Raises InvalidInput: a commit is not there, is no plain change on top of its base, or differs
    from its base by anything but the patch that was measured; or the stack is not the one of the
    manifest that was measured with.
    """
    for claim in claims.pulls:
        for commit in (claim.base_commit, claim.commit):
            _check_there(root, commit, claim.branch)
        commits.check_branch(root, claim.base_commit, claim.commit)
        patch = git.patch_between(root, claim.base_commit, claim.commit)
        if patch.encode("utf-8", "surrogateescape") != claim.recorded.patch:
            raise InvalidInput(
                f"{claim.branch}: commit {claim.commit[:12]} differs from its base by something "
                "else than patch.diff, which was measured",
                hint=_AGAIN,
            )
        other = other_stack(claim.recorded.evidence.stack, root)
        if other is not None:
            raise InvalidInput(
                f"{claim.branch}: its evidence has another {other} than the manifest", hint=_AGAIN
            )


def corrected(claims: Claims, root: Path, owner: str | None) -> Claims:
    """Return claims that `check_commits` let pass, with what is known here in place of what they say.

    That is who answers for the pull requests, and which files git finds changed: a rewrite may
    write a file again as it was.
    """
    return replace(claims, pulls=tuple(_corrected(claim, root, owner) for claim in claims.pulls))


def _corrected(claim: Claim, root: Path, owner: str | None) -> Claim:
    evidence = claim.recorded.evidence
    files = {"files_changed": changed_files(root, claim)}
    known = evidence.model_copy(
        update={
            "stack": evidence.stack.model_copy(update={"owner": owner}),
            "iteration": evidence.iteration.model_copy(update=files),
        }
    )
    return replace(claim, recorded=replace(claim.recorded, evidence=known))


def changed_files(root: Path, claim: Claim) -> list[str]:
    """Return the files that a pull request changes, as git finds them."""
    between = (claim.base_commit, claim.commit)
    told = git.git(root, "diff", "--name-only", "--no-renames", "-z", *between, "--")
    return sorted(name for name in told.split("\0") if name)


def other_stack(stack: StackRecord, root: Path) -> str | None:
    """Say in what a stack is another than the manifest at its commit says; None where in nothing.

    `root` has the commit, of which the full name is given. Raises InvalidInput where it has no
    manifest that can be read.
    """
    manifest = _manifest(root, stack.commit)
    peak = Peak(**manifest.slo.peak.model_dump()) if manifest.slo.peak is not None else None
    for what, told, wanted in (
        ("name", stack.name, manifest.stack.name),
        ("entry", stack.entry, manifest.stack.entry),
        ("SLO", stack.slo_p99_ms, manifest.slo.p99_ms),
        ("peak", stack.peak or peak, peak),
    ):
        if told != wanted:
            return what
    return None


def _manifest(root: Path, commit: str) -> Manifest:
    try:
        content = git.git(root, "show", "--no-textconv", f"{commit}:{MANIFEST_PATH}")
        text = content.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return yamlfile.loads(text, Path(MANIFEST_PATH), Manifest)
    except (ToolFailed, YamlError) as error:
        raise InvalidInput(
            f"commit {commit[:12]} has no {MANIFEST_PATH} that can be read",
            hint="what is measured there obeys it: `fvec config validate` says what is wrong",
        ) from error


def _check_there(root: Path, commit: str, branch: str) -> None:
    try:
        git.resolve(root, commit)
    except ToolFailed as error:
        raise InvalidInput(
            f"{branch}: commit {commit[:12]} is not in the checkout {root}",
            hint="name the checkout that the run worked in with --stack, or what it bundled with "
            "--bundle",
        ) from error


def _check_files(forge: Path) -> None:
    """Refuse anything but plain files of bounded size in folders, before any is opened."""
    for count, path in enumerate(_entries(forge)):
        if count > MOST_ENTRIES:
            raise _refused(forge, f"more than {MOST_ENTRIES:,} files")
        if not _is_folder(path):
            _check_plain(path)


def _entries(forge: Path) -> Iterator[Path]:
    yield forge  # before anything of it: a link there leads elsewhere
    for folder, folders, files in os.walk(forge):
        yield from (Path(folder, name) for name in (*folders, *files))


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _check_plain(file: Path) -> None:
    try:
        found = file.lstat()
    except OSError as error:
        raise InvalidInput(
            f"cannot be read: {error.strerror}",
            at=Location(file),
            hint="RESULTS is what `fvec run --out RESULTS` left when it ended",
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise _refused(file, "a link or special file, where a plain file is expected")
    if found.st_size > MOST_BYTES:
        raise _refused(file, f"larger than {MOST_BYTES:,} bytes")


def _document(file: Path, model: type[Document]) -> Document:
    """Read a document that `_check_plain` has let pass."""
    try:
        return model.model_validate_json(file.read_bytes())
    except OSError as error:
        raise _refused(file, f"it cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise _refused(file, f"{place[:200]!r}: {first['msg'][:200]}") from error


def _claim(place: Path, record: PullRequestRecord, report: RunReport) -> Claim:
    """Read one pull request; refuse what does not agree with the run's report."""
    # It imports what judges evidence, which a host that only reads cards does without.
    from layers import reverify

    file = place / META
    meta = _document(file, Meta)
    if (meta.number, meta.branch, meta.base) != (record.number, record.branch, record.base):
        raise _refused(file, f"not the pull request that {RUN} names")
    if not CHANGE_BRANCH.fullmatch(meta.branch):
        raise _refused(file, f"{meta.branch[:200]!r} is no branch of a change")
    if not _COMMIT.fullmatch(meta.head_commit):
        raise _refused(file, "head_commit is not the name of a commit")
    claim = Claim(meta, tuple(record.iterations), reverify.load(place))
    _check_evidence(place / reverify.EVIDENCE, claim, report)
    return claim


def _check_evidence(file: Path, claim: Claim, report: RunReport) -> None:
    evidence = claim.recorded.evidence
    iteration = evidence.iteration
    for what, found, wanted in (
        ("run", (evidence.run_id, evidence.shard), (report.run_id, report.shard)),
        ("stack", evidence.stack.commit, report.stack.commit),
        ("branch", iteration.branch, claim.branch),
        ("commit", iteration.commit, claim.commit),
        ("iteration", (iteration.n,), claim.iterations),
        ("total", evidence.total, _total_of(evidence, report)),
    ):
        if found != wanted:
            raise _refused(file, f"it is about another {what} than its pull request")


def _total_of(evidence: EvidenceFile, report: RunReport) -> Total | None:
    """Return the total that evidence may name: its run's, where it is of this change alone."""
    alone = sum(pull.forge == "local" for pull in report.pull_requests) == 1
    return report.total if alone and evidence.total is not None else None


def _check_base(file: Path, claim: Claim, before: Mapping[str, Claim], report: RunReport) -> None:
    """Refuse a base that is neither the run's own nor that of an earlier pull request of it."""
    if claim.branch in before:
        raise _refused(file, f"a second pull request of the branch {claim.branch}")
    if not is_branch_name(claim.meta.base):
        raise _refused(file, f"its base {claim.meta.base[:200]!r} is no branch")
    below = before.get(claim.meta.base)
    if below is None and claim.meta.base.startswith("fvec/"):
        raise _refused(file, f"its base {claim.meta.base[:200]!r} is no earlier branch of this run")
    stands_on = report.stack.commit if below is None else below.commit
    if claim.base_commit != stands_on:
        raise _refused(
            file, f"measured on {claim.base_commit[:12]}, and its base stood at {stands_on[:12]}"
        )


def _refused(file: Path, why: str) -> InvalidInput:
    return InvalidInput(f"the results cannot be published: {why}", at=Location(file), hint=_AGAIN)
