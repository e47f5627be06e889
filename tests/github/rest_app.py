"""REST: who I am, the App, its installation tokens and its webhook deliveries."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode

from tests.github import shapes
from tests.github.rest import Reply, Request, error, not_found, route
from tests.github.state import ALL_GRANTS, Delivery


@route("GET /user")
def _user(request: Request) -> Reply:
    if request.token is None or request.token.grants is not None:
        raise error(403, "Resource not accessible by integration")
    return Reply(200, shapes.private_user(request.site, request.login))


@route("GET /app", by="app")
def _app(request: Request) -> Reply:
    return Reply(200, shapes.app(request.site, request.app.id))


@route("GET /app/installations/{installation_id}", by="app")
def _installation(request: Request) -> Reply:
    _check_installation(request)
    return Reply(200, shapes.installation(request.site, request.app.id, request.app.installation))


@route("GET /repos/{owner}/{repo}/installation", by="app")
def _installation_of_repository(request: Request) -> Reply:
    if f"{request.params['owner']}/{request.params['repo']}" != request.world.full_name:
        raise not_found()
    return Reply(200, shapes.installation(request.site, request.app.id, request.app.installation))


def _check_installation(request: Request) -> None:
    if request.number("installation_id") != request.app.installation:
        raise not_found()


@route("POST /app/installations/{installation_id}/access_tokens", by="app")
def _mint(request: Request) -> Reply:
    """Make a token of the permissions asked for; without any asked, of all that the App has."""
    _check_installation(request)
    asked = request.field("permissions", dict) or dict(ALL_GRANTS)
    for scope, level in asked.items():
        if scope not in ALL_GRANTS or (level == "write" and ALL_GRANTS[scope] == "read"):
            raise error(422, "The permissions requested are not granted to this installation.")
    names = request.field("repositories", list)
    if names is not None and names != [request.world.name]:
        raise error(
            422, "There is at least one repository that does not exist or is not accessible"
        )
    grants = {"metadata": "read", **asked}
    expires = request.world.second() + timedelta(hours=1)
    token = request.world.add_token(f"{request.app.slug}[bot]", grants, expires)
    body = {
        "token": token,
        "expires_at": shapes.stamp(expires),
        "permissions": grants,
        "repository_selection": "selected",
        "repositories": [shapes.repository(request.site)],
    }
    return Reply(201, body)


@route("GET /app/hook/deliveries", by="app")
def _deliveries(request: Request) -> Reply:
    """List deliveries, newest first; pages go by a cursor, which is the id of the last one shown."""
    size = min(int(request.query.get("per_page", "30")), 100)
    found = sorted(request.world.deliveries, key=lambda told: -told.id)
    cursor = request.query.get("cursor")
    if cursor is not None:
        found = [told for told in found if told.id < int(cursor)]
    shown, headers = found[:size], {}
    if len(found) > size:
        query = urlencode({"per_page": size, "cursor": shown[-1].id})
        headers = {"Link": f'<{request.site.api}{request.path}?{query}>; rel="next"'}
    return Reply(200, [_delivery_item(request, told) for told in shown], headers)


def _delivery_item(request: Request, told: Delivery) -> shapes.Json:
    return {
        "id": told.id,
        "guid": told.guid,
        "delivered_at": shapes.stamp(told.delivered_at),
        "redelivery": told.redelivery,
        "duration": 0.1,
        "status": "OK" if told.status_code < 400 else "Invalid HTTP Response",
        "status_code": told.status_code,
        "event": told.event,
        "action": told.payload.get("action"),
        "installation_id": request.app.installation,
        "repository_id": None,
        "throttled_at": None,
    }


@route("POST /app/hook/deliveries/{delivery_id}/attempts", by="app")
def _redeliver(request: Request) -> Reply:
    number = request.number("delivery_id")
    for told in request.world.deliveries:
        if told.id == number:
            request.app.redeliver(told)
            return Reply(202, {})
    raise not_found()
