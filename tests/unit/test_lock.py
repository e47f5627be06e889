"""One run at a time on one repository."""

import errno
import fcntl
import json
import os
import shutil
import signal

import pytest

from bot.publishing.local import open_local
from layers import run
from layers.errors import InvalidInput
from layers.events import Silent
from layers.judge import JudgeOptions, judge_patch
from layers.record import lock
from layers.record.results_folder import prepared
from tests.survival.world import git


def test_a_repository_is_held_by_one_at_a_time_through_any_of_its_worktrees(tiny_repo, tmp_path):
    git(tiny_repo, "worktree", "add", "--quiet", "--detach", str(tmp_path / "other"))
    with lock.repository(tiny_repo, tmp_path / "out"):
        told = json.loads((tiny_repo / ".git" / "fvec.lock").read_text())
        assert (told["pid"], told["out"]) == (os.getpid(), str(tmp_path / "out"))
        with (
            pytest.raises(InvalidInput, match=f"process {os.getpid()} since .*, with results in"),
            lock.repository(tmp_path / "other", tmp_path / "out2"),
        ):
            pass
    with lock.repository(tmp_path / "other", tmp_path / "out"):
        pass
    assert (tiny_repo / ".git" / "fvec.lock").read_text() == ""


PATCH = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


def judged(root, out):
    judge_patch(root, JudgeOptions(out=out), PATCH, None, Silent())


def planned(root, out):
    run.plan(root, options(out), Silent())


def measured(root, out):
    run.measure(root, options(out), Silent())


def options(out):
    return run.RunOptions(
        out=out, layers=None, minutes=None, seed=1, cookbook=None, forge=open_local
    )


@pytest.mark.parametrize("command", [judged, planned, measured])
def test_whatever_measures_waits_until_another_command_has_ended(tiny_repo, tmp_path, command):
    with (
        lock.repository(tiny_repo, tmp_path / "held"),
        pytest.raises(InvalidInput, match=f"another run works on .* process {os.getpid()} since"),
    ):
        command(tiny_repo, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_lock_goes_with_the_process_that_holds_it(tiny_repo, tmp_path):
    ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        with lock.repository(tiny_repo, tmp_path):
            os.write(ready[1], b"x")
            signal.pause()
    os.read(ready[0], 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert str(pid) in (tiny_repo / ".git" / "fvec.lock").read_text()
    with lock.repository(tiny_repo, tmp_path):
        pass


def test_the_checkout_stays_clean(tiny_repo, tmp_path):
    with lock.repository(tiny_repo, tmp_path):
        assert git(tiny_repo, "status", "--porcelain") == ""


OURS = "0123456789ab-1"  # how `layers.repository.stack` names a worktree


def test_worktrees_in_results_that_nobody_uses_go_and_all_others_stay(tiny_repo, tmp_path):
    places = {name: tmp_path / name / "worktrees" / OURS for name in ("dead", "used", "theirs")}
    for name in ("dead", "used"):
        with prepared(tmp_path / name):
            pass
    for place in places.values():
        git(tiny_repo, "worktree", "add", "--quiet", "--detach", str(place))
    with (tmp_path / "used" / ".fvec-results").open() as used:
        fcntl.flock(used, fcntl.LOCK_EX)
        lock.remove_orphans(tiny_repo)
    assert {name: place.exists() for name, place in places.items()} == {
        "dead": False,
        "used": True,
        "theirs": True,
    }
    assert "dead" not in git(tiny_repo, "worktree", "list")


def test_what_git_notes_of_one_of_ours_that_is_gone_goes_and_of_a_persons_stays(
    tiny_repo, tmp_path
):
    with prepared(tmp_path / "out"):
        pass
    ours, disk = tmp_path / "out" / "worktrees", tmp_path / "disk"
    git(tiny_repo, "worktree", "add", "--quiet", "--detach", str(ours / OURS))
    git(tiny_repo, "worktree", "add", "--quiet", "-b", "mine", str(disk / "mine"))
    shutil.rmtree(ours)
    disk.rename(tmp_path / "unmounted")
    with lock.repository(tiny_repo, tmp_path / "other"):
        assert OURS not in git(tiny_repo, "worktree", "list")
    (tmp_path / "unmounted").rename(disk)
    assert git(disk / "mine", "status", "--porcelain", "--branch").strip() == "## mine"


@pytest.mark.parametrize("hold", [lock.repository, lambda root, out: prepared(out)])
def test_a_disk_whose_files_cannot_be_locked_is_named(tiny_repo, tmp_path, monkeypatch, hold):
    def refused(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)  # as some disks of a network answer
    with (
        pytest.raises(InvalidInput, match="cannot be locked: No locks available") as caught,
        hold(tiny_repo, tmp_path / "out"),
    ):
        pass
    assert "on a disk whose files can be locked" in caught.value.hint


@pytest.mark.parametrize("name", ["feature", "0123456789ab", "0123456789ab-0", "0123456789abc-1"])
def test_a_worktree_under_another_name_is_a_persons_and_stays(tiny_repo, tmp_path, name):
    with prepared(tmp_path / "out"):
        pass
    place = tmp_path / "out" / "worktrees" / name
    git(tiny_repo, "worktree", "add", "--quiet", "--detach", str(place))
    lock.remove_orphans(tiny_repo)
    assert place.exists()


def test_a_worktree_on_a_branch_is_a_persons_and_stays(tiny_repo, tmp_path):
    with prepared(tmp_path / "out"):
        pass
    place = tmp_path / "out" / "worktrees" / OURS
    git(tiny_repo, "worktree", "add", "--quiet", "-b", "mine", str(place))
    lock.remove_orphans(tiny_repo)
    assert place.exists()


@pytest.mark.parametrize("tracked", [True, False])
def test_a_marker_that_came_with_the_repository_makes_no_results_folder(tiny_repo, tracked):
    (tiny_repo / ".fvec-results").write_text("")
    if tracked:
        git(tiny_repo, "add", ".fvec-results")
        git(tiny_repo, "commit", "--quiet", "--message", "Claim the folder")
    place = tiny_repo / "worktrees" / OURS
    git(tiny_repo, "worktree", "add", "--quiet", "--detach", str(place))
    (place / "work.txt").write_text("not committed")
    lock.remove_orphans(tiny_repo)
    assert place.exists() == tracked


def test_a_folder_that_is_no_checkout_is_left_to_who_opens_it(tmp_path):
    with lock.repository(tmp_path, tmp_path):
        assert list(tmp_path.iterdir()) == []
