"""The bot on a serving repository, GitHub on loopback: one release, one rerun, to be looked at.

    python -P tests/github/by_hand.py examples/ads-serving --out .fvec/by-hand [--no-rerun]

Everything is real but GitHub itself: the webhook service, the measurements, git over smart HTTP. What a
person would see lies under --out afterwards: every pull request, comment, check run and issue as
markdown and as a page, and the repository with the branches that the bot pushed.
"""

from __future__ import annotations

import argparse
import html
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bot.service.database import Database
from bot.service.store import Store
from tests.github.bot_service import BotService
from tests.github.contract import Contract
from tests.github.fake_github import FakeGitHub
from tests.github.shapes import Json
from tests.github.wiring import connected
from tests.github_markdown import GFM

OTHERS = ("fvec/knowledge", "fvec/onboard")
EVIDENCE = "evidence"
MANIFEST = ".github/fvec.yml"
AT_ONCE = b"bot: {jitter_minutes: 0}\n"  # nobody waits here for the work of others to be over
STYLE = """\
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { border: 1px solid #8886; padding: .3rem .8rem }
code, pre { font: .85em ui-monospace, monospace; background: #8882; border-radius: .3rem }
code { padding: .1em .3em } pre { padding: 1rem; overflow-x: auto } pre code { background: none }
img { max-width: 100% }
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stack", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--no-rerun", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    with FakeGitHub() as github, connected(github):
        github.seed(_tracked(args.stack))
        store = Store(Database(args.out / "jobs.sqlite3"))
        service = BotService(github, store, args.out / "work")
        github.release("v1")
        service.deliver(github.events.release("v1"))
        if not args.no_rerun:
            _ask_rerun(github, service)
        for kind, state, result in service.jobs():
            sys.stdout.write(f"{kind}: {state}: {result}\n")
        _save(github, args.out)
        violations = Contract.fetched().violations(github.requests)
        sys.stdout.write(f"{len(github.requests)} exchanges, {len(violations)} violations\n")
        return bool(violations)


def _tracked(stack: Path) -> dict[str, bytes]:
    """Return the files of a stack as git has them, the manifest without waiting."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "."], cwd=stack, check=True, capture_output=True, text=True
    )
    files = {name: (stack / name).read_bytes() for name in listed.stdout.split("\0")[:-1]}
    return {**files, MANIFEST: files[MANIFEST] + AT_ONCE}


def _ask_rerun(github: FakeGitHub, service: BotService) -> None:
    """Have a maintainer ask for a rerun of the first change."""
    changes = [pull for pull in github.pulls() if pull["head"]["ref"] not in OTHERS]
    if changes:
        number = min(pull["number"] for pull in changes)
        comment = github.comment(number, "/fvec rerun", login="maintainer")
        service.deliver(github.events.comment(comment))


def _save(github: FakeGitHub, out: Path) -> None:
    """Write what a person would see."""
    shutil.copytree(github.repository, out / "repository.git")
    clone = ["git", "clone", "--quiet", "--branch", "fvec/evidence", "repository.git", EVIDENCE]
    if github.sha("fvec/evidence") is not None:
        subprocess.run(clone, cwd=out, check=True)
    for name, markdown in _texts(github):
        (out / f"{name}.md").write_text(markdown, encoding="utf-8")
        (out / f"{name}.html").write_text(_page(name, markdown), encoding="utf-8")


def _texts(github: FakeGitHub) -> Iterator[tuple[str, str]]:
    for pull in github.pulls():
        number = pull["number"]
        yield f"pull-{number}", f"# {pull['title']}\n\n{pull['body']}"
        for at, comment in enumerate(github.comments(number)):
            yield f"pull-{number}-comment-{at}", comment["body"]
        for run in github.check_runs(pull["head"]["sha"]):
            yield f"pull-{number}-check-{run['id']}", _check(run)
    for run in github.check_runs(github.sha() or ""):
        yield f"main-check-{run['id']}", _check(run)
    for issue in github.issues():
        yield f"issue-{issue['number']}", f"# {issue['title']}\n\n{issue['body']}"


def _check(run: Json) -> str:
    told = run["output"]
    return f"# {run['conclusion']}: {told['title']}\n\n{told['summary']}\n\n{told['text'] or ''}"


def _page(title: str, markdown: str) -> str:
    """Return a page like GitHub's: pictures of the evidence branch are taken from its clone."""
    body = GFM.render(markdown)
    found = re.compile(r"https?://[^\"]*?/blob/[0-9a-f]{40}/([^\"?]*)\?raw=true")
    body = found.sub(lambda match: html.escape(f"{EVIDENCE}/{match[1]}"), body)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f"<!doctype html>{head}<style>{STYLE}</style>{body}\n"


if __name__ == "__main__":
    sys.exit(main())
