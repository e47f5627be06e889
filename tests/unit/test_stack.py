"""A stack: what is refused when it is opened, edited or built, and what is left behind."""

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from layers.base import Edit
from layers.errors import FvecError, InvalidInput, ToolFailed
from layers.repository.git import check_whole, checked_path, commit_edit
from layers.repository.stack import Stack, build_log
from layers.sandbox.base import Ending
from layers.sandbox.box import LimitReached, Sandbox

MODEL = "models/tiny_ranker/1/model.py"


@dataclass(frozen=True)
class ThisPython:
    """The interpreter of the tests in the place of the model server's."""

    python: Path = Path(sys.executable)
    digest: str = "this"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fvec"


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit_all(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "-c", "user.name=Serving", "-c", "user.email=s@example.com", "commit", "-qm", "Next")


def edit(files: dict[str, bytes | None]) -> Edit:
    return Edit(files, "Edit", "Because.")


def with_build(repository: Path, steps: str) -> Stack:
    """Return the stack of `repository` with other build steps, committed."""
    manifest = repository / ".github" / "fvec.yml"
    head, _, rest = manifest.read_text().partition("  build:\n")
    tail = rest[rest.index("traffic:\n  requests") :]
    manifest.write_text(f"{head}  build:\n{steps}{tail}")
    commit_all(repository)
    return Stack.open(repository)


def test_a_clean_checkout_opens_at_its_commit(tiny_repo: Path) -> None:
    stack = Stack.open(tiny_repo)

    assert (stack.name, stack.root, stack.commit) == (
        "tiny",
        tiny_repo,
        git(tiny_repo, "rev-parse", "HEAD"),
    )
    assert stack.manifest.stack.entry == "tiny_ensemble"


def test_local_changes_are_refused_by_name(tiny_repo: Path) -> None:
    (tiny_repo / MODEL).write_text("changed")
    (tiny_repo / "new file.txt").write_text("new")

    with pytest.raises(InvalidInput, match=f"{MODEL}, new file.txt") as caught:
        Stack.open(tiny_repo)

    assert caught.value.hint == "commit or stash them; results belong to a commit"


def test_files_that_git_ignores_are_no_changes(tiny_repo: Path) -> None:
    (tiny_repo / "traffic" / "requests.bin").write_bytes(b"")

    assert Stack.open(tiny_repo).name == "tiny"


def test_a_missing_manifest_is_named_with_what_to_do(tiny_repo: Path) -> None:
    (tiny_repo / ".github" / "fvec.yml").unlink()
    commit_all(tiny_repo)

    with pytest.raises(InvalidInput, match=r"there is no \.github/fvec\.yml") as caught:
        Stack.open(tiny_repo)

    assert caught.value.exit_code == 3
    assert f"run `fvec init {tiny_repo}`" in str(caught.value)


def test_a_manifest_that_is_a_link_is_refused(tiny_repo: Path) -> None:
    manifest = tiny_repo / ".github" / "fvec.yml"
    manifest.rename(tiny_repo / "elsewhere.yml")
    manifest.symlink_to("../elsewhere.yml")
    commit_all(tiny_repo)

    with pytest.raises(InvalidInput, match=r"there is no \.github/fvec\.yml"):
        Stack.open(tiny_repo)


