"""What runs learned, published on a GitHub on loopback: people and other runs write there too."""

from __future__ import annotations

import threading
from datetime import date
from pathlib import Path

import pytest

from bot.github.auth import TokenCredentials
from bot.github.client import connect
from bot.github.knowledge import KEY, PublishedKnowledge, publish_knowledge
from bot.github.repository import Repository, marker
from bot.github.transport import Moved, Remote
from knowledge import yamlfile
from knowledge.cards import CookbookCard, Finding, SkillCard
from knowledge.memory import Issue, Memory, parsed
from knowledge.store import builtin_directory, load_cards
from layers.agents.memory import kept
from layers.errors import InvalidInput
from layers.loop import learning
from layers.repository import git
from layers.repository.stack import Stack
from tests.github.fake_github import FakeGitHub, Link
from tests.github_remote import checkout_of, commit, plain_git, remote_of
from tests.passing_time import PassingTime
from tests.render_fixture import run_report
from tests.unit.test_learning import finding, refine

pytest_plugins = ["tests.github.fixtures"]

KNOWLEDGE = "fvec/knowledge"
CARD = "knowledge/cookbook/features/lookups-one-pass.yaml"
OTHER = "knowledge/cookbook/config/queue-delay.yaml"
SKILL = "knowledge/skills/algorithm/partial-top-k.yaml"
MEMORY = "knowledge/memory.yaml"
TINY = Path(__file__).parents[1] / "tiny_stack"


@pytest.fixture
def stack(fake: FakeGitHub) -> FakeGitHub:
    """GitHub with the tiny stack on main."""
    made = {".bin", ".csv", ".pyc"}
    files = {
        path.relative_to(TINY).as_posix(): path.read_bytes()
        for path in TINY.rglob("*")
        if path.is_file() and path.suffix not in made
    }
    fake.seed(files)
    return fake


def opened(fake: FakeGitHub) -> Repository:
    """The repository as the bot sees it; nobody waits for GitHub."""
    credentials = TokenCredentials(fake.token, login=fake.login, api_url=fake.url)
    client = connect(credentials, throttle=False, clock=PassingTime().clock)
    return client.repository(fake.full_name)


@pytest.fixture
def repository(stack: FakeGitHub) -> Repository:
    return opened(stack)


@pytest.fixture
def remote(stack: FakeGitHub) -> Remote:
    return remote_of(stack)


def found(run: str, **changes: object) -> Finding:
    """A finding of a run: of another commit for each."""
    number = int(run.rpartition("-")[2])
    values = {"run": run, "date": date(2026, 1, number), "commit": f"{number:040x}"}
    return finding(**{**values, **changes})


def learn(root: Path, run: str, *, other: bool = False) -> str:
    """Let a run learn about one card, or two; return the local tip."""
    told = {"lookups_one_pass": found(run)} | ({"queue_delay": found(run)} if other else {})
    refine(root, root.with_name(f"{root.name}-{run}"), **told)
    return str(git.tip(root, KNOWLEDGE))


def text(fake: FakeGitHub, path: str = CARD, branch: str = KNOWLEDGE) -> str:
    return fake.world.git.run("show", f"{branch}:{path}").decode()


def runs(content: str) -> list[str]:
    """The runs of a card's findings, newest first."""
    return [one.run for one in yamlfile.loads(content, Path("card"), CookbookCard).findings]


def paths(fake: FakeGitHub, branch: str = KNOWLEDGE) -> list[str]:
    return [
        path
        for path in fake.git("ls-tree", "-r", "--name-only", branch).split("\n")
        if path.startswith("knowledge/")
    ]


def publish(
    root: Path, remote: Remote, repository: Repository, *problems: str
) -> PublishedKnowledge:
    report = run_report()
    learned = report.knowledge.model_copy(update={"problems": list(problems)})
    report = report.model_copy(update={"knowledge": learned})
    return publish_knowledge(root, remote, repository, "main", report)


@pytest.fixture
def published(stack, remote, repository, tmp_path) -> Path:
    """A checkout that has published what its first run learned, in pull request 1."""
    root = checkout_of(remote, tmp_path / "first")
    learn(root, "run-1")
    assert publish(root, remote, repository).state == "opened"
    return root


