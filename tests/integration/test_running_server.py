"""A user's own running server, by address: planned for and measured, never restarted or stopped."""

import json
import subprocess

import pytest

from bot.cli import main

pytestmark = pytest.mark.triton


@pytest.fixture
def addressed(tiny_repo, tiny_deployment):
    """The tiny repository with the address of a server that somebody else runs."""
    manifest = tiny_repo / ".github" / "fvec.yml"
    server = f"server:\n  address: {tiny_deployment.grpc}\ntraffic:"
    manifest.write_text(manifest.read_text().replace("traffic:", server, 1))
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", *identity, "commit", "-qam", "x"], cwd=tiny_repo, check=True)
    return tiny_repo


def test_plan_profiles_it_and_leaves_it_running(addressed, tiny_deployment, tmp_path, capfd):
    before = tiny_deployment.pids()
    assert main(["plan", str(addressed), "--out", str(tmp_path / "out"), "--json"]) == 0
    plan = json.loads(capfd.readouterr().out)
    assert set(before) <= set(plan["profile"]["by_process"])
    assert tiny_deployment.pids() == before
    tiny_deployment.alive()


def test_run_refuses_it_and_says_what_does_work(addressed, tmp_path, capfd):
    assert main(["run", str(addressed), "--out", str(tmp_path / "out")]) == 3
    assert "`fvec plan` and `fvec measure` work on it" in capfd.readouterr().err
