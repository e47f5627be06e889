"""An analysis: `fvec run` on a commit of the default branch, and what it found, published.

`/fvec recreate` is the same for one pull request of ours that a person closed or edited: the layer
of its change alone, on the default branch as it is now.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bot.github.archive import Analysis, EvidenceBranch, State, folder_of
from bot.github.commits import fetch_bundle
from bot.github.errors import TRANSIENT
from bot.github.forge import CONTINUED, GitHubForge
from bot.github.knowledge import PublishedKnowledge, publish_knowledge
from bot.jobs import checkouts, freshen, manifests, measuring, rerun
from bot.jobs.context import JobResult, Refusal
from bot.jobs.measuring import Measurement
from bot.jobs.pulls import OUR_BRANCHES, is_ours
from bot.jobs.records import Pull, line
from bot.publishing.github import UP_TO_DATE, Published, publish_results
from bot.render import check, comment
from bot.render.dashboard import State as Standing
from bot.render.text import inline, one_line
from bot.wake import versions
from layers.errors import FvecError, InvalidInput
from layers.evidence import changes_of
from layers.redact import redact
from layers.repository import git

if TYPE_CHECKING:
    from bot.jobs.context import Context
    from layers.evidence import RunReport

LONGEST_RUN = timedelta(days=2)  # a beginning that a run tells is believed within it
COMMIT = "commit"  # the file of a job's folder that names what is analysed
_SHA = re.compile(r"[0-9a-f]{40}")
_AS_SHOWN: dict[str, Standing] = {
    "opened": "open",
    "updated": "open",
    "unchanged": "open",
    "edited": "edited",
    "closed": "closed",
    "merged": "merged",
    "superseded": "superseded",
    "awaiting": "awaiting",
}
_LEARNED: dict[str, Standing] = {
    "opened": "open",
    "updated": "open",
    "unchanged": "open",
    "closed": "closed",
    "merged": "merged",
    "left": "edited",
}
_WORST = ("nothing", "merged", "unchanged", "updated", "opened", "closed", "left")
_HANDED_OVER = "the results of another job were handed over: ask again"


@dataclass(frozen=True, slots=True)
class Shard:
    """What one run left: its results, and a bundle of its branches where it ran elsewhere.

    `name` is that of the run in the matrix, which says whose results are missing.
    """

    name: str
    results: Path
    bundle: Path | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is analysed: the measurement, and the pull request that is to be made anew."""

    wanted: Measurement
    mirror: Path
    branch: str  # the default one
    recreated: str | None = None  # the branch of the pull request


def prepare(context: Context) -> Subject | None:
    """Return what is to be measured, None where there is no manifest yet.

    Raises Refusal, InvalidInput and GitHubError.
    """
    loaded = manifests.load(context.repository)
    if loaded is None:
        return None
    recreated = _recreated(context) if context.spec.kind == "recreate" else None
    known = context.repository.branch_sha(checkouts.KNOWLEDGE) is not None
    branches = (loaded.branch, checkouts.KNOWLEDGE) if known else (loaded.branch,)
    gone = () if known else (checkouts.KNOWLEDGE,)
    mirror = checkouts.fetched(context.home, branches=branches, gone=gone)
    sha = _pinned(context, mirror, loaded.branch)
    layers = tuple(map(str, context.spec.layers))
    if recreated is not None and not layers:
        layers = _layers_of(context, recreated)
    allowed = tuple(name for name in layers if name in loaded.manifest.layers)
    if layers and not allowed:
        raise Refusal(f"the manifest leaves `{'`, `'.join(layers)}` to its owners")
    return Subject(Measurement("run", sha, allowed), mirror, loaded.branch, recreated)


def report(
    context: Context,
    subject: Subject,
    shards: Sequence[Shard],
    checkout: Path,
    expected: Sequence[str] = (),
) -> JobResult:
    """Publish what runs found; a run that was shared by several runners left several shards.

    `checkout` has, or gets, their commits; `expected` names the shards that were to be, where they
    are known. What one shard found is published whatever became of the others. Raises the error
    of a shard where nothing of any was published, RateLimited and Unavailable.
    """
    freshen.beside(context)
    usable, errors = _present(shards, expected)
    found: list[_Found] = []
    for shard in usable:
        try:
            found.append(_published(context, subject, shard, checkout))
        except TRANSIENT:
            raise
        except FvecError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return _ended(context, subject, found, errors)


