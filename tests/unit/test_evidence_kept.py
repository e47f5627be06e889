"""What the evidence branch remembers of pushes and titles, and how much of it."""

import pytest

from bot.github.archive import MOST_PUSHED, Publication, State, with_pushed
from bot.github.forge import GitHubForge
from bot.github.replies import PullReply
from tests.unit.test_github_replies import SHA, pull


def test_the_branches_that_were_pushed_last_are_remembered():
    state = State(pushed={f"fvec/features/x{n}": SHA for n in range(MOST_PUSHED)})

    again = with_pushed(state, "fvec/features/x0", "b" * 40)
    state = with_pushed(again, "fvec/features/new", SHA)

    assert len(state.pushed) == MOST_PUSHED
    assert state.pushed["fvec/features/x0"] == "b" * 40
    assert state.pushed["fvec/features/new"] == SHA
    assert "fvec/features/x1" not in state.pushed  # the oldest by then
    assert "fvec/features/x2" in state.pushed


def test_a_push_that_is_known_changes_nothing():
    state = State(pushed={"fvec/a": SHA, "fvec/b": SHA})
    assert with_pushed(state, "fvec/a", SHA) == state


@pytest.mark.parametrize(
    ("titles", "ours"),
    [(None, True), ([], True), (["Before", "A title "], True), (["Before"], False)],
)
def test_a_title_that_we_did_not_give_is_a_person_s(titles, ours, monkeypatch):
    told = None
    if titles is not None:
        told = Publication(
            branch="fvec/a",
            of_branch="fvec/a",
            base="main",
            base_commit=SHA,
            commit=SHA,
            run_id="r",
            titles=titles,
        )
    forge = GitHubForge(None, None)
    monkeypatch.setattr(forge.archive, "publication", lambda _branch: told)

    there = PullReply.model_validate(pull(title="A title")).data()
    assert forge._titled_by_us(there) is ours
