"""The GitHub that the other tests talk to: git, pull requests, permissions and faults."""

from __future__ import annotations

import hashlib
import http.client

import pytest

from tests.github.asking import BRANCH, REPO, ask, cloned, committed, git
from tests.github.fake_github import Gitlink, Link, Script

pytest_plugins = ["tests.github.fixtures"]


# --- git -------------------------------------------------------------------------------------


def test_clone_and_push_go_over_smart_http(fake, tmp_path):
    work = cloned(fake, tmp_path)
    commit = committed(work, "model.py", "x = 1\n")

    pushed = git(work, "push", "--quiet", "origin", f"HEAD:refs/heads/{BRANCH}", token=fake.token)

    assert pushed.returncode == 0, pushed.stderr
    assert fake.branches() == {"main": fake.sha(), BRANCH: commit}
    assert [(e.path, e.login, e.status) for e in fake.writes] == [
        ("/owner/serve.git/git-receive-pack", "fvec[bot]", 200)
    ]


def test_a_large_push_is_taken_whole(fake, tmp_path):
    work = cloned(fake, tmp_path)
    lines = (hashlib.sha256(str(n).encode()).hexdigest() for n in range(40_000))
    commit = committed(work, "large.txt", "\n".join(lines))  # beyond what git posts in one piece

    git(work, "push", "--quiet", "origin", "HEAD:refs/heads/fvec/large", token=fake.token)

    assert fake.sha("fvec/large") == commit


def test_a_wrong_token_is_refused(fake, tmp_path):
    done = git(tmp_path, "clone", "--quiet", fake.git_url, "work", token=f"not-{fake.token}")

    assert (done.returncode, (tmp_path / "work").exists()) == (128, False)
    assert [(one.status, one.login) for one in fake.requests] == [(401, "")]


@pytest.mark.parametrize("permission", ["read", "triage"])
def test_who_may_not_write_may_not_push(fake, tmp_path, permission):
    work = cloned(fake, tmp_path)
    committed(work, "model.py", "x = 1\n")
    token = fake.user("reader", permission)

    done = git(work, "push", "--quiet", "origin", "HEAD:refs/heads/topic", token=token)

    assert done.returncode != 0
    assert "403" in done.stderr
    assert fake.sha("topic") is None


def test_a_protected_branch_takes_no_push(fake, tmp_path):
    work = cloned(fake, tmp_path)
    committed(work, "model.py", "x = 1\n")
    before = fake.sha()
    fake.protect("main")

    done = git(work, "push", "--quiet", "origin", "HEAD:refs/heads/main", token=fake.token)

    assert done.returncode != 0
    assert "GH006" in done.stderr
    assert fake.sha() == before


def test_an_app_may_not_push_workflows(fake, tmp_path):
    work = cloned(fake, tmp_path)
    committed(work, ".github/workflows/ci.yml", "on: push\n")

    done = git(work, "push", "--quiet", "origin", f"HEAD:refs/heads/{BRANCH}", token=fake.token)

    assert done.returncode != 0
    assert "without `workflows` permission" in done.stderr
    assert fake.sha(BRANCH) is None


def test_files_of_every_kind_can_be_committed(fake):
    fake.commit(
        {
            "link": Link("/etc/passwd"),
            "run.sh": Script("#!/bin/sh\n"),
            "module": Gitlink("1" * 40),
            "bytes": b"\x00",
            "README.md": None,
        }
    )

    listed = fake.git("ls-tree", "-r", "main").splitlines()

    assert [(line.split()[0], line.split("\t")[1]) for line in listed] == [
        ("100644", "bytes"),
        ("120000", "link"),
        ("160000", "module"),
        ("100755", "run.sh"),
    ]


# --- pull requests ---------------------------------------------------------------------------


def test_the_head_of_a_pull_request_follows_its_branch(fake, tmp_path):
    number = fake.open_pull("topic", files={"a": "1"})
    after = fake.commit({"a": "2"}, branch="topic", login="maintainer")

    (pull,) = fake.pulls()

    assert (pull["number"], pull["head"]["sha"], pull["commits"]) == (number, after, 2)
    assert fake.git("rev-parse", f"refs/pull/{number}/head") == after


