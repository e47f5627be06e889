"""A user's own running server, by address: planned for and measured, never restarted or stopped."""

import json
import subprocess

import pytest

from bot.cli import main

pytestmark = pytest.mark.triton


@pytest.fixture
def addressed(tiny_repo, running_server):
    """The tiny repository with the address of a server that somebody else runs."""
    manifest = tiny_repo / ".github" / "fvec.yml"
    server = f"server:\n  address: {running_server.address}\ntraffic:"
    manifest.write_text(manifest.read_text().replace("traffic:", server, 1))
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", *identity, "commit", "-qam", "x"], cwd=tiny_repo, check=True)
    return tiny_repo


def test_plan_profiles_it_and_leaves_it_running(addressed, running_server, tmp_path, capfd):
    before = running_server.pids()
    assert main(["plan", str(addressed), "--out", str(tmp_path / "out"), "--json"]) == 0
    plan = json.loads(capfd.readouterr().out)
    assert set(before) <= set(plan["profile"]["by_process"])
    assert running_server.pids() == before
    assert running_server.process.is_running()


def test_run_refuses_it_and_says_what_does_work(addressed, tmp_path, capfd):
    assert main(["run", str(addressed), "--out", str(tmp_path / "out")]) == 3
    assert "`fvec plan` and `fvec measure` work on it" in capfd.readouterr().err
