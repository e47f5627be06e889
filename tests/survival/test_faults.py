"""What may go wrong around a run: one clear error, nothing lost, and the run can go on."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from layers.record import lock
from layers.record.journal import Journal, read
from layers.trial import integrity
from tests.survival import lives, replay, world
from tests.survival.lives import End
from tests.survival.points import Uncut

FIRST = "fvec/features/lookups-one-pass-features"
KNOWLEDGE = "fvec/knowledge"


@dataclass(frozen=True)
class Place:
    """A repository and the results of the runs on it."""

    folder: Path
    root: Path
    out: Path
    uncut: Uncut

    @property
    def journal(self) -> Path:
        return self.out / "journal.jsonl"

    def run(self, *options: str, prepare: Callable[[], object] | None = None) -> End:
        argv = ["run", str(self.root), "--out", str(self.out), *options]
        return lives.live(argv, self.folder, prepare=prepare)

    def killed_after(self, kind: str, count: int = 1) -> None:
        """Run up to the given line of the journal, and no further."""
        end = self.run(prepare=lambda: _kill_after(kind, count))
        assert (end.code, read(self.journal)[-1].kind) == (None, kind), end.said

    def goes_on_as_if_nothing_was(self) -> None:
        end = self.run("--resume")
        assert end.code == 0, end.said
        assert world.outcome(self.root, self.out) == self.uncut.outcome

    def state(self) -> tuple[str, bytes]:
        """What an error must not change: branches and journal."""
        return world.git(self.root, "for-each-ref"), self.journal.read_bytes()


def _kill_after(kind: str, count: int) -> None:
    real, seen = Journal.append, [0]

    def append(self, now, data):
        entry = real(self, now, data)
        seen[0] += now == kind
        if seen[0] == count and now == kind:
            os.kill(os.getpid(), signal.SIGKILL)
        return entry

    Journal.append = append


@pytest.fixture
def place(uncut, tmp_path) -> Place:
    return Place(tmp_path, world.repository(tmp_path / "ads"), tmp_path / "out", uncut)


def refused(end: End, code: int, *words: str) -> None:
    """Hold an end to one error with its exit code, a hint and all of the words."""
    assert end.code == code, end.said
    assert end.said.count("fvec: ") == 1
    assert "  hint: " in end.said
    assert "Traceback" not in end.said
    for word in words:
        assert word in end.said


# --- what a killed run left, and somebody did to it ------------------------------------------


def refused_untouched(place: Place, code: int, *words: str, options: tuple[str, ...] = ()) -> None:
    before = place.state()
    refused(place.run("--resume", *options), code, *words)
    assert place.state() == before


def test_a_journal_torn_in_its_last_line_goes_on_before_it(place):
    place.killed_after("iteration", 2)
    whole = place.journal.read_bytes()
    place.journal.write_bytes(whole[:-7])
    place.goes_on_as_if_nothing_was()


def test_an_edited_journal_is_refused_with_its_line(place):
    place.killed_after("iteration")
    lines = place.journal.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines, 1) if b'"iteration"' in line)
    place.journal.write_bytes(b"".join(lines).replace(b'"accepted"', b'"rejected"'))
    refused_untouched(place, 3, f"journal.jsonl:{number}: not a journal line", "was changed")
    place.journal.write_bytes(b"".join(lines))
    place.goes_on_as_if_nothing_was()


@pytest.mark.parametrize(("version", "words"), [(1, "only 2 can be resumed"), (3, "version 3")])
def test_a_journal_of_another_version_is_refused(place, version, words):
    place.killed_after("calibration")
    changed = place.journal.read_bytes().replace(b'{"v":2,', b'{"v":%d,' % version)
    place.journal.write_bytes(changed)
    refused_untouched(place, 3, "journal.jsonl:1", words)


def test_a_file_that_is_no_run_s_journal_is_refused(place):
    place.out.mkdir()
    opened = Journal(place.journal)
    opened.append("shopping", ["milk"])
    opened.close()
    refused_untouched(place, 3, "'shopping' is no entry of a run's journal")


def test_an_unfinished_run_is_not_overwritten_without_resume(place):
    place.killed_after("iteration")
    before = place.state()
    refused(place.run(), 3, "did not finish", "--resume")
    assert place.state() == before
    place.goes_on_as_if_nothing_was()


def test_a_branch_that_somebody_moved_is_left_alone(place):
    place.killed_after("iteration", 2)
    held = world.git(place.root, "rev-parse", FIRST).strip()
    world.git(place.root, "branch", "--force", FIRST, "main")
    refused_untouched(place, 3, f"the branch {FIRST} is at", "did not leave it")
    world.git(place.root, "branch", "--force", FIRST, held)
    end = place.run("--resume")
    assert end.code == 0, end.said
    assert world.git(place.root, "rev-parse", FIRST).strip() == held


def test_a_branch_that_somebody_deleted_is_made_again(place):
    place.killed_after("iteration", 2)
    world.git(place.root, "branch", "--delete", "--force", FIRST)
    place.goes_on_as_if_nothing_was()


def test_a_card_edit_is_not_repeated_where_somebody_built_on_it(place):
    place.killed_after("knowledge")
    lines = place.journal.read_bytes().splitlines(keepends=True)
    place.journal.write_bytes(b"".join(lines[:-1]))  # as if killed before it was noted
    reading = place.folder / "reading"
    world.git(place.root, "worktree", "add", "--quiet", str(reading), KNOWLEDGE)
    world.git(reading, "commit", "--quiet", "--allow-empty", "--message", "I read it")
    world.git(place.root, "worktree", "remove", str(reading))
    tip = world.git(place.root, "rev-parse", KNOWLEDGE)
    assert place.run("--resume").code == 0
    assert world.git(place.root, "rev-parse", KNOWLEDGE) == tip
    report = json.loads((place.out / "run.json").read_text())
    assert report["knowledge"] == place.uncut.outcome["report"]["knowledge"]


def test_a_pull_request_that_was_cut_short_is_done_again(place):
    place.killed_after("pull_request_intended")
    half = place.out / "forge" / "pulls" / ".new-abc"
    half.mkdir(parents=True)
    (half / "body.md").write_text("half")
    place.goes_on_as_if_nothing_was()


def test_a_pull_request_without_its_data_is_refused_with_its_place(place):
    place.killed_after("pull_request")
    meta = place.out / "forge" / "pulls" / "1" / "meta.json"
    text = meta.read_text()
    meta.unlink()
    refused(place.run("--resume"), 3, "pulls/1/meta.json: not a pull request of the local forge")
    meta.write_text(text)
    place.goes_on_as_if_nothing_was()


def test_a_results_folder_that_vanished_ends_the_run_and_a_new_one_begins(place):
    def vanish() -> None:
        real = replay.Replayed.total

        def total(self, end):
            shutil.rmtree(place.out)
            return real(self, end)

        replay.Replayed.total = total

    refused(place.run(prepare=vanish), 70, "journal", "cannot be written", "--resume")
    place.goes_on_as_if_nothing_was()


# --- what is not as it was ----------------------------------------------------------------------


def test_a_manifest_that_was_edited_is_refused(place):
    place.killed_after("iteration")
    manifest = place.root / ".github" / "fvec.yml"
    text = manifest.read_text()
    manifest.write_text(text + "# edited\n")
    refused_untouched(place, 3, "local changes: .github/fvec.yml")
    manifest.write_text(text)
    place.goes_on_as_if_nothing_was()


def test_a_manifest_that_was_committed_is_refused_by_name(place):
    place.killed_after("iteration")
    manifest = place.root / ".github" / "fvec.yml"
    manifest.write_text(manifest.read_text() + "# edited\n")
    world.git(place.root, "commit", "--quiet", "--all", "--message", "Edit")
    refused_untouched(place, 3, "commit was", "content of .github/fvec.yml was")
    world.git(place.root, "reset", "--quiet", "--hard", "HEAD^")
    place.goes_on_as_if_nothing_was()


def test_an_engine_whose_code_changed_is_refused(place, tmp_path):
    place.killed_after("iteration")
    other = tmp_path / "engine"
    other.mkdir()
    (other / "verify.py").write_text("accept = True\n")

    def changed() -> None:
        integrity.ENGINE = other

    before = place.state()
    refused(place.run("--resume", prepare=changed), 3, "content of fvec, layers/ was")
    assert place.state() == before
    place.goes_on_as_if_nothing_was()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--seed", "5"), "seed was 0 and is 5"),
        (("--budget", "60m"), "option minutes was null and is 60.0"),
        (("--layer", "features"), 'option layers was null and is ["features"]'),
    ],
)
def test_other_options_are_refused_by_name(place, options, words):
    place.killed_after("calibration")
    refused_untouched(place, 3, words, options=options)
    place.goes_on_as_if_nothing_was()


# --- what is in the way ------------------------------------------------------------------------


def test_a_second_run_on_the_repository_is_refused_and_told_who_holds_it(place, tmp_path):
    ready, stop = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        with lock.repository(place.root, tmp_path / "elsewhere"):
            os.write(ready[1], b"x")
            os.read(stop[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        end = place.run()
        refused(end, 3, "fvec.lock: another run works on", f"process {pid} since", "elsewhere")
        assert not place.out.exists()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    place.goes_on_as_if_nothing_was()  # the lock went with its holder, though its file is there


def test_a_lock_that_git_left_on_a_branch_is_named(place):
    left = place.root / ".git" / "refs" / "heads" / f"{FIRST}.lock"
    left.parent.mkdir(parents=True)
    left.touch()
    refused(place.run(), 70, "git update-ref failed", f"remove {left}")
    left.unlink()
    place.goes_on_as_if_nothing_was()


def test_a_lock_that_git_left_on_the_checkout_s_index_is_not_in_the_way(place):
    (place.root / ".git" / "index.lock").touch()
    end = place.run()
    assert end.code == 0, end.said


def test_a_card_that_was_written_by_half_is_refused_with_its_line(place):
    card = next((place.root / "knowledge").rglob("*.yaml"))
    card.write_text('schema: fvec.card/1\nkind: cookbook\ntitle: "torn in the mid')
    world.git(place.root, "commit", "--quiet", "--all", "--message", "Tear a card")
    end = place.run()
    assert end.code == 3, end.said
    assert f"{card.name}:3:" in end.said
    assert not place.journal.exists()  # nothing to go on with, nothing in the way
    assert world.git(place.root, "branch", "--list", "fvec/*") == ""


def test_worktrees_of_a_killed_run_go_when_another_run_begins(place):
    place.killed_after("iteration", 2)
    assert world.git(place.root, "worktree", "list").count("\n") > 1
    with lock.repository(place.root, place.folder / "other"):
        assert world.git(place.root, "worktree", "list").count("\n") == 1
    place.goes_on_as_if_nothing_was()


def test_a_journal_that_cannot_grow_ends_the_run(place):
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    end = place.run(prepare=small_files)
    refused(end, 70, "the journal", "cannot be written: File too large", "--resume")
    place.goes_on_as_if_nothing_was()


@pytest.fixture
def small_disk(place):
    """Results on a disk of 96 kB; yields what changes its options."""
    place.out.mkdir()

    def mount(options: str) -> None:
        subprocess.run(["mount", "-o", options, str(place.out)], check=True)

    argv = ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(place.out)]
    if subprocess.run(argv, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system cannot be mounted here: not root, or no CAP_SYS_ADMIN")
    yield mount
    subprocess.run(["umount", str(place.out)], check=True)


@pytest.mark.parametrize("size", ["96k", "600k", "900k", "1200k"])
def test_a_full_disk_ends_the_run_and_it_goes_on_when_there_is_room(place, small_disk, size):
    small_disk(f"remount,size={size}")
    end = place.run()
    refused(end, 70)
    assert any(words in end.said for words in ("No space left", "unable to write")), end.said
    assert "bug of fvec" not in end.said
    small_disk("remount,size=64m")
    place.goes_on_as_if_nothing_was()


def test_a_disk_that_became_read_only_is_told(place, small_disk):
    small_disk("remount,size=64m")
    place.killed_after("iteration")
    small_disk("remount,ro")
    end = place.run("--resume")
    refused(end, 3, f"{place.out} cannot be made: Read-only file system", "--out")
    small_disk("remount,rw")
    place.goes_on_as_if_nothing_was()


# --- what is no fault ---------------------------------------------------------------------------


def test_resuming_where_nothing_is_begins_a_run(place):
    place.goes_on_as_if_nothing_was()


def test_resuming_a_finished_run_gives_its_report_again(place):
    assert place.run().code == 0
    before = place.state()
    (place.out / "run.json").unlink()
    (place.out / "report.html").unlink()
    place.goes_on_as_if_nothing_was()
    assert place.state() == before


def test_what_a_process_left_that_was_killed_at_its_very_end_goes_too(place):
    place.killed_after("run_finished")
    assert world.git(place.root, "worktree", "list").count("\n") > 1
    place.goes_on_as_if_nothing_was()
