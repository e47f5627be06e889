"""What is kept on the evidence branch while several jobs write there at once, and what fails."""

import json
from collections.abc import Callable

import pytest

from bot.github.archive import BRANCH, EvidenceBranch
from bot.github.errors import Conflict
from bot.jobs import board, records
from bot.jobs.context import JobResult
from tests.github.recorded_results import FIRST
from tests.github_jobs import MANIFEST, NOW, Bot, kept

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")

OTHER = "c" * 40


def archive(bot: Bot) -> EvidenceBranch:
    return EvidenceBranch(bot.client().repository(bot.fake.full_name))


def before_the_next_commit(bot: Bot, does: Callable[[], None], times: int = 1) -> None:
    """Let somebody else write to the branch when a tree was made, before the branch is moved."""
    left = iter(range(times))

    def after(exchange) -> None:
        if exchange.path.endswith("/git/commits") and next(left, None) is not None:
            does()

    bot.fake.faults.after = after


def pushed(bot: Bot, branch: str) -> Callable[[], None]:
    def does() -> None:
        state = kept(bot, "state.json") if bot.fake.sha(BRANCH) else {"schema": "fvec.state/1"}
        state.setdefault("pushed", {})[branch] = OTHER
        bot.fake.commit({"state.json": json.dumps(state)}, branch=BRANCH)

    return does


def with_mine(state):
    return state.model_copy(update={"pushed": {**state.pushed, "fvec/mine": OTHER}})


@pytest.mark.parametrize("before", [[], ["fvec/first"]])
def test_two_updates_of_the_state_at_once_are_both_kept(bot: Bot, before: list[str]) -> None:
    for name in before:
        pushed(bot, name)()
    before_the_next_commit(bot, pushed(bot, "fvec/other"))
    state = archive(bot).update_state(with_mine)
    names = {*before, "fvec/other", "fvec/mine"}
    assert set(state.pushed) == set(kept(bot, "state.json")["pushed"]) == names


def test_an_update_that_always_comes_second_ends(bot: Bot) -> None:
    names = iter(range(99))
    before_the_next_commit(bot, lambda: pushed(bot, f"fvec/{next(names)}")(), times=99)
    with pytest.raises(Conflict):
        archive(bot).update_state(with_mine)
    assert "fvec/mine" not in kept(bot, "state.json")["pushed"]


def test_an_update_that_a_rule_forbids_is_told_at_once(bot: Bot) -> None:
    pushed(bot, "fvec/first")()
    bot.fake.protect(BRANCH)
    with pytest.raises(Conflict, match="protected"):
        archive(bot).update_state(with_mine)
    assert [write.method for write in bot.fake.writes].count("PATCH") == 1


def test_two_jobs_that_end_at_once_are_both_on_the_dashboard(bot: Bot) -> None:
    pull = records.Pull(branch="fvec/x", state="refused", title="Of the other job")
    other = records.Run(
        at="2026-01-02", job="other", kind="analyse", state="done", why="w", summary="s"
    )
    theirs = records.with_run(records.Runs(), other, pulls=[pull])
    content = records.content(theirs).decode()
    before_the_next_commit(bot, lambda: bot.fake.commit({records.RUNS: content}, branch=BRANCH))
    board.record(bot.context("freshen"), JobResult("done", "all are current"))
    found = records.runs(archive(bot))
    assert [run.kind for run in found.runs] == ["freshen", "analyse"]
    assert [one.title for one in found.pulls] == ["Of the other job"]


def test_a_repository_without_issues_has_no_dashboard_and_keeps_its_records(bot: Bot) -> None:
    bot.fake.faults.add("409", "POST", f"/repos/{bot.fake.full_name}/issues", times=9)
    board.record(bot.context("freshen"), JobResult("done", "all are current"))
    assert [run.kind for run in records.runs(archive(bot)).runs] == ["freshen"]


# What ended well, of all layers and of some, and what failed


def test_an_analysis_of_some_layers_is_kept_beside_the_whole_one(bot: Bot) -> None:
    bot.published()
    whole = kept(bot, "state.json")["analysis"]
    bot.fake.commit({"requirements-new.txt": "torch==2.9.0\n", "README.md": "more"})
    bot.does("analyse", sha=whole["sha"], layers=("config",))
    state = kept(bot, "state.json")
    assert state["analysis"] == whole
    assert (whole["layers"], state["partial"]["config"]["layers"]) == ([], ["config"])


def test_a_pull_request_that_is_made_anew_is_no_whole_analysis(bot: Bot) -> None:
    number = bot.published()
    whole = kept(bot, "state.json")["analysis"]
    bot.fake.close(number)
    assert bot.asked("recreate", number).state == "done"
    state = kept(bot, "state.json")
    assert state["analysis"] == whole
    assert list(state["partial"]) == ["features"]


def test_a_layer_that_the_manifest_leaves_out_is_not_analysed(bot: Bot) -> None:
    manifest = bot.fake.git("show", f"main:{MANIFEST}")
    bot.fake.commit({MANIFEST: f"{manifest}\nlayers: [features]\n"})
    found = bot.does("analyse", sha=bot.fake.sha(), layers=("config",))
    assert found == JobResult("refused", "the manifest leaves `config` to its owners")
    assert bot.program.asked == []


def test_failures_are_counted_until_an_analysis_ends_well(bot: Bot) -> None:
    head = bot.fake.sha()
    for _ in range(2):
        archive(bot).note_attempt(head, NOW, "the build broke\n" + "x" * 900)
    attempt = kept(bot, "state.json")["attempt"]
    assert (attempt["sha"], attempt["failures"]) == (head, 2)
    assert attempt["at"] == "2026-01-02T03:04:05+00:00"
    archive(bot).note_attempt(OTHER, NOW, "another commit")
    assert kept(bot, "state.json")["attempt"]["failures"] == 1
    bot.published()
    assert kept(bot, "state.json")["attempt"] is None


def test_what_an_analysis_of_some_layers_finds_takes_nothing_off_the_dashboard(bot: Bot) -> None:
    bot.published()
    held = records.Pull(branch="fvec/x", state="awaiting", title="Held back", no_room=True)
    config = bot.context("analyse", layers=("config",))
    board.record(config, JobResult("done", "nothing", pulls=(held,)))
    found = records.runs(archive(bot))
    assert {(one.branch, one.state) for one in found.pulls} >= {
        ("fvec/x", "awaiting"),
        (FIRST, "open"),
    }
    assert records.awaiting(found) == 1
    board.record(bot.context("analyse"), JobResult("done", "nothing", pulls=()))
    found = records.runs(archive(bot))
    assert (FIRST, "open") in {(one.branch, one.state) for one in found.pulls}
    assert records.awaiting(found) == 0
