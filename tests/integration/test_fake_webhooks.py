"""Webhooks of the fake: signed, delivered, delivered again, and of GitHub's shape."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import jsonschema_rs
import pytest
from github import Auth

from tests.github import npm
from tests.github.asking import ask
from tests.github.fake_github import FakeGitHub

pytest_plugins = ["tests.github.fixtures"]


class Receiver(HTTPServer):
    """Keeps what is posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receives)
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.status = 202

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/webhook"


class _Receives(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((dict(self.headers), content))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    expected = "sha256=" + hmac.new(secret.encode(), body, "sha256").hexdigest()
    return hmac.compare_digest(headers["X-Hub-Signature-256"], expected)


def test_a_delivery_is_signed_and_named(fake, receiver):
    fake.release("v1")
    event = fake.events.release("v1")

    delivered = fake.deliver(event, url=receiver.url)

    ((headers, body),) = receiver.received
    assert (headers["X-GitHub-Event"], json.loads(body)) == event
    assert (delivered.status, headers["X-GitHub-Delivery"]) == (202, delivered.delivery)
    assert signed(headers, body, fake.webhook_secret)


def test_an_altered_delivery_does_not_verify(fake, receiver):
    event = fake.events.ping()

    fake.deliver(event, url=receiver.url, body=b'{"zen": "Altered."}')
    fake.deliver(event, url=receiver.url, secret=fake.webhook_secret[::-1])

    assert [signed(*one, fake.webhook_secret) for one in receiver.received] == [False, False]


def test_a_failed_delivery_is_delivered_again_under_its_id(fake, receiver):
    receiver.status = 500
    number = fake.open_issue("Slow")
    fake.hook_url = receiver.url
    first = fake.deliver(fake.events.comment(fake.comment(number, "/fvec help")))
    receiver.status = 202
    token = Auth.AppAuth(fake.app.id, fake.app.private_key).token

    _, listed, _ = ask(fake, "GET", "/app/hook/deliveries", token=token)
    path = f"/app/hook/deliveries/{listed[0]['id']}/attempts"
    assert ask(fake, "POST", path, token=token)[0] == 202

    _, after, _ = ask(fake, "GET", "/app/hook/deliveries", token=token)
    assert [(one["guid"], one["status_code"], one["redelivery"]) for one in after] == [
        (first.delivery, 202, True),
        (first.delivery, 500, False),
    ]
    assert receiver.received[0][1] == receiver.received[1][1]


def test_a_jwt_of_another_key_is_refused(fake):
    with FakeGitHub() as other:
        token = Auth.AppAuth(fake.app.id, other.app.private_key).token

    assert ask(fake, "GET", "/app", token=token)[0] == 401


@pytest.fixture(scope="module")
def event_schemas() -> dict[str, Any]:
    """The schemas of webhooks that GitHub's own libraries are made from."""
    try:
        folder = npm.unpacked(npm.WEBHOOK_SCHEMAS)
    except npm.Unavailable as why:
        pytest.skip(str(why))
    return json.loads((folder / "package/schema.json").read_bytes())


def test_payloads_are_of_githubs_shape(fake, event_schemas):
    before = fake.sha()
    number = fake.open_pull("topic", files={"a": "1"})
    comment = fake.comment(number, "/fvec rerun")
    fake.release("v1")
    after = fake.commit({"b": "1"})
    events = {
        "release$published": fake.events.release("v1"),
        "issue_comment$created": fake.events.comment(comment),
        "push$event": fake.events.push("main", before, after),
        "pull_request$opened": fake.events.pull(number, "opened"),
        "installation$created": fake.events.installation(),
        "ping$event": fake.events.ping(),
    }

    wrong = {
        name: [error.message for error in _validator(event_schemas, name).iter_errors(payload)]
        for name, (_, payload) in events.items()
    }

    assert wrong == {name: [] for name in events}


def _validator(schemas: dict[str, Any], name: str) -> Any:
    definitions = _open(schemas["definitions"])
    whole = {"$ref": f"#/definitions/{name}", "definitions": definitions}
    return jsonschema_rs.Draft7Validator(whole)


def _open(schema: Any) -> Any:
    """Let objects have more members: GitHub added some since these schemas were published."""
    if isinstance(schema, list):
        return [_open(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: _open(v) for k, v in schema.items() if (k, v) != ("additionalProperties", False)}