def test_an_unknown_key_of_the_manifest_has_line_and_column(tiny_repo: Path) -> None:
    manifest = tiny_repo / ".github" / "fvec.yml"
    manifest.write_text(manifest.read_text().replace("in_flight", "in_fligt"))
    commit_all(tiny_repo)

    with pytest.raises(InvalidInput) as caught:
        Stack.open(tiny_repo)

    line = manifest.read_text().splitlines().index("  in_fligt: 4") + 1
    assert f"{manifest}:{line}:3" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path, "is not a folder"),
        (lambda path: path.mkdir() or path, "is not a git checkout"),
    ],
)
def test_what_is_no_checkout_is_refused(tmp_path: Path, make, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Stack.open(make(tmp_path / "nowhere"))


def test_a_folder_inside_a_checkout_is_not_a_stack(tiny_repo: Path) -> None:
    with pytest.raises(InvalidInput, match="is not the root of its checkout"):
        Stack.open(tiny_repo / "models")


def test_a_repository_without_commits_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")

    with pytest.raises(InvalidInput, match="has no commit yet"):
        Stack.open(tmp_path)


def test_worktrees_are_gone_after_the_block_and_the_checkout_is_untouched(
    tiny_repo: Path, tmp_path: Path
) -> None:
    before = git(tiny_repo, "status", "--porcelain", "--branch", "--ignored")
    with Stack.open(tiny_repo) as stack:
        first = stack.worktree(stack.commit, tmp_path / "run")
        second = stack.worktree(stack.commit, tmp_path / "run")
        assert first != second
        assert (second / MODEL).read_bytes() == (tiny_repo / MODEL).read_bytes()

    assert not first.exists()
    assert len(git(tiny_repo, "worktree", "list").splitlines()) == 1
    assert git(tiny_repo, "status", "--porcelain", "--branch", "--ignored") == before


def test_worktrees_of_a_killed_run_do_not_stand_in_the_way(tiny_repo: Path, tmp_path: Path) -> None:
    left = Stack.open(tiny_repo).worktree("HEAD", tmp_path / "run")

    with Stack.open(tiny_repo) as stack:
        assert stack.worktree("HEAD", tmp_path / "run") != left


def test_what_git_notes_of_worktrees_that_are_gone_does_not_stand_in_the_way(
    tiny_repo: Path, tmp_path: Path
) -> None:
    left = Stack.open(tiny_repo).worktree("HEAD", tmp_path / "run")
    shutil.rmtree(tmp_path / "run")

    with Stack.open(tiny_repo) as stack:
        assert stack.worktree("HEAD", tmp_path / "run") == left
        shutil.rmtree(left)

    assert len(git(tiny_repo, "worktree", "list").splitlines()) == 1


def test_a_persons_worktree_whose_disk_is_not_there_is_not_forgotten(
    tiny_repo: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    git(tiny_repo, "worktree", "add", "--quiet", "-b", "mine", str(disk / "mine"))
    disk.rename(tmp_path / "unmounted")

    with Stack.open(tiny_repo) as stack:
        stack.worktree("HEAD", tmp_path / "run")
    (tmp_path / "unmounted").rename(disk)

    assert git(disk / "mine", "status", "--porcelain", "--branch") == "## mine"


def test_hooks_of_the_checkout_do_not_run(tiny_repo: Path, tmp_path: Path) -> None:
    for name in (
        "post-checkout",
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
    ):
        hook = tiny_repo / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\nexit 1\n")
        hook.chmod(0o755)

    with Stack.open(tiny_repo) as stack:
        stack.commit_edit(stack.commit, "fvec/x", edit({"a": b"1"}), tmp_path / "run")

    assert list(tmp_path.glob("ran-*")) == []


def test_an_edit_becomes_a_branch_of_one_commit_by_the_bot(tiny_repo: Path, tmp_path: Path) -> None:
    (tiny_repo / "run.sh").write_text("#!/bin/sh\n")
    (tiny_repo / "run.sh").chmod(0o755)
    commit_all(tiny_repo)
    change = Edit(
        {
            MODEL: b"# new\r\n",
            "run.sh": b"#!/bin/sh\ntrue\n",
            "models/new.py": b"\xff",
            ".gitignore": None,
        },
        "Change things",
        "It is right.",
    )
    with Stack.open(tiny_repo) as stack:
        commit, patch, worktree = stack.commit_edit(stack.commit, "fvec/x", change, tmp_path / "r")
        assert (worktree / MODEL).read_bytes() == b"# new\r\n"
        assert os.access(worktree / "run.sh", os.X_OK)

    assert git(tiny_repo, "rev-parse", "fvec/x") == commit
    assert git(tiny_repo, "rev-parse", "fvec/x^") == stack.commit
    assert git(tiny_repo, "show", "-s", "--format=%an <%ae>%n%B", commit) == (
        "fvec <fvec@users.noreply.github.com>\nChange things\n\nIt is right."
    )
    assert git(tiny_repo, "diff-tree", "-r", "--name-status", stack.commit, commit).split() == [
        *("D", ".gitignore", "A", "models/new.py", "M", MODEL, "M", "run.sh"),
    ]
    git(tiny_repo, "checkout", "--quiet", "--detach")
    (tmp_path / "p").write_bytes(patch.encode("utf-8", "surrogateescape"))
    git(tiny_repo, "apply", "--index", str(tmp_path / "p"))
    assert git(tiny_repo, "write-tree") == git(tiny_repo, "rev-parse", f"{commit}^{{tree}}")


def test_the_same_edit_is_the_same_commit_and_an_empty_one_has_no_patch(
    tiny_repo: Path, tmp_path: Path
) -> None:
    same = edit({MODEL: (tiny_repo / MODEL).read_bytes()})
    with Stack.open(tiny_repo) as stack:
        first = stack.commit_edit(stack.commit, "fvec/x", edit({"a": b"1"}), tmp_path / "r")
        again = stack.commit_edit(stack.commit, "fvec/x", edit({"a": b"1"}), tmp_path / "r")
        assert first[:2] == again[:2]

        _, patch, _ = stack.commit_edit(stack.commit, "fvec/y", same, tmp_path / "r")
        assert patch == ""
        _, patch, _ = stack.commit_edit(stack.commit, "fvec/z", edit({}), tmp_path / "r")
        assert patch == ""


def test_a_patch_is_the_same_whatever_the_users_settings(
    tiny_repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"line {n}\n" if n % 3 else "\n" for n in range(40)]
    (tiny_repo / "long.txt").write_text("".join(lines))
    commit_all(tiny_repo)
    lines[20:22] = ["other\n", "\n", "\n", "other\n"]
    change = edit({"long.txt": "".join(lines).encode(), "a": b"1", "b": b"\n"})
    patches = set()
    for settings in (
        "",
        "[diff]\n\tcontext = 0\n",
        "[diff]\n\tnoprefix = true\n\talgorithm = patience\n\tindentHeuristic = false\n",
        "[diff]\n\tinterHunkContext = 30\n\tsuppressBlankEmpty = true\n\tcontext = 9\n",
        f"[diff]\n\torderFile = {tmp_path / 'order'}\n\tmnemonicPrefix = true\n",
    ):
        home = tmp_path / f"home-{len(settings)}"
        home.mkdir()
        (home / ".gitconfig").write_text(settings)
        (tmp_path / "order").write_text("long.txt\n")
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
        with Stack.open(tiny_repo) as stack:
            patches.add(stack.commit_edit(stack.commit, "fvec/x", change, tmp_path / "r")[1])
    assert len(patches) == 1
    assert "diff --git a/a b/a" in patches.pop()


@pytest.mark.parametrize(
    ("attributes", "content"),
    [
        ("* text=auto", b"one\r\ntwo\r\n"),
        ("*.py text eol=lf", b"one\r\n"),
        ("*.py eol=crlf", b"one\n"),
        ("*.py ident", b"$Id$\n"),
        ("*.py ident", b"$Id: of an author $\n"),
        ("*.py working-tree-encoding=UTF-16", b"\xfe\xff\x00a"),
        ("models/** filter=marks", b"one\n"),
    ],
)
def test_what_git_would_change_on_its_way_is_not_committed_as_it_is(
    tiny_repo: Path, tmp_path: Path, attributes: str, content: bytes
) -> None:
    ran = tmp_path / "ran"
    (tiny_repo / ".gitattributes").write_text(f"{attributes}\n")
    commit_all(tiny_repo)
    git(tiny_repo, "config", "filter.marks.clean", f"touch {ran}; cat")

    with pytest.raises(InvalidInput, match=r"git would keep other bytes of 'models/new\.py'"):
        commit_edit(tiny_repo, edit({"models/new.py": content}), as_it_is=True)
    assert not ran.exists()


def test_what_git_keeps_as_it_is_is_committed(tiny_repo: Path) -> None:
    (tiny_repo / ".gitattributes").write_text("* text=auto\n*.bin -text\n")
    commit_all(tiny_repo)
    files = {"a.py": b"one\n", "b.bin": b"\r\n\x00", "a b/\u00e9.py": b"", ".gitignore": None}

    commit, _ = commit_edit(tiny_repo, edit(files), as_it_is=True)

    assert git(tiny_repo, "show", f"{commit}:a.py") == "one"


def test_a_branch_that_a_person_built_on_is_left_alone(tiny_repo: Path, tmp_path: Path) -> None:
    git(tiny_repo, "branch", "fvec/x")
    with Stack.open(tiny_repo) as stack:
        with pytest.raises(InvalidInput, match="its last commit is not the bot's"):
            stack.commit_edit(stack.commit, "fvec/x", edit({"a": b"1"}), tmp_path / "r")

        assert git(tiny_repo, "rev-parse", "fvec/x") == stack.commit
        assert list((tmp_path / "r").iterdir()) == []


def test_a_branch_is_dropped_only_where_the_bot_left_it(tiny_repo: Path, tmp_path: Path) -> None:
    with Stack.open(tiny_repo) as stack:
        commit, _, _ = stack.commit_edit(stack.commit, "fvec/x", edit({"a": b"1"}), tmp_path / "r")
        stack.drop_branch("main", commit)
        stack.drop_branch("fvec/x", stack.commit)
        assert git(tiny_repo, "branch", "--format=%(refname:short)").split() == ["fvec/x", "main"]

        stack.drop_branch("fvec/x", commit)

    assert git(tiny_repo, "branch", "--format=%(refname:short)") == "main"


def test_a_branch_that_somebody_looks_at_is_neither_moved_nor_dropped(
    tiny_repo: Path, tmp_path: Path
) -> None:
    with Stack.open(tiny_repo) as stack:
        commit, _, _ = stack.commit_edit(stack.commit, "fvec/x", edit({"a": b"1"}), tmp_path / "r")
        git(tiny_repo, "worktree", "add", "--quiet", str(tmp_path / "looking"), "fvec/x")
        with pytest.raises(InvalidInput, match=r"fvec/x is checked out in .*looking"):
            stack.commit_edit(stack.commit, "fvec/x", edit({"a": b"2"}), tmp_path / "r")
        stack.drop_branch("fvec/x", commit)

    assert git(tiny_repo, "rev-parse", "fvec/x") == commit
    assert git(tmp_path / "looking", "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "/etc/passwd", "../x", "a/../../x", "a/../b", "./a", "a//b", "a\\b", "a\nb"),
        *(".git/config", "models/.git/hooks/x", ".GIT/config", ".github/fvec.yml", ".GitHub/x"),
        *("models", "models/tiny_ranker/1/model.py/x", "link/x", "link"),
    ],
)
def test_paths_that_an_edit_may_not_name(tiny_repo: Path, tmp_path: Path, name: str) -> None:
    (tiny_repo / "link").symlink_to(tmp_path)
    commit_all(tiny_repo)

    with Stack.open(tiny_repo) as stack, pytest.raises(InvalidInput, match="is refused"):
        stack.commit_edit(stack.commit, "fvec/x", Edit({name: b"x"}, "s", "e"), tmp_path / "r")

    assert not (tmp_path / "x").exists()
    assert git(tiny_repo, "branch", "--format=%(refname:short)") == "main"


def test_deleting_what_is_not_there_is_refused(tiny_repo: Path, tmp_path: Path) -> None:
    with Stack.open(tiny_repo) as stack, pytest.raises(InvalidInput, match="no such file"):
        stack.commit_edit(stack.commit, "fvec/x", edit({"a": None}), tmp_path / "r")


@pytest.mark.parametrize(
    ("submodule", "needed"),
    [("models/shared", "models"), ("models", "models"), ("vendor", "vendor/models")],
)
def test_a_submodule_with_what_is_served_is_refused(
    tiny_repo: Path, submodule: str, needed: str
) -> None:
    git(tiny_repo, "rm", "--quiet", "--cached", "-r", "models")
    head = git(tiny_repo, "rev-parse", "HEAD")
    git(tiny_repo, "update-index", "--add", "--cacheinfo", f"160000,{head},{submodule}")

    check_whole(tiny_repo, "traffic", "model", "vendor-models")
    with pytest.raises(InvalidInput, match=f"'{submodule}' is a submodule"):
        check_whole(tiny_repo, "traffic", needed)


def test_recorded_traffic_that_git_lfs_keeps_is_refused(
    tiny_repo: Path, tmp_path: Path, sandbox: Sandbox
) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (tiny_repo / "traffic" / "requests.bin").write_text(pointer)
    git(tiny_repo, "add", "--force", "traffic/requests.bin")
    commit_all(tiny_repo)

    with Stack.open(tiny_repo) as stack:
        tree = stack.worktree(stack.commit, tmp_path / "r")
        with pytest.raises(InvalidInput, match=r"'traffic/requests\.bin' is a pointer"):
            stack.build(tree, ThisPython(), sandbox)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a folder away")
def test_a_checkout_of_another_user_is_refused_with_how_to_trust_it(
    tiny_repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for folder in (tiny_repo, tiny_repo / ".git"):
        os.chown(folder, 12345, 12345)

    with pytest.raises(InvalidInput, match="dubious ownership") as caught:
        Stack.open(tiny_repo)

    assert "git config --global --add safe.directory" in (caught.value.hint or "")


def test_an_ordinary_path_is_accepted(tmp_path: Path) -> None:
    assert checked_path(tmp_path, "models/a/1/fvec_native/build.py") == (
        tmp_path / "models/a/1/fvec_native/build.py"
    )


COUNTING = """\
    - run: [python, step.py]
      inputs: [step.py, "data/*.txt"]
      outputs: [out/result.txt]
"""
COUNTING_PROGRAM = """\
import pathlib, sys
root = pathlib.Path(sys.argv[0]).resolve().parent
text = "".join(sorted(p.read_text() for p in (root / "data").iterdir()))
(root / "out" / "result.txt").write_text(text)
"""


def runs(worktrees: Path) -> int:
    """How often the program ran for the worktrees in a folder, by their build logs."""
    return sum(log.read_text().count("step.py\n") for log in worktrees.glob("*-build.log"))


@pytest.fixture
def counting(tiny_repo: Path, cache: Path) -> Stack:
    (tiny_repo / "step.py").write_text(COUNTING_PROGRAM)
    (tiny_repo / "data").mkdir()
    (tiny_repo / "data" / "a.txt").write_text("a")
    (tiny_repo / ".gitignore").write_text("out/\ntraffic/*.bin\n")
    return with_build(tiny_repo, COUNTING)


def test_a_build_step_runs_once_for_the_same_inputs(
    counting: Stack, sandbox: Sandbox, tmp_path: Path
) -> None:
    with counting as stack:
        trees = [stack.worktree(stack.commit, tmp_path / "r") for _ in range(2)]
        for tree in trees:
            stack.build(tree, ThisPython(), sandbox)

        changed = stack.commit_edit(
            stack.commit, "fvec/x", edit({"data/b.txt": b"b"}), tmp_path / "r"
        )[2]
        stack.build(changed, ThisPython(), sandbox)

        assert [(t / "out/result.txt").read_text() for t in (*trees, changed)] == ["a", "a", "ab"]
        assert runs(tmp_path / "r") == 2


def test_another_environment_builds_again(
    counting: Stack, sandbox: Sandbox, tmp_path: Path
) -> None:
    with counting as stack:
        for digest in ("one", "two"):
            stack.build(
                stack.worktree(stack.commit, tmp_path / "r"), ThisPython(digest=digest), sandbox
            )

    assert runs(tmp_path / "r") == 2


def test_what_is_done_to_a_built_file_does_not_reach_the_cache(
    counting: Stack, sandbox: Sandbox, tmp_path: Path
) -> None:
    with counting as stack:
        first = stack.worktree(stack.commit, tmp_path / "r")
        stack.build(first, ThisPython(), sandbox)
        assert (first / "out/result.txt").stat().st_mode & 0o222 == 0
        (first / "out/result.txt").chmod(0o644)
        (first / "out/result.txt").write_text("forged")

        second = stack.worktree(stack.commit, tmp_path / "r")
        stack.build(second, ThisPython(), sandbox)

        assert (second / "out/result.txt").read_text() == "a"


@pytest.mark.parametrize(
    ("run", "outputs", "error", "message"),
    [
        ('[python, -c, "raise SystemExit(3)"]', "[x]", ToolFailed, "exit code 3"),
        ('[python, -c, "import time; time.sleep(60)"]', "[x]", ToolFailed, "longer than 0.5 s"),
        ("[no-such-program]", "[x]", ToolFailed, "no-such-program: No such file"),
        ("[python, --version]", "[x]", ToolFailed, "did not write its outputs"),
        ("[python, --version]", "[.gitignore]", InvalidInput, "git tracks .gitignore"),
    ],
)
def test_a_build_that_fails_says_why(
    tiny_repo: Path,
    cache: Path,
    sandbox: Sandbox,
    tmp_path: Path,
    run: str,
    outputs: str,
    error,
    message: str,
) -> None:
    step = f"    - run: {run}\n      inputs: [.gitignore]\n      outputs: {outputs}\n"
    with with_build(tiny_repo, f"{step}      timeout_s: 0.5\n") as stack:
        tree = stack.worktree(stack.commit, tmp_path / "r")
        with pytest.raises(error, match=message):
            stack.build(tree, ThisPython(), sandbox)

    left = {entry.suffix for entry in (cache / "build").glob("*") if entry.name != "home"}
    assert left <= {".lock"}


def test_a_glob_of_outputs_is_of_its_own_folder_alone(
    tiny_repo: Path, cache: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    program = "open('made.py', 'w').close()"
    step = (
        f'    - run: [python, -c, "{program}"]\n      inputs: [models]\n      outputs: ["*.py"]\n'
    )
    with with_build(tiny_repo, step) as stack:
        tree = stack.worktree(stack.commit, tmp_path / "r")
        stack.build(tree, ThisPython(), sandbox)

        assert (tree / "made.py").is_file()


def test_the_log_of_a_failed_build_is_named_and_stays(
    tiny_repo: Path, cache: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    step = '    - run: [python, -c, "raise ValueError(42)"]\n      inputs: [models]\n      outputs: [x]\n'
    with with_build(tiny_repo, step) as stack:
        tree = stack.worktree(stack.commit, tmp_path / "r")
        with pytest.raises(ToolFailed) as caught:
            stack.build(tree, ThisPython(), sandbox)

    assert "  | ValueError: 42" in str(caught.value)
    assert str(build_log(tree)) in str(caught.value)
    assert "ValueError: 42" in build_log(tree).read_text()


def test_a_build_sees_no_credentials(
    tiny_repo: Path, cache: Path, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    program = "import os, pathlib; pathlib.Path('x').write_text(' '.join(os.environ))"
    step = f'    - run: [python, -c, "{program}"]\n      inputs: [models]\n      outputs: [x]\n'
    with with_build(tiny_repo, step) as stack:
        tree = stack.worktree(stack.commit, tmp_path / "r")
        stack.build(tree, ThisPython(), sandbox)

        assert "SOME_TOKEN" not in (tree / "x").read_text().split()


def test_native_sources_of_the_model_repository_are_built_in_their_folder(
    tiny_repo: Path, cache: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    program = b"import pathlib; pathlib.Path('built.so').write_text('native')\n"
    name = "models/tiny_ranker/1/fvec_native/build.py"
    with Stack.open(tiny_repo) as stack:
        native = Edit({name: program}, "Add native code", "It is quick.")
        tree = stack.commit_edit(stack.commit, "fvec/x", native, tmp_path / "r")[2]
        (tree / "traffic" / "record.py").write_text("")
        with pytest.raises(ToolFailed, match="did not write its outputs"):
            stack.build(tree, ThisPython(), sandbox)
        git(tree, "checkout", "--quiet", "traffic/record.py")
        stack.build(tree, ThisPython(), sandbox)

        assert (tree / name).with_name("built.so").read_text() == "native"


def test_inputs_outside_the_repository_are_refused(
    tiny_repo: Path, cache: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "outside.txt").write_text("x")
    (tiny_repo / "in.txt").symlink_to(tmp_path / "outside.txt")
    step = "    - run: [python, --version]\n      inputs: [in.txt]\n      outputs: [x]\n"
    with with_build(tiny_repo, step) as stack:
        tree = stack.worktree(stack.commit, tmp_path / "r")
        with pytest.raises(FvecError, match=r"in\.txt of a build step is not a file"):
            stack.build(tree, ThisPython(), sandbox)


def build_of(repository: Path, program: str, under: Path, sandbox: Sandbox, **more: str) -> str:
    """Return what a Python program writes to its output as the one step of a build."""
    (repository / "step.py").write_text(program)
    lines = "".join(f"      {key}: {value}\n" for key, value in more.items())
    step = f"    - run: [python, step.py]\n      inputs: [step.py]\n      outputs: [x]\n{lines}"
    with with_build(repository, step) as stack:
        tree = stack.worktree(stack.commit, under)
        stack.build(tree, ThisPython(), sandbox)
        return (tree / "x").read_text()


SURVEY = """\
import json, os, pathlib, socket
def attempt(call):
    try:
        return repr(call())
    except OSError as error:
        return error.strerror
seen = {
    "here": sorted(p.name for p in pathlib.Path().iterdir()),
    "cache": attempt(lambda: os.listdir(CACHE)),
    "network": attempt(lambda: socket.create_connection(("127.0.0.1", PORT), 1)),
    "home": os.listdir(os.environ["HOME"]),
}
pathlib.Path("x").write_text(json.dumps(seen))
"""


def test_a_build_step_sees_its_inputs_and_neither_cache_nor_network(
    tiny_repo: Path, cache: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        known = f"CACHE, PORT = {str(cache)!r}, {ours.getsockname()[1]}\n"
        told = build_of(tiny_repo, known + SURVEY, tmp_path / "r", sandbox)

    assert json.loads(told) == {
        "here": ["step.py"],
        "cache": "No such file or directory",
        "network": "Connection refused",
        "home": [],
    }


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("while True: pass", Ending.TIME_LIMIT),
        ("while True: print('x' * 10**6)", Ending.OUTPUT_LIMIT),
        ("hog = [bytearray(1 << 24) for _ in range(200)]", Ending.MEMORY_LIMIT),
        (
            "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
            Ending.PROCESS_LIMIT,
        ),
    ],
    ids=["hang", "output", "memory", "processes"],
)
def test_a_limit_that_ends_a_build_is_named(
    tiny_repo: Path, cache: Path, sandbox: Sandbox, tmp_path: Path, program: str, reason: Ending
) -> None:
    manifest = tiny_repo / ".github" / "fvec.yml"
    manifest.write_text(f"{manifest.read_text()}sandbox: {{memory_gib: 0.5, processes: 64}}\n")

    with pytest.raises(LimitReached) as caught:
        build_of(tiny_repo, program, tmp_path / "r", sandbox, timeout_s="3")

    assert caught.value.reason is reason


def test_a_native_build_writes_to_its_own_folder_and_sees_nothing_that_judges(
    tiny_repo: Path, cache: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    program = b"""\
import os, pathlib
root = pathlib.Path(__file__).resolve().parents[4]
for target in (root / "models/tiny_ranker/1/model.py", root / ".git", root / ".github/fvec.yml"):
    try:
        target.open("ab").close()
    except OSError as error:
        print("REFUSED", target.name, error.strerror)
print("TRAFFIC", os.listdir(root / "traffic"))
pathlib.Path("built.so").write_text("native")
"""
    name = "models/tiny_ranker/1/fvec_native/build.py"
    with Stack.open(tiny_repo) as stack:
        native = Edit({name: program}, "Add native code", "It is quick.")
        tree = stack.commit_edit(stack.commit, "fvec/x", native, tmp_path / "r")[2]
        stack.build(tree, ThisPython(), sandbox)
        told = build_log(tree).read_text().splitlines()

    assert [line for line in told if line.startswith(("REFUSED", "TRAFFIC"))] == [
        "REFUSED model.py Read-only file system",
        "REFUSED .git Permission denied",
        "REFUSED fvec.yml Read-only file system",
        "TRAFFIC []",
    ]


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("Tune @someone/#7 and GH-7", "Tune @\u200bsomeone/#\u200b7 and GH-\u200b7"),
        ("fixes https://example.com/issues/7", "fixes https:\u200b//example.com/issues/7"),
        ("Tune it [skip ci] [actions skip]", "Tune it [\u200bskip ci] [\u200bactions skip]"),
        ("Tune it\n\nskip-checks: true", "Tune it\n\nskip-checks\u200b: true"),
        ("Read a[0] @ b, # of rows", "Read a[0] @ b, # of rows"),
    ],
)
def test_a_message_of_a_commit_mentions_closes_and_skips_nothing(tiny_repo, tmp_path, told, kept):
    with Stack.open(tiny_repo) as stack:
        change = Edit({"new.txt": b"1"}, told, "")
        commit, _, _ = stack.commit_edit(stack.commit, "fvec/x", change, tmp_path / "r")
        said = git(stack.root, "show", "--no-patch", "--format=%B", commit)
        assert said.strip() == kept
