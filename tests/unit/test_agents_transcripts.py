"""Transcripts: whole, in order, without secrets, and bounded."""

import json
import os

import pytest
from pydantic import BaseModel

from layers.agents.service import transcripts as module
from layers.agents.service.transcripts import Transcripts, bounded
from layers.errors import RunStopped, ToolFailed
from layers.story import Cost, Role

HIDDEN = "sk-of-the-service-12345"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results" / "transcripts"


@pytest.fixture
def transcripts(folder):
    return Transcripts(folder, [HIDDEN])


def _read(folder, name):
    text = (folder.parent / name).read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def test_they_are_numbered_in_the_order_in_which_they_begin(folder, transcripts):
    names = [transcripts.begin(role).name for role in (Role.PLANNER, Role.JUDGE, Role.PLANNER)]
    assert names == [
        "transcripts/001-planner.jsonl",
        "transcripts/002-accuracy-judge.jsonl",
        "transcripts/003-planner.jsonl",
    ]
    later = Transcripts(folder, [])
    assert later.begin(Role.EVALUATOR).name == "transcripts/004-performance-evaluator.jsonl"


def test_no_file_of_an_earlier_process_is_written_to(folder, transcripts):
    first = transcripts.begin(Role.PLANNER)
    first.add("said", "before")
    (folder / "0999-planner.jsonl").write_text("")
    (folder / "notes.txt").write_text("")
    second = Transcripts(folder, []).begin(Role.PLANNER)
    second.add("said", "after")
    assert second.name == "transcripts/1000-planner.jsonl"
    assert [piece["content"] for piece in _read(folder, first.name)] == ["before"]


def test_pieces_are_read_back_as_they_were(folder, transcripts):
    transcript = transcripts.begin(Role.PLANNER)
    pieces = ["text\nof two lines", {"a": [1, 2.5, None, True], "ß": "\u2028"}, [], 7]
    for piece in pieces:
        transcript.add("said", piece)
    read = _read(folder, transcript.name)
    assert [piece["content"] for piece in read] == pieces
    assert {piece["kind"] for piece in read} == {"said"}


class _Answer(BaseModel):
    title: str
    cost: Cost


def test_what_is_no_plain_data_is_told_all_the_same(folder, transcripts):
    transcript = transcripts.begin(Role.PLANNER)
    transcript.add("ended", {"answer": _Answer(title="t", cost=Cost(calls=2)), "role": Role.JUDGE})
    transcript.add("odd", [b"\xff bytes", float("nan"), "lone \ud800", {3: {4}}, ("a",)])
    ended, odd = (piece["content"] for piece in _read(folder, transcript.name))
    assert ended["answer"]["cost"]["calls"] == 2
    assert ended["role"] == "accuracy judge"
    assert odd == ["\ufffd bytes", "nan", "lone \ud800", {"3": "{4}"}, ["a"]]


def test_secrets_are_taken_out_wherever_they_stand(folder, transcripts):
    transcript = transcripts.begin(Role.IMPLEMENTER)
    transcript.add("reply", {"text": f"the key is {HIDDEN}.", HIDDEN: [{"deep": HIDDEN}]})
    transcript.add("reply", {"password": "hunter2hunter2"})
    transcript.add("reply", "ghp_0123456789abcdefghij0123456789abcdef")
    text = (folder.parent / transcript.name).read_text()
    assert HIDDEN not in text
    assert "hunter2" not in text
    assert "ghp_" not in text
    assert len(_read(folder, transcript.name)) == 3


def test_a_secret_that_looks_like_a_number_does_not_break_a_line(folder):
    transcript = Transcripts(folder, ["12345678"]).begin(Role.PLANNER)
    transcript.add("reply", {"text": "12345678", "count": 12345678})
    (piece,) = _read(folder, transcript.name)
    assert piece["content"]["text"] == "REDACTED"


def test_texts_are_bounded_after_they_are_redacted(folder, transcripts, monkeypatch):
    monkeypatch.setattr(module, "MOST_TEXT", 2000)
    transcript = transcripts.begin(Role.PLANNER)
    transcript.add("result", "x" * (2000 - 70) + HIDDEN + "y" * 1000)
    (piece,) = _read(folder, transcript.name)
    assert len(piece["content"]) <= 2000
    assert "more characters were left out" in piece["content"]
    assert HIDDEN[:8] not in piece["content"]


def test_a_line_is_bounded(folder, transcripts, monkeypatch):
    monkeypatch.setattr(module, "MOST_LINE", 2000)
    transcript = transcripts.begin(Role.PLANNER)
    transcript.add("result", ["ä" * 500] * 10)
    (piece,) = _read(folder, transcript.name)
    assert piece["content"].endswith("bytes were left out]")


def test_what_is_nested_without_end_is_told_as_text(folder, transcripts):
    deep = current = []
    for _ in range(200):
        current.append([])
        current = current[0]
    transcript = transcripts.begin(Role.PLANNER)
    transcript.add("reply", deep)
    assert len(_read(folder, transcript.name)) == 1


def test_each_piece_is_on_disk_before_anything_follows(folder, transcripts, monkeypatch):
    transcript = transcripts.begin(Role.PLANNER)
    path = folder.parent / transcript.name
    synced = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (real(fd), synced.append(path.read_bytes().count(b"\n")))
    )
    transcript.add("said", "one")
    transcript.add("said", "two")
    assert synced == [1, 2]


def test_a_disk_that_refuses_is_named_and_stops_no_run(folder, transcripts, monkeypatch):
    transcript = transcripts.begin(Role.PLANNER)
    transcript.add("said", "one")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolFailed, match="No space left on device") as caught:
        transcript.add("said", "two")
    monkeypatch.undo()
    assert not isinstance(caught.value, RunStopped)
    assert len(_read(folder, transcript.name)) == 1


def test_no_transcripts_where_a_file_is_in_the_way(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("")
    with pytest.raises(ToolFailed, match="no transcript can be made"):
        Transcripts(folder, []).begin(Role.PLANNER)


@pytest.mark.parametrize("length", [0, 1, 99, 100, 101, 5000])
def test_bounded_says_how_much_is_left_out(length):
    text = "x" * length
    short = bounded(text, 100)
    assert len(short) <= 100
    kept = short.count("x", 0, 40)
    if length <= 100:
        assert short == text
    else:
        assert kept == 40
        assert f"[{length - 40:,} more characters were left out]" in short
