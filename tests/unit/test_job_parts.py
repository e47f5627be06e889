"""What jobs are made of: mirrors and checkouts in real git, records, manifests, programs, notes."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.jobs import checkouts, manifests, measuring, processes, records
from bot.jobs.analyse import versions_at
from bot.jobs.context import Context, Home, Stopped, own_program
from bot.jobs.measuring import Measurement
from bot.render.comment import Told
from bot.wake.jobs import JobSpec
from layers.errors import Inconclusive, InvalidInput, Missing, ToolFailed
from layers.manifest import MANIFEST_PATH, Manifest
from layers.repository import git
from layers.repository.patches import MOST_FILES
from tests.e2e.proposals import git as commit_by_hand
from tests.github.git_store import BareRepository
from tests.unit.test_judge_rendering import rejected
from tests.unit.test_verify_command import verified

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class FolderRemote:
    """Fetches from a repository in a folder, where a `Remote` fetches from GitHub."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def fetch(self, root: Path, *refspecs: str) -> None:
        subprocess.run(
            ["git", "fetch", "--quiet", "--no-tags", str(self._place), *refspecs],
            cwd=root,
            check=True,
        )


@pytest.fixture
def home(tiny_repo: Path, tmp_path: Path) -> Home:
    return Home(FolderRemote(tiny_repo), tmp_path / "work", "owner/serve")


@pytest.fixture
def mirror(home: Home) -> Path:
    return checkouts.fetched(home, branches=("main",))


def write(repo: Path, name: str, content: bytes | str) -> str:
    """Commit a file; return the commit."""
    data = content.encode() if isinstance(content, str) else content
    (repo / name).parent.mkdir(parents=True, exist_ok=True)
    (repo / name).write_bytes(data)
    commit_by_hand(repo, "add", "--all")
    commit_by_hand(repo, "commit", "--quiet", "--message", f"Change {name}")
    return commit_by_hand(repo, "rev-parse", "HEAD").strip()


# Checkouts


def test_a_checkout_has_the_commit_as_its_branch_and_stays(mirror, tiny_repo, tmp_path) -> None:
    head = git.resolve(tiny_repo, "HEAD")
    place = checkouts.check_out(mirror, head, "main", tmp_path / "job" / "checkout")
    assert git.resolve(place, "refs/heads/main") == head
    assert git.changed_paths(place) == []
    git.git(place, "branch", "fvec/features/x")
    assert checkouts.check_out(mirror, head, "main", place) == place
    assert git.tip(place, "fvec/features/x") == head
    assert git.tip(mirror, "fvec/features/x") is None  # a job's branches are its own


def test_what_was_learned_comes_with_a_checkout(home, tiny_repo, tmp_path) -> None:
    git.git(tiny_repo, "branch", checkouts.KNOWLEDGE)
    mirror = checkouts.fetched(home, branches=("main", checkouts.KNOWLEDGE))
    head = git.resolve(tiny_repo, "HEAD")
    place = checkouts.check_out(mirror, head, "main", tmp_path / "checkout")
    assert git.tip(place, checkouts.KNOWLEDGE) == head


def test_what_was_learned_on_a_branch_that_is_gone_comes_with_none(
    home, tiny_repo, tmp_path
) -> None:
    git.git(tiny_repo, "branch", checkouts.KNOWLEDGE)
    checkouts.fetched(home, branches=("main", checkouts.KNOWLEDGE))
    git.git(tiny_repo, "branch", "--delete", "--force", checkouts.KNOWLEDGE)
    for _ in range(2):
        mirror = checkouts.fetched(home, branches=("main",), gone=(checkouts.KNOWLEDGE,))
    head = git.resolve(tiny_repo, "HEAD")
    place = checkouts.check_out(mirror, head, "main", tmp_path / "checkout")
    assert git.tip(place, checkouts.KNOWLEDGE) is None


def test_the_head_of_a_pull_request_is_kept_no_longer_than_its_job(home, tiny_repo) -> None:
    git.git(tiny_repo, "update-ref", "refs/pull/7/head", "HEAD")
    checkouts.forget_pull(home, 7)  # there is no mirror yet
    mirror = checkouts.fetched(home, pull=7)
    assert checkouts.resolved(mirror, checkouts.pull_ref(7)) is not None
    for _ in range(2):
        checkouts.forget_pull(home, 7)
        assert checkouts.resolved(mirror, checkouts.pull_ref(7)) is None


