"""What is pure of publishing: bodies and comments, known commits, names of branches, documents."""

import io
import json

import pytest
from pydantic import ValidationError
from rich.console import Console

from bot.commands.publish import document
from bot.github.archive import (
    EvidenceBranch,
    Publication,
    State,
    folder_of,
    known_commits,
    publication_file,
)
from bot.publishing.claims import CHANGE_BRANCH
from bot.publishing.github import Published
from bot.publishing.material import without_secrets
from bot.render import publication
from bot.render.again import Kept
from bot.render.publication import Addresses, Ties
from layers.errors import InvalidInput
from layers.evidence import EvidenceFile
from tests.render_fixture import evidence

A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
MARKER = "<!-- fvec:pull -->"
AT = "https://github.com/owner/serve/blob"
ADDRESSES = Addresses(
    evidence=f"{AT}/evidence.json",
    patch=f"{AT}/patch.diff",
    whole=f"{AT}/body.md",
    plots={name: f"{AT}/{name}.svg" for name in ("pairs", "latency", "time")},
    kept=Kept(C, "pulls/fvec/features/x-y"),
)


def published(**changes: object) -> Publication:
    values = {
        "branch": "fvec/features/x-y",
        "of_branch": "fvec/features/x-y",
        "base": "main",
        "base_commit": A,
        "commit": B,
        "run_id": "run",
    }
    return Publication.model_validate(values | changes)


class Files:
    """A repository of files alone."""

    full_name = "owner/serve"

    def __init__(self, **files: bytes) -> None:
        self.files = {name.replace("__", "/").replace("_", "."): c for name, c in files.items()}

    def file(self, path: str, ref: str, *, limit_bytes: int) -> bytes | None:
        return self.files.get(path)

    def branch_sha(self, name: str) -> str:
        return A


def test_a_body_starts_with_its_marker_and_ends_with_the_commands():
    body = publication.body(MARKER, evidence(), Ties("main", A), ADDRESSES)
    lines = body.split("\n")
    assert lines[:2] == [MARKER, ""]
    assert lines[2].startswith("**Look the request's inputs up in one pass: 1.42")
    place = lines.index(f"Measured on commit `{A}` of `main`.")
    assert lines[place + 2] == "## What was slow, and how we know"
    assert lines[-4:] == [publication.disclosure(evidence()), "", publication.COMMANDS, ""]
    assert f"git fetch origin {C} 4be1c60b0c" in body
    assert f"Data of this pull request: [evidence.json]({AT}/evidence.json)" in body
    assert f"]({AT}/pairs.svg)" in body
    assert "body.md" not in body


def test_a_body_names_what_it_stands_on_and_follows():
    ties = Ties("fvec/features/x-y", A, stacked_on=3, supersedes=(4, 7), recreates=5)
    body = publication.body(MARKER, evidence(), ties, ADDRESSES)
    assert body.partition("\n\n## ")[0].split("\n\n")[-3:] == [
        f"Stacked on #3. Measured on commit `{A}`, the head of its branch `fvec/features/x-y`: "
        "that one comes first.",
        "Supersedes #4, #7.",
        "Started over on request, after #5.",
    ]


def test_without_an_owner_a_body_says_that_a_program_wrote_it_and_how_to_name_one():
    whole = evidence()
    nobody = whole.model_copy(update={"stack": whole.stack.model_copy(update={"owner": None})})
    body = publication.body(MARKER, nobody, Ties("main", A), ADDRESSES)
    assert "No owner is named." in body
    assert "written and measured by a program; nobody answers for it yet" in body
    assert "`owner` in the manifest" in body


def test_a_body_over_the_limit_links_the_whole_one():
    whole = evidence()
    many = whole.model_copy(update={"blocks": whole.blocks * 60})
    body = publication.body(MARKER, many, Ties("main", A), ADDRESSES)
    assert len(body) < 65_536
    assert f"[all sections, none left out]({AT}/body.md)" in body
    assert len(publication.whole(many, {})) > 65_536


