"""Patches from outside: read strictly, refused with a place, applied without touching the checkout."""

import base64
import stat
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layers.errors import InvalidInput
from layers.gates import paths as paths_gate
from layers.repository import git, patches

SOURCE = Path("their.diff")
BASE = {
    "models/a/1/model.py": b"".join(b"line %d\n" % n for n in range(1, 31)),
    "models/a/config.pbtxt": b'name: "a"\r\nmax_batch_size: 8\r\n',
    "models/b/1/run.sh": b"#!/bin/sh\nexit 0\n",
    "weights.bin": bytes(range(256)) * 40,
    "no newline": b"one\ntwo",
    "\u00fc and space.txt": b"caf\xc3\xa9\n",
}


def run(root: Path, *arguments: str, data: bytes | None = None) -> bytes:
    identity = ["-c", "user.name=Serving", "-c", "user.email=serving@example.com"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, input=data).stdout


def make_repository(root: Path) -> Path:
    root.mkdir()
    for name, content in BASE.items():
        write(root, name, content)
    (root / "models/b/1/run.sh").chmod(0o755)
    (root / "link").symlink_to("weights.bin")
    run(root, "init", "--quiet", "--initial-branch=main")
    run(root, "add", "--all")
    run(root, "commit", "--quiet", "--message", "The stack")
    return root


def write(root: Path, name: str, content: bytes) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(content)


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    return make_repository(tmp_path_factory.mktemp("patches") / "repository")


def head(root: Path) -> str:
    return run(root, "rev-parse", "HEAD").decode().strip()


def state(root: Path) -> tuple[bytes, bytes, bytes]:
    index = (root / ".git/index").read_bytes()
    return index, run(root, "status", "--porcelain"), run(root, "for-each-ref")


def applied(root: Path, data: bytes) -> patches.Applied:
    return patches.commit(root, head(root), patches.read(data, SOURCE), "Judge their.diff")


def tree(root: Path, commit: str) -> bytes:
    return run(root, "ls-tree", "-r", "-z", commit)


def diff_of(root: Path, change, *options: str) -> tuple[bytes, bytes]:
    """Return the diff of `change`, made in the checkout and taken back, and its tree."""
    try:
        change(root)
        run(root, "add", "--all", "--force")
        data = run(root, "diff", "--cached", "--binary", *options, "HEAD")
        wanted = run(root, "ls-tree", "-r", "-z", run(root, "write-tree").decode().strip())
        return data, wanted
    finally:
        run(root, "reset", "--quiet", "--hard", "HEAD")
        run(root, "clean", "-qfdx")


def edited(root: Path) -> None:
    text = (root / "models/a/1/model.py").read_bytes()
    write(root, "models/a/1/model.py", text.replace(b"line 15\n", b"line fifteen\n"))


CHANGES = {
    "edit": edited,
    "crlf": lambda root: write(root, "models/a/config.pbtxt", b'name: "a"\r\nmax_batch_size: 16\r\n'),
    "no newline added": lambda root: write(root, "models/b/1/run.sh", b"#!/bin/sh\nexit 0"),
    "newline added": lambda root: write(root, "no newline", b"one\ntwo\n"),
    "rename": lambda root: (root / "weights.bin").rename(root / "weights-2.bin"),
    "delete": lambda root: (root / "models/a/1/model.py").unlink(),
    "new": lambda root: write(root, "models/c/1/new.py", b"x = 1\n"),
    "empty new": lambda root: write(root, "models/c/1/__init__.py", b""),
    "executable": lambda root: (root / "models/a/1/model.py").chmod(0o755),
    "no longer executable": lambda root: (root / "models/b/1/run.sh").chmod(0o644),
    "binary": lambda root: write(root, "weights.bin", bytes(range(255, -1, -1)) * 40),
    "binary delta": lambda root: write(root, "weights.bin", BASE["weights.bin"] + b"\0tail"),
    "unusual name": lambda root: write(root, "\u00fc and space.txt", b"tea\n"),
}  # fmt: skip


@pytest.mark.parametrize("prefix", [(), ("--src-prefix=i/", "--dst-prefix=w/")])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_diff_of_git_gives_the_tree_that_it_was_made_from(repository, kind, prefix):
    before = state(repository)
    data, wanted = diff_of(repository, CHANGES[kind], "-M", *prefix)
    made = applied(repository, data)
    assert tree(repository, made.commit) == wanted
    assert state(repository)[1:] == before[1:]


def test_the_checkout_s_own_index_and_files_are_not_touched(repository):
    data, _ = diff_of(repository, edited)
    before = state(repository)
    made = applied(repository, data)
    assert state(repository) == before
    assert made.files == ("models/a/1/model.py",)
    assert made.diff.startswith("diff --git a/models/a/1/model.py b/models/a/1/model.py\n")


def test_the_same_patch_of_the_same_base_is_the_same_commit(repository):
    data, _ = diff_of(repository, edited)
    assert applied(repository, data) == applied(repository, data)


