"""REST: repository, branches, git data, contents, comparisons, releases."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from tests.github import shapes, shapes_git
from tests.github.git_store import Entry, GitFailed, TreeLine
from tests.github.rest import Reply, Request, error, not_found, route

_REPO = "/repos/{owner}/{repo}"
_SHA = re.compile("[0-9a-f]{40}")
_MODES = {
    "100644": "blob",
    "100755": "blob",
    "040000": "tree",
    "160000": "commit",
    "120000": "blob",
}


@route(f"GET {_REPO}")
def _repository(request: Request) -> Reply:
    return Reply(200, shapes.repository(request.site, full=True))


def _commit_named(request: Request, revision: str) -> str:
    """Return the commit of a branch, tag or SHA; 404 where there is none."""
    sha = request.world.git.resolve(revision)
    if sha is None:
        raise not_found()
    return sha


def _commit_shape(request: Request, sha: str, *, files: bool = False) -> dict[str, Any]:
    git = request.world.git
    data = git.commit(sha)
    changes = None
    if files:
        base = data.parents[0] if data.parents else git.write_tree(None, [])
        changes = git.changes(base, sha)
    return shapes_git.commit(request.site, data, changes)


@route(f"GET {_REPO}/branches/{{branch}}", grant="contents:read")
def _branch(request: Request) -> Reply:
    name = request.params["branch"]
    sha = request.world.git.refs().get(f"refs/heads/{name}")
    if sha is None:
        raise error(404, "Branch not found")
    head = _commit_shape(request, sha)
    protected = request.world.git.is_protected(f"refs/heads/{name}")
    return Reply(200, shapes_git.branch(request.site, name, head, protected=protected))


@route(f"GET {_REPO}/git/ref/{{ref}}", grant="contents:read")
def _ref(request: Request) -> Reply:
    name = f"refs/{request.params['ref']}"
    sha = request.world.git.refs("refs/").get(name)
    if sha is None:
        raise not_found()
    return Reply(200, shapes_git.ref(request.site, name, sha))


@route(f"GET {_REPO}/git/matching-refs/{{ref}}", grant="contents:read")
def _matching_refs(request: Request) -> Reply:
    prefix = f"refs/{request.params['ref']}"
    found = sorted(i for i in request.world.git.refs("refs/").items() if i[0].startswith(prefix))
    body, headers = request.page(found, lambda item: shapes_git.ref(request.site, *item))
    return Reply(200, body, headers)


@route(f"POST {_REPO}/git/refs", grant="contents:write", role="write")
def _create_ref(request: Request) -> Reply:
    name, sha = request.required("ref", str), request.required("sha", str)
    if not re.fullmatch(r"refs/(heads|tags)/[^\s~^:?*\[\\]+", name):
        raise error(422, "Reference name must start with 'refs/heads/' or 'refs/tags/'.")
    if request.world.git.kind(sha) != "commit":
        raise error(422, "Object does not exist")
    try:
        request.world.git.update_ref(name, sha, old="")
    except GitFailed:
        raise error(422, "Reference already exists") from None
    request.world.sync()
    return Reply(201, shapes_git.ref(request.site, name, sha))


@route(f"PATCH {_REPO}/git/refs/{{ref}}", grant="contents:write", role="write")
def _update_ref(request: Request) -> Reply:
    git = request.world.git
    name, sha = f"refs/{request.params['ref']}", request.required("sha", str)
    old = git.refs("refs/").get(name)
    if old is None:
        raise error(422, "Reference does not exist")
    if git.kind(sha) != "commit":
        raise error(422, "Object does not exist")
    if git.is_protected(name):
        raise error(422, "Cannot update this protected ref.")
    if not request.field("force", bool, default=False) and not git.is_ancestor(old, sha):
        raise error(422, "Update is not a fast forward")
    git.update_ref(name, sha, old)
    request.world.sync()
    return Reply(200, shapes_git.ref(request.site, name, sha))


@route(f"POST {_REPO}/git/blobs", grant="contents:write", role="write")
def _create_blob(request: Request) -> Reply:
    content = request.required("content", str)
    if request.field("encoding", str, default="utf-8") == "base64":
        try:
            data = base64.b64decode(content, validate=False)
        except binascii.Error:
            raise error(422, "content is not valid Base64") from None
    else:
        data = content.encode()
    sha = request.world.git.write_blob(data)
    return Reply(201, {"sha": sha, "url": f"{request.site.repo}/git/blobs/{sha}"})


@route(f"GET {_REPO}/git/blobs/{{file_sha}}", grant="contents:read")
def _blob(request: Request) -> Reply:
    sha = request.params["file_sha"]
    if not _SHA.fullmatch(sha) or request.world.git.kind(sha) != "blob":
        raise not_found()
    return Reply(200, shapes_git.blob(request.site, sha, request.world.git.read_blob(sha)))


@route(f"POST {_REPO}/git/trees", grant="contents:write", role="write")
def _create_tree(request: Request) -> Reply:
    git = request.world.git
    base = request.field("base_tree", str)
    if base is not None and git.kind(base) not in ("tree", "commit"):
        raise not_found()
    entries = [_entry(request, told) for told in request.required("tree", list)]
    try:
        sha = git.write_tree(base, entries)
    except GitFailed as failed:
        raise error(422, f"tree.path contains a malformed path component: {failed}") from None
    return Reply(201, shapes_git.tree(request.site, sha, git.list_tree(sha)))


def _entry(request: Request, told: dict[str, Any]) -> Entry:
    path, mode = str(told.get("path", "")), str(told.get("mode", ""))
    if not path or mode not in _MODES:
        raise error(422, "Must supply a valid tree.path and tree.mode")
    if "content" in told:
        return Entry(path, mode, request.world.git.write_blob(str(told["content"]).encode()))
    sha = told.get("sha")
    if sha is not None and mode != "160000" and request.world.git.kind(sha) != _MODES[mode]:
        raise error(422, f"tree.sha {sha} is not a valid {_MODES[mode]}")
    return Entry(path, mode, sha)


@route(f"GET {_REPO}/git/trees/{{tree_sha}}", grant="contents:read")
def _tree(request: Request) -> Reply:
    git = request.world.git
    named = request.params["tree_sha"]
    sha = git.resolve(named)
    tree = git.commit(sha).tree if sha else named
    if git.kind(tree) != "tree":
        raise not_found()
    options = ("-r", "-t") if request.query.get("recursive") else ()
    return Reply(200, shapes_git.tree(request.site, tree, git.list_tree(tree, *options)))


@route(f"POST {_REPO}/git/commits", grant="contents:write", role="write")
def _create_commit(request: Request) -> Reply:
    git, world = request.world.git, request.world
    tree = request.required("tree", str)
    parents = request.field("parents", list, default=[])
    if git.kind(tree) != "tree" or any(git.kind(str(parent)) != "commit" for parent in parents):
        raise error(422, "Tree SHA or a parent SHA does not exist")
    message = request.required("message", str)
    sha = git.write_commit(tree, parents, message, request.login, world.second())
    return Reply(201, shapes_git.git_commit(request.site, git.commit(sha)))


@route(f"GET {_REPO}/git/commits/{{commit_sha}}", grant="contents:read")
def _git_commit(request: Request) -> Reply:
    sha = request.params["commit_sha"]
    if not _SHA.fullmatch(sha) or request.world.git.kind(sha) != "commit":
        raise not_found()
    return Reply(200, shapes_git.git_commit(request.site, request.world.git.commit(sha)))


@route(f"GET {_REPO}/commits/{{ref}}", grant="contents:read")
def _commit(request: Request) -> Reply:
    sha = request.world.git.resolve(request.params["ref"])
    if sha is None:
        raise error(422, f"No commit found for SHA: {request.params['ref']}")
    return Reply(200, _commit_shape(request, sha, files=True))


@route(f"GET {_REPO}/compare/{{basehead}}", grant="contents:read")
def _compare(request: Request) -> Reply:
    git = request.world.git
    base_name, dots, head_name = request.params["basehead"].partition("...")
    if not dots:
        raise not_found()
    base, head = _commit_named(request, base_name), _commit_named(request, head_name)
    fork_point = git.merge_base(base, head)
    ahead, behind = git.between(base, head), git.between(head, base)
    status = ("diverged" if behind else "ahead") if ahead else ("behind" if behind else "identical")
    compared = f"{base_name}...{head_name}"
    html = f"{request.site.repo_web}/compare/{compared}"
    body = {
        "url": f"{request.site.repo}/compare/{compared}",
        "html_url": html,
        "permalink_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "base_commit": _commit_shape(request, base),
        "merge_base_commit": _commit_shape(request, fork_point),
        "status": status,
        "ahead_by": len(ahead),
        "behind_by": len(behind),
        "total_commits": len(ahead),
        "commits": [_commit_shape(request, sha) for sha in ahead],
        "files": [
            shapes_git.diff_entry(request.site, head, c) for c in git.changes(fork_point, head)
        ],
    }
    return Reply(200, body)


@route(f"GET {_REPO}/contents/{{path}}", grant="contents:read")
def _contents(request: Request) -> Reply:
    git, path = request.world.git, request.params["path"].rstrip("/")
    at = request.query.get("ref", request.world.default_branch)
    sha = git.resolve(at)
    if sha is None:
        raise error(404, f"No commit found for the ref {at}")
    found = [line for line in git.list_tree(sha, "-r", "-t") if line.path == path]
    if not found:
        raise not_found()
    if found[0].kind == "tree":
        return Reply(
            200, [_listed(request, line, at, path) for line in git.list_tree(found[0].sha)]
        )
    content = git.read_blob(found[0].sha) if found[0].kind == "blob" else None
    return Reply(200, shapes_git.file_content(request.site, found[0], path, at, content))


def _listed(request: Request, line: TreeLine, at: str, folder: str) -> dict[str, Any]:
    return shapes_git.file_content(request.site, line, f"{folder}/{line.path}", at, None)


@route(f"GET {_REPO}/releases", grant="contents:read")
def _releases(request: Request) -> Reply:
    found = request.world.releases[::-1]
    body, headers = request.page(found, lambda told: shapes_git.release(request.site, told))
    return Reply(200, body, headers)


@route(f"GET {_REPO}/releases/latest", grant="contents:read")
def _latest_release(request: Request) -> Reply:
    if not request.world.releases:
        raise not_found()
    return Reply(200, shapes_git.release(request.site, request.world.releases[-1]))


@route(f"GET {_REPO}/releases/tags/{{tag}}", grant="contents:read")
def _release_of_tag(request: Request) -> Reply:
    for published in request.world.releases:
        if published.tag == request.params["tag"]:
            return Reply(200, shapes_git.release(request.site, published))
    raise not_found()
