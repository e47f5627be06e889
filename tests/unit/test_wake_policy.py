from dataclasses import replace
from datetime import timedelta

import pytest

from bot.wake import hours
from bot.wake.facts import Attempt, LastAnalysis, Merge, Release
from bot.wake.jobs import JobSpec
from bot.wake.policy import Sleep, Wake, on_event, on_tick
from layers.base import LayerName
from layers.manifest import BotSection
from tests.wake import FACTS, HEAD, NOW, OLD, OTHER, event

POLICY = BotSection(jitter_minutes=0)

RELEASE = event("release", "published", ref="v2")
PUSH = event("push", ref="refs/heads/main", sha=HEAD, paths=("README.md",))
MODEL = replace(PUSH, paths=("models/r/3/model.py",), added=("models/r/3/model.py",))
MERGED = event(
    "pull_request",
    "closed",
    number=7,
    is_pull=True,
    sha=OTHER,
    branch="fvec/columnar",
    head_repository="owner/serve",
    base="main",
    merged=True,
)
COMMENT = event(
    "comment",
    "created",
    number=7,
    is_pull=True,
    comment_id=99,
    body="/fvec rerun",
    created_at="2026-11-30T11:59:00Z",
)
INSTALLED = event("installation", "created", repositories=("owner/serve",))


def analysis(why, sha=HEAD, **fields):
    return JobSpec(
        kind="analyse", repository="owner/serve", installation=42, sha=sha, why=why, **fields
    )


def wakes(spec, at=NOW, supersedes=(), *, freshen=False):
    return Wake(spec, spec.why, at, supersedes, freshen)


def held(why):
    return Sleep(why, held=True)


def freshen(why, sha=HEAD):
    return JobSpec(kind="freshen", repository="owner/serve", installation=42, sha=sha, why=why)


def test_a_published_release_is_analysed():
    assert on_event(RELEASE, POLICY, FACTS) == wakes(analysis("release v2 was published"))


@pytest.mark.parametrize("action", ["created", "edited", "prereleased", "released", "deleted", ""])
def test_other_news_of_a_release_is_not(action):
    decision = on_event(replace(RELEASE, action=action), POLICY, FACTS)
    assert decision == Sleep("a release was changed; none was published")


def test_releases_can_be_left_out():
    policy = BotSection(releases=False)
    assert on_event(RELEASE, policy, FACTS) == held(
        "a release was published; the manifest says `releases: false`"
    )


def test_a_hostile_tag_stays_on_one_line():
    decision = on_event(replace(RELEASE, ref="v1\u2028@all\u202e" + "x" * 900), POLICY, FACTS)
    assert decision.why == f"release v1@all{'x' * 93}\u2026 was published"


def test_a_commit_that_was_analysed_is_not_analysed_again_for_an_event():
    last = LastAnalysis(HEAD, NOW - timedelta(days=9))
    assert on_event(RELEASE, POLICY, replace(FACTS, last_analysis=last)) == held(
        "release v2 was published; its commit was analysed at 2026-11-21 12:00 UTC"
    )


def test_an_analysis_waits_for_the_cooldown():
    last = LastAnalysis(OLD, NOW - timedelta(hours=10))
    decision = on_event(RELEASE, POLICY, replace(FACTS, last_analysis=last))
    assert decision == wakes(analysis("release v2 was published"), NOW + timedelta(hours=14))


def test_an_analysis_waits_for_the_end_of_quiet_hours():
    policy = BotSection(jitter_minutes=0, quiet_hours="10:00-18:30")
    decision = on_event(RELEASE, policy, FACTS)
    assert decision == wakes(analysis("release v2 was published"), NOW + timedelta(hours=6.5))


def test_an_analysis_that_nobody_waits_for_is_spread():
    policy = BotSection(jitter_minutes=60)
    decision = on_event(RELEASE, policy, FACTS)
    assert isinstance(decision, Wake)
    share = hours.fraction("seed", "owner/serve", HEAD)
    assert decision.not_before == NOW + timedelta(minutes=60 * share)


