"""What a reader of a pull request does with it: the commands work, and a claim taken back says so."""

import re
import subprocess
from pathlib import Path

import pytest

from layers.errors import InvalidInput
from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import Ran, publish, pull
from tests.github_jobs import MODEL, Bot, comment, dashboard, diff, judged, model_of, verified

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")

# Says, for each call, what it was asked, at which commit, and what lies in `$at`.
FVEC = 'fvec() { printf "%s %s %s\\n" "$1" "$(git rev-parse HEAD)" "$(ls -m "$at")"; }'


def said(github: FakeGitHub, body: str, folder: Path) -> list[str]:
    """Run the commands of a body in a clone; return what `fvec` was asked, in order."""
    (block,) = re.findall(r"## Run it again\n\n```sh\n(.*?)\n```", body, flags=re.DOTALL)
    clone = folder / "clone"
    source = github.git("rev-parse", "--absolute-git-dir")
    one = ["git", "clone", "--quiet", "--single-branch", f"file://{source}", str(clone)]
    subprocess.run(one, check=True)
    done = subprocess.run(
        ["bash", "-euc", f"{FVEC}\n{block}"],
        cwd=clone, check=True, capture_output=True, text=True,
    )  # fmt: skip
    left = subprocess.run(
        ["git", "status", "--porcelain"], cwd=clone, check=True, capture_output=True, text=True
    )
    assert left.stdout == ""  # a stack with changes is not measured
    return done.stdout.splitlines()


def test_the_commands_of_a_pull_request_work_in_a_clone(bot: Bot, tmp_path: Path) -> None:
    number = bot.published()
    shown = pull(bot.fake, number)
    base = bot.fake.git("merge-base", "main", shown["head"]["sha"])
    both = "evidence.json, patch.diff"
    assert said(bot.fake, shown["body"], tmp_path) == [
        f"verify {base} {both}",
        f"judge {base} {both}",
        f"run {base} {both}",
    ]


def test_the_run_behind_a_stacked_change_began_at_the_stack(
    ran: Ran, github: FakeGitHub, tmp_path: Path
) -> None:
    publish(ran, github)
    asked = said(github, pull(github, 2)["body"], tmp_path)
    assert [line.split()[:2] for line in asked] == [
        ["verify", ran.base],
        ["judge", ran.commit(1)],
        ["run", ran.base],
    ]


def test_the_commands_of_a_judgement_fetch_its_patch(bot: Bot, tmp_path: Path) -> None:
    number = bot.fake.open_pull("topic", files={MODEL: model_of(bot) + "# topic\n"})
    base = bot.fake.sha()
    bot.program.answers(judged(diff(bot, base, bot.fake.pull(number).head_sha), base))
    bot.asked("judge", number)
    assert said(bot.fake, comment(bot, number), tmp_path) == [f"judge {base} judged.diff"]
    patch = bot.fake.git("show", f"fvec/evidence:judged/{number}/judged.diff")
    assert "+# topic" in patch


def test_a_claim_that_was_taken_back_says_so_first_until_it_is_reproduced(
    bot: Bot, ran: Ran
) -> None:
    number = bot.published()

    def body() -> str:
        return str(pull(bot.fake, number)["body"])

    before = body()
    bot.program.answers(verified(ran, 1, 0.7))
    bot.asked("rerun", number)
    assert body().split("\n\n")[1].startswith("<!-- fvec:standing -->\n**Taken back**: at `")
    assert f"| #{number} | taken back | " in dashboard(bot)

    bot.program.answers(verified(ran, 1))
    bot.asked("rerun", number)
    assert body() == before
    assert f"| #{number} | open | " in dashboard(bot)


def test_replicas_are_counted_by_a_total_of_this_change_alone(ran: Ran, github: FakeGitHub) -> None:
    total = ran.run["total"]
    ran.change(ran.pull(1) / "evidence.json", lambda d: d.update(total=total))
    with pytest.raises(InvalidInput, match="about another total than its pull request"):
        publish(ran, github)  # two changes share it

    ran.keep(1)
    publish(ran, github)
    assert "of the rate held at the SLO, end of the run over start" in pull(github, 1)["body"]


def test_a_total_that_the_run_does_not_have_is_refused(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    total = {**ran.run["total"], "ci": [8.0, 9.0]}
    ran.change(ran.pull(1) / "evidence.json", lambda d: d.update(total=total))
    with pytest.raises(InvalidInput, match="about another total than its pull request"):
        publish(ran, github)
