"""What a delivery asks for, as jobs; and jobs as data again. Pure.

Kinds beside those of `bot.wake.jobs`: `decide` (an event that the policy is asked about), `tick`
(time that passed, likewise), `react` (a reaction to a comment, nothing else) and `tell` (a job that
was given up, which somebody waits for).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from bot.github.archive import BRANCH
from bot.service.store import Lane, Limit, Work
from bot.wake import commands
from bot.wake.events import Event
from bot.wake.jobs import MEASURING, JobSpec
from bot.wake.policy import KNOWLEDGE, ONBOARDING, OUR_BRANCHES

if TYPE_CHECKING:
    from bot.github.repository import Reaction as Content

GONE = frozenset({"deleted", "suspend"})  # what an installation may become
_NO_BASES = frozenset({BRANCH, KNOWLEDGE, ONBOARDING})
REFUSAL: Content = "confused"  # the reaction to a command over the limit


@dataclass(frozen=True, slots=True)
class Tick:
    """A repository whose time has come, with its installation."""

    repository: str
    installation: int | None


@dataclass(frozen=True, slots=True)
class Reaction:
    """A reaction that is due to a comment."""

    repository: str
    installation: int | None
    comment_id: int
    content: Content


@dataclass(frozen=True, slots=True)
class Loss:
    """A job that was given up, as `bot.service.store` tells of it."""

    job_id: int
    kind: str
    payload: str
    created_s: float
    why: str


def repositories_of(event: Event) -> tuple[str, ...]:
    """Return the repositories that an event says we work for."""
    if event.kind == "installation" and event.action in GONE:
        return ()
    named = (event.repository,) if event.repository else ()
    return tuple(dict.fromkeys((*named, *event.repositories)))


def works_of(delivery_id: str, event: Event) -> list[Work]:
    """Return the jobs that an event asks for: to decide about it, once for each repository.

    None where nothing can follow, whatever the facts are: a decision asks GitHub several times, and
    most events of a busy repository are such.
    """
    if not _may_matter(event):
        return []
    return [
        _decide(f"decide-{delivery_id}-{n}", replace(event, repository=name, repositories=()))
        for n, name in enumerate(repositories_of(event))
    ]


def once_of(event: Event) -> str:
    """Return what tells a command from its repetition under another delivery's id; "" of all else.

    A comment is written once, and counts when it is.
    """
    if event.kind != "comment" or not _may_matter(event):
        return ""
    return f"{event.repository.lower()} comment {event.comment_id}"


def limit_of(event: Event, per_hour: int) -> Limit | None:
    """Return the limit that a command falls under, None for all else."""
    if event.kind != "comment" or event.comment_id is None:
        return None
    reaction = Reaction(event.repository, event.installation, event.comment_id, REFUSAL)
    return Limit(event.sender.lower(), per_hour, of_reaction(reaction))


def of_tick(tick: Tick) -> Work:
    """Return the job that asks the policy about time that passed."""
    key = f"tick-{tick.repository.lower()}"
    return Work("tick", key, "quick", json.dumps(asdict(tick)))


def of_reaction(reaction: Reaction) -> Work:
    """Return the job that reacts to a comment."""
    key = f"react-{reaction.repository.lower()}-{reaction.comment_id}"
    return Work("react", key, "quick", json.dumps(asdict(reaction)))


def of_spec(spec: JobSpec, not_before_s: float) -> Work:
    """Return the job that a decision asked for."""
    lane: Lane = "measure" if spec.kind in MEASURING else "quick"
    payload = json.dumps(spec.model_dump(mode="json", exclude_defaults=True))
    return Work(spec.kind, spec.key, lane, payload, not_before_s)


def event_of(payload: str) -> Event:
    """Return the event of a job of kind `decide`."""
    fields = json.loads(payload)
    tuples = {name: tuple(fields[name]) for name in ("paths", "added", "repositories")}
    return Event(**fields | tuples)


def tick_of(payload: str) -> Tick:
    """Return the tick of a job of that kind."""
    return Tick(**json.loads(payload))


def reaction_of(payload: str) -> Reaction:
    """Return the reaction of a job of kind `react`."""
    return Reaction(**json.loads(payload))


def loss_of(payload: str) -> Loss:
    """Return the loss of a job of kind `tell`."""
    return Loss(**json.loads(payload))


def spec_of(payload: str) -> JobSpec:
    """Return the job of any other kind."""
    return JobSpec.model_validate_json(payload)


def _may_matter(event: Event) -> bool:
    """Say whether `bot.wake.policy` may do anything but sleep in silence."""
    matters = {
        "ping": False,
        "comment": _commands(event),
        "push": event.sha is not None and _may_be_a_base(event),
        "pull_request": event.action == "closed" and event.merged,
        "release": event.action == "published",
        "installation": event.action in ("created", "added"),
    }
    return matters.get(event.kind, True)


def _may_be_a_base(event: Event) -> bool:
    """Say whether a push is to the default branch, or to one that a pull request may stand on."""
    branch = (event.ref or "").removeprefix("refs/heads/")
    if branch == event.default_branch:
        return True
    return branch.startswith(OUR_BRANCHES) and branch not in _NO_BASES


def _commands(event: Event) -> bool:
    created = event.action == "created" and not event.sender_is_bot
    return created and commands.parse(event.body) is not None


def _decide(key: str, event: Event) -> Work:
    # Escaped as ASCII: a comment may hold half a surrogate pair, which is no Unicode to store.
    return Work("decide", key, "quick", json.dumps(asdict(event)))
