"""Hardware cards as the constants of floors: the packaged ones, refined by a person's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from knowledge.cards import DeviceCard
from knowledge.store import Cards, builtin_directory, is_device, load_cards, load_device
from knowledge.yamlfile import YamlError
from layers.errors import InvalidInput
from layers.floor.facts import chosen, hardware
from layers.floor.hardware import Hardware

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
    return hardware(card.id, card.facts.model_dump(exclude_none=True))


def _chosen(name: str, known: Sequence[str]) -> str:
    try:
        return chosen(name, known)
    except ValueError as error:
        raise InvalidInput(str(error), hint="or give the file of a card") from error
