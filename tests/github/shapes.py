"""Accounts, the repository and its Apps in GitHub's shape."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.github.state import ALL_GRANTS, Label, User, World

Json = dict[str, Any]

APP_SLUG = "fvec"
_USER_LINKS = {
    "followers_url": "followers",
    "following_url": "following{/other_user}",
    "gists_url": "gists{/gist_id}",
    "starred_url": "starred{/owner}{/repo}",
    "subscriptions_url": "subscriptions",
    "organizations_url": "orgs",
    "repos_url": "repos",
    "events_url": "events{/privacy}",
    "received_events_url": "received_events",
}
_REPOSITORY_LINKS = {
    "archive_url": "{archive_format}{/ref}",
    "assignees_url": "assignees{/user}",
    "blobs_url": "git/blobs{/sha}",
    "branches_url": "branches{/branch}",
    "collaborators_url": "collaborators{/collaborator}",
    "comments_url": "comments{/number}",
    "commits_url": "commits{/sha}",
    "compare_url": "compare/{base}...{head}",
    "contents_url": "contents/{+path}",
    "contributors_url": "contributors",
    "deployments_url": "deployments",
    "downloads_url": "downloads",
    "events_url": "events",
    "forks_url": "forks",
    "git_commits_url": "git/commits{/sha}",
    "git_refs_url": "git/refs{/sha}",
    "git_tags_url": "git/tags{/sha}",
    "hooks_url": "hooks",
    "issue_comment_url": "issues/comments{/number}",
    "issue_events_url": "issues/events{/number}",
    "issues_url": "issues{/number}",
    "keys_url": "keys{/key_id}",
    "labels_url": "labels{/name}",
    "languages_url": "languages",
    "merges_url": "merges",
    "milestones_url": "milestones{/number}",
    "notifications_url": "notifications{?since,all,participating}",
    "pulls_url": "pulls{/number}",
    "releases_url": "releases{/id}",
    "stargazers_url": "stargazers",
    "statuses_url": "statuses/{sha}",
    "subscribers_url": "subscribers",
    "subscription_url": "subscription",
    "tags_url": "tags",
    "teams_url": "teams",
    "trees_url": "git/trees{/sha}",
}


def stamp(when: datetime | None) -> str | None:
    """Return a time as GitHub writes it."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ") if when else None


def node(kind: str, number: object) -> str:
    """Return a node id."""
    return f"{kind}_{number}"


@dataclass(frozen=True, slots=True)
class Site:
    """The world as seen under one address: api.github.com, or the fake's own."""

    world: World
    api: str
    web: str

    @property
    def repo(self) -> str:
        """Return the API address of the repository."""
        return f"{self.api}/repos/{self.world.full_name}"

    @property
    def repo_web(self) -> str:
        """Return the web address of the repository."""
        return f"{self.web}/{self.world.full_name}"


def user(site: Site, login: str) -> Json:
    """Return `simple-user`."""
    return _account(site, site.world.person(login))


def _account(site: Site, account: User) -> Json:
    url = f"{site.api}/users/{account.login.replace('[', '%5B').replace(']', '%5D')}"
    return {
        "login": account.login,
        "id": account.id,
        "node_id": node("U", account.id),
        "avatar_url": f"{site.web}/avatars/{account.id}",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{site.web}/{account.login.removesuffix('[bot]')}",
        "type": account.kind,
        "user_view_type": "public",
        "site_admin": False,
        **{key: f"{url}/{end}" for key, end in _USER_LINKS.items()},
    }


def private_user(site: Site, login: str) -> Json:
    """Return what GET /user answers."""
    nothing = dict.fromkeys(
        ("name", "company", "location", "email", "hireable", "bio", "twitter_username")
    )
    counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
    made = "2024-01-01T00:00:00Z"
    return {
        **user(site, login),
        **nothing,
        **counts,
        "blog": "",
        "created_at": made,
        "updated_at": made,
    }


