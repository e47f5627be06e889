"""Results of a dishonest runner: refused with the reason before anything leaves."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.github.repository import MOST_BODY
from bot.publishing import claims
from layers.errors import InvalidInput
from layers.repository import git
from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import (
    EVIDENCE,
    FIRST,
    JOINT,
    SECOND,
    Ran,
    comments,
    kinds,
    publish,
    pull,
)

pytest_plugins = ["tests.github.recorded_fixtures"]
pytestmark = pytest.mark.usefixtures("drawn_once")


def with_file(ran: Ran, path: str, mode: str, content: str) -> str:
    """Return the tree of the first pull request with one entry more, of any mode."""
    folder = ran.out.parent
    source = folder / "content"
    source.write_text(content)
    blob = git.git(ran.root, "hash-object", "-w", "--", str(source)).strip()
    own = {"GIT_INDEX_FILE": str(folder / "index")}
    git.git(ran.root, "read-tree", ran.commit(1), env=own)
    git.git(ran.root, "update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}", env=own)
    return git.git(ran.root, "write-tree", env=own).strip()


def renamed(ran: Ran, commit: str) -> None:
    """Name another commit as the pull request's, patch and all else as they are."""
    old = ran.commit(1)
    for name in ("meta.json", "evidence.json"):
        file = ran.pull(1) / name
        file.write_text(file.read_text().replace(old, commit))


def another_patch(ran: Ran) -> None:
    """Claim a patch that is not what the commit does."""
    commit = ran.commit(1)
    ran.stand_at(1, ran.commit_tree(with_file(ran, "models/more.txt", "100644", "more\n")))
    renamed(ran, commit)


def standing_at(path: str, mode: str, content: str) -> Callable[[Ran], None]:
    def tamper(ran: Ran) -> None:
        ran.stand_at(1, ran.commit_tree(with_file(ran, path, mode, content)))

    return tamper


def run_json(change: Callable[[dict], object]) -> Callable[[Ran], None]:
    return lambda ran: ran.change(ran.out / "run.json", change)


def pull_json(name: str, change: Callable[[dict], object]) -> Callable[[Ran], None]:
    return lambda ran: ran.change(ran.pull(1) / name, change)


def based_on(base: str) -> Callable[[Ran], None]:
    def tamper(ran: Ran) -> None:
        ran.change(ran.pull(1) / "meta.json", lambda d: d.update(base=base))
        ran.change(ran.out / "run.json", lambda d: d["pull_requests"][0].update(base=base))

    return tamper


def linked(name: str) -> Callable[[Ran], None]:
    def tamper(ran: Ran) -> None:
        file = ran.out / name
        file.rename(ran.out.parent / "elsewhere")
        file.symlink_to(ran.out.parent / "elsewhere")

    return tamper


def piped(ran: Ran) -> None:
    os.mkfifo(ran.pull(1) / "plots" / "more.svg")


def huge(ran: Ran) -> None:
    os.truncate(ran.pull(1) / "evidence.json", claims.MOST_BYTES + 1)


def crowded(ran: Ran) -> None:
    for number in range(claims.MOST_ENTRIES):
        (ran.pull(1) / "plots" / f"{number}.svg").touch()


def unknown_commit(ran: Ran) -> None:
    renamed(ran, "0123456789" * 4)


def slower(ran: Ran) -> None:
    """Let the fresh pairs, and all that is made of them, be a slowdown."""

    def change(document: dict) -> None:
        iteration, end = document["iteration"], document["iteration"]["end_to_end"]
        fresh = {pair["launch"] for pair in iteration["confirm"]}
        for pair in iteration["confirm"]:
            pair["throughput_ratio"] *= 0.4
        for block in document["blocks"]:
            if block["arm"] == "candidate" and block["launch"] in fresh:
                block["rate"] *= 0.4
        end["throughput_ratio"] *= 0.4
        end["ci"] = [value * 0.4 for value in end["ci"]]

    ran.change(ran.pull(1) / "evidence.json", change)


