"""Requests to GitHub: what is repeated, what is waited for, what comes out of an error.

The other side is a real HTTP server on loopback that answers what a test tells it to.
"""

import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from github import Auth

from bot.github import api as api_module
from bot.github.api import Api, check_api_url, path_of
from bot.github.errors import (
    Conflict,
    Forbidden,
    GitHubError,
    NotFound,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from bot.github.replies import LabelReply, ObjectReply, UserReply
from layers.errors import InvalidInput
from tests.passing_time import PassingTime
from tests.scripted_http import CUT, Said, ScriptedServer, scripted_server

TOKEN = "canary-" + "token-" + "0123456789"
SHA = "a" * 40
NOW = PassingTime().now


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def passing() -> PassingTime:
    return PassingTime()


@pytest.fixture
def api(server: ScriptedServer, passing: PassingTime) -> Api:
    return Api(
        Auth.Token(TOKEN),
        base_url=server.url,
        throttle=False,
        secrets=lambda: (TOKEN,),
        clock=passing.clock,
    )


def post(api: Api, look: Callable[[], ObjectReply | None] = lambda: None) -> ObjectReply:
    return api.repeat(lambda: api.send("POST", "/things", ObjectReply, {"a": 1}), look)


def test_a_request_carries_token_version_and_name(server: ScriptedServer, api: Api) -> None:
    server.answers = [Said(body={"login": "octocat", "more": [1]})]

    assert api.get("/user", UserReply, {"a": "b c"}) == UserReply(login="octocat")

    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("GET", "/user?a=b+c", None)
    told = {name: asked.headers[name] for name in ("Authorization", "Accept", "User-Agent")}
    assert told == {
        "Authorization": f"token {TOKEN}",
        "Accept": "application/vnd.github+json",
        "User-Agent": "fvec",
    }
    assert asked.headers["X-GitHub-Api-Version"] == "2022-11-28"


def test_requests_are_kept_apart_as_github_advises_unless_told_otherwise(api: Api) -> None:
    assert kept_apart_s(Api(Auth.Token(TOKEN))) == (0.25, 1.0)
    assert kept_apart_s(api) == (None, None)


def kept_apart_s(api: Api) -> tuple[float | None, float | None]:
    """Return the seconds between requests, and between writes, as PyGithub was told them."""
    told = vars(api._requester)
    return told["_Requester__seconds_between_requests"], told["_Requester__seconds_between_writes"]


@pytest.mark.parametrize(
    "broken", [Said(502, "<html>"), Said(500, {}), CUT, Said(200, '{"login": ')]
)
def test_a_read_is_repeated(
    server: ScriptedServer, api: Api, passing: PassingTime, broken: Said | str
) -> None:
    server.answers = [broken, broken, Said(body={"login": "octocat"})]

    assert api.get("/user", UserReply).login == "octocat"
    assert server.lines == ["GET /user"] * 3
    assert passing.slept == [1.0, 2.0]


@pytest.mark.parametrize(
    ("broken", "status", "told"),
    [
        (Said(502, "<html>"), 502, "GitHub answered 502 to GET /user"),
        (CUT, 0, "GET /user: the connection broke (ConnectionError)"),
        (Said(200, "[1, "), 0, "GET /user: the answer is cut off or not JSON"),
        (Said(200, "<html>"), 0, "GET /user: the answer is cut off or not JSON"),
        (Said(200, "[" * 100_000), 0, "GET /user: the answer is cut off or not JSON"),
    ],
)
def test_a_read_fails_after_three(server: ScriptedServer, api: Api, broken, status, told) -> None:
    server.answers = [broken] * 4

    with pytest.raises(Unavailable) as caught:
        api.get("/user", UserReply)

    assert (caught.value.status, caught.value.message) == (status, told)
    assert len(server.asked) == 3


@pytest.mark.parametrize("broken", [Said(502, {}), CUT, Said(201, '{"sha": ')])
def test_a_write_that_was_done_is_not_done_again(server: ScriptedServer, api: Api, broken) -> None:
    done = ObjectReply(sha=SHA)
    server.answers = [broken]

    assert post(api, lambda: done) == done
    assert server.lines == ["POST /things"]
    assert server.asked[0].body == {"a": 1}


def test_a_write_that_was_not_done_is_repeated(
    server: ScriptedServer, api: Api, passing: PassingTime
) -> None:
    server.answers = [CUT, Said(502, {}), Said(201, {"sha": SHA})]

    assert post(api) == ObjectReply(sha=SHA)
    assert server.lines == ["POST /things"] * 3
    assert passing.slept == [1.0, 2.0]


def test_after_the_last_failure_it_is_looked_for_once_more(
    server: ScriptedServer, api: Api
) -> None:
    server.answers = [Said(502, {})] * 3
    looks = iter([None, None, ObjectReply(sha=SHA)])

    assert post(api, lambda: next(looks)) == ObjectReply(sha=SHA)
    assert server.lines == ["POST /things"] * 3


def test_a_write_is_tried_three_times_at_most(server: ScriptedServer, api: Api) -> None:
    server.answers = [Said(503, {"message": "Unicorn"})] * 4

    with pytest.raises(Unavailable, match="GitHub answered 503 to POST /things: Unicorn"):
        post(api)

    assert len(server.asked) == 3


def test_what_may_be_done_twice_is_just_repeated(server: ScriptedServer, api: Api) -> None:
    server.answers = [Said(502, {}), Said(204)]

    api.do("DELETE", "/things/1")

    assert server.lines == ["DELETE /things/1"] * 2


@pytest.mark.parametrize(
    ("limit", "wait_s"),
    [
        (Said(403, {"message": "a secondary rate limit"}, {"Retry-After": "7"}), 7.0),
        (Said(403, {"message": "You have exceeded a secondary rate limit"}), 60.0),
        (Said(429, {"message": "Too Many Requests"}), 60.0),
        (
            Said(
                403,
                {"message": "API rate limit exceeded"},
                {
                    "X-RateLimit-Remaining": "0",
                    "X-RateLimit-Reset": str(int(NOW.timestamp()) + 20),
                },
            ),
            21.0,
        ),
    ],
)
def test_a_limit_is_waited_for_and_then_written(server, api, passing, limit, wait_s) -> None:
    server.answers = [limit, Said(201, {"sha": SHA})]

    def look() -> ObjectReply:
        raise AssertionError("what was refused was not done")

    assert post(api, look) == ObjectReply(sha=SHA)
    assert passing.slept == [wait_s]
    assert server.lines == ["POST /things"] * 2


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_long_limit_is_an_error_at_once(server, api, passing, method: str) -> None:
    reset = str(int(NOW.timestamp()) + 1800)
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    server.answers = [Said(403, {"message": "API rate limit exceeded"}, headers)]

    with pytest.raises(RateLimited) as caught:
        api.get("/user", UserReply) if method == "GET" else post(api)

    assert caught.value.retry_at == NOW + timedelta(seconds=1801)
    assert passing.slept == []
    assert len(server.asked) == 1


def test_a_limit_that_stays_is_an_error_in_the_end(
    server: ScriptedServer, api: Api, passing: PassingTime
) -> None:
    server.answers = [Said(429, {"message": "Too Many Requests"}, {"Retry-After": "5"})] * 4

    with pytest.raises(RateLimited):
        post(api)

    assert passing.slept == [5.0, 5.0]
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, GitHubError),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (422, Conflict),
        (307, GitHubError),
    ],
)
def test_a_refusal_is_not_repeated(
    server: ScriptedServer, api: Api, passing: PassingTime, status, kind
) -> None:
    server.answers = [Said(status, {"message": "No"})]

    with pytest.raises(GitHubError) as caught:
        post(api)

    assert type(caught.value) is kind
    assert caught.value.status == status
    assert (len(server.asked), passing.slept) == (1, [])


