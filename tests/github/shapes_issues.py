"""Issues, pull requests, comments, reactions and check runs in GitHub's shape."""

from __future__ import annotations

from typing import Any

from tests.github.shapes import APP_SLUG, Json, Site, app, label, node, repository, stamp, user
from tests.github.state import CheckRun, Comment, Issue, Pull, Reaction

_REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")
_ACTIONS_APP_ID = 15_368


def _labels(site: Site, issue: Issue) -> list[Json]:
    return [label(site, site.world.labels[name.lower()]) for name in issue.labels]


def _association(site: Site, login: str) -> str:
    if login == site.world.owner:
        return "OWNER"
    # Deliberately useless: a member whose membership is private shows as CONTRIBUTOR.
    return "CONTRIBUTOR"


def _web_kind(site: Site, number: int) -> str:
    return "pull" if number in site.world.pulls else "issues"


def issue(site: Site, told: Issue) -> Json:
    """Return `issue`; a pull request's has the key `pull_request`."""
    url = f"{site.repo}/issues/{told.number}"
    html = f"{site.repo_web}/{_web_kind(site, told.number)}/{told.number}"
    comments = sum(c.number == told.number for c in site.world.comments.values())
    shape: Json = {
        "id": told.id,
        "node_id": node("I", told.id),
        "url": url,
        "repository_url": site.repo,
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "timeline_url": f"{url}/timeline",
        "html_url": html,
        "number": told.number,
        "state": told.state,
        "state_reason": "completed" if told.state == "closed" else None,
        "title": told.title,
        "body": told.body,
        "user": user(site, told.login),
        "labels": _labels(site, told),
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "locked": False,
        "active_lock_reason": None,
        "comments": comments,
        "closed_at": stamp(told.closed_at),
        "closed_by": None,
        "created_at": stamp(told.created_at),
        "updated_at": stamp(told.updated_at),
        "author_association": _association(site, told.login),
        "performed_via_github_app": None,
        "reactions": _rollup(url, []),
    }
    pull = site.world.pulls.get(told.number)
    if pull is not None:
        shape["pull_request"] = _pull_links(site, pull)
    return shape


def _pull_links(site: Site, pull: Pull) -> Json:
    html = f"{site.repo_web}/pull/{pull.number}"
    return {
        "url": f"{site.repo}/pulls/{pull.number}",
        "html_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "merged_at": stamp(pull.merged_at),
    }


def comment(site: Site, told: Comment) -> Json:
    """Return `issue-comment`."""
    url = f"{site.repo}/issues/comments/{told.id}"
    kind = _web_kind(site, told.number)
    return {
        "id": told.id,
        "node_id": node("IC", told.id),
        "url": url,
        "html_url": f"{site.repo_web}/{kind}/{told.number}#issuecomment-{told.id}",
        "issue_url": f"{site.repo}/issues/{told.number}",
        "body": told.body,
        "user": user(site, told.login),
        "created_at": stamp(told.created_at),
        "updated_at": stamp(told.updated_at),
        "author_association": _association(site, told.login),
        "performed_via_github_app": None,
        "reactions": _rollup(url, told.reactions),
    }


def _rollup(url: str, reactions: list[Reaction]) -> Json:
    counts = {kind: sum(r.content == kind for r in reactions) for kind in _REACTIONS}
    return {"url": f"{url}/reactions", "total_count": len(reactions), **counts}


def reaction(site: Site, told: Reaction) -> Json:
    """Return `reaction`."""
    return {
        "id": told.id,
        "node_id": node("REA", told.id),
        "user": user(site, told.login),
        "content": told.content,
        "created_at": stamp(told.created_at),
    }