def test_the_head_in_a_fork_can_be_fetched_by_its_number(fake, tmp_path):
    number = fake.open_pull("topic", login="outsider", fork="outsider/serve", files={"a": "1"})
    after = fake.commit_to_pull(number, {"a": "2"}, login="outsider")
    work = cloned(fake, tmp_path)

    fetched = git(work, "fetch", "--quiet", "origin", f"refs/pull/{number}/head", token=fake.token)

    assert fetched.returncode == 0, fetched.stderr
    assert git(work, "rev-parse", "FETCH_HEAD").stdout.strip() == after
    assert fake.branches().keys() == {"main"}
    assert fake.pulls()[0]["head"]["repo"]["full_name"] == "outsider/serve"


@pytest.mark.parametrize(("method", "parents"), [("merge", 2), ("squash", 1)])
def test_a_person_merges(fake, method, parents):
    number = fake.open_pull("topic", files={"a": "1"})

    merged = fake.merge(number, method=method)

    (pull,) = fake.pulls()
    assert (pull["state"], pull["merged"], pull["merge_commit_sha"]) == ("closed", True, merged)
    assert fake.sha() == merged
    assert len(fake.git("show", "--no-patch", "--format=%P", merged).split()) == parents


def test_a_pull_request_without_its_branch_is_closed(fake):
    fake.open_pull("topic", files={"a": "1"})
    fake.delete_branch("topic")

    (pull,) = fake.pulls()

    assert (pull["state"], pull["merged"]) == ("closed", False)


def test_what_is_there_already_is_refused(fake):
    head = fake.commit({"a": "1"}, branch=BRANCH, login="fvec[bot]")
    wanted = {"title": "Faster", "head": BRANCH, "base": "main"}

    assert ask(fake, "POST", f"{REPO}/pulls", wanted)[0] == 201
    pull = ask(fake, "POST", f"{REPO}/pulls", wanted)
    ref = ask(fake, "POST", f"{REPO}/git/refs", {"ref": f"refs/heads/{BRANCH}", "sha": head})

    told = "A pull request already exists for owner:fvec/astype/1."
    assert (pull[0], pull[1]["errors"][0]["message"]) == (422, told)
    assert (ref[0], ref[1]["message"]) == (422, "Reference already exists")
    assert len(fake.pulls()) == 1


def test_a_ref_is_moved_forward_alone(fake):
    start = fake.sha()
    fake.commit({"a": "1"}, branch=BRANCH)

    answer = ask(fake, "PATCH", f"{REPO}/git/refs/heads/{BRANCH}", {"sha": start})

    assert (answer[0], answer[1]["message"]) == (422, "Update is not a fast forward")


# --- who may ---------------------------------------------------------------------------------


def test_a_reader_may_comment_but_not_label_or_open_pull_requests(fake):
    number = fake.open_issue("Slow")
    fake.commit({"a": "1"}, branch="topic")
    token = fake.token_of("outsider")

    answers = [
        ask(fake, "POST", path, body, token=token)[0]
        for path, body in (
            (f"{REPO}/issues/{number}/comments", {"body": "/fvec help"}),
            (f"{REPO}/issues/{number}/labels", {"labels": ["fvec"]}),
            (f"{REPO}/pulls", {"title": "t", "head": "topic", "base": "main"}),
            (f"{REPO}/git/blobs", {"content": "x"}),
        )
    ]

    assert answers == [201, 403, 403, 403]


def test_only_an_app_writes_check_runs_and_only_its_own(fake):
    wanted = {"name": "fvec", "head_sha": fake.sha(), "status": "in_progress"}
    _, made, _ = ask(fake, "POST", f"{REPO}/check-runs", wanted)
    path = f"{REPO}/check-runs/{made['id']}"
    actions = fake.app_token(login="github-actions[bot]")

    answers = [
        ask(fake, "POST", f"{REPO}/check-runs", wanted, token=fake.token_of("owner"))[0],
        ask(fake, "PATCH", path, {"status": "queued"}, token=actions)[0],
        ask(fake, "PATCH", path, {"status": "queued"})[0],
    ]

    assert answers == [403, 403, 200]
    assert [run["app"]["slug"] for run in fake.check_runs(fake.sha())] == ["fvec"]


def test_a_token_may_what_it_was_granted(fake):
    fake.commit({"a": "1"}, branch=BRANCH)
    token = fake.app_token({"contents": "read", "issues": "write", "metadata": "read"})

    answers = [
        ask(fake, *request, token=token)[0]
        for request in (
            ("GET", f"{REPO}/contents/README.md"),
            ("POST", f"{REPO}/issues", {"title": "fvec"}),
            ("POST", f"{REPO}/git/blobs", {"content": "x"}),
            ("GET", f"{REPO}/pulls"),
            ("GET", "/user"),
            ("GET", "/app"),
        )
    ]

    assert answers == [200, 201, 403, 403, 403, 401]


