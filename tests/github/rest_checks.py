"""REST: check runs. Only an App's token may write them, as on GitHub."""

from __future__ import annotations

from datetime import datetime

from tests.github import shapes_issues
from tests.github.rest import Reply, Request, bounded, error, not_found, route
from tests.github.state import CheckRun

_REPO = "/repos/{owner}/{repo}"
_MAX_TEXT = 65_535
_CONCLUSIONS = (
    "action_required",
    "cancelled",
    "failure",
    "neutral",
    "skipped",
    "success",
    "timed_out",
)


@route(f"POST {_REPO}/check-runs", grant="checks:write", role="app")
def _create_check(request: Request) -> Reply:
    world = request.world
    sha = request.required("head_sha", str)
    if world.git.kind(sha) != "commit":
        raise error(422, f"No commit found for SHA: {sha}")
    name = request.required("name", str)
    check = CheckRun(next(world.ids), sha, name, world.second(), request.login)
    _fill(request, check)
    world.checks[check.id] = check
    return Reply(201, shapes_issues.check_run(request.site, check, request.app.id))


@route(f"PATCH {_REPO}/check-runs/{{check_run_id}}", grant="checks:write", role="app")
def _update_check(request: Request) -> Reply:
    check = _check(request)
    if check.login != request.login:
        raise error(403, "A check run can only be modified by the GitHub App that created it.")
    _fill(request, check)
    return Reply(200, shapes_issues.check_run(request.site, check, request.app.id))


def _check(request: Request) -> CheckRun:
    check = request.world.checks.get(request.number("check_run_id"))
    if check is None:
        raise not_found()
    return check


def _fill(request: Request, check: CheckRun) -> None:
    """Take over what a request says; a conclusion completes the run."""
    output = request.field("output", dict)
    if output is not None:
        if not isinstance(output.get("summary"), str):
            raise error(422, 'Invalid request. "summary" wasn\'t supplied.')
        for part in ("summary", "text"):
            bounded("CheckRun", output.get(part), _MAX_TEXT)
        check.output = dict(output)
    conclusion = request.field("conclusion", str)
    if conclusion is not None and conclusion not in _CONCLUSIONS:
        raise error(422, "Invalid request. The conclusion is none of those that there are.")
    check.name = request.field("name", str) or check.name
    check.external_id = request.field("external_id", str, default=check.external_id)
    check.details_url = request.field("details_url", str, default=check.details_url)
    check.status = request.field("status", str) or check.status
    _finish(request, check, conclusion)


def _finish(request: Request, check: CheckRun, conclusion: str | None) -> None:
    if check.status != "completed" and conclusion is None:
        check.conclusion = check.completed_at = None  # started once more
        return
    check.status = "completed"
    check.conclusion = conclusion or check.conclusion
    if check.conclusion is None:
        raise error(422, 'Invalid request. "conclusion" wasn\'t supplied.')
    told = request.field("completed_at", str)
    check.completed_at = datetime.fromisoformat(told) if told else request.world.second()


@route(f"GET {_REPO}/check-runs/{{check_run_id}}", grant="checks:read")
def _get_check(request: Request) -> Reply:
    return Reply(200, shapes_issues.check_run(request.site, _check(request), request.app.id))


@route(f"GET {_REPO}/commits/{{ref}}/check-runs", grant="checks:read")
def _checks(request: Request) -> Reply:
    sha = request.world.git.resolve(request.params["ref"])
    if sha is None:
        raise error(422, f"No commit found for SHA: {request.params['ref']}")
    wanted = request.query.get("check_name")
    status = request.query.get("status")
    found = [
        check
        for check in request.world.checks.values()
        if check.head_sha == sha and wanted in (None, check.name) and status in (None, check.status)
    ]
    if request.query.get("filter", "latest") == "latest":
        found = list({(check.name, check.external_id): check for check in found}.values())
    found.sort(key=lambda check: check.id, reverse=True)
    runs, headers = request.page(
        found, lambda told: shapes_issues.check_run(request.site, told, request.app.id)
    )
    return Reply(200, {"total_count": len(found), "check_runs": runs}, headers)
