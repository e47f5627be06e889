"""The onboarding pull request: a first manifest and traffic, proposed once.

`fvec init` reads the repository in a process without credentials and executes nothing of it. Of
`.github/` the manifest alone is ever written, and that here alone. Closed means no.
"""

from __future__ import annotations

import json
import subprocess
from importlib import resources
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.github.forge import PULL
from bot.github.repository import LABEL, marker
from bot.jobs import checkouts, measuring
from bot.jobs.context import JobResult, JobState, own_program
from bot.render import onboarding
from bot.wake.policy import ONBOARDING
from layers.errors import FvecError, InvalidInput, ToolFailed
from layers.manifest import MANIFEST_PATH
from layers.repository import git

if TYPE_CHECKING:
    from pathlib import Path

    from bot.github.replies import Pull
    from bot.github.repository import Repository
    from bot.jobs.context import Context

MESSAGE = "Let fvec measure this repository"
WORKFLOW = "caller_workflow.yml"
CALLED = ".github/workflows/serving.yml@"  # what a workflow that calls ours has in it
TIMEOUT_S = 300.0
MOST_FILES = 8
MOST_FILE = 256 * 1024  # characters

Text = Annotated[str, Field(max_length=4_000)]


class _Told(BaseModel):
    """Base of what `fvec init --json` says: the fields that are used."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _File(_Told):
    path: Text
    text: str = Field(max_length=MOST_FILE)


class _Guess(_Told):
    key: Text
    value: Text
    certainty: Text
    why: Text


class _Skipped(_Told):
    path: Text
    reason: Text


class Init(_Told):
    """`fvec init --json`, schema `fvec.init/1`."""

    models: Text
    entry: Text
    files: list[_File] = Field(min_length=1, max_length=MOST_FILES)
    guesses: list[_Guess]
    correct_first: list[Text]
    skipped: list[_Skipped]


def perform(context: Context) -> JobResult:
    """Open the onboarding pull request, unless there was one; see the module.

    A repository in which `fvec init` finds nothing to serve is left alone, and nobody is bothered.
    Raises GitHubError.
    """
    repository = context.repository
    pulls = repository.pulls_of(ONBOARDING)
    if pulls:
        return _asked(repository, pulls[0])
    branch = repository.default_branch()
    if repository.branch_sha(branch) is None:
        return JobResult("refused", "the repository has no commit yet", shown=False)
    mirror = checkouts.fetched(context.home, branches=(branch,))
    tip = git.resolve(mirror, checkouts.branch_ref(branch))
    checkout = checkouts.check_out(mirror, tip, branch, context.folder / "checkout")
    head = git.resolve(checkout, "HEAD")  # of an earlier attempt, where there was one
    try:
        found = read(context, checkout)
        files = checked(found, checkout)
    except FvecError as error:  # told to nobody who has not asked for the bot yet
        state: JobState = "refused" if isinstance(error, InvalidInput) else "failed"
        return JobResult(state, error.message, error.hint or "", shown=False)
    repository.commit_files(ONBOARDING, files, MESSAGE, parent_of_new=head)
    workflow = None if _calls_us(mirror, tip) else onboarding.caller(workflow_text(), branch)
    text = f"{marker(PULL)}\n\n{onboarding.body(_shown(found), workflow)}"
    pull = repository.create_pull(ONBOARDING, branch, onboarding.TITLE, text, draft=False)
    return _asked(repository, pull)


def workflow_text() -> str:
    """Return the workflow that calls ours, as the documentation shows it."""
    return resources.files("bot.render").joinpath(WORKFLOW).read_text(encoding="utf-8")


def read(context: Context, checkout: Path) -> Init:
    """Have `fvec init` look at a checkout; nothing is written there.

    Raises InvalidInput where it finds nothing to serve, and ToolFailed where it broke.
    """
    program = list(context.fvec or own_program())
    told, log = context.folder / "init.json", context.folder / "init.log"
    with told.open("wb") as output, log.open("ab") as errors:
        try:
            code = subprocess.run(
                [*program, "init", str(checkout), "--dry-run", "--json"],
                cwd=context.folder,
                env=measuring.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise ToolFailed(f"fvec init ran longer than {TIMEOUT_S:g} s") from error
        except OSError as error:
            raise ToolFailed(f"fvec init could not be started: {error.strerror}") from error
    if code != 0:
        raise measuring.failure(told, code, log)
    try:
        return Init.model_validate(json.loads(measuring.content(told, measuring.MOST_ERROR_BYTES)))
    except (FvecError, ValidationError, ValueError, RecursionError) as error:
        raise ToolFailed("fvec init did not say what it found") from error


def checked(found: Init, checkout: Path) -> dict[str, bytes]:
    """Return the files to commit; InvalidInput unless each is new and may be written.

    Below `.github/` that is the manifest and nothing else.
    """
    files = {}
    for file in found.files:
        if file.path != str(MANIFEST_PATH):
            git.checked_path(checkout, file.path)
        elif (checkout / MANIFEST_PATH.parent).is_symlink():
            raise InvalidInput(f"{MANIFEST_PATH.parent} is a link; nothing is written through it")
        if (checkout / file.path).exists():
            raise InvalidInput(f"{file.path} exists already; it is never overwritten")
        files[file.path] = file.text.encode()
    if str(MANIFEST_PATH) not in files:
        raise InvalidInput(f"fvec init wrote no {MANIFEST_PATH}")
    return files


def _asked(repository: Repository, pull: Pull) -> JobResult:
    """Return how the onboarding pull request stands; an open one gets its label."""
    if pull.state == "open":
        if LABEL not in pull.labels:
            repository.add_labels(pull.number, [LABEL])
        told = "the onboarding pull request waits to be merged"
        return JobResult("done", told, onboarding=pull.number)
    if pull.merged:
        return JobResult("done", "the onboarding pull request was merged, and the manifest is gone")
    return JobResult("done", "the onboarding pull request was closed, which means no", shown=False)


def _calls_us(mirror: Path, tip: str) -> bool:
    """Say whether a workflow of the repository calls ours already."""
    asked = ("grep", "--fixed-strings", "--name-only", "-e", CALLED, tip)
    try:
        return bool(git.git(mirror, *asked, "--", ".github/workflows/"))
    except ToolFailed:  # it ends so where nothing is found, too
        return False


def _shown(found: Init) -> onboarding.Found:
    return onboarding.Found(
        models=found.models,
        entry=found.entry,
        files=[file.path for file in found.files],
        guesses=[onboarding.Guessed(g.key, g.value, g.certainty, g.why) for g in found.guesses],
        correct_first=found.correct_first,
        skipped=[(skipped.path, skipped.reason) for skipped in found.skipped],
    )
