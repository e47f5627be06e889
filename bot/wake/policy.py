"""Whether an event, or time passing, makes the bot work.

What the manifest of the default branch says under `bot` is the policy. Facts are gathered by the
caller and handed in, the time among them, so that a decision can be shown, tested and repeated.

Every analysis that nobody asked for keeps to the cooldown; every analysis to the number of open
pull requests; all that measures to the quiet hours; and nothing is started twice for one head.

Nothing that had to wait is written down: a tick finds in the facts what is still owed
(`bot.wake.owed`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.render.text import one_line
from bot.wake import commands, events, hours, owed, versions
from bot.wake.events import Event, EventKind
from bot.wake.facts import Facts, Layers
from bot.wake.jobs import MEASURING, MOST_WHY, JobKind, JobSpec
from layers.base import ChangeClass, LayerName

if TYPE_CHECKING:
    from layers.manifest import BotSection

OUR_BRANCHES = "fvec/"
ONBOARDING, KNOWLEDGE = "fvec/onboard", "fvec/knowledge"
OLDEST_COMMENT_HOURS = 24  # a command waits in the queue behind a run; a redelivered one is void
MOVED = "the default branch has moved under open pull requests"
_OF_THE_HEAD: frozenset[EventKind] = frozenset(
    {"release", "push", "pull_request", "schedule", "dispatch"}
)


@dataclass(frozen=True, slots=True)
class Wake:
    """Work to do, not before a moment; live jobs of the keys `supersedes` make way for it.

    Those that wait end at once; one that runs goes on unless this one may start now. `freshen`: it
    has to be looked at once whose evidence is stale, by the job `freshening`.
    """

    spec: JobSpec
    why: str
    not_before: datetime  # UTC
    supersedes: tuple[str, ...] = ()
    freshen: bool = False

    def freshening(self, more: str = "") -> JobSpec:
        """Return the job that looks whose evidence is stale; `more` is told with its reason."""
        why = f"{MOVED}; {more}" if more else MOVED
        fields = {"kind": "freshen", "layers": (), "why": why[:MOST_WHY]}
        return self.spec.model_copy(update=fields)


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to do, and why, in words for the dashboard. `answer`: a person asked, so tell them.

    `held`: an analysis was wanted, and this is what it came to.
    """

    why: str
    answer: bool = False
    held: bool = False


Decision = Wake | Sleep


def on_event(event: Event, policy: BotSection, facts: Facts) -> Decision:
    """Decide what follows from an event.

    An installation names several repositories: ask once for each, with `repository` set to it.
    Of a comment only grammar, age, sender and head are decided here; whether the person may
    command is `bot.wake.commands.who_may`, which needs what only GitHub knows.
    """
    if not event.repository:
        return Sleep("the event is about no repository")
    if not facts.head_sha and event.kind in _OF_THE_HEAD:
        return Sleep("the default branch has no commit")
    return _DECIDERS[event.kind](event, policy, facts)


def on_tick(
    repository: str, policy: BotSection, facts: Facts, *, installation: int | None = None
) -> Decision:
    """Decide whether an analysis is due that no event brings: the first, a stale or a missed one.

    A tick comes again, so what has to wait sleeps: `not_before` of a Wake is now.
    """
    return on_event(events.tick(repository, installation), policy, facts)


def _tick(event: Event, policy: BotSection, facts: Facts) -> Decision:
    due = owed.first(event.repository, policy, facts)
    if isinstance(due, str):
        return Sleep(due)
    if facts.still_serves is False:
        return Sleep(f"{due.why}, but this stack no longer serves")
    if owed.rested(policy, facts) > facts.now:
        return Sleep(f"{due.why}; {owed.resting(policy, facts)}")
    until = hours.quiet_until(facts.now, policy.quiet_hours)
    if until is not None:
        return Sleep(f"{due.why}; quiet hours end at {hours.told(until)}")
    return _analysis(event, policy, facts, due.why, due.layers)


