"""Git objects, contents, branches, comparisons and releases in GitHub's shape."""

from __future__ import annotations

import base64
from typing import Any

from tests.github.git_store import Change, CommitData, TreeLine
from tests.github.shapes import Json, Site, node, stamp, user
from tests.github.state import Release

_UNSIGNED = {
    "verified": False,
    "reason": "unsigned",
    "signature": None,
    "payload": None,
    "verified_at": None,
}


def ref(site: Site, name: str, sha: str) -> Json:
    """Return `git-ref`; `name` is "refs/heads/..."."""
    return {
        "ref": name,
        "node_id": node("REF", name),
        "url": f"{site.repo}/git/{name}",
        "object": {"type": "commit", "sha": sha, "url": f"{site.repo}/git/commits/{sha}"},
    }


def blob(site: Site, sha: str, content: bytes) -> Json:
    """Return `blob`, base64."""
    return {
        "sha": sha,
        "node_id": node("B", sha),
        "size": len(content),
        "url": f"{site.repo}/git/blobs/{sha}",
        "content": base64.encodebytes(content).decode(),
        "encoding": "base64",
    }


def tree(site: Site, sha: str, lines: list[TreeLine]) -> Json:
    """Return `git-tree`, cut off after as many entries as GitHub lists."""
    most = site.world.most_listed
    return {
        "sha": sha,
        "url": f"{site.repo}/git/trees/{sha}",
        "tree": [_tree_line(site, line) for line in lines[:most]],
        "truncated": len(lines) > most,
    }


def _tree_line(site: Site, line: TreeLine) -> Json:
    told: Json = {"path": line.path, "mode": line.mode, "type": line.kind, "sha": line.sha}
    if line.size_bytes is not None:
        told["size"] = line.size_bytes
    if line.kind != "commit":
        told["url"] = f"{site.repo}/git/{line.kind}s/{line.sha}"
    return told


def _signature(data: CommitData) -> Json:
    return {"name": data.name, "email": data.email, "date": data.date}


def git_commit(site: Site, data: CommitData) -> Json:
    """Return `git-commit`: the object alone."""
    return {
        "sha": data.sha,
        "node_id": node("C", data.sha),
        "url": f"{site.repo}/git/commits/{data.sha}",
        "html_url": f"{site.repo_web}/commit/{data.sha}",
        "author": _signature(data),
        "committer": _signature(data),
        "tree": {"sha": data.tree, "url": f"{site.repo}/git/trees/{data.tree}"},
        "message": data.message,
        "parents": [
            {
                "sha": parent,
                "url": f"{site.repo}/git/commits/{parent}",
                "html_url": f"{site.repo_web}/commit/{parent}",
            }
            for parent in data.parents
        ],
        "verification": dict(_UNSIGNED),
    }


def commit(site: Site, data: CommitData, changes: list[Change] | None = None) -> Json:
    """Return `commit`: with the accounts behind it, and with `changes` its files."""
    url = f"{site.repo}/commits/{data.sha}"
    account = user(site, data.name) if data.name in site.world.users else None
    return {
        "sha": data.sha,
        "node_id": node("C", data.sha),
        "url": url,
        "html_url": f"{site.repo_web}/commit/{data.sha}",
        "comments_url": f"{url}/comments",
        "commit": {
            "url": f"{site.repo}/git/commits/{data.sha}",
            "author": _signature(data),
            "committer": _signature(data),
            "message": data.message,
            "tree": {"sha": data.tree, "url": f"{site.repo}/git/trees/{data.tree}"},
            "comment_count": 0,
            "verification": dict(_UNSIGNED),
        },
        "author": account,
        "committer": account,
        "parents": [
            {
                "sha": parent,
                "url": f"{site.repo}/commits/{parent}",
                "html_url": f"{site.repo_web}/commit/{parent}",
            }
            for parent in data.parents
        ],
        **({} if changes is None else _changed(site, data.sha, changes)),
    }


def _changed(site: Site, sha: str, changes: list[Change]) -> Json:
    added = sum(change.additions for change in changes)
    removed = sum(change.deletions for change in changes)
    return {
        "stats": {"additions": added, "deletions": removed, "total": added + removed},
        "files": [diff_entry(site, sha, change) for change in changes],
    }


def diff_entry(site: Site, sha: str, change: Change) -> Json:
    """Return `diff-entry` of one file as it is at `sha`."""
    return {
        "sha": change.sha,
        "filename": change.path,
        "status": change.status,
        "additions": change.additions,
        "deletions": change.deletions,
        "changes": change.additions + change.deletions,
        "blob_url": f"{site.repo_web}/blob/{sha}/{change.path}",
        "raw_url": f"{site.repo_web}/raw/{sha}/{change.path}",
        "contents_url": f"{site.repo}/contents/{change.path}?ref={sha}",
    }


def branch(site: Site, name: str, head: Json, *, protected: bool) -> Json:
    """Return `branch-with-protection`; `head` is its `commit`."""
    url = f"{site.repo}/branches/{name}"
    return {
        "name": name,
        "commit": head,
        "_links": {"self": url, "html": f"{site.repo_web}/tree/{name}"},
        "protected": protected,
        "protection": {
            "enabled": protected,
            "required_status_checks": {"enforcement_level": "off", "contexts": [], "checks": []},
        },
        "protection_url": f"{url}/protection",
    }


def file_content(site: Site, line: TreeLine, path: str, at: str, content: bytes | None) -> Json:
    """Return `content-file`; without `content`, as it is listed in its directory."""
    kind = {"tree": "dir", "commit": "submodule"}.get(line.kind, "file")
    if line.mode == "120000":
        kind = "symlink"
    url = f"{site.repo}/contents/{path}?ref={at}"
    git_url = f"{site.repo}/git/{'trees' if kind == 'dir' else 'blobs'}/{line.sha}"
    html = f"{site.repo_web}/{'tree' if kind == 'dir' else 'blob'}/{at}/{path}"
    told: dict[str, Any] = {
        "name": path.rsplit("/", 1)[-1],
        "path": path,
        "sha": line.sha,
        "size": line.size_bytes or 0,
        "url": url,
        "html_url": html,
        "git_url": git_url,
        "download_url": None if kind == "dir" else f"{site.repo_web}/raw/{at}/{path}",
        "type": kind,
        "_links": {"self": url, "git": git_url, "html": html},
    }
    if content is not None and kind == "file":
        told |= {"content": base64.encodebytes(content).decode(), "encoding": "base64"}
    if content is not None and kind == "symlink":
        told["target"] = content.decode()
    return told


def release(site: Site, published: Release) -> Json:
    """Return `release`."""
    url = f"{site.repo}/releases/{published.id}"
    return {
        "url": url,
        "assets_url": f"{url}/assets",
        "upload_url": f"{url}/assets{{?name,label}}",
        "html_url": f"{site.repo_web}/releases/tag/{published.tag}",
        "id": published.id,
        "author": user(site, published.login),
        "node_id": node("RE", published.id),
        "tag_name": published.tag,
        "target_commitish": published.target,
        "name": published.tag,
        "draft": False,
        "prerelease": False,
        "immutable": False,
        "created_at": stamp(published.created_at),
        "updated_at": stamp(published.created_at),
        "published_at": stamp(published.created_at),
        "assets": [],
        "tarball_url": f"{site.repo}/tarball/{published.tag}",
        "zipball_url": f"{site.repo}/zipball/{published.tag}",
        "body": "",
    }