def test_both_ends_of_a_rename_count_as_changed(repository):
    data, _ = diff_of(repository, CHANGES["rename"], "-M")
    assert b"rename from weights.bin" in data
    assert patches.read(data, SOURCE).paths == ["weights-2.bin", "weights.bin"]
    assert applied(repository, data).files == ("weights-2.bin", "weights.bin")


def test_a_mail_of_format_patch_is_read(repository):
    data, wanted = diff_of(repository, edited)
    mail = b"From abc Mon Sep 17 00:00:00 2001\nSubject: [PATCH] Faster\n\n---\n x | 2 +-\n\n"
    made = applied(repository, mail + data + b"-- \n2.39.5\n\n")
    assert tree(repository, made.commit) == wanted


@pytest.mark.parametrize("data", [b"", b"\n  \n"])
def test_an_empty_patch_changes_nothing(repository, data):
    made = applied(repository, data)
    assert (made.files, made.diff) == ((), "")


HEADER = b"diff --git a/models/a/1/model.py b/models/a/1/model.py\n"
NAMES = b"--- a/models/a/1/model.py\n+++ b/models/a/1/model.py\n"
HUNK = b"@@ -1,2 +1,2 @@\n-line 1\n+line one\n line 2\n"


def new_link(target: bytes) -> bytes:
    return (
        b"diff --git a/x b/x\nnew file mode 120000\nindex 0000000..1234567\n--- /dev/null\n+++ b/x\n"
        b"@@ -0,0 +1 @@\n+" + target + b"\n\\ No newline at end of file\n"
    )


