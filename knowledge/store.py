"""The cards of a run: the packaged ones, refined by those of the serving repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from pydantic import TypeAdapter

from knowledge.cards import (
    MAX_SKILL_BYTES,
    AnyCard,
    CookbookCard,
    DeviceCard,
    FactCard,
    SkillCard,
    TriedCard,
)
from knowledge.memory import Memory, parsed
from knowledge.yamlfile import Problem, YamlError, load, loads, read

MEMORY_FILE = "memory.yaml"  # right in the folder of cards: what agents remember is no card
_ADAPTER: TypeAdapter[TriedCard | FactCard] = TypeAdapter(AnyCard)
_AT_LEAST_AS_STRICT = {
    "exact": {"exact"},
    "reorder": {"exact", "reorder"},
    "approximate": {"exact", "reorder", "approximate"},
    "config": {"config"},
}
_Card = TypeVar("_Card", CookbookCard, FactCard, SkillCard)


@dataclass(frozen=True, slots=True)
class Cards:
    """All cards by family, ordered by id; ids are unique over all families."""

    cookbook: tuple[CookbookCard, ...]
    facts: tuple[FactCard, ...]
    paths: Mapping[str, Path]  # by id: the file whose text counts
    skills: tuple[SkillCard, ...] = ()

    @property
    def tried(self) -> tuple[TriedCard, ...]:
        """The cards that findings are written to."""
        return (*self.cookbook, *self.skills)

    def for_layer(self, name: str) -> tuple[CookbookCard, ...]:
        """Return the cookbook cards of one layer."""
        return tuple(card for card in self.cookbook if card.layer == name)

    def get(self, card_id: str) -> TriedCard | FactCard | None:
        """Return the card with this id, or None."""
        cards: tuple[TriedCard | FactCard, ...] = (*self.tried, *self.facts)
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
    cards: dict[str, TriedCard | FactCard] = {}
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
    found = cards.values()
    cookbook, facts = _family(found, CookbookCard), _family(found, FactCard)
    return Cards(cookbook, facts, paths, _family(found, SkillCard))


def folder_of(card: TriedCard) -> PurePosixPath:
    """Return the folder of a card, relative to the folder of all cards."""
    if isinstance(card, SkillCard):
        return PurePosixPath("skills", card.tier)
    return PurePosixPath("cookbook", card.layer)


def card_files(directory: Path) -> Iterator[Path]:
    """Yield the cards' files below `directory`, sorted; symbolic links to folders are not followed.

    Those are all YAML files but the memory, which lies right in the folder of all cards.
    """
    found = {p for suffix in ("yaml", "yml") for p in directory.rglob(f"*.{suffix}")}
    yield from sorted(found - {directory / MEMORY_FILE})


def load_card(path: Path) -> TriedCard | FactCard:
    """Return one validated card; raises YamlError, also for a skill above MAX_SKILL_BYTES."""
    if path.is_symlink():  # its target may lie outside the repository that is trusted for cards
        raise YamlError(path, None, None, "is a symbolic link", "put the card itself here")
    text = read(path)
    card = loads(text, path, _ADAPTER)
    if isinstance(card, SkillCard) and len(text.encode()) > MAX_SKILL_BYTES:
        message = f"is larger than the {MAX_SKILL_BYTES} bytes of a skill"
        raise YamlError(path, None, None, message, "say less: whoever uses it reads all of it")
    return card


def load_memory(path: Path) -> Memory:
    """Return what agents remember; raises YamlError, also for a file above MOST_BYTES or a link."""
    if path.is_symlink():
        raise YamlError(path, None, None, "is a symbolic link", "put the memory itself here")
    return parsed(read(path), path)


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
    old: TriedCard | FactCard | None, new: TriedCard | FactCard, path: Path
) -> None:
    """Raise YamlError unless `new` is `old` refined: it may tighten the gate, never loosen it."""
    if old is None or (isinstance(old, FactCard) and isinstance(new, FactCard)):
        return
    if isinstance(old, SkillCard) and isinstance(new, SkillCard):
        if new.tier != old.tier:
            raise YamlError(path, None, None, f"refines {old.id!r}, a skill of tier {old.tier}")
        return
    if not (isinstance(old, CookbookCard) and isinstance(new, CookbookCard)):
        raise YamlError(path, None, None, f"refines {old.id!r}, a card of another kind")
    if new.layer != old.layer:
        raise YamlError(path, None, None, f"refines {old.id!r}, a card of layer {old.layer}")
    if new.change_class not in _AT_LEAST_AS_STRICT[old.change_class]:
        message = f"change_class: {new.change_class} is looser than the card's {old.change_class}"
        raise YamlError(path, None, None, message, "give the card an id of its own")


def _family(cards: Iterable[TriedCard | FactCard], kind: type[_Card]) -> tuple[_Card, ...]:
    return tuple(
        sorted((card for card in cards if isinstance(card, kind)), key=lambda card: card.id)
    )
