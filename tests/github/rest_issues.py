"""REST: issues, comments, labels, reactions, permissions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.github import shapes, shapes_issues
from tests.github.rest import Reply, Request, bounded, error, not_found, route, unprocessable
from tests.github.state import Comment, Issue, Reaction

_REPO = "/repos/{owner}/{repo}"
_REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")
_ROLE_OF = {
    "maintain": "write",
    "triage": "read",
}  # what `permission` says where `role_name` is finer


def _issue(request: Request) -> Issue:
    issue = request.world.issues.get(request.number("issue_number"))
    if issue is None:
        raise not_found()
    return issue


def _since(request: Request, when: datetime) -> bool:
    since = request.query.get("since")
    return since is None or when >= datetime.fromisoformat(since)


@route(f"GET {_REPO}/issues", grant="issues:read")
def _issues(request: Request) -> Reply:
    query = request.query
    state, creator = query.get("state", "open"), query.get("creator")
    labels = {name.lower() for name in query.get("labels", "").split(",") if name}
    found = [
        issue
        for issue in request.world.issues.values()
        if state in ("all", issue.state)
        and creator in (None, issue.login)
        and labels <= {name.lower() for name in issue.labels}
        and _since(request, issue.updated_at)
    ]
    found.sort(key=lambda issue: issue.number, reverse=query.get("direction", "desc") == "desc")
    body, headers = request.page(found, lambda told: shapes_issues.issue(request.site, told))
    return Reply(200, body, headers)


@route(f"POST {_REPO}/issues", grant="issues:write")
def _create_issue(request: Request) -> Reply:
    title = str(request.required("title", (str, int)))
    text = bounded("Issue", request.field("body", str))
    issue = request.world.add_issue(title, text, request.login)
    _set_labels(request, issue, request.field("labels", list, default=[]))
    return Reply(201, shapes_issues.issue(request.site, issue))


def _set_labels(request: Request, issue: Issue, labels: list[Any]) -> None:
    names = [told if isinstance(told, str) else str(told["name"]) for told in labels]
    issue.labels = [request.world.add_label(name).name for name in dict.fromkeys(names)]


@route(f"GET {_REPO}/issues/{{issue_number}}", grant="issues:read")
def _get_issue(request: Request) -> Reply:
    return Reply(200, shapes_issues.issue(request.site, _issue(request)))


@route(f"PATCH {_REPO}/issues/{{issue_number}}", grant="issues:write")
def _edit_issue(request: Request) -> Reply:
    issue = _issue(request)
    _check_may_edit(request, issue.login)
    title, text = request.field("title", (str, int)), request.field("body", str)
    issue.title = str(title) if title is not None else issue.title
    issue.body = bounded("Issue", text) if text is not None else issue.body
    issue.updated_at = request.world.second()
    set_state(request, issue, request.field("state", str))
    labels = request.field("labels", list)
    if labels is not None:
        _set_labels(request, issue, labels)
    return Reply(200, shapes_issues.issue(request.site, issue))


def set_state(request: Request, issue: Issue, state: str | None) -> None:
    """Close or reopen, where a request says so."""
    if state not in (None, "open", "closed"):
        raise unprocessable("Issue", "state", "invalid")
    if state == "closed" and issue.state == "open":
        request.world.close(issue)
    elif state == "open" and issue.state == "closed":
        request.world.reopen(issue)


def _check_may_edit(request: Request, author: str) -> None:
    """403 unless it is one's own, or one may write to the repository."""
    permission = request.world.person(request.login).permission
    if request.login != author and permission not in ("write", "maintain", "admin"):
        raise error(403, "Must have write access to edit what somebody else wrote.")


@route(f"GET {_REPO}/issues/{{issue_number}}/comments", grant="issues:read")
def _comments(request: Request) -> Reply:
    number = _issue(request).number
    found = [
        comment
        for comment in request.world.comments.values()
        if comment.number == number and _since(request, comment.updated_at)
    ]
    body, headers = request.page(found, lambda told: shapes_issues.comment(request.site, told))
    return Reply(200, body, headers)


