"""The same jobs without a service, as GitHub Actions runs them: decided, measured and told apart.

plan     decides, shares a run out and writes what the measuring jobs need; reads only
heard    says that it is measured: a reaction, and a check run in progress
report   does the rest of the job, with what was measured as outside input
dropped  takes the check run out of progress, where nothing came to be reported
respond  all of it in one process; or, dry, what all of it would be
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.github import server_url
from bot.github.auth import Credentials, check_repository
from bot.github.client import Client, connect
from bot.github.errors import TRANSIENT, GitHubError
from bot.github.repository import Repository
from bot.github.transport import Remote
from bot.jobs import (
    analyse,
    board,
    checkouts,
    decide,
    helping,
    manifests,
    pulls,
    runner,
    serving,
    underway,
)
from bot.jobs.analyse import Shard
from bot.jobs.context import Context, JobResult, Refusal, Superseded
from bot.jobs.decide import Surroundings
from bot.jobs.dry import DryRepository
from bot.jobs.measuring import Measurement
from bot.wake import commands, events
from bot.wake.hours import told
from bot.wake.jobs import Id, JobSpec
from bot.wake.policy import Decision, Sleep, Wake
from layers.base import LayerName
from layers.errors import FvecError, InvalidInput, Location, Missing
from layers.events import Events, Silent
from layers.manifest import MANIFEST_PATH
from layers.redact import redact
from layers.shards import MOST_SHARDS, Job, matrix

MOST_EVENT_BYTES = 25 * 2**20
ARTIFACT = "fvec-measured-"  # what the workflow calls the folder that a measuring job left
_RUN = re.compile(r"[0-9]{1,20}")
_HELP = commands.Command("help")  # the least that may be asked for
JobName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,60}$")]


class Refused(BaseModel):
    """A command that is not followed: who gave it is told why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: Id | None
    comment_id: Id | None
    why: str = Field(max_length=1000)


class Order(BaseModel):
    """What one workflow job hands to the next, as one line of JSON: a job, a refusal, or words.

    `said` is why nothing is done, for the dashboard; `shards` are the names of the measuring jobs
    whose results belong to the job.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: JobSpec | None = None
    refused: Refused | None = None
    said: str = Field(default="", max_length=1000)
    shards: tuple[JobName, ...] = Field(default=(), max_length=MOST_SHARDS * len(LayerName))


@dataclass(frozen=True, slots=True)
class Place:
    """One repository, and a folder to work in; `address` is the page of the workflow's run."""

    client: Client
    repository: Repository
    remote: Remote
    work: Path
    attempt_of: str
    events: Events
    address: str = ""

    def context(self, spec: JobSpec) -> Context:
        """Return what a job is done with."""
        return Context(
            spec=spec,
            client=self.client,
            repository=self.repository,
            remote=self.remote,
            work=self.work,
            attempt_of=self.attempt_of,
            events=self.events,
        )


@dataclass(frozen=True, slots=True)
class Planned:
    """What was decided, and what is to be measured by whom."""

    decision: Decision
    order: Order
    wanted: Measurement | None = None
    jobs: Sequence[Job] = ()  # that measure it
    unprepared: str = ""  # why nothing is measured, where something was to be

    @property
    def kind(self) -> str:
        """The kind of the job, `refused`, `said`, or `none`."""
        if self.order.job is not None:
            return self.order.job.kind
        if self.order.refused is not None:
            return "refused"
        return "said" if self.order.said else "none"

    def outputs(self) -> dict[str, str]:
        """Return the outputs of the workflow's step; no value has a line break."""
        job, wanted = self.order.job, self.wanted
        nothing = self.kind == "none"
        return {
            "kind": self.kind,
            "command": wanted.program if wanted else "none",
            "sha": wanted.sha if wanted else "",
            "number": str(job.number) if job and job.number else "",
            "layers": ",".join(wanted.layers) if wanted else "",
            "class": wanted.change_class or "" if wanted else "",
            "matrix": _one_line({"include": [asdict(one) for one in self.jobs]}) if wanted else "",
            "job": "" if nothing else _one_line(self.order.model_dump(mode="json")),
        }


def open_place(
    environ: Mapping[str, str], repository: str | None, work: Path, events: Events | None = None
) -> Place:
    """Connect to the repository that is named, or that the workflow runs in.

    Raises Missing without credentials or repository, InvalidInput and GitHubError.
    """
    name = repository or environ.get("GITHUB_REPOSITORY", "")
    if not name:
        raise Missing("no repository is named", hint="--repository OWNER/NAME")
    credentials = Credentials.from_environment(environ)
    client = connect(credentials)
    there = f"{server_url(environ).rstrip('/')}/{name}"
    run = environ.get("GITHUB_RUN_ID", "")
    if not _RUN.fullmatch(run):
        run = ""
    return Place(
        client,
        client.repository(check_repository(name)),
        Remote(f"{there}.git", credentials),
        work,
        run,
        events or Silent(),
        f"{there}/actions/runs/{run}" if run else "",
    )


