"""YAML files validated by a pydantic model; every error carries line, column and a hint.

A string is never taken for a number nor a number for a string: validation is pydantic's strict
mode. What the text may hold at all is said in `knowledge.yamltree`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from knowledge.yamltree import Node, Place, Problem, YamlError, looks_numeric, parse, read

__all__ = ["Problem", "YamlError", "load", "loads", "read"]

T = TypeVar("T")
Schema: TypeAlias = dict[str, Any]  # a JSON schema

_ABOUT_KEY = {"extra_forbidden", "missing", "union_tag_not_found"}


def load(path: Path, model: type[T] | TypeAdapter[T]) -> T:
    """Return the file validated against `model`.

    Raises YamlError: unreadable, larger than MAX_BYTES, not UTF-8, outside the subset, or refused
    by the model.
    """
    return loads(read(path), path, model)


def loads(text: str, path: Path, model: type[T] | TypeAdapter[T]) -> T:
    """Return `text` validated against `model`; `path` is only named in errors (YamlError)."""
    root = parse(text, path)
    adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
    try:
        # Strict JSON mode: dates, tuples and enums have one text form, nothing else is coerced.
        return adapter.validate_json(json.dumps(root.data()), strict=True)
    except ValidationError as error:
        schema = adapter.json_schema(by_alias=True)
        details = error.errors(include_url=False, include_context=True)
        raise YamlError.of(_problems(details, root, schema, path)) from error


def _problems(
    details: Sequence[ErrorDetails], root: Node, schema: Schema, path: Path
) -> list[Problem]:
    """Return one problem per place; the branches of a union complain about the same place."""
    found: dict[tuple[int, int, str, str], dict[str, str | None]] = {}
    for detail in details:
        loc = _full_loc(detail)
        name, node, place = _locate(root, loc, of_key=detail["type"] in _ABOUT_KEY)
        got = f", not {_shown(node.raw)}" if node.is_scalar else ""
        key = (place.line, place.column, name, "" if detail["type"] in _ABOUT_KEY else got)
        message, hint = _describe(detail, node, _known(schema, loc))
        found.setdefault(key, {}).setdefault(message, hint)
    return [
        Problem(path, line, column, f"{name}: {' or '.join(hints)}{got}", _first(hints))
        for (line, column, name, got), hints in sorted(found.items())
    ]


def _first(hints: Mapping[str, str | None]) -> str | None:
    return next((hint for hint in hints.values() if hint), None)


def _full_loc(detail: ErrorDetails) -> tuple[int | str, ...]:
    """Return pydantic's path to the error, which for a wrong discriminator lacks its key."""
    key = detail.get("ctx", {}).get("discriminator")
    return (*detail["loc"], key.strip("'")) if isinstance(key, str) else detail["loc"]


def _locate(root: Node, loc: Sequence[int | str], *, of_key: bool) -> tuple[str, Node, Place]:
    """Follow pydantic's path to the dotted name, the node and the place it is about.

    Elements that name the branch of a union lie in no file and are skipped; a missing key is
    named, and placed at the key that should hold it.
    """
    node, place, names = root, root.place, list[str]()
    for element in loc:
        if node.mapping is not None and element in node.mapping:
            place = node.keys[str(element)]
            node = node.mapping[str(element)]
            place = place if of_key else node.place
        elif node.sequence is not None and isinstance(element, int):
            node = node.sequence[element]
            place = node.place
        elif not (of_key and element == loc[-1]):
            continue
        names.append(_shown(str(element)))
    return ".".join(names) or "the document", node, place


def _known(schema: Schema, loc: Sequence[int | str]) -> dict[str, Schema]:
    """Return the properties that JSON schema `schema` allows at the parent of `loc`."""
    parents = list(loc[:-1])
    mapping = schema.get("discriminator", {}).get("mapping", {})
    chosen = mapping.get(parents[0]) if parents else None  # the tag comes first in a path
    heads = _expand({"$ref": chosen} if chosen else schema, schema)
    for element in parents[1:] if chosen else parents:
        below = [sub for head in heads for sub in _below(head, element)]
        branches = [head for head in heads if _is_branch(head, element)]
        heads = [part for sub in below for part in _expand(sub, schema)] or branches or heads
    return {key: sub for head in heads for key, sub in head.get("properties", {}).items()}


def _expand(schema: Schema, root: Schema) -> list[Schema]:
    if "$ref" in schema:
        return _expand(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return [part for branch in branches for part in _expand(branch, root)] or [schema]


def _below(schema: Schema, element: int | str) -> Iterator[Schema]:
    if isinstance(element, int):
        if isinstance(items := schema.get("items"), dict):
            yield items
    elif element in schema.get("properties", {}):
        yield schema["properties"][element]
    elif isinstance(values := schema.get("additionalProperties"), dict):
        yield values


def _is_branch(schema: Schema, tag: int | str) -> bool:
    """Whether `tag` is the value by which a discriminated union selects this branch."""
    properties = schema.get("properties", {}).values()
    return any(tag == sub.get("const") or tag in sub.get("enum", ()) for sub in properties)


def _describe(detail: ErrorDetails, node: Node, known: dict[str, Schema]) -> tuple[str, str | None]:
    """Return the message of one pydantic error and what to do about it."""
    kind, name = detail["type"], str(detail["loc"][-1]) if detail["loc"] else ""
    if kind == "extra_forbidden":
        return "unknown key", _nearest(name, list(known)) or f"known keys: {', '.join(known)}"
    if kind == "missing":
        return "is missing", known.get(name, {}).get("description")
    if kind == "union_tag_not_found":
        return "is missing", None
    if kind in {"literal_error", "enum", "union_tag_invalid"}:
        allowed = re.findall(
            r"'([^']*)'", str(detail["ctx"].get("expected", detail["ctx"].get("expected_tags")))
        )
        hint = _nearest(node.raw, allowed) or f"allowed: {', '.join(allowed)}"
        return "must be a known value", hint
    message = detail["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:], _retype(kind, node)


def _retype(kind: str, node: Node) -> str | None:
    """Return a hint where the value has the right look and the wrong type."""
    if kind == "string_type" and isinstance(node.scalar, bool | int | float):
        return f'quote it: "{node.raw}"'
    if kind in {"int_type", "float_type"} and isinstance(node.scalar, str):
        return "remove the quotes" if looks_numeric(node.raw) else None
    if kind == "bool_type" and node.raw.lower() in {"yes", "no", "on", "off"}:
        return "write true or false"
    return None


def _nearest(word: str, known: Sequence[str]) -> str | None:
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else None


def _shown(text: str, limit: int = 60) -> str:
    """Return text of a file as it may appear on a terminal: short, no control characters."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return short if short.isprintable() and short else repr(short)
