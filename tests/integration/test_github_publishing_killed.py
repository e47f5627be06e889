"""Publishing that is killed, or whose answers are lost: repeated, it leaves one of everything."""

from pathlib import Path
from typing import Any

import pytest

from bot.github.auth import TokenCredentials
from bot.github.client import connect
from bot.github.forge import GitHubForge
from bot.github.transport import Remote
from bot.publishing.github import publish_results
from tests.github.fake_github import Exchange, FakeGitHub
from tests.github.recorded_results import (
    CLOCK,
    FIRST,
    Ran,
    forge_of,
    kinds,
    publish,
    push_base,
    state,
)
from tests.github.wiring import connected

pytest_plugins = ["tests.github.recorded_fixtures"]
pytestmark = pytest.mark.usefixtures("drawn_once")


class Killed(BaseException):
    """The process ended here."""


class Fuse:
    """Ends the work after the n-th thing that it changed at GitHub."""

    def __init__(self, at: int | None) -> None:
        self.at, self.count = at, 0

    def __call__(self, exchange: Exchange) -> None:
        if exchange.is_write:
            self.burn()

    def burn(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise Killed


class FusedRemote(Remote):
    """git, which is not seen by the wiring of the API."""

    fuse: Fuse

    def push(self, *given: Any, **more: Any) -> None:
        super().push(*given, **more)
        self.fuse.burn()


def life(ran: Ran, fake: FakeGitHub, at: int | None = None) -> int:
    """Publish in a process that ends after its n-th write; return how many it made."""
    fuse = Fuse(at)
    credentials = TokenCredentials(fake.token, login=fake.login)
    with connected(fake, after=fuse):
        client = connect(credentials, throttle=False, clock=CLOCK)
        remote = FusedRemote(fake.git_url, credentials)
        remote.fuse = fuse
        forge = GitHubForge(client.repository(fake.full_name), remote)
        try:
            publish_results(ran.out, ran.root, forge)
        except Killed:
            assert fuse.count == at
    return fuse.count


def test_killed_after_any_write_and_repeated_there_is_one_of_each(ran: Ran) -> None:
    ran.keep(1)
    with FakeGitHub() as fake:
        push_base(fake, ran)
        put_back = fake.noted()
        writes = life(ran, fake)
        uncut = state(fake)
        assert [len(uncut["pulls"]), len(uncut["pulls"][0]["checks"])] == [1, 1]
        assert writes > 15
        for at in range(1, writes + 1):
            put_back()
            life(ran, fake, at)
            life(ran, fake)
            assert state(fake) == uncut, f"killed after write {at}"


def test_killed_while_superseding_and_repeated_there_is_one_of_each(
    ran: Ran, recorded_run: Ran, tmp_path: Path
) -> None:
    ran.keep(1)
    newer = recorded_run.copied(tmp_path / "newer")
    newer.as_joint()
    with FakeGitHub() as fake:
        push_base(fake, ran)
        life(ran, fake)
        put_back = fake.noted()
        writes = life(newer, fake)
        uncut = state(fake)
        assert [(p["state"], len(p["comments"])) for p in uncut["pulls"]] == [
            ("closed", 1),
            ("open", 0),
        ]
        for at in range(writes - 13, writes):  # from the pull request on
            put_back()
            life(newer, fake, at)
            life(newer, fake)
            assert state(fake) == uncut, f"killed after write {at}"


def test_a_newer_commit_that_a_kill_left_at_github_is_known_as_ours(
    ran: Ran, github: FakeGitHub
) -> None:
    ran.keep(1)
    life(ran, github)
    ran.again(1, "Pushed, and then killed")
    ran.of_run("killed")
    for at in range(1, 30):
        life(ran, github, at)
        if github.sha(FIRST) == ran.commit(1):
            break
    assert forge_of(github).archive.state().pushed[FIRST] != github.sha(FIRST)

    ran.again(1, "The next run's")
    ran.of_run("next")

    assert kinds(publish(ran, github)) == [("updated", FIRST, 1)]
    assert github.sha(FIRST) == ran.commit(1)


def test_an_answer_lost_after_any_write_leads_to_one_of_each(ran: Ran) -> None:
    ran.keep(1)
    with FakeGitHub() as fake:
        push_base(fake, ran)
        put_back = fake.noted()
        publish(ran, fake)
        writes = [exchange for exchange in fake.writes if not exchange.is_git]
        uncut = state(fake)
        for nth in range(1, len(writes) + 1):
            put_back()
            fault = fake.faults.add("502 after", nth=nth)
            publish(ran, fake)
            assert fault.hits == 1
            assert state(fake) == uncut, f"the answer to write {nth} was lost"


def test_an_answer_lost_after_the_push_leads_to_one_branch(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    fault = github.faults.add("502 after", "POST", "*.git/git-receive-pack")

    assert kinds(publish(ran, github)) == [("opened", FIRST, 1)]
    assert fault.hits == 1
