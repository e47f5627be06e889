"""The run report, folded from the journal: the one place where journal entries become a report.

Pure. `run.json` is this fold of `journal.jsonl`, so a report can be rebuilt from the journal of a
run that was killed, up to where it was killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layers.errors import InvalidInput
from layers.evidence import Block, ProfileRecord, RunReport
from layers.journal import Entry

# Journal kinds whose newest entry is the report's field of that name.
_LATEST = ("noise", "total", "knowledge", "not_tried")
# Journal kinds that the report lists in order.
_LISTS = {"iteration": "iterations", "sampled": "sampled", "pull_request": "pull_requests"}


def fold(entries: Sequence[Entry]) -> RunReport:
    """Return the report of a journal. Raises InvalidInput for one that never started."""
    if not entries or entries[0].kind != "run_started":
        raise InvalidInput(
            "the journal does not begin with run_started",
            hint="it is not the journal of a run, or the run was killed before it began",
        )
    fields: dict[str, Any] = {
        **entries[0].data,
        "conclusion": "killed before the end",
        "knowledge": {"branch": None, "cards_changed": []},
        "wall_s": 0.0,
        "blocks_void": 0,
    }
    for entry in entries[1:]:
        if entry.kind in _LATEST:
            fields[entry.kind] = entry.data
        elif entry.kind in _LISTS:
            fields.setdefault(_LISTS[entry.kind], []).append(entry.data)
        elif entry.kind == "profile":
            fields.setdefault("profile", entry.data)  # the report shows where the run began
        elif entry.kind == "block":
            fields["blocks_void"] += entry.data["void"] is not None
        elif entry.kind == "run_finished":
            fields.update(entry.data)
    return RunReport.model_validate(fields)


def profile_before(entries: Sequence[Entry], position: int) -> ProfileRecord | None:
    """Return the newest profile that was journalled before entry `position`."""
    found = [entry.data for entry in entries[:position] if entry.kind == "profile"]
    return ProfileRecord.model_validate(found[-1]) if found else None


def blocks(entries: Sequence[Entry]) -> list[Block]:
    """Return the blocks among the entries, void ones included."""
    return [Block.model_validate(entry.data) for entry in entries if entry.kind == "block"]
