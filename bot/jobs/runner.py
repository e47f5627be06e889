"""Performs one job: who asked may, the work, what is told, what is kept.

    permission -> eyes -> prepare -> in progress -> measure (no credentials) -> report
        -> written down -> rocket

A job that ended is noted in its folder, so that one that is done again after a kill ends alike and
measures nothing anew. What people see of an error is its message, redacted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bot.github.archive import EvidenceBranch
from bot.github.errors import TRANSIENT, Forbidden, GitHubError, NotFound
from bot.jobs import (
    analyse,
    board,
    checkouts,
    freshen,
    helping,
    judge,
    judging,
    manifests,
    measuring,
    notes,
    onboard,
    rerun,
    underway,
)
from bot.jobs.context import JobResult, Refusal, Superseded
from bot.render import check
from bot.render.text import one_line
from bot.wake import commands
from bot.wake.jobs import MEASURING
from knowledge.yamlfile import YamlError
from layers.errors import FvecError, InvalidInput, ToolFailed
from layers.manifest import MANIFEST_PATH
from layers.redact import redact

if TYPE_CHECKING:
    from bot.jobs.context import Context
    from bot.jobs.pulls import Subject as PullSubject

_VERBS: dict[str, commands.Verb] = {verb: verb for verb in commands.VERBS}


def perform(context: Context) -> JobResult:
    """Do a job from its beginning to its end; see the module.

    Raises `Stopped` where `context.stopping` says so, RateLimited and Unavailable, which another
    attempt may not meet, and nothing else of FvecError.
    """
    if (ended := notes.read(context)) is not None:
        return ended
    notes.prune(context)
    return _finished(context, _guarded(context, lambda: _work(context)))


def given_up(context: Context, why: str) -> JobResult:
    """End a job that whoever keeps the queue has given up, and tell it where people look.

    One that ended stays as it ended. Raises as `perform` does.
    """
    if (ended := notes.read(context)) is not None:
        return ended
    error = ToolFailed(why, hint="ask again; the log of the service says more")
    return _finished(context, _failed(context, error))


def prepare(context: Context) -> analyse.Subject | PullSubject | None:
    """Return what a job is to have measured, None where it measures nothing.

    Raises Superseded, Refusal and FvecError.
    """
    if (why := context.repository.read_only()) is not None:
        if context.spec.kind in MEASURING:
            raise Refusal(f"the repository is {why}: nothing that is measured could be told there")
        raise Refusal(f"the repository is {why}: nothing can be written there", shown=False)
    match context.spec.kind:
        case "analyse" | "recreate":
            return analyse.prepare(context)
        case "rerun":
            return rerun.prepare(context)
        case "judge":
            return judge.prepare(context)
        case "help" | "onboard" | "freshen":
            return None


def report(
    context: Context,
    shards: Sequence[analyse.Shard],
    checkout: Path | None,
    expected: Sequence[str] = (),
) -> JobResult:
    """Do all of a job but the measuring, which was done elsewhere and left `shards`.

    `checkout` has the commits of an analysis, `expected` names the shards that were to be. Raises
    as `perform` does.
    """

    def work() -> JobResult:
        return _reported(context, shards, checkout, expected)

    return _finished(context, _guarded(context, work))


def _work(context: Context) -> JobResult:
    """Prepare, measure and report."""
    _acknowledge(context)
    subject = prepare(context)
    if subject is None:
        return _quick(context)
    for commit in {subject.wanted.sha, _base_of(subject)}:
        manifests.check_floor(subject.mirror, commit, context.weakest)
    shown = _pinned(context, subject.wanted.sha)
    _begin(shown)
    try:
        return _measured(context, subject)
    except Superseded:
        with _as_far_as_it_goes(context):
            underway.drop(shown)
        raise


def _base_of(subject: analyse.Subject | PullSubject) -> str:
    """Return the commit whose manifest rules what is measured."""
    return subject.wanted.sha if isinstance(subject, analyse.Subject) else subject.base


def _measured(context: Context, subject: analyse.Subject | PullSubject) -> JobResult:
    """Have a subject measured, and report it."""
    place = context.folder / "checkout"
    checkout = checkouts.check_out(subject.mirror, subject.wanted.sha, subject.branch, place)
    results = measuring.measure(context, subject.wanted, checkout)
    if isinstance(subject, analyse.Subject):
        return analyse.report(context, subject, [analyse.Shard("whole", results)], checkout)
    return judging.report(context, subject, results)


def _begin(context: Context) -> None:
    """Show on the commit that it is measured now; raises Refusal where nothing can be told there."""
    try:
        underway.begin(context)
    except (Forbidden, NotFound) as error:
        if context.client.app is not None:  # of all others GitHub takes no check run
            raise Refusal(f"{one_line(error.message)}: so nothing is measured") from error


def _pinned(context: Context, sha: str) -> Context:
    """Return a job whose commit is pinned, as the check run of it needs; who asked was answered."""
    pinned = {"sha": context.spec.sha or sha, "comment_id": None}
    return replace(context, spec=context.spec.model_copy(update=pinned))


def _reported(
    context: Context,
    shards: Sequence[analyse.Shard],
    checkout: Path | None,
    expected: Sequence[str],
) -> JobResult:
    _acknowledge(context)
    subject = prepare(context)
    if subject is None:
        return _quick(context)
    if not shards:
        _say_why_none(subject)
    if not isinstance(subject, analyse.Subject):
        return judging.report(context, subject, shards[0].results)
    place = checkout or context.folder / "checkout"
    checkouts.check_out(subject.mirror, subject.wanted.sha, subject.branch, place)
    return analyse.report(context, subject, shards, place, expected)


def _say_why_none(subject: analyse.Subject | PullSubject) -> NoReturn:
    """Raise what a measuring job that left no results means."""
    if not isinstance(subject, analyse.Subject) and subject.fork:
        raise Refusal(
            "a workflow measures no pull request of a fork: its code would run on your runners; "
            "push the branch to this repository first"
        )
    raise InvalidInput(
        "the job that measures left no results",
        hint="its log says why; a runner may have been lost: ask again",
    )


def _quick(context: Context) -> JobResult:
    """Do a job that measures nothing; an analysis without a manifest is the onboarding."""
    match context.spec.kind:
        case "help":
            return helping.perform(context)
        case "freshen":
            return freshen.perform(context)
        case _:
            return onboard.perform(context)


def _acknowledge(context: Context) -> None:
    """React to the comment that asked; raises Refusal where its author may not command."""
    spec = context.spec
    if spec.comment_id is None or spec.asked_by is None:
        return
    command = commands.Command(_VERBS.get(spec.kind, "help"), sha=spec.sha)
    # Whose branch it is, and whether it is a fork's, was decided with the head, or is in `prepare`.
    permission = context.repository.permission(spec.asked_by)
    refused = commands.who_may(command, permission, is_fork=False, own_branch=True)
    if refused is not None:
        raise Refusal(refused, shown=False)
    with _as_far_as_it_goes(context):
        context.repository.react(spec.comment_id, "eyes")


def _guarded(context: Context, work: Callable[[], JobResult]) -> JobResult:
    """Return how the work ended, whatever it raised; see `perform`."""
    spec = context.spec
    try:
        return work()
    except TRANSIENT:
        raise
    except Superseded as moved:
        with _as_far_as_it_goes(context):
            judging.tell_moved(context)
        return JobResult("superseded", str(moved))
    except Refusal as refused:
        if spec.comment_id is not None:
            with _as_far_as_it_goes(context):
                helping.refuse(context.repository, spec.number, spec.comment_id, str(refused))
        return JobResult("refused", str(refused), shown=refused.shown)
    except (FvecError, YamlError) as error:
        return _failed(context, error)


def _failed(context: Context, error: FvecError | YamlError) -> JobResult:
    """Tell an error where people look: check run, and comment of a pull request that was asked."""
    message = redact(_without_folders(context, error.message))
    hint = redact(error.hint or "")
    with _as_far_as_it_goes(context):
        if context.spec.kind in ("rerun", "judge"):
            judging.tell_broken(context, message, hint)
        elif context.spec.kind in ("analyse", "recreate"):
            told = check.broken(message, hint, fault_of_input=_of_manifest(error))
            repository = context.repository
            sha = context.spec.sha or analyse.noted(context)
            sha = sha or repository.branch_sha(repository.default_branch())
            if sha is not None:
                archive = EvidenceBranch(repository)
                archive.note_attempt(sha, context.clock(), one_line(message), context.job)
                analyse.tell(context, sha, told)
    return JobResult("failed", one_line(message.partition("\n")[0]), hint)


def _of_manifest(error: FvecError | YamlError) -> bool:
    """Say whether the manifest is wrong, which the owners of the repository have to mend."""
    at = error.at if isinstance(error, InvalidInput) else None
    return isinstance(error, YamlError) or (at is not None and at.path == Path(MANIFEST_PATH))


def _finished(context: Context, result: JobResult) -> JobResult:
    """Write down how the job ended, show it, react, and leave no more than a note."""
    with _as_far_as_it_goes(context):
        if result.shown:
            board.record(context, result)
        if context.spec.comment_id is not None and result.state != "refused":
            done = result.state == "done"
            context.repository.react(context.spec.comment_id, "rocket" if done else "confused")
    if context.spec.number is not None:
        checkouts.forget_pull(context.home, context.spec.number)
    notes.write(context, result)
    shutil.rmtree(context.folder / "checkout", ignore_errors=True)
    if result.state != "failed":
        notes.clear(context)
    return result


@contextmanager
def _as_far_as_it_goes(context: Context) -> Iterator[None]:
    """Let a job end as it did where telling it is not permitted; what may pass is raised."""
    try:
        yield
    except TRANSIENT:
        raise
    except GitHubError as error:
        context.events.note(f"not told: {redact(error.message)}")


def _without_folders(context: Context, message: str) -> str:
    """Return a message without the folders of the machine that measured."""
    places = (context.folder, context.work)
    for place in (*places, *(place.resolve() for place in places)):
        message = message.replace(f"{place}/", "")
    return message