def test_what_is_not_there_is_none(server: ScriptedServer, api: Api) -> None:
    server.answers = [Said(404, {"message": "Not Found"})]

    assert api.find("/user", UserReply) is None


def test_a_redirect_to_another_host_is_not_followed(server: ScriptedServer, api: Api) -> None:
    server.answers = [Said(301, {}, {"Location": "https://elsewhere.example/user"})]

    with pytest.raises(GitHubError, match="sent on to another"):
        api.get("/user", UserReply)

    assert len(server.asked) == 1


def test_a_list_is_read_to_its_end(server: ScriptedServer, api: Api) -> None:
    def link(page: str) -> dict[str, str]:
        first = '<https://elsewhere.example/a?page=1>; rel="first"'
        return {"Link": f'{first}, <https://elsewhere.example/b?x=1&{page}>; rel="next"'}

    server.answers = [
        Said(body=[{"name": "a"}, {"name": "b"}], headers=link("page=2")),
        Said(body=[], headers=link("cursor=v1_%2F")),
        Said(body=[{"name": "c"}]),
    ]

    names = [label.name for label in api.pages("/labels", LabelReply, {"state": "all"})]

    assert names == ["a", "b", "c"]
    asked = "per_page=100&state=all"
    places = ("", "page=2&", "cursor=v1_%2F&")
    assert server.lines == [f"GET /labels?{place}{asked}" for place in places]


