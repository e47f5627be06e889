"""An analysis: `fvec run` on a commit of the default branch, and what it found, published.

`/fvec recreate` is the same for one pull request of ours that a person closed or edited: the layer
of its change alone, on the default branch as it is now.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bot.github.archive import Analysis, EvidenceBranch, State, folder_of
from bot.github.commits import fetch_bundle
from bot.github.forge import GitHubForge
from bot.github.knowledge import PublishedKnowledge, publish_knowledge
from bot.jobs import checkouts, manifests, measuring, rerun
from bot.jobs.context import JobResult, Refusal
from bot.jobs.measuring import Measurement
from bot.jobs.pulls import is_ours
from bot.jobs.records import Pull, line
from bot.publishing.github import Published, publish_results
from bot.render import check
from bot.render.dashboard import State as Standing
from bot.wake import versions
from layers.errors import FvecError, InvalidInput
from layers.evidence import Verdict
from layers.repository import git

if TYPE_CHECKING:
    from bot.jobs.context import Context
    from layers.evidence import RunReport

MOST_READ = 200  # files of packages and model configurations
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


@dataclass(frozen=True, slots=True)
class Shard:
    """What one run left: its results, and a bundle of its branches where it ran elsewhere."""

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
    mirror = checkouts.fetched(context.home, branches=branches)
    sha = _pinned(context, mirror, loaded.branch)
    layers = tuple(map(str, context.spec.layers))
    if recreated is not None and not layers:
        layers = _layers_of(context, recreated)
    return Subject(Measurement("run", sha, layers), mirror, loaded.branch, recreated)


def report(
    context: Context, subject: Subject, shards: Sequence[Shard], checkout: Path
) -> JobResult:
    """Publish what runs found; a run that was shared by several runners left several shards.

    `checkout` has, or gets, their commits. What one shard found is published whatever became of
    the others. Raises the error of a shard where none has a report, InvalidInput for results that
    do not hold together, and GitHubError.
    """
    runs: list[RunReport] = []
    published: list[Pull] = []
    errors: list[FvecError] = []
    for shard in shards:
        try:
            run = _run_of(subject, shard)
        except FvecError as error:
            errors.append(error)
            continue
        published += _published(context, subject, shard, run, checkout)
        runs.append(run)
    if not runs:
        raise errors[0]
    return _ended(context, subject, runs, published, errors)


def _run_of(subject: Subject, shard: Shard) -> RunReport:
    """Return the report of a run; InvalidInput where it is about another commit."""
    run = measuring.run_report(shard.results)
    if run.stack.commit != subject.wanted.sha:
        raise InvalidInput(
            f"run {run.run_id:.60} is about commit {run.stack.commit:.12}, not "
            f"{subject.wanted.sha:.12}",
            hint="the results of another job were handed over: ask again",
        )
    return run


def _published(
    context: Context, subject: Subject, shard: Shard, run: RunReport, checkout: Path
) -> list[Pull]:
    """Publish the pull requests and the knowledge of one run."""
    if shard.bundle is not None:
        names = [pull.branch for pull in run.pull_requests]
        names += [run.knowledge.branch] if run.knowledge.branch else []
        if names:
            fetch_bundle(checkout, shard.bundle, names)
    forge = GitHubForge(context.repository, context.remote)
    published = publish_results(shard.results, checkout, forge, recreate=subject.recreated or False)
    learned = publish_knowledge(checkout, context.remote, context.repository, subject.branch, run)
    return [*map(_pull, published), *_knowledge(learned)]


def _ended(
    context: Context,
    subject: Subject,
    runs: Sequence[RunReport],
    published: Sequence[Pull],
    errors: Sequence[FvecError],
) -> JobResult:
    """Write down that the analysis ended, and say so on its commit."""
    last = runs[-1]
    accepted = sum(i.verdict is Verdict.ACCEPTED for run in runs for i in run.iterations)
    _save(context, subject, last)
    tell(context, subject.wanted.sha, check.ended(last.conclusion, last.run_id, accepted))
    summary = "; ".join(f"run {run.run_id}: {run.conclusion}" for run in runs)
    if errors:
        summary += f"; {len(errors)} of {len(errors) + len(runs)} shards left no report: "
        summary += errors[0].message.partition("\n")[0]
    return JobResult(
        "failed" if errors else "done",
        summary,
        errors[0].hint or "" if errors else "",
        pulls=tuple({pull.branch: pull for pull in published}.values()),
        commit=subject.wanted.sha,
    )


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
    listed = git.git(mirror, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    paths = [path for path in listed.split("\0") if path]
    read = [path for path in paths if versions.is_read(path)][:MOST_READ]
    texts = {path: checkouts.text_at(mirror, commit, path) for path in read}
    return versions.read({path: text for path, text in texts.items() if text is not None}, paths)


def _pinned(context: Context, mirror: Path, branch: str) -> str:
    """Return the commit that is analysed: the job's, else the head when the job was first done.

    Raises Refusal for a commit that is not on the default branch: a pull request could not bring
    its change alone.
    """
    head = git.resolve(mirror, checkouts.branch_ref(branch))
    sha = context.spec.sha or _noted(context.folder / "commit", head)
    if checkouts.resolved(mirror, sha) is None or not checkouts.builds_on(mirror, head, sha):
        raise Refusal(f"commit {sha[:10]} is not on {branch}, where changes are proposed")
    return sha


def _noted(file: Path, head: str) -> str:
    """Return the commit that was noted when the job was first done; note `head` where none was."""
    try:
        noted = file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        noted = ""
    if _SHA.fullmatch(noted):
        return noted
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


def _save(context: Context, subject: Subject, run: RunReport) -> None:
    """Write down the last analysis, the same where it is written down already."""
    sha = subject.wanted.sha
    found = versions_at(subject.mirror, sha)

    def changed(state: State) -> State:
        old = state.analysis
        again = old is not None and (old.sha, old.run_id) == (sha, run.run_id)
        at = old.at if old is not None and again else context.now()
        analysis = Analysis(
            sha=sha,
            at=at,
            run_id=run.run_id[:60],
            conclusion=line(run.conclusion)[:500],
            versions=found,
        )
        return state.model_copy(update={"analysis": analysis})

    EvidenceBranch(context.repository).update_state(changed)


def _pull(one: Published) -> Pull:
    return Pull(
        branch=one.branch[:300],
        state=_AS_SHOWN[one.kind],
        title=line(one.title),
        number=one.number,
        note=line(one.detail) if one.kind not in ("opened", "updated", "unchanged") else "",
    )


def _knowledge(learned: PublishedKnowledge) -> list[Pull]:
    """Return what became of the pull request of what was learned; none where nothing was."""
    if learned.state == "nothing":
        return []
    note = learned.why
    if learned.conflicts:
        note = f"{len(learned.conflicts)} cards could not take what was learned: see there"
    return [
        Pull(
            branch=checkouts.KNOWLEDGE,
            state=_LEARNED[learned.state],
            title="What runs have learned",
            number=learned.number,
            note=line(note),
        )
    ]
