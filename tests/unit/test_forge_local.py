import json
import multiprocessing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.forge.base import PullRequest
from bot.forge.local import LocalForge
from bot.publishing.local import open_local
from layers.errors import InvalidInput, Location, ToolFailed
from layers.evidence import EvidenceFile, PullRequestRecord
from tests.render_fixture import evidence

BRANCH = "fvec/lookups-one-pass/features"
PATCH = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def pull(branch: str = BRANCH, **fields) -> PullRequest:
    values = {
        "base": "main",
        "head_commit": "91c22e7f3f",
        "title": "a title",
        "body": "a body\n",
        "files": {"patch.diff": b"-a\n+b\n", "plots/pairs.svg": b"<svg/>"},
    }
    return PullRequest(branch=branch, **(values | fields))


def tree(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


class Clock:
    """Seconds that pass by one at every look."""

    def __init__(self) -> None:
        self.second = -1

    def __call__(self) -> datetime:
        self.second += 1
        return datetime(2026, 11, 29, 17, 45, self.second, tzinfo=UTC)


def test_a_pull_request_is_a_folder_of_files(tmp_path):
    opened = LocalForge(tmp_path, now=Clock()).open_pull_request(pull())
    assert opened.number == 1
    assert opened.body == str(tmp_path / "pulls/1/body.md")
    assert tree(tmp_path) == [
        ".lock",
        "index.md",
        "pulls/1/body.md",
        "pulls/1/meta.json",
        "pulls/1/patch.diff",
        "pulls/1/plots/pairs.svg",
    ]
    assert json.loads((tmp_path / "pulls/1/meta.json").read_text()) == {
        "schema": "fvec.pull/1",
        "number": 1,
        "title": "a title",
        "branch": BRANCH,
        "base": "main",
        "head_commit": "91c22e7f3f",
        "state": "open",
        "created": "2026-11-29T17:45:00+00:00",
        "updated": "2026-11-29T17:45:00+00:00",
    }


def test_the_same_branch_updates_its_pull_request_and_another_gets_its_own(tmp_path):
    forge = LocalForge(tmp_path, now=Clock())
    first = forge.open_pull_request(pull())
    other = forge.open_pull_request(pull("fvec/other"))
    again = forge.open_pull_request(pull(title="new", body="new\n", files={"patch.diff": b""}))
    assert (first.number, other.number, again.number) == (1, 2, 1)
    assert tree(tmp_path / "pulls/1") == ["body.md", "meta.json", "patch.diff"]
    meta = forge.pull_requests()[0]
    assert (meta.title, meta.created[-14:], meta.updated[-14:]) == (
        "new",
        "17:45:00+00:00",
        "17:45:02+00:00",
    )


def test_the_index_lists_pull_requests_with_their_text_neutralised(tmp_path):
    forge = LocalForge(tmp_path, now=Clock())
    forge.open_pull_request(pull(title="a | b @you"))
    assert (tmp_path / "index.md").read_text() == (
        "# Pull requests\n\n"
        "| # | title | branch | base | head | updated |\n"
        "| ---: | --- | --- | --- | --- | --- |\n"
        f"| [1](pulls/1/body.md) | a \\| b @&#8203;you | `{BRANCH}` | `main` | `91c22e7f3f` "
        "| 2026-11-29T17:45:00+00:00 |\n"
    )


def test_a_failed_creation_leaves_no_half_pull_request(tmp_path):
    forge = LocalForge(tmp_path)
    with pytest.raises(TypeError):
        forge.open_pull_request(pull(files={"patch.diff": "not bytes"}))
    assert tree(tmp_path) == [".lock"]
    assert forge.open_pull_request(pull()).number == 1


@pytest.mark.parametrize(
    "name", ["-x", "a..b", "a b", "a@{1}", "x.lock", "a/", "", "a\nb", "\u202ea", "refs~1"]
)
def test_a_name_that_git_or_a_shell_could_misread_is_refused(name):
    with pytest.raises(InvalidInput, match="not a branch name"):
        pull(name)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "plots/../../x", "a/b", ".git", "X"])
def test_an_attached_file_cannot_leave_the_folder(name):
    with pytest.raises(InvalidInput, match="not a name for an attached file"):
        pull(files={name: b""})


