"""The contract of cards for people and editors: JSON schema, a strict check, plain data to show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from knowledge.cards import AnyCard, CookbookCard, FactCard, Finding, SkillCard, TriedCard
from knowledge.refine import bounded
from knowledge.store import (
    MEMORY_FILE,
    card_files,
    is_device,
    load_card,
    load_device,
    load_memory,
)
from knowledge.yamlfile import Problem, YamlError, read
from knowledge.yamltree import Node, parse


def card_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) that every card meets."""
    adapter: TypeAdapter[TriedCard | FactCard] = TypeAdapter(AnyCard)
    schema = adapter.json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "fvec.card/1"}
    return {**head, **schema}


def check(directories: Sequence[Path], today: date | None = None) -> list[Problem]:
    """Return everything wrong with the cards below `directories`, in file order, and with memories.

    Beyond the schema: the id is the file's name and unique in its directory, the folder is the card's
    layer, tier or kind, statements have sources, findings are newest first, do not repeat and have
    no date after `today` (by default the day in UTC): such a one would never be out of date.
    """
    today = today or datetime.now(UTC).date()
    problems: list[Problem] = []
    for directory in directories:
        if not directory.is_dir():
            problems.append(Problem(directory, None, None, "is not a directory"))
            continue
        seen: dict[str, Path] = {}
        for path in card_files(directory):
            try:
                card = load_card(path)
            except YamlError as error:
                problems += error.problems
                continue
            problems += _conventions(card, path, seen)
            if not isinstance(card, FactCard):
                problems += _late(card, path, today)
            seen.setdefault(card.id, path)
        problems += _of_memory(directory / MEMORY_FILE, today)
    return problems


def show(card: TriedCard | FactCard) -> dict[str, Any]:
    """Return the card as plain data in the order of its file; dates are ISO strings."""
    return card.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _conventions(card: TriedCard | FactCard, path: Path, seen: dict[str, Path]) -> list[Problem]:
    root = parse(read(path), path)
    problems: list[Problem] = []
    if path.suffix != ".yaml":
        problems.append(Problem(path, None, None, "a card's file ends in .yaml"))
    if card.id != path.stem:
        hint = f"name the file {card.id}.yaml, or the card {path.stem}"
        problems.append(_at(root, "id", path, f"is not the file's name, {path.stem!r}", hint))
    if card.id in seen:
        problems.append(_at(root, "id", path, f"is already the id of {seen[card.id]}"))
    folder, key = _folder(card)
    if path.parent.name != folder:
        hint = f"move it to a folder {folder}/"
        problems.append(_at(root, key, path, f"is not the folder, {path.parent.name!r}", hint))
    if isinstance(card, FactCard) and is_device(card):
        problems += _device_problems(path)
    if not card.sources:
        problems.append(_at(root, "title", path, "a card names its sources", "add sources:"))
    problems += _source_problems(card, root, path)
    if not isinstance(card, FactCard) and list(card.findings) != bounded(card.findings):
        message = "are not newest first, one per stack and commit"
        problems.append(_at(root, "findings", path, message))
    return problems


def _folder(card: TriedCard | FactCard) -> tuple[str, str]:
    """Return the name of the card's folder, and the key that says it."""
    if isinstance(card, CookbookCard):
        return card.layer, "layer"
    return (card.tier, "tier") if isinstance(card, SkillCard) else (card.kind, "kind")


def _device_problems(path: Path) -> Sequence[Problem]:
    try:
        load_device(path)
    except YamlError as error:
        return error.problems
    return ()


def _source_problems(card: TriedCard | FactCard, root: Node, path: Path) -> list[Problem]:
    return [
        _at(root, "sources", path, f"{source.url!r} is no https address")
        for source in card.sources
        if source.url is not None and not source.url.startswith("https://")
    ]


def _late(card: TriedCard, path: Path, today: date) -> list[Problem]:
    """Return a problem for every date of a finding, or of the summary, that lies after today."""
    if card.earlier is None:
        told = list[tuple[str, Finding]]()
    else:
        told = [("earlier", f) for f in (card.earlier.best, card.earlier.last) if f is not None]
    hint = "put the day of the run there, or remove the finding; it counts for nothing until then"
    root = parse(read(path), path)
    return [
        _at(root, key, path, f"{finding.date} lies after today, {today}", hint)
        for key, finding in [*(("findings", f) for f in card.findings), *told]
        if finding.date > today
    ]


def _of_memory(path: Path, today: date) -> Sequence[Problem]:
    """Return what is wrong with the memory beside the cards; nothing where there is none."""
    if not (path.exists() or path.is_symlink()):
        return ()
    try:
        memory = load_memory(path)
    except YamlError as error:
        return error.problems
    listed = (parse(read(path), path).mapping or {}).get("findings")
    rows = listed.sequence or [] if listed is not None else []
    hint = "put the day of the run there, or remove the finding"
    dated = zip((row.keys["date"] for row in rows), memory.findings, strict=True)
    late = [(place, found.date) for place, found in dated if found.date > today]
    return [
        Problem(path, place.line, place.column, f"findings: {day} lies after today, {today}", hint)
        for place, day in late
    ]


def _at(root: Node, key: str, path: Path, message: str, hint: str | None = None) -> Problem:
    place = root.keys[key]
    return Problem(path, place.line, place.column, f"{key}: {message}", hint)