def test_a_list_in_an_object_is_read(server: ScriptedServer, api: Api) -> None:
    server.answers = [Said(body={"total_count": 1, "labels": [{"name": "a"}]})]

    assert [i.name for i in api.pages("/labels", LabelReply, key="labels")] == ["a"]


def test_a_list_without_an_end_is_not_worked_through(server, api, monkeypatch) -> None:
    monkeypatch.setattr(api_module, "MOST_PAGES", 2)
    link = {"Link": '<x?page=2>; rel="next"'}
    server.answers = [Said(body=[{"name": "a"}], headers=link)] * 3

    with pytest.raises(GitHubError, match="GET /labels lists more than 200 entries"):
        list(api.pages("/labels", LabelReply))

    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"login": 7}, "login"),
        ({"login": ""}, "login"),
        ({"login": "x" * 300}, "login"),
        ({}, "login"),
        ([], "all of it"),
        (None, "all of it"),
        ("text", "all of it"),
    ],
)
def test_an_answer_of_another_form_is_refused(server: ScriptedServer, api: Api, body, told) -> None:
    server.answers = [Said(body=json.dumps(body))]

    with pytest.raises(GitHubError) as caught:
        api.get("/user", UserReply)

    assert caught.value.message == (
        f"the answer to GET /user is not as GitHub describes it: {told}"
    )


def test_a_list_that_is_none_is_refused(server: ScriptedServer, api: Api) -> None:
    server.answers = [Said(body={"message": "a"})]

    with pytest.raises(GitHubError, match="not as GitHub describes it: it is no list"):
        list(api.pages("/labels", LabelReply))


def test_an_answer_has_a_size(server: ScriptedServer, api: Api, monkeypatch) -> None:
    monkeypatch.setattr(api_module, "_LARGEST_ANSWER", 20)
    server.answers = [Said(body={"login": "x" * 30})]

    with pytest.raises(GitHubError, match="it has more than 20 characters"):
        api.get("/user", UserReply)


@pytest.mark.parametrize("answer", [Said(422, {"message": f"you sent {TOKEN}"}), CUT])
def test_the_token_is_in_no_error(server: ScriptedServer, api: Api, answer) -> None:
    server.answers = [answer] * 3

    with pytest.raises(GitHubError) as caught:
        post(api)

    error = caught.value
    assert TOKEN not in f"{error} {error!r} {error.args}"
    assert (error.__cause__, error.__context__) == (None, None)


def test_answers_are_not_logged(server: ScriptedServer, api: Api, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    server.answers = [Said(body={"login": "octocat", "token": TOKEN})]

    api.get("/user", UserReply)

    assert TOKEN not in caplog.text
    assert "octocat" not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "http://api.github.com",
        "http://127.0.0.1.example",
        "https://user:word@api.github.com",
        "https://api.github.com?x=1",
        "https://api.github.com#x",
        "https://",
        "ftp://127.0.0.1",
        "api.github.com",
        "",
    ],
)
def test_an_address_is_https_or_on_this_machine(url: str) -> None:
    with pytest.raises(InvalidInput, match="not an address of GitHub's API"):
        check_api_url(url)


@pytest.mark.parametrize(
    "url", ["https://api.github.com", "https://github.example/api/v3", "http://127.0.0.1:4900"]
)
def test_an_address_is_taken_without_its_last_slash(url: str) -> None:
    assert check_api_url(f"{url}/") == url


def test_a_path_is_quoted_part_by_part() -> None:
    path = path_of("repos", "owner/serve", "issues", "1", "labels", "a b/c?d#e%\u00e9[bot]")

    assert path == "/repos/owner/serve/issues/1/labels/a%20b/c%3Fd%23e%25%C3%A9%5Bbot%5D"


@pytest.mark.parametrize("part", ["", ".", "..", "a//b", "a/../b", "/a", "a/"])
def test_a_part_cannot_leave_its_place(part: str) -> None:
    with pytest.raises(InvalidInput, match="not a name that GitHub knows"):
        path_of("repos", "owner/serve", part)


def test_a_next_page_without_a_place_is_refused(server: ScriptedServer, api: Api) -> None:
    server.answers = [Said(body=[], headers={"Link": '<https://elsewhere.example>; rel="next"'})]

    with pytest.raises(GitHubError, match="its next page has no place"):
        list(api.pages("/labels", LabelReply))
