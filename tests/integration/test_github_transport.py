"""Real git over smart HTTP on loopback: fetch, push with a lease, and what may go wrong."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bot.github import transport
from bot.github.auth import TokenCredentials
from bot.github.errors import (
    Forbidden,
    GitHubError,
    NotFound,
    Unauthorized,
    Unavailable,
)
from bot.github.transport import Moved, PushRefused, Remote, TimedOut
from layers.errors import InvalidInput, ToolFailed
from layers.repository import git
from tests.github.fake_github import FakeGitHub
from tests.github_remote import checkout_of, commit, plain_git, remote_of

pytest_plugins = ["tests.github.fixtures"]

BRANCH = "fvec/features/lookups-one-pass-ads"
RECEIVE = "*.git/git-receive-pack"
# Made up of parts, so that nobody takes it for a token that was lost.
CANARY = "".join(("gh", "s_", "canary", "0" * 30))


@pytest.fixture
def remote(fake: FakeGitHub) -> Remote:
    return remote_of(fake)


@pytest.fixture
def root(remote: Remote, tmp_path: Path) -> Path:
    return checkout_of(remote, tmp_path / "checkout")


def pushes(fake: FakeGitHub) -> int:
    return len([exchange for exchange in fake.writes if exchange.is_git])


# Reading


def test_a_branch_is_fetched_with_what_it_holds(fake, remote, root) -> None:
    made = fake.commit({"models/ads/config.pbtxt": "name: 'ads'\n"}, branch="topic")

    remote.fetch(root, "refs/heads/topic:refs/fvec/heads/topic")

    assert git.resolve(root, "refs/fvec/heads/topic") == made
    assert git.git(root, "show", f"{made}:models/ads/config.pbtxt") == "name: 'ads'\n"
    assert git.tip(root, "main") == fake.sha("main")


def test_branches_are_fetched_by_a_pattern(fake, remote, root) -> None:
    made = {name: fake.commit({name: "x"}, branch=name) for name in ("fvec/a", "fvec/b")}

    remote.fetch(root, "+refs/heads/fvec/*:refs/fvec/heads/*")

    assert {name: git.resolve(root, f"refs/fvec/heads/{name[5:]}") for name in made} == made


def test_the_head_of_a_pull_request_from_a_fork_is_fetched(fake, remote, root) -> None:
    number = fake.open_pull("topic", fork="outsider/serve", files={"a.py": "a = 1\n"})

    remote.fetch(root, f"+refs/pull/{number}/head:refs/fvec/pulls/{number}")

    assert git.git(root, "show", f"refs/fvec/pulls/{number}:a.py") == "a = 1\n"


def test_a_commit_is_fetched_by_its_name(fake, remote, root) -> None:
    first = fake.commit({"a": "1"}, branch="topic")
    fake.commit({"a": "2"}, branch="topic")

    remote.fetch(root, f"{first}:refs/fvec/one")

    assert git.resolve(root, "refs/fvec/one") == first


def test_a_bare_mirror_is_brought_up_to_date(fake, remote, tmp_path) -> None:
    mirror = tmp_path / "mirror.git"
    mirror.mkdir()
    git.git(mirror, "init", "--quiet", "--bare")
    for text in ("1", "2"):
        made = fake.commit({"a": text})
        remote.fetch(mirror, "+refs/heads/main:refs/fvec/heads/main")
        assert git.resolve(mirror, "refs/fvec/heads/main") == made


def test_what_is_not_forced_is_not_overwritten(fake, remote, root) -> None:
    fake.commit({"a": "1"}, branch="topic")
    remote.fetch(root, "refs/heads/topic:refs/kept/topic")
    before = git.resolve(root, "refs/kept/topic")
    fake.delete_branch("topic")
    after = fake.commit({"a": "2"}, branch="topic")

    with pytest.raises(ToolFailed, match="non-fast-forward"):
        remote.fetch(root, "refs/heads/topic:refs/kept/topic")
    assert git.resolve(root, "refs/kept/topic") == before
    remote.fetch(root, "+refs/heads/topic:refs/kept/topic")
    assert git.resolve(root, "refs/kept/topic") == after


def test_a_branch_that_is_not_there_is_told(remote, root) -> None:
    with pytest.raises(NotFound, match="couldn't find remote ref") as caught:
        remote.fetch(root, "refs/heads/gone:refs/fvec/gone")
    assert "deleted" in (caught.value.hint or "")


def test_a_malformed_object_never_reaches_the_checkout(fake, remote, root) -> None:
    store = fake.world.git
    blob = store.write_blob(b"[core]\n")
    listed = b"100644 .git\0" + bytes.fromhex(blob)
    tree = store.run("hash-object", "-t", "tree", "--literally", "-w", "--stdin", stdin=listed)
    made = store.write_commit(tree.decode().strip(), [], "Odd", "outsider", fake.world.second())
    store.update_ref("refs/heads/odd", made)

    with pytest.raises(ToolFailed, match="hasDotgit"):
        remote.fetch(root, "refs/heads/odd:refs/fvec/odd")
    with pytest.raises(ToolFailed):
        git.resolve(root, made)


def test_where_a_branch_is(fake, remote) -> None:
    fake.commit({"a": "1"}, branch="topic/main")
    assert remote.head("main") == fake.sha("main")
    assert remote.head("topic/main") == fake.sha("topic/main")
    assert remote.head("absent") is None


@pytest.mark.parametrize("kind", ["502", "cut"])
def test_reading_is_repeated_after_a_broken_answer(fake, remote, kind) -> None:
    fault = fake.faults.add(kind, "*", "*.git/*")
    assert remote.head("main") == fake.sha("main")
    assert fault.hits == 1


def test_reading_is_given_up_in_the_end(fake, remote) -> None:
    fault = fake.faults.add("502", "*", "*.git/*", times=transport.TRIES)
    with pytest.raises(Unavailable) as caught:
        remote.head("main")
    assert caught.value.status == 502
    assert fault.hits == transport.TRIES


# Pushing


def test_a_branch_is_made_moved_and_left_where_it_is(fake, remote, root) -> None:
    first = commit(root, {"a.py": "a = 1\n"})
    remote.push(root, BRANCH, first, expected=None)
    assert fake.sha(BRANCH) == first

    other = commit(root, {"a.py": "a = 2\n"})  # not on top of the first
    remote.push(root, BRANCH, other, expected=first)
    assert fake.sha(BRANCH) == other

    remote.push(root, BRANCH, other, expected=first)  # once more, after a kill
    assert fake.sha(BRANCH) == other
    assert fake.git("show", f"{BRANCH}:a.py") == "a = 2"
    assert fake.branches().keys() == {"main", BRANCH}


def test_a_branch_that_somebody_moved_stays_theirs(fake, remote, root) -> None:
    first, mine = commit(root, {"a.py": "a = 1\n"}), commit(root, {"a.py": "a = 2\n"})
    remote.push(root, BRANCH, first, expected=None)
    theirs = fake.commit({"b.py": "b = 1\n"}, branch=BRANCH, login="maintainer")

    for expected in (first, None):
        with pytest.raises(Moved) as caught:
            remote.push(root, BRANCH, mine, expected=expected)
        assert "stale info" in caught.value.message
    assert fake.sha(BRANCH) == theirs


def test_a_branch_that_was_deleted_is_not_made_again(fake, remote, root) -> None:
    first, mine = commit(root, {"a.py": "a = 1\n"}), commit(root, {"a.py": "a = 2\n"})
    remote.push(root, BRANCH, first, expected=None)
    fake.delete_branch(BRANCH)
    with pytest.raises(Moved):
        remote.push(root, BRANCH, mine, expected=first)
    assert fake.sha(BRANCH) is None


def test_somebody_is_faster_while_the_push_is_on_its_way(fake, remote, root) -> None:
    mine, theirs = commit(root, {"a.py": "a = 1\n"}), list[str]()

    def push_too(exchange) -> None:
        if exchange.query.get("service") == "git-receive-pack" and not theirs:
            theirs.append(fake.commit({"b.py": "b = 1\n"}, branch=BRANCH, login="maintainer"))

    fake.faults.after = push_too
    with pytest.raises(Moved):
        remote.push(root, BRANCH, mine, expected=None)
    assert [fake.sha(BRANCH)] == theirs


def test_of_two_who_push_at_once_one_is_told(fake, remote, root) -> None:
    made = [commit(root, {"a.py": f"a = {n}\n"}) for n in range(2)]
    told: list[type[Exception]] = []

    def push(sha: str) -> None:
        try:
            remote.push(root, BRANCH, sha, expected=None)
        except GitHubError as error:
            told.append(type(error))

    threads = [threading.Thread(target=push, args=(sha,)) for sha in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [Moved]
    assert fake.sha(BRANCH) in made


@pytest.mark.parametrize("kind", ["502 after", "cut after"])
def test_a_push_whose_answer_was_lost_is_not_repeated(fake, remote, root, kind) -> None:
    made = commit(root, {"a.py": "a = 1\n"})
    fault = fake.faults.add(kind, "POST", RECEIVE)
    remote.push(root, BRANCH, made, expected=None)
    assert fault.hits == 1
    assert fake.sha(BRANCH) == made
    assert pushes(fake) == 1


@pytest.mark.parametrize("kind", ["502", "cut"])
def test_a_push_that_did_not_arrive_is_repeated(fake, remote, root, kind) -> None:
    made = commit(root, {"a.py": "a = 1\n"})
    fault = fake.faults.add(kind, "POST", RECEIVE)
    remote.push(root, BRANCH, made, expected=None)
    assert fault.hits == 1
    assert fake.sha(BRANCH) == made
    assert pushes(fake) == 2


def test_a_push_is_given_up_in_the_end(fake, remote, root) -> None:
    fault = fake.faults.add("502", "POST", RECEIVE, times=9)
    with pytest.raises(Unavailable):
        remote.push(root, BRANCH, commit(root, {"a.py": "a = 1\n"}), expected=None)
    assert fault.hits == transport.TRIES
    assert fake.sha(BRANCH) is None


def test_a_protected_branch_is_told_with_what_protects_it(fake, remote, root) -> None:
    fake.protect(BRANCH)
    with pytest.raises(PushRefused, match="GH006: Protected branch") as caught:
        remote.push(root, BRANCH, commit(root, {"a.py": "a = 1\n"}), expected=None)
    assert "fvec/*" in (caught.value.hint or "")
    assert fake.sha(BRANCH) is None


def test_a_large_file_is_pushed(fake, remote, root) -> None:
    made = commit(
        root, {"a.py": "".join(f"{n * 2654435761 % 2**32:08x}\n" for n in range(400_000))}
    )
    remote.push(root, BRANCH, made, expected=None)
    assert fake.sha(BRANCH) == made


def test_a_shallow_checkout_pushes(fake, remote, tmp_path) -> None:
    fake.commit({"a.py": "a = 0\n"})
    source = fake.repository.as_uri()
    plain_git(tmp_path, "clone", "--quiet", "--depth=1", source, "shallow")
    root = tmp_path / "shallow"
    made = commit(root, {"a.py": "a = 1\n"})
    fake.commit({"b.py": "b = 1\n"})  # so that the base is no head any more
    remote.push(root, BRANCH, made, expected=None)
    assert fake.sha(BRANCH) == made


@pytest.mark.parametrize(
    "branch",
    [
        "main",
        "fvec",
        "fvec/",
        "-fvec/a",
        "fvec/-a",
        "fvec/a.lock",
        "fvec/a..b",
        "fvec/.a",
        "fvec/a b",
        "refs/heads/fvec/a",
        "fvec//a",
        "fvec/a/",
        "fvec/a\n",
        "feature/fvec/a",
        "fvec/a.",
        "FVEC/a",
    ],
)
def test_the_bot_pushes_to_branches_of_its_own_alone(fake, remote, root, branch) -> None:
    with pytest.raises(InvalidInput, match="no branch of the bot"):
        remote.push(root, branch, git.resolve(root, "HEAD"), expected=None)
    assert pushes(fake) == 0


def test_a_revision_is_no_commit(remote, root) -> None:
    head = git.resolve(root, "HEAD")
    for commit_name, expected in (("HEAD", None), (head[:12], None), (head, "HEAD")):
        with pytest.raises(InvalidInput, match="full name of a commit"):
            remote.push(root, BRANCH, commit_name, expected=expected)
    with pytest.raises(ToolFailed, match="rev-parse"):
        remote.push(root, BRANCH, "1" * 40, expected=None)


# Credentials


def test_a_wrong_token_is_told_and_not_shown(fake, root) -> None:
    wrong = remote_of(fake, CANARY)
    for ask in (
        lambda: wrong.head("main"),
        lambda: wrong.fetch(root, "refs/heads/main:refs/fvec/main"),
        lambda: wrong.push(root, BRANCH, git.resolve(root, "HEAD"), expected=None),
    ):
        with pytest.raises(Unauthorized) as caught:
            ask()
        shown = f"{caught.value!r} {caught.value} {caught.value.__cause__!r} {wrong!r}"
        assert CANARY not in shown
        assert base64.b64encode(f"x-access-token:{CANARY}".encode()).decode() not in shown
        assert "expired" in (caught.value.hint or "")


def test_a_token_that_may_only_read_is_told_what_it_needs(fake, root) -> None:
    reader = remote_of(fake, fake.token_of("outsider"))
    assert reader.head("main") == fake.sha("main")
    with pytest.raises(Forbidden) as caught:
        reader.push(root, BRANCH, commit(root, {"a.py": "a = 1\n"}), expected=None)
    assert caught.value.status == 403
    assert "contents: write" in (caught.value.hint or "")


def test_another_repository_is_not_found(fake) -> None:
    elsewhere = Remote(f"{fake.url}/owner/other.git", TokenCredentials(fake.token))
    with pytest.raises(NotFound) as caught:
        elsewhere.head("main")
    assert "may not see" in (caught.value.hint or "")


def test_nobody_there_is_told(fake) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/owner/serve.git"
        with pytest.raises(Unavailable) as caught:
            Remote(url, TokenCredentials(fake.token)).head("main")
    assert "reachable" in (caught.value.hint or "")


def test_an_answer_that_never_comes_is_waited_for_no_longer_than_it_may(fake, monkeypatch) -> None:
    monkeypatch.setattr(transport, "TIMEOUT_S", {"ls-remote": 0.3})
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/owner/serve.git"
        with pytest.raises(TimedOut, match=r"ran longer than 0\.3 s"):
            Remote(url, TokenCredentials(fake.token)).head("main")


def test_the_token_is_in_the_arguments_of_no_process(fake, remote, root) -> None:
    seen: list[bytes] = []

    def look(_: object) -> None:
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.append(process.read_bytes())
            except OSError:  # ended meanwhile
                continue

    fake.faults.after = look
    remote.head("main")
    remote.fetch(root, "refs/heads/main:refs/fvec/main")
    remote.push(root, BRANCH, commit(root, {"a.py": "a = 1\n"}), expected=None)

    of_git = [line for line in seen if b"remote-http" in line]
    assert any(b"push" in line for line in seen)
    assert of_git
    basic = base64.b64encode(f"x-access-token:{fake.token}".encode())
    assert not [line for line in seen if fake.token.encode() in line or basic in line]


def test_nothing_of_the_token_stays_in_the_checkout(fake, remote, root) -> None:
    remote.push(root, BRANCH, commit(root, {"a.py": "a = 1\n"}), expected=None)
    remote.fetch(root, f"+refs/heads/{BRANCH}:refs/fvec/pushed")
    held = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
    assert not [content for content in held if fake.token.encode() in content]
    assert "extraheader" not in (root / ".git" / "config").read_text().lower()


def test_the_settings_of_a_checkout_are_not_asked(fake, remote, root, tmp_path) -> None:
    canary = tmp_path / "canary"
    script = tmp_path / "program"
    script.write_text(f"#!/bin/sh\ntouch {canary}\n")
    script.chmod(0o755)
    hooks = root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("pre-push", "reference-transaction", "post-checkout"):
        (hooks / hook).write_text(script.read_text())
        (hooks / hook).chmod(0o755)
    made = commit(root, {"a.py": "a = 1\n"})
    for key, value in (
        ("http.proxy", "http://127.0.0.1:9"),
        (f"http.{fake.git_url}.proxy", "http://127.0.0.1:9"),
        (
            f"http.{fake.git_url}.extraHeader",
            f"Authorization: Basic {base64.b64encode(b'nobody:nothing').decode()}",
        ),
        (f"url.{fake.url}/owner/other.git.insteadOf", fake.git_url),
        ("credential.helper", f"!{script}"),
        ("core.askPass", str(script)),
        ("core.fsmonitor", str(script)),
        ("core.sshCommand", str(script)),
        ("push.gpgSign", "true"),
        ("gpg.program", str(script)),
    ):
        plain_git(root, "config", key, value)

    remote.push(root, BRANCH, made, expected=None)
    remote.fetch(root, f"+refs/heads/{BRANCH}:refs/fvec/pushed")

    assert git.resolve(root, "refs/fvec/pushed") == fake.sha(BRANCH) == made
    assert not canary.exists()


def test_the_environment_names_no_other_way(fake, remote, root, tmp_path, monkeypatch) -> None:
    canary = tmp_path / "canary"
    script = tmp_path / "program"
    script.write_text(f"#!/bin/sh\ntouch {canary}\n")
    script.chmod(0o755)
    for name in ("GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND", "GIT_SSH_COMMAND"):
        monkeypatch.setenv(name, str(script))
    monkeypatch.setenv("GIT_TRACE_CURL", str(tmp_path / "trace"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "http.proxy")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "http://127.0.0.1:9")

    assert remote.head("main") == fake.sha("main")
    with pytest.raises(Unauthorized):
        remote_of(fake, CANARY).head("main")
    assert not canary.exists()
    assert not (tmp_path / "trace").exists()


class _Elsewhere(BaseHTTPRequestHandler):
    """Sends everybody to another address."""

    target = ""

    def do_GET(self) -> None:
        self.send_response(301)
        self.send_header("Location", f"{self.target}{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere(fake: FakeGitHub) -> Iterator[str]:
    handler = type("Elsewhere", (_Elsewhere,), {"target": fake.url})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/owner/serve.git"
        server.shutdown()
        thread.join()


def test_a_token_follows_nobody_to_another_address(fake, elsewhere) -> None:
    before = len(fake.requests)
    with pytest.raises(GitHubError) as caught:
        Remote(elsewhere, TokenCredentials(fake.token)).head("main")
    assert caught.value.status == 301
    assert "new name" in (caught.value.hint or "")
    assert len(fake.requests) == before


# What is refused before anything is asked


@pytest.mark.parametrize(
    "url",
    [
        "http://github.com/owner/serve.git",
        "http://127.0.0.1.example.com/owner/serve.git",
        f"https://x-access-token:{CANARY}@github.com/owner/serve.git",
        "https://github.com/owner/serve.git?token=1",
        "https://github.com/owner/serve.git#main",
        "https://github.com/owner",
        "https://github.com/owner/serve/extra.git",
        "https://github.com/owner/..",
        "https://github.com/owner/serve.git\n",
        "ssh://git@github.com/owner/serve.git",
        "git@github.com:owner/serve.git",
        "file:///srv/serve.git",
        "/srv/serve.git",
        "ext::sh -c true",
        "--upload-pack=true",
        "",
    ],
)
def test_an_address_that_no_token_may_go_to_is_refused_and_not_shown(url) -> None:
    with pytest.raises(InvalidInput) as caught:
        Remote(url, TokenCredentials(CANARY))
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "repository"),
    [
        ("https://github.com/owner/serve.git", "owner/serve"),
        ("https://github.com/owner/serve", "owner/serve"),
        ("https://git.example.com:8443/owner/my.serve.git", "owner/my.serve"),
        ("http://127.0.0.1:1234/owner/serve.git", "owner/serve"),
        ("http://[::1]:1234/owner/serve.git", "owner/serve"),
    ],
)
def test_an_address_names_its_repository(url, repository) -> None:
    remote = Remote(url, TokenCredentials(CANARY))
    assert (remote.repository, repr(remote)) == (repository, f"Remote({url!r})")


@pytest.mark.parametrize(
    "refspec",
    [
        "main",
        "refs/heads/main",
        ":refs/heads/x",
        "refs/heads/a:",
        "--upload-pack=x",
        "a:b",
        "refs/heads/*:refs/x/main",
        "refs/heads/a b:refs/x/a",
        "^refs/heads/a",
        "refs/heads/a:x/a",
    ],
)
def test_a_refspec_names_both_sides_in_full(fake, remote, root, refspec) -> None:
    before = len(fake.requests)
    with pytest.raises(InvalidInput, match="not a refspec"):
        remote.fetch(root, refspec)
    with pytest.raises(InvalidInput, match="no refspec"):
        remote.fetch(root)
    assert len(fake.requests) == before
