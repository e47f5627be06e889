"""The frame of the REST side: routes, who asks, pages, errors as GitHub words them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode

from tests.github.app import App
from tests.github.shapes import Json, Site
from tests.github.state import RANKS, Token, World

DOCS = "https://docs.github.com/rest"
MAX_BODY = 65_536
# Path parameters that may hold slashes (GitHub marks them with x-multi-segment).
_MULTI_SEGMENT = frozenset({"ref", "path", "basehead", "branch", "tag"})


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, JSON body (None: empty) and headers beyond the usual ones."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What goes over the wire."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(str(reply.status))
        self.reply = reply


def error(status: int, message: str, *, headers: Mapping[str, str] | None = None) -> Refused:
    """Return GitHub's `basic-error`; a 422 is a `validation-error`, which tells no status."""
    body = {"message": message, "documentation_url": DOCS}
    if status != 422:
        body["status"] = str(status)
    return Refused(Reply(status, body, headers or {}))


def not_found() -> Refused:
    """Return the 404 that also hides what may not be seen."""
    return error(404, "Not Found")


def unprocessable(resource: str, field_name: str, code: str, message: str | None = None) -> Refused:
    """Return GitHub's `validation-error` about one field."""
    one: Json = {"resource": resource, "field": field_name, "code": code}
    if message:
        one["message"] = message
    body = {"message": "Validation Failed", "errors": [one], "documentation_url": DOCS}
    return Refused(Reply(422, body))


def bounded(resource: str, text: str | None, limit: int = MAX_BODY) -> str:
    """Return the text; 422 where it is longer than GitHub takes."""
    if text is not None and len(text) > limit:
        raise unprocessable(
            resource, "body", "custom", f"body is too long (maximum is {limit} characters)"
        )
    return text or ""


@dataclass(frozen=True, slots=True)
class Request:
    """One REST request, as a handler sees it."""

    site: Site
    app: App
    params: dict[str, str]
    query: dict[str, str]
    body: Any
    token: Token | None  # None: the App itself, by its JWT
    path: str

    @property
    def world(self) -> World:
        """Return the state."""
        return self.site.world

    @property
    def login(self) -> str:
        """Return who asks."""
        return self.token.login if self.token else f"{self.app.slug}[bot]"

    def number(self, name: str) -> int:
        """Return a path parameter that is a number; 404 where it is none."""
        if not self.params[name].isascii() or not self.params[name].isdigit():
            raise not_found()
        return int(self.params[name])

    def field(self, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """Return a member of the body; 422 where it is of another type."""
        value = self.body.get(name, default) if isinstance(self.body, dict) else default
        if value is not None and not isinstance(value, kind):
            raise error(422, f"Invalid request. For '{name}', {value!r:.40} is of another type.")
        return value

    def required(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """Return a member of the body that must be there."""
        value = self.field(name, kind)
        if value is None:
            raise error(422, f'Invalid request. "{name}" wasn\'t supplied.')
        return value

    def page(self, items: list[Any], shape: Callable[[Any], Any]) -> tuple[list[Any], Json]:
        """Return one page of `items`, shaped, and its Link header."""
        size = min(max(int(self.query.get("per_page", "30")), 1), 100)
        number = max(int(self.query.get("page", "1")), 1)
        last = max(-(-len(items) // size), 1)
        pages = {}
        if number > 1:
            pages |= {"prev": number - 1, "first": 1}
        if number < last:
            pages |= {"next": number + 1, "last": last}
        links = (
            f'<{self.site.api}{self.path}?{urlencode({**self.query, "page": page})}>; rel="{rel}"'
            for rel, page in pages.items()
        )
        header = {"Link": ", ".join(links)} if pages else {}
        return [shape(item) for item in items[(number - 1) * size : number * size]], header


Handler = Callable[[Request], Reply]


@dataclass(frozen=True, slots=True)
class Route:
    """An operation: who may ask for it, and what answers.

    `grant` is what an App's token needs ("contents:write"), `role` what a person needs; `by`
    "token", or "app" for what only the App's own JWT may ask.
    """

    method: str
    template: str
    pattern: re.Pattern[str]
    handler: Handler
    grant: str
    role: str
    by: str


ROUTES: list[Route] = []


def path_pattern(template: str, multi_segment: Set[str] = _MULTI_SEGMENT) -> re.Pattern[str]:
    """Return what matches a path template; `multi_segment`: parameters that may hold slashes."""

    def group(found: re.Match[str]) -> str:
        name = found.group(1)
        return f"(?P<{name}>{'.+' if name in multi_segment else '[^/]+'})"

    return re.compile(re.sub(r"\{(\w+)\}", group, template))


def route(
    operation: str, *, grant: str = "metadata:read", role: str = "read", by: str = "token"
) -> Callable[[Handler], Handler]:
    """Register the handler of "METHOD /path/{parameter}"."""

    def register(handler: Handler) -> Handler:
        method, template = operation.split(" ", 1)
        ROUTES.append(Route(method, template, path_pattern(template), handler, grant, role, by))
        return handler

    return register


def fixed_length(template: str) -> int:
    """Return how many characters of a path template are fixed: of two that match, more is nearer."""
    return len(re.sub(r"\{\w+\}", "", template))


def find(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """Return the route of a request and its path parameters; 404 where there is none."""
    matching = [r for r in ROUTES if r.method == method and r.pattern.fullmatch(path)]
    if not matching:
        raise not_found()
    nearest = max(matching, key=lambda known: fixed_length(known.template))
    found = nearest.pattern.fullmatch(path)
    values = found.groupdict() if found else {}
    return nearest, {name: unquote(value) for name, value in values.items()}


def check_access(known: Route, request: Request) -> None:
    """Raise what GitHub answers to who may not ask this."""
    if known.by == "app":
        if request.token is not None:
            raise error(401, "A JSON web token could not be decoded")
        return
    if request.token is None:
        raise error(403, "Resource not accessible by integration")
    if "repo" not in request.params:
        return
    _check_repository(request)
    if request.token.grants is None:
        _check_role(known, request)
        return
    scope, wanted = known.grant.split(":")
    granted = request.token.grants.get(scope)
    if granted is None or (wanted == "write" and granted != "write"):
        raise error(403, "Resource not accessible by integration")


def _check_repository(request: Request) -> None:
    named = (request.params["owner"].lower(), request.params["repo"].lower())
    if named != (request.world.owner.lower(), request.world.name.lower()):
        raise not_found()


def _check_role(known: Route, request: Request) -> None:
    permission = request.world.person(request.login).permission
    if permission == "none":
        raise not_found()
    if known.role == "app":
        raise error(403, "You must authenticate via a GitHub App.")
    if RANKS.index(permission) < RANKS.index(known.role):
        raise error(403, "Must have write access to this repository.")
