"""Which names of branches are asked for, and how: what git takes, and nothing that misleads."""

from collections.abc import Iterator

import pytest
from github import Auth

from bot.forge.base import PullRequest, is_branch_name
from bot.github.api import Api
from bot.github.repository import Repository
from layers.errors import InvalidInput
from tests.passing_time import PassingTime
from tests.scripted_http import Said, ScriptedServer, scripted_server

SHA = "a" * 40


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("main", "main"),
        ("dev+gpu", "dev%2Bgpu"),
        ("release#1", "release%231"),
        ("users/me@work", "users/me%40work"),
        ("100%", "100%25"),
        ("主", "%E4%B8%BB"),
    ],
)
def test_a_name_that_git_takes_is_asked_for(server: ScriptedServer, name: str, asked: str) -> None:
    clock = PassingTime().clock
    api = Api(Auth.Token("x" * 8), base_url=server.url, throttle=False, clock=clock)
    server.answers = [Said(body={"ref": f"refs/heads/{name}", "object": {"sha": SHA}})]

    assert Repository(api, "owner/serve", "fvec[bot]").branch_sha(name) == SHA
    assert server.lines == [f"GET /repos/owner/serve/git/ref/heads/{asked}"]
    assert PullRequest("fvec/features/a", name, SHA, "A title", "A body").base == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "-x", "/a", "a/", "a//b", "a..b", "a.", "a b", "a\tb", "a\nb", "a\n", "a~1", "a^"),
        *("a:b", "a?", "a*", "a[b", "a\\b", "a@{1}", "@", ".a", "a/.b", "a.lock", "a.lock/b"),
        *("\u202ea", "a\x7f", "x" * 201),
    ],
)
def test_what_git_takes_for_no_name_is_none(name: str) -> None:
    assert not is_branch_name(name)
    with pytest.raises(InvalidInput, match="not a base name"):
        PullRequest("fvec/features/a", name, SHA, "A title", "A body")
