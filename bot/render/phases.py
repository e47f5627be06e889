"""The phases of each model's process as rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.render import numbers

if TYPE_CHECKING:
    from layers.evidence import ProfileRecord

HEAD = ("model", "receive", "compute", "assemble", "outside its Python")
NOTE = (
    "receive: look-ups, string conversion, decoding; assemble: encoding, tensors, the response; "
    "shares of server CPU"
)
_PHASES = ("receive", "compute", "assemble", "outside")


def rows(record: ProfileRecord) -> list[list[str]]:
    """Return one row a model, the busiest first; none where the profile is older than phases."""
    busiest = sorted(record.by_phase.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return [
        [model, *(numbers.percent(shares.get(phase, 0.0)) for phase in _PHASES)]
        for model, shares in busiest
    ]
