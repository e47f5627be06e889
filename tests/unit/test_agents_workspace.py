"""A workspace: nothing outside it is read or written, and its edit is what git would take."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from layers.agents.workbench import workspace as module
from layers.agents.workbench.below import NotPlain, TooLarge
from layers.agents.workbench.configuration import configures_agents
from layers.agents.workbench.workspace import (
    MOST_EDIT_BYTES,
    MOST_FILES,
    MOST_HITS,
    MOST_LINE,
    MOST_TEXT_BYTES,
    OutOfBounds,
    Workspace,
    WorkspaceRefused,
)
from layers.base import Edit
from layers.errors import ToolFailed
from layers.redact import MARK
from layers.repository.git import commit_edit, tracked
from tests import canaries
from tests.agents_workspace import BEYOND, FILES, LINKS, MODEL, PROTECTED, SOURCE, repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "stack")


@pytest.fixture
def outside(tmp_path: Path, repo: Path) -> Iterator[Path]:
    """The folder that nothing may reach: it is as it was when a test ends."""
    folder = tmp_path / "outside"
    yield folder
    assert [path.name for path in folder.iterdir()] == ["secret.txt"]
    assert (folder / "secret.txt").read_text() == BEYOND


@pytest.fixture
def workspace(tmp_path: Path, repo: Path) -> Iterator[Workspace]:
    made = Workspace.make(repo, tmp_path / "work", PROTECTED)
    yield made
    made.close()
    assert list((tmp_path / "work").iterdir()) == []


def put(workspace: Workspace, name: str, content: bytes = b"x\n") -> Path:
    """Write a file as a program does that works in the folder."""
    path = workspace.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_tracked_plain_files_are_copied_and_nothing_else(repo: Path, tmp_path: Path) -> None:
    (repo / "untracked.py").write_text("x")

    workspace = Workspace.make(repo, tmp_path / "work", PROTECTED)

    there = sorted(
        str(path.relative_to(workspace.root))
        for path in workspace.root.rglob("*")
        if not path.is_dir() or path.is_symlink()
    )
    assert there == workspace.listing() == sorted(FILES)
    assert {name: (workspace.root / name).read_bytes() for name in there} == FILES
    assert os.access(workspace.root / "tools/run.sh", os.X_OK)
    assert not os.access(workspace.root / MODEL, os.X_OK)
    workspace.close()


def test_a_workspace_that_nobody_touched_is_no_edit(workspace: Workspace) -> None:
    (workspace.root / MODEL).chmod(0o755)  # a mode is none
    (workspace.root / "empty").mkdir()

    assert workspace.edit() == {}
    assert workspace.diff() == ""


def test_what_is_written_replaced_and_deleted_is_the_edit(workspace: Workspace) -> None:
    workspace.write("models/ranker/1/fast.py", "FAST = True\n")
    workspace.replace(MODEL, "np.sort(request)", "np.sort(request, kind='stable')")
    workspace.delete("README.md")

    assert workspace.edit() == {
        "README.md": None,
        "models/ranker/1/fast.py": b"FAST = True\n",
        MODEL: SOURCE.replace("(request)\n", "(request, kind='stable')\n").encode(),
    }
    assert workspace.read("models/ranker/1/fast.py") == "FAST = True\n"
    assert "README.md" not in workspace.listing()


def test_an_edit_of_a_file_that_became_a_folder_can_be_committed(
    workspace: Workspace, repo: Path
) -> None:
    (workspace.root / "latin.py").unlink()
    put(workspace, "latin.py/part.py")
    put(workspace, "a new folder/with blanks/new.py")

    files = workspace.edit()
    commit_edit(repo, Edit(files, "Change", "Because."))

    assert next(iter(files)) == "latin.py"  # what goes comes first
    assert set(tracked(repo)) - set(LINKS) == set(workspace.listing())
    assert all((repo / name).read_bytes() == text for name, text in files.items() if text)


OUTSIDE = [
    "/etc/passwd",
    "//etc/passwd",
    "../outside/secret.txt",
    "models/../../outside/secret.txt",
    "..",
    "~/.ssh/id_ed25519",
    ".git/config",
    ".GIT/hooks/pre-commit",
    "models/.Git/config",
    "git~1/config",
    "GIT~1/config",
    ".git /config",
    ".git./config",
    ".git::$INDEX_ALLOCATION/config",
    "models\\..\\..\\x",
    "models/\u202egnp.py",
    "models/a\nb.py",
    "models/a\x00b.py",
    "models/\ud800.py",
    "data/secret.txt",
    "data",
    f"{MODEL}.link",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_tool_reaches_beyond_the_workspace(
    workspace: Workspace, outside: Path, path: str
) -> None:
    for act in (
        lambda: workspace.read(path),
        lambda: workspace.write(path, "x"),
        lambda: workspace.replace(path, "nobody", "x"),
        lambda: workspace.delete(path),
        lambda: workspace.listing(path),
        lambda: workspace.search("nobody", path),
    ):
        with pytest.raises(OutOfBounds):
            act()

    assert workspace.edit() == {}


@pytest.mark.parametrize(
    "path", ["", ".", "./README.md", "models//ranker", "README.md/", "/".join("a" * 65)]
)
def test_a_path_that_is_not_plain_is_a_mistake(workspace: Workspace, path: str) -> None:
    with pytest.raises(WorkspaceRefused, match="no path such as") as caught:
        workspace.read(path)

    assert not isinstance(caught.value, OutOfBounds)


@pytest.mark.parametrize(
    "path",
    [
        ".github/fvec.yml",
        ".github/workflows/ci.yml",
        ".GitHub/workflows/ci.yml",
        "CODEOWNERS",
        "docs/CodeOwners",
        ".gitattributes",
        "models/.gitmodules",
        ".lfsconfig",
        ".gitlab-ci.yml",
        "checks/referee.py",
        "checks/new.py",
        "traffic/requests.bin",
        "traffic/requests.bin/x",
    ],
)
def test_what_belongs_to_the_owners_or_judges_may_not_be_written(
    workspace: Workspace, path: str
) -> None:
    for act in (
        lambda: workspace.write(path, "x"),
        lambda: workspace.replace(path, "schema", "x"),
        lambda: workspace.delete(path),
        lambda: workspace.check_writable(path),
    ):
        with pytest.raises(OutOfBounds, match="no candidate may change"):
            act()

    assert workspace.edit() == {}


def test_what_judges_may_be_read(workspace: Workspace) -> None:
    assert workspace.read("checks/referee.py").startswith("def referee")


def test_a_program_that_edits_a_protected_file_is_left_to_the_gate(workspace: Workspace) -> None:
    put(workspace, ".github/fvec.yml", b"slo: {p99_ms: 9999}\n")
    (workspace.root / "checks/referee.py").unlink()

    assert workspace.edit() == {
        "checks/referee.py": None,
        ".github/fvec.yml": b"slo: {p99_ms: 9999}\n",
    }


def test_a_link_that_a_program_made_is_not_followed(workspace: Workspace, outside: Path) -> None:
    (workspace.root / MODEL).unlink()
    (workspace.root / MODEL).symlink_to(outside / "secret.txt")
    (workspace.root / "way").symlink_to(outside)

    for path in (MODEL, "way/secret.txt"):
        for act in (
            lambda path=path: workspace.read(path),
            lambda path=path: workspace.replace(path, "nobody", "anybody"),
        ):
            with pytest.raises(OutOfBounds, match="is a symbolic link"):
                act()
        with pytest.raises(WorkspaceRefused, match="is a symbolic link"):
            workspace.write(path, "x")
    with pytest.raises(OutOfBounds, match="is a symbolic link"):
        workspace.delete("way/secret.txt")
    with pytest.raises(OutOfBounds, match="is a symbolic link"):
        workspace.write("way/new.txt", "x")
    assert workspace.search("nobody").hits == []
    assert [name for name in workspace.listing() if "way" in name or name == MODEL] == []
    with pytest.raises(WorkspaceRefused, match="is a symbolic link") as caught:
        workspace.edit()
    assert MODEL in str(caught.value)
    assert "way" in str(caught.value)


def test_a_link_that_is_swapped_in_after_the_look_is_not_followed(
    workspace: Workspace, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a program would at just that moment: the file was plain when it was looked at."""
    place = workspace.root / MODEL
    plain = os.stat

    def swapping(path: object, **options: object) -> os.stat_result:
        status = plain(path, **options)
        if path == "model.py" and stat.S_ISREG(status.st_mode):
            place.unlink()
            place.symlink_to(outside / "secret.txt")
        return status

    monkeypatch.setattr(os, "stat", swapping)
    with pytest.raises(OutOfBounds, match="is a symbolic link"):
        workspace.read(MODEL)


