"""The journal: what it promises about a file that a killed or a meddling process left."""

from __future__ import annotations

import errno
import json
import os

import pytest

from layers.errors import InvalidInput, JournalBroken, Location
from layers.record import journal
from layers.record.journal import Entry, Journal, read
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
    own = first.pop("sum")
    assert first == {"v": 2, "seq": 0, "at": AT, "kind": "run_started", "data": {"seed": 0}}
    assert len(own) == 16


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
    assert synced == [0, 1, 2]  # its name in the folder first


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
        (2, b'{"v":2,"seq":1,"at":"x"'),
        (2, b'{"v":2,"seq":7,"at":"x","kind":"sampled","data":"","sum":""}'),
        (1, b'{"v":3,"seq":0,"at":"x","kind":"run_started","data":{},"sum":""}'),
        (3, b'{"v":2,"seq":2,"at":"x","kind":"not_tried","sum":""}'),
        (3, b'{"v":2,"seq":2,"at":"x","kind":"not_tried","data":[]}'),
        (2, b'{"v":2,"seq":1,"at":"x","kind":"sampled","data":"","sum":"0123456789abcdef"}'),
        (3, b"[1]"),
        (3, b"\xff\xfe"),
        (2, b""),
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


def test_one_changed_letter_is_refused_with_its_line(path, written):
    path.write_bytes(path.read_bytes().replace(b"features: drawn", b"features: drawm"))
    with pytest.raises(InvalidInput, match="it was changed after it was written") as caught:
        read(path)
    assert caught.value.at == Location(path, 2)


def test_a_journal_of_the_first_version_is_still_read(path):
    line = {"v": 1, "seq": 0, "at": AT, "kind": "run_started", "data": {"seed": 0}}
    path.write_text(json.dumps(line) + "\n")
    assert read(path) == [Entry(0, AT, "run_started", {"seed": 0}, v=1)]
    with pytest.raises(InvalidInput, match="of version 1, and only 2 can be resumed"):
        Journal.reopen(path)


def test_a_journal_is_gone_on_with_after_its_last_whole_line_wherever_it_is_torn(path, written):
    whole = path.read_bytes()
    ends = [index for index, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        opened = Journal.reopen(path, clock=lambda: AT)
        kept = sum(end <= size for end in ends)
        assert opened.entries == written.entries[:kept]
        opened.append("sampled", "after it")
        opened.close()
        assert read(path) == [*written.entries[:kept], Entry(kept, AT, "sampled", "after it")]


def fill_the_disk(patch, path):
    real = journal.write_all

    def full(descriptor: int, payload: bytes) -> None:
        real(descriptor, payload[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr(journal, "write_all", full)


def test_a_full_disk_leaves_whole_lines_only_and_ends_the_journal(path, monkeypatch):
    opened = Journal(path)
    opened.append("sampled", "before")
    with monkeypatch.context() as patch:
        fill_the_disk(patch, path)
        with pytest.raises(JournalBroken, match="No space left") as caught:
            opened.append("sampled", "lost")
    assert caught.value.exit_code == 70
    assert "fvec run --resume" in (caught.value.hint or "")
    with pytest.raises(JournalBroken, match="No space left"):  # a line is missing from now on
        opened.append("sampled", "after")
    opened.close()
    assert [entry.data for entry in read(path)] == ["before"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_journal_that_was_taken_away_is_not_written_on(path, replaced):
    opened = Journal(path)
    opened.append("sampled", "before")
    path.unlink()
    if replaced:
        path.write_text("another's")
    with pytest.raises(JournalBroken, match="cannot be written"):
        opened.append("sampled", "lost")
    opened.close()
    assert path.exists() is replaced


def test_a_number_that_is_not_finite_is_never_written(path):
    opened = Journal(path)
    with pytest.raises(ValueError, match="JSON compliant"):
        opened.append("noise", {"floor_pct": float("inf")})
    opened.append("sampled", "after it")
    opened.close()
    assert [entry.data for entry in read(path)] == ["after it"]
