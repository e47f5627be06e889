"""GitHub on loopback: REST, git smart HTTP, webhooks, faults. One repository, objects in real git.

    with FakeGitHub() as fake:
        fake.commit({"models/ads/config.pbtxt": "name: 'ads'"})      # on main, by `owner`
        with connected(fake):                            # tests.github.wiring; make the client inside
            github.Github(...)                                       # believes it is api.github.com

What a test usually wants is a fixture; a test module says
`pytest_plugins = ["tests.github.fixtures"]` and takes

    fake        FakeGitHub with one commit on main (README.md)
    contract    GitHub's OpenAPI description (session; skips where npm is absent)
    wired       `fake`, with PyGithub's transport pointed at it while the test runs, for code that makes
                its own `Github` (bot.github.client.connect); at teardown every exchange of `fake`
                is checked against the contract, and one violation fails the test
    api         PyGithub's `Github` as the bot, over `wired`

Attributes
    url               "http://127.0.0.1:PORT": REST root for what cannot be wired in process (GITHUB_API_URL
                      and GITHUB_SERVER_URL of a subprocess). Addresses in replies follow the Host that was
                      asked: https://api.github.com through the wiring, this one directly.
    git_url           "http://127.0.0.1:PORT/owner/serve.git": clone, fetch, push; Basic x-access-token:TOKEN
    repository        Path of the bare repository
    full_name         "owner/serve"; owner, name, default_branch ("main")
    login, token      the bot: "fvec[bot]" and an installation token of it, all grants. As on GitHub such a
                      token may not GET /user (403): give FVEC_GITHUB_LOGIN with it.
    user(login, permission) -> token    a person: "admin" "maintain" "write" "triage" "read" "none"; token is a
                      personal one: GET /user works, check runs answer 403 as on GitHub.
                      There already: `owner` (admin), `maintainer` (maintain), `outsider` (read).
    token_of(login); app_token(grants=None, login=None) -> token of an App with fewer grants, or of
                      "github-actions[bot]"; token_expires(token, when)
    app               app.id, app.slug ("fvec"), app.installation (id), app.private_key (PEM text, made now)
    webhook_secret    str, what deliveries are signed with
    hook_url          where `deliver` and redelivery post to; None until set
    now               Callable[[], datetime], UTC; replace it to move the clock
    faults            Faults: see below
    requests          list[Exchange(method, path, query, body, status, reply, login, fault, performed)], REST
                      and git, in the order in which they ended; status 0: the connection was cut
    writes            those that change what people see: POST PATCH PUT DELETE of REST (no token minting)
                      and git-receive-pack

What people do (none of it goes through the API, none of it is in `requests`)
    commit(files, *, branch="main", login="owner", message=...) -> sha     branch is made from main if absent;
                      files: path -> str | bytes | None (delete) | Link(target) | Script(text) | Gitlink(sha)
    seed(files) -> sha                             commit(files)
    git(*arguments) -> str                         git in the bare repository
    sha(branch="main") -> str | None               where a branch is
    delete_branch(branch); protect(branch)         protect: pushes and ref updates are refused (GH006)
    open_pull(branch, *, login="maintainer", base="main", title=..., body="", fork=None, files=None) -> number
                      files are committed to the head first; fork="outsider/serve": the head is in a fork
    commit_to_pull(number, files, *, login) -> sha     one more commit on the head, in the fork too
    merge(number, *, login="maintainer", method="merge" | "squash") -> sha;  close(number);  reopen(number)
    open_issue(title, body="", *, login="owner") -> number;  close_issue(number)
    comment(number, body, *, login="maintainer", created_at=None) -> id;  edit_comment(id, body)
    release(tag, *, target="main", login="owner")

Going back
    noted() -> put_back                            put_back() brings back git and all else, any number of times;
                      `requests`, faults and clock go on

What is there now, as REST shows it (list of dict, oldest first)
    branches() -> dict[name, sha]                  refs/heads only
    pulls(); issues() (no pulls); comments(number); check_runs(sha)
    labels(number) -> list[str]; reactions(comment_id) -> list[str]

Faults
    faults.add(kind, method="WRITE", path="*", *, nth=1, times=1, retry_after_s=None) -> Fault
        kind      "502" "502 after" "cut" "cut after" (connection broken, reply lost) "403 permission"
                  "403 secondary" "403 primary" "429" "404" "409" "422" "500"
                  "... after": the request is performed first. All others: it is not.
        method    "GET" ...; "WRITE": any of POST PATCH PUT DELETE; "*": any
        path      fnmatch pattern on the path without query. "*" means REST alone; git is meant by a pattern with
                  ".git/", e.g. "*.git/git-receive-pack" (method POST)
        nth       the nth request from now on that matches; times: that many in a row
    faults.clear();  fault.hits -> how often it struck
    To end a job after any call: `connected(fake, after=callable(Exchange))` calls it in the client's thread after
    each reply (raise there). `faults.after = callable(Exchange)` is called in the server before the reply is sent
    (to end a client process).

Webhooks, signed, in GitHub's shape
    events.release(tag), events.comment(id), events.push(branch, before, after), events.pull(number, action),
    events.ping(), events.installation() -> (event name, payload dict)
    deliver(event, *, url=None, delivery=None, secret=None, body=None) -> Delivered(status, text, delivery)
        event: such a pair; delivery: an id to repeat; secret: another than ours; body: bytes to send instead,
        under the payload's signature. status 0: nobody listens
    GET /app/hook/deliveries lists what was delivered; POST .../attempts delivers it again to hook_url.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.github.app import App
from tests.github.faults import Exchange, Faults
from tests.github.git_store import BareRepository, Gitlink, Link, Script
from tests.github.people import People
from tests.github.server import GitHubServer
from tests.github.state import ALL_GRANTS, World
from tests.github.webhooks import Delivered, Event, Events, Hooks

__all__ = ["Exchange", "FakeGitHub", "Gitlink", "Link", "Script"]


class FakeGitHub(People):
    """One repository on a GitHub of one's own; see the module."""

    def __init__(self, owner: str = "owner", name: str = "serve") -> None:
        """Make the bare repository, the people and the App; nothing is answered before `with`."""
        self._folder = tempfile.TemporaryDirectory(prefix="fake-github-")
        self.repository = Path(self._folder.name) / owner / f"{name}.git"
        world = World(owner, name, BareRepository(self.repository, "main"))
        self.webhook_secret = f"fake-webhook-{secrets.token_hex(16)}"
        self._hooks = Hooks(world, self.webhook_secret)
        super().__init__(world, App(self._hooks.redeliver))
        self.events = Events(world, self.app)
        self.faults = Faults()
        self._server = GitHubServer(world, self.app, self.faults)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._tokens: dict[str, str] = {}
        for login, permission in (
            (owner, "admin"),
            ("maintainer", "maintain"),
            ("outsider", "read"),
        ):
            self.user(login, permission)
        self.login = f"{self.app.slug}[bot]"
        self.token = self.app_token()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._folder.cleanup()
        if error is None and self._server.failures:
            raise AssertionError("the fake itself broke:\n" + "\n".join(self._server.failures))

    @property
    def owner(self) -> str:
        """Return the owner's login."""
        return self.world.owner

    @property
    def name(self) -> str:
        """Return the repository's name without its owner."""
        return self.world.name

    @property
    def full_name(self) -> str:
        """Return "owner/name"."""
        return self.world.full_name

    @property
    def default_branch(self) -> str:
        """Return the default branch."""
        return self.world.default_branch

    @property
    def url(self) -> str:
        """Return the root of the REST side."""
        return self._server.url

    @property
    def git_url(self) -> str:
        """Return where git clones from and pushes to."""
        return f"{self.url}/{self.full_name}.git"

    @property
    def hook_url(self) -> str | None:
        """Return where webhooks go."""
        return self._hooks.url

    @hook_url.setter
    def hook_url(self, url: str | None) -> None:
        self._hooks.url = url

    @property
    def now(self) -> Callable[[], datetime]:
        """Return the clock."""
        return self.world.now

    @now.setter
    def now(self, clock: Callable[[], datetime]) -> None:
        self.world.now = clock

    @property
    def requests(self) -> list[Exchange]:
        """Return every exchange so far, in the order in which they ended."""
        return list(self._server.exchanges)

    @property
    def writes(self) -> list[Exchange]:
        """Return the exchanges that change what people see."""
        return [exchange for exchange in self._server.exchanges if exchange.is_write]

    # People and tokens

    def user(self, login: str, permission: str) -> str:
        """Add a person, or change what they may do; return their token."""
        with self.world.lock:
            self.world.add_user(login, permission)
            if login not in self._tokens:
                self._tokens[login] = self.world.add_token(login)
            return self._tokens[login]

    def token_of(self, login: str) -> str:
        """Return the token of a person who was added."""
        return self._tokens[login]

    def app_token(self, grants: Mapping[str, str] | None = None, login: str | None = None) -> str:
        """Return a token of an App: all grants unless told, `login` "fvec[bot]" unless told."""
        login = login or f"{self.app.slug}[bot]"
        with self.world.lock:
            self.world.add_user(login, "write", "Bot")
            return self.world.add_token(login, dict(ALL_GRANTS if grants is None else grants))

    def token_expires(self, token: str, when: datetime) -> None:
        """Let a token be good until `when`."""
        old = self.world.tokens[token]
        self.world.tokens[token] = type(old)(old.login, old.grants, when)

    def noted(self) -> Callable[[], None]:
        """Note all that is there; return what puts it back, as often as it is called.

        `requests`, the faults and the clock stay as they are then.
        """
        aside = Path(self._folder.name) / f"noted-{secrets.token_hex(4)}"
        with self.world.lock:
            shutil.copytree(self.repository, aside, symlinks=True)
            state, tokens = self.world.noted(), dict(self._tokens)

        def put_back() -> None:
            with self.world.lock:
                shutil.rmtree(self.repository)
                shutil.copytree(aside, self.repository, symlinks=True)
                self.world.put_back(state)
                self._tokens = dict(tokens)

        return put_back

    # Webhooks

    def deliver(
        self,
        event: Event,
        *,
        url: str | None = None,
        delivery: str | None = None,
        secret: str | None = None,
        body: bytes | None = None,
    ) -> Delivered:
        """Deliver an event of `events` to `url`, or to `hook_url`."""
        where = url or self.hook_url
        if where is None:
            raise ValueError("nowhere to deliver to: set hook_url")
        return self._hooks.deliver(event, where, delivery=delivery, secret=secret, body=body)
