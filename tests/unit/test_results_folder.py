"""The results folder of a run: a finished run's files move aside, an unfinished one's stay."""

import json

import pytest

from layers.errors import InvalidInput
from layers.journal import Journal
from layers.results_folder import CLEARED, DOCUMENTS, MARKER, finished, in_use, prepared


def journal(out, *kinds):
    out.mkdir()
    opened = Journal(out / "journal.jsonl")
    for kind in kinds:
        opened.append(kind, {"run_id": "abc"})
    opened.close()
    (out / "logs").mkdir()
    (out / "logs" / "server.log").write_text("said")
    (out / "forge").mkdir()


def test_a_finished_run_moves_aside_and_its_forge_stays(tmp_path):
    journal(tmp_path / "out", "run_started", "run_finished")
    with prepared(tmp_path / "out") as out:
        assert sorted(path.name for path in out.iterdir()) == [MARKER, "earlier", "forge"]
    assert (out / "earlier" / "abc" / "logs" / "server.log").read_text() == "said"
    assert (out / "earlier" / "abc" / "journal.jsonl").exists()


def test_an_unfinished_run_is_left_alone(tmp_path):
    journal(tmp_path / "out", "run_started", "block")
    with pytest.raises(InvalidInput, match="did not finish"), prepared(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "logs" / "server.log").read_text() == "said"


def test_what_an_unfinished_run_recorded_stays_for_its_resumption(tmp_path):
    journal(tmp_path / "out", "run_started", "block")
    for name in ("load", "worktrees", "profiles"):
        (tmp_path / "out" / name).mkdir()
    with prepared(tmp_path / "out", resume=True) as out:
        left = {".fvec-results", "forge", "journal.jsonl", "logs", "profiles"}
        assert {path.name for path in out.iterdir()} == left
        assert in_use(out)
    assert not in_use(out)
    assert finished(out) == []


def test_only_a_finished_run_is_finished(tmp_path):
    assert finished(tmp_path / "nothing") == []
    journal(tmp_path / "out", "run_started", "run_finished")
    assert [entry.kind for entry in finished(tmp_path / "out")] == ["run_started", "run_finished"]


@pytest.mark.parametrize("name", CLEARED)
@pytest.mark.parametrize(
    "beside", [{}, {"run.json": "{}"}, {"judge.json": '["fvec."]'}, {"verify.json": "no JSON"}]
)
def test_a_folder_of_somebody_else_is_refused_and_keeps_its_files(tmp_path, name, beside):
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine.txt").write_text("kept")
    for document, text in beside.items():
        (tmp_path / document).write_text(text)
    with pytest.raises(InvalidInput) as caught, prepared(tmp_path):
        pass
    assert caught.value.message == (
        f"{tmp_path} holds {name}, which may not be fvec's: they would be removed"
    )
    assert "--out" in (caught.value.hint or "")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, *beside])
    assert (tmp_path / name / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize("mark", [MARKER, *DOCUMENTS])
def test_a_folder_of_ours_is_cleared(tmp_path, mark):
    (tmp_path / mark).write_text(json.dumps({"schema": "fvec.judge/1"}))
    (tmp_path / "logs").mkdir()
    (tmp_path / "notes").mkdir()
    with prepared(tmp_path) as out:
        assert sorted(p.name for p in out.iterdir()) == sorted({MARKER, mark, "notes"})


def test_a_folder_without_such_files_is_taken_and_ours_from_then_on(tmp_path):
    (tmp_path / "notes").mkdir()
    with prepared(tmp_path) as out:
        (out / "logs").mkdir()
    with prepared(tmp_path):
        assert sorted(p.name for p in tmp_path.iterdir()) == [MARKER, "notes"]


def test_two_commands_at_once_on_one_folder_are_refused(tmp_path):
    with prepared(tmp_path) as out:
        (out / "logs").mkdir()
        with pytest.raises(InvalidInput, match="in use by another fvec command"), prepared(out):
            pass
        assert (out / "logs").is_dir()
    with prepared(tmp_path):
        assert not (tmp_path / "logs").exists()