@route(f"POST {_REPO}/issues/{{issue_number}}/comments", grant="issues:write")
def _create_comment(request: Request) -> Reply:
    number = _issue(request).number
    text = bounded("IssueComment", request.required("body", str))
    if not text.strip():
        raise unprocessable("IssueComment", "body", "missing_field")
    comment = request.world.add_comment(number, text, request.login)
    return Reply(201, shapes_issues.comment(request.site, comment))


def _comment(request: Request) -> Comment:
    comment = request.world.comments.get(request.number("comment_id"))
    if comment is None:
        raise not_found()
    return comment


@route(f"GET {_REPO}/issues/comments/{{comment_id}}", grant="issues:read")
def _get_comment(request: Request) -> Reply:
    return Reply(200, shapes_issues.comment(request.site, _comment(request)))


@route(f"PATCH {_REPO}/issues/comments/{{comment_id}}", grant="issues:write")
def _edit_comment(request: Request) -> Reply:
    comment = _comment(request)
    _check_may_edit(request, comment.login)
    comment.body = bounded("IssueComment", request.required("body", str))
    comment.updated_at = request.world.second()
    return Reply(200, shapes_issues.comment(request.site, comment))


@route(f"GET {_REPO}/issues/comments/{{comment_id}}/reactions", grant="issues:read")
def _reactions(request: Request) -> Reply:
    wanted = request.query.get("content")
    found = [r for r in _comment(request).reactions if wanted in (None, r.content)]
    body, headers = request.page(found, lambda told: shapes_issues.reaction(request.site, told))
    return Reply(200, body, headers)


@route(f"POST {_REPO}/issues/comments/{{comment_id}}/reactions", grant="issues:write")
def _react(request: Request) -> Reply:
    comment, content = _comment(request), request.required("content", str)
    if content not in _REACTIONS:
        raise unprocessable("Reaction", "content", "invalid")
    for known in comment.reactions:
        if (known.login, known.content) == (request.login, content):
            return Reply(200, shapes_issues.reaction(request.site, known))
    world = request.world
    reaction = Reaction(next(world.ids), request.login, content, world.second())
    comment.reactions.append(reaction)
    return Reply(201, shapes_issues.reaction(request.site, reaction))


@route(f"GET {_REPO}/issues/{{issue_number}}/labels", grant="issues:read")
def _issue_labels(request: Request) -> Reply:
    body, headers = request.page(_issue(request).labels, lambda name: _label_shape(request, name))
    return Reply(200, body, headers)


def _label_shape(request: Request, name: str) -> dict[str, Any]:
    return shapes.label(request.site, request.world.labels[name.lower()])


@route(f"POST {_REPO}/issues/{{issue_number}}/labels", grant="issues:write", role="triage")
def _add_labels(request: Request) -> Reply:
    issue = _issue(request)
    told = request.body if isinstance(request.body, list) else request.required("labels", list)
    _set_labels(request, issue, [*issue.labels, *told])
    return Reply(200, [_label_shape(request, name) for name in issue.labels])


@route(
    f"DELETE {_REPO}/issues/{{issue_number}}/labels/{{name}}", grant="issues:write", role="triage"
)
def _remove_label(request: Request) -> Reply:
    issue, name = _issue(request), request.params["name"].lower()
    kept = [label for label in issue.labels if label.lower() != name]
    if len(kept) == len(issue.labels):
        raise error(404, "Label does not exist")
    issue.labels = kept
    return Reply(200, [_label_shape(request, label) for label in kept])


@route(f"GET {_REPO}/collaborators/{{username}}/permission")
def _permission(request: Request) -> Reply:
    user = request.world.users.get(request.params["username"])
    if user is None:
        raise not_found()
    body = {
        "permission": _ROLE_OF.get(user.permission, user.permission),
        "role_name": user.permission,
        "user": {**shapes.user(request.site, user.login), "role_name": user.permission},
    }
    return Reply(200, body)
