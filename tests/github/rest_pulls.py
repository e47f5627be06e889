"""REST: pull requests. There is no merge here, on purpose: the bot has no use for one."""

from __future__ import annotations

from tests.github import shapes_git, shapes_issues
from tests.github.rest import Reply, Request, bounded, error, not_found, route, unprocessable
from tests.github.rest_issues import set_state
from tests.github.state import Pull

_REPO = "/repos/{owner}/{repo}"


def _pull(request: Request) -> Pull:
    pull = request.world.pulls.get(request.number("pull_number"))
    if pull is None:
        raise not_found()
    return pull


@route(f"GET {_REPO}/pulls", grant="pull_requests:read")
def _pulls(request: Request) -> Reply:
    query = request.query
    state, head, base = query.get("state", "open"), query.get("head"), query.get("base")
    found = [
        pull
        for pull in request.world.pulls.values()
        if state in ("all", pull.issue.state)
        and head in (None, _label(pull))
        and base in (None, pull.base)
    ]
    found.sort(key=lambda pull: pull.number, reverse=query.get("direction", "desc") == "desc")
    body, headers = request.page(found, lambda told: shapes_issues.pull_simple(request.site, told))
    return Reply(200, body, headers)


def _label(pull: Pull) -> str:
    return f"{pull.head_repository.split('/', 1)[0]}:{pull.branch}"


@route(f"POST {_REPO}/pulls", grant="pull_requests:write", role="write")
def _create_pull(request: Request) -> Reply:
    world = request.world
    title, text = request.required("title", str), bounded("PullRequest", request.field("body", str))
    branch, base = request.required("head", str), request.required("base", str)
    branch = branch.removeprefix(f"{world.owner}:")
    heads = world.git.refs()
    for name, value in (("head", branch), ("base", base)):
        if f"refs/heads/{value}" not in heads:
            raise unprocessable("PullRequest", name, "invalid")
    head_sha = heads[f"refs/heads/{branch}"]
    _refuse_second(request, branch, base)
    if not world.git.between(heads[f"refs/heads/{base}"], head_sha):
        message = f"No commits between {base} and {branch}"
        raise unprocessable("PullRequest", "head", "custom", message)
    issue = world.add_issue(title, text, request.login)
    draft = request.field("draft", bool, default=False)
    pull = world.add_pull(issue, branch, base, world.full_name, head_sha, draft=draft)
    return Reply(201, shapes_issues.pull_full(request.site, pull))


def _refuse_second(request: Request, branch: str, base: str) -> None:
    for pull in request.world.pulls.values():
        same = (pull.branch, pull.base, pull.head_repository)
        if pull.is_open and same == (branch, base, request.world.full_name):
            message = f"A pull request already exists for {request.world.owner}:{branch}."
            raise unprocessable("PullRequest", "head", "custom", message)


@route(f"GET {_REPO}/pulls/{{pull_number}}", grant="pull_requests:read")
def _get_pull(request: Request) -> Reply:
    return Reply(200, shapes_issues.pull_full(request.site, _pull(request)))


@route(f"PATCH {_REPO}/pulls/{{pull_number}}", grant="pull_requests:write", role="write")
def _edit_pull(request: Request) -> Reply:
    pull, world = _pull(request), request.world
    title, text = request.field("title", str), request.field("body", str)
    state, base = request.field("state", str), request.field("base", str)
    if state == "open" and not pull.is_open:
        _check_reopens(request, pull)
    if base is not None and base != pull.base:
        _retarget(request, pull, base)
    pull.issue.title = title if title is not None else pull.issue.title
    pull.issue.body = bounded("PullRequest", text) if text is not None else pull.issue.body
    pull.issue.updated_at = world.second()
    set_state(request, pull.issue, state)
    world.sync()
    return Reply(200, shapes_issues.pull_full(request.site, pull))


def _check_reopens(request: Request, pull: Pull) -> None:
    """422 for what was merged, whose branch is gone, or that was replaced by another one."""
    gone = f"refs/heads/{pull.branch}" not in request.world.git.refs()
    if pull.merged_at is not None or gone:
        message = "state cannot be changed. The pull request cannot be reopened."
        raise unprocessable("PullRequest", "state", "invalid", message)
    _refuse_second(request, pull.branch, pull.base)


def _retarget(request: Request, pull: Pull, base: str) -> None:
    sha = request.world.git.refs().get(f"refs/heads/{base}")
    if sha is None:
        raise unprocessable("PullRequest", "base", "invalid")
    if not pull.is_open:
        raise error(422, "Cannot change the base branch of a closed pull request.")
    pull.base, pull.base_sha = base, sha


@route(f"GET {_REPO}/pulls/{{pull_number}}/commits", grant="pull_requests:read")
def _commits(request: Request) -> Reply:
    git = request.world.git
    body, headers = request.page(
        request.world.commits_of(_pull(request)),
        lambda sha: shapes_git.commit(request.site, git.commit(sha)),
    )
    return Reply(200, body, headers)


@route(f"GET {_REPO}/pulls/{{pull_number}}/files", grant="pull_requests:read")
def _files(request: Request) -> Reply:
    pull = _pull(request)
    body, headers = request.page(
        request.world.changes_of(pull),
        lambda change: shapes_git.diff_entry(request.site, pull.head_sha, change),
    )
    return Reply(200, body, headers)
