"""Webhook payloads in GitHub's shape, signed, and posted as GitHub posts them."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from tests.github import shapes, shapes_git, shapes_issues
from tests.github.app import App
from tests.github.git_store import CommitData
from tests.github.shapes import Json, Site
from tests.github.state import ALL_GRANTS, Delivery, World

_NONE = "0" * 40
_TIMEOUT_S = 30.0
Event = tuple[str, Json]


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the receiver answered; status 0: nobody listened. `delivery` is the id (a GUID)."""

    status: int
    text: str
    delivery: str


class Events:
    """Builds (event name, payload) of what happened on the fake."""

    def __init__(self, world: World, app: App) -> None:
        """Tell about `world`, with the addresses of github.com."""
        self._world = world
        self._app = app
        self._site = Site(world, "https://api.github.com", "https://github.com")

    def _common(self, sender: str) -> Json:
        return {
            "repository": shapes.repository(self._site),
            "sender": shapes.user(self._site, sender),
            "installation": {
                "id": self._app.installation,
                "node_id": shapes.node("MDIzOk", self._app.installation),
            },
        }

    def release(self, tag: str, action: str = "published") -> Event:
        """Return a `release` event."""
        found = next(told for told in self._world.releases if told.tag == tag)
        payload = {
            "action": action,
            "release": shapes_git.release(self._site, found),
            **self._common(found.login),
        }
        return "release", payload

    def comment(self, comment_id: int, action: str = "created") -> Event:
        """Return an `issue_comment` event."""
        found = self._world.comments[comment_id]
        issue = self._world.issues[found.number]
        payload = {
            "action": action,
            "issue": shapes_issues.issue(self._site, issue),
            "comment": shapes_issues.comment(self._site, found),
            **self._common(found.login),
        }
        if action == "edited":
            payload["changes"] = {"body": {"from": ""}}
        return "issue_comment", payload

    def pull(self, number: int, action: str, *, sender: str | None = None) -> Event:
        """Return a `pull_request` event, of the state as it is now."""
        found = self._world.pulls[number]
        payload = {
            "action": action,
            "number": number,
            "pull_request": shapes_issues.pull_full(self._site, found),
            **self._common(sender or found.issue.login),
        }
        if action == "synchronize":
            before = self._world.git.commit(found.head_sha).parents
            payload |= {"before": (before or [_NONE])[0], "after": found.head_sha}
        return "pull_request", payload

    def push(
        self, branch: str, before: str | None, after: str | None, *, sender: str | None = None
    ) -> Event:
        """Return a `push` event; `before` None: the branch is new, `after` None: it is gone."""
        git = self._world.git
        shas = git.between(before, after) if before and after else [after] if after else []
        commits = [self._commit(git.commit(sha)) for sha in shas]
        pusher = sender or (commits[-1]["author"]["username"] if commits else self._world.owner)
        payload = {
            "ref": f"refs/heads/{branch}",
            "before": before or _NONE,
            "after": after or _NONE,
            "created": before is None,
            "deleted": after is None,
            "forced": bool(before and after) and not git.is_ancestor(before or "", after or ""),
            "base_ref": None,
            "compare": f"{self._site.repo_web}/compare/{(before or _NONE)[:12]}...{(after or _NONE)[:12]}",
            "commits": commits,
            "head_commit": commits[-1] if commits else None,
            "pusher": {"name": pusher, "email": f"{pusher}@users.noreply.github.com"},
            **self._common(pusher),
        }
        # In this one event GitHub tells times as seconds since 1970.
        payload["repository"] |= {
            key: int(datetime.fromisoformat(payload["repository"][key]).timestamp())
            for key in ("created_at", "pushed_at")
        }
        return "push", payload

    def _commit(self, data: CommitData) -> Json:
        person = {"name": data.name, "email": data.email, "username": data.name}
        base = data.parents[0] if data.parents else self._world.git.write_tree(None, [])
        changes = self._world.git.changes(base, data.sha)
        return {
            "id": data.sha,
            "tree_id": data.tree,
            "distinct": True,
            "message": data.message,
            "timestamp": data.date,
            "url": f"{self._site.repo_web}/commit/{data.sha}",
            "author": person,
            "committer": person,
            "added": [c.path for c in changes if c.status == "added"],
            "removed": [c.path for c in changes if c.status == "removed"],
            "modified": [c.path for c in changes if c.status in ("modified", "changed")],
        }

    def ping(self) -> Event:
        """Return the `ping` that GitHub sends when a hook is made."""
        hook = {
            "type": "App",
            "id": 11,
            "name": "web",
            "active": True,
            "events": ["issue_comment", "pull_request", "push", "release"],
            "config": {"content_type": "json", "insecure_ssl": "0", "url": "https://example.com"},
            "app_id": self._app.id,
            "created_at": "2024-01-01T00:00:00Z",
            "updated_at": "2024-01-01T00:00:00Z",
            "url": f"{self._site.api}/app/hook",
            "ping_url": f"{self._site.api}/app/hook/pings",
            "deliveries_url": f"{self._site.api}/app/hook/deliveries",
        }
        return "ping", {"zen": "Design for failure.", "hook_id": 11, "hook": hook}

    def installation(self, action: str = "created") -> Event:
        """Return the `installation` event of the App on this repository."""
        repository = shapes.repository(self._site)
        brief = {key: repository[key] for key in ("id", "node_id", "name", "full_name", "private")}
        payload = {
            "action": action,
            "installation": {
                **shapes.installation(self._site, self._app.id, self._app.installation),
                "permissions": dict(ALL_GRANTS),
            },
            "repositories": [brief],
            "sender": shapes.user(self._site, self._world.owner),
        }
        return "installation", payload


