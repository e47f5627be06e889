"""Bad input gets one clear error with what to do, exit code 3, and an untouched repository."""

from __future__ import annotations

import json

import pytest

from bot import cli
from layers import session
from layers.errors import InvalidInput
from tests.e2e.proposals import FEATURES, commit, git, state_of
from tests.tiny_verifier import LAX
from tests.undecided import skip_if_given_up

pytestmark = pytest.mark.triton
MANIFEST = ".github/fvec.yml"


def refused(root, out, capsys) -> tuple[str, str]:
    """Run on `root`, which must be refused and left alone; return message and hint."""
    journal = out / "journal.jsonl"
    before, known = state_of(root), journal.exists()
    code = cli.main(["run", str(root), "--out", str(out), "--json"])
    told = capsys.readouterr()
    skip_if_given_up(code, told.err)
    error = json.loads(told.out)
    assert (code, error["exit_code"]) == (InvalidInput.exit_code, InvalidInput.exit_code), error
    assert state_of(root) == before
    assert git(root, "worktree", "list").count("\n") == 0
    assert not (out / "run.json").exists()
    assert journal.exists() == known
    assert told.err.count("fvec: ") == 1
    return error["error"]["message"], error["error"]["hint"]


def test_a_missing_manifest(tiny_repo, tmp_path, capsys):
    git(tiny_repo, "rm", "--quiet", MANIFEST)
    git(tiny_repo, "commit", "--quiet", "--message", "Remove it")
    message, hint = refused(tiny_repo, tmp_path / "out", capsys)
    assert message == f"there is no .github/fvec.yml in {tiny_repo}"
    assert "fvec config validate --schema" in hint


def test_an_unknown_key_of_the_manifest(tiny_repo, tmp_path, capsys):
    commit(tiny_repo, MANIFEST, "  p99_ms: 50", "  p99_ms: 50\n  p98_ms: 40")
    message, hint = refused(tiny_repo, tmp_path / "out", capsys)
    lines = (tiny_repo / MANIFEST).read_text().splitlines()
    place = f"{tiny_repo / MANIFEST}:{lines.index('  p98_ms: 40') + 1}:3"
    assert message.startswith(place)
    assert "p98_ms" in message
    assert hint


def test_an_unreadable_config_pbtxt(tiny_repo, tmp_path, capsys):
    path = "models/tiny_ranker/config.pbtxt"
    commit(tiny_repo, path, "max_batch_size: 8", "max_batch_size: many")
    message, hint = refused(tiny_repo, tmp_path / "out", capsys)
    assert message.startswith(f"{path}:3:17: ")
    assert hint


def test_a_checkout_with_local_changes(tiny_repo, tmp_path, capsys):
    (tiny_repo / FEATURES).write_text("")
    message, hint = refused(tiny_repo, tmp_path / "out", capsys)
    assert message == f"the checkout {tiny_repo} has local changes: {FEATURES}"
    assert hint == "commit or stash them; results belong to a commit"


def test_a_build_step_that_fails(tiny_repo, tmp_path, capsys):
    commit(tiny_repo, "traffic/record.py", "import sys\n", "import sys\nsys.exit('no data')\n")
    message, _ = refused(tiny_repo, tmp_path / "out", capsys)
    assert message.startswith("the unmodified stack does not build: the build step 'python ")
    assert "no data" in message


def test_a_server_that_is_not_ours_to_start(tiny_repo, tmp_path, capsys):
    commit(tiny_repo, MANIFEST, "slo:\n", 'server: {address: "127.0.0.1:8001"}\nslo:\n')
    message, hint = refused(tiny_repo, tmp_path / "out", capsys)
    assert message == (
        ".github/fvec.yml: server.address names a running server, which cannot be started afresh"
    )
    assert "remove the address" in hint


def test_results_of_an_unfinished_run_are_not_overwritten(tiny_repo, tmp_path, capsys):
    out = tmp_path / "out"
    (out / "logs").mkdir(parents=True)
    begun = {"v": 1, "seq": 0, "at": "", "kind": "run_started", "data": {"run_id": "r"}}
    (out / "journal.jsonl").write_text(json.dumps(begun) + "\n")
    (out / "logs/server.log").write_text("of an earlier run\n")
    message, hint = refused(tiny_repo, out, capsys)
    assert message == f"{out / 'journal.jsonl'} is of a run that did not finish, or still runs"
    assert hint == "go on with it by --resume, or give --out a new directory"
    assert (out / "logs/server.log").read_text() == "of an earlier run\n"


def test_results_that_cannot_be_written(tiny_repo, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    message, hint = refused(tiny_repo, tmp_path / "file/out", capsys)
    assert message.startswith(f"{tmp_path / 'file/out'} cannot be made: ")
    assert hint == "name another folder with --out DIR"


@pytest.mark.usefixtures("server_env")
class TestWithTheServer:
    """What only the running server can tell."""

    def test_a_model_that_does_not_load(self, tiny_repo, tmp_path, capsys):
        commit(tiny_repo, FEATURES, "import numpy as np\n", "import numpy_of_old as np\n")
        message, _ = refused(tiny_repo, tmp_path / "out", capsys)
        assert message.startswith("the unmodified stack does not serve: ")
        assert "No module named 'numpy_of_old'" in message

    def test_traffic_that_does_not_match_the_inputs(self, tiny_repo, tmp_path, capsys):
        commit(tiny_repo, "traffic/record.py", '("user_age", "FP32"', '("user_years", "FP32"')
        message, hint = refused(tiny_repo, tmp_path / "out", capsys)
        assert "traffic/requests.bin: " in message
        assert message.endswith("input 'user_years' is unknown to the model")
        assert hint == "record the traffic again with the inputs of the entry model's config"

    def test_a_model_that_fails_on_its_own_traffic(self, tiny_repo, tmp_path, capsys):
        commit(tiny_repo, FEATURES, "lengths = np.zeros(", "lengths = np.zeroes(")
        message, hint = refused(tiny_repo, tmp_path / "out", capsys)
        assert message.startswith("the unmodified stack fails 64 of 64 recorded requests: ")
        assert "zeroes" in message
        assert hint.startswith("mend the stack or its traffic first")

    @pytest.mark.alone
    @pytest.mark.usefixtures("short_runs")
    def test_an_slo_that_the_stack_misses(self, tiny_repo, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(session, "RECORDED_LIMITS", LAX)
        commit(tiny_repo, MANIFEST, "p99_ms: 50", "p99_ms: 0.05")
        message, hint = refused(tiny_repo, tmp_path / "out", capsys)
        assert message.startswith(
            ".github/fvec.yml: the unmodified stack misses its own SLO: 200 of 200 requests took "
            "longer than 0.05 ms at the recorded rate of "
        )
        assert hint.startswith("raise slo.p99_ms")
