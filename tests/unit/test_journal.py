"""The journal: what it promises about a file that a killed or a meddling process left."""

from __future__ import annotations

import errno
import json
import os

import pytest

from layers import journal
from layers.errors import InvalidInput, Location, ToolFailed
from layers.journal import Entry, Journal, read
from tests.render_fixture import run_report

AT = "2026-01-02T03:04:05.678+00:00"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


@pytest.fixture
def written(path):
    """A journal of three entries, closed."""
    opened = Journal(path, clock=lambda: AT)
    opened.append("run_started", {"seed": 0})
    opened.append("sampled", "features: drawn")
    opened.append("not_tried", ["a on b: no"])
    opened.close()
    return opened


def test_what_was_appended_is_read_back(path, written):
    assert read(path) == written.entries
    assert read(path) == [
        Entry(0, AT, "run_started", {"seed": 0}),
        Entry(1, AT, "sampled", "features: drawn"),
        Entry(2, AT, "not_tried", ["a on b: no"]),
    ]


def test_a_line_is_one_json_object_with_version_and_sequence(path, written):
    first = json.loads(path.read_text().splitlines()[0])
    assert first == {"v": 1, "seq": 0, "at": AT, "kind": "run_started", "data": {"seed": 0}}


def test_appending_only_adds_bytes(path):
    opened, seen = Journal(path), b""
    for number in range(5):
        opened.append("sampled", f"line {number}")
        assert path.read_bytes().startswith(seen)
        seen = path.read_bytes()
    opened.close()
    assert seen.count(b"\n") == 5


def test_an_entry_is_synced_before_append_returns(path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (real(fd), synced.append(path.read_bytes().count(b"\n")))
    )
    opened = Journal(path)
    opened.append("sampled", "one")
    opened.append("sampled", "two")
    opened.close()
    assert synced == [1, 2]


def test_models_are_written_as_plain_json_under_their_public_names(path):
    opened = Journal(path)
    entry = opened.append("report", run_report())
    opened.close()
    assert entry.data == run_report().model_dump(mode="json", by_alias=True)
    assert read(path)[0].data["schema"] == "fvec.run/1"


def test_an_existing_journal_is_not_opened_again(path, written):
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="another run wrote or writes here"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_journal_torn_at_any_byte_reads_as_the_entries_before(path, written):
    whole = path.read_bytes()
    ends = [index for index, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])  # an entry is whole but for its line break, too
        assert read(path) == written.entries[: sum(end <= size for end in ends)]


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (2, b'{"v":1,"seq":1,"at":"x"'),
        (2, b'{"v":1,"seq":7,"at":"x","kind":"sampled","data":""}'),
        (1, b'{"v":2,"seq":0,"at":"x","kind":"run_started","data":{}}'),
        (3, b'{"v":1,"seq":2,"at":"x","kind":"not_tried"}'),
        (3, b"[1]"),
        (3, b"\xff\xfe"),
    ],
)
def test_an_edited_line_is_refused_with_its_place(path, written, number, line):
    lines = path.read_bytes().splitlines()
    lines[number - 1] = line
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(InvalidInput, match="not a journal line") as caught:
        read(path)
    assert caught.value.at == Location(path, number)


def test_a_removed_line_is_refused_where_the_sequence_breaks(path, written):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    with pytest.raises(InvalidInput, match="sequence 2") as caught:
        read(path)
    assert caught.value.at == Location(path, 2)


def test_a_number_that_is_not_finite_is_never_written(path):
    opened = Journal(path)
    with pytest.raises(ValueError, match="JSON compliant"):
        opened.append("noise", {"floor_pct": float("nan")})
    opened.append("sampled", "after it")
    opened.close()
    assert [entry.kind for entry in read(path)] == ["sampled"]


def test_a_full_disk_leaves_whole_lines_only(path, monkeypatch):
    opened = Journal(path)
    opened.append("sampled", "before")
    real = journal._write_all

    def full(descriptor: int, payload: bytes) -> None:
        real(descriptor, payload[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "_write_all", full)
        with pytest.raises(ToolFailed, match="No space left"):
            opened.append("sampled", "lost")
    opened.append("sampled", "after")
    opened.close()
    assert [entry.data for entry in read(path)] == ["before", "after"]