def test_a_stranger_sees_nothing(fake):
    unknown = ask(fake, "GET", REPO, token=f"not-{fake.token}")
    hidden = ask(fake, "GET", REPO, token=fake.user("nobody", "none"))
    elsewhere = ask(fake, "GET", "/repos/owner/other")

    assert [answer[0] for answer in (unknown, hidden, elsewhere)] == [401, 404, 404]


def test_a_token_ends(fake):
    fake.token_expires(fake.token, fake.now())

    assert ask(fake, "GET", REPO)[0] == 401


def test_addresses_are_those_of_the_host_that_was_asked(fake):
    for n in range(3):
        fake.open_issue(f"Issue {n}")

    _, (issue,), headers = ask(fake, "GET", f"{REPO}/issues?per_page=1&page=2")

    assert (issue["title"], issue["url"]) == ("Issue 1", f"{fake.url}{REPO}/issues/2")
    assert headers["Link"].startswith(f'<{fake.url}{REPO}/issues?per_page=1&page=1>; rel="prev"')


# --- faults ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status", "made"),
    [
        ("502", 502, 0),
        ("500", 500, 0),
        ("502 after", 502, 1),
        ("403 permission", 403, 0),
        ("403 secondary", 403, 0),
        ("403 primary", 403, 0),
        ("429", 429, 0),
        ("404", 404, 0),
        ("409", 409, 0),
        ("422", 422, 0),
    ],
)
def test_a_fault_answers_in_place_of_the_write(fake, kind, status, made):
    fault = fake.faults.add(kind, path="*/issues", retry_after_s=7)

    answer = ask(fake, "POST", f"{REPO}/issues", {"title": "Slow"})

    assert (answer[0], answer[2]["Retry-After"], len(fake.issues())) == (status, "7", made)
    assert (fault.hits, fake.requests[0].fault, fake.requests[0].performed) == (1, kind, bool(made))
    assert ask(fake, "POST", f"{REPO}/issues", {"title": "Slow"})[0] == 201


@pytest.mark.parametrize(("kind", "made"), [("cut", 0), ("cut after", 1)])
def test_a_connection_can_be_cut(fake, kind, made):
    fake.faults.add(kind)

    with pytest.raises(http.client.RemoteDisconnected):
        ask(fake, "POST", f"{REPO}/issues", {"title": "Slow"})

    assert ([e.status for e in fake.requests], len(fake.issues())) == ([0], made)


def test_a_fault_waits_for_the_nth_request_that_it_is_about(fake):
    fake.faults.add("502", method="GET", path=f"{REPO}/iss*", nth=2, times=2)

    asked = [("GET", REPO), *[("GET", f"{REPO}/issues")] * 4]

    assert [ask(fake, *request)[0] for request in asked] == [200, 200, 502, 502, 200]


def test_a_push_can_be_lost_after_it_was_done(fake, tmp_path):
    work = cloned(fake, tmp_path)
    commit = committed(work, "model.py", "x = 1\n")
    fake.faults.add("502 after", method="POST", path="*.git/git-receive-pack")

    done = git(work, "push", "--quiet", "origin", f"HEAD:refs/heads/{BRANCH}", token=fake.token)

    assert done.returncode != 0
    assert fake.sha(BRANCH) == commit


# --- going back ------------------------------------------------------------------------------


def test_what_was_noted_is_put_back_each_time(fake, tmp_path):
    number = fake.open_pull(BRANCH, files={"a.py": "a = 1\n"})
    first = fake.comment(number, "before")
    before, put_back = shown(fake, number), fake.noted()
    made = []
    for folder in (tmp_path / "once", tmp_path / "again"):
        folder.mkdir()
        work = cloned(fake, folder)
        committed(work, "a.py", "a = 2\n")
        head = f"HEAD:refs/heads/{BRANCH}"
        pushed = git(work, "push", "--force", "origin", head, token=fake.token)
        assert pushed.returncode == 0, pushed.stderr
        fake.edit_comment(first, "edited")
        made.append((fake.comment(number, "after"), fake.open_issue("after")))
        assert shown(fake, number) != before
        put_back()
        assert shown(fake, number) == before
    assert made[0] == made[1]  # the same numbers are given again


def shown(fake, number):
    """What people see: branches, pull requests with their heads, issues and comments."""
    return fake.branches(), fake.pulls(), fake.issues(), fake.comments(number)