@pytest.fixture
def later(published, remote, tmp_path) -> Path:
    """Another checkout, made after that, with what was learned since by a second run."""
    root = checkout_of(remote, tmp_path / "later", KNOWLEDGE)
    learn(root, "run-2")
    return root


# The branch and its pull request


def test_what_a_run_learned_is_a_pull_request_of_its_own(
    stack, remote, repository, tmp_path
) -> None:
    root = checkout_of(remote, tmp_path / "checkout")
    tip = learn(root, "run-1", other=True)

    told = publish(root, remote, repository, "fvec/knowledge:knowledge/x.yaml:1:1: odd")

    (pull,) = stack.pulls()
    assert told == PublishedKnowledge("opened", tip, 1, f"{stack.url}/owner/serve/pull/1")
    assert stack.branches() == {"main": stack.sha("main"), KNOWLEDGE: tip}
    assert (pull["title"], pull["draft"]) == ("knowledge: 2 findings on 2 cards", True)
    assert (pull["base"]["ref"], pull["head"]["ref"]) == ("main", KNOWLEDGE)
    assert stack.labels(1) == ["fvec"]
    first, *body = pull["body"].splitlines()
    assert first == marker(KEY)
    for words in (
        "`lookups-one-pass`",
        "`queue-delay`",
        "`run-1`",
        "odd",
        "serving answers for it.",
    ):
        assert words in "\n".join(body)
    assert paths(stack) == [OTHER, CARD]


def test_publishing_once_more_writes_nothing(stack, published, remote, repository) -> None:
    writes = len(stack.writes)
    told = publish(published, remote, repository)
    assert (told.state, told.commit, told.number) == ("unchanged", stack.sha(KNOWLEDGE), 1)
    assert len(stack.writes) == writes


def test_where_nothing_was_learned_nothing_is_published(
    stack, remote, repository, tmp_path
) -> None:
    root = checkout_of(remote, tmp_path / "checkout")
    assert publish(root, remote, repository) == PublishedKnowledge("nothing")
    assert stack.writes == []


def test_a_later_run_goes_on_in_the_same_pull_request(stack, later, remote, repository) -> None:
    tip = git.tip(later, KNOWLEDGE)
    told = publish(later, remote, repository)
    assert (told.state, told.commit, told.number) == ("updated", tip, 1)
    assert runs(text(stack)) == ["run-2", "run-1"]
    (pull,) = stack.pulls()
    assert pull["title"] == "knowledge: 1 finding on 1 card"  # a title is set once
    assert "`run-2`" in pull["body"]


def test_a_title_that_a_person_gave_stays(stack, published, later, remote, repository) -> None:
    stack.world.issues[1].title = "What we know"
    publish(later, remote, repository)
    assert stack.pulls()[0]["title"] == "What we know"


def test_closed_means_no_and_the_branch_holds_what_was_learned(
    stack, published, later, remote, repository
) -> None:
    stack.close(1)
    told = publish(later, remote, repository)
    assert (told.state, told.number) == ("closed", 1)
    assert runs(text(stack)) == ["run-2", "run-1"]
    assert len(stack.pulls()) == 1
    assert stack.comments(1) == []


def test_the_pull_request_of_a_person_is_left_as_it_is(
    stack, published, later, remote, repository
) -> None:
    stack.close(1)
    number = stack.open_pull(KNOWLEDGE, title="Mine", body="My words")
    told = publish(later, remote, repository)
    assert (told.state, told.number) == ("updated", number)
    assert (stack.pulls()[1]["title"], stack.pulls()[1]["body"]) == ("Mine", "My words")


# People and other runs