def packs(mirror: Path) -> int:
    return len(list((mirror / "objects" / "pack").glob("*.pack")))


def test_a_mirror_is_packed_unless_a_checkout_borrows_from_it(home, mirror, tiny_repo) -> None:
    for n in range(3):
        write(tiny_repo, "README.md", f"{n}")
        checkouts.fetched(home, branches=("main",))
    head = git.resolve(tiny_repo, "HEAD")
    place = home.folder / "jobs" / "a" / "checkout"
    checkouts.check_out(mirror, head, "main", place)
    before = git.git(mirror, "count-objects")
    checkouts.tidy(home.folder)
    assert git.git(mirror, "count-objects") == before
    shutil.rmtree(place)
    checkouts.tidy(home.folder)
    assert (packs(mirror), git.git(mirror, "count-objects").split()[0]) == (1, "0")
    assert git.resolve(mirror, checkouts.branch_ref("main")) == head


def test_a_mirror_that_nobody_has_used_for_long_is_removed(home, mirror) -> None:
    os.utime(home.folder / checkouts.USED, (0.0, 0.0))
    checkouts.fetched(home, branches=("main",))
    checkouts.tidy(home.folder)
    assert mirror.is_dir()
    os.utime(home.folder / checkouts.USED, (0.0, 0.0))
    checkouts.tidy(home.folder)
    assert not mirror.exists()
    assert checkouts.fetched(home, branches=("main",)) == mirror


def test_a_checkout_leaves_files_of_git_lfs_as_pointers_and_none_are_served(
    home, tiny_repo, tmp_path, monkeypatch
) -> None:
    # Stands for git-lfs as it is set up for a whole machine: without its remote it fails.
    (tmp_path / "gitconfig").write_text(
        '[filter "lfs"]\n\tsmudge = test \\"$GIT_LFS_SKIP_SMUDGE\\" = 1 && cat\n\tclean = cat\n'
        "\trequired = true\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "gitconfig").rename(tmp_path / ".gitconfig")
    write(tiny_repo, ".gitattributes", "*.bin filter=lfs\n")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    head = write(tiny_repo, "models/weights.bin", pointer)
    mirror = checkouts.fetched(home, branches=("main",))
    place = checkouts.check_out(mirror, head, "main", tmp_path / "checkout")
    with pytest.raises(InvalidInput, match=r"'models/weights.bin' is a pointer to a file"):
        git.check_whole(place, "models")
    git.check_whole(place, "traffic")


def test_a_checkout_that_could_not_be_made_leaves_nothing(mirror, tmp_path) -> None:
    with pytest.raises(ToolFailed):
        checkouts.check_out(mirror, "0" * 40, "main", tmp_path / "job" / "checkout")
    assert list((tmp_path / "job").iterdir()) == []


@pytest.mark.parametrize("branch", ["a..b", "a b", "-x~", "a.lock"])
def test_a_name_that_is_no_branch_is_not_fetched(home, branch) -> None:
    with pytest.raises(ToolFailed):
        checkouts.fetched(home, branches=(branch,))


def test_the_patch_of_a_pull_request_is_git_s(home, tiny_repo) -> None:
    base = git.resolve(tiny_repo, "HEAD")
    head = write(tiny_repo, "models/new.bin", b"\0\1")
    mirror = checkouts.fetched(home, branches=("main",))
    assert checkouts.patch(mirror, base, head) == git.patch_between(tiny_repo, base, head).encode()
    assert checkouts.builds_on(mirror, head, base)
    assert not checkouts.builds_on(mirror, base, head)
    assert checkouts.parted(mirror, head, base) == base


def test_a_pull_request_that_would_fill_the_memory_is_not_read(
    home, tiny_repo, monkeypatch
) -> None:
    base = git.resolve(tiny_repo, "HEAD")
    monkeypatch.setattr(checkouts, "MOST_CHANGED_BYTES", 1000)
    head = write(tiny_repo, "models/large.bin", b"x" * 2000)
    mirror = checkouts.fetched(home, branches=("main",))
    with pytest.raises(InvalidInput, match="have 2,000 bytes, and 1,000 are read"):
        checkouts.patch(mirror, base, head)


def test_a_pull_request_of_too_many_files_is_not_read(home, tiny_repo) -> None:
    base = git.resolve(tiny_repo, "HEAD")
    for n in range(MOST_FILES):
        (tiny_repo / f"{n}.txt").write_text("")
    head = write(tiny_repo, "last.txt", "")
    mirror = checkouts.fetched(home, branches=("main",))
    with pytest.raises(InvalidInput, match=r"changes more than 1,000 files"):
        checkouts.patch(mirror, base, head)


def test_a_tree_that_unfolds_without_end_is_refused_unread(tmp_path) -> None:
    store = BareRepository(tmp_path / "owner" / "serve.git", "main")
    base = store.commit_files(None, {"model.py": "slow = True\n"}, "The stack", "owner", NOW)
    head = store.write_commit(store.unfolding(8), [base], "Unfold", "somebody", NOW)
    store.update_ref("refs/heads/main", head)
    mirror = checkouts.fetched(
        Home(FolderRemote(store.path), tmp_path / "work", "owner/serve"), branches=("main",)
    )
    with pytest.raises(InvalidInput, match="changes more than 1,000 files or folders"):
        checkouts.patch(mirror, base, head)


def test_histories_without_a_common_commit_are_refused(home, tiny_repo) -> None:
    git.git(tiny_repo, "checkout", "--quiet", "--orphan", "other")
    other = write(tiny_repo, "x", "x")
    mirror = checkouts.fetched(home, branches=("main", "other"))
    with pytest.raises(InvalidInput, match="no commit in common"):
        checkouts.parted(mirror, checkouts.branch_ref("main"), other)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [(["models"], True), (["traffic"], False), (["mod*/**/x.py"], True), (["models/a"], False)],
)
def test_what_is_served_has_changed_or_not(home, tiny_repo, paths, expected) -> None:
    base = git.resolve(tiny_repo, "HEAD")
    head = write(tiny_repo, "models/new/1/x.py", "x = 1\n")
    mirror = checkouts.fetched(home, branches=("main",))
    assert checkouts.changed(mirror, base, head, *paths) is expected


