"""The cards of a run: the packaged ones, refined by those of the serving repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from knowledge.cards import AnyCard, CookbookCard, DeviceCard, FactCard
from knowledge.yamlfile import Problem, YamlError, load

_ADAPTER: TypeAdapter[CookbookCard | FactCard] = TypeAdapter(AnyCard)
_AT_LEAST_AS_STRICT = {
    "exact": {"exact"},
    "reorder": {"exact", "reorder"},
    "approximate": {"exact", "reorder", "approximate"},
    "config": {"config"},
}
_Card = TypeVar("_Card", CookbookCard, FactCard)


@dataclass(frozen=True, slots=True)
class Cards:
    """All cards by family, ordered by id; ids are unique over both families."""

    cookbook: tuple[CookbookCard, ...]
    facts: tuple[FactCard, ...]
    paths: Mapping[str, Path]  # by id: the file whose text counts

    def for_layer(self, name: str) -> tuple[CookbookCard, ...]:
        """Return the cookbook cards of one layer."""
        return tuple(card for card in self.cookbook if card.layer == name)

    def get(self, card_id: str) -> CookbookCard | FactCard | None:
        """Return the card with this id, or None."""
        cards: tuple[CookbookCard | FactCard, ...] = (*self.cookbook, *self.facts)
        return next((card for card in cards if card.id == card_id), None)

    def path_of(self, card_id: str) -> Path:
        """Return the file of the card; raises KeyError for an unknown id."""
        return self.paths[card_id]


def builtin_directory() -> Path:
    """Return the folder of the packaged cards."""
    return Path(__file__).parent


def load_cards(*directories: Path) -> Cards:
    """Return the cards of all `directories`; a later one refines an earlier one of the same id.

    The later card counts, text and findings: it is a copy of the earlier one, and what a reviewer
    removed from it does not come back. It may not loosen the change class. A directory that does
    not exist holds no cards. Raises one YamlError with the problems of all files.
    """
    problems: list[Problem] = []
    cards: dict[str, CookbookCard | FactCard] = {}
    paths: dict[str, Path] = {}
    for directory in directories:
        here: dict[str, Path] = {}
        for path in card_files(directory):
            try:
                card = load_card(path)
                _claim(card.id, path, here)
                _check_refinement(cards.get(card.id), card, path)
                cards[card.id] = card
                paths[card.id] = path
            except YamlError as error:
                problems += error.problems
    if problems:
        raise YamlError.of(problems)
    return Cards(_family(cards.values(), CookbookCard), _family(cards.values(), FactCard), paths)


def card_files(directory: Path) -> Iterator[Path]:
    """Yield the YAML files below `directory`, sorted; symbolic links to folders are not followed."""
    yield from sorted(p for suffix in ("yaml", "yml") for p in directory.rglob(f"*.{suffix}"))


def load_card(path: Path) -> CookbookCard | FactCard:
    """Return one validated card; raises YamlError."""
    if path.is_symlink():  # its target may lie outside the repository that is trusted for cards
        raise YamlError(path, None, None, "is a symbolic link", "put the card itself here")
    return load(path, _ADAPTER)


def is_device(card: FactCard) -> bool:
    """Whether a card describes a device that floors can be computed for."""
    return card.kind == "hardware" and any(key.endswith("_flops_per_s") for key in card.facts)


def load_device(path: Path) -> DeviceCard:
    """Return one hardware card with all constants sourced; raises YamlError."""
    return load(path, DeviceCard)


def _claim(card_id: str, path: Path, here: dict[str, Path]) -> None:
    if card_id in here:
        raise YamlError(path, None, None, f"the id {card_id!r} is already that of {here[card_id]}")
    here[card_id] = path


def _check_refinement(
    old: CookbookCard | FactCard | None, new: CookbookCard | FactCard, path: Path
) -> None:
    """Raise YamlError unless `new` is `old` refined: it may tighten the gate, never loosen it."""
    if old is None or (isinstance(old, FactCard) and isinstance(new, FactCard)):
        return
    if not (isinstance(old, CookbookCard) and isinstance(new, CookbookCard)):
        raise YamlError(path, None, None, f"refines {old.id!r}, a card of another kind")
    if new.layer != old.layer:
        raise YamlError(path, None, None, f"refines {old.id!r}, a card of layer {old.layer}")
    if new.change_class not in _AT_LEAST_AS_STRICT[old.change_class]:
        message = f"change_class: {new.change_class} is looser than the card's {old.change_class}"
        raise YamlError(path, None, None, message, "give the card an id of its own")


def _family(cards: Iterable[CookbookCard | FactCard], kind: type[_Card]) -> tuple[_Card, ...]:
    return tuple(
        sorted((card for card in cards if isinstance(card, kind)), key=lambda card: card.id)
    )