@dataclass(frozen=True, slots=True)
class _Found:
    """One run, and what became of what it found."""

    run: RunReport
    published: Sequence[Published]
    learned: PublishedKnowledge | FvecError


def _present(
    shards: Sequence[Shard], expected: Sequence[str]
) -> tuple[list[Shard], list[FvecError]]:
    """Return the shards whose results can be used, and an error for each name whose cannot."""
    by_name: dict[str, list[Shard]] = {name: [] for name in expected}
    for shard in shards:
        by_name.setdefault(shard.name, []).append(shard)
    usable: list[Shard] = []
    errors: list[FvecError] = []
    for name, left in by_name.items():
        if expected and name not in expected:
            errors.append(_unusable(name, "is none that was asked for"))
        elif len(left) != 1:
            errors.append(_unusable(name, "left results twice" if left else "left no results"))
        else:
            usable.append(left[0])
    return usable, errors


def _unusable(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"shard {one_line(name, 100) or 'without a name'} {why}",
        hint="the log of its job says why; a runner may have been lost: run the workflow again",
    )


def _run_of(subject: Subject, shard: Shard) -> RunReport:
    """Return the report of a run; InvalidInput where it is about another commit, or branch.

    Where its pull requests go is not for a runner to say: each goes to the branch that was
    analysed, or to one of the same run.
    """
    run = measuring.run_report(shard.results)
    commit = run.stack.commit
    if commit != subject.wanted.sha:
        told = f"is about commit {commit:.12}, not {subject.wanted.sha:.12}"
        raise InvalidInput(f"run {run.run_id:.60} {told}", hint=_HANDED_OVER)
    bases = [pull.base for pull in run.pull_requests if not pull.base.startswith(OUR_BRANCHES)]
    strange = next((base for base in bases if base not in (subject.branch, commit)), None)
    if strange is not None:
        told = f"has a pull request to {one_line(strange, 100)}, not to {subject.branch}"
        raise InvalidInput(f"run {run.run_id:.60} {told}", hint=_HANDED_OVER)
    return run


def _published(context: Context, subject: Subject, shard: Shard, checkout: Path) -> _Found:
    """Publish the pull requests and the knowledge of one run."""
    run = _run_of(subject, shard)
    if shard.bundle is not None:
        names = [pull.branch for pull in run.pull_requests]
        names += [run.knowledge.branch] if run.knowledge.branch else []
        if names:
            fetch_bundle(checkout, shard.bundle, names)
    forge = GitHubForge(context.repository, context.remote)
    published = publish_results(shard.results, checkout, forge, recreate=subject.recreated or False)
    return _Found(run, published, _learned(context, subject, run, checkout))


def _learned(
    context: Context, subject: Subject, run: RunReport, checkout: Path
) -> PublishedKnowledge | FvecError:
    """Publish what a run learned; what hinders that takes nothing from the changes that it found."""
    try:
        return publish_knowledge(checkout, context.remote, context.repository, subject.branch, run)
    except TRANSIENT:
        raise
    except FvecError as error:
        return error


def _ended(
    context: Context, subject: Subject, found: Sequence[_Found], errors: Sequence[FvecError]
) -> JobResult:
    """Write down that the analysis ended, and say so on its commit.

    One that lacks a shard is written down as an attempt: what is missing is still to be looked at.
    """
    run_ids = ", ".join(dict.fromkeys(one.run.run_id for one in found))
    conclusion = "; ".join(dict.fromkeys(one.run.conclusion for one in found))
    failed = [line(redact(error.message.partition("\n")[0])) for error in errors]
    of = f"{len(errors)} of {len(errors) + len(found)} shards failed: {'; '.join(failed)}"
    if errors:
        archive = EvidenceBranch(context.repository)
        archive.note_attempt(subject.wanted.sha, context.clock(), of, context.job)
    else:
        _save(context, subject, [one.run for one in found], run_ids, conclusion)
    # Only what was published has evidence that was checked here.
    accepted = sum(len(pull.iterations) for one in found for pull in one.published)
    told = check.ended(conclusion, run_ids, accepted)
    tell(context, subject.wanted.sha, _incomplete(told, of) if errors else told)
    if subject.recreated is not None:
        _answer(context, subject.recreated, found)
    summary = "; ".join(f"run {one.run.run_id}: {one.run.conclusion}" for one in found)
    pulls = [_pull(pull) for one in found for pull in one.published]
    pulls += _knowledge([one.learned for one in found])
    return JobResult(
        "failed" if errors else "done",
        f"{summary}; {of}" if errors else summary,
        errors[0].hint or "" if errors else "",
        pulls=tuple({pull.branch: pull for pull in pulls}.values()),
        commit=subject.wanted.sha,
    )


