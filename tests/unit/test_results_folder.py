"""The results folder of a run: a finished run's files move aside, an unfinished one's stay."""

import json

import pytest
from pydantic import BaseModel

from bot.results import kept_out_of_git, write_judgement
from layers.errors import InvalidInput
from layers.record.journal import Journal
from layers.record.results_folder import CLEARED, DOCUMENTS, MARKER, finished, in_use, prepared
from tests.survival.world import git

RUN_ID = "0123456789ab"


class Document(BaseModel):
    """One of no content."""


def journal(out, *kinds, run_id=RUN_ID):
    out.mkdir(parents=True)
    opened = Journal(out / "journal.jsonl")
    for kind in kinds:
        opened.append(kind, {"run_id": run_id})
    opened.close()
    (out / "logs").mkdir()
    (out / "logs" / "server.log").write_text("said")
    (out / "forge").mkdir()


def test_a_finished_run_moves_aside_and_its_forge_stays(tmp_path):
    journal(tmp_path / "out", "run_started", "run_finished")
    with prepared(tmp_path / "out") as out:
        assert sorted(path.name for path in out.iterdir()) == [MARKER, "earlier", "forge"]
    assert (out / "earlier" / RUN_ID / "logs" / "server.log").read_text() == "said"
    assert (out / "earlier" / RUN_ID / "journal.jsonl").exists()


def test_an_unfinished_run_is_left_alone(tmp_path):
    journal(tmp_path / "out", "run_started", "block")
    with pytest.raises(InvalidInput, match="did not finish"), prepared(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "logs" / "server.log").read_text() == "said"


def test_what_an_unfinished_run_recorded_stays_for_its_resumption(tmp_path):
    journal(tmp_path / "out", "run_started", "block")
    for name in ("load", "workspaces", "worktrees", "profiles"):
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


# --- what a repository's author may have put there ---------------------------------------------


@pytest.fixture
def theirs(tmp_path):
    """A person's folder beside the checkout; yields it after the test as it was."""
    folder = tmp_path / "theirs"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "kept.txt").write_text("kept")
    (folder / "file").write_text("kept")
    yield folder
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*")) == [
        *("file", "logs", "logs/kept.txt")
    ]
    assert (folder / "file").read_text() == (folder / "logs" / "kept.txt").read_text() == "kept"


def refused(out, words):
    """Hold both doors to a refusal that names a hint."""
    for door in (kept_out_of_git, prepared):
        with pytest.raises(InvalidInput, match=words) as caught, door(out):
            pass
        assert "--out DIR" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "run_id", ["{theirs}", "../../../theirs", "", "0123456789AB", "0123456789ab/", 7, None]
)
def test_a_journal_whose_run_id_is_not_of_our_form_is_not_archived(tmp_path, theirs, run_id):
    run_id = run_id.format(theirs=theirs) if isinstance(run_id, str) else run_id
    journal(tmp_path / "out", "run_started", "run_finished", run_id=run_id)
    with pytest.raises(InvalidInput, match="is no id of a run"), prepared(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "logs" / "server.log").read_text() == "said"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *[(name, "logs") for name in (*CLEARED, "earlier", "forge", "logs/deep", "earlier/x")],
        *[(name, "file") for name in (MARKER, "journal.jsonl", *DOCUMENTS, "report.html")],
        *[(name, "file") for name in ("forge/.lock", "logs/server.log", "profiles/p.txt")],
    ],
)
def test_a_link_among_the_results_is_refused_wherever_they_lie(tmp_path, theirs, name, target):
    link = tmp_path / "out" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(theirs / target)
    refused(tmp_path / "out", f"{link} is a link; no results are written through it")
    with pytest.raises(InvalidInput, match="is a link"), prepared(tmp_path / "out", resume=True):
        pass


@pytest.mark.parametrize("name", [".fvec", ".fvec/tiny"])
def test_a_link_of_the_checkout_above_the_results_is_refused(tiny_repo, theirs, name):
    link = tiny_repo / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(theirs)
    refused(tiny_repo / ".fvec" / "tiny", f"{link} is a link")


def test_a_folder_that_may_not_be_looked_at_is_refused(tmp_path, monkeypatch):
    def forbidden(_self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.is_symlink", forbidden)
    refused(tmp_path / "out", "out cannot be looked at: Permission denied")


def test_a_persons_own_link_above_the_results_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with prepared(tmp_path / "link" / "out") as out:
        assert out == tmp_path / "disk" / "out"


@pytest.mark.parametrize(
    "name", [MARKER, "journal.jsonl", "run.json", "logs/a.log", "forge/index.md", "earlier/x/y"]
)
def test_a_file_that_git_tracks_is_neither_replaced_nor_removed(tiny_repo, name):
    file = tiny_repo / ".fvec" / "tiny" / name
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    git(tiny_repo, "add", "--force", str(file))
    git(tiny_repo, "commit", "--quiet", "--message", "Bring results")
    refused(tiny_repo / ".fvec" / "tiny", f"git tracks {name}, which results would replace")
    assert file.read_text() == "{}"
    assert git(tiny_repo, "status", "--porcelain", "--ignored") == ""


def test_a_tracked_file_that_no_result_replaces_is_not_in_the_way(tiny_repo):
    with kept_out_of_git(tiny_repo), prepared(tiny_repo):
        pass


@pytest.mark.parametrize("tracked", [True, False])
def test_the_folder_s_own_gitignore_is_written_through_no_link(tiny_repo, theirs, tracked):
    (tiny_repo / ".fvec").mkdir()
    (tiny_repo / ".fvec" / ".gitignore").symlink_to(theirs / "file")
    if tracked:
        git(tiny_repo, "add", "--force", ".fvec")
    with (
        pytest.raises(InvalidInput, match="it came with the repository") as caught,
        kept_out_of_git(tiny_repo / ".fvec" / "tiny"),
    ):
        pass
    assert caught.value.at is not None


def test_a_tracked_gitignore_of_the_folder_is_left_as_it_is(tiny_repo):
    file = tiny_repo / ".fvec" / ".gitignore"
    file.parent.mkdir()
    file.write_text("mine\n")
    git(tiny_repo, "add", "--force", ".fvec")
    with pytest.raises(InvalidInput, match="tracked by git"), kept_out_of_git(file.parent / "x"):
        pass
    assert file.read_text() == "mine\n"


def test_a_document_is_written_beside_its_place_through_no_link(tmp_path, theirs):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".judge.md.new").symlink_to(theirs / "file")
    write_judgement(tmp_path / "out", "judge", Document(), "body")
    assert (tmp_path / "out" / "judge.md").read_text() == "body"