def _release(event: Event, policy: BotSection, facts: Facts) -> Decision:
    if event.action != "published":
        return Sleep("a release was changed; none was published")
    if not policy.releases:
        return Sleep("a release was published; the manifest says `releases: false`", held=True)
    return _unasked(event, policy, facts, owed.published(event.ref or ""))


def _push(event: Event, policy: BotSection, facts: Facts) -> Decision:
    branch = (event.ref or "").removeprefix("refs/heads/")
    if event.sha is not None and branch.startswith(OUR_BRANCHES) and branch in facts.bases:
        why = f"{one_line(branch, 100)} has moved under a pull request that stands on it"
        return _started(_spec("freshen", event, why, sha=event.sha), policy, facts)
    if event.sha is None or event.ref != f"refs/heads/{event.default_branch}":
        return Sleep("a push to another branch than the default one")
    why = _new_model(event) or owed.versions_moved(facts) or _packages_touched(event, facts) or ""
    decision = _unasked(event, policy, facts, why) if why else None
    if isinstance(decision, Wake):
        return replace(decision, freshen=facts.open_pulls > 0)
    if facts.open_pulls:
        told = f"{MOVED}; {decision.why}" if decision is not None else MOVED
        return _started(_spec("freshen", event, told, sha=facts.head_sha), policy, facts)
    return decision or Sleep("the push adds no model and changes no version")


def _pull_request(event: Event, policy: BotSection, facts: Facts) -> Decision:
    branch = event.branch or ""
    ours = branch.startswith(OUR_BRANCHES) and event.head_repository == event.repository
    if not (ours and event.action == "closed" and event.merged):
        return Sleep("no pull request of ours was merged")
    if event.base != event.default_branch:
        return Sleep("a change of ours was merged into another branch than the default one")
    if branch == KNOWLEDGE:
        return Sleep("knowledge was merged; the next analysis reads it")
    if branch == ONBOARDING:
        return _unasked(event, policy, facts, "the onboarding pull request was merged")
    why = owed.merged(event.number or 0)
    if LayerName.CONFIG not in facts.layers:
        return Sleep(f"{why}; the manifest leaves `config` to its owners", held=True)
    return _unasked(event, policy, facts, why, layers=(LayerName.CONFIG,))


def _comment(event: Event, policy: BotSection, facts: Facts) -> Decision:
    command = commands.parse(event.body)
    if command is None:
        return Sleep("a comment that is not for us")
    if event.action != "created" or event.sender_is_bot:
        return Sleep("commands are taken from comments of people, when they are written")
    if isinstance(command, commands.Refused):
        return Sleep(command.reason, answer=True)
    if refused := _unfit(command, event, facts):
        return Sleep(refused, answer=True)
    spec = JobSpec(
        kind=command.verb,
        repository=event.repository,
        installation=event.installation,
        sha=facts.head_sha if command.verb in ("rerun", "judge") else None,
        number=event.number,
        change_class=ChangeClass(command.change_class) if command.change_class else None,
        comment_id=event.comment_id,
        asked_by=event.sender,
        why=f"{event.sender} asked for `{commands.PREFIX} {command.verb}`",
    )
    decision = _started(spec, policy, facts)
    return replace(decision, answer=True) if isinstance(decision, Sleep) else decision


def _unfit(command: commands.Command, event: Event, facts: Facts) -> str | None:
    """Return why a command does not fit where or when it was given."""
    written = datetime.fromisoformat(event.created_at) if event.created_at else None
    if written is None or facts.now - written > timedelta(hours=OLDEST_COMMENT_HOURS):
        return f"the command is older than {OLDEST_COMMENT_HOURS} hours: give it again"
    if command.verb != "help" and not event.is_pull:
        return f"`{commands.PREFIX} {command.verb}` is for pull requests"
    if command.sha is not None and command.sha != facts.head_sha:
        return f"the head of this pull request is {facts.head_sha}, not the commit named"
    return None


def _dispatch(event: Event, policy: BotSection, facts: Facts) -> Decision:
    return _analysis(event, policy, facts, "an analysis was asked for")


