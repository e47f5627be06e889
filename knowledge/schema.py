"""The contract of cards for people and editors: JSON schema, a strict check, plain data to show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from knowledge.cards import AnyCard, CookbookCard, FactCard, Finding
from knowledge.refine import bounded
from knowledge.store import card_files, is_device, load_card, load_device
from knowledge.yamlfile import Problem, YamlError, read
from knowledge.yamltree import Node, parse


def card_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) that every card meets."""
    adapter: TypeAdapter[CookbookCard | FactCard] = TypeAdapter(AnyCard)
    schema = adapter.json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "fvec.card/1"}
    return {**head, **schema}


def check(directories: Sequence[Path], today: date | None = None) -> list[Problem]:
    """Return everything wrong with the cards below `directories`, in file order.

    Beyond the schema: the id is the file's name and unique in its directory, the folder is the
    card's layer or kind, statements have sources, findings are newest first, do not repeat and have
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
            if isinstance(card, CookbookCard):
                problems += _late(card, path, today)
            seen.setdefault(card.id, path)
    return problems


def show(card: CookbookCard | FactCard) -> dict[str, Any]:
    """Return the card as plain data in the order of its file; dates are ISO strings."""
    return card.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _conventions(card: CookbookCard | FactCard, path: Path, seen: dict[str, Path]) -> list[Problem]:
    root = parse(read(path), path)
    problems: list[Problem] = []
    if path.suffix != ".yaml":
        problems.append(Problem(path, None, None, "a card's file ends in .yaml"))
    if card.id != path.stem:
        hint = f"name the file {card.id}.yaml, or the card {path.stem}"
        problems.append(_at(root, "id", path, f"is not the file's name, {path.stem!r}", hint))
    if card.id in seen:
        problems.append(_at(root, "id", path, f"is already the id of {seen[card.id]}"))
    folder, key = (card.layer, "layer") if isinstance(card, CookbookCard) else (card.kind, "kind")
    if path.parent.name != folder:
        hint = f"move it to a folder {folder}/"
        problems.append(_at(root, key, path, f"is not the folder, {path.parent.name!r}", hint))
    if isinstance(card, FactCard) and is_device(card):
        problems += _device_problems(path)
    if not card.sources:
        problems.append(_at(root, "title", path, "a card names its sources", "add sources:"))
    problems += _source_problems(card, root, path)
    if isinstance(card, CookbookCard) and list(card.findings) != bounded(card.findings):
        message = "are not newest first, one per stack and commit"
        problems.append(_at(root, "findings", path, message))
    return problems


def _device_problems(path: Path) -> Sequence[Problem]:
    try:
        load_device(path)
    except YamlError as error:
        return error.problems
    return ()


def _source_problems(card: CookbookCard | FactCard, root: Node, path: Path) -> list[Problem]:
    return [
        _at(root, "sources", path, f"{source.url!r} is no https address")
        for source in card.sources
        if source.url is not None and not source.url.startswith("https://")
    ]


def _late(card: CookbookCard, path: Path, today: date) -> list[Problem]:
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


def _at(root: Node, key: str, path: Path, message: str, hint: str | None = None) -> Problem:
    place = root.keys[key]
    return Problem(path, place.line, place.column, f"{key}: {message}", hint)