BAD = {
    "prose": (b"make it faster, please\n", None, "there is no diff"),
    "cut short": (HEADER + NAMES + HUNK[:-8], 7, "the hunk is shorter than its header says"),
    "hidden line": (HEADER + NAMES + HUNK + b"+import os\n", 8, "a line that belongs to no hunk"),
    "miscounted": (HEADER + NAMES + HUNK.replace(b"+1,2", b"+1,1"), 7, "does not add up"),
    "no hunk": (HEADER + NAMES, 4, "a file header without a hunk"),
    "half a header": (HEADER + NAMES[:26] + HUNK, 3, "a `---` line without"),
    "unknown header": (HEADER + b"evil mode 1\n" + NAMES + HUNK, 2, "belongs to no hunk"),
    "bad hunk header": (HEADER + NAMES + b"@@ -x +y @@\n", 4, "not a hunk header"),
    "symbolic link": (new_link(b"/etc/passwd"), 2, "mode 120000"),
    "submodule": (new_link(b"x").replace(b"120000", b"160000"), 2, "mode 160000"),
    "into a link": (HEADER + b"old mode 100644\nnew mode 120000\n", 3, "mode 120000"),
    "copy": (HEADER + b"copy from a\ncopy to b\n", 2, "copies are not read"),
    "no content": (HEADER + b"Binary files a/x and b/x differ\n", 2, "is not in the patch"),
    "no prefixes": (HEADER.replace(b"a/m", b"m").replace(b"b/m", b"m"), 1, "without the a/ and b/"),
    "binary bomb": (HEADER + b"GIT binary patch\nliteral 99999999999\nzzz\n\n", 3, "99,999,999,999"),
    "binary noise": (HEADER + b"GIT binary patch\nliteral 9\n!!!\n\n", 4, "not a line of a binary"),
    "nothing binary": (HEADER + b"GIT binary patch\n\n", 3, "without content"),
    "no name": (b"diff --git a/x b/y\nsimilarity index 100%\n", 1, "names no file"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_malformed_patch_is_refused_with_its_line_and_a_hint(kind):
    data, line, said = BAD[kind]
    with pytest.raises(InvalidInput) as caught:
        patches.read(data, SOURCE)
    assert said in caught.value.message
    assert caught.value.at is not None
    assert (caught.value.at.path, caught.value.at.line) == (SOURCE, line)
    assert caught.value.hint


def test_a_delta_that_unpacks_to_a_bomb_is_refused():
    delta = zlib.compress(b"\x01\x80\x80\x80\x80\x40" + b"\x90\x01")  # from 1 byte to 2^34
    line = bytes([ord("A") + len(delta) - 1]) + base64.b85encode(delta, pad=True)
    data = HEADER + b"GIT binary patch\ndelta %d\n" % 8 + line + b"\n\n"
    with pytest.raises(InvalidInput, match="17,179,869,184"):
        patches.read(data, SOURCE)


def test_many_binary_files_are_bounded_together():
    one = HEADER + b"GIT binary patch\nliteral %d\nAcmV\n\n" % (40 * 2**20)
    assert len(patches.read(one, SOURCE).sections) == 1
    with pytest.raises(InvalidInput, match=r"their\.diff:8: binary content of 83,886,080 bytes"):
        patches.read(one * 2, SOURCE)


def test_size_and_number_of_files_are_bounded(monkeypatch):
    monkeypatch.setattr(patches, "MOST_FILES", 1)
    with pytest.raises(InvalidInput, match=r"their\.diff:8: the patch changes 2 files"):
        patches.read((HEADER + NAMES + HUNK) * 2, SOURCE)
    monkeypatch.setattr(patches, "MOST_BYTES", 10)
    with pytest.raises(InvalidInput, match="at most 10 are read"):
        patches.read(HEADER, SOURCE)


def test_a_hunk_that_does_not_fit_is_named_by_its_line_of_the_patch(repository):
    other = HUNK.replace(b"line 2", b"line two")
    late = b"@@ -20,2 +20,2 @@\n-line 20\n+line twenty\n line 22\n"
    for data, line, start in ((NAMES + other, 4, 1), (NAMES + HUNK + late, 8, 20)):
        with pytest.raises(InvalidInput) as caught:
            applied(repository, HEADER + data)
        assert str(caught.value.at) == f"their.diff:{line}"
        assert caught.value.message.endswith(
            f"models/a/1/model.py is not as this hunk expects it from line {start} on"
        )
        assert head(repository)[:12] in (caught.value.hint or "")


def test_a_file_that_is_not_there_is_named(repository):
    data = (HEADER + NAMES + HUNK).replace(b"models/a", b"models/z")
    with pytest.raises(InvalidInput, match=r"models/z/1/model\.py: does not exist in index"):
        applied(repository, data)


OUTSIDE = [b"../outside.py", b"/absolute.py", b"link/inside.py", b".git/hooks/post-checkout"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_is_written_outside_the_repository_s_files(repository, name):
    data = b"diff --git a/%b b/%b\nnew file mode 100644\n--- /dev/null\n+++ b/%b\n" % ((name,) * 3)
    before = state(repository)
    with pytest.raises(InvalidInput):
        applied(repository, data + b"@@ -0,0 +1 @@\n+x\n")
    assert state(repository) == before


def test_content_of_a_link_cannot_be_changed(repository):
    data = b"diff --git a/link b/link\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-weights.bin\n"
    data += b"\\ No newline at end of file\n+/etc/passwd\n\\ No newline at end of file\n"
    with pytest.raises(InvalidInput, match="'link' is, or would become, a symbolic link"):
        applied(repository, data)


def test_a_name_with_control_characters_is_refused(repository):
    data = b'diff --git "a/x\\033[31m" "b/x\\033[31m"\nnew file mode 100644\n'
    assert patches.read(data, SOURCE).paths == ["x\x1b[31m"]
    with pytest.raises(InvalidInput, match="is no plain file name"):
        applied(repository, data)


def test_the_user_s_own_settings_do_not_forgive_white_space(repository, tmp_path, monkeypatch):
    (tmp_path / ".gitconfig").write_text("[apply]\n\tignoreWhitespace = change\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    data = HEADER + NAMES + HUNK.replace(b"line 2", b"line   2")
    with pytest.raises(InvalidInput):
        applied(repository, data)


@pytest.mark.parametrize(
    ("path", "is_guarded"),
    [
        (".github/workflows/ci.yml", True),
        (".GitHub/workflows/ci.yml", True),
        ("models/.git/config", True),
        ("models/.gitattributes", True),
        (".gitmodules", True),
        ("models/.LfsConfig", True),
        ("traffic/requests.bin", True),
        ("referee/anything.py", True),
        ("traffic/record-2.py", True),
        ("models/a/1/model.py", False),
        ("CODEOWNERS", True),
        ("docs/CODEOWNERS", True),
        (".gitlab/CodeOwners", True),
        (".gitlab-ci.yml", True),
        (".circleci/config.yml", True),
        ("deploy/Jenkinsfile", True),
        ("azure-pipelines.yml", True),
        ("models/codeowners.py", False),
        (".gitignore", False),
        ("docs/.github.md", False),
    ],
)
def test_what_no_candidate_may_touch(path, is_guarded):
    evaluators = ("traffic/requests.bin", "referee", "traffic/record-*.py")
    assert paths_gate.guarded([path], evaluators) == ([path] if is_guarded else [])


NAMES_DRAWN = st.sampled_from([*BASE, "models/new.py", "deep/er/x y.txt", "k\u00fc.bin"])
CONTENT = st.one_of(
    st.binary(max_size=300),
    st.lists(st.sampled_from([b"line 1\n", b"two\r\n", b"\n", b"- x\n", b"@@ y", b"\t\n"]))
    .map(b"".join),
)  # fmt: skip
EDIT = st.tuples(NAMES_DRAWN, st.one_of(st.none(), CONTENT), st.booleans())


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=st.lists(EDIT, max_size=6), renames=st.booleans())
def test_any_edit_comes_out_of_its_diff_as_it_was(repository, edits, renames):
    def change(root: Path) -> None:
        for name, content, executable in edits:
            place = root / name
            if content is None:
                place.unlink(missing_ok=True)
            elif place.parent.is_dir() or not place.parent.exists():
                write(root, name, content)
                mode = stat.S_IMODE(place.stat().st_mode)
                place.chmod(mode | 0o111 if executable else mode & ~0o111)

    data, wanted = diff_of(repository, change, "-M" if renames else "--no-renames")
    made = applied(repository, data)
    assert tree(repository, made.commit) == wanted
    assert git.patch_between(repository, head(repository), made.commit) == made.diff
