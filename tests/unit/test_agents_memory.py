"""The memory of agents as a file: its looks, what it refuses, what goes for want of space."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from bot import cli
from knowledge.memory import (
    MOST_BYTES,
    MOST_NOTES,
    Earlier,
    Issue,
    Memory,
    MemoryFinding,
    bounded,
    one_line,
    onto,
    parsed,
    rendered,
    several_lines,
)
from knowledge.schema import check
from knowledge.store import MEMORY_FILE, card_files, load_cards, load_memory
from knowledge.yamlfile import YamlError
from tests.unit.test_knowledge_store import COOKBOOK, FACT, put

HERE = Path(MEMORY_FILE)
ISSUE = Issue(
    id="look-ups",
    title="Look inputs up once: not n times",
    layer="features",
    model="features",
    status="abandoned",
    why="`as_numpy` takes what it saved",
    attempts=1,
    commit="0123456789",
    run="run-1",
)
FINDING = MemoryFinding(
    issue="look-ups",
    change="Look inputs up once",
    verdict="refuted",
    gain=1.003,
    ci=(0.993, 1.013),
    why="`as_numpy` takes what it saved",
    commit="c0ffee",
    date=date(2025, 11, 30),
    skill="fewer-look-ups",
)
MEMORY = Memory(
    issues=[ISSUE],
    findings=[FINDING],
    earlier=Earlier(accepted=("older",), refuted=("1e3", "null", "oldest"), more_refuted=2),
    notes="# What is left\n\n  - the vocabulary: 11 %\nNothing else.",
)
TEXT = """\
# What agents tried on this stack, and what is left to try. The bot rewrites this file after a run;
# what is removed here stays removed.
schema: fvec.memory/1
issues:
  - id: look-ups
    title: "Look inputs up once: not n times"
    layer: features
    model: features
    status: abandoned
    why: "`as_numpy` takes what it saved"
    attempts: 1
    commit: "0123456789"
    run: run-1
findings:
  - issue: look-ups
    change: "Look inputs up once"
    verdict: refuted
    gain: 1.003
    ci: [0.993, 1.013]
    why: "`as_numpy` takes what it saved"
    commit: c0ffee
    date: 2025-11-30
    skill: fewer-look-ups
earlier:
  accepted: [older]
  refuted: ["1e3", "null", oldest]
  more_refuted: 2
notes: |-
  # What is left

    - the vocabulary: 11 %
  Nothing else.