def _incomplete(told: check.Check, of: str) -> check.Check:
    """Return the check of an analysis some of whose shards failed."""
    return replace(told, conclusion="neutral", summary=f"{told.summary}\n\n{inline(of, 600)}")


def _answer(context: Context, recreated: str, found: Sequence[_Found]) -> None:
    """Say on the pull request that was to be made anew what became of it.

    Where another one goes on, `publish_results` has said so.
    """
    number = context.spec.number
    known = EvidenceBranch(context.repository).publication(recreated)
    branch = known.of_branch if known is not None else recreated
    of_it = re.compile(rf"{re.escape(branch)}(-[0-9]{{1,2}})?")
    became = [
        pull
        for one in found
        for pull in one.published
        if pull.iterations and of_it.fullmatch(pull.branch)
    ]
    if number is None or any(p.kind in UP_TO_DATE and p.number != number for p in became):
        return
    if not became:
        changes = known.changes if known is not None else []
        told = comment.not_found_again(_verdict(changes, [one.run for one in found]))
    elif became[-1].kind in UP_TO_DATE:
        told = comment.UP_TO_DATE
    else:
        told = comment.held_back(became[-1].detail)
    context.repository.tell(number, CONTINUED, told)


def _verdict(changes: Sequence[str], runs: Sequence[RunReport]) -> tuple[str, str] | None:
    """Return verdict and reason of the last trial of some changes, None where there was none."""
    trials = [trial for run in runs for trial in run.iterations if changes_of(trial) == changes]
    return (str(trials[-1].verdict), trials[-1].reason) if trials else None


def tell(context: Context, sha: str, told: check.Check) -> None:
    """Set the check run of an analysis on a commit."""
    context.repository.check_run(
        sha,
        check.NAME,
        check.ANALYSIS,
        status="completed",
        conclusion=told.conclusion,
        title=told.title,
        summary=told.summary,
        text=told.text,
    )


def versions_at(mirror: Path, commit: str) -> dict[str, str]:
    """Return the versions that a commit names, as `bot.wake.versions.read` says it."""
    listed = git.git(mirror, "ls-tree", "-r", "-l", "-z", "--full-tree", commit)
    files = [_listed(entry) for entry in _unicode(listed).split("\0") if entry]
    texts = {
        path: checkouts.text_at(mirror, commit, path) or "" for path in versions.to_read(files)
    }
    return versions.read(
        {path: _unicode(text) for path, text in texts.items()}, [path for path, _, _ in files]
    )


def _listed(entry: str) -> tuple[str, str, int]:
    """Return path, mode and size of an entry of `git ls-tree -l`; a submodule has no size."""
    told, _, path = entry.partition("\t")
    mode, _, _, size = told.split()
    return path, mode, int(size) if size.isdigit() else 0