def test_versions_are_read_from_a_commit(home, tiny_repo) -> None:
    write(tiny_repo, "requirements.txt", "torch==2.9.0\n")
    head = write(tiny_repo, "models/ranker/3/model.onnx", b"\0")
    mirror = checkouts.fetched(home, branches=("main",))
    found = versions_at(mirror, head)
    assert found["torch (requirements.txt)"] == "==2.9.0"
    assert found["models/ranker"] == "3"


# Manifests


def manifest(**sections: object) -> Manifest:
    text = json.dumps({**MANIFEST, **sections})
    return manifests.parse(text.encode())


MANIFEST = {
    "schema": "fvec.manifest/1",
    "stack": {"name": "tiny", "models": "models", "entry": "e", "requirements": "requirements.txt"},
    "traffic": {"requests": "traffic/r.bin", "arrivals": "traffic/a.csv"},
    "slo": {"p99_ms": 50},
}


@pytest.mark.parametrize(
    ("then", "now", "refused"),
    [
        ("strict", "strict", False),
        ("strict", "process", False),
        ("process", "process", False),
        ("process", "strict", True),
        ("no-cgroup", "strict", True),
        ("process", "no-cgroup", True),
    ],
)
def test_an_old_manifest_rules_no_weaker_sandbox_than_the_present_one(then, now, refused) -> None:
    text = json.dumps({**MANIFEST, "sandbox": {"mode": then}})
    present = manifest(sandbox={"mode": now})
    if not refused:
        manifests.check_not_weaker(text, present, "0" * 40)
        return
    with pytest.raises(InvalidInput, match=rf"weaker sandbox \({then}\)") as caught:
        manifests.check_not_weaker(text, present, "0" * 40)
    assert (caught.value.hint or "").startswith("rebase it on the default branch")


