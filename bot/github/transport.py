"""git over HTTPS: fetching, pushing with a lease, and where a branch is.

git runs in a scratch repository, by settings of ours alone, in a process group of its own and for a
bounded time. The token stands in the environment of that one process, as a header for the one
address that it is for; it is in no argument, address, file or message.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.github.auth import check_repository
from bot.github.commits import check_own_branch
from bot.github.contents import check_branch_name
from bot.github.errors import (
    Conflict,
    Forbidden,
    GitHubError,
    NotFound,
    Unauthorized,
    Unavailable,
)
from bot.github.scratch import as_environment, scratch, take_over
from bot.render.text import one_line
from layers.errors import InvalidInput
from layers.programs import SYSTEM_PATH, kill_group
from layers.redact import redact
from layers.repository import git

if TYPE_CHECKING:
    from bot.github.auth import Credentials

TIMEOUT_S: Final[Mapping[str, float]] = {"ls-remote": 60.0, "fetch": 1800.0, "push": 300.0}
TRIES = 3  # of what ended without an answer
_FETCHED = "refs/fetched/"
_LONGEST_MESSAGE = 400
# Other hosts are spoken to over TLS alone.
_URL = re.compile(
    r"(?P<scheme>https)://[A-Za-z0-9.-]+(?::\d{1,5})?/(?P<name>[^/]+/[^/]+?)(?:\.git)?"
    r"|(?P<plain>http)://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?/"
    r"(?P<local>[^/]+/[^/]+?)(?:\.git)?"
)
# How this machine reaches the network at all; everything else of the environment stays outside.
_NETWORK = (
    *("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
_SHA = re.compile(r"[0-9a-f]{40}")
_REF = r"refs/[^\x00-\x20\x7f~^:?\[\\]+"
_REFSPEC = re.compile(rf"(\+?)([0-9a-f]{{40}}|{_REF}):({_REF})")
_STATUS = re.compile(r"\b(?:error|HTTP)[: ]+(\d{3})\b")


class Moved(Conflict):
    """The branch is not where it was expected: somebody pushed meanwhile."""


class PushRefused(GitHubError):
    """A rule or hook of the repository refuses the push."""


class TimedOut(Unavailable):
    """git took longer than it may."""


# What git and the host say, most telling first: what kind of error that is, and what to do.
_OF_PUSH: tuple[tuple[str, type[GitHubError], str], ...] = (
    (
        r"\((?:stale info|fetch first|non-fast-forward)\)|cannot lock ref|failed to update ref"
        r"|incorrect old value",
        Moved,
        "somebody pushed to it meanwhile: fetch it and look again",
    ),
    (
        r"\[remote rejected\]|\bGH\d{3}:|hook declined|refusing to allow",
        PushRefused,
        "let the bot push to branches named fvec/*: see the repository's rules and hooks",
    ),
)
_OF_ALL: tuple[tuple[str, type[GitHubError], str], ...] = (
    (
        r"could not read Username|Authentication failed|error: 401|Invalid username",
        Unauthorized,
        "the token is wrong, expired or revoked; of an App: key and clock",
    ),
    (
        r"error: 403|Permission to \S+ denied",
        Forbidden,
        "the token needs the permission contents: write to push, contents: read to fetch",
    ),
    (
        r"couldn't find remote ref|not our ref",
        NotFound,
        "there is no such branch or commit; it may have been deleted",
    ),
    (
        r"error: 404|\brepository '[^']*' not found",
        NotFound,
        "it does not exist, or the token may not see this repository",
    ),
    (r"error: 429", GitHubError, "too many requests: wait before the next one"),
    (
        r"error: 3\d\d|base from redirection",
        GitHubError,
        "the repository was renamed or moved: use its new name",
    ),
    (
        r"error: 5\d\d|HTTP 5\d\d|hung up|RPC failed|early EOF|unexpected disconnect|Empty reply"
        r"|Could not resolve|Failed to connect|Couldn't connect|Connection (?:refused|reset|timed)"
        r"|timed out|too slow|transfer closed|Recv failure|Send failure|SSL[_ ]|TLS |gnutls|certificate",
        Unavailable,
        "is the host reachable from here (network, HTTPS_PROXY)? what was asked may be done",
    ),
)


class Remote:
    """One repository at GitHub, as git sees it; `repository` is its "owner/name"."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        """Use `https://github.com/OWNER/NAME.git`; plain http is for a loopback host alone.

        Raises InvalidInput for any other address.
        """
        found = _URL.fullmatch(url)
        if found is None:
            raise InvalidInput(
                "not an address of a repository that a token may be sent to",
                hint="https://github.com/OWNER/NAME.git, without a name or password in it",
            )
        self.url = url
        self.repository = check_repository(found["name"] or found["local"])
        self.server = url.partition(f"/{self.repository}")[0]  # where people go, too
        self._scheme = found["scheme"] or found["plain"]
        self._credentials = credentials

    def __repr__(self) -> str:
        """Return the address."""
        return f"Remote({self.url!r})"

    def head(self, branch: str) -> str | None:
        """Return the commit that a branch is at, None where there is no such branch.

        Raises GitHubError.
        """
        reference = f"refs/heads/{check_branch_name(branch)}"
        with scratch() as bare:
            told = self._read(bare, "ls-remote", "--refs", "--", self.url, reference)
        for line in told.splitlines():
            commit, _, name = line.partition("\t")
            # The pattern also matches names that end like it.
            if name == reference and _SHA.fullmatch(commit):
                return commit
        return None

    def fetch(self, root: Path, *refspecs: str) -> None:
        """Fetch into the repository at `root`; a refspec is `[+]SOURCE:TARGET`.

        SOURCE is a full reference, or the 40 digits of a commit; TARGET a full reference. Every
        object is checked before `root` has it. Raises InvalidInput for another refspec; NotFound
        where there is no such branch, commit or repository; other kinds of GitHubError; and
        ToolFailed where `root` cannot take it.
        """
        parts = [_refspec(text) for text in refspecs]
        if not parts:
            raise InvalidInput("nothing to fetch: no refspec is named")
        wanted = [f"+{source}:{_FETCHED}{source}" for _, source, _ in parts]
        with scratch(root) as bare:
            plain = ("--quiet", "--no-tags", "--no-write-fetch-head")
            self._read(bare, "fetch", *plain, "--", self.url, *wanted)
            here = [f"{force}{_FETCHED}{source}:{target}" for force, source, target in parts]
            take_over(root, bare, *here)

    def push(self, root: Path, branch: str, commit: str, *, expected: str | None) -> None:
        """Make `commit` of the repository at `root` the head of a branch of ours.

        The branch must be at `expected` there (None: not exist), or at `commit` already. After an
        answer that was lost it is looked whether the push arrived before it is repeated. Raises
        InvalidInput for another branch than `fvec/...`; Moved where it is not at `expected`;
        PushRefused, and other kinds of GitHubError; ToolFailed where `root` has no such commit.
        """
        reference = f"refs/heads/{check_own_branch(branch)}"
        for sha in (commit, expected):
            if sha is not None and not _SHA.fullmatch(sha):
                raise InvalidInput(f"not the full name of a commit: {sha[:100]!r}")
        git.resolve(root, commit)
        lease = f"--force-with-lease={reference}:{expected or ''}"
        words = ("push", "--porcelain", lease, "--", self.url, f"{commit}:{reference}")
        with scratch(root) as bare:
            for attempt in range(1, TRIES + 1):
                try:
                    self._ask(bare, *words)
                except Unavailable as error:
                    if self.head(branch) == commit:
                        return
                    if attempt == TRIES or isinstance(error, TimedOut):
                        raise
                else:
                    return

    def _read(self, bare: Path, *words: str) -> str:
        """Run git, again where it ended without an answer; return its stdout."""
        for _ in range(TRIES - 1):
            try:
                return self._ask(bare, *words)
            except TimedOut:
                raise
            except Unavailable:
                continue
        return self._ask(bare, *words)

    def _ask(self, bare: Path, *words: str) -> str:
        """Run git once, with the token; return its stdout."""
        token = self._credentials.token(self.repository)
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        what, timeout_s = f"git {words[0]} of {self.url}", TIMEOUT_S[words[0]]
        try:
            code, out, told = _run(["git", *words], bare, self._environment(bare, basic), timeout_s)
        except subprocess.TimeoutExpired:
            raise TimedOut(
                f"{what} ran longer than {timeout_s:g} s", hint="what was asked may be done"
            ) from None
        if code != 0:
            secrets = (token, basic, *self._credentials.secrets())
            raise _failure(what, redact(f"{told}\n{out}", secrets), is_push=words[0] == "push")
        return out

    def _environment(self, bare: Path, basic: str) -> dict[str, str]:
        """Return the environment of git on the network: no settings or prompts of anybody else."""
        settings = [
            ("core.hooksPath", os.devnull),
            ("credential.helper", ""),
            ("gc.auto", "0"),
            ("http.lowSpeedLimit", "1000"),  # bytes per second, for as long as the next line says
            ("http.lowSpeedTime", "60"),
            (f"http.{self.url}.followRedirects", "false"),  # a token goes nowhere else
            (f"http.{self.url}.extraHeader", f"Authorization: Basic {basic}"),
        ]
        return {
            **{name: os.environ[name] for name in _NETWORK if name in os.environ},
            **as_environment(settings),
            "PATH": os.environ.get("PATH", SYSTEM_PATH),
            "HOME": str(bare),  # nobody's .netrc
            "GIT_DIR": str(bare),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": self._scheme,
            "GIT_ASKPASS": "",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
        }


def _failure(what: str, told: str, *, is_push: bool) -> GitHubError:
    """Return what git's words mean; they hold no secret any more."""
    status = _STATUS.search(told)
    kind, hint = next(
        (
            (kind, hint)
            for words, kind, hint in (*(_OF_PUSH if is_push else ()), *_OF_ALL)
            if re.search(words, told)
        ),
        (GitHubError, None),
    )
    message = f"{what} failed: {one_line(told, _LONGEST_MESSAGE)}"
    return kind(message, status=int(status[1]) if status else 0, hint=hint)


def _refspec(text: str) -> tuple[str, str, str]:
    """Return force, source and target of a refspec."""
    found = _REFSPEC.fullmatch(text)
    if found is None or found[2].count("*") != found[3].count("*"):
        raise InvalidInput(f"not a refspec that the bot fetches by: {text[:200]!r}")
    return found[1], found[2], found[3]


def _run(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout_s: float
) -> tuple[int, str, str]:
    """Run a program; return exit code, stdout and stderr. Nothing of it outlives the time.

    Raises subprocess.TimeoutExpired.
    """
    with subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, told = process.communicate(timeout=timeout_s)
        except BaseException:
            kill_group(process.pid)
            raise
    return process.returncode, out.decode("utf-8", "replace"), told.decode("utf-8", "replace")
