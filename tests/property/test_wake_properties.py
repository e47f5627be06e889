"""Whatever happens and whenever: limits hold, quiet hours are quiet, nothing is started twice."""

import contextlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from bot.wake import commands, hours, versions
from bot.wake.commands import Command, Refused, who_may
from bot.wake.events import Event, Unusable, parse
from bot.wake.facts import Attempt, Facts, LastAnalysis, Merge, Release
from bot.wake.jobs import MEASURING, JobSpec
from bot.wake.policy import Sleep, Wake, on_event, on_tick
from layers.base import LayerName
from layers.manifest import BotSection

SHAS = st.sampled_from(["a" * 40, "b" * 40, "0123456789abcdef0123456789abcdef01234567"])
MOMENTS = st.integers(0, 2 * 365 * 86_400).map(
    lambda seconds: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)
MINUTES = st.integers(0, hours.DAY_MINUTES - 1)


def clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


QUIET = (
    st.tuples(MINUTES, MINUTES)
    .filter(lambda ends: ends[0] != ends[1])
    .map(lambda ends: f"{clock(ends[0])}-{clock(ends[1])}")
)
POLICIES = st.builds(
    BotSection,
    releases=st.booleans(),
    stale_after_days=st.none() | st.floats(0.1, 100),
    cooldown_hours=st.floats(0, 200),
    max_open_pull_requests=st.integers(1, 5),
    quiet_hours=st.none() | QUIET,
    jitter_minutes=st.floats(0, 1440),
)
VERSIONS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
LAYERS = st.lists(st.sampled_from(LayerName), unique=True, max_size=3).map(tuple)
ANALYSES = st.builds(
    LastAnalysis, sha=SHAS, at=MOMENTS, versions=st.none() | VERSIONS, began=st.none() | MOMENTS
)
PARTS = st.builds(LastAnalysis, sha=SHAS, at=MOMENTS, layers=LAYERS.filter(bool))
FACTS = st.builds(
    Facts,
    now=MOMENTS,
    last_analysis=st.none() | ANALYSES,
    layers=LAYERS,
    bases=st.just(frozenset({"main"})),
    partial=st.lists(PARTS, max_size=2).map(tuple),
    attempt=st.none() | st.builds(Attempt, sha=SHAS, at=MOMENTS, failures=st.integers(1, 10**6)),
    release=st.none() | st.builds(Release, tag=st.text(max_size=9), sha=SHAS, at=MOMENTS),
    merge=st.none() | st.builds(Merge, number=st.integers(1, 99), at=MOMENTS),
    awaiting=st.integers(0, 3),
    open_pulls=st.integers(0, 6),
    live_jobs=st.just(frozenset()),
    still_serves=st.none() | st.booleans(),
    head_sha=SHAS,
    seed=st.text(max_size=5),
    versions=st.none() | VERSIONS,
)
PATHS = st.lists(
    st.sampled_from(["requirements.txt", "models/r/2/model.py", "Dockerfile", "a.md"])
    | st.text(min_size=1, max_size=30),
    max_size=4,
).map(tuple)
EVENTS = st.builds(
    Event,
    kind=st.sampled_from(
        ["release", "push", "pull_request", "comment", "schedule", "dispatch", "installation"]
    ),
    action=st.sampled_from(["published", "created", "closed", "added", "edited", ""]),
    repository=st.just("owner/serve"),
    installation=st.none() | st.just(42),
    sender=st.sampled_from(["maintainer", "outsider"]),
    sender_is_bot=st.booleans(),
    number=st.just(7),
    is_pull=st.booleans(),
    ref=st.sampled_from(["refs/heads/main", "v1"]) | st.text(max_size=50),
    sha=st.none() | SHAS,
    branch=st.sampled_from(["fvec/x", "fvec/onboard", "fvec/knowledge", "feature"]),
    head_repository=st.sampled_from(["owner/serve", "fork/serve"]),
    base=st.just("main"),
    merged=st.booleans(),
    default_branch=st.just("main"),
    comment_id=st.just(9),
    body=st.sampled_from(["/fvec rerun", "/fvec judge exact", "/fvec help", "/fvec recreate"])
    | st.text(max_size=50),
    created_at=MOMENTS.map(datetime.isoformat),
    paths=PATHS,
    added=PATHS,
)


def measures(decision: object) -> bool:
    return isinstance(decision, Wake) and decision.spec.kind in MEASURING


@given(EVENTS, POLICIES, FACTS)
def test_nothing_that_measures_starts_in_quiet_hours(event, policy, facts):
    decision = on_event(event, policy, facts)
    if measures(decision):
        assert decision.not_before >= facts.now
        assert hours.quiet_until(decision.not_before, policy.quiet_hours) is None


@given(EVENTS, POLICIES, FACTS)
def test_no_analysis_breaks_a_limit(event, policy, facts):
    decision = on_event(event, policy, facts)
    if isinstance(decision, Wake) and decision.spec.kind == "analyse":
        assert facts.open_pulls < policy.max_open_pull_requests
        assert decision.spec.sha == facts.head_sha
        ended = [facts.last_analysis, *facts.partial, facts.attempt]
        if event.kind != "dispatch":
            for last in filter(None, ended):
                rested = last.at + timedelta(hours=policy.cooldown_hours)
                assert decision.not_before >= rested


@given(EVENTS, EVENTS, POLICIES, FACTS)
def test_two_events_never_start_the_same_work_twice(first, second, policy, facts):
    started = on_event(first, policy, facts)
    if isinstance(started, Sleep):
        return
    live = replace(facts, live_jobs=frozenset({started.spec.key}))
    for event in (first, second):
        again = on_event(event, policy, live)
        assert isinstance(again, Sleep) or again.spec.key != started.spec.key


