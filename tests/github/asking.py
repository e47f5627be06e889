"""Plain requests and plain git against the fake, for tests of the fake itself."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.github.fake_github import FakeGitHub
from tests.github.git_store import BareRepository

REPO = "/repos/owner/serve"
BRANCH = "fvec/astype/1"


def ask(
    fake: FakeGitHub, method: str, path: str, body: object = None, *, token: str | None = None
) -> tuple[int, Any, dict[str, str]]:
    """Make one request of the fake directly; return status, JSON and headers."""
    parts = urlsplit(fake.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    headers = {"Authorization": f"Bearer {token or fake.token}"}
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None, dict(response.getheaders())
    finally:
        connection.close()


def git(
    folder: Path, *arguments: str, token: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run git as somebody who has `token`."""
    settings = {"user.name": "fvec", "user.email": "fvec@example.com"}
    if token is not None:
        secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        settings["http.extraHeader"] = f"Authorization: Basic {secret}"
    environment = {"GIT_CONFIG_COUNT": str(len(settings)), "GIT_TERMINAL_PROMPT": "0"}
    for n, (key, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": value}
    return subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**BareRepository.environment(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def cloned(fake: FakeGitHub, folder: Path) -> Path:
    done = git(folder, "clone", "--quiet", fake.git_url, "work", token=fake.token)
    assert done.returncode == 0, done.stderr
    return folder / "work"


def committed(work: Path, path: str, text: str) -> str:
    """Commit one file in a clone; return the commit."""
    (work / path).parent.mkdir(parents=True, exist_ok=True)
    (work / path).write_text(text)
    git(work, "add", "--all")
    assert git(work, "commit", "--quiet", "--message", "A change").returncode == 0
    return git(work, "rev-parse", "HEAD").stdout.strip()