def test_no_analysis_starts_while_enough_pull_requests_are_open():
    facts = replace(FACTS, open_pulls=2)
    assert on_event(RELEASE, POLICY, facts) == held(
        "release v2 was published; 2 pull requests are open, and 2 may be"
    )


def test_there_is_one_run_for_one_head():
    first = on_event(RELEASE, POLICY, FACTS)
    assert isinstance(first, Wake)
    again = on_event(MODEL, POLICY, replace(FACTS, live_jobs=frozenset({first.spec.key})))
    assert again == Sleep(
        "version 3 of models/r was added; the same analyse at aaaaaaaaaa is queued or running already"
    )


def test_what_replaces_an_older_run_is_not_spread():
    facts = replace(FACTS, live_jobs=frozenset({analysis("older", OLD).key}))
    decision = on_event(RELEASE, BotSection(jitter_minutes=60), facts)
    assert isinstance(decision, Wake)
    assert decision.not_before == NOW


def test_an_analysis_of_some_layers_is_not_the_whole_one():
    # Merge at a commit, `config` is measured there, then the same commit is released.
    config = LastAnalysis(HEAD, NOW - timedelta(days=2), layers=(LayerName.CONFIG,))
    facts = replace(FACTS, partial=(config,))
    assert on_event(RELEASE, POLICY, facts) == wakes(analysis("release v2 was published"))
    assert on_event(MERGED, POLICY, facts) == held(
        "pull request 7 of ours was merged: code moves the best configuration; "
        "its commit was analysed at 2026-11-28 12:00 UTC"
    )


def test_an_analysis_of_some_layers_feeds_the_cooldown():
    config = LastAnalysis(OLD, NOW - timedelta(hours=10), layers=(LayerName.CONFIG,))
    decision = on_event(RELEASE, POLICY, replace(FACTS, partial=(config,)))
    assert decision == wakes(analysis("release v2 was published"), NOW + timedelta(hours=14))


def test_a_whole_analysis_replaces_a_live_one_of_some_layers():
    config = analysis("merged", layers=(LayerName.CONFIG,)).key
    assert on_event(RELEASE, POLICY, replace(FACTS, live_jobs=frozenset({config}))) == wakes(
        analysis("release v2 was published"), supersedes=(config,)
    )


def test_a_whole_analysis_at_the_same_head_covers_some_layers():
    whole = analysis("whole").key
    assert on_event(MERGED, POLICY, replace(FACTS, live_jobs=frozenset({whole}))) == Sleep(
        "pull request 7 of ours was merged: code moves the best configuration; "
        "the same analyse at aaaaaaaaaa is queued or running already"
    )


def test_a_failed_attempt_rests_longer_each_time_at_the_same_commit():
    def waits(failures, sha=HEAD, policy=POLICY):
        facts = replace(FACTS, attempt=Attempt(sha, NOW, failures))
        decision = on_event(RELEASE, policy, facts)
        assert isinstance(decision, Wake)
        return (decision.not_before - NOW) / timedelta(hours=1)

    assert [waits(n) for n in (1, 2, 3, 9, 10**6)] == [24, 48, 96, 14 * 24, 14 * 24]
    assert waits(9, OLD) == 24  # another head: from the beginning, not at once
    eager = BotSection(cooldown_hours=0, jitter_minutes=0)
    assert [waits(n, policy=eager) for n in (1, 2, 3)] == [1, 2, 4]
    slow = BotSection(cooldown_hours=24 * 90, jitter_minutes=0)
    assert [waits(n, policy=slow) for n in (1, 5)] == [24 * 90, 24 * 90]


def test_a_run_at_an_older_head_is_superseded():
    older = analysis("older", OLD).key
    facts = replace(FACTS, live_jobs=frozenset({older, JobSpec(kind="help", repository="o/r").key}))
    assert on_event(RELEASE, POLICY, facts) == wakes(
        analysis("release v2 was published"), supersedes=(older,)
    )