def test_absurd_texts_leave_room_for_the_frame():
    whole = evidence()
    long = whole.model_copy(
        update={
            "iteration": whole.iteration.model_copy(update={"explanation": "word " * 40_000}),
        }
    )
    ties = Ties("b" * 200, A, supersedes=range(1000, 1020))
    assert len(publication.body(MARKER, long, ties, ADDRESSES)) < 65_536


def test_the_check_of_a_publication_has_the_gain():
    check = publication.accepted(evidence())
    assert check.conclusion == "success"
    assert check.title.startswith("accepted: 1.42\u00d7 (1.38 to 1.47) throughput")
    assert len(check.title) <= 120


@pytest.mark.parametrize(
    "comment",
    [
        publication.edited("fvec/features/x-y"),
        publication.continued(3),
        publication.superseded(3, closed=True),
        publication.superseded(3, closed=False),
    ],
)
def test_no_comment_starts_with_a_command(comment):
    assert not comment.startswith(("/", "<"))
    assert comment.endswith("\n")


def test_the_terminal_shows_each_with_its_address():
    url = "https://github.com/owner/serve/pull/3"
    one = Published("opened", "fvec/features/x-y", "A change", "main", 3, url, (1,))
    other = Published("awaiting", "fvec/config/z-y", "Another", "main", detail="2 are open")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(publication.outcome([one, other]))
    lines = [line.split() for line in console.export_text().splitlines() if line.strip()]
    assert lines == [
        ["#", "became", "pull", "request", "why"],
        ["3", "opened", "A", "change"],
        ["\u2013", "awaiting", "Another", "2", "are", "open"],
        [url],
    ]


def test_the_document_has_every_outcome():
    one = Published("closed", "fvec/features/x-y", "A change", "main", 3, "url", (1, 2), "why")
    assert document("owner/serve", [one]) == {
        "schema": "fvec.publish/1",
        "repository": "owner/serve",
        "pull_requests": [
            {
                "became": "closed",
                "number": 3,
                "branch": "fvec/features/x-y",
                "base": "main",
                "title": "A change",
                "url": "url",
                "iterations": [1, 2],
                "detail": "why",
            }
        ],
    }


@pytest.mark.parametrize(
    ("announced", "pushed", "known"),
    [
        (None, None, ()),
        (None, A, (A,)),
        ([A], None, (A,)),
        ([A, B], None, (A, B)),
        ([A, B], A, (A, B)),
        ([A, B, C], B, (B, C)),
        ([B], A, (A, B)),
    ],
)
def test_a_branch_may_be_at_what_was_pushed_last_or_announced_since(announced, pushed, known):
    publication = published(announced=announced) if announced is not None else None
    assert known_commits(publication, pushed) == known


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("fvec/features/lookups-one-pass-features", True),
        ("fvec/server/x-y-2", True),
        ("fvec/evidence", False),
        ("fvec/knowledge", False),
        ("fvec/onboard", False),
        ("fvec/evidence/x", False),
        ("fvec/features/", False),
        ("fvec/features/x/y", False),
        ("fvec/features/-x", False),
        ("fvec/features/x..y", False),
        ("fvec/features/x.lock", False),
        ("fvec/features/x\n", False),
        ("main", False),
        ("refs/heads/fvec/features/x", False),
    ],
)
def test_only_a_run_s_own_names_are_branches_of_a_change(name, fits):
    assert (CHANGE_BRANCH.fullmatch(name) is not None) == fits


def test_a_state_that_was_never_written_is_empty():
    archive = EvidenceBranch(Files())
    assert archive.state() == State()
    assert archive.publication("fvec/features/x-y") is None


def test_a_publication_is_read_back_as_it_was_written():
    found = published(announced=[A, B], supersedes=[3], superseded_by=4, base_merged="moved")
    (content,) = publication_file(found).values()
    files = Files()
    files.files[f"{folder_of(found.branch)}/publication.json"] = content
    assert EvidenceBranch(files).publication(found.branch) == found