def pull_simple(site: Site, pull: Pull) -> Json:
    """Return `pull-request-simple`: as it is listed."""
    told = pull.issue
    api, html = f"{site.repo}/pulls/{pull.number}", f"{site.repo_web}/pull/{pull.number}"
    links = _links(site, pull)
    addresses = ("comments", "commits", "statuses", "review_comments")
    return {
        "id": told.id,
        "node_id": node("PR", told.id),
        "url": api,
        "html_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "issue_url": links["issue"]["href"],
        "review_comment_url": links["review_comment"]["href"],
        **{f"{name}_url": links[name]["href"] for name in addresses},
        "number": pull.number,
        "state": told.state,
        "locked": False,
        "title": told.title,
        "body": told.body,
        "user": user(site, told.login),
        "labels": _labels(site, told),
        "milestone": None,
        "active_lock_reason": None,
        "created_at": stamp(told.created_at),
        "updated_at": stamp(told.updated_at),
        "closed_at": stamp(told.closed_at),
        "merged_at": stamp(pull.merged_at),
        "merge_commit_sha": pull.merge_sha,
        "assignee": None,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        "head": _end(site, pull.head_repository, pull.branch, pull.head_sha),
        "base": _end(site, site.world.full_name, pull.base, pull.base_sha),
        "_links": links,
        "author_association": _association(site, told.login),
        "auto_merge": None,
        "draft": pull.draft,
    }


def _end(site: Site, full_name: str, branch: str, sha: str) -> Json:
    owner = full_name.split("/", 1)[0]
    return {
        "label": f"{owner}:{branch}",
        "ref": branch,
        "sha": sha,
        "user": user(site, owner),
        "repo": repository(site, full_name),
    }


def _links(site: Site, pull: Pull) -> dict[str, Json]:
    api, issue_api = f"{site.repo}/pulls/{pull.number}", f"{site.repo}/issues/{pull.number}"
    addresses = {
        "self": api,
        "html": f"{site.repo_web}/pull/{pull.number}",
        "issue": issue_api,
        "comments": f"{issue_api}/comments",
        "review_comments": f"{api}/comments",
        "review_comment": f"{site.repo}/pulls/comments{{/number}}",
        "commits": f"{api}/commits",
        "statuses": f"{site.repo}/statuses/{pull.head_sha}",
    }
    return {name: {"href": address} for name, address in addresses.items()}


def pull_full(site: Site, pull: Pull) -> Json:
    """Return `pull-request`: with what only the single one tells."""
    changes = site.world.changes_of(pull)
    comments = sum(c.number == pull.number for c in site.world.comments.values())
    return {
        **pull_simple(site, pull),
        "merged": pull.merged_at is not None,
        "mergeable": True if pull.is_open else None,
        "rebaseable": True if pull.is_open else None,
        "mergeable_state": "clean" if pull.is_open else "unknown",
        "merged_by": user(site, pull.merged_by) if pull.merged_by else None,
        "comments": comments,
        "review_comments": 0,
        "maintainer_can_modify": False,
        "commits": len(site.world.commits_of(pull)),
        "additions": sum(change.additions for change in changes),
        "deletions": sum(change.deletions for change in changes),
        "changed_files": len(changes),
    }


def check_run(site: Site, told: CheckRun, app_id: int) -> Json:
    """Return `check-run`."""
    url = f"{site.repo}/check-runs/{told.id}"
    output: dict[str, Any] = {"title": None, "summary": None, "text": None, **told.output}
    pulls = [p for p in site.world.pulls.values() if p.is_open and p.head_sha == told.head_sha]
    return {
        "id": told.id,
        "node_id": node("CR", told.id),
        "head_sha": told.head_sha,
        "name": told.name,
        "external_id": told.external_id,
        "url": url,
        "html_url": f"{site.repo_web}/runs/{told.id}",
        "details_url": told.details_url,
        "status": told.status,
        "conclusion": told.conclusion,
        "started_at": stamp(told.started_at),
        "completed_at": stamp(told.completed_at),
        "output": {
            **{key: output[key] for key in ("title", "summary", "text")},
            "annotations_count": 0,
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": told.id + 1_000_000},
        "app": _maker(site, told, app_id),
        "pull_requests": [_minimal(site, pull) for pull in pulls],
    }


def _maker(site: Site, told: CheckRun, app_id: int) -> Json:
    slug = told.login.removesuffix("[bot]")
    return app(site, app_id if slug == APP_SLUG else _ACTIONS_APP_ID, slug)


def _minimal(site: Site, pull: Pull) -> Json:
    repo = repository(site)
    short = {key: repo[key] for key in ("id", "url", "name")}
    return {
        "id": pull.issue.id,
        "number": pull.number,
        "url": f"{site.repo}/pulls/{pull.number}",
        "head": {"ref": pull.branch, "sha": pull.head_sha, "repo": short},
        "base": {"ref": pull.base, "sha": pull.base_sha, "repo": short},
    }