def test_a_new_version_of_a_model_is_analysed():
    assert on_event(MODEL, POLICY, FACTS) == wakes(analysis("version 3 of models/r was added"))


@pytest.mark.parametrize("path", ["requirements.txt", "docker/Dockerfile"])
def test_changed_packages_or_images_are_analysed(path):
    decision = on_event(replace(PUSH, paths=("a.md", path)), POLICY, FACTS)
    assert decision == wakes(analysis(f"{path} was changed"))


def test_known_versions_decide_instead_of_names_of_files():
    last = LastAnalysis(OLD, NOW - timedelta(days=3), {"torch (r.txt)": "==2.7"})
    facts = replace(FACTS, last_analysis=last, versions={"torch (r.txt)": "==2.7"})
    touched = replace(PUSH, paths=("requirements.txt",))
    assert on_event(touched, POLICY, facts) == Sleep(
        "the push adds no model and changes no version"
    )
    moved = replace(facts, versions={"torch (r.txt)": "==2.8"})
    assert on_event(PUSH, POLICY, moved) == wakes(
        analysis("torch (r.txt) from ==2.7 to ==2.8 since the last analysis")
    )


def test_many_moved_versions_are_told_in_short():
    before = {f"p{n}": "1" for n in range(5)}
    last = LastAnalysis(OLD, NOW - timedelta(days=3), before)
    facts = replace(FACTS, last_analysis=last, versions=dict.fromkeys(before, "2"))
    assert on_event(PUSH, POLICY, facts) == wakes(
        analysis(
            "p0 from 1 to 2, p1 from 1 to 2, p2 from 1 to 2 and 2 more since the last analysis"
        )
    )


@pytest.mark.parametrize(
    "push",
    [
        replace(MODEL, ref="refs/heads/feature"),
        replace(MODEL, ref="refs/tags/main"),
        replace(MODEL, sha=None, action="deleted"),
        replace(MODEL, default_branch=None, ref="refs/heads/"),
    ],
)
def test_a_push_to_another_branch_is_left_alone(push):
    assert on_event(push, POLICY, FACTS) == Sleep("a push to another branch than the default one")


def test_a_push_under_open_pull_requests_has_them_looked_at():
    facts = replace(FACTS, open_pulls=1)
    moved = "the default branch has moved under open pull requests"
    assert on_event(PUSH, POLICY, facts) == wakes(freshen(moved))
    # Where an analysis may not start, they still are; it is no run, and quiet hours are not its.
    full = replace(facts, open_pulls=2)
    why = "version 3 of models/r was added; 2 pull requests are open, and 2 may be"
    assert on_event(MODEL, BotSection(quiet_hours="10:00-18:00"), full) == wakes(
        freshen(f"{moved}; {why}")
    )


def test_a_push_that_wakes_an_analysis_has_open_pull_requests_looked_at_too():
    decision = on_event(MODEL, POLICY, replace(FACTS, open_pulls=1))
    assert decision == wakes(analysis("version 3 of models/r was added"), freshen=True)
    assert decision.freshening() == freshen("the default branch has moved under open pull requests")


def test_a_push_under_a_stacked_pull_request_has_it_looked_at():
    lower = replace(PUSH, ref="refs/heads/fvec/features/x", sha=OTHER)
    facts = replace(FACTS, open_pulls=1, bases=frozenset({"main", "fvec/features/x"}))
    why = "fvec/features/x has moved under a pull request that stands on it"
    assert on_event(lower, POLICY, facts) == wakes(freshen(why, OTHER))
    nothing = Sleep("a push to another branch than the default one")
    assert on_event(lower, POLICY, replace(facts, bases=frozenset({"main"}))) == nothing
    assert on_event(replace(lower, sha=None), POLICY, facts) == nothing


def test_a_merged_change_of_ours_has_the_configuration_searched_again():
    why = "pull request 7 of ours was merged: code moves the best configuration"
    assert on_event(MERGED, POLICY, FACTS) == wakes(analysis(why, layers=(LayerName.CONFIG,)))


