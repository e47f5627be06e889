"""What follows for a pull request when it was measured: data, comment, check run; in that order.

The comment is one, edited in place; what was said before is kept on the evidence branch, as data.
The check run is pinned to the commit that was measured, and only if that is still the head.

Where GitHub refuses one of them the others are made all the same: a merge may wait for the check
run, and of a personal token GitHub takes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bot.github.archive import EvidenceBranch
from bot.github.errors import Conflict, Forbidden, GitHubError, NotFound
from bot.github.repository import STALE
from bot.jobs import checkouts, manifests, measuring, records
from bot.jobs.context import JobResult
from bot.jobs.pulls import base_moved, folder_for, pinned
from bot.publishing import reports
from bot.publishing.reports import Asked
from bot.render import again, check, comment, publication
from bot.render.again import Kept
from bot.render.text import one_line
from layers.evidence import VerifyReport
from layers.redact import redact

if TYPE_CHECKING:
    from pathlib import Path

    from bot.github.replies import Pull
    from bot.github.repository import Repository
    from bot.jobs.context import Context
    from bot.jobs.pulls import Subject
    from layers.evidence import JudgeReport


def report(context: Context, subject: Subject, results: Path) -> JobResult:
    """Tell what was measured about `subject`.

    Raises Superseded where the head moved meanwhile, InvalidInput for results that are none or do
    not bear out what they say, the error that the measuring program ended by, and GitHubError.
    """
    found = measuring.judgement(results, subject.wanted.program, subject.patch)
    reports.check(found, _asked(subject))
    pull = pinned(context)
    kept, address, run_again = _keep(context, subject, found)
    unsaid: list[GitHubError] = []
    with _going_on(unsaid):
        _comment(context, subject, found, kept, (address, run_again))
    if subject.claimed:
        with _going_on(unsaid):
            _say_in_body(context.repository, pull, kept)
    checked = (
        check.verified(found, pull.head_sha, run_again)
        if isinstance(found, VerifyReport)
        else check.judged(found, pull.head_sha, run_again, claimed=subject.claimed)
    )
    if subject.claimed and checked.conclusion == "success":
        checked = _on_its_base(context, subject, pull, checked, unsaid)
    unset: list[GitHubError] = []
    with _going_on(unset):
        set_check(context.repository, pull.head_sha, checked, address)
    if unsaid and unset:
        raise unset[0]
    told = comment.told(found, "", pull.head_sha, "")
    gain = f", {told.gain}" if told.gain else ""
    refused = [f"; not told everywhere: {one_line(e.message)}" for e in (*unsaid, *unset)][:1]
    summary = f"{found.verdict} ({told.reason}){gain}{''.join(refused)}"
    return JobResult("done", summary, commit=pull.head_sha)


@contextmanager
def _going_on(refused: list[GitHubError]) -> Iterator[None]:
    """Note what GitHub refuses, and go on; what may pass, or is no refusal, is raised."""
    try:
        yield
    except (Conflict, Forbidden, NotFound) as error:
        refused.append(error)


def _on_its_base(
    context: Context,
    subject: Subject,
    pull: Pull,
    checked: check.Check,
    refused: list[GitHubError],
) -> check.Check:
    """Return the check of a claim that holds: neutral where its base serves something else by now."""
    mirror = checkouts.fetched(context.home, branches=(pull.base,))
    manifest = manifests.needed(context.repository).manifest
    now = base_moved(context, mirror, pull, subject.base, manifest)
    if now is None:
        return checked
    if not subject.edited:  # what a person committed to is not looked at again
        with _going_on(refused):
            context.repository.add_labels(pull.number, [STALE])
    what = "accepted" if subject.edited else "reproduced"
    return check.stands_on(checked, subject.base, pull.base, now, what)


def _asked(subject: Subject) -> Asked:
    wanted = subject.wanted
    return Asked(
        subject.mirror,
        subject.base,
        subject.patch,
        wanted.change_class,
        wanted.inputs.get(measuring.EVIDENCE),
    )


def tell_moved(context: Context) -> None:
    """Say on the pull request that nothing is reported, since its head is another one by now.

    Nothing is said where the head is the same: a newer job is about it.
    """
    number, sha = context.spec.number, context.spec.sha
    if number is None or sha is None:
        return
    pull = context.repository.pull(number)
    head = pull.head_sha if pull.state == "open" else None
    if head != sha:
        told = comment.moved(sha, head, _earlier(context, number))
        context.repository.tell(number, comment.KEY, told)


def tell_broken(context: Context, message: str, hint: str) -> None:
    """Say on the check run and the pull request that an error ended the work."""
    number, sha = context.spec.number, context.spec.sha
    if number is not None and sha is not None:
        unset: list[GitHubError] = []
        with _going_on(unset):  # first: while it is in progress a merge may wait for it
            set_check(context.repository, sha, check.broken(message, hint))
        for error in unset:
            context.events.note(f"not told: {redact(error.message)}")
        text = comment.broken(message, hint, sha, _earlier(context, number))
        context.repository.tell(number, comment.KEY, text)


def set_check(
    repository: Repository, sha: str, told: check.Check, address: str | None = None
) -> None:
    """Set the check run with the verdict on a commit."""
    repository.check_run(
        sha,
        check.NAME,
        check.VERDICT,
        status="completed",
        conclusion=told.conclusion,
        title=told.title,
        summary=told.summary,
        text=told.text,
        details_url=address,
    )


def _keep(
    context: Context, subject: Subject, found: VerifyReport | JudgeReport
) -> tuple[records.History, str, str]:
    """Put the report on the evidence branch, and the patch that it is about.

    Returns the history with it, its address, and the commands that measure it again.
    """
    archive = EvidenceBranch(context.repository)
    row = comment.told(found, context.now(), context.spec.sha or "", context.spec.asked_by or "")
    made = records.Report(
        at=row.at,
        job=context.job,
        commit=row.commit,
        verdict=row.verdict,
        reason=row.reason,
        gain=row.gain,
        asked_by=row.asked_by,
    )
    kept = records.with_report(records.history(archive, subject.folder), made)
    name = f"{subject.wanted.program}.json"
    files = {
        name: found.model_dump_json(by_alias=True, indent=1).encode() + b"\n",
        records.HISTORY: records.content(kept),
    }
    if not isinstance(found, VerifyReport):
        files[again.JUDGED_PATCH] = subject.patch
    # Not by "#" and its number: GitHub would say so in the pull request, at each rerun.
    told = f"{context.spec.kind} of pull request {context.spec.number}: {found.verdict}"
    commit = archive.put(subject.folder, files, told)
    address = archive.url(context.remote.server, commit, f"{subject.folder}/{name}")
    return kept, address, again.kept(found, Kept(commit, subject.folder), subject.base)


def _comment(
    context: Context,
    subject: Subject,
    found: VerifyReport | JudgeReport,
    kept: records.History,
    where: tuple[str, str],
) -> None:
    spec, (address, run_again) = context.spec, where
    occasion = comment.Occasion(
        commit=spec.sha or "",
        measured_on=subject.base,
        asked_by=spec.asked_by or "",
        data_url=address,
        claimed=subject.claimed,
        edited=subject.edited,
        run_again=run_again,
    )
    text = comment.report(found, occasion, kept.earlier(context.job))
    context.repository.tell(spec.number or 0, comment.KEY, text)


def _say_in_body(repository: Repository, pull: Pull, kept: records.History) -> None:
    """Have the body of a pull request of ours say first whether its claim still stands."""
    last = kept.decided(pull.head_sha)
    if last is not None:
        text = publication.standing(pull.body, last.verdict, last.reason, last.commit)
        repository.update_pull(pull.number, body=text)


def _earlier(context: Context, number: int) -> list[comment.Told]:
    folder = folder_for(context.repository.pull(number), context.repository)
    return records.history(EvidenceBranch(context.repository), folder).earlier(context.job)