def test_a_write_replaces_a_link_that_is_swapped_in_after_the_look(
    workspace: Workspace, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = workspace.root / MODEL
    plain = os.stat

    def swapping(path: object, **options: object) -> os.stat_result:
        status = plain(path, **options)
        if path == "model.py" and not place.is_symlink():
            place.unlink()
            place.symlink_to(outside / "secret.txt")
        return status

    monkeypatch.setattr(os, "stat", swapping)
    workspace.write(MODEL, "new\n")
    monkeypatch.undo()

    assert not place.is_symlink()
    assert workspace.edit() == {MODEL: b"new\n"}


def test_a_write_does_not_go_through_a_hard_link(workspace: Workspace, outside: Path) -> None:
    (workspace.root / MODEL).unlink()
    (workspace.root / MODEL).hardlink_to(outside / "secret.txt")

    workspace.write(MODEL, "new\n")

    assert workspace.edit() == {MODEL: b"new\n"}


def test_a_pipe_is_neither_waited_for_nor_part_of_an_edit(workspace: Workspace) -> None:
    (workspace.root / MODEL).unlink()
    os.mkfifo(workspace.root / MODEL)

    with pytest.raises(OutOfBounds, match="is a pipe"):
        workspace.read(MODEL)
    assert workspace.search("numpy").hits == []
    with pytest.raises(WorkspaceRefused, match=f"{MODEL}' is a pipe, a socket or a device"):
        workspace.edit()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda w: put(w, ".git/config"), "git keeps that name"),
        (lambda w: put(w, "models/.GIT"), "git keeps that name"),
        (lambda w: put(w, "models/a\nb.py"), "control, invisible or odd"),
        (lambda w: put(w, "models/\u200bmodel.py"), "control, invisible or odd"),
        (lambda w: put(w, os.fsdecode(b"models/\xff.py")), "control, invisible or odd"),
        (lambda w: put(w, "models/back\\slash.py"), "control, invisible or odd"),
        (lambda w: put(w, "models/model.py."), "ends in a blank or a dot"),
        (lambda w: put(w, "/".join("d" * 70)), "lies too deep"),
        (lambda w: put(w, "data/new.txt"), "is no plain file in the repository"),
        (lambda w: put(w, f"{MODEL}.link"), "is no plain file in the repository"),
        (lambda w: put(w, "big.bin", bytes(MOST_EDIT_BYTES + 1)), "the edit is larger than"),
        (lambda w: [put(w, f"new/{n}") for n in range(MOST_FILES + 1)], "201 files are changed"),
    ],
)
def test_an_edit_that_git_or_a_reviewer_could_not_take_is_refused(
    workspace: Workspace, make: Callable[[Workspace], object], message: str
) -> None:
    make(workspace)

    with pytest.raises(WorkspaceRefused, match=message):
        workspace.edit()
    with pytest.raises(WorkspaceRefused, match=message):
        workspace.diff()


