"""What people do to the bot's pull requests, and what publishing does then."""

from pathlib import Path
from typing import Any

import pytest

from bot.publishing.github import publish_results
from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import (
    FIRST,
    JOINT,
    SECOND,
    Ran,
    checks,
    comments,
    forge_of,
    kinds,
    publish,
    pull,
    state,
)

pytest_plugins = ["tests.github.recorded_fixtures"]
pytestmark = pytest.mark.usefixtures("drawn_once")

MANIFEST = ".github/fvec.yml"


def test_a_branch_that_a_person_committed_to_is_left_alone_and_told_once(
    ran: Ran, github: FakeGitHub
) -> None:
    ran.keep(1)
    publish(ran, github)
    theirs = github.commit_to_pull(1, {"notes.md": "mine\n"})

    assert kinds(publish(ran, github)) == [("edited", FIRST, 1)]
    assert comments(github, 1) == []  # nothing newer is held back

    ran.again(1)
    ran.of_run("another")
    for _ in range(2):
        assert kinds(publish(ran, github)) == [("edited", FIRST, 1)]
    assert github.sha(FIRST) == theirs
    (told,) = comments(github, 1)
    assert told.startswith("<!-- fvec:edited -->\n")
    assert "`/fvec recreate`" in told


def test_a_person_who_pushes_in_the_middle_is_not_overwritten(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    publish(ran, github)
    ran.again(1)
    forge = forge_of(github)
    put = forge.archive.put
    theirs: list[str] = []

    def pushed_meanwhile(*given: Any) -> str:
        theirs.append(github.commit_to_pull(1, {"notes.md": "mine\n"}))
        return put(*given)

    forge.archive.put = pushed_meanwhile

    assert kinds(publish_results(ran.out, ran.root, forge)) == [("edited", FIRST, 1)]
    assert github.sha(FIRST) == theirs[0]
    assert len(comments(github, 1)) == 1


def test_a_person_s_branch_of_that_name_is_never_pushed_to(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    theirs = github.commit({"notes.md": "mine\n"}, branch=FIRST)

    assert kinds(publish(ran, github)) == [("edited", FIRST, None)]
    assert github.sha(FIRST) == theirs
    assert github.pulls() == []


def test_closed_means_no_until_somebody_asks_to_start_over(ran: Ran, github: FakeGitHub) -> None:
    publish(ran, github)
    github.close(2)
    ran.keep(2)
    ran.of_run("another")
    ran.change(ran.out / "run.json", lambda d: d["pull_requests"][0].update(base="main"))
    ran.change(ran.pull(2) / "meta.json", lambda d: d.update(base="main"))
    ran.change(ran.pull(2) / "evidence.json", lambda d: d["iteration"].update(base_commit=ran.base))
    ran.again(2)

    assert kinds(publish(ran, github)) == [("closed", SECOND, 2)]
    assert [p["number"] for p in github.pulls()] == [1, 2]

    assert kinds(publish(ran, github, recreate=FIRST)) == [("closed", SECOND, 2)]
    for kind in ("opened", "unchanged"):
        assert kinds(publish(ran, github, recreate=SECOND)) == [(kind, f"{SECOND}-2", 3)]
    assert kinds(publish(ran, github)) == [("unchanged", f"{SECOND}-2", 3)]
    assert "Started over on request, after #2." in pull(github, 3)["body"]
    (told,) = comments(github, 2)
    assert told == "<!-- fvec:continued -->\n`/fvec recreate` went on in #3.\n"
    assert pull(github, 2)["state"] == "closed"


def test_an_edited_one_starts_over_beside_itself(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    publish(ran, github)
    theirs = github.commit_to_pull(1, {"notes.md": "mine\n"})
    commit = ran.again(1)

    for kind in ("opened", "unchanged"):
        assert kinds(publish(ran, github, recreate=True)) == [(kind, f"{FIRST}-2", 2)]
    assert (github.sha(FIRST), github.sha(f"{FIRST}-2")) == (theirs, commit)
    assert [p["state"] for p in github.pulls()] == ["open", "open"]
    assert "went on in #2" in "".join(comments(github, 1))


def test_what_is_merged_is_not_offered_again_but_a_newer_change_is(
    ran: Ran, github: FakeGitHub
) -> None:
    ran.keep(1)
    publish(ran, github)
    github.merge(1)
    assert kinds(publish(ran, github)) == [("merged", FIRST, 1)]

    ran.again(1)
    ran.of_run("another")

    assert kinds(publish(ran, github)) == [("opened", FIRST, 2)]
    assert github.sha(FIRST) == ran.commit(1)


def test_newer_evidence_updates_the_same_pull_request(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    publish(ran, github)
    old = ran.commit(1)
    commit = ran.again(1)
    ran.of_run("another")

    assert kinds(publish(ran, github)) == [("updated", FIRST, 1)]
    assert github.sha(FIRST) == commit
    assert "run `another`" in pull(github, 1)["body"]
    assert checks(github, commit) == [("fvec", "verdict", "success")]
    assert checks(github, old) == [("fvec", "verdict", "success")]
    assert comments(github, 1) == []


def test_a_verdict_of_a_rerun_is_not_taken_back_by_publishing_the_same_again(
    ran: Ran, github: FakeGitHub
) -> None:
    ran.keep(1)
    publish(ran, github)
    repository = forge_of(github).repository
    demoted = {"status": "completed", "conclusion": "failure", "title": "t", "summary": "s"}
    repository.check_run(ran.commit(1), "fvec", "verdict", **demoted)

    publish(ran, github)

    assert checks(github, ran.commit(1)) == [("fvec", "verdict", "failure")]


# Superseding, and how many may be open


def test_a_newer_pull_request_with_the_same_changes_supersedes_older_ones(
    ran: Ran, github: FakeGitHub, recorded_run: Ran, tmp_path: Path
) -> None:
    publish(ran, github)
    github.commit_to_pull(2, {"notes.md": "mine\n"})
    newer = recorded_run.copied(tmp_path / "newer")
    newer.as_joint()

    assert sorted(kinds(publish(newer, github))) == [
        ("edited", SECOND, 2),
        ("opened", JOINT, 3),
        ("superseded", FIRST, 1),
    ]
    assert [p["state"] for p in github.pulls()] == ["closed", "open", "open"]
    assert "Supersedes #1, #2." in pull(github, 3)["body"]
    for number, said in ((1, "This one is closed."), (2, "so it stays open")):
        (told,) = comments(github, number)
        assert told.startswith("<!-- fvec:superseded -->\n#3 has the same change")
        assert said in told
    before = state(github)
    assert kinds(publish(newer, github)) == [("unchanged", JOINT, 3)]
    assert state(github) == before


def test_the_old_results_of_a_superseded_one_do_not_open_it_again(
    ran: Ran, github: FakeGitHub, recorded_run: Ran, tmp_path: Path
) -> None:
    ran.keep(1)
    publish(ran, github)
    newer = recorded_run.copied(tmp_path / "newer")
    newer.as_joint()
    publish(newer, github)

    assert kinds(publish(ran, github)) == [("superseded", FIRST, 1)]


def test_one_that_a_person_reopened_is_not_closed_again(
    ran: Ran, github: FakeGitHub, recorded_run: Ran, tmp_path: Path
) -> None:
    ran.keep(1)
    publish(ran, github)
    newer = recorded_run.copied(tmp_path / "newer")
    newer.as_joint()
    publish(newer, github)
    github.reopen(1)
    newer.again(1, "Once more")

    assert kinds(publish(newer, github)) == [("updated", JOINT, 2)]
    assert pull(github, 1)["state"] == "open"


def test_more_than_the_manifest_allows_wait(ran: Ran, github: FakeGitHub) -> None:
    manifest = github.git("show", f"main:{MANIFEST}")
    github.commit({MANIFEST: f"{manifest}\nbot:\n  max_open_pull_requests: 1\n  draft: false\n"})

    first, second = publish(ran, github)

    assert (first.kind, second.kind, second.number) == ("opened", "awaiting", None)
    assert second.detail == "1 are open, and the manifest's max_open_pull_requests is 1"
    assert not pull(github, 1)["draft"]
    assert SECOND not in github.branches()


def test_one_that_stands_on_a_closed_one_waits(ran: Ran, github: FakeGitHub) -> None:
    second = ran.run["pull_requests"][1]
    ran.keep(1)
    publish(ran, github)
    github.close(1)
    ran.change(ran.out / "run.json", lambda d: d["pull_requests"].append(second))

    published = publish(ran, github)

    assert kinds(published) == [("closed", FIRST, 1), ("awaiting", SECOND, None)]
    assert published[1].detail == "it stands on #1, which is closed"