def test_a_publication_of_another_branch_is_refused():
    (content,) = publication_file(published()).values()
    files = Files()
    files.files["pulls/fvec/features/other/publication.json"] = content
    with pytest.raises(InvalidInput, match="is of another branch"):
        EvidenceBranch(files).publication("fvec/features/other")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}\x00",
        b'{"schema": "fvec.state/2"}',
        b'{"schema": "fvec.state/1", "pushed": {"x": "--force"}}',
        b'{"schema": "fvec.state/1", "more": 1}',
        b'{"schema": "fvec.state/1", "attempt": {"sha": "%s", "at": "now", "failures": 1, "why": ""}}'
        % A.encode(),
    ],
)
def test_a_state_that_is_not_ours_is_refused_and_named(content):
    with pytest.raises(InvalidInput) as caught:
        EvidenceBranch(Files(state_json=content)).state()
    assert "state.json on the branch fvec/evidence of owner/serve" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("path", ["/x", "../x", "a/../x", "a//x", "", "a/", "x\n"])
def test_a_path_that_leaves_the_branch_is_refused(path):
    with pytest.raises(InvalidInput, match="not a path of the branch"):
        EvidenceBranch(Files()).get(path)


def test_an_address_names_the_commit_and_quotes_the_path():
    assert EvidenceBranch(Files()).url("https://git.example.com", A, "pulls/x/a#b?.md") == (
        f"https://git.example.com/owner/serve/blob/{A}/pulls/x/a%23b%3F.md?raw=true"
    )


def test_a_publication_takes_commits_alone():
    with pytest.raises(ValidationError):
        published(commit="main")
    with pytest.raises(ValidationError):
        published(announced=["-x"])


def test_an_update_of_the_state_that_changes_nothing_writes_nothing():
    archive = EvidenceBranch(Files(state_json=b'{"schema": "fvec.state/1"}'))
    assert archive.update_state(lambda state: state) == State()


def test_a_state_of_an_earlier_version_is_read():
    analysis = {"sha": A, "at": "2026-01-02T03:04:05+00:00", "run_id": "r", "conclusion": "c"}
    told = {"schema": "fvec.state/1", "analysis": {**analysis, "versions": {"numpy": "2"}}}
    state = EvidenceBranch(Files(state_json=json.dumps(told).encode())).state()
    assert state.analysis is not None
    assert (state.analysis.layers, state.partial, state.attempt) == ([], {}, None)


def test_evidence_without_secrets_is_the_same_evidence():
    assert without_secrets(evidence()) == evidence()
    canary = "ghp" + "_" + "canary0" * 6
    whole = evidence()
    told = whole.model_copy(
        update={"iteration": whole.iteration.model_copy(update={"detail": f"with {canary}"})}
    )
    cleaned = without_secrets(told)
    assert isinstance(cleaned, EvidenceFile)
    assert canary not in cleaned.model_dump_json()
    assert cleaned.iteration.hypothesis == whole.iteration.hypothesis


def test_a_body_says_first_that_its_claim_was_taken_back_and_no_longer_once_it_stands():
    body = publication.body(MARKER, evidence(), Ties("main", A), ADDRESSES)
    taken = publication.standing(body, "rejected", "gain_differs", B)
    first, second, rest = taken.split("\n\n", 2)
    assert first == MARKER
    assert second.startswith(f"{publication.STANDING}\n**Taken back**: at `{B[:10]}`")
    assert "`gain_differs`" in second
    assert f"{first}\n\n{rest}" == body
    assert publication.standing(taken, "rejected", "gain_differs", B) == taken
    assert publication.standing(taken, "accepted", "reproduced", B) == body


def test_the_comment_on_an_edited_pull_request_does_not_promise_a_comparison():
    told = publication.edited("fvec/features/x-y")
    assert "`/fvec rerun` judges the whole of your head by the same gates" in told
    assert "not compared with the evidence" in told