def test_a_manifest_without_the_configuration_has_none_searched():
    facts = replace(FACTS, layers=(LayerName.FEATURES,))
    why = "pull request 7 of ours was merged: code moves the best configuration"
    told = f"{why}; the manifest leaves `config` to its owners"
    assert on_event(MERGED, POLICY, facts) == held(told)


def test_what_replaces_a_live_analysis_is_about_all_layers():
    older = analysis("older", OLD).key
    decision = on_event(MERGED, POLICY, replace(FACTS, live_jobs=frozenset({older})))
    assert isinstance(decision, Wake)
    assert decision.spec.layers == ()
    assert decision.supersedes == (older,)


def test_a_merged_onboarding_starts_the_first_analysis():
    facts = replace(FACTS, last_analysis=None)
    decision = on_event(replace(MERGED, branch="fvec/onboard"), POLICY, facts)
    assert decision == wakes(analysis("the onboarding pull request was merged"))


@pytest.mark.parametrize(
    ("pull", "why"),
    [
        (replace(MERGED, merged=False), "no pull request of ours was merged"),
        (replace(MERGED, action="synchronize"), "no pull request of ours was merged"),
        (replace(MERGED, branch="feature"), "no pull request of ours was merged"),
        (replace(MERGED, head_repository="fork/serve"), "no pull request of ours was merged"),
        (replace(MERGED, head_repository=None), "no pull request of ours was merged"),
        (
            replace(MERGED, base="fvec/other"),
            "a change of ours was merged into another branch than the default one",
        ),
        (
            replace(MERGED, branch="fvec/knowledge"),
            "knowledge was merged; the next analysis reads it",
        ),
    ],
)
def test_other_pull_requests_are_left_alone(pull, why):
    assert on_event(pull, POLICY, FACTS) == Sleep(why)


def command(kind, sha=None, **fields):
    return JobSpec(
        kind=kind,
        repository="owner/serve",
        installation=42,
        sha=sha,
        number=7,
        comment_id=99,
        asked_by="maintainer",
        why=f"maintainer asked for `/fvec {kind}`",
        **fields,
    )


@pytest.mark.parametrize(
    ("body", "spec"),
    [
        ("/fvec rerun", command("rerun", HEAD)),
        (f"/fvec rerun {HEAD}", command("rerun", HEAD)),
        ("/fvec judge exact", command("judge", HEAD, change_class="exact")),
        ("/fvec recreate", command("recreate")),
        ("/fvec help", command("help")),
    ],
)
def test_a_command_becomes_a_job_pinned_to_the_head(body, spec):
    # Neither the cooldown nor open pull requests hold back what a person asks for.
    last = LastAnalysis(OLD, NOW)
    facts = replace(FACTS, last_analysis=last, open_pulls=9)
    assert on_event(replace(COMMENT, body=body), BotSection(), facts) == wakes(spec)


def test_a_command_that_measures_waits_for_the_end_of_quiet_hours():
    policy = BotSection(quiet_hours="10:00-18:00")
    assert on_event(COMMENT, policy, FACTS) == wakes(
        command("rerun", HEAD), NOW + timedelta(hours=6)
    )
    asked = replace(COMMENT, body="/fvec help")
    assert on_event(asked, policy, FACTS) == wakes(command("help"))


def test_the_same_command_twice_is_answered():
    facts = replace(FACTS, live_jobs=frozenset({command("rerun", HEAD).key}))
    assert on_event(COMMENT, POLICY, facts) == Sleep(
        "maintainer asked for `/fvec rerun`; "
        "the same rerun at aaaaaaaaaa is queued or running already",
        answer=True,
    )