def _installation(event: Event, policy: BotSection, facts: Facts) -> Decision:
    if event.action not in ("created", "added"):
        return Sleep("an installation was changed; no repository was added")
    return _started(_spec("onboard", event, "fvec was installed"), policy, facts)


def _ping(_event: Event, _policy: BotSection, _facts: Facts) -> Decision:
    return Sleep("GitHub tried the webhook")


_DECIDERS: dict[EventKind, Callable[[Event, BotSection, Facts], Decision]] = {
    "release": _release,
    "push": _push,
    "pull_request": _pull_request,
    "comment": _comment,
    "schedule": _tick,
    "dispatch": _dispatch,
    "installation": _installation,
    "ping": _ping,
}


def _unasked(
    event: Event, policy: BotSection, facts: Facts, why: str, *, layers: Layers = ()
) -> Decision:
    """Decide on an analysis that an event brings and nobody waits for."""
    known = [run for run in owed.about(facts, layers) if run.sha == facts.head_sha]
    if known:
        at = hours.told(max(run.at for run in known))
        return Sleep(f"{why}; its commit was analysed at {at}", held=True)
    earliest = max(facts.now, owed.rested(policy, facts))
    jitter = policy.jitter_minutes
    return _analysis(event, policy, facts, why, layers, earliest=earliest, jitter_minutes=jitter)


def _new_model(event: Event) -> str | None:
    """Return the reason that a version of a model was added."""
    added = [found for path in event.added if (found := versions.model_version(path))]
    if not added:
        return None
    folder, version = max(added)
    return f"version {version} of {one_line(folder, 100)} was added"


def _packages_touched(event: Event, facts: Facts) -> str | None:
    """Return the reason that a file of packages or images changed, where versions are not known."""
    last = facts.last_analysis
    if facts.versions is not None and last is not None and last.versions is not None:
        return None
    touched = next(filter(versions.names_packages, event.paths), None)
    return f"{one_line(touched, 100)} was changed" if touched else None


def _analysis(
    event: Event,
    policy: BotSection,
    facts: Facts,
    why: str,
    layers: Layers = (),
    *,
    earliest: datetime | None = None,
    jitter_minutes: float = 0,
) -> Decision:
    """Decide on an analysis of the head, from `earliest` on (default: now)."""
    if facts.open_pulls >= policy.max_open_pull_requests:
        most = policy.max_open_pull_requests
        told = f"{why}; {facts.open_pulls} pull requests are open, and {most} may be"
        return Sleep(told, held=True)
    spec = _spec("analyse", event, why, sha=facts.head_sha, layers=layers)
    if layers and spec.whole_among(facts.live_jobs):
        # That one is about every layer: of an older head it would be lost, of this one done twice.
        spec = _spec("analyse", event, why, sha=facts.head_sha)
    return _started(spec, policy, facts, earliest=earliest, jitter_minutes=jitter_minutes)


def _started(
    spec: JobSpec,
    policy: BotSection,
    facts: Facts,
    *,
    earliest: datetime | None = None,
    jitter_minutes: float = 0,
) -> Decision:
    """Return the Wake for a job, unless the same is live already."""
    if spec.key in facts.live_jobs:
        at = f" at {spec.sha[:10]}" if spec.sha else ""
        return Sleep(f"{spec.why}; the same {spec.kind}{at} is queued or running already")
    replaced = spec.supersedes(facts.live_jobs)
    not_before = hours.first_start(
        earliest or facts.now,
        policy.quiet_hours if spec.kind in MEASURING else None,
        jitter_minutes=0 if replaced else jitter_minutes,  # else the old head would be measured on
        share=hours.fraction(facts.seed, spec.repository, spec.sha or ""),
    )
    return Wake(spec, spec.why, not_before, replaced)


def _spec(
    kind: JobKind, event: Event, why: str, *, sha: str | None = None, layers: Layers = ()
) -> JobSpec:
    return JobSpec(
        kind=kind,
        repository=event.repository,
        installation=event.installation,
        sha=sha,
        layers=layers,
        why=why[:MOST_WHY],
    )
