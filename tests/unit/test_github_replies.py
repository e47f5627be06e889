"""GitHub's answers, checked field by field."""

from collections.abc import Iterator
from typing import Any

import pytest
from github import Auth
from pydantic import ValidationError

from bot.github.api import Api
from bot.github.replies import (
    CheckRunReply,
    CommentReply,
    ContentsReply,
    FileReply,
    Pull,
    PullReply,
    TokenReply,
)
from bot.github.repository import Repository
from tests.passing_time import PassingTime
from tests.scripted_http import Said, ScriptedServer, scripted_server

SHA = "a" * 40


def pull(**changed: Any) -> dict[str, Any]:
    side = {"ref": "main", "sha": SHA, "repo": {"full_name": "owner/serve"}, "user": None}
    return {
        "number": 7,
        "html_url": "https://github.example/owner/serve/pull/7",
        "state": "open",
        "merged_at": None,
        "draft": True,
        "title": "A title",
        "body": None,
        "user": {"login": "fvec[bot]", "id": 1},
        "labels": [{"id": 1, "name": "fvec"}],
        "head": {**side, "ref": "fvec/a"},
        "base": side,
        "_links": {},
        **changed,
    }


def test_a_pull_request_is_read() -> None:
    assert PullReply.model_validate(pull()).data() == Pull(
        number=7,
        url="https://github.example/owner/serve/pull/7",
        state="open",
        merged=False,
        draft=True,
        branch="fvec/a",
        head_sha=SHA,
        head_repository="owner/serve",
        base="main",
        base_sha=SHA,
        title="A title",
        body="",
        author="fvec[bot]",
        labels=("fvec",),
    )


def test_who_is_gone_is_a_ghost_and_a_fork_that_is_gone_is_none() -> None:
    head = {"ref": "a", "sha": SHA, "repo": None}
    told = pull(user=None, head=head, state="closed", merged_at="2026-01-01T00:00:00Z")

    read = PullReply.model_validate(told).data()

    assert (read.author, read.head_repository, read.merged) == ("ghost", None, True)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"number": 0}, "number"),
        ({"number": True}, "number"),
        ({"number": "7"}, "number"),
        ({"number": 2**63}, "number"),
        ({"state": "merged"}, "state"),
        ({"draft": "no"}, "draft"),
        ({"title": None}, "title"),
        ({"body": "x" * 262_145}, "body"),
        ({"user": {"login": 7}}, "user.login"),
        ({"labels": "fvec"}, "labels"),
        ({"head": {"ref": "a", "sha": "HEAD"}}, "head.sha"),
        ({"head": {"ref": "a", "sha": "a" * 40 + "\n"}}, "head.sha"),
        ({"base": None}, "base"),
    ],
)
def test_a_pull_request_of_another_form_is_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        PullReply.model_validate(pull(**changed))

    assert [".".join(map(str, error["loc"])) for error in caught.value.errors()] == [field]


def test_a_comment_without_a_text_is_empty() -> None:
    told = {"id": 1, "html_url": "https://github.example/x", "body": None, "user": None}

    comment = CommentReply.model_validate(told).data()

    assert (comment.author, comment.body) == ("ghost", "")


def test_a_check_run_of_nobody_has_no_names() -> None:
    told = {
        "id": 1,
        "name": "lint",
        "head_sha": SHA,
        "external_id": None,
        "status": "queued",
        "conclusion": None,
        "html_url": None,
        "output": {"title": None, "summary": None, "text": None, "annotations_count": 0},
        "app": None,
    }

    run = CheckRunReply.model_validate(told).data()

    assert (run.external_id, run.conclusion, run.url) == ("", None, "")


def test_contents_are_a_file_or_a_folder() -> None:
    file = {"type": "file", "size": 1, "sha": SHA, "encoding": "base64", "content": "YQ==\n"}

    assert isinstance(ContentsReply.model_validate(file).root, FileReply)
    assert isinstance(ContentsReply.model_validate([file, file]).root, list)


def test_a_token_ends_at_a_time_of_a_zone() -> None:
    told = {"token": "x" * 8, "expires_at": "2026-03-04T06:06:07Z", "permissions": {}}
    now = PassingTime().now

    reply = TokenReply.model_validate(told)

    assert (reply.is_spent(now, 3600), reply.is_spent(now, 3601)) == (False, True)
    for wrong in ("2026-03-04T06:06:07", "soon", None):
        with pytest.raises(ValidationError):
            TokenReply.model_validate({**told, "expires_at": wrong})
    for wrong in ("", "a b", "a\n", "x" * 4097, None):
        with pytest.raises(ValidationError):
            TokenReply.model_validate({**told, "token": wrong})


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


def test_a_repository_without_drafts_gets_one_for_review(server: ScriptedServer) -> None:
    clock = PassingTime().clock
    api = Api(Auth.Token("x" * 8), base_url=server.url, throttle=False, clock=clock)
    told = "Draft pull requests are not supported in this repository."
    none = Said(body=[])
    server.answers = [none, Said(422, {"message": told}), none, none, Said(201, pull(draft=False))]

    made = Repository(api, "owner/serve", "fvec[bot]").create_pull(
        "fvec/a", "main", "A title", "A body", draft=True
    )

    assert made.draft is False
    assert [asked.body["draft"] for asked in server.asked if asked.method == "POST"] == [
        True,
        False,
    ]
