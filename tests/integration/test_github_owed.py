"""What had to wait comes later: found by a tick in what GitHub and the evidence branch hold."""

from datetime import datetime, timedelta

import pytest

from bot.github.archive import EvidenceBranch
from bot.github.transport import Remote
from bot.jobs import actions, analyse, decide, records
from bot.jobs.decide import Surroundings
from bot.wake import events
from bot.wake.policy import Decision, Sleep, Wake
from layers.events import Silent
from tests.github.recorded_results import FIRST, SECOND, Ran
from tests.github_jobs import MANIFEST, NOW, Bot, kept

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")

SOON, LATER = NOW + timedelta(hours=1), NOW + timedelta(days=2)  # in the cooldown, and after it


def around(bot: Bot, now: datetime) -> Surroundings:
    client = bot.client()
    return Surroundings(client, client.repository(bot.fake.full_name), now, jitter=False)


def ticked(bot: Bot, now: datetime = LATER) -> Decision:
    return decide.decide_tick(around(bot, now))


def heard(bot: Bot, event: tuple[str, dict], now: datetime = SOON) -> Decision:
    parsed = events.parse(*event)
    assert parsed is not None
    return decide.decide(parsed, around(bot, now))


def wanted(found: Decision) -> tuple[str, tuple[str, ...]]:
    assert isinstance(found, Wake), found
    return found.why, found.spec.layers


def with_manifest(bot: Bot, text: str) -> None:
    manifest = bot.fake.git("show", f"main:{MANIFEST}")
    bot.fake.commit({MANIFEST: f"{manifest}\n{text}\n"})


def test_a_release_inside_the_cooldown_comes_after_it(bot: Bot) -> None:
    bot.published()
    bot.fake.now = lambda: SOON
    bot.fake.commit({"README.md": "released"})
    bot.fake.release("v2")
    told = heard(bot, bot.fake.events.release("v2"))
    assert isinstance(told, Wake)
    assert told.not_before == NOW + timedelta(hours=24)
    assert isinstance(ticked(bot, SOON), Sleep)
    assert wanted(ticked(bot)) == ("release v2 was published", ())


def test_a_release_of_what_was_analysed_is_not_owed(bot: Bot) -> None:
    bot.published()
    bot.fake.now = lambda: SOON
    bot.fake.release("v2")
    bot.fake.commit({"README.md": "moved on since"})
    found = ticked(bot)
    assert isinstance(found, Sleep)
    assert "stale at" in found.why


def test_a_merge_inside_the_cooldown_has_the_configuration_searched_after_it(bot: Bot) -> None:
    number = bot.published()
    bot.fake.now = lambda: SOON
    bot.fake.merge(number)
    why = f"pull request {number} of ours was merged: code moves the best configuration"
    told = heard(bot, bot.fake.events.pull(number, "closed"))
    assert wanted(told) == (why, ("config",))
    assert wanted(ticked(bot)) == (why, ("config",))