def test_an_unreadable_pull_request_is_named(tmp_path):
    (tmp_path / "pulls/7").mkdir(parents=True)
    (tmp_path / "pulls/7/meta.json").write_text("{}")
    with pytest.raises(InvalidInput, match="not a pull request of the local forge") as caught:
        LocalForge(tmp_path).open_pull_request(pull())
    assert caught.value.at is not None
    assert caught.value.at.path == tmp_path / "pulls/7/meta.json"


def test_what_is_published_already_is_left_as_it_is(tmp_path):
    forge = LocalForge(tmp_path, now=Clock())
    first = forge.open_pull_request(pull())
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*.*")}
    assert forge.open_pull_request(pull()) == first
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in before} == before


@pytest.mark.parametrize("name", ["body.md", "patch.diff", "plots/pairs.svg"])
def test_a_pull_request_that_lost_a_file_gets_it_back(tmp_path, name):
    forge = LocalForge(tmp_path)
    forge.open_pull_request(pull())
    before = {p: p.read_bytes() for p in (tmp_path / "pulls").rglob("*.*") if p.is_file()}
    (tmp_path / "pulls/1" / name).unlink()
    assert forge.open_pull_request(pull()).number == 1
    after = {p: p.read_bytes() for p in before if p.name != "meta.json"}
    assert after == {p: content for p, content in before.items() if p.name != "meta.json"}


def test_a_pull_request_without_its_data_is_named_and_its_number_not_given_again(tmp_path):
    forge = LocalForge(tmp_path)
    forge.open_pull_request(pull())
    (tmp_path / "pulls/1/meta.json").unlink()
    with pytest.raises(InvalidInput, match="not a pull request of the local forge") as caught:
        forge.open_pull_request(pull("fvec/other"))
    assert caught.value.at == Location(tmp_path / "pulls/1/meta.json")


def test_what_a_killed_creation_left_goes(tmp_path):
    (tmp_path / "pulls/.new-abc").mkdir(parents=True)
    (tmp_path / "pulls/.new-abc/body.md").write_text("half")
    (tmp_path / ".index.md-abc").write_text("half")
    LocalForge(tmp_path).open_pull_request(pull())
    assert not (tmp_path / "pulls/.new-abc").exists()
    assert not (tmp_path / ".index.md-abc").exists()


def test_a_folder_that_cannot_be_written_is_a_tool_that_failed(tmp_path):
    (tmp_path / "forge").write_text("a file")
    with pytest.raises(ToolFailed, match=r"cannot be written to .*: Not a directory"):
        LocalForge(tmp_path / "forge").open_pull_request(pull())


def _open(root: Path, index: int) -> int:
    return LocalForge(root).open_pull_request(pull(f"fvec/{index % 4}")).number


def test_processes_at_once_never_share_a_number(tmp_path):
    context = multiprocessing.get_context("forkserver")
    with context.Pool(4) as pool:
        numbers = pool.starmap(_open, [(tmp_path, index) for index in range(12)])
    assert {numbers[i] == numbers[i % 4] for i in range(12)} == {True}
    assert sorted(set(numbers)) == [1, 2, 3, 4]
    assert [meta.number for meta in LocalForge(tmp_path).pull_requests()] == [1, 2, 3, 4]


def test_published_evidence_can_be_read_back_and_is_what_was_rendered(tmp_path):
    record = open_local(tmp_path).publish(evidence(), PATCH, "main", BRANCH)
    place = tmp_path / "forge/pulls/1"
    assert record == PullRequestRecord(
        forge="local",
        number=1,
        branch=BRANCH,
        base="main",
        title="features: Look the request's inputs up in one pass (1.42\u00d7 throughput)",
        body=str(place / "body.md"),
        iterations=[1],
    )
    assert EvidenceFile.model_validate_json((place / "evidence.json").read_text()) == evidence()
    assert (place / "patch.diff").read_text() == PATCH
    assert tree(place / "plots") == ["latency.svg", "pairs.svg", "time.svg"]
    body = (place / "body.md").read_text()
    assert all(f"](plots/{name}.svg)" in body for name in ("latency", "pairs", "time"))


def test_publishing_again_changes_nothing(tmp_path):
    publisher = open_local(tmp_path)
    first = publisher.publish(evidence(), PATCH, "main", BRANCH)
    place = tmp_path / "forge/pulls/1"
    before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
    assert publisher.publish(evidence(), PATCH, "main", BRANCH) == first
    assert {p: p.read_bytes() for p in before} == before