def signature(body: bytes, secret: str, algorithm: str = "sha256") -> str:
    """Return the value of X-Hub-Signature-256 (or, with "sha1", of the old header)."""
    return f"{algorithm}={hmac.new(secret.encode(), body, algorithm).hexdigest()}"


class Hooks:
    """Delivers events and remembers the deliveries."""

    def __init__(self, world: World, secret: str) -> None:
        """Sign with `secret`."""
        self._world = world
        self.secret = secret
        self.url: str | None = None

    def deliver(
        self,
        event: Event,
        url: str,
        *,
        delivery: str | None = None,
        secret: str | None = None,
        body: bytes | None = None,
    ) -> Delivered:
        """Post an event; `body` is sent in place of the payload, under the payload's signature."""
        name, payload = event
        content = json.dumps(payload, separators=(",", ":")).encode()
        guid = delivery or str(uuid.uuid4())
        signed = signature(content, self.secret if secret is None else secret)
        status, text = self._post(url, name, guid, signed, body or content)
        self._remember(name, payload, content, guid, status, redelivery=False)
        return Delivered(status, text, guid)

    def redeliver(self, told: Delivery) -> None:
        """Deliver once more, under the same GUID, to where the hook points now."""
        signed = signature(told.body, self.secret)
        status = 0
        if self.url is not None:
            status, _ = self._post(self.url, told.event, told.guid, signed, told.body)
        self._remember(told.event, told.payload, told.body, told.guid, status, redelivery=True)

    def _remember(
        self, name: str, payload: Json, body: bytes, guid: str, status: int, *, redelivery: bool
    ) -> None:
        world = self._world
        world.deliveries.append(
            Delivery(
                next(world.ids), guid, name, payload, body, world.now(), redelivery, status or 502
            )
        )

    def _post(self, url: str, name: str, guid: str, signed: str, content: bytes) -> tuple[int, str]:
        parts = urlsplit(url)
        headers: dict[str, Any] = {
            "Content-Type": "application/json",
            "User-Agent": f"GitHub-Hookshot/{hashlib.sha256(b'fake').hexdigest()[:7]}",
            "X-GitHub-Event": name,
            "X-GitHub-Delivery": guid,
            "X-GitHub-Hook-ID": "11",
            "X-GitHub-Hook-Installation-Target-Type": "integration",
            "X-Hub-Signature-256": signed,
        }
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=_TIMEOUT_S
        )
        try:
            connection.request("POST", parts.path or "/", content, headers)
            response = connection.getresponse()
            return response.status, response.read().decode("utf-8", "replace")
        except OSError:
            return 0, ""
        finally:
            connection.close()