LIMITS = {"referee": "referee.py:score", "metric": "metric.py:value", "approximate_margin": 0.1}


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ({"slo": {"p99_ms": 60}}, "sets slo.p99_ms to 60, and the default branch to 50"),
        (
            {"sandbox": {"memory_gib": 4096}},
            "sandbox.memory_gib to 4096, and the default branch to 8",
        ),
        ({"sandbox": {"processes": 100_000}}, "sandbox.processes to 100000"),
        (
            {"correctness": {**LIMITS, "reorder": {"abs": 1e-4}}},
            "correctness.reorder.abs to 0.0001",
        ),
        ({"correctness": {**LIMITS, "approximate_margin": 0.2}}, "approximate_margin to 0.2"),
        ({"correctness": {"referee": "other.py:score"}}, "names another referee than"),
        ({"correctness": {"metric": "metric.py:other"}}, "names another metric than"),
    ],
)
def test_an_old_manifest_asks_no_less_than_the_present_one(then, said) -> None:
    tight = {"reorder": {"abs": 1e-5}}
    present = manifest(correctness={**LIMITS, **tight})
    own = {**tight, **then.get("correctness", {})}
    with pytest.raises(InvalidInput, match=said):
        manifests.check_not_weaker(
            json.dumps({**MANIFEST, **then, "correctness": own}), present, "0" * 40
        )


def test_a_margin_that_was_withdrawn_is_not_judged_by() -> None:
    then = json.dumps({**MANIFEST, "correctness": LIMITS})
    with pytest.raises(
        InvalidInput, match=r"approximate_margin to 0\.1, and the default branch to none"
    ):
        manifests.check_not_weaker(
            then, manifest(correctness={**LIMITS, "approximate_margin": None}), "0" * 40
        )


@pytest.mark.parametrize(
    ("then", "now", "free"),
    [
        (None, ["score"], "every float"),
        (["id", "score"], ["score"], "id"),
        (["id"], None, "id"),
        (["score"], ["id", "score"], None),
        (None, None, None),
    ],
)
def test_an_old_manifest_leaves_no_more_outputs_to_the_metric(then, now, free) -> None:
    old = {**LIMITS, **({"approximate_outputs": then} if then else {})}
    present = manifest(correctness={**LIMITS, **({"approximate_outputs": now} if now else {})})
    text = json.dumps({**MANIFEST, "correctness": old})
    if free is None:
        manifests.check_not_weaker(text, present, "0" * 40)
        return
    with pytest.raises(InvalidInput, match=f"lets approximations move {free}, and the default"):
        manifests.check_not_weaker(text, present, "0" * 40)


def test_an_old_manifest_may_ask_more_than_the_present_one() -> None:
    then = {
        "slo": {"p99_ms": 40},
        "correctness": {"reorder": {"abs": 1e-6}},
        "sandbox": {"processes": 16},
    }
    present = manifest(correctness={**LIMITS, "reorder": {"abs": 1e-5}})
    manifests.check_not_weaker(json.dumps({**MANIFEST, **then}), present, "0" * 40)


def test_an_old_referee_judges_nothing(home, tiny_repo) -> None:
    def based_on_now() -> None:
        mirror = checkouts.fetched(home, branches=("main",))
        manifests.check_base(mirror, base, manifests.Loaded(present, "main"))

    rules = json.dumps({**MANIFEST, "correctness": {"referee": "judge/referee.py:score"}})
    present = manifests.parse(rules.encode())
    write(tiny_repo, str(MANIFEST_PATH), rules)
    base = write(tiny_repo, "judge/referee.py", "score = None\n")
    write(tiny_repo, "README.md", "words\n")
    based_on_now()
    write(tiny_repo, "judge/referee.py", "score = max\n")
    with pytest.raises(
        InvalidInput, match=r"has another judge/referee\.py than the default branch"
    ):
        based_on_now()


def test_a_commit_without_a_manifest_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"has no \.github/fvec\.yml"):
        manifests.check_not_weaker(None, manifest(), "0" * 40)


def test_a_wrong_manifest_names_its_place() -> None:
    with pytest.raises(InvalidInput) as caught:
        manifests.parse(b"schema: fvec.manifest/1\nslow: 1\n")
    assert str(caught.value.at).startswith(".github/fvec.yml:")
    with pytest.raises(InvalidInput, match="is not UTF-8"):
        manifests.parse(b"\xff")


def test_what_is_served_is_what_the_manifest_names() -> None:
    step = {"run": ["python", "b.py"], "inputs": ["weights/*.npz"], "outputs": ["m.pt"]}
    stack = {**MANIFEST["stack"], "build": [step]}
    assert manifests.served_paths(manifest(stack=stack)) == [
        "models",
        "requirements.txt",
        ".github/fvec.yml",
        "weights/*.npz",
    ]