def repository(site: Site, full_name: str | None = None, *, full: bool = False) -> Json:
    """Return `repository`, or with `full` what GET /repos/{owner}/{repo} answers."""
    world = site.world
    owner, name = (full_name or world.full_name).split("/", 1)
    api, web = f"{site.api}/repos/{owner}/{name}", f"{site.web}/{owner}/{name}"
    is_fork = (owner, name) != (world.owner, world.name)
    number = world.person(owner).id + 500_000
    return {
        "id": number,
        "node_id": node("R", number),
        "name": name,
        "full_name": f"{owner}/{name}",
        "owner": user(site, owner),
        "private": True,
        "html_url": web,
        "description": "What serves the ads.",
        "fork": is_fork,
        "url": api,
        **{key: f"{api}/{end}" for key, end in _REPOSITORY_LINKS.items()},
        **_clone_links(web, owner, name),
        **_counts(),
        "default_branch": world.default_branch,
        "archived": world.closed == "archived",
        "disabled": world.closed == "disabled",
        **({"network_count": 0, "subscribers_count": 1} if full else {}),
    }


def _clone_links(web: str, owner: str, name: str) -> Json:
    host = web.split("://", 1)[1].split("/", 1)[0]
    return {
        "clone_url": f"{web}.git",
        "git_url": f"git://{host}/{owner}/{name}.git",
        "ssh_url": f"git@{host}:{owner}/{name}.git",
        "svn_url": web,
        "mirror_url": None,
    }


def _counts() -> Json:
    made = "2024-01-01T00:00:00Z"
    zeros = ("forks", "forks_count", "open_issues", "open_issues_count", "size")
    zeros += ("stargazers_count", "watchers", "watchers_count")
    has = ("has_issues", "has_projects", "has_wiki", "has_pages", "has_downloads")
    return {
        **dict.fromkeys(zeros, 0),
        **dict.fromkeys(has, True),
        "has_discussions": False,
        "is_template": False,
        "web_commit_signoff_required": False,
        "allow_forking": True,
        "homepage": None,
        "language": "Python",
        "license": None,
        "topics": [],
        "custom_properties": {},
        "visibility": "private",
        "created_at": made,
        "updated_at": made,
        "pushed_at": made,
    }


def label(site: Site, labelled: Label) -> Json:
    """Return `label`."""
    return {
        "id": labelled.id,
        "node_id": node("LA", labelled.id),
        "url": f"{site.repo}/labels/{labelled.name}",
        "name": labelled.name,
        "color": labelled.color,
        "description": labelled.description or "",  # null is not described of a pull request's
        "default": False,
    }


def app(site: Site, app_id: int, slug: str = APP_SLUG) -> Json:
    """Return `integration`: a GitHub App."""
    made = "2024-01-01T00:00:00Z"
    return {
        "id": app_id,
        "slug": slug,
        "node_id": node("A", app_id),
        "client_id": f"Iv1.{app_id:016x}",
        "owner": user(site, site.world.owner),
        "name": slug,
        "description": "Makes model serving faster and proves it.",
        "external_url": "https://example.com/fvec",
        "html_url": f"{site.web}/apps/{slug}",
        "created_at": made,
        "updated_at": made,
        "permissions": dict(ALL_GRANTS),
        "events": ["issue_comment", "pull_request", "push", "release"],
        "installations_count": 1,
    }


def installation(site: Site, app_id: int, installation_id: int) -> Json:
    """Return `installation`: the App on the owner's account."""
    made = "2024-01-01T00:00:00Z"
    owner = user(site, site.world.owner)
    return {
        "id": installation_id,
        "account": owner,
        "repository_selection": "selected",
        "access_tokens_url": f"{site.api}/app/installations/{installation_id}/access_tokens",
        "repositories_url": f"{site.api}/installation/repositories",
        "html_url": f"{site.web}/settings/installations/{installation_id}",
        "app_id": app_id,
        "app_slug": APP_SLUG,
        "target_id": owner["id"],
        "target_type": owner["type"],
        "permissions": dict(ALL_GRANTS),
        "events": ["issue_comment", "pull_request", "push", "release"],
        "created_at": made,
        "updated_at": made,
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_by": None,
        "suspended_at": None,
    }