"""


def test_a_memory_is_a_file_that_people_read_and_is_read_back() -> None:
    assert rendered(MEMORY) == TEXT
    assert parsed(TEXT, HERE) == MEMORY
    assert parsed(rendered(Memory()), HERE) == Memory()


def test_many_names_stand_on_lines_that_a_person_can_read() -> None:
    names = tuple(f"an-issue-of-some-length-{n:03}" for n in range(60))
    text = rendered(Memory(earlier=Earlier(refuted=names)))
    assert max(map(len, text.splitlines())) <= 100
    assert parsed(text, HERE).earlier.refuted == names


def test_the_file_may_be_written_by_a_person_in_another_style() -> None:
    text = "notes: |\n  one\n  two  \n\nschema: 'fvec.memory/1'\nfindings: []\n# the end\n"
    assert parsed(text, HERE) == Memory(notes="one\ntwo")


ROW = TEXT.partition("findings:")[0]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("issues: []\n", 1, 1, "schema: is missing"),
        ("schema: fvec.memory/2\n", 1, 9, "schema: must be a known value, not fvec.memory/2"),
        ("schema: fvec.memory/1\nissue: []\n", 2, 1, "issue: unknown key"),
        (ROW.replace("abandoned", "given up"), 9, 13, "issues.0.status: must be a known value"),
        (ROW.replace("id: look-ups", "id: Look Ups"), 5, 9, "issues.0.id: string should match"),
        (ROW.replace("attempts: 1", "attempts: -1"), 11, 15, "issues.0.attempts: input should be"),
        (ROW.replace("attempts: 1", "attempts: '1'"), 11, 15, "issues.0.attempts: input should be"),
        (ROW.replace("once", "\\u202e"), 6, 12, "issues.0.title: must be one line of printable"),
        (ROW.replace("once", "\\n"), 6, 12, "issues.0.title: must be one line of printable"),
        (ROW.replace("once", "x" * 200), 6, 12, "issues.0.title: string should have at most 120"),
        (ROW + ROW.partition("issues:\n")[2], 5, 3, "issues: the issue look-ups is there twice"),
        (TEXT.replace("[0.993, 1.013]", "[1.1, 0.9]"), 19, 9, "findings.0.ci: the lower end"),
        (TEXT.replace("refuted\n", "rejected\n"), 17, 14, "findings.0.verdict: must be a known"),
        ("schema: fvec.memory/1\nnotes: &x a\n", 2, 8, "anchors are not allowed"),
        ("schema: fvec.memory/1\nnotes: !!python/name:os.system a\n", 2, 8, "tags are not allowed"),
        ('schema: fvec.memory/1\nnotes: "\\x1b[2J"\n', 2, 8, "notes: must be lines of printable"),
        ("schema: fvec.memory/1\nearlier: [1]\n", 2, 10, "earlier: input should be"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(text, line, column, message) -> None:
    with pytest.raises(YamlError) as caught:
        parsed(text, HERE)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.message.startswith(message)


# --- beside the cards -------------------------------------------------------------------------


def folder(tmp_path: Path, memory: str) -> Path:
    put(tmp_path / "cookbook/server/a.yaml", COOKBOOK.format(id="a", title="t"))
    put(tmp_path / MEMORY_FILE, memory)
    return tmp_path


def call(capsys, *argv: object) -> tuple[int, str]:
    code = cli.main([str(arg) for arg in argv])
    return code, capsys.readouterr().out


def test_check_takes_a_memory_beside_the_cards_and_it_is_no_card(tmp_path, capsys) -> None:
    place = folder(tmp_path, TEXT)
    assert [path.name for path in card_files(place)] == ["a.yaml"]
    assert load_cards(place).get("a") is not None
    assert load_memory(place / MEMORY_FILE) == MEMORY
    assert check([place], today=date(2025, 11, 30)) == []
    code, out = call(capsys, "knowledge", "check", place / "cookbook", place)
    assert (code, out) == (0, "2 cards, 0 problems\n")


def test_check_refuses_a_bad_memory_with_its_place(tmp_path, capsys) -> None:
    place = folder(tmp_path, TEXT.replace("abandoned", "given up"))
    code, out = call(capsys, "knowledge", "check", place)
    assert code == 3
    assert f"{place / MEMORY_FILE}:9:13" in out


def test_a_finding_of_a_day_to_come_is_refused_at_its_date(tmp_path) -> None:
    place = folder(tmp_path, TEXT)
    (problem,) = check([place], today=date(2025, 11, 29))
    assert (problem.line, problem.column) == (22, 5)
    assert problem.message == "findings: 2025-11-30 lies after today, 2025-11-29"


def test_a_link_a_folder_and_a_large_file_are_no_memory(tmp_path) -> None:
    place = folder(tmp_path / "a", TEXT)
    large = put(tmp_path / "large.yaml", TEXT + "# ü\n" * (MOST_BYTES // 5 + 1))
    (place / MEMORY_FILE).unlink()
    (place / MEMORY_FILE).symlink_to(put(tmp_path / "elsewhere.yaml", TEXT))
    assert [p.message for p in check([place])] == ["is a symbolic link"]
    (place / MEMORY_FILE).unlink()
    (place / MEMORY_FILE).symlink_to(tmp_path / "nowhere.yaml")
    assert [p.message for p in check([place])] == ["is a symbolic link"]
    (place / MEMORY_FILE).unlink()
    (place / MEMORY_FILE).mkdir()
    assert [p.message for p in check([place])] == ["is not a file"]
    with pytest.raises(YamlError, match="is larger than the 24576 bytes of a memory"):
        load_memory(large)


def test_a_card_in_its_folder_may_be_called_memory(tmp_path) -> None:
    put(tmp_path / "model" / MEMORY_FILE, FACT.format(id="memory"))
    assert check([tmp_path]) == []
    assert [card.id for card in load_cards(tmp_path).facts] == ["memory"]


# --- its size ---------------------------------------------------------------------------------


def size(memory: Memory) -> int:
    return len(rendered(memory).encode())


def an_issue(name: str, status: str) -> Issue:
    values = {"id": name, "status": status, "why": "a reason", "title": "A title"}
    return Issue.model_validate(values | {"layer": "server", "model": "m"})


def a_finding(name: str, verdict: str) -> MemoryFinding:
    values = {"issue": name, "verdict": verdict, "why": "a reason", "commit": "c0ffee"}
    return MemoryFinding.model_validate(values | {"change": "A change", "date": "2025-11-30"})


FULL = Memory(
    issues=[
        an_issue("open-issue", "open"),
        an_issue("parked-issue", "parked"),
        an_issue("done-issue", "done"),
        an_issue("abandoned-issue", "abandoned"),
        an_issue("busy-issue", "in_progress"),
    ],
    findings=[a_finding("abandoned-issue", "refuted"), a_finding("done-issue", "accepted")],
    notes="note " * 600,
)


def gone(before: Memory, after: Memory) -> str:
    """Say what went between two memories that differ in one thing."""
    if before.notes != after.notes:
        return "notes shortened" if after.notes else "notes"
    if lost := {i.id for i in before.issues} - {i.id for i in after.issues}:
        return f"issue {lost.pop()}"
    if lost := [a.id for a, b in zip(before.issues, after.issues, strict=True) if a.why != b.why]:
        return f"why of {lost[0]}"
    if lost := {f.key for f in before.findings} - {f.key for f in after.findings}:
        return f"text of finding {lost.pop()[0]}"
    silent = [a.issue for a, b in zip(before.findings, after.findings, strict=True) if a != b]
    return f"why of finding {silent[0]}" if silent else "a name"


def test_what_goes_first_for_want_of_space_is_what_is_needed_least() -> None:
    memory, order = FULL, list[str]()
    while (smaller := bounded(memory, size(memory) - 1)) != memory:
        assert size(smaller) < size(memory)
        order.append(gone(memory, smaller))
        memory = smaller
    assert order == [
        "notes shortened",
        "why of done-issue",
        "why of abandoned-issue",
        "issue done-issue",
        "issue abandoned-issue",
        "why of finding done-issue",
        "why of finding abandoned-issue",
        "notes",
        "why of open-issue",
        "why of parked-issue",
        "why of busy-issue",
        "text of finding done-issue",
        "text of finding abandoned-issue",
        "issue parked-issue",
        "issue open-issue",
        "issue busy-issue",
        "a name",
        "a name",
    ]
    assert memory == Memory(earlier=Earlier(more_accepted=1, more_refuted=1))


def test_what_fits_is_left_as_it_is() -> None:
    assert bounded(MEMORY) is MEMORY
    assert bounded(FULL, size(FULL)) is FULL


def test_hundreds_of_findings_keep_issue_and_verdict() -> None:
    names = [f"{n:03}-{'x' * 59}" for n in range(320)]  # as long as an id may be
    verdicts = ["accepted" if n % 3 else "refuted" for n in range(320)]
    found = [a_finding(*both) for both in zip(names, verdicts, strict=True)]
    memory = bounded(Memory(findings=found, issues=FULL.issues, notes="n" * MOST_NOTES))
    assert size(memory) <= MOST_BYTES
    for verdict in ("accepted", "refuted"):
        wanted = {n for n, v in zip(names, verdicts, strict=True) if v == verdict}
        assert memory.named(verdict) == wanted
    assert memory.earlier.more_accepted == memory.earlier.more_refuted == 0
    assert load_again(memory) == memory


def load_again(memory: Memory) -> Memory:
    return parsed(rendered(memory), HERE)


# --- two at once ------------------------------------------------------------------------------


A, B, C = (an_issue(name, "open") for name in ("a", "b", "c"))
OLD, NEW = a_finding("a", "refuted"), a_finding("c", "accepted")
BASE = Memory(issues=[A, B], findings=[OLD], notes="old")
DONE = A.model_copy(update={"status": "done", "why": "accepted"})
OURS = Memory(issues=[B, DONE, C], findings=[NEW, OLD], notes="new")


def test_where_nobody_edited_the_file_it_is_the_runs() -> None:
    assert onto(OURS, BASE, BASE) == OURS


def test_what_a_reviewer_changed_or_removed_meanwhile_stays_so() -> None:
    edited = B.model_copy(update={"title": "Said better"})
    now = Memory(issues=[edited, A], notes="a reviewer's")
    assert onto(OURS, BASE, now) == Memory(issues=[edited, DONE, C], findings=[NEW], notes="new")
    same_notes = OURS.model_copy(update={"notes": BASE.notes})
    assert onto(same_notes, BASE, now).notes == "a reviewer's"
    without = Memory(issues=[A], findings=[OLD], notes="old")
    assert [issue.id for issue in onto(OURS, BASE, without).issues] == ["a", "c"]


def test_findings_that_became_names_in_the_run_are_not_told_twice() -> None:
    short = Memory(
        issues=[B.model_copy(update={"why": ""})],
        earlier=Earlier(accepted=("c",), refuted=("a",)),
        notes="old",
    )
    now = BASE.model_copy(update={"notes": "a reviewer's"})
    merged = onto(short, BASE, now)
    assert (merged.issues, merged.findings) == ([A, B], [OLD])
    assert merged.earlier == Earlier(accepted=("c",))


# --- texts ------------------------------------------------------------------------------------


def test_foreign_text_becomes_lines_that_a_memory_may_hold() -> None:
    assert one_line(" a\tb\r\n\x00c\u200bd\u2028e\u00a0f ") == "a b cd e f"
    assert one_line("a word that is cut", 8) == "a word…"
    assert several_lines("\n\n  first \n\n\tthird\u202e\x1b\n\n") == "first\n\n third"
    assert several_lines("one\ntwo three", 8) == "one\ntwo…"