def test_two_runs_and_a_persons_edit_are_all_kept(stack, remote, repository, tmp_path) -> None:
    first, second = (checkout_of(remote, tmp_path / name) for name in ("first", "second"))
    learn(first, "run-1")
    learn(second, "run-2", other=True)
    publish(first, remote, repository)
    edited = text(stack).replace(
        "id: lookups-one-pass\n", "id: lookups-one-pass  # ours since the spring\n"
    )
    edited = edited.replace("findings:\n", "# look at the last one twice\nfindings:\n")
    theirs = stack.commit({CARD: edited}, branch=KNOWLEDGE, login="maintainer")

    told = publish(second, remote, repository)

    now = text(stack)
    assert (told.state, told.conflicts) == ("updated", ())
    assert runs(now) == ["run-2", "run-1"]
    assert runs(text(stack, OTHER)) == ["run-2"]
    head, _, _ = edited.partition("  - date:")
    assert now.startswith(head)
    assert git.tip(second, KNOWLEDGE) == stack.sha(KNOWLEDGE) == told.commit
    assert stack.git("rev-parse", f"{KNOWLEDGE}~1") == theirs
    assert stack.git("log", "--format=%s", f"main..{KNOWLEDGE}").split("\n") == [
        "Refine 2 cards from run run-2",
        "Change by hand",
        "Refine 1 card from run run-1",
    ]


def test_somebody_who_commits_while_the_push_is_on_its_way_loses_nothing(
    stack, published, later, remote, repository
) -> None:
    theirs: list[str] = []

    def commit_too(exchange) -> None:
        if exchange.query.get("service") == "git-receive-pack" and len(theirs) < 2:
            edited = f"# edit {len(theirs)}\n{text(stack)}"
            theirs.append(stack.commit({CARD: edited}, branch=KNOWLEDGE, login="maintainer"))

    stack.faults.after = commit_too
    publish(later, remote, repository)

    assert text(stack).startswith("# edit 1\n# edit 0\n")
    assert runs(text(stack)) == ["run-2", "run-1"]
    assert stack.git("rev-parse", f"{KNOWLEDGE}~1") == theirs[-1]


def test_a_persons_checkout_of_the_branch_is_not_moved_and_nothing_is_pushed(
    stack, later, remote, repository
) -> None:
    stack.commit({CARD: f"# theirs\n{text(stack)}"}, branch=KNOWLEDGE, login="maintainer")
    theirs, ours = stack.git("rev-parse", KNOWLEDGE), git.tip(later, KNOWLEDGE)
    plain_git(later, "worktree", "add", "--quiet", str(later.with_name("theirs")), KNOWLEDGE)

    with pytest.raises(InvalidInput, match="checked out in"):
        publish(later, remote, repository)

    assert git.tip(later, KNOWLEDGE) == ours
    assert stack.git("rev-parse", KNOWLEDGE) == theirs


def test_publication_is_given_up_when_others_are_always_faster(
    stack, published, later, remote, repository
) -> None:
    def commit_too(exchange) -> None:
        if exchange.query.get("service") == "git-receive-pack":
            stack.commit({CARD: f"# more\n{text(stack)}"}, branch=KNOWLEDGE, login="maintainer")

    stack.faults.after = commit_too
    with pytest.raises(Moved):
        publish(later, remote, repository)
    stack.faults.after = None
    publish(later, remote, repository)  # nothing was lost
    assert runs(text(stack)) == ["run-2", "run-1"]
    assert text(stack).startswith("# more\n" * 5)


