"""The strings that a model knows, found in its files and its code, by the input they belong to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layers.errors import InvalidInput
from layers.scaffold.checkout import Checkout, join
from layers.scaffold.models import Model

MAX_VALUES = 50  # of a literal in the traffic script; a text file is read whole by the script
MAX_LENGTH = 200  # characters of a value
_MIN_VALUES = 2
_GENERIC = {"vocab", "vocabulary", "mapping", "lookup", "table", "map", "dict", "name",
            "file", "list", "index", "id", "known", "valid", "allowed", "value", "set", "all",
            "the", "of", "to", "by", "and", "default", "encoder", "encoding", "column", "input", "output", "tensor", "feature", "data"}  # fmt: skip
_NOT_WORDS = {"requirement", "readme", "license", "label", "notice", "version", "config"}
_GLOB = re.compile(r"[*?\[\]]")  # a build step would take such a path for a pattern
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Values of a string input: those of a text file, a line each, or `values`."""

    stem: str  # what it is called
    where: str  # file, and variable where it is in code
    file: str | None = None  # text file, relative to the root
    values: tuple[str, ...] = ()


def tokens(name: str) -> list[str]:
    """Split an identifier at its joints: `userCountries_2` to user, country, 2."""
    return [_singular(part.lower()) for part in _CAMEL.split(name) if part]


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith("s") and not word.endswith("ss") and len(word) > 2:
        return word[:-1]
    return word


def find(checkout: Checkout, models: Sequence[Model]) -> list[Vocabulary]:
    """Return what looks like a vocabulary in the folders and the code of some models."""
    found: list[Vocabulary] = []
    wired = {t.name for model in models for t in (*model.config.input, *model.config.output)}
    for model in models:
        inside = f"{model.folder}/"
        for folder in sorted(checkout.folders):
            if f"{folder}/".startswith(inside):
                found += _of_folder(checkout, folder)
        for variable, values in sorted(model.source.vocabularies.items()):
            short = tuple(value for value in values if _plain(value))[:MAX_VALUES]
            if len(short) >= _MIN_VALUES and not wired.intersection(values):
                where = f"{variable} in the code of {model.name}"
                found.append(Vocabulary(variable, where, values=short))
    return found


def match(name: str, vocabularies: Sequence[Vocabulary]) -> Vocabulary | None:
    """Return the vocabulary that is called as an input is: the longest name that fits wholly."""
    own = set(tokens(name))

    def fit(vocabulary: Vocabulary) -> int:
        words = set(tokens(vocabulary.stem)) - _GENERIC
        return len(words) if words and words <= own else 0

    best = max(vocabularies, key=fit, default=None)
    return best if best is not None and fit(best) else None


def generic(vocabularies: Sequence[Vocabulary]) -> Vocabulary | None:
    """Return the one vocabulary whose name says nothing but that, None where there are more."""
    plain = [found for found in vocabularies if set(tokens(found.stem)) <= _GENERIC]
    return plain[0] if len(plain) == 1 else None


def _of_folder(checkout: Checkout, folder: str) -> Iterator[Vocabulary]:
    """Yield the vocabularies among the text and JSON files of a folder."""
    for name in checkout.folders[folder]:
        stem, _, ending = name.rpartition(".")
        path = join(folder, name)
        if (
            ending not in ("txt", "json")
            or _NOT_WORDS.issuperset(tokens(stem))
            or _GLOB.search(path)
        ):
            continue
        try:
            text = checkout.text(path)
        except InvalidInput:
            continue  # of a kind that the traffic cannot draw from
        if ending == "txt" and _is_list(text):
            yield Vocabulary(stem, path, file=path)
        elif ending == "json" and (values := _json_values(text)):
            yield Vocabulary(stem, path, values=values)


def _is_list(text: str) -> bool:
    """Return whether a text is a list of values, one a line."""
    lines = text.splitlines()
    return len(lines) >= _MIN_VALUES and all(_plain(line) or not line for line in lines)


def _json_values(text: str) -> tuple[str, ...]:
    """Return the keys of an object of numbers, or a list's strings; empty for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if isinstance(data, dict) and all(isinstance(value, int) for value in data.values()):
        data = list(data)
    if not isinstance(data, list) or not all(isinstance(value, str) for value in data):
        return ()
    values = tuple(dict.fromkeys(value for value in data if _plain(value)))[:MAX_VALUES]
    return values if len(values) >= _MIN_VALUES else ()


def _plain(value: str) -> bool:
    return 0 < len(value) <= MAX_LENGTH and value.isprintable()