def test_a_file_in_the_place_of_a_folder_of_the_repository_is_refused(workspace: Workspace) -> None:
    (workspace.root / "checks/referee.py").unlink()
    (workspace.root / "checks").rmdir()
    put(workspace, "checks")

    with pytest.raises(WorkspaceRefused, match="'checks' is a folder of the repository"):
        workspace.edit()


def test_files_that_together_are_too_large_are_refused(workspace: Workspace) -> None:
    put(workspace, "a.bin", bytes(MOST_EDIT_BYTES // 2))
    put(workspace, "b.bin", bytes(MOST_EDIT_BYTES // 2 + 1))

    with pytest.raises(WorkspaceRefused, match=r"with 'b\.bin'"):
        workspace.edit()


def test_a_folder_of_very_many_files_is_not_looked_through(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_NEW", 20)
    for number in range(40):
        put(workspace, f"new/{number}")

    for act in (workspace.edit, workspace.diff, workspace.listing):
        with pytest.raises(WorkspaceRefused, match="more than 20 new files"):
            act()


def test_what_git_ignores_is_no_part_of_the_edit(workspace: Workspace) -> None:
    for name in ("build/out.so", "run.log", ":odd.log", "models/ranker/1/__pycache__/model.pyc"):
        put(workspace, name)
    (workspace.root / "build" / "link").symlink_to("/etc")
    put(workspace, ".gitignore", b"*.py\n")  # the repository's rules hold, not a program's
    put(workspace, "new.py")

    assert workspace.edit() == {".gitignore": b"*.py\n", "new.py": b"x\n"}


def test_a_tool_may_not_write_what_would_be_no_part_of_the_edit(workspace: Workspace) -> None:
    with pytest.raises(WorkspaceRefused, match=r"git ignores 'build/fast\.py'"):
        workspace.write("build/fast.py", "x")
    with pytest.raises(WorkspaceRefused, match="no edit is made of bytecode"):
        workspace.write("models/__pycache__/model.pyc", "x")


def test_a_name_that_the_disk_refuses_is_told(workspace: Workspace) -> None:
    for act in (
        lambda: workspace.read(f"models/{'n' * 256}"),
        lambda: workspace.write(f"models/{'n' * 256}", "x"),
    ):
        with pytest.raises(WorkspaceRefused, match="File name too long"):
            act()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\x00b", "is binary: 3 bytes"),
        (b"ok \xff", r"is not UTF-8 text: byte 0xff at 3"),
        (b"x" * (MOST_TEXT_BYTES + 1), "at most 1,048,576 are read"),
    ],
    ids=["binary", "other encoding", "long"],
)
def test_what_is_no_text_is_not_read(workspace: Workspace, content: bytes, message: str) -> None:
    put(workspace, "odd.txt", content)

    with pytest.raises(WorkspaceRefused, match=message):
        workspace.read("odd.txt")
    with pytest.raises(WorkspaceRefused, match=message):
        workspace.replace("odd.txt", "a", "b")
    assert workspace.search("b", "odd.txt").hits == []


@pytest.mark.parametrize("path", ["none.py", "models/none/model.py"])
def test_what_is_not_there_is_named(workspace: Workspace, path: str) -> None:
    for act in (
        lambda: workspace.read(path),
        lambda: workspace.replace(path, "a", "b"),
        lambda: workspace.delete(path),
        lambda: workspace.listing(path),
    ):
        with pytest.raises(WorkspaceRefused, match=f"there is no '{path}'"):
            act()


def test_a_folder_is_no_file(workspace: Workspace) -> None:
    for act in (
        lambda: workspace.read("models"),
        lambda: workspace.write("models", "x"),
        lambda: workspace.delete("models"),
    ):
        with pytest.raises(WorkspaceRefused, match="is a folder"):
            act()
    with pytest.raises(WorkspaceRefused, match="is a file"):
        workspace.write(f"{MODEL}/part.py", "x")


@pytest.mark.parametrize(
    "text", ["x" * (MOST_TEXT_BYTES + 1), "\ud800"], ids=["long", "no character"]
)
def test_a_text_that_cannot_be_kept_is_not_written(workspace: Workspace, text: str) -> None:
    with pytest.raises(WorkspaceRefused):
        workspace.write("new.py", text)

    assert workspace.edit() == {}


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("np.mean", "does not stand in"),
        ("request", "more than once"),
        ("", "does not stand in"),
        ("aa", "more than once"),
    ],
)
def test_only_a_text_that_stands_once_is_replaced(
    workspace: Workspace, old: str, message: str
) -> None:
    put(workspace, "three.py", b"# aaa request request\n")
    before = workspace.read("three.py")

    with pytest.raises(WorkspaceRefused, match=message):
        workspace.replace("three.py", old, "x")

    assert workspace.read("three.py") == before


def test_line_ends_of_windows_are_kept(workspace: Workspace) -> None:
    workspace.replace("docs/windows.txt", "one\ntwo\n", "1\n2\n")

    assert workspace.edit() == {"docs/windows.txt": b"1\r\n2\r\ntwo and a half\r\n"}


def test_a_file_that_was_a_program_stays_one(workspace: Workspace) -> None:
    workspace.write("tools/run.sh", "#!/bin/sh\nexit 1\n")

    assert os.access(workspace.root / "tools/run.sh", os.X_OK)


def test_a_search_is_literal(workspace: Workspace) -> None:
    put(workspace, "a.txt", b"(a+)+$\nAAAA (A+)+$\naaaa\n")

    assert workspace.search("(a+)+$").hits == [("a.txt", 1, "(a+)+$")]
    assert workspace.search("(a+)+$", ignore_case=True).hits == [
        ("a.txt", 1, "(a+)+$"),
        ("a.txt", 2, "AAAA (A+)+$"),
    ]
    assert workspace.search("numpy", "models").hits == [(MODEL, 1, "import numpy as np")]
    assert workspace.search("numpy", "models/") == workspace.search("numpy", MODEL)
    assert workspace.search("numpy", "docs").hits == []
    for odd in ("", "a\nb"):
        with pytest.raises(WorkspaceRefused, match="part of one line"):
            workspace.search(odd)


def test_a_search_is_bounded(workspace: Workspace) -> None:
    put(workspace, "many.txt", b"here\n" * (MOST_HITS + 1))
    put(workspace, "long.txt", b"x" * 5000 + b"needle" + b"y" * 5000)

    assert len(workspace.search("here", "many.txt").hits) == MOST_HITS
    [(_, _, line)] = workspace.search("needle").hits
    assert "needle" in line
    assert len(line) <= MOST_LINE


def test_a_search_says_what_it_did_not_look_at(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        put(workspace, f"big/{name}.txt", b"x" * 1000 + b"needle\n")
    put(workspace, "big/d.txt", bytes(MOST_TEXT_BYTES + 1))
    put(workspace, "big/e.bin", b"needle\0")
    whole = workspace.search("needle", "big")
    assert [path for path, _, _ in whole.hits] == ["big/a.txt", "big/b.txt", "big/c.txt"]
    assert (whole.too_long, whole.unread) == (1, 0)
    assert workspace.search("needle", "big/d.txt").too_long == 1

    monkeypatch.setattr(module, "MOST_HITS", 2)
    assert workspace.search("needle", "big").unread == 3
    monkeypatch.undo()
    monkeypatch.setattr(module, "MOST_SEARCHED", 1500)
    most = workspace.search("needle", "big")
    assert (len(most.hits), most.unread) == (2, 3)
    monkeypatch.undo()
    monkeypatch.setattr(module, "MOST_SEARCH_S", 0.0)
    late = workspace.search("needle", "big")
    assert (late.hits, late.unread) == ([], 5)


def test_a_secret_is_neither_shown_by_a_search_nor_found_by_guessing(workspace: Workspace) -> None:
    token = canaries.tokens()["github personal"]
    block = canaries.pem()
    put(workspace, "keys.py", f"TOKEN = '{token}'  # of the bot\n{block}\n".encode())

    assert workspace.search(token[:12]).hits == []
    assert workspace.search(block.splitlines()[2][:12]).hits == []
    [(path, number, line)] = workspace.search("of the bot").hits
    assert (path, number) == ("keys.py", 1)
    assert MARK in line
    assert token not in line


def test_a_diff_shows_the_change_without_secrets(workspace: Workspace) -> None:
    token = canaries.tokens()["github personal"]
    workspace.replace(MODEL, "np.sort(request)", f"np.sort(request)  # {token}")
    workspace.delete("README.md")
    put(workspace, "traffic/requests.bin", b"\x00\x02")
    put(workspace, "latin.py", "# coding: latin-1\nx = '\xe9'\n".encode("latin-1"))
    put(workspace, "new.txt", b"no end")

    told = workspace.diff()

    assert f"-        return np.sort(request)\n+        return np.sort(request)  # {MARK}\n" in told
    assert "--- a/README.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-# Ads\n" in told
    assert (
        "--- a/traffic/requests.bin\n+++ b/traffic/requests.bin\nBinary: 3 bytes before, 2" in told
    )
    assert "+# coding: latin-1\n+x = '<U+DCE9>'\n" in told  # no byte hides code as binary
    assert "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+no end\n\\ No newline" in told
    assert token not in told


def test_a_diff_of_a_worktree_that_changed_meanwhile_is_our_failure(
    workspace: Workspace, repo: Path
) -> None:
    workspace.write(MODEL, "new\n")
    (repo / MODEL).write_text(SOURCE.replace("sort", "sOrt"))

    with pytest.raises(ToolFailed, match="changed while an agent worked"):
        workspace.diff()
    with pytest.raises(ToolFailed, match="changed while an agent worked"):
        workspace.reset()


def test_a_reset_makes_it_what_it_was(workspace: Workspace, outside: Path) -> None:
    workspace.write(MODEL, "new\n")
    workspace.delete("README.md")
    (workspace.root / "way").symlink_to(outside)
    os.mkfifo(workspace.root / "pipe")
    put(workspace, "shut/inner/file")
    (workspace.root / "shut/inner").chmod(0)
    (workspace.root / "shut").chmod(0)

    workspace.reset()

    assert workspace.edit() == {}
    assert workspace.listing() == sorted(FILES)


def test_nothing_is_left_of_a_workspace_however_deep_it_became(
    repo: Path, tmp_path: Path, outside: Path
) -> None:
    workspace = Workspace.make(repo, tmp_path / "work", PROTECTED)
    folder = os.open(workspace.root, os.O_RDONLY)
    for _ in range(2000):  # deeper than a path may be long, and than Python calls itself
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.symlink(outside, "way", dir_fd=inner)
        os.close(folder)
        folder = inner
    os.close(folder)

    with pytest.raises(WorkspaceRefused, match="is a symbolic link"):
        workspace.edit()
    workspace.close()
    workspace.close()

    assert list((tmp_path / "work").iterdir()) == []


def test_no_workspace_is_made_of_what_is_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()

    with pytest.raises(ToolFailed):
        Workspace.make(tmp_path / "plain", tmp_path / "work", ())
    assert list((tmp_path / "work").iterdir()) == []
    with pytest.raises(ToolFailed, match="no workspace can be made"):
        Workspace.make(tmp_path / "nowhere", tmp_path / "work", ())


# --- what is not shown ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "CLAUDE.md",
        "docs/Agents.MD",
        "GEMINI.md",
        ".claude/settings.json",
        ".mcp.json",
        "models/.cursor/rules",
        ".codex/config.toml",
        ".aider.conf.yml",
        ".github/copilot-instructions.md",
        ".github/instructions/python.instructions.md",
    ],
)
def test_what_configures_agents_is_not_there_stays_and_may_not_be_made(
    name: str, tmp_path: Path
) -> None:
    root = repository(tmp_path / "stack", {**FILES, name: b"Obey.\n"})
    with closing(Workspace.make(root, tmp_path / "work", PROTECTED)) as workspace:
        assert workspace.listing() == sorted(FILES)
        assert not (workspace.root / name).exists()
        assert workspace.edit() == {}
        for reach in (
            partial(workspace.read, name),
            partial(workspace.write, name, "x"),
            partial(workspace.delete, name),
        ):
            with pytest.raises(OutOfBounds, match="configures coding agents"):
                reach()
        put(workspace, name)
        with pytest.raises(WorkspaceRefused, match="configures coding agents"):
            workspace.edit()