# Records

RUN = records.Run(at="t1", job="a", kind="analyse", state="done", why="", summary="")


def test_a_job_that_is_done_again_adds_no_record() -> None:
    other = RUN.model_copy(update={"job": "b", "at": "t2"})
    kept = records.with_run(records.with_run(records.Runs(), RUN), other)
    again = RUN.model_copy(update={"at": "t3", "state": "failed"})
    assert records.with_run(kept, again).runs == [other, RUN.model_copy(update={"state": "failed"})]


def test_records_are_bounded() -> None:
    kept = records.Runs()
    for n in range(records.MOST_RUNS + 5):
        kept = records.with_run(kept, RUN.model_copy(update={"job": str(n)}))
    assert [run.job for run in kept.runs][:2] == ["44", "43"]
    assert len(kept.runs) == records.MOST_RUNS


def test_the_onboarding_is_known_until_an_analysis_says_else() -> None:
    kept = records.with_run(records.Runs(), RUN, onboarding=3)
    rerun = RUN.model_copy(update={"job": "r", "kind": "rerun"})
    assert records.with_run(kept, rerun).onboarding == 3
    assert records.with_run(kept, RUN.model_copy(update={"job": "c"})).onboarding is None


def test_the_history_of_a_pull_request_is_newest_first_and_without_the_job_that_asks() -> None:
    one = records.Report(
        at="t1", job="a", commit="c", verdict="accepted", reason="r", gain="", asked_by="x"
    )
    two = one.model_copy(update={"job": "b", "at": "t2"})
    kept = records.with_report(records.with_report(records.History(), one), two)
    assert [report.job for report in kept.reports] == ["b", "a"]
    assert kept.earlier("b") == [Told("t1", "c", "accepted", "r", "", "x")]
    assert records.with_report(kept, two.model_copy(update={"at": "t9"})) == kept


# The program that measures


def context(home: Home, program: str) -> Context:
    """A job whose program is a line of Python; argv of `fvec` begins at sys.argv[1]."""
    spec = JobSpec(kind="judge", repository="owner/serve", sha="0" * 40, number=1)
    argv = [sys.executable, "-c", program]
    made = Context(spec, None, Named(), home.remote, home.work, fvec=argv)
    made.folder.mkdir(parents=True)
    return made


class Named:
    full_name = "owner/serve"


WANTED = Measurement("judge", "0" * 40, change_class="exact", inputs={"patch.diff": b"diff\n"})
LEAVES = (
    "import pathlib, sys; out = pathlib.Path(sys.argv[sys.argv.index('--out') + 1]); "
    "out.mkdir(exist_ok=True); (out / 'judge.json').write_text('{}')"
)


def test_verdicts_are_results_whatever_the_exit_code(home) -> None:
    for code in (0, 1, 5, 70):
        job = context(
            Home(home.remote, home.work / str(code), "owner/serve"), f"{LEAVES}; sys.exit({code})"
        )
        out = measuring.measure(job, WANTED, home.work)
        assert (out / "judge.json").is_file()
        assert (job.folder / "inputs" / "patch.diff").read_bytes() == b"diff\n"
        assert not (job.folder / "pid").exists()


@pytest.mark.parametrize(
    ("code", "kind"), [(3, InvalidInput), (4, Missing), (5, Inconclusive), (70, ToolFailed)]
)
def test_the_error_of_the_program_is_the_job_s(home, code, kind) -> None:
    told = {"exit_code": code, "error": {"kind": "X", "message": "words", "hint": "do"}}
    job = context(home, f"import sys; print('''{json.dumps(told)}'''); sys.exit({code})")
    with pytest.raises(kind) as caught:
        measuring.measure(job, WANTED, home.work)
    assert (caught.value.message, caught.value.hint) == ("words", "do")


def test_a_program_that_says_nothing_is_told_with_its_log(home) -> None:
    job = context(home, "import sys; sys.stderr.write('it hurts'); sys.exit(9)")
    with pytest.raises(ToolFailed, match=r"ended with exit code 9\n  \| it hurts"):
        measuring.measure(job, WANTED, home.work)


