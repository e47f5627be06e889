"""Results of a real run over recorded measurements, and what a dishonest runner may make of them.

Git, rewrites, evidence and local forge are the product's own; only the measurements are recorded.
The run accepts two changes, the second on top of the first.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.github.api import Clock
from bot.github.auth import TokenCredentials
from bot.github.client import connect
from bot.github.forge import GitHubForge
from bot.github.transport import Remote
from bot.publishing.github import Published, publish_results
from layers.repository import git
from tests.github.fake_github import FakeGitHub

FIRST = "fvec/features/lookups-one-pass-features"
SECOND = "fvec/server/native-string-tensors-features"
JOINT = "fvec/features/joint-features"
EVIDENCE = "fvec/evidence"
CLOCK = Clock(sleep=lambda _: None)  # nobody waits for GitHub to recover
_KEPT = re.compile(r"/blob/([0-9a-f]{40})/")


@dataclass(frozen=True)
class Ran:
    """A checkout, and the results of a run in it."""

    root: Path
    out: Path

    @property
    def run(self) -> dict[str, Any]:
        return json.loads((self.out / "run.json").read_text())

    def pull(self, number: int) -> Path:
        return self.out / "forge" / "pulls" / str(number)

    def commit(self, number: int) -> str:
        return str(json.loads((self.pull(number) / "meta.json").read_text())["head_commit"])

    @property
    def base(self) -> str:
        return str(self.run["stack"]["commit"])

    def change(self, file: Path, change: Callable[[Any], object]) -> None:
        """Let `change` work on a JSON document."""
        document = json.loads(file.read_text())
        change(document)
        file.write_text(json.dumps(document))

    def keep(self, number: int) -> None:
        """Forget all pull requests but one."""

        def kept(document: Any) -> None:
            pulls = document["pull_requests"]
            document["pull_requests"] = [pull for pull in pulls if pull["number"] == number]

        self.change(self.out / "run.json", kept)

    def of_run(self, run_id: str) -> None:
        """Make it the results of another run."""
        self.change(self.out / "run.json", lambda d: d.update(run_id=run_id))
        for file in self.out.glob("forge/pulls/*/evidence.json"):
            self.change(file, lambda d: d.update(run_id=run_id))

    def rename(self, number: int, branch: str) -> None:
        """Let a pull request be of another branch."""

        def renamed(document: Any) -> None:
            pull = next(p for p in document["pull_requests"] if p["number"] == number)
            pull["branch"] = branch

        self.change(self.out / "run.json", renamed)
        self.change(self.pull(number) / "meta.json", lambda d: d.update(branch=branch))
        evidence = self.pull(number) / "evidence.json"
        self.change(evidence, lambda d: d["iteration"].update(branch=branch))

    def stand_at(self, number: int, commit: str) -> None:
        """Let a pull request be about another commit, with the patch that leads there."""
        evidence = self.pull(number) / "evidence.json"
        base = json.loads(evidence.read_text())["iteration"]["base_commit"]
        patch = git.patch_between(self.root, base, commit).encode("utf-8", "surrogateescape")
        (self.pull(number) / "patch.diff").write_bytes(patch)
        told = {"commit": commit, "patch_sha256": hashlib.sha256(patch).hexdigest()}
        self.change(evidence, lambda d: d["iteration"].update(told))
        self.change(self.pull(number) / "meta.json", lambda d: d.update(head_commit=commit))

    def commit_tree(self, tree: str, message: str = "Made anew", parent: str | None = None) -> str:
        """Commit a tree on the run's base as the bot does; no branch has the commit."""
        parent = parent or self.base
        return git.git(self.root, "commit-tree", tree, "-p", parent, "-m", message).strip()

    def again(self, number: int, message: str = "Made anew") -> str:
        """Let a pull request be about another commit with the same files; return the commit."""
        tree = git.git(self.root, "rev-parse", f"{self.commit(number)}^{{tree}}").strip()
        commit = self.commit_tree(tree, message)
        self.stand_at(number, commit)
        return commit

    def as_joint(self) -> None:
        """Make it the results of a run that accepted both changes as one."""
        self.say_joint(self.commit(2))

    def say_joint(self, holding: str) -> None:
        """Make it the results of a run that says so, its commit holding the files of another."""
        self.keep(1)
        self.of_run("joint")
        self.rename(1, JOINT)
        tree = git.git(self.root, "rev-parse", f"{holding}^{{tree}}").strip()
        self.stand_at(1, self.commit_tree(tree, "Both as one"))
        changes = ["lookups-one-pass on features", "native-string-tensors on features"]
        evidence = self.pull(1) / "evidence.json"
        self.change(evidence, lambda d: d["iteration"]["hypothesis"].update(together=changes))

    def copied(self, target: Path) -> Ran:
        """Return the same results in a folder of their own, of the same checkout."""
        shutil.copytree(self.out, target)
        return Ran(self.root, target)


def push_base(fake: FakeGitHub, ran: Ran) -> None:
    """Make the run's base commit the head of main."""
    fake.git("fetch", "--quiet", str(ran.root), "+refs/heads/main:refs/heads/main")


def forge_of(fake: FakeGitHub) -> GitHubForge:
    """Return the forge as the bot has it, without its pauses; API and git by plain HTTP."""
    credentials = TokenCredentials(fake.token, login=fake.login, api_url=fake.url)
    client = connect(credentials, throttle=False, clock=CLOCK)
    return GitHubForge(client.repository(fake.full_name), Remote(fake.git_url, credentials))


def publish(ran: Ran, fake: FakeGitHub, *, recreate: bool | str = False) -> list[Published]:
    return publish_results(ran.out, ran.root, forge_of(fake), recreate=recreate)


def kinds(published: list[Published]) -> list[tuple[str, str, int | None]]:
    return [(one.kind, one.branch, one.number) for one in published]


def pull(fake: FakeGitHub, number: int) -> dict[str, Any]:
    return next(pull for pull in fake.pulls() if pull["number"] == number)


def checks(fake: FakeGitHub, sha: str) -> list[tuple[str, str, str]]:
    return [(c["name"], c["external_id"], c["conclusion"]) for c in fake.check_runs(sha)]


def comments(fake: FakeGitHub, number: int) -> list[str]:
    return [comment["body"] for comment in fake.comments(number)]


def state(fake: FakeGitHub) -> dict[str, Any]:
    """Return all that people can see, but for what tells the time."""
    branches = fake.branches()
    files = fake.git("ls-tree", "-r", EVIDENCE) if EVIDENCE in branches else ""
    return {
        "branches": {name: sha for name, sha in branches.items() if name != EVIDENCE},
        "pulls": [
            {
                **{key: p[key] for key in ("number", "title", "state", "draft")},
                "body": _timeless(fake, p["body"]),
                "head": p["head"]["ref"],
                "base": p["base"]["ref"],
                "labels": fake.labels(p["number"]),
                "comments": comments(fake, p["number"]),
                "checks": checks(fake, p["head"]["sha"]),
            }
            for p in fake.pulls()
        ],
        "evidence": files.splitlines(),
    }


def _timeless(fake: FakeGitHub, body: str) -> str:
    """A body without the address of this GitHub, and the commits that its evidence lies in."""
    for sha in set(_KEPT.findall(body)):
        body = body.replace(sha, "SHA")
    return body.replace(fake.url, "URL")