def test_publications_at_the_same_time_keep_everything(stack, remote, tmp_path) -> None:
    roots = [checkout_of(remote, tmp_path / f"checkout-{n}") for n in range(1, 4)]
    for number, root in enumerate(roots, 1):
        learn(root, f"run-{number}")
    told: list[int | None] = []

    def one(root: Path) -> None:
        told.append(publish(root, remote_of(stack), opened(stack)).number)

    threads = [threading.Thread(target=one, args=(root,)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [1, 1, 1]
    assert runs(text(stack)) == ["run-3", "run-2", "run-1"]
    assert len(stack.pulls()) == 1


def test_a_finding_that_a_person_deleted_stays_deleted(
    stack, published, later, remote, repository
) -> None:
    now = text(stack)
    without = now[: now.index("findings:\n")] + "findings: []\n"
    stack.commit({CARD: without}, branch=KNOWLEDGE, login="maintainer")
    assert publish(published, remote, repository).state == "updated"  # what its body lists
    assert runs(text(stack)) == []
    publish(later, remote, repository)
    assert runs(text(stack)) == ["run-2"]


def test_a_card_that_was_moved_takes_its_findings_where_it_is(
    stack, later, remote, repository
) -> None:
    files = {CARD: None, "knowledge/ours.yaml": text(stack)}
    stack.commit(files, branch=KNOWLEDGE, login="maintainer")
    assert publish(later, remote, repository).conflicts == ()
    assert paths(stack) == ["knowledge/ours.yaml"]
    assert runs(text(stack, "knowledge/ours.yaml")) == ["run-2", "run-1"]


def test_what_agents_taught_a_skill_is_merged_as_into_a_card(
    stack, remote, repository, tmp_path
) -> None:
    first, second = (checkout_of(remote, tmp_path / name) for name in ("first", "second"))
    for root, run in ((first, "run-1"), (second, "run-2")):
        refine(root, root.with_name(f"{root.name}-{run}"), partial_top_k=found(run, issue="top-k"))
    publish(first, remote, repository)
    edited = text(stack, SKILL).replace("kind: skill\n", "kind: skill  # ours\n")
    stack.commit({SKILL: edited}, branch=KNOWLEDGE, login="maintainer")

    told = publish(second, remote, repository)

    now = text(stack, SKILL)
    skill = yamlfile.loads(now, Path("skill"), SkillCard)
    assert (told.state, told.conflicts) == ("updated", ())
    assert [(one.run, one.issue) for one in skill.findings] == [
        ("run-2", "top-k"),
        ("run-1", "top-k"),
    ]
    assert "kind: skill  # ours\n" in now
    assert "`partial-top-k`" in stack.pulls()[0]["body"]


def test_what_a_deleted_skill_was_taught_lies_beside_the_skills(
    stack, remote, repository, tmp_path
) -> None:
    first = checkout_of(remote, tmp_path / "first")
    refine(first, tmp_path / "first-run", partial_top_k=found("run-1", issue="top-k"))
    publish(first, remote, repository)
    second = checkout_of(remote, tmp_path / "second", KNOWLEDGE)
    refine(second, tmp_path / "second-run", partial_top_k=found("run-2", issue="top-k"))
    ours = str(git.tip(second, KNOWLEDGE))
    stack.commit({SKILL: None}, branch=KNOWLEDGE, login="maintainer")

    (conflict,) = publish(second, remote, repository).conflicts

    kept = f"knowledge/skills/algorithm/partial-top-k-{ours[:12]}.yaml.unmerged"
    assert (conflict.card, conflict.path) == ("partial-top-k", kept)


def remember(root: Path, run: str, issue: str) -> None:
    """Let the agents of a run begin to remember, with one issue."""
    values = {"id": issue, "title": issue, "layer": "features", "model": "features", "run": run}
    memory = Memory(issues=[Issue.model_validate({**values, "status": "open"})])
    with Stack.open(root) as opened:
        known, out = load_cards(builtin_directory()), root.with_name(f"{root.name}-{run}")
        learning.refine(opened, known, {}, out, kept=dict([kept.file_for(memory)]), run=run)


def issues(fake: FakeGitHub) -> list[str]:
    return [issue.id for issue in parsed(text(fake, MEMORY), Path("memory")).issues]


def test_what_agents_of_two_runs_remember_is_kept_together(
    stack, remote, repository, tmp_path
) -> None:
    first, second = (checkout_of(remote, tmp_path / name) for name in ("first", "second"))
    remember(first, "run-1", "sort-less")
    remember(second, "run-2", "fewer-threads")
    assert publish(first, remote, repository).state == "opened"
    assert issues(stack) == ["sort-less"]
    assert publish(second, remote, repository).state == "updated"
    assert issues(stack) == ["sort-less", "fewer-threads"]
    subjects = stack.git("log", "--format=%s", f"main..{KNOWLEDGE}").split("\n")
    assert subjects == ["Refine 1 card from run run-2", "Refine 1 card from run run-1"]


def test_a_memory_that_a_person_broke_is_left_to_them_with_ours_beside(
    stack, remote, repository, tmp_path
) -> None:
    first, second = (checkout_of(remote, tmp_path / name) for name in ("first", "second"))
    remember(first, "run-1", "sort-less")
    remember(second, "run-2", "fewer-threads")
    publish(first, remote, repository)
    broken = f"{text(stack, MEMORY)}oops: 1\n"
    stack.commit({MEMORY: broken}, branch=KNOWLEDGE, login="maintainer")
    told = publish(second, remote, repository)
    assert text(stack, MEMORY) == broken
    beside = "knowledge/memory-run-2.unmerged"
    ours = text(stack, beside)
    assert ours.startswith(f"# not merged: {KNOWLEDGE}:{MEMORY}:")
    assert [issue.id for issue in parsed(ours, Path("memory")).issues] == ["fewer-threads"]
    (conflict,) = told.conflicts
    assert (conflict.card, conflict.path) == ("memory", beside)
    assert (conflict.ours, conflict.theirs) == (ours, broken)
    assert publish(second, remote, repository).state == "unchanged"


def test_a_memory_that_is_none_is_not_published(stack, remote, repository, tmp_path) -> None:
    root = checkout_of(remote, tmp_path / "checkout")
    with Stack.open(root) as opened:
        learning.refine(
            opened,
            load_cards(builtin_directory()),
            {},
            tmp_path / "out",
            kept={"memory.yaml": b"schema: fvec.memory/1\nwishes: []\n"},
            run="run-1",
        )
    with pytest.raises(InvalidInput, match="wishes: unknown key"):
        publish(root, remote, repository)
    assert stack.writes == []


# What is left to a person


def test_the_findings_of_a_deleted_card_are_kept_beside_the_cards(
    stack, later, remote, repository
) -> None:
    ours = str(git.tip(later, KNOWLEDGE))
    stack.commit({CARD: None}, branch=KNOWLEDGE, login="maintainer")

    told = publish(later, remote, repository)

    (conflict,) = told.conflicts
    kept = f"knowledge/cookbook/features/lookups-one-pass-{ours[:12]}.yaml.unmerged"
    assert paths(stack) == [kept]
    assert (conflict.card, conflict.path, conflict.theirs) == ("lookups-one-pass", kept, None)
    assert conflict.reason == "its file was deleted, or given another id"
    assert conflict.ours == text(stack, kept)
    assert runs(conflict.ours) == ["run-2"]
    body = stack.pulls()[0]["body"]
    assert "## Left to a person" in body
    assert "Theirs: there is no file with this card." in body
    assert "run: run-2" in body
    assert publish(later, remote, repository).state == "unchanged"


def test_a_card_that_is_none_any_more_hinders_no_other(
    stack, published, remote, repository, tmp_path
) -> None:
    later = checkout_of(remote, tmp_path / "later", KNOWLEDGE)
    learn(later, "run-2", other=True)
    whole = text(stack)
    half = whole[: whole.index("sources:") + 20] + "@maintainer, look: #1"
    theirs = stack.commit({CARD: half}, branch=KNOWLEDGE, login="maintainer")

    told = publish(later, remote, repository)

    (conflict,) = told.conflicts
    assert conflict.theirs == half
    assert conflict.reason.startswith("its file lookups-one-pass.yaml is no card any more: ")
    assert runs(conflict.ours) == ["run-2"]
    assert text(stack) == half
    assert runs(text(stack, OTHER)) == ["run-2"]
    assert stack.git("merge-base", KNOWLEDGE, theirs) == theirs
    body = stack.pulls()[0]["body"]
    assert half.splitlines()[3] in body
    assert "run: run-2" in body


def test_what_was_left_is_shown_until_a_person_settles_it(
    stack, published, later, remote, repository, tmp_path
) -> None:
    stack.commit({CARD: None}, branch=KNOWLEDGE, login="maintainer")
    (kept,) = (conflict.path for conflict in publish(later, remote, repository).conflicts)
    third = checkout_of(remote, tmp_path / "third", KNOWLEDGE)
    refine(third, tmp_path / "third-run", queue_delay=found("run-3"))
    told = publish(third, remote, repository)
    assert [conflict.path for conflict in told.conflicts] == [kept]

    content = text(stack, kept)
    stack.commit({kept: None, CARD: content}, branch=KNOWLEDGE, login="maintainer")
    told = publish(third, remote, repository)
    assert told.conflicts == ()
    assert runs(text(stack)) == ["run-2"]
    assert "Left to a person" not in stack.pulls()[0]["body"]


def test_a_local_commit_of_a_person_is_left_to_them(stack, published, remote, repository) -> None:
    tip = commit_by_hand(published, {CARD: f"# mine\n{text(stack)}"})
    before = stack.sha(KNOWLEDGE)
    writes = len(stack.writes)

    told = publish(published, remote, repository)

    assert (told.state, told.commit, told.number) == ("left", before, None)
    assert tip[:12] in told.why
    assert (git.tip(published, KNOWLEDGE), stack.sha(KNOWLEDGE)) == (tip, before)
    assert len(stack.writes) == writes

    address = stack.git_url.replace("://", f"://x-access-token:{stack.token_of('maintainer')}@")
    plain_git(published, "push", "--quiet", address, KNOWLEDGE)
    learn(published, "run-2")
    assert publish(published, remote, repository).state == "updated"
    assert text(stack).startswith("# mine\n")
    assert runs(text(stack)) == ["run-2", "run-1"]


def commit_by_hand(root: Path, files: dict[str, str]) -> str:
    """Commit to the local branch of knowledge, as a person does."""
    place = root.with_name(f"{root.name}-hand")
    plain_git(root, "worktree", "add", "--quiet", str(place), KNOWLEDGE)
    for name, content in files.items():
        (place / name).write_text(content)
    plain_git(place, "add", "--all")
    plain_git(place, "commit", "--quiet", "--message", "By hand")
    plain_git(root, "worktree", "remove", str(place))
    return str(git.tip(root, KNOWLEDGE))


# After a merge


def test_after_the_merge_the_next_run_begins_from_the_base(
    stack, published, later, remote, repository
) -> None:
    stack.merge(1)
    assert publish(published, remote, repository) == PublishedKnowledge(
        "merged", stack.sha(KNOWLEDGE)
    )

    told = publish(later, remote, repository)

    assert (told.state, told.number) == ("opened", 2)
    assert stack.git("rev-parse", f"{KNOWLEDGE}~1") == stack.sha("main")
    assert runs(text(stack)) == ["run-2", "run-1"]


@pytest.mark.parametrize("deleted", [True, False])
def test_after_a_squash_merge_only_what_is_new_is_offered(
    stack, published, later, remote, repository, deleted
) -> None:
    stack.merge(1, method="squash")
    if deleted:
        stack.delete_branch(KNOWLEDGE)

    told = publish(later, remote, repository)

    assert (told.state, told.number) == ("opened", 2)
    assert stack.git("rev-parse", f"{KNOWLEDGE}~1") == stack.sha("main")
    assert runs(text(stack)) == ["run-2", "run-1"]
    assert stack.git("log", "--format=%s", f"main..{KNOWLEDGE}") == "Refine 1 card from run run-2"
    assert stack.pulls()[1]["title"] == "knowledge: 1 finding on 1 card"


def test_a_base_that_moved_meanwhile_is_the_ground_of_a_new_branch(
    stack, remote, repository, tmp_path
) -> None:
    root = checkout_of(remote, tmp_path / "checkout")
    learn(root, "run-1")
    head = stack.commit({"notes.md": "Meanwhile\n"})
    publish(root, remote, repository)
    assert stack.git("rev-parse", f"{KNOWLEDGE}~1") == head
    assert git.tip(root, KNOWLEDGE) == stack.sha(KNOWLEDGE)


# Kills


class Killed(Exception):
    """The process ended here."""


class Fused(Remote):
    """A remote at whose push the process ends, before or after it."""

    moment = ""

    def push(self, root: Path, branch: str, commit: str, *, expected: str | None) -> None:
        if self.moment == "before":
            raise Killed
        super().push(root, branch, commit, expected=expected)
        if self.moment == "after":
            raise Killed


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("edited", [True, False])
def test_a_killed_publication_is_ended_by_the_next(
    stack, published, later, remote, repository, moment, edited
) -> None:
    if edited:
        stack.commit({CARD: f"# mine\n{text(stack)}"}, branch=KNOWLEDGE, login="maintainer")
    fused = Fused(stack.git_url, remote._credentials)
    fused.moment = moment
    with pytest.raises(Killed):
        publish(later, fused, repository)

    publish(later, remote, repository)

    assert runs(text(stack)) == ["run-2", "run-1"]
    assert text(stack).startswith("# mine\n") == edited
    assert git.tip(later, KNOWLEDGE) == stack.sha(KNOWLEDGE)
    assert len(stack.pulls()) == 1
    assert stack.git("log", "--format=%s", KNOWLEDGE).count("from run run-2") == 1


def test_what_is_left_to_a_person_outlives_a_kill(
    stack, published, later, remote, repository
) -> None:
    stack.commit({CARD: None}, branch=KNOWLEDGE, login="maintainer")
    fused = Fused(stack.git_url, remote._credentials)
    fused.moment = "before"
    with pytest.raises(Killed):
        publish(later, fused, repository)
    stack.commit({OTHER: "# nothing yet\n"}, branch=KNOWLEDGE, login="maintainer")

    (conflict,) = publish(later, remote, repository).conflicts

    assert runs(conflict.ours) == ["run-2"]
    assert conflict.path in paths(stack)


@pytest.mark.parametrize("kind", ["502", "502 after", "cut after"])
def test_an_answer_that_was_lost_makes_no_second_pull_request(
    stack, remote, repository, tmp_path, kind
) -> None:
    root = checkout_of(remote, tmp_path / "checkout")
    learn(root, "run-1")
    fault = stack.faults.add(kind, "POST", "*/pulls")
    told = publish(root, remote, repository)
    assert (fault.hits, told.state, told.number) == (1, "opened", 1)
    assert len(stack.pulls()) == 1


# Hostile branches


def test_a_branch_that_the_bot_did_not_make_is_left_alone(
    stack, remote, repository, tmp_path
) -> None:
    theirs = stack.commit({"notes.md": "Mine\n"}, branch=KNOWLEDGE, login="maintainer")
    root = checkout_of(remote, tmp_path / "checkout")
    learn(root, "run-1")
    with pytest.raises(InvalidInput, match="the bot never committed to it"):
        publish(root, remote, repository)
    assert stack.sha(KNOWLEDGE) == theirs


def test_of_a_hostile_commit_nothing_but_findings_is_published(
    stack, remote, repository, tmp_path
) -> None:
    root = checkout_of(remote, tmp_path / "checkout")
    tip = learn(root, "run-1")
    plain = git.git(root, "show", f"{tip}:{CARD}")
    changed = plain.replace("title: ", "title: Do as I say, ", 1)
    hostile = commit(
        root, {CARD: changed, "models/tiny_ranker/1/model.py": "evil = True\n"}, "main"
    )
    git.git(root, "update-ref", f"refs/heads/{KNOWLEDGE}", hostile)

    publish(root, remote, repository)

    assert text(stack) == plain
    assert stack.git("diff", "--name-only", "main", KNOWLEDGE) == CARD


def test_a_link_on_the_local_branch_is_refused(stack, remote, repository, tmp_path) -> None:
    root = checkout_of(remote, tmp_path / "checkout")
    learn(root, "run-1")
    place = tmp_path / "place"
    git.git(root, "worktree", "add", "--quiet", "--detach", str(place), KNOWLEDGE)
    (place / "knowledge" / "x.yaml").symlink_to("/etc/passwd")
    git.git(place, "add", "--all")
    git.git(place, "commit", "--quiet", "--message", "Link")
    git.git(root, "update-ref", f"refs/heads/{KNOWLEDGE}", git.resolve(place, "HEAD"))
    with pytest.raises(InvalidInput, match=r"knowledge/x\.yaml' is, or would become, a symbolic"):
        publish(root, remote, repository)
    assert stack.sha(KNOWLEDGE) is None


def test_no_file_outside_the_repository_is_shown(
    stack, published, later, remote, repository, tmp_path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "lookups-one-pass.yaml").write_text("secret: no card\n")
    link = {CARD: None, str(Path(CARD).parent): Link(str(outside))}
    stack.commit(link, branch=KNOWLEDGE, login="maintainer")

    with pytest.raises(InvalidInput):
        publish(later, remote, repository)
    assert "secret" not in stack.pulls()[0]["body"]
