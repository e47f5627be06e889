"""The dashboard issue of one repository, brought up to date from what was written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.github.archive import EvidenceBranch, folder_of
from bot.github.errors import TRANSIENT, GitHubError
from bot.github.repository import STALE
from bot.jobs import records
from bot.render import dashboard
from layers.redact import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.github.replies import Pull
    from bot.github.repository import Repository
    from bot.jobs.context import Context, JobResult

_SETTLED = frozenset({"merged", "superseded", "awaiting", "refused"})
_OPEN = frozenset({"open", "stale", "edited", "taken back"})


def record(context: Context, result: JobResult) -> None:
    """Write down how the job ended, and show it. Raises GitHubError.

    What cannot be shown, as where a repository has no issues, is written down all the same.
    """
    spec = context.spec
    run = records.Run(
        at=context.now(),
        job=context.job,
        kind=spec.kind,
        state=result.state,
        why=records.line(spec.why),
        summary=records.line(result.summary),
        commit=result.commit or spec.sha,
        number=spec.number,
        hint=records.line(result.hint),
    )
    archive = EvidenceBranch(context.repository)
    whole = spec.kind == "analyse" and not spec.layers

    def changed(before: records.Runs) -> records.Runs:
        pulls = _as_they_are(context.repository, archive, before.pulls)
        if result.pulls is not None:
            found = _as_they_are(context.repository, archive, result.pulls)
            pulls = _together(pulls, found, whole=whole)
        return records.with_run(before, run, pulls=pulls, onboarding=result.onboarding)

    kept = records.update_runs(archive, changed)
    try:
        show(context.repository, kept)
    except TRANSIENT:
        raise
    except GitHubError as error:
        context.events.note(f"the dashboard is not shown: {redact(error.message)}")


def _together(
    earlier: Sequence[records.Pull], found: Sequence[records.Pull], *, whole: bool
) -> list[records.Pull]:
    """Return what an analysis found, and what it leaves of what was known before.

    One of all layers found all that there is; pull requests that are open stay open beside it.
    """
    again = {pull.branch for pull in found}
    kept = [pull for pull in earlier if pull.branch not in again]
    return [*found, *(pull for pull in kept if not whole or pull.state in _OPEN)]


def _as_they_are(
    repository: Repository, archive: EvidenceBranch, pulls: Sequence[records.Pull]
) -> list[records.Pull]:
    """Return what became of pull requests, as GitHub has them now."""
    if not pulls:
        return []
    there = {pull.number: pull for pull in repository.open_pulls()}
    found = []
    for kept in pulls:
        state = kept.state
        if kept.number is None or state in _SETTLED:
            pass
        elif kept.number in there:
            state = _open_state(kept, there[kept.number], archive)
        else:
            state = "merged" if repository.pull(kept.number).merged else "closed"
        note = kept.note if state == kept.state else ""
        found.append(kept.model_copy(update={"state": state, "note": note}))
    return found


def _open_state(kept: records.Pull, there: Pull, archive: EvidenceBranch) -> dashboard.State:
    if kept.state == "edited":
        return "edited"
    last = records.history(archive, folder_of(there.branch)).decided(there.head_sha)
    if last is not None and last.verdict == "rejected":
        return "taken back"
    return "stale" if STALE in there.labels else "open"


def show(repository: Repository, kept: records.Runs, nothing: str = "") -> None:
    """Bring the dashboard up to date; `nothing` says why nothing is to be done now."""
    shown = dashboard.Dashboard(
        runs=records.run_lines(kept),
        pulls=records.pull_lines(kept),
        nothing=nothing,
        onboarding=kept.onboarding,
    )
    repository.dashboard(dashboard.TITLE, dashboard.body(shown))


def say(repository: Repository, nothing: str) -> None:
    """Show why nothing follows from what happened; nothing is made where nothing ever ran."""
    kept = records.runs(EvidenceBranch(repository))
    if kept.runs:
        show(repository, kept, nothing)
