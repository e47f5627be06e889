"""GitHub's own OpenAPI description as the contract of every exchange.

`ALLOWED` is all that the bot may ask of GitHub. It holds nothing that merges, approves, makes a
release, changes a workflow or a protection, or deletes a branch: an exchange outside it is a
violation, so a test that passes says that the bot did none of that.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jsonschema_rs

from tests.github import npm
from tests.github.description import Description, Operation, Schema
from tests.github.faults import Exchange

_REPO = "/repos/{owner}/{repo}"
_ISSUE = f"{_REPO}/issues/{{issue_number}}"
_COMMENT = f"{_REPO}/issues/comments/{{comment_id}}"
_PULL = f"{_REPO}/pulls/{{pull_number}}"
_ADD_LABELS = f"POST {_ISSUE}/labels"

ALLOWED: tuple[str, ...] = (
    "GET /user",
    # the App itself
    "GET /app",
    "GET /app/installations/{installation_id}",
    "POST /app/installations/{installation_id}/access_tokens",
    "GET /app/hook/deliveries",
    "POST /app/hook/deliveries/{delivery_id}/attempts",
    f"GET {_REPO}/installation",
    # the repository
    f"GET {_REPO}",
    f"GET {_REPO}/branches/{{branch}}",
    f"GET {_REPO}/collaborators/{{username}}/permission",
    f"GET {_REPO}/commits/{{ref}}",
    f"GET {_REPO}/compare/{{basehead}}",
    f"GET {_REPO}/contents/{{path}}",
    f"GET {_REPO}/releases",
    f"GET {_REPO}/releases/latest",
    f"GET {_REPO}/releases/tags/{{tag}}",
    # git data: commits on branches of the bot's own (see `_check_own_branch`)
    f"GET {_REPO}/git/blobs/{{file_sha}}",
    f"POST {_REPO}/git/blobs",
    f"GET {_REPO}/git/commits/{{commit_sha}}",
    f"POST {_REPO}/git/commits",
    f"GET {_REPO}/git/matching-refs/{{ref}}",
    f"GET {_REPO}/git/ref/{{ref}}",
    f"POST {_REPO}/git/refs",
    f"PATCH {_REPO}/git/refs/{{ref}}",
    f"GET {_REPO}/git/trees/{{tree_sha}}",
    f"POST {_REPO}/git/trees",
    # pull requests
    f"GET {_REPO}/pulls",
    f"POST {_REPO}/pulls",
    f"GET {_PULL}",
    f"PATCH {_PULL}",
    f"GET {_PULL}/commits",
    f"GET {_PULL}/files",
    # issues, comments, labels, reactions
    f"GET {_REPO}/issues",
    f"POST {_REPO}/issues",
    f"GET {_ISSUE}",
    f"PATCH {_ISSUE}",
    f"GET {_ISSUE}/comments",
    f"POST {_ISSUE}/comments",
    f"GET {_COMMENT}",
    f"PATCH {_COMMENT}",
    f"GET {_COMMENT}/reactions",
    f"POST {_COMMENT}/reactions",
    f"GET {_ISSUE}/labels",
    _ADD_LABELS,
    f"DELETE {_ISSUE}/labels/{{name}}",
    # check runs
    f"GET {_REPO}/commits/{{ref}}/check-runs",
    f"POST {_REPO}/check-runs",
    f"GET {_REPO}/check-runs/{{check_run_id}}",
    f"PATCH {_REPO}/check-runs/{{check_run_id}}",
)

# Where the description is known to say less than GitHub does: what is checked instead.
ADAPTED: dict[str, Callable[[Any], Any]] = {
    # Its schema knows the object alone; its own prose says that an array of names is accepted too.
    _ADD_LABELS: lambda body: {"labels": body} if isinstance(body, list) else body,
}
# Errors that any operation may answer with, whether its description lists them or not.
_GENERAL = (400, 401, 403, 404, 429, 500, 502, 503)
_OWN = "heads/fvec/"


class Contract:
    """Checks exchanges against the reduced description."""

    def __init__(self, full: Schema, allowed: Iterable[str] = ALLOWED) -> None:
        """Reduce GitHub's description to `allowed`."""
        self.description = Description(full, allowed)
        self._validator = functools.cache(self._compiled)

    @classmethod
    @functools.cache
    def fetched(cls) -> Contract:
        """Fetch the description from npm; raises `npm.Unavailable` where that is not possible."""
        member = "generated/api.github.com.json"
        path = npm.unpacked(npm.OPENAPI, member) / "package" / member
        return cls(json.loads(path.read_bytes()))

    def violations(self, exchanges: Iterable[Exchange]) -> list[str]:
        """Return what is wrong with the REST exchanges of a list; git's are not looked at."""
        return [told for one in exchanges if not one.is_git for told in self._violations(one)]

    def _violations(self, exchange: Exchange) -> Iterator[str]:
        operation = self.description.find(exchange.method, exchange.path)
        if operation is None:
            yield f"{exchange.method} {exchange.path}: not an operation that the bot may ask for"
            return
        checks = [self._check_parameters, self._check_request, self._check_own_branch]
        if exchange.fault is None:
            checks.append(self._check_reply)
        for check in checks:
            for told in check(operation, exchange):
                yield f"{operation.name}: {told}"

    def _check_parameters(self, operation: Operation, exchange: Exchange) -> Iterator[str]:
        declared = {(told["in"], told["name"]): told for told in operation.spec["parameters"]}
        found = operation.pattern.fullmatch(exchange.path)
        given = {
            ("path", key): value for key, value in (found.groupdict() if found else {}).items()
        }
        given |= {("query", key): value for key, value in exchange.query.items()}
        for (place, name), text in given.items():
            told = declared.get((place, name))
            if told is None:
                yield f"unknown {place} parameter {name}"
                continue
            schema = self.description.resolve(told["schema"])
            yield from self._errors(f"{place} parameter {name}", schema, _typed(schema, text))
        for place, name in declared:
            if declared[place, name].get("required") and (place, name) not in given:
                yield f"{place} parameter {name} is missing"

    def _check_request(self, operation: Operation, exchange: Exchange) -> Iterator[str]:
        told = operation.spec.get("requestBody")
        if told is None:
            if exchange.body not in (None, {}):
                yield "request: a body where none is described"
            return
        body = ADAPTED.get(operation.name, lambda body: body)(exchange.body)
        if body is None:
            if self.description.resolve(told).get("required"):
                yield "request: the body is missing"
            return
        schema = self.description.resolve(told)["content"]["application/json"]["schema"]
        yield from self._errors("request", schema, body)
        yield from self._unknown("request", schema, body)

    def _check_own_branch(self, operation: Operation, exchange: Exchange) -> Iterator[str]:
        """Refs are written below heads/fvec/ alone: a main branch moved by hand would be a merge."""
        if exchange.method not in ("POST", "PATCH") or "/git/refs" not in exchange.path:
            return
        named = exchange.path.partition("/git/refs/")[2]
        if exchange.method == "POST" and isinstance(exchange.body, dict):
            named = str(exchange.body.get("ref", "")).removeprefix("refs/")
        if not named.startswith(_OWN):
            yield f"a ref that is not the bot's own: {named}"

    def _check_reply(self, operation: Operation, exchange: Exchange) -> Iterator[str]:
        where = f"reply {exchange.status}"
        told = operation.spec["responses"].get(str(exchange.status))
        if told is None:
            if exchange.status not in _GENERAL:
                yield f"{where}: a status that is not described"
                return
            told = {"content": {"application/json": {"schema": _BASIC_ERROR}}}
        content = self.description.resolve(told).get("content", {})
        if "application/json" not in content:
            if exchange.reply is not None:
                yield f"{where}: a body where none is described"
            return
        schema = content["application/json"]["schema"]
        yield from self._errors(where, schema, exchange.reply)
        yield from self._unknown(where, schema, exchange.reply)

    def _errors(self, where: str, schema: Schema, value: Any) -> Iterator[str]:
        validator = self._validator(json.dumps(schema, sort_keys=True))
        for error in validator.iter_errors(value):
            place = "/".join(map(str, error.instance_path))
            yield f"{where}: {place}: {error.message[:300]}"

    def _compiled(self, schema: str) -> jsonschema_rs.Draft4Validator:
        whole = self.description.whole(json.loads(schema))
        return jsonschema_rs.Draft4Validator(whole, validate_formats=True)

    def _unknown(self, where: str, schema: Schema, value: Any) -> Iterator[str]:
        """Tell members that the description does not know: a name that was invented or misspelt."""
        schema = self.description.resolve(schema)
        if isinstance(value, list) and "items" in schema:
            for item in value:
                yield from self._unknown(where, schema["items"], item)
        if isinstance(value, dict):
            names = self.description.names(schema)
            for name in sorted(set(value) - names) if names is not None else ():
                yield f"{where}: unknown member {name}"


_BASIC_ERROR = {"$ref": "#/components/schemas/basic-error"}


def _typed(schema: Schema, text: str) -> Any:
    """Return the value that a parameter's text stands for."""
    kind = schema.get("type")
    if kind == "integer" and text.lstrip("-").isdigit():
        return int(text)
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return text