def test_a_rerun_at_a_newer_head_supersedes_the_older():
    older = command("rerun", OLD).key
    facts = replace(FACTS, live_jobs=frozenset({older}))
    assert on_event(COMMENT, POLICY, facts) == wakes(command("rerun", HEAD), supersedes=(older,))


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        (
            replace(COMMENT, body=f"/fvec rerun {OTHER}"),
            f"the head of this pull request is {HEAD}, not the commit named",
        ),
        (replace(COMMENT, is_pull=False), "`/fvec rerun` is for pull requests"),
        (
            replace(COMMENT, created_at="2026-11-29T11:59:00Z"),
            "the command is older than 24 hours: give it again",
        ),
        (
            replace(COMMENT, created_at=None),
            "the command is older than 24 hours: give it again",
        ),
        (replace(COMMENT, body="/fvec rerun 0123abc"), "a commit is named by all its 40 digits"),
    ],
)
def test_a_command_that_does_not_fit_is_answered(comment, why):
    assert on_event(comment, POLICY, FACTS) == Sleep(why, answer=True)


@pytest.mark.parametrize(
    "comment",
    [
        replace(COMMENT, action="edited"),
        replace(COMMENT, action="deleted"),
        replace(COMMENT, sender_is_bot=True),
        replace(COMMENT, action="edited", body="/fvec nonsense"),
        replace(COMMENT, sender_is_bot=True, body="/fvec nonsense"),
    ],
)
def test_edited_comments_and_those_of_bots_are_passed_over_in_silence(comment):
    assert on_event(comment, POLICY, FACTS) == Sleep(
        "commands are taken from comments of people, when they are written"
    )


def test_a_comment_that_is_not_for_us_has_no_answer():
    comment = replace(COMMENT, body="does /fvec rerun work?")
    assert on_event(comment, POLICY, FACTS) == Sleep("a comment that is not for us")


def test_an_analysis_that_is_asked_for_needs_no_cooldown_and_no_jitter():
    last = LastAnalysis(HEAD, NOW)
    decision = on_event(event("dispatch"), BotSection(), replace(FACTS, last_analysis=last))
    assert decision == wakes(analysis("an analysis was asked for"))


def test_an_installation_leads_to_onboarding_once():
    spec = JobSpec(
        kind="onboard", repository="owner/serve", installation=42, why="fvec was installed"
    )
    assert on_event(INSTALLED, POLICY, FACTS) == wakes(spec)
    assert on_event(INSTALLED, POLICY, replace(FACTS, live_jobs=frozenset({spec.key}))) == Sleep(
        "fvec was installed; the same onboard is queued or running already"
    )
    assert on_event(replace(INSTALLED, action="suspend"), POLICY, FACTS) == Sleep(
        "an installation was changed; no repository was added"
    )


def test_an_event_about_no_repository_is_left_alone():
    ping = replace(event("ping"), repository="")
    assert on_event(ping, POLICY, FACTS) == Sleep("the event is about no repository")


@pytest.mark.parametrize("news", [RELEASE, PUSH, MERGED, event("schedule"), event("dispatch")])
def test_a_repository_without_a_commit_is_left_alone(news):
    assert on_event(news, POLICY, replace(FACTS, head_sha="")) == Sleep(
        "the default branch has no commit"
    )


def tick(policy=POLICY, **facts):
    return on_tick("owner/serve", policy, replace(FACTS, **facts), installation=42)


STALE = LastAnalysis(HEAD, NOW - timedelta(days=31))


def test_a_first_analysis_is_due_at_once():
    assert tick(last_analysis=None) == wakes(analysis("there is no analysis yet"))


def test_a_stale_analysis_is_due_again_at_the_same_commit():
    assert tick(last_analysis=STALE) == wakes(
        analysis("the last analysis is from 2026-10-30 12:00 UTC: it is stale")
    )


def test_an_analysis_that_is_not_stale_says_when_it_is():
    assert tick() == Sleep(
        "the last analysis is from 2026-11-27 12:00 UTC; stale at 2026-12-27 12:00 UTC"
    )


