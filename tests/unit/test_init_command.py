"""`fvec init` on the command line."""

import json
import subprocess

import pytest

from bot import cli
from tests.init_repositories import ensemble, put, python_model


def call(capsys, *argv) -> tuple[int, str, str]:
    code = cli.main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def repository(tmp_path):
    return put(tmp_path / "tiny", ensemble())


def test_it_says_what_it_wrote_guessed_and_what_to_correct(capsys, repository):
    code, out, err = call(capsys, "init", repository)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == [
        "wrote traffic/synthetic.py", "wrote traffic/.gitignore", "wrote .github/fvec.yml",
    ]  # fmt: skip
    assert "  sure    stack.entry: pipeline: the only ensemble that no other model calls" in lines
    assert "  guess   slo.p99_ms: 500: nothing was measured" in lines
    assert (
        "  1. owner in .github/fvec.yml: who answers for the bot's pull requests, a person or a team; "
        "nobody is named yet"
    ) in lines
    assert "  2. the folder is no git checkout: git init, and commit it" in lines
    assert (
        f"then: commit the files, fvec doctor --install {repository}, fvec plan {repository}"
        in (lines)
    )
    assert call(capsys, "config", "validate", repository)[0] == 0


def test_a_dry_run_prints_and_writes_nothing(capsys, repository):
    before = sorted(repository.rglob("*"))
    code, out, _ = call(capsys, "init", repository, "--dry-run")
    assert code == 0
    assert "--- .github/fvec.yml\n# Written by `fvec init`" in out
    assert "--- traffic/synthetic.py\n" in out
    assert sorted(repository.rglob("*")) == before


def test_json_is_one_document(capsys, repository):
    code, out, _ = call(capsys, "init", repository, "--json", "--dry-run")
    document = json.loads(out)
    assert (code, document["schema"], document["dry_run"]) == (0, "fvec.init/1", True)
    assert (document["models"], document["entry"]) == ("models", "pipeline")
    assert document["uses"] == ["encoder", "pipeline", "scorer"]
    assert [model["calls"] for model in document["repositories"][0]["models"]] == [
        [], ["encoder", "scorer"], [],
    ]  # fmt: skip
    assert [file["path"] for file in document["files"]] == [
        "traffic/synthetic.py", "traffic/.gitignore", ".github/fvec.yml",
    ]  # fmt: skip
    assert {
        "key": "slo.p99_ms",
        "value": "500",
        "certainty": "guess",
        "why": "nothing was measured",
    } in (document["guesses"])


def test_a_second_time_is_3_with_a_hint(capsys, repository):
    assert call(capsys, "init", repository)[0] == 0
    code, out, err = call(capsys, "init", repository)
    assert (code, out) == (3, "")
    assert err == (
        f"fvec: {repository}/.github/fvec.yml: exists already; it is never overwritten\n"
        "  hint: correct it by hand; `fvec config validate` says whether it is right\n"
    )


def test_models_and_entry_may_be_named(capsys, tmp_path):
    files = {
        **python_model("a"),
        **python_model("b", models="more"),
        **python_model("c", models="more"),
    }
    root = put(tmp_path, files)
    for named in ("more/", "./more", ".//more/."):
        argv = ["init", root, "--json", "--dry-run", "--models", named, "--entry", "c"]
        document = json.loads(call(capsys, *argv)[1])
        assert (document["models"], document["entry"]) == ("more", "c")


@pytest.mark.parametrize("command", ["plan", "run", "measure"])
def test_commands_that_need_a_manifest_point_here(capsys, repository, command, tmp_path):
    git = ["git", "-C", repository, "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], check=True)
    code, _, err = call(capsys, command, repository, "--out", tmp_path / "out")
    assert code == 3
    assert f"hint: run `fvec init {repository}`, which writes a first one" in err