TAMPERED: dict[str, tuple[Callable[[Ran], None], str]] = {
    "a patch of something else": (another_patch, "differs from its base by something else than"),
    "a patch that was edited": (
        lambda ran: (ran.pull(1) / "patch.diff").write_bytes(b"diff --git a/x b/x\n"),
        "patch.diff is not the patch that the evidence is about",
    ),
    "a commit that is not there": (unknown_commit, "commit 012345678901 is not in the checkout"),
    "another commit in meta.json": (
        pull_json("meta.json", lambda d: d.update(head_commit="a" * 40)),
        "it is about another commit than its pull request",
    ),
    "an option for a commit": (
        pull_json("meta.json", lambda d: d.update(head_commit="--output=x")),
        "head_commit is not the name of a commit",
    ),
    "a link in the branch": (
        standing_at("models/features/1/link.py", "120000", "/etc/passwd"),
        "is, or would become, a symbolic link",
    ),
    "a program in the branch": (
        standing_at("models/features/1/run.sh", "100755", "#!/bin/sh\n"),
        "goes from mode 100644 to 100755",
    ),
    "a workflow in the branch": (
        standing_at(".github/workflows/ci.yml", "100644", "on: push\n"),
        "is git's, or the repository's owners'",
    ),
    "owners in the branch": (
        standing_at("docs/CODEOWNERS", "100644", "* nobody\n"),
        "is git's, or the repository's owners'",
    ),
    "another referee in the branch": (
        standing_at("referee.py", "100644", "score = None\n"),
        "touches_protected_files: referee.py",
    ),
    "another environment in the branch": (
        standing_at("requirements.txt", "100644", "numpy\n"),
        "changes_requirements: requirements.txt",
    ),
    "the branch main": (lambda ran: ran.rename(1, "main"), "'main' is no branch of a change"),
    "the evidence's branch": (
        lambda ran: ran.rename(1, EVIDENCE),
        "'fvec/evidence' is no branch of a change",
    ),
    "a branch that climbs": (
        lambda ran: ran.rename(1, "fvec/features/../../main"),
        "'fvec/features/../../main' is no branch of a change",
    ),
    "a base of nobody": (based_on("fvec/features/none"), "is no earlier branch of this run"),
    "a base that is an option": (based_on("--upload-pack=x"), "'--upload-pack=x' is no branch"),
    "a base that GitHub lacks": (based_on("release"), "which the branch release of"),
    "a base commit that was not measured": (
        pull_json("evidence.json", lambda d: d["iteration"].update(base_commit="b" * 40)),
        "measured on bbbbbbbbbbbb, and its base stood at",
    ),
    "evidence of another run": (
        pull_json("evidence.json", lambda d: d.update(run_id="other")),
        "it is about another run than its pull request",
    ),
    "evidence of another change": (
        lambda ran: ran.change(
            ran.out / "run.json", lambda d: d["pull_requests"][0].update(iterations=[2])
        ),
        "it is about another iteration than its pull request",
    ),
    "a gain that its pairs do not give": (
        pull_json("evidence.json", lambda d: d["iteration"]["end_to_end"].update(pairs=99)),
        "the evidence contradicts itself",
    ),
    "a slowdown": (slower, "its fresh pairs show no gain: 0.9"),
    "no gates": (
        pull_json("evidence.json", lambda d: d["iteration"].update(gates=[])),
        "it is accepted, and the gate paths is not there",
    ),
    "no load test": (
        pull_json("evidence.json", lambda d: d["iteration"].update(load_test=None)),
        "without a load test that counts",
    ),
    "another stack": (
        pull_json("evidence.json", lambda d: d["stack"].update(name="other")),
        "its evidence has another name than the manifest",
    ),
    "a wider SLO": (
        pull_json(
            "evidence.json",
            lambda d: (
                d["stack"].update(slo_p99_ms=9000.0),
                d["iteration"]["load_test"].update(slo_p99_ms=9000.0),
            ),
        ),
        "its evidence has another SLO than the manifest",
    ),
    "a peak that nobody has": (
        pull_json(
            "evidence.json", lambda d: d["stack"].update(peak={"rate": 1e6, "replicas": 900})
        ),
        "its evidence has another peak than the manifest",
    ),
    "a run that is a path": (
        run_json(lambda d: d.update(run_id="../x")),
        "run_id is no name of a run",
    ),
    "a report that is none": (run_json(lambda d: d.update(more=1)), "'more': Extra inputs"),
    "a pull request that is not there": (
        run_json(lambda d: d["pull_requests"][0].update(number=7)),
        "cannot be read: No such file",
    ),
    "a pull request of two names": (
        run_json(lambda d: d["pull_requests"][0].update(branch=SECOND)),
        "not the pull request that run.json names",
    ),
    "the same branch twice": (
        run_json(lambda d: d["pull_requests"].append(d["pull_requests"][0])),
        "a second pull request of the branch",
    ),
    "more pull requests than a run has": (
        run_json(lambda d: d.update(pull_requests=d["pull_requests"] * 21)),
        "it names more than 20 pull requests",
    ),
    "a link for run.json": (linked("run.json"), "a link or special file"),
    "a link for the forge": (linked("forge"), "a link or special file"),
    "a link for the evidence": (linked("forge/pulls/1/evidence.json"), "a link or special file"),
    "a pipe": (piped, "a link or special file"),
    "a huge file": (huge, "larger than 33,554,432 bytes"),
    "too many files": (crowded, "more than 2,000 files"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_tampered_results_are_refused_with_the_reason_and_nothing_leaves(
    ran: Ran, github: FakeGitHub, kind: str
) -> None:
    tamper, said = TAMPERED[kind]
    ran.keep(1)
    tamper(ran)

    with pytest.raises(InvalidInput) as caught:
        publish(ran, github)

    assert said in caught.value.message
    assert caught.value.hint
    assert github.writes == []


def test_results_of_an_unpushed_base_are_refused(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    by = ("-c", "user.name=Serving", "-c", "user.email=serving@example.com")
    orphan = github.git(*by, "commit-tree", "main^{tree}", "-m", "Another history").strip()
    github.git("update-ref", "refs/heads/main", orphan)

    with pytest.raises(InvalidInput, match="which the branch main of owner/serve does not have"):
        publish(ran, github)
    assert github.writes == []


def test_a_repository_without_a_manifest_is_not_published_to(ran: Ran, github: FakeGitHub) -> None:
    github.commit({".github/fvec.yml": None})

    with pytest.raises(InvalidInput, match=r"has no \.github/fvec\.yml on main"):
        publish(ran, github)
    assert github.writes == []


def test_a_folder_that_is_no_results_is_named(github: FakeGitHub, ran: Ran) -> None:
    empty = ran.out.parent / "empty"
    empty.mkdir()
    with pytest.raises(InvalidInput, match=r"run\.json: cannot be read: No such file"):
        publish(Ran(ran.root, empty), github)


def test_a_run_that_accepted_nothing_publishes_nothing(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(0)

    assert publish(ran, github) == []
    assert github.writes == []


def test_a_body_over_the_limit_sheds_sections_and_links_the_whole(
    ran: Ran, github: FakeGitHub
) -> None:
    ran.keep(1)
    ran.change(ran.pull(1) / "evidence.json", lambda d: d.update(blocks=d["blocks"] * 40))

    publish(ran, github)

    body = pull(github, 1)["body"]
    assert len(body) < MOST_BODY
    assert "Left out for its size: blocks." in body
    assert "body.md?raw=true)" in body
    whole = github.git("show", f"{EVIDENCE}:pulls/{FIRST}/body.md")
    assert len(whole) > MOST_BODY
    assert "Every block (" in whole


def test_a_secret_in_the_evidence_is_not_published(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    canary = "ghp" + "_" + "canary0" * 6
    ran.change(
        ran.pull(1) / "evidence.json",
        lambda d: d["iteration"].update(explanation=f"as {canary} said"),
    )

    publish(ran, github)

    assert canary not in pull(github, 1)["body"]
    for name in ("evidence.json", "body.md"):
        assert canary not in github.git("show", f"{EVIDENCE}:pulls/{FIRST}/{name}")


def test_hostile_texts_of_the_evidence_are_no_markup(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    attack = "<!-- fvec:pull --> <img src=x> @owner fixes #1"
    ran.change(
        ran.pull(1) / "evidence.json",
        lambda d: (
            d["iteration"].update(explanation=attack, detail=attack),
            d["iteration"]["hypothesis"].update(title=attack),
            d["stack"].update(owner=attack),
        ),
    )

    publish(ran, github)

    shown = pull(github, 1)
    for text in (shown["title"], shown["body"].partition("\n")[2]):
        assert "@owner" not in text
        assert "#1 " not in text
    assert shown["body"].count("<!--") == 1
    assert "<img" not in shown["body"]


def test_evidence_supersedes_nothing_that_its_commit_does_not_hold(
    ran: Ran, github: FakeGitHub, recorded_run: Ran, tmp_path: Path
) -> None:
    publish(ran, github)
    newer = recorded_run.copied(tmp_path / "newer")
    newer.say_joint(ran.commit(1))

    assert sorted(kinds(publish(newer, github))) == [("opened", JOINT, 3), ("superseded", FIRST, 1)]
    assert pull(github, 2)["state"] == "open"
    assert comments(github, 2) == []
    assert "Supersedes #1." in pull(github, 3)["body"]


def test_the_owner_and_the_files_are_those_that_are_known_here(
    ran: Ran, github: FakeGitHub
) -> None:
    ran.keep(1)
    ran.change(
        ran.pull(1) / "evidence.json",
        lambda d: (
            d["stack"].update(owner="Alice Smith"),
            d["iteration"].update(files_changed=["docs/harmless.md"]),
        ),
    )

    publish(ran, github)

    body = pull(github, 1)["body"]
    assert "ads-ranking-team answers for it." in body
    kept = json.loads(github.git("show", f"{EVIDENCE}:pulls/{FIRST}/evidence.json"))
    assert kept["stack"]["owner"] == "ads-ranking-team"
    assert kept["iteration"]["files_changed"] == ["models/features/1/model.py"]
    for text in ("Alice Smith", "harmless.md"):
        assert text not in body


def test_the_evidence_stays_readable_as_what_was_measured(ran: Ran) -> None:
    found = claims.read(ran.out)

    assert found.branches == (FIRST, SECOND)
    assert [claim.commit for claim in found.pulls] == [ran.commit(1), ran.commit(2)]
    assert [claim.base_commit for claim in found.pulls] == [ran.base, ran.commit(1)]
    assert json.loads((ran.out / "run.json").read_text())["run_id"] == found.report.run_id


def test_checked_claims_leave_the_checkout_as_it_is(ran: Ran, tmp_path: Path) -> None:
    before = git.git(ran.root, "for-each-ref")

    claims.check_commits(claims.read(ran.out), ran.root)

    assert git.git(ran.root, "for-each-ref") == before
    assert git.changed_paths(ran.root) == []