def test_jitter_moves_the_moment_of_staleness():
    share = hours.fraction("seed", "owner/serve", HEAD)
    policy = BotSection(jitter_minutes=600)
    due = STALE.at + timedelta(days=30, minutes=600 * share)
    early = tick(policy, now=due - timedelta(seconds=1), last_analysis=STALE)
    assert early == Sleep(
        f"the last analysis is from 2026-10-30 12:00 UTC; stale at {hours.told(due)}"
    )
    assert isinstance(tick(policy, now=due, last_analysis=STALE), Wake)


def test_staleness_can_be_left_out():
    assert tick(BotSection(stale_after_days=None), last_analysis=STALE) == Sleep(
        "the last analysis is from 2026-10-30 12:00 UTC; the manifest says `stale_after_days: null`"
    )


def test_what_no_longer_serves_is_not_analysed_for_its_age():
    assert tick(last_analysis=STALE, still_serves=False) == Sleep(
        "the last analysis is from 2026-10-30 12:00 UTC: it is stale, but this stack no longer serves"
    )
    assert isinstance(tick(last_analysis=STALE, still_serves=None), Wake)


def test_versions_that_moved_unseen_are_found_by_a_tick():
    last = LastAnalysis(OLD, NOW - timedelta(days=2), {"models/a": "1"})
    moved = "models/a from 1 to 2 since the last analysis"
    assert tick(last_analysis=last, versions={"models/a": "2"}) == wakes(analysis(moved))
    recent = replace(last, at=NOW - timedelta(hours=1))
    assert tick(last_analysis=recent, versions={"models/a": "2"}) == Sleep(
        f"{moved}; the cooldown after the last analysis ends at 2026-12-01 11:00 UTC"
    )


RECENT = LastAnalysis(
    OLD, NOW - timedelta(days=2), {"models/a": "1"}, began=NOW - timedelta(days=2, hours=6)
)
DURING = NOW - timedelta(days=2, hours=3)  # while it ran
BEFORE = NOW - timedelta(days=2, hours=7)


def test_a_release_that_had_to_wait_is_found_by_a_tick():
    release = Release("v2", OTHER, DURING)
    assert tick(last_analysis=RECENT, release=release) == wakes(
        analysis("release v2 was published")
    )


@pytest.mark.parametrize(
    ("release", "policy"),
    [
        (Release("v2", OTHER, BEFORE), POLICY),
        (Release("v2", OLD, DURING), POLICY),  # it is what was analysed
        (Release("v2", OTHER, DURING), BotSection(releases=False, jitter_minutes=0)),
        (None, POLICY),
    ],
)
def test_other_releases_are_not_owed(release, policy):
    found = tick(policy, last_analysis=RECENT, release=release)
    assert found == Sleep(
        "the last analysis is from 2026-11-28 12:00 UTC; stale at 2026-12-28 12:00 UTC"
    )


def test_nothing_is_owed_for_a_head_that_was_analysed():
    last = replace(RECENT, sha=HEAD)
    found = tick(last_analysis=last, release=Release("v2", "", NOW), merge=Merge(7, NOW))
    assert isinstance(found, Sleep)


MERGE = Merge(7, NOW - timedelta(days=1, hours=12))
CONFIG = (LayerName.CONFIG,)
COMBINED = "pull request 7 of ours was merged: code moves the best configuration"


def test_a_merge_inside_the_cooldown_is_found_by_a_tick_after_it():
    assert tick(last_analysis=RECENT, merge=MERGE) == wakes(analysis(COMBINED, layers=CONFIG))
    soon = replace(RECENT, at=NOW - timedelta(hours=1), began=NOW - timedelta(days=2))
    assert tick(last_analysis=soon, merge=MERGE) == Sleep(
        f"{COMBINED}; the cooldown after the last analysis ends at 2026-12-01 11:00 UTC"
    )


def test_a_merge_is_not_owed_where_the_configuration_was_searched_since():
    config = LastAnalysis(OTHER, NOW - timedelta(days=1), layers=CONFIG)
    features = replace(config, layers=(LayerName.FEATURES,))
    assert isinstance(tick(last_analysis=RECENT, merge=MERGE, partial=(config,)), Sleep)
    assert isinstance(tick(last_analysis=RECENT, merge=MERGE, partial=(features,)), Wake)
    without = {"layers": (LayerName.FEATURES,)}
    assert isinstance(tick(last_analysis=RECENT, merge=MERGE, **without), Sleep)


