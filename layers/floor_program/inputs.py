"""What the program reads: JSON files, and what is packed with it. Standard library alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from layers.floor import configs, facts
from layers.floor.hardware import Hardware
from layers.floor.model import Model
from layers.floor.precision import Precision
from layers.floor.thresholds import Table
from layers.floor.triage import Limit

MOST_BYTES = 1 << 20
QUANTISATION = "hf_quant_config.json"
PACKED = "packed.json"  # beside this module in the archive: {"cards": [...], "thresholds": {...}}


class Refused(Exception):
    """An input is wrong; the text says where and why."""


def packed() -> Mapping[str, object]:
    """Return what was packed with the program; nothing where it runs unpacked."""
    path = files("layers.floor_program").joinpath(PACKED)
    return _object(path.read_text(encoding="utf-8"), PACKED) if path.is_file() else {}


def cards(content: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """Return the packed cards by id."""
    listed = content.get("cards", [])
    rows = listed if isinstance(listed, list) else []
    return {str(card["id"]): card for card in rows if isinstance(card, dict)}


def thresholds(content: Mapping[str, object]) -> Table:
    """Return the packed stop thresholds."""
    found = content.get("thresholds", {})
    classes = found if isinstance(found, dict) else {}
    return {
        name: {key: Limit(**row) for key, row in rows.items()} for name, rows in classes.items()
    }


def hardware(name: str, known: Mapping[str, Mapping[str, object]]) -> Hardware:
    """Return a packed card by its name, or that of a JSON file. Raises Refused."""
    try:
        if name.endswith(".json"):
            return _hardware(_read(Path(name)), name)
        return _hardware(known[facts.chosen(name, sorted(known))], name)
    except ValueError as error:
        raise Refused(str(error)) from error


def model(path: Path, stored: Mapping[str, str]) -> tuple[Model, Precision]:
    """Return the model of a config.json (or its folder) and how it is kept. Raises Refused."""
    config = path / "config.json" if path.is_dir() else path
    beside = config.with_name(QUANTISATION)
    try:
        found, precision = configs.read(_read(config), _read(beside) if beside.is_file() else None)
    except configs.ConfigError as error:
        raise Refused(f"{config}: {error}") from error
    differs: dict[str, str] = dict(stored)
    return found, replace(precision, **differs)


def _hardware(card: Mapping[str, object], name: str) -> Hardware:
    given = card.get("facts")
    if not isinstance(given, dict):
        raise Refused(f"{name}: no facts: a card is {{id, facts, sources}}")
    found = facts.hardware(str(card.get("id", name)), given)
    sources = given.get("source_of")
    named = sources if isinstance(sources, dict) else {}
    if without := sorted(given.keys() - named.keys() - {"family", "source_of"}):
        raise Refused(f"{name}: source_of does not name the source of {', '.join(without)}")
    return found


def _read(path: Path) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise Refused(f"{path}: larger than {MOST_BYTES} bytes")
        return _object(content.decode(), str(path))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or 'cannot be read'}") from error
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: not UTF-8") from error


def _object(text: str, name: str) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{name}: not JSON that can be read: {error}") from error
    if not isinstance(found, dict):
        raise Refused(f"{name}: not a JSON object")
    return found
