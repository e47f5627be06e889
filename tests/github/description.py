"""GitHub's OpenAPI description cut down to a list of operations, as JSON Schema (draft 4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.github.rest import fixed_length, path_pattern

Schema = dict[str, Any]
_NAMED = ("properties", "patternProperties")
_DROPPED = ("example", "examples", "x-github", "externalDocs")
# GitHub takes slashes in these too, though the description does not mark them x-multi-segment.
_ALSO_MULTI_SEGMENT = frozenset({"branch", "tag"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: "METHOD /path/{parameter}", what its path matches, its part of the description."""

    name: str
    pattern: re.Pattern[str]
    spec: Schema

    @property
    def method(self) -> str:
        """Return the HTTP method."""
        return self.name.split(" ", 1)[0]


class Description:
    """The operations of a list, and all that they refer to."""

    def __init__(self, full: Schema, allowed: Iterable[str]) -> None:
        """Reduce GitHub's description `full`; ValueError for an operation that it does not have."""
        self._full = full
        self.operations = [self._operation(name) for name in allowed]
        kept = _Closure(full)
        kept.follow({"$ref": "#/components/schemas/basic-error"})
        kept.follow([operation.spec for operation in self.operations])
        self.components = kept.components

    def _operation(self, name: str) -> Operation:
        method, template = name.split(" ", 1)
        path = self._full["paths"].get(template, {})
        if method.lower() not in path:
            raise ValueError(f"GitHub's description has no operation {name}")
        spec = _as_json_schema(path[method.lower()])
        parameters = [self._resolved(told) for told in spec.get("parameters", [])]
        multi = {told["name"] for told in parameters if told.get("x-multi-segment")}
        pattern = path_pattern(template, _ALSO_MULTI_SEGMENT | multi)
        return Operation(name, pattern, {**spec, "parameters": parameters})

    def _resolved(self, node: Schema) -> Schema:
        """Return what a node says, or the node that it refers to, of the whole description."""
        return _as_json_schema(_at(self._full, node["$ref"])) if "$ref" in node else node

    def resolve(self, node: Schema) -> Schema:
        """Return what a node says, or the node that it refers to."""
        while "$ref" in node:
            node = _at({"components": self.components}, node["$ref"])
        return node

    def find(self, method: str, path: str) -> Operation | None:
        """Return the operation of a request: of several that match, the most specific."""
        matching = [
            known
            for known in self.operations
            if known.method == method and known.pattern.fullmatch(path)
        ]
        return max(matching, key=lambda known: fixed_length(known.name), default=None)

    def whole(self, schema: Schema) -> Schema:
        """Return a schema that stands alone: its references lead into it."""
        return {"allOf": [schema], "components": self.components}

    def names(self, schema: Schema) -> set[str] | None:
        """Return the members that an object may have at its top; None: any."""
        schema = self.resolve(schema)
        parts = [part for key in ("allOf", "anyOf", "oneOf") for part in schema.get(key, ())]
        if not parts and schema.get("type", "object") != "object":
            return set()
        if schema.get("additionalProperties") or not (parts or "properties" in schema):
            return None
        names = set(schema.get("properties", {}))
        for part in parts:
            inner = self.names(part)
            if inner is None:
                # A variant that only says what is required adds no names.
                if set(self.resolve(part)) - {"required", "title", "description"}:
                    return None
                continue
            names |= inner
        return names


class _Closure:
    """The components that something refers to, directly or through others."""

    def __init__(self, full: Schema) -> None:
        self._full = full
        self.components: dict[str, Schema] = {}

    def follow(self, node: object) -> None:
        """Take over all that a node refers to."""
        for reference in _references(node):
            _, _, kind, name = reference.split("/", 3)
            if name not in self.components.setdefault(kind, {}):
                found = _as_json_schema(_at(self._full, reference))
                self.components[kind][name] = found
                self.follow(found)


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _at(document: Schema, reference: str) -> Schema:
    """Return the node of a reference "#/a/b"."""
    node = document
    for part in reference.removeprefix("#/").split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def _as_json_schema(node: Any, *, names: bool = False) -> Any:
    """Turn OpenAPI 3.0 into JSON Schema: `nullable` becomes a choice; examples go.

    `names`: the keys of this node are names of properties, not words of the schema language.
    """
    if isinstance(node, list):
        return [_as_json_schema(value) for value in node]
    if not isinstance(node, dict):
        return node
    made = {
        key: _as_json_schema(value, names=not names and key in _NAMED)
        for key, value in node.items()
        if names or key not in _DROPPED
    }
    if not names and made.pop("nullable", False) is True:
        return {"anyOf": [{"type": "null"}, made]}
    return made