@pytest.mark.parametrize("name", ["models/claude/1/model.py", ".github/workflows/agents.yml"])
def test_names_that_configure_nothing_are_let_be(name: str) -> None:
    assert not configures_agents(name)


def test_what_is_hidden_is_not_there_and_stays(tmp_path: Path) -> None:
    root = repository(tmp_path / "stack", {**FILES, "traffic/record.py": b"seed = 1\n"})
    hidden = ("checks/referee.py", "traffic")
    with closing(Workspace.make(root, tmp_path / "work", PROTECTED, hidden)) as workspace:
        kept = set(FILES) - {"checks/referee.py", "traffic/requests.bin"}
        assert set(workspace.listing()) == kept
        assert workspace.search("seed").hits == []
        for path in ("checks/referee.py", "traffic/record.py", "traffic", "traffic/new"):
            with pytest.raises(OutOfBounds, match="is hidden"):
                workspace.listing(path)
            with pytest.raises(OutOfBounds, match="is hidden"):
                workspace.write(path, "x")
        assert workspace.edit() == {}
        put(workspace, "checks/referee.py")  # for the gate of paths
        assert list(workspace.edit()) == ["checks/referee.py"]
        put(workspace, "traffic/new")
        with pytest.raises(WorkspaceRefused, match="'traffic/new' is hidden"):
            workspace.edit()


# --- a name that is lent --------------------------------------------------------------------------


def test_a_name_is_lent_and_what_the_repository_has_there_comes_back(workspace: Workspace) -> None:
    with workspace.lent("README.md") as left:
        assert left(10) is None
        put(workspace, "README.md", b"mine\n")
        assert left(10) == b"mine\n"
        with pytest.raises(TooLarge):
            left(4)
    with workspace.lent("docs"):
        assert "docs/windows.txt" not in workspace.listing()

    assert workspace.edit() == {}


def test_a_name_that_became_a_deep_closed_folder_is_cleared(workspace: Workspace) -> None:
    here = os.open(".", os.O_RDONLY)
    try:
        with workspace.lent("claim") as left:
            os.chdir(workspace.root)
            for _ in range(1500):
                Path("claim").mkdir()
                os.chdir("claim")
            os.fchdir(here)
            for folder in ("claim/claim", "claim", "."):
                (workspace.root / folder).chmod(0)
            with pytest.raises(NotPlain):
                left(10)
    finally:
        os.fchdir(here)
        os.close(here)

    assert not (workspace.root / "claim").exists()
    assert workspace.edit() == {}
