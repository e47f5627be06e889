"""A title that a person gave a pull request of ours stays theirs; one of ours is kept up to date."""

import pytest

from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import FIRST, Ran, kinds, publish, pull

pytest_plugins = ["tests.github.fixtures", "tests.github.recorded_fixtures"]
pytestmark = pytest.mark.usefixtures("drawn_once")


def test_a_title_that_a_person_gave_stays(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    publish(ran, github)
    github.world.issues[1].title = "perf: serve lookups in one pass"
    ran.of_run("again")

    assert kinds(publish(ran, github)) == [("updated", FIRST, 1)]
    assert pull(github, 1)["title"] == "perf: serve lookups in one pass"


def test_a_title_of_ours_is_brought_up_to_date(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    (first,) = publish(ran, github)
    github.world.issues[1].title = "of an older version"
    told = f"pulls/{FIRST}/publication.json"
    text = github.git("show", f"fvec/evidence:{told}")
    old = text.replace(first.title, "of an older version")
    assert old != text
    github.commit({told: old}, branch="fvec/evidence", login=github.login)
    ran.of_run("again")

    assert kinds(publish(ran, github)) == [("updated", FIRST, 1)]
    assert pull(github, 1)["title"] == first.title
