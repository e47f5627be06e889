"""Hardware cards as the constants of floors: the packaged ones, refined by a person's own."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

from knowledge.cards import DeviceCard, DeviceFacts
from knowledge.store import Cards, builtin_directory, is_device, load_cards, load_device
from knowledge.yamlfile import YamlError
from layers.errors import InvalidInput
from layers.floor.hardware import SCALE_OUT, SCALE_UP, Hardware, Link

SUFFIXES = (".yaml", ".yml")


def read(name: str, directories: Sequence[Path] = ()) -> Hardware:
    """Return the hardware of a card: `nvidia-h20`, `h20` for short, or the file of a card.

    Cards below `directories` count before packaged ones of the same id, the last directory most. Raises
    InvalidInput: no such card or several, or a card that is wrong, with line and column.
    """
    try:
        if name.endswith(SUFFIXES):
            return of_card(load_device(Path(name)))
        cards = load_cards(builtin_directory(), *directories)
        return of_card(load_device(cards.path_of(_chosen(name, devices(cards)))))
    except YamlError as error:
        raise InvalidInput(str(error)) from error


def devices(cards: Cards) -> list[str]:
    """Return the ids of all cards that floors can be computed from."""
    return [card.id for card in cards.facts if is_device(card)]


def of_card(card: DeviceCard) -> Hardware:
    """Return a card's constants."""
    facts = card.facts
    return Hardware(
        card.id,
        facts.memory_bytes,
        facts.hbm_bytes_per_s,
        facts.peaks,
        dict(_links(facts)),
        facts.scale_up_devices,
        facts.cache_bytes or 0.0,
        facts.cache_bytes_per_s or 0.0,
        facts.reserve_bytes or 0.0,
        facts.family,
    )


def _links(facts: DeviceFacts) -> Iterator[tuple[str, Link]]:
    if facts.scale_up_bytes_per_s is not None:
        latency = facts.scale_up_latency_s or 0.0
        yield SCALE_UP, Link(facts.scale_up_bytes_per_s, latency, facts.scale_up_reduces)
    if facts.scale_out_bytes_per_s is not None:
        yield SCALE_OUT, Link(facts.scale_out_bytes_per_s, facts.scale_out_latency_s or 0.0)


def _chosen(name: str, known: Sequence[str]) -> str:
    """Return the one id that `name` means: itself, or what follows a maker's name."""
    if name in known:
        return name
    meant = [one for one in known if one.partition("-")[2] == name.lower()]
    if len(meant) == 1:
        return meant[0]
    close = [one for one in known if name.lower() in one] or difflib.get_close_matches(
        name.lower(), known
    )
    hint = f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(known)}"
    raise InvalidInput(
        f"no hardware card {name[:60]!r}", hint=f"{hint}; or give the file of a card"
    )