def read_event(path: Path, name: str, repository: str) -> events.Event | None:
    """Return the event of a workflow's run, None for one that fvec does not use.

    Raises InvalidInput for a file that is none, or an event of another repository.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_EVENT_BYTES + 1)
        if len(content) > MOST_EVENT_BYTES:
            raise InvalidInput("is larger than an event can be", at=Location(path))
        event = events.parse(name, json.loads(content))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", at=Location(path)) from error
    except (events.Unusable, ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, events.Unusable) else "is no JSON"
        raise InvalidInput(what, at=Location(path), hint="--name is the event's name") from error
    if event is None:
        return None
    if event.repository and event.repository.lower() != repository.lower():
        raise InvalidInput(f"the event is about {event.repository}, not {repository}")
    return replace(event, repository=repository)


def plan(
    place: Place, event: events.Event | None, out: Path | None = None, shards: int = 0
) -> Planned:
    """Decide what follows, and write what the measuring jobs need to `out`. GETs only.

    `shards` are the jobs that each layer of a run is shared out to, as `layers.shards.matrix` says
    it. A pull request of a fork is measured by no workflow. Raises GitHubError.
    """
    if event is None:
        return Planned(Sleep("an event that fvec does not use"), Order())
    decision = _decided(place, event)
    if isinstance(decision, Sleep):
        return Planned(decision, _words(place, event, decision))
    order = Order(job=decision.spec)
    try:
        subject = runner.prepare(place.context(decision.spec))
    except TRANSIENT:
        raise
    except (Superseded, Refusal, FvecError) as error:  # the report finds it again, and tells it
        return Planned(decision, order, unprepared=str(error))
    if subject is None:
        return Planned(decision, order)
    if isinstance(subject, pulls.Subject) and subject.fork:
        return Planned(decision, order, unprepared="a fork's pull request")
    jobs = _shared(subject, shards)
    spec = decision.spec
    if spec.sha is None:  # the report has to be about the commit that is measured
        spec = spec.model_copy(update={"sha": subject.wanted.sha})
    order = Order(job=spec, shards=tuple(job.name for job in jobs))
    if out is not None:
        subject.wanted.write(out)
    return Planned(decision, order, subject.wanted, jobs)


def heard(place: Place, order_text: str) -> JobResult:
    """Show that the job that `plan` ordered is measured now, with the address of this run.

    Raises InvalidInput for an order that holds no job of this repository, and GitHubError.
    """
    underway.begin(place.context(_ordered(place, read_order(order_text))), place.address)
    return JobResult("done", "it was said that this is measured")


def dropped(place: Place, order_text: str) -> JobResult:
    """Say that nothing is reported of the job that `plan` ordered, unless something was.

    Raises as `heard` does.
    """
    underway.drop(place.context(_ordered(place, read_order(order_text))), place.address)
    return JobResult("done", "nothing is said to be measured any more")


def report(
    place: Place,
    order_text: str,
    results: Sequence[Path],
    bundles: Sequence[Path],
    checkout: Path | None,
) -> JobResult:
    """Do what is left of the job that `plan` ordered; see `bot.jobs.runner.report`.

    A bundle belongs to the results that lie beside it; the folder that holds both is called by
    the job that left them. Raises InvalidInput for an order that is none or of another repository,
    and as `runner.perform` does.
    """
    order = read_order(order_text)
    if order.said:
        return _say(place, order.said)
    if order.refused is not None:
        told_by = order.refused
        helping.refuse(place.repository, told_by.number, told_by.comment_id, told_by.why)
        return JobResult("refused", told_by.why)
    context = place.context(_ordered(place, order))
    beside = {bundle.resolve().parent: bundle for bundle in bundles}
    shards = [_left(folder, beside) for folder in results]
    result = runner.report(context, shards, checkout, expected=order.shards)
    if order.shards and result.state != "done":  # of another head by now, or taken back
        underway.drop(context, place.address)
    return result


def respond(place: Place, event: events.Event | None) -> tuple[Decision, JobResult | None]:
    """Decide and do the whole job here; the result is None where nothing follows."""
    if event is None:
        return Sleep("an event that fvec does not use"), None
    decision = _decided(place, event)
    if isinstance(decision, Sleep):
        decide.answer(event, decision, place.repository)
        return decision, None
    return decision, runner.perform(place.context(decision.spec))


def rehearse(place: Place, event: events.Event | None) -> tuple[Planned, list[dict[str, Any]]]:
    """Return what would follow and every write of it up to the measuring; GETs only."""
    dry = DryRepository(place.repository)
    there = replace(place, repository=dry)
    planned = plan(there, event)
    job = planned.order.job
    if planned.order.said:
        _say(there, planned.order.said)
    elif planned.order.refused is not None and event is not None:
        decide.answer(event, planned.decision, dry)
    elif job is not None and planned.wanted is None:
        runner.report(there.context(job), [], None)
    return planned, dry.writes


def read_order(text: str) -> Order:
    """Return what `plan` ordered; raises InvalidInput."""
    try:
        return Order.model_validate_json(text)
    except ValidationError as error:
        raise InvalidInput(
            "FVEC_JOB holds no job", hint="hand on the output `job` of `fvec respond --plan`"
        ) from error


def _ordered(place: Place, order: Order) -> JobSpec:
    """Return the job of an order; InvalidInput where it is of another repository."""
    if order.job is None or order.job.repository.lower() != place.repository.full_name.lower():
        raise InvalidInput("the job is of another repository, or there is none")
    return order.job


def _left(results: Path, beside: Mapping[Path, Path]) -> Shard:
    """Return what one measuring job left, by the name of its folder."""
    folder = results.resolve().parent
    return Shard(
        results=results, bundle=beside.get(folder), name=folder.name.removeprefix(ARTIFACT)
    )


def _shared(subject: analyse.Subject | pulls.Subject, shards: int) -> list[Job]:
    """Share a run out; one job does what cannot be shared, and finds out why."""
    layers = subject.wanted.layers
    whole = [Job(layer=",".join(layers), shard="", name="whole")]
    if not isinstance(subject, analyse.Subject) or shards == 0:
        return whole
    text = checkouts.text_at(subject.mirror, subject.wanted.sha, str(MANIFEST_PATH)) or ""
    try:
        manifest = manifests.parse(text.encode("utf-8", "surrogateescape"))
        own = [name for name in manifest.layers if not layers or name in layers]
        return matrix(manifest.budget.candidates, manifest.layers, own, shards) or whole
    except (InvalidInput, ValueError):
        return whole


def _decided(place: Place, event: events.Event) -> Decision:
    """Ask the policy; what would have to wait sleeps, for a workflow cannot wait."""
    now = datetime.now(UTC)
    around = Surroundings(
        client=place.client,
        repository=place.repository,
        now=now,
        serves=lambda argv: serving.ask(place.remote, place.work, place.repository, argv),
        jitter=False,
        in_workflow=True,
    )
    decision = decide.decide(event, around)
    if isinstance(decision, Wake) and decision.not_before > now:
        return _instead(event, decision, now)
    return decision


def _instead(event: events.Event, decision: Wake, now: datetime) -> Decision:
    """Return what follows now from work that has to wait.

    What an event brings is owed until it is done: a later run of the schedule finds that itself.
    What a person asked for is not.
    """
    waits = f"{decision.why}; not before {told(decision.not_before)}"
    if decision.freshen:
        spec = decision.freshening(waits)
        return Wake(spec, spec.why, now)
    if event.kind == "comment":
        return Sleep(f"{waits}: give the command again then", answer=True)
    if event.kind == "dispatch":
        return Sleep(f"{waits}: start it again then", held=True)
    return Sleep(f"{waits}: the scheduled workflow looks again", held=True)


def _words(place: Place, event: events.Event, decision: Sleep) -> Order:
    """Return what is said where nothing is done: to the dashboard, or to who gave a command.

    Who may give none here gets no answer: anybody may comment, and each answer takes a job of its
    own, with a token that writes.
    """
    if decision.held or event.kind == "schedule":
        return Order(said=decision.why[:1000])
    if not decision.answer:
        return Order()
    permission = place.repository.permission(event.sender)
    if commands.who_may(_HELP, permission, is_fork=False, own_branch=False) is not None:
        return Order()
    refused = Refused(number=event.number, comment_id=event.comment_id, why=decision.why[:1000])
    return Order(refused=refused)


def _say(place: Place, why: str) -> JobResult:
    """Show on the dashboard why nothing is done; a repository without issues has none."""
    try:
        board.say(place.repository, why)
    except TRANSIENT:
        raise
    except GitHubError as error:
        place.events.note(f"not told: {redact(error.message)}")
    return JobResult("done", why)


def _one_line(document: object) -> str:
    """Return JSON on one line, of ASCII alone: no text in it can end the line."""
    return json.dumps(document, ensure_ascii=True, separators=(",", ":"))