def test_no_report_and_no_error_is_a_failure_too(home) -> None:
    with pytest.raises(ToolFailed, match="ended with exit code 0"):
        measuring.measure(context(home, "pass"), WANTED, home.work)


def test_a_program_left_by_a_killed_worker_is_ended_first(home) -> None:
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    job = context(home, LEAVES)
    processes.note(job.folder / "pid", left.pid)
    measuring.measure(job, WANTED, home.work)
    assert left.wait() == -signal.SIGTERM


def sleeper(*inherited: int) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(argv, start_new_session=True, pass_fds=inherited)


def test_the_program_of_a_worker_that_is_no_more_is_ended_whatever_its_job(home) -> None:
    with sleeper() as orphan, sleeper() as held:
        job = context(home, LEAVES)
        for name, process in (("orphan", orphan), ("held", held)):
            (job.folder.parent / name).mkdir()
            processes.note(job.folder.parent / name / "pid", process.pid)
        of_orphan = job.folder.parent / "orphan" / "pid"
        pid, started, *_ = of_orphan.read_text().split()
        of_orphan.write_text(f"{pid} {started} 99999999 1\n")
        measuring.measure(job, WANTED, home.work)
        assert orphan.wait() == -signal.SIGTERM
        assert held.poll() is None  # its worker is this process, which lives
        held.kill()


def test_nothing_is_measured_beside_a_program_that_was_left(home) -> None:
    job, lock = context(home, LEAVES), home.work / measuring.LOCK
    with processes.alone(lock, lambda: None) as descriptor:
        left = sleeper(descriptor)
    asked = []

    def stopping() -> None:
        asked.append((job.folder / "stdout.json").exists())
        left.kill()
        left.wait()

    job.stopping = stopping
    measuring.measure(job, WANTED, home.work)
    assert asked[0] is False


def test_a_job_that_waits_for_the_machine_is_stopped_like_any(home) -> None:
    job = context(home, LEAVES)
    job.stopping = lambda: "stopping"
    with processes.alone(home.work / measuring.LOCK, lambda: None), pytest.raises(Stopped):
        measuring.measure(job, WANTED, home.work)


def test_a_process_that_got_the_id_of_an_older_one_is_left_alone(tmp_path) -> None:
    file = tmp_path / "pid"
    file.write_text(f"{os.getpid()} 1\n")
    processes.end_left(file)
    assert not file.exists()
    for text in ("", "x y", "1 1", "-5 3", "99999999 7"):
        file.write_text(text)
        processes.end_left(file)


def test_a_report_is_read_as_outside_input(tmp_path) -> None:
    patch = b"diff\n"
    sha256 = hashlib.sha256(patch).hexdigest()
    report = rejected().model_copy(update={"patch_sha256": sha256})
    file = tmp_path / "judge.json"
    file.write_text(report.model_dump_json(by_alias=True))
    assert measuring.judgement(tmp_path, "judge", patch) == report
    with pytest.raises(InvalidInput, match="about another patch"):
        measuring.judgement(tmp_path, "judge", b"other")
    file.write_text(file.read_text().replace('"verdict"', '"bonus": 1, "verdict"', 1))
    with pytest.raises(InvalidInput, match="not a report of fvec: bonus"):
        measuring.judgement(tmp_path, "judge", patch)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="cannot be read"):
        measuring.judgement(tmp_path, "judge", patch)


def test_a_verification_is_held_to_the_patch_of_its_judgement(tmp_path) -> None:
    patch = b"diff\n"
    told = {"patch_sha256": hashlib.sha256(patch).hexdigest()}
    report = verified()
    report = report.model_copy(update={"judged": report.judged.model_copy(update=told)})
    (tmp_path / "verify.json").write_text(report.model_dump_json(by_alias=True))
    assert measuring.judgement(tmp_path, "verify", patch) == report


def test_what_a_job_is_called_is_a_plain_name(home) -> None:
    spec = JobSpec(kind="help", repository="owner/serve", number=1)
    for odd in ("../x", "a/b", "a b", "x" * 41):
        with pytest.raises(ValueError, match="not an id of a job"):
            Context(spec, None, Named(), home.remote, home.work, attempt_of=odd)


def test_the_program_that_measures_is_the_one_beside_the_interpreter() -> None:
    (program,) = own_program()
    assert Path(program).parent == Path(sys.executable).parent