def _unicode(text: str) -> str:
    """Return git's output as GitHub's API tells it: what is no UTF-8 is replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _pinned(context: Context, mirror: Path, branch: str) -> str:
    """Return the commit that is analysed: the job's, else the head when the job was first done.

    Raises Refusal for a commit that is not on the default branch: a pull request could not bring
    its change alone.
    """
    head = git.resolve(mirror, checkouts.branch_ref(branch))
    sha = context.spec.sha or _noted(context, head)
    if checkouts.resolved(mirror, sha) is None or not checkouts.builds_on(mirror, head, sha):
        raise Refusal(f"commit {sha[:10]} is not on {branch}, where changes are proposed")
    return sha


def noted(context: Context) -> str | None:
    """Return the commit that was noted when the job was first done, None where none was."""
    try:
        text = (context.folder / COMMIT).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    return text if _SHA.fullmatch(text) else None


def _noted(context: Context, head: str) -> str:
    """Return the commit that was noted when the job was first done; note `head` where none was."""
    if (there := noted(context)) is not None:
        return there
    file = context.folder / COMMIT
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{head}\n", encoding="ascii")
    return head


def _recreated(context: Context) -> str:
    """Return the branch of the pull request that is to be made anew."""
    number = context.spec.number
    if number is None:
        raise Refusal("no pull request is named")
    pull = context.repository.pull(number)
    if not is_ours(pull, context.repository):
        raise Refusal("fvec did not open this pull request, so it cannot start it over")
    return pull.branch


def _layers_of(context: Context, branch: str) -> tuple[str, ...]:
    """Return the layer of a pull request's change; empty, for all, where it is not known."""
    content = rerun.kept(context, f"{folder_of(branch)}/{measuring.EVIDENCE}")
    return (str(rerun.read_evidence(content).iteration.layer),) if content is not None else ()


def _save(
    context: Context, subject: Subject, runs: Sequence[RunReport], run_id: str, conclusion: str
) -> None:
    """Write down an analysis that ended well, the same where it is written down already.

    One of some layers is kept beside the last that was about all. What failed before is over.
    """
    wanted = subject.wanted
    part = ",".join(wanted.layers)
    found = versions_at(subject.mirror, wanted.sha)

    def changed(state: State) -> State:
        old = state.partial.get(part) if part else state.analysis
        again = old is not None and (old.sha, old.run_id) == (wanted.sha, run_id[:60])
        at = old.at if old is not None and again else context.now()
        analysis = Analysis(
            sha=wanted.sha,
            at=at,
            run_id=run_id[:60],
            conclusion=line(conclusion)[:500],
            versions=found,
            layers=list(wanted.layers),
            began=_began(runs, datetime.fromisoformat(at)),
        )
        kept = {"partial": {**state.partial, part: analysis}} if part else {"analysis": analysis}
        return state.model_copy(update={**kept, "attempt": None})

    EvidenceBranch(context.repository).update_state(changed)


def _began(runs: Sequence[RunReport], ended: datetime) -> str:
    """Return when the first of some runs began; what they tell is outside input."""
    earliest = ended
    for run in runs:
        try:
            told = datetime.fromisoformat(run.started_at)
        except ValueError:
            continue
        if told.tzinfo is not None and told > ended - LONGEST_RUN:
            earliest = min(earliest, told)
    return earliest.astimezone(UTC).isoformat(timespec="seconds")


def _pull(one: Published) -> Pull:
    return Pull(
        branch=one.branch[:300],
        state=_AS_SHOWN[one.kind],
        title=line(one.title),
        number=one.number,
        note=line(one.detail) if one.kind not in ("opened", "updated", "unchanged") else "",
        no_room=one.no_room,
    )


def _knowledge(learned: Sequence[PublishedKnowledge | FvecError]) -> list[Pull]:
    """Return what became of the pull request of what was learned; none where nothing was.

    Of several shards the worst counts, and what any of them could not bring into the cards.
    """
    errors = [one for one in learned if isinstance(one, FvecError)]
    there = [one for one in learned if isinstance(one, PublishedKnowledge)]
    worst = max(there, key=lambda one: _WORST.index(one.state), default=None)
    if not errors and (worst is None or worst.state == "nothing"):
        return []
    conflicts = {conflict for one in there for conflict in one.conflicts}
    notes = list(dict.fromkeys(one.why for one in there if one.why))
    if conflicts:
        notes.append(f"{len(conflicts)} cards could not take what was learned: see there")
    notes += dict.fromkeys(f"not published: {redact(error.message)}" for error in errors)
    return [
        Pull(
            branch=checkouts.KNOWLEDGE,
            state="edited" if errors or worst is None else _LEARNED[worst.state],
            title="What runs have learned",
            number=next((one.number for one in reversed(there) if one.number), None),
            note=line("; ".join(notes)),
        )
    ]