@given(EVENTS, POLICIES, FACTS, SHAS)
def test_what_is_superseded_was_live_and_of_another_commit(event, policy, facts, other):
    decision = on_event(event, policy, facts)
    if isinstance(decision, Sleep):
        return
    older = decision.spec.model_copy(update={"sha": other})
    unrelated = decision.spec.model_copy(update={"repository": "owner/other", "sha": other})
    live = frozenset({older.key, unrelated.key})
    again = on_event(event, policy, replace(facts, live_jobs=live))
    if older.key == decision.spec.key:
        assert isinstance(again, Sleep) or again.spec.key != older.key
    else:
        assert isinstance(again, Wake)
        assert again.supersedes == (older.key,)


@given(EVENTS, POLICIES, FACTS)
def test_a_decision_is_the_same_whenever_it_is_taken_on_the_same_facts(event, policy, facts):
    assert on_event(event, policy, facts) == on_event(event, policy, facts)


@given(EVENTS, POLICIES, FACTS)
def test_whatever_sleeps_says_why_in_a_line(event, policy, facts):
    decision = on_event(event, policy, facts)
    assert decision.why
    assert "\n" not in decision.why
    if isinstance(decision, Wake):
        assert decision.why == decision.spec.why
        assert decision.spec == JobSpec.model_validate_json(decision.spec.model_dump_json())


@given(EVENTS, POLICIES, FACTS)
def test_jitter_stays_within_its_bound(event, policy, facts):
    loud = policy.model_copy(update={"quiet_hours": None})
    still = loud.model_copy(update={"jitter_minutes": 0})
    spread, straight = on_event(event, loud, facts), on_event(event, still, facts)
    if isinstance(spread, Wake) and isinstance(straight, Wake):
        by = spread.not_before - straight.not_before
        assert timedelta(0) <= by <= timedelta(minutes=policy.jitter_minutes)


@given(POLICIES, FACTS)
def test_a_tick_starts_now_or_not_at_all(policy, facts):
    decision = on_tick("owner/serve", policy, facts)
    if isinstance(decision, Wake):
        assert decision.not_before == facts.now
        assert hours.quiet_until(facts.now, policy.quiet_hours) is None
        assert facts.still_serves is not False


@given(MOMENTS, QUIET, st.floats(0, 1440), st.integers(0, 2**20 - 1))
def test_a_start_is_never_quiet_and_never_early(earliest, quiet, jitter, share):

    start = hours.first_start(earliest, quiet, jitter_minutes=jitter, share=share / 2**20)
    assert start >= earliest
    assert hours.quiet_until(start, quiet) is None


@given(st.text(max_size=200) | st.text(max_size=200).map(lambda rest: f"/fvec {rest}"))
def test_any_comment_has_one_answer(body):
    found = commands.parse(body)
    if found is None:
        assert not body.startswith("/fvec ")
    elif isinstance(found, Refused):
        assert body.startswith("/fvec")
        assert "\n" not in found.reason
        assert len(found.reason) < 200
    else:
        assert body.startswith("/fvec")
        assert found.verb in commands.VERBS


@given(st.sampled_from(commands.VERBS), st.none() | SHAS, st.sampled_from(["", " ", "\t"]))
def test_a_command_that_is_written_out_is_read_back(verb, sha, blank):
    assume(sha is None or verb in ("rerun", "judge"))
    written = f"/fvec {blank}{verb}{f' {blank}{sha}' if sha else ''}{blank}\n"
    assert commands.parse(written) == Command(verb, sha)


@given(
    st.sampled_from(commands.VERBS),
    st.sampled_from(["admin", "maintain", "write", "triage", "read", "none", "x"]),
    st.booleans(),
    st.booleans(),
)
def test_who_may_not_write_and_who_is_no_person_never_commands(verb, permission, fork, own):
    command = Command(verb)
    if permission not in ("admin", "maintain", "write"):
        assert who_may(command, permission, is_fork=fork, own_branch=own)
    assert who_may(command, permission, is_fork=fork, own_branch=own, is_bot=True)
    if fork and verb != "help":
        assert who_may(command, permission, is_fork=fork, own_branch=own)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "action",
                    "number",
                    "repository",
                    "full_name",
                    "sender",
                    "login",
                    "installation",
                    "id",
                    "pull_request",
                    "head",
                    "sha",
                    "ref",
                    "repo",
                    "base",
                    "issue",
                    "comment",
                    "body",
                    "created_at",
                    "after",
                    "commits",
                    "added",
                    "release",
                    "tag_name",
                    "repositories",
                ]
            )
            | st.text(max_size=5),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)
NAMES = st.sampled_from(
    [
        "release",
        "push",
        "pull_request",
        "issue_comment",
        "schedule",
        "workflow_dispatch",
        "repository_dispatch",
        "installation",
        "installation_repositories",
        "ping",
        "star",
    ]
)


@given(NAMES, JSON)
def test_any_payload_is_an_event_or_unusable_and_nothing_else(name, payload):
    with contextlib.suppress(Unusable):
        event = parse(name, payload)
        assert event is None or isinstance(event, Event)
        assert (event is None) == (name == "star")


@given(
    st.dictionaries(
        st.sampled_from(["Dockerfile", "requirements.txt", "m/config.pbtxt"])
        | st.text(max_size=20),
        st.text(max_size=200),
        max_size=4,
    ),
    st.lists(st.text(max_size=30), max_size=5),
)
def test_versions_are_read_from_anything(files, paths):
    found = versions.read(files, paths)
    assert json.loads(json.dumps(found)) == found
    assert versions.moved(found, found) == []
