"""Digests of what judges: every kind of change is named, and nothing else."""

from __future__ import annotations

import os

from layers.trial.integrity import Evaluator, changed, of_no_base


def evaluator(root, *protected: str, more=()) -> Evaluator:
    return Evaluator.of(root, protected, more)


def test_the_engines_own_code_is_part_of_the_evaluator(tmp_path):
    names = set(evaluator(tmp_path).files)
    assert {"fvec:trial/verify.py", "fvec:gates/correctness.py", "fvec:measure/swarm.py"} <= names


def test_globs_and_single_files_are_followed_and_named_relative_to_the_repository(tmp_path):
    for name in ("a/x.txt", "a/y.txt", "judge.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    named = evaluator(tmp_path, "a/*.txt", "judge.py", "not/there.bin").files
    assert {n for n in named if not n.startswith("fvec:")} == {"a/x.txt", "a/y.txt", "judge.py"}


def test_a_change_of_the_same_length_and_time_is_seen(tmp_path):
    file = tmp_path / "requests.bin"
    file.write_bytes(b"hard")
    watched = evaluator(tmp_path, "requests.bin")
    before, stamp = watched.digests(), file.stat()
    file.write_bytes(b"easy")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert changed(before, watched.digests()) == ["requests.bin"]


def test_a_file_that_became_a_link_elsewhere_is_seen(tmp_path):
    (tmp_path / "judge.py").write_text("1")
    (tmp_path / "mine.py").write_text("2")
    watched = evaluator(tmp_path, "judge.py")
    before = watched.digests()
    (tmp_path / "judge.py").unlink()
    (tmp_path / "judge.py").symlink_to("mine.py")
    assert changed(before, watched.digests()) == ["judge.py"]


def test_nothing_changed_is_nothing_told(tmp_path):
    watched = evaluator(tmp_path)
    assert changed(watched.digests(), watched.digests()) == []


def test_new_and_missing_names_are_changes():
    assert changed({"a": "1", "b": "2"}, {"b": "2", "c": "3"}) == ["a", "c"]


def test_what_is_of_no_base_is_told_from_what_is(tmp_path):
    (tmp_path / "judge.py").write_text("1")
    used = tmp_path / "requests.bin"
    used.write_bytes(b"hard")
    found = of_no_base(evaluator(tmp_path, "judge.py", more=[used]).digests())
    assert "in use: requests.bin" in found
    assert "fvec:trial/verify.py" in found
    assert "judge.py" not in found