def test_a_merge_is_not_owed_once_the_configuration_was_searched(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    bot.fake.now = lambda: SOON
    bot.fake.merge(number)
    archive = EvidenceBranch(bot.client().repository(bot.fake.full_name))
    analysis = archive.state().analysis
    assert analysis is not None
    at = (SOON + timedelta(hours=1)).isoformat()
    config = analysis.model_copy(update={"at": at, "began": None, "layers": ["config"]})
    archive.update_state(lambda state: state.model_copy(update={"partial": {"config": config}}))
    assert isinstance(ticked(bot), Sleep)


def test_a_merge_wakes_nothing_where_the_manifest_leaves_the_configuration_out(bot: Bot) -> None:
    with_manifest(bot, "layers: [features]")
    number = bot.fake.open_pull("fvec/x", login=bot.fake.login, files={"a": "a"})
    bot.fake.merge(number)
    found = heard(bot, bot.fake.events.pull(number, "closed"))
    assert isinstance(found, Sleep)
    assert found.held
    assert found.why.endswith("the manifest leaves `config` to its owners")


def test_a_repository_of_many_models_names_the_same_versions_to_both_sides(
    bot: Bot, ran: Ran
) -> None:
    policy = "version_policy: {{ specific {{ versions: [{n}] }} }}\n"
    many = {f"models/a{n:02d}/config.pbtxt": policy.format(n=n) for n in range(60)}
    bot.fake.commit({**many, "zz/requirements.txt": "torch==2.8.0\n"})
    bot.does("analyse", sha=bot.fake.sha())  # fetches; the recorded run is about another commit
    context = bot.context("analyse", sha=bot.fake.sha())
    mirror = context.home.folder / "mirror.git"
    written = analyse.versions_at(mirror, bot.fake.sha())
    assert written["torch (zz/requirements.txt)"] == "==2.8.0"
    assert decide._versions(around(bot, NOW).repository, bot.fake.sha()) == written


def test_a_tree_that_github_cuts_off_moves_no_version_and_is_no_error(bot: Bot) -> None:
    bot.published()
    bot.fake.commit({"requirements.txt": "torch==2.9.0\n"})
    assert "torch" in wanted(ticked(bot))[0]
    bot.fake.world.most_listed = 3
    assert isinstance(ticked(bot), Sleep)


@pytest.fixture
def crowded(bot: Bot, recorded_run: Ran, tmp_path) -> Bot:
    """Two changes were accepted, and one pull request may be open."""
    with_manifest(bot, "bot: {max_open_pull_requests: 1}")
    bot.program.leaves(recorded_run.copied(tmp_path / "both"))
    base = recorded_run.base
    assert bot.does("analyse", sha=base).state == "done"
    return bot


def test_a_change_that_was_held_back_comes_when_there_is_room(crowded: Bot) -> None:
    pulls = {one["branch"]: one for one in kept(crowded, "runs/runs.json")["pulls"]}
    assert (pulls[SECOND]["state"], pulls[SECOND]["no_room"]) == ("awaiting", True)
    assert isinstance(ticked(crowded), Sleep)
    (number,) = [p["number"] for p in crowded.fake.pulls() if p["head"]["ref"] == FIRST]
    crowded.fake.now = lambda: SOON
    crowded.fake.close(number)
    assert wanted(ticked(crowded)) == (
        "1 accepted change was held back, and there is room now",
        (),
    )


def test_a_change_that_stands_on_a_closed_one_is_owed_no_analysis(crowded: Bot) -> None:
    (number,) = [p["number"] for p in crowded.fake.pulls() if p["head"]["ref"] == FIRST]
    crowded.fake.close(number)
    crowded.does("analyse", sha=kept(crowded, "state.json")["analysis"]["sha"])
    found = records.runs(EvidenceBranch(crowded.client().repository(crowded.fake.full_name)))
    assert [p.state for p in found.pulls if p.branch == SECOND] == ["awaiting"]
    assert isinstance(ticked(crowded), Sleep)


def test_a_push_to_what_a_change_stands_on_is_looked_at(bot: Bot) -> None:
    bot.fake.commit({"a": "a"}, branch="fvec/lower", login=bot.fake.login)
    number = bot.fake.open_pull(
        "fvec/upper", login=bot.fake.login, base="fvec/lower", files={"b": "b"}
    )
    old = bot.fake.sha("fvec/lower")
    new = bot.fake.commit({"a": "b"}, branch="fvec/lower")
    event = bot.fake.events.push("fvec/lower", old, new)
    found = heard(bot, event)
    assert isinstance(found, Wake)
    assert (found.spec.kind, found.spec.sha) == ("freshen", new)
    bot.fake.close(number)
    assert isinstance(heard(bot, event), Sleep)


# As a workflow, which cannot wait


def planned(bot: Bot, event: tuple[str, dict]) -> actions.Planned:
    client = bot.client()
    repository = client.repository(bot.fake.full_name)
    remote = Remote(bot.fake.git_url, client.credentials)
    parsed = events.parse(*event)
    return actions.plan(actions.Place(client, repository, remote, bot.work, "", Silent()), parsed)


def test_a_push_that_has_to_wait_marks_stale_evidence_meanwhile(bot: Bot) -> None:
    bot.published()
    archive = EvidenceBranch(bot.client().repository(bot.fake.full_name))
    now = datetime.now(NOW.tzinfo).isoformat(timespec="seconds")

    def recent(state):
        last = state.analysis.model_copy(update={"at": now, "began": now})
        return state.model_copy(update={"analysis": last})

    archive.update_state(recent)
    old = bot.fake.sha()
    new = bot.fake.commit({"models/new/3/model.py": "x = 1\n"})
    found = planned(bot, bot.fake.events.push("main", old, new))
    assert found.kind == "freshen"
    assert found.decision.why.startswith(
        "the default branch has moved under open pull requests; version 3 of models/new was added; "
        "not before "
    )
    bot.fake.release("v2")
    released = planned(bot, bot.fake.events.release("v2")).decision
    assert isinstance(released, Sleep)
    assert released.why.endswith(": the scheduled workflow looks again")


def test_what_a_person_asked_for_in_quiet_hours_is_to_be_asked_for_again(bot: Bot) -> None:
    minute = datetime.now(NOW.tzinfo) + timedelta(minutes=30)
    until = f"{(minute - timedelta(hours=2)):%H:%M}-{minute:%H:%M}"
    with_manifest(bot, f"bot: {{quiet_hours: '{until}'}}")
    event = ("workflow_dispatch", dispatched(bot))
    found = planned(bot, event).decision
    assert isinstance(found, Sleep)
    assert found.why.endswith(": start it again then")


def dispatched(bot: Bot) -> dict:
    _, push = bot.fake.events.push("main", bot.fake.sha(), bot.fake.sha())
    return {key: push[key] for key in ("repository", "sender")} | {"ref": "refs/heads/main"}