def test_where_a_merge_and_something_else_is_owed_all_layers_are_looked_at():
    found = tick(last_analysis=RECENT, merge=MERGE, versions={"models/a": "2"})
    assert found == wakes(analysis(COMBINED))


def test_versions_that_moved_are_still_owed_after_a_run_of_some_layers():
    config = LastAnalysis(HEAD, NOW - timedelta(days=1), {"models/a": "2"}, CONFIG)
    found = tick(last_analysis=RECENT, partial=(config,), versions={"models/a": "2"})
    assert found == wakes(analysis("models/a from 1 to 2 since the last analysis"))


def test_versions_of_which_there_were_none_can_move_and_unknown_ones_cannot():
    told = {"models/a": "1"}
    none, unknown = replace(RECENT, versions={}), replace(RECENT, versions=None)
    assert tick(last_analysis=none, versions=told) == wakes(
        analysis("models/a from none to 1 since the last analysis")
    )
    assert isinstance(tick(last_analysis=unknown, versions=told), Sleep)
    assert isinstance(tick(last_analysis=RECENT, versions=None), Sleep)


@pytest.mark.parametrize(
    ("awaiting", "told"), [(1, "1 accepted change was"), (3, "3 accepted changes were")]
)
def test_what_was_held_back_is_owed_when_there_is_room(awaiting, told):
    owed = {"last_analysis": RECENT, "awaiting": awaiting}
    assert tick(open_pulls=1, **owed) == wakes(analysis(f"{told} held back, and there is room now"))
    assert isinstance(tick(open_pulls=2, **owed), Sleep)
    assert isinstance(tick(BotSection(max_open_pull_requests=3), open_pulls=2, **owed), Wake)


def test_a_tick_says_that_the_last_attempts_failed():
    attempt = Attempt(HEAD, NOW - timedelta(hours=1), 2)
    assert tick(last_analysis=None, attempt=attempt) == Sleep(
        "there is no analysis yet; the last 2 at this commit failed, "
        "and the next starts at 2026-12-02 11:00 UTC or later"
    )
    assert tick(last_analysis=None, attempt=replace(attempt, sha=OTHER)) == Sleep(
        "there is no analysis yet; the last one failed, "
        "and the next starts at 2026-12-01 11:00 UTC or later"
    )


def test_age_alone_wakes_nothing_where_the_command_that_says_what_serves_gave_no_answer():
    policy = BotSection(serving=["python3", "serves.py"], jitter_minutes=0)
    assert tick(policy, last_analysis=STALE, still_serves=None) == Sleep(
        "the last analysis is from 2026-10-30 12:00 UTC: it is stale, but whether this stack still "
        "serves is not known: `bot.serving` gave no answer, or cannot be run here"
    )
    assert isinstance(tick(policy, last_analysis=STALE, still_serves=True), Wake)
    assert isinstance(tick(policy, last_analysis=None, still_serves=None), Wake)


def test_a_tick_in_quiet_hours_sleeps_until_a_later_one():
    assert tick(BotSection(quiet_hours="11:00-13:00"), last_analysis=STALE) == Sleep(
        "the last analysis is from 2026-10-30 12:00 UTC: it is stale; quiet hours end at 2026-11-30 13:00 UTC"
    )


def test_a_tick_keeps_to_the_limits():
    assert tick(last_analysis=STALE, open_pulls=3) == held(
        "the last analysis is from 2026-10-30 12:00 UTC: it is stale; 3 pull requests are open, and 2 may be"
    )
    live = frozenset({analysis("x").key})
    assert tick(last_analysis=STALE, live_jobs=live) == Sleep(
        "the last analysis is from 2026-10-30 12:00 UTC: it is stale; "
        "the same analyse at aaaaaaaaaa is queued or running already"
    )
