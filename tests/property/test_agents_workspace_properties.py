"""Whatever an agent calls a file, it lies in the workspace, and git takes the edit."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from layers.agents.workbench.workspace import Workspace, WorkspaceRefused
from layers.gates.paths import guarded
from layers.repository.git import checked_path
from tests.agents_workspace import BEYOND, FILES, MODEL, PROTECTED, repository

NAMES = (
    *("", ".", "..", "~", "way", "data", "models", "ranker", "model.py", "new", "fast.py"),
    *(".git", ".GIT", ".git ", "git~1", ".github", "CODEOWNERS", "checks", "build", "__pycache__"),
    *("con.", "a:b", "-rf", "*", "?", "[a]", ":(glob)**", '"'),
)
PARTS = st.one_of(st.sampled_from(NAMES), st.text(max_size=6))
PATHS = st.builds(
    lambda leading, parts: leading + "/".join(parts),
    st.sampled_from(["", "/", "./", "models/", "way/"]),
    st.lists(PARTS, max_size=4),
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("workspace")
    made = Workspace.make(repository(folder / "stack"), folder / "work", PROTECTED)
    yield made
    made.close()


def beside(workspace: Workspace, name: str) -> Path:
    """Return a folder beside the one that the workspace was made in."""
    return workspace.root.parents[2] / name


def git_takes(stack: Path, name: str) -> bool:
    """Whether git lets a file of that name into its index; the index stays as it was."""
    known = subprocess.run(
        ["git", "rev-parse", "HEAD:README.md"], cwd=stack, check=True, capture_output=True
    )
    blob = known.stdout.decode().strip()
    added = subprocess.run(
        ["git", "update-index", "--add", "--cacheinfo", "100644", blob, name],
        cwd=stack,
        check=False,
        capture_output=True,
    )
    subprocess.run(["git", "read-tree", "HEAD"], cwd=stack, check=True)
    return added.returncode == 0


@settings(max_examples=150, deadline=None)
@given(path=PATHS)
@example(path="models/new/fast.py")
@example(path="models/-rf")
@example(path=":(glob)**")
@example(path="models/.git ")
def test_a_file_is_written_in_the_workspace_or_nowhere(workspace: Workspace, path: str) -> None:
    outside, stack = beside(workspace, "outside"), beside(workspace, "stack")
    workspace.reset()
    (workspace.root / "way").symlink_to(outside)
    expected: dict[str, bytes | None] = {}
    try:
        workspace.write(path, "written\n")
        expected[path] = b"written\n"
    except WorkspaceRefused:
        pass
    (workspace.root / "way").unlink()

    assert [found.name for found in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == BEYOND
    assert workspace.edit() == expected
    for name in expected:
        assert (workspace.root / name).resolve().is_relative_to(workspace.root.resolve())
        assert not guarded([name], PROTECTED)
        assert checked_path(stack, name) == stack / name
        assert git_takes(stack, name)


@settings(max_examples=150, deadline=None)
@given(path=PATHS)
@example(path="way/secret.txt")
@example(path="data/secret.txt")
def test_nothing_but_the_workspace_is_read(workspace: Workspace, path: str) -> None:
    workspace.reset()
    (workspace.root / "way").symlink_to(beside(workspace, "outside"))

    for reach in (workspace.read, workspace.listing, lambda path: workspace.search("nobody", path)):
        try:
            found = reach(path)
        except WorkspaceRefused:
            continue
        assert BEYOND.strip() not in str(found)
        assert "secret.txt" not in str(found)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.dictionaries(
        st.sampled_from([*FILES, f"{MODEL}2", "new/a.py", "new/b/c.py"]),
        st.binary(max_size=40) | st.none(),
        max_size=6,
    )
)
def test_an_edit_is_what_differs(workspace: Workspace, texts: dict[str, bytes | None]) -> None:
    """As a program changes files: the edit says no more and no less."""
    workspace.reset()
    for name, content in texts.items():
        path = workspace.root / name
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    assert workspace.edit() == {
        name: content for name, content in texts.items() if content != FILES.get(name)
    }
