"""The run report, folded from the journal: the one place where journal entries become a report.

Pure. `run.json` is this fold of `journal.jsonl`, so a report can be rebuilt from the journal of a
run that was killed, up to where it was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from layers.errors import InvalidInput
from layers.evidence import Block, ProfileRecord, RunReport
from layers.loop.combination import settled
from layers.loop.yields import agents_report, with_stories
from layers.record.answers import MEASURED, RESUMED, STARTED, HeardAnswer, WrittenAnswer
from layers.record.journal import Entry

_HEAD = ("run_id", "started_at", "seed", "stack", "environment")  # fields of the report
# Journal kinds whose newest entry is the report's field of that name.
_LATEST = ("knowledge", "not_tried")
# Journal kinds that the report lists in order.
_LISTS = {
    "iteration": "iterations",
    "sampled": "sampled",
    "on_top": "on_top",
    "pull_request": "pull_requests",
}


def fold(entries: Sequence[Entry]) -> RunReport:
    """Return the report of a journal. Raises InvalidInput for one that never started."""
    if not entries or entries[0].kind != STARTED:
        raise InvalidInput(
            "the journal does not begin with run_started",
            hint="it is not the journal of a run, or the run was killed before it began",
        )
    fields: dict[str, Any] = {
        **{name: entries[0].data[name] for name in _HEAD},
        "shard": entries[0].data.get("basis", {}).get("options", {}).get("shard"),
        "reproduce": entries[0].data.get("reproduce", []),
        "conclusion": "killed before the end",
        "knowledge": {"branch": None, "cards_changed": []},
        "wall_s": 0.0,
        "blocks_void": 0,
    }
    for entry in kept(entries[1:]):
        if entry.kind in _LATEST:
            fields[entry.kind] = entry.data
        elif entry.kind in _LISTS:
            fields.setdefault(_LISTS[entry.kind], []).append(entry.data)
        elif entry.kind == "block":
            fields["blocks_void"] += entry.data["void"] is not None
        else:
            fields |= _derived(entry, fields)
    found = RunReport.model_validate(fields)
    answers = _of_agents(entries)
    iterations = with_stories(settled(found.iterations, found.on_top), answers)
    told = agents_report(iterations, answers)
    return found.model_copy(update={"iterations": iterations, "agents": told})


def _of_agents(entries: Sequence[Entry]) -> list[WrittenAnswer | HeardAnswer]:
    kinds: dict[str, type[WrittenAnswer | HeardAnswer]] = {
        "written": WrittenAnswer,
        "heard": HeardAnswer,
    }
    return [kinds[e.kind].model_validate(e.data) for e in entries if e.kind in kinds]


def _derived(entry: Entry, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a report that an entry decides, where one decides several."""
    if entry.kind == "calibration":
        shown = entry.data["profile"]["record"]  # the report shows where the run began
        noise = {"work": entry.data["work"]}
        return {"noise": noise, "profile": shown, "environment": entry.data["environment"]}
    if entry.kind == "totals" and entry.data["total"] is not None:
        measured = {name: entry.data[name] for name in ("sustained", "tail")}
        return {"total": entry.data["total"], "noise": {**fields["noise"], **measured}}
    if entry.kind == "run_finished":
        return dict(entry.data)
    return {}


def kept(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that count: blocks and looks of what a kill cut short do not.

    They are dropped because the process that goes on measures the whole unit afresh.
    """
    counted: list[Entry] = []
    pending: list[Entry] = []  # since the newest answer
    for entry in entries:
        if entry.kind in MEASURED:
            pending.append(entry)
            continue
        if entry.kind != RESUMED:
            counted += pending
            counted.append(entry)
        pending = []
    return counted + pending


def profile_of(entries: Sequence[Entry], n: int) -> ProfileRecord | None:
    """Return the newest profile before candidate `n`: that of its own baseline."""
    found: dict[str, Any] | None = None
    for entry in entries:
        if entry.kind == "candidate" and entry.data["n"] == n:
            break
        if entry.kind == "calibration":
            found = entry.data["profile"]["record"]
        elif entry.kind == "profile":
            found = entry.data["record"]
    return ProfileRecord.model_validate(found) if found else None


def blocks_of(entries: Sequence[Entry], n: int) -> list[Block]:
    """Return the blocks that the verdict on candidate `n` rests on, void ones included."""
    found: list[Entry] = []
    inside = False
    for entry in kept(entries):
        if entry.kind in ("candidate", "iteration") and entry.data["n"] == n:
            inside = entry.kind == "candidate"
        elif inside and entry.kind == "block":
            found.append(entry)
    return blocks(found)


def blocks(entries: Sequence[Entry]) -> list[Block]:
    """Return the blocks among the entries, void ones included."""
    return [Block.model_validate(entry.data) for entry in entries if entry.kind == "block"]
