"""GitHub's own description of its API: the fake keeps to it, and what does not is told."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from github import Auth, Github, GithubException

from tests.github.asking import BRANCH, REPO
from tests.github.contract import ALLOWED, Contract
from tests.github.fake_github import Exchange, FakeGitHub
from tests.github.rest import ROUTES
from tests.github.wiring import connected

pytest_plugins = ["tests.github.fixtures"]


class Everything:
    """One pass over all that the bot may ask for."""

    def __init__(self, fake: FakeGitHub, bot: Github, app: Github) -> None:
        self.fake, self.bot, self.app = fake, bot, app

    def bot_asks(self, method: str, path: str, body: object = None) -> Any:
        return self.bot.requester.requestJsonAndCheck(method, path, input=body)[1]

    def app_asks(self, method: str, path: str, body: object = None) -> Any:
        return self.app.requester.requestJsonAndCheck(method, path, input=body)[1]

    def git_data(self) -> None:
        ask = self.bot_asks
        main = self.fake.sha()
        blob = ask("POST", f"{REPO}/git/blobs", {"content": "eA==", "encoding": "base64"})["sha"]
        base = ask("GET", f"{REPO}/git/commits/{main}")["tree"]["sha"]
        entry = {"path": "models/x", "mode": "100644", "type": "blob", "sha": blob}
        tree = ask("POST", f"{REPO}/git/trees", {"base_tree": base, "tree": [entry]})["sha"]
        wanted = {"message": "A change", "tree": tree, "parents": [main]}
        commit = ask("POST", f"{REPO}/git/commits", wanted)["sha"]
        ask("POST", f"{REPO}/git/refs", {"ref": f"refs/heads/{BRANCH}", "sha": main})
        ask("PATCH", f"{REPO}/git/refs/heads/{BRANCH}", {"sha": commit, "force": False})
        assert ask("GET", f"{REPO}/git/ref/heads/{BRANCH}")["object"]["sha"] == commit
        assert ask("GET", f"{REPO}/git/blobs/{blob}")["content"] == "eA==\n"
        ask("GET", f"{REPO}/git/matching-refs/heads/fvec/")
        listed = ask("GET", f"{REPO}/git/trees/{commit}?recursive=1")["tree"]
        assert [line["path"] for line in listed] == ["README.md", "models", "models/x"]

    def repository(self) -> None:
        ask = self.bot_asks
        assert ask("GET", REPO)["default_branch"] == "main"
        assert ask("GET", f"{REPO}/branches/{BRANCH}")["name"] == BRANCH
        assert ask("GET", f"{REPO}/contents/models/x?ref={BRANCH}")["content"] == "eA==\n"
        assert [told["name"] for told in ask("GET", f"{REPO}/contents/models?ref={BRANCH}")] == [
            "x"
        ]
        assert ask("GET", f"{REPO}/commits/{BRANCH}")["files"][0]["filename"] == "models/x"
        assert ask("GET", f"{REPO}/compare/main...{BRANCH}")["ahead_by"] == 1
        self.fake.release("v1")
        latest = ask("GET", f"{REPO}/releases/latest")
        assert latest == ask("GET", f"{REPO}/releases/tags/v1")
        assert [latest] == ask("GET", f"{REPO}/releases")
        for login, role in (("maintainer", "maintain"), ("outsider", "read")):
            told = ask("GET", f"{REPO}/collaborators/{login}/permission")
            assert (told["user"]["login"], told["role_name"]) == (login, role)

    def pull_requests(self) -> None:
        ask = self.bot_asks
        wanted = {"title": "Faster", "head": BRANCH, "base": "main", "body": "", "draft": True}
        number = ask("POST", f"{REPO}/pulls", wanted)["number"]
        self.fake.open_pull("topic", login="outsider", fork="outsider/serve", files={"a": "1"})
        assert len(ask("GET", f"{REPO}/pulls?state=all&head={quote(f'owner:{BRANCH}')}")) == 1
        assert len(ask("GET", f"{REPO}/pulls?per_page=1")) == 1
        ask("PATCH", f"{REPO}/pulls/{number}", {"body": "Evidence", "state": "closed"})
        ask("PATCH", f"{REPO}/pulls/{number}", {"state": "open"})
        assert ask("GET", f"{REPO}/pulls/{number}")["body"] == "Evidence"
        assert len(ask("GET", f"{REPO}/pulls/{number}/commits")) == 1
        assert ask("GET", f"{REPO}/pulls/{number}/files")[0]["status"] == "added"

    def issues(self) -> None:
        ask = self.bot_asks
        wanted = {"title": "Dashboard", "body": "", "labels": ["fvec"]}
        number = ask("POST", f"{REPO}/issues", wanted)["number"]
        ask("PATCH", f"{REPO}/issues/{number}", {"body": "Runs"})
        path = f"{REPO}/issues/{number}"
        assert ask("GET", path)["body"] == "Runs"
        assert ask("POST", f"{path}/labels", ["fvec:stale"])[-1]["name"] == "fvec:stale"
        assert len(ask("POST", f"{path}/labels", {"labels": ["fvec"]})) == 2
        assert len(ask("DELETE", f"{path}/labels/fvec%3Astale")) == 1
        assert [told["name"] for told in ask("GET", f"{path}/labels")] == ["fvec"]
        assert ask("GET", f"{REPO}/issues?creator={quote('fvec[bot]')}&state=all&labels=fvec")
        comment = ask("POST", f"{path}/comments", {"body": "Measured"})["id"]
        ask("PATCH", f"{REPO}/issues/comments/{comment}", {"body": "Measured again"})
        assert ask("GET", f"{REPO}/issues/comments/{comment}")["body"] == "Measured again"
        reactions = f"{REPO}/issues/comments/{comment}/reactions"
        first, again = (ask("POST", reactions, {"content": "eyes"}) for _ in range(2))
        assert first == again
        assert ask("GET", reactions) == [first]
        assert len(ask("GET", f"{path}/comments?per_page=100&page=1")) == 1

    def checks(self) -> None:
        ask = self.bot_asks
        head = self.fake.sha(BRANCH)
        started = {"name": "fvec", "head_sha": head, "status": "in_progress", "external_id": "run"}
        path = f"{REPO}/check-runs/{ask('POST', f'{REPO}/check-runs', started)['id']}"
        output = {"title": "Inconclusive", "summary": "Not enough.", "text": "Look at it."}
        ended = {"status": "completed", "conclusion": "neutral", "output": output}
        assert ask("PATCH", path, ended)["status"] == "completed"
        assert ask("GET", path)["output"]["text"] == "Look at it."
        told = ask("GET", f"{REPO}/commits/{head}/check-runs?check_name=fvec&filter=all")
        assert (told["total_count"], told["check_runs"][0]["conclusion"]) == (1, "neutral")

    def errors(self) -> None:
        for method, path, body in (
            ("GET", f"{REPO}/pulls/99", None),
            ("GET", "/user", None),
            ("GET", f"{REPO}/commits/none", None),
            ("POST", f"{REPO}/git/refs", {"ref": f"refs/heads/{BRANCH}", "sha": "0" * 40}),
            ("POST", f"{REPO}/pulls", {"title": "t", "head": BRANCH, "base": "main"}),
            ("POST", f"{REPO}/issues", {"title": "t", "body": "x" * 65_537}),
        ):
            with pytest.raises(GithubException):
                self.bot_asks(method, path, body)

    def the_app(self) -> None:
        ask = self.app_asks
        assert ask("GET", "/app")["slug"] == "fvec"
        number = ask("GET", f"{REPO}/installation")["id"]
        path = f"/app/installations/{number}"
        assert ask("GET", path)["app_slug"] == "fvec"
        wanted = {"permissions": {"contents": "read"}, "repositories": ["serve"]}
        token = ask("POST", f"{path}/access_tokens", wanted)
        assert token["permissions"] == {"contents": "read", "metadata": "read"}
        self.fake.deliver(self.fake.events.ping(), url="http://127.0.0.1:9/webhook")
        (delivery,) = ask("GET", "/app/hook/deliveries?per_page=100")
        ask("POST", f"/app/hook/deliveries/{delivery['id']}/attempts")
        told = ask("GET", "/app/hook/deliveries?per_page=100")
        assert [one["redelivery"] for one in told] == [True, False]

    def a_person(self, person: Github) -> None:
        assert person.get_user().login == "maintainer"


def client(auth: Auth.Auth) -> Github:
    return Github(auth=auth, seconds_between_requests=0, seconds_between_writes=0, retry=None)


def test_every_operation_of_the_list_is_of_githubs_shape(wired, contract):
    app = client(Auth.AppAuth(wired.app.id, wired.app.private_key))
    every = Everything(wired, client(Auth.Token(wired.token)), app)

    every.git_data()
    every.repository()
    every.pull_requests()
    every.issues()
    every.checks()
    every.errors()
    every.the_app()
    every.a_person(client(Auth.Token(wired.token_of("maintainer"))))

    assert contract.violations(wired.requests) == []
    found = (contract.description.find(one.method, one.path) for one in wired.requests)
    assert {operation.name for operation in found if operation} == set(ALLOWED)


def test_the_fake_serves_what_the_bot_may_ask_for_and_nothing_else():
    assert sorted(f"{known.method} {known.template}" for known in ROUTES) == sorted(ALLOWED)


def exchange(method: str, path: str, body: object = None, **query: str) -> Exchange:
    """An exchange of which only the request counts."""
    return Exchange(method, f"{REPO}{path}", query, body, status=502, fault="502")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (exchange("PUT", "/pulls/1/merge"), "not an operation that the bot may ask for"),
        (exchange("POST", "/releases", {"tag_name": "v1"}), "not an operation that the bot"),
        (exchange("DELETE", f"/git/refs/heads/{BRANCH}"), "not an operation that the bot may"),
        (exchange("PUT", "/contents/x", {"message": "m"}), "not an operation that the bot may"),
        (exchange("POST", "/issues", {}), '"title" is a required property'),
        (exchange("POST", "/issues"), "request: the body is missing"),
        (exchange("POST", "/issues", {"title": "t", "label": []}), "unknown member label"),
        (exchange("POST", "/pulls", {"head": "h", "base": "b", "draft": "yes"}), "draft"),
        (exchange("GET", "/pulls", state="merged"), "query parameter state"),
        (exchange("GET", "/pulls", page="first"), "query parameter page"),
        (exchange("GET", "/pulls", author="fvec"), "unknown query parameter author"),
        (exchange("GET", "/pulls/first"), "path parameter pull_number"),
        (exchange("PATCH", "/git/refs/heads/main", {"sha": "0" * 40}), "not the bot's own"),
        (
            exchange("POST", "/git/refs", {"ref": "refs/heads/release", "sha": "0" * 40}),
            "a ref that is not the bot's own: heads/release",
        ),
    ],
)
def test_the_contract_tells_a_wrong_request(contract, wrong, told):
    violations = contract.violations([wrong])

    assert violations
    assert told in " ".join(violations)


def test_deliveries_are_paged_by_a_cursor_alone(contract):
    wrong = Exchange("GET", "/app/hook/deliveries", {"page": "2"}, None, status=502, fault="502")

    assert contract.violations([wrong]) == [
        "GET /app/hook/deliveries: unknown query parameter page"
    ]


def test_the_contract_tells_a_wrong_reply(contract):
    path = f"{REPO}/issues/comments/7"
    one = Exchange("GET", path, {}, None, status=200, reply={"id": "7", "text": ""})
    strange = Exchange("GET", path, {}, None, status=302, reply=None)

    violations = contract.violations([one, strange])

    name = "GET /repos/{owner}/{repo}/issues/comments/{comment_id}"
    assert f"{name}: reply 200: unknown member text" in violations
    assert f"{name}: reply 302: a status that is not described" in violations
    assert any("reply 200: id:" in told for told in violations)


def test_an_operation_that_github_does_not_have_cannot_be_allowed(contract):
    with pytest.raises(ValueError, match="GitHub's description has no operation"):
        Contract({"paths": {}, "components": {}}, ["GET /repos/{owner}/{repo}/fvec"])


def test_pygithub_reaches_nobody_but_the_fake(fake):
    with connected(fake):
        elsewhere = Github(base_url="https://github.example.com/api/v3", retry=None)
        plain = Github(base_url="http://api.github.com", retry=None)

        for other in (elsewhere, plain):
            with pytest.raises(AssertionError):
                other.requester.requestJsonAndCheck("GET", "/user")


class Killed(BaseException):
    """What a test raises where a job is to end."""


def test_a_job_can_be_ended_after_any_call(fake):
    def ends(after: Exchange) -> None:
        if after.is_write:
            raise Killed

    with connected(fake, after=ends):
        bot = client(Auth.Token(fake.token))
        with pytest.raises(Killed):
            bot.requester.requestJsonAndCheck("POST", f"{REPO}/issues", input={"title": "Once"})

    assert len(fake.issues()) == 1
