"""What follows from an event: the facts looked up at GitHub, the policy asked. GETs only.

The head of a pull request is looked up once, here, and is what a command is about from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from bot.github.archive import Analysis, EvidenceBranch, State
from bot.jobs import helping, manifests, records
from bot.jobs.pulls import is_inside, is_ours
from bot.wake import commands, events, policy, versions
from bot.wake.events import Event
from bot.wake.facts import Attempt, Facts, LastAnalysis, Layers, Merge, Release
from bot.wake.policy import Decision, Sleep, Wake
from layers.base import LayerName
from layers.errors import InvalidInput
from layers.manifest import BotSection

if TYPE_CHECKING:
    from bot.github.client import Client
    from bot.github.replies import Pull
    from bot.github.repository import Repository


CONCERNED = frozenset({"admin", "maintain", "write", "triage"})  # who is answered in words


def nobody_knows(_argv: Sequence[str]) -> bool | None:
    """Answer whether a stack still serves, where nobody may run the manifest's command."""
    return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a decision is taken with.

    `live_jobs` are the keys of the queued and running jobs; `serves` runs the manifest's command
    that says whether the stack still serves (True, False, None for no answer). Without `jitter`
    nothing is spread in time.
    """

    client: Client
    repository: Repository
    now: datetime  # aware
    live_jobs: frozenset[str] = frozenset()
    serves: Callable[[Sequence[str]], bool | None] = field(default=nobody_knows)
    jitter: bool = True
    in_workflow: bool = False  # of the repository: it measures no fork


@dataclass(frozen=True, slots=True)
class _Rules:
    """The policy in force, and whether the default branch has a manifest, right or wrong."""

    policy: BotSection
    there: bool
    layers: Layers = tuple(LayerName)


def decide(event: Event, around: Surroundings) -> Decision:
    """Return what follows from an event about one repository. Raises GitHubError.

    A command is a job only for who may give it here; a Sleep with `answer` is told by `answer`.
    """
    if event.kind == "comment":
        return _commanded(event, around)
    if event.kind in ("ping", "installation"):
        return policy.on_event(event, BotSection(), _bare(around))
    rules = _rules(around.repository)
    if not around.jitter:
        rules = replace(rules, policy=rules.policy.model_copy(update={"jitter_minutes": 0}))
    if not rules.there and (waiting := _onboarding(around.repository)) is not None:
        return waiting
    return policy.on_event(event, rules.policy, _facts(event, around, rules))


def decide_tick(around: Surroundings, *, installation: int | None = None) -> Decision:
    """Return what follows from time passing. Raises GitHubError."""
    return decide(events.tick(around.repository.full_name, installation), around)


def answer(event: Event, decision: Decision, repository: Repository) -> None:
    """Tell the person who gave a command why nothing follows from it. Raises GitHubError.

    Whoever may only read here gets a reaction: anybody may comment, and each answer in words is
    sent to all who watch.
    """
    if isinstance(decision, Sleep) and decision.answer:
        concerned = repository.permission(event.sender) in CONCERNED
        number = event.number if concerned else None
        helping.refuse(repository, number, event.comment_id, decision.why)


def _commanded(event: Event, around: Surroundings) -> Decision:
    """Return what follows from a comment: grammar first, then who may, then when."""
    command = commands.parse(event.body)
    if command is None:
        return Sleep("a comment that is not for us")
    repository = around.repository
    pull = repository.pull(event.number) if event.is_pull and event.number else None
    decision = policy.on_event(
        event, _rules(repository).policy, _bare(around, pull.head_sha if pull else "")
    )
    if not isinstance(decision, Wake) or not isinstance(command, commands.Command):
        return decision
    refused = commands.who_may(
        command,
        repository.permission(event.sender),
        is_fork=pull is not None and not is_inside(pull, repository),
        own_branch=pull is not None and is_ours(pull, repository),
        is_bot=event.sender_is_bot,
        in_workflow=around.in_workflow,
    )
    return Sleep(refused, answer=True) if refused else decision


def _rules(repository: Repository) -> _Rules:
    try:
        loaded = manifests.load(repository)
    except InvalidInput:  # the job that follows tells what is wrong with it
        return _Rules(BotSection(), there=True)
    if loaded is None:
        return _Rules(BotSection(), there=False)
    return _Rules(loaded.manifest.bot, there=True, layers=tuple(loaded.manifest.layers))


def _onboarding(repository: Repository) -> Sleep | None:
    """Say why a repository without a manifest is left alone, None where it was never asked."""
    pulls = repository.pulls_of(policy.ONBOARDING)
    if not pulls:
        return None
    if pulls[0].state == "open":
        return Sleep("the onboarding pull request waits to be merged; nothing happens before")
    if pulls[0].merged:
        return Sleep("the manifest that was merged is gone from the default branch")
    return Sleep("the onboarding pull request was closed, which means no")


def _bare(around: Surroundings, head: str = "") -> Facts:
    """Return the facts of what needs no more than the head of a pull request."""
    name = around.repository.full_name
    return Facts(around.now, None, 0, around.live_jobs, None, head, name)


def _facts(event: Event, around: Surroundings, rules: _Rules) -> Facts:
    """Look up what the policy needs about the default branch."""
    repository = around.repository
    branch = repository.default_branch()
    head = repository.branch_sha(branch) or ""
    state = EvidenceBranch(repository).state()
    last = _ended(state.analysis) if state.analysis is not None else None
    tick = event.kind == "schedule"
    asked = rules.policy.serving if tick else None
    pulls = _open_changes(repository)
    facts = Facts(
        now=around.now,
        last_analysis=last,
        open_pulls=len(pulls),
        live_jobs=around.live_jobs,
        still_serves=around.serves(asked) if asked else None,
        head_sha=head,
        seed=repository.full_name,
        versions=_versions(repository, head) if _may_have_moved(event, last, head) else None,
        layers=rules.layers,
        bases=frozenset(pull.base for pull in pulls),
        partial=tuple(map(_ended, state.partial.values())),
        attempt=_attempt(state),
    )
    return _with_owed(facts, repository, branch, last) if tick and last is not None else facts


def _ended(analysis: Analysis) -> LastAnalysis:
    """Return an analysis that was written down, as the policy takes it."""
    return LastAnalysis(
        sha=analysis.sha,
        at=datetime.fromisoformat(analysis.at),
        versions=analysis.versions,
        layers=tuple(name for name in LayerName if name in analysis.layers),
        began=datetime.fromisoformat(analysis.began) if analysis.began is not None else None,
    )


def _attempt(state: State) -> Attempt | None:
    failed = state.attempt
    if failed is None:
        return None
    return Attempt(failed.sha, datetime.fromisoformat(failed.at), failed.failures)


def _with_owed(facts: Facts, repository: Repository, branch: str, last: LastAnalysis) -> Facts:
    """Add what happened since the last analysis, and what waits for room."""
    release, merge = None, None
    published = repository.newest_release()
    if published is not None and published.at > last.since:
        sha = repository.release_sha(published.tag) or ""
        release = Release(published.tag, sha, published.at)
    merged = [
        Merge(pull.number, pull.merged_at)
        for pull in repository.closed_pulls()
        if pull.merged_at is not None and pull.base == branch and _is_change(pull, repository)
    ]
    if merged:
        merge = max(merged, key=lambda one: one.at)
    awaiting = records.awaiting(records.runs(EvidenceBranch(repository)))
    return replace(facts, release=release, merge=merge, awaiting=awaiting)


def _open_changes(repository: Repository) -> list[Pull]:
    """Return the open pull requests with changes of ours."""
    return [pull for pull in repository.open_pulls() if _is_change(pull, repository)]


def _is_change(pull: Pull, repository: Repository) -> bool:
    """Say whether a pull request of ours has a change: knowledge and onboarding are none."""
    return is_ours(pull, repository) and pull.branch not in (policy.KNOWLEDGE, policy.ONBOARDING)


def _may_have_moved(event: Event, last: LastAnalysis | None, head: str) -> bool:
    """Say whether it is worth many requests to learn which versions the head names."""
    if last is None or last.versions is None or not head or last.sha == head:
        return False
    touched = [path for path in event.paths if versions.is_read(path)]
    return event.kind == "schedule" or (event.kind == "push" and bool(touched or not event.paths))


def _versions(repository: Repository, head: str) -> dict[str, str] | None:
    """Return the versions that a commit names, None where GitHub does not list all of its files."""
    tree = repository.read_tree(head)
    if tree is None:
        return None
    texts: dict[str, str] = {}
    for path in versions.to_read((one.path, one.mode, one.size_bytes) for one in tree.values()):
        try:
            content = repository.file(path, head)
        except InvalidInput:  # a name that is not asked for
            continue
        texts[path] = (content or b"").decode("utf-8", "replace")
    return versions.read(texts, tree)
