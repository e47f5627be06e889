"""A program that writes candidates: a coding agent's command line, or a person at an editor.

It is given a copy of the stack and a prompt, and runs in the sandbox: it can write to the copy
alone, sees no variable of ours that is not named for it, and no network unless it is let out. What
it leaves is data. The edit is what differs in the copy; the claim is `fvec-hypothesis.yaml`, read
strictly and taken out of the copy again; what it prints is kept, and followed by nobody.
"""

from __future__ import annotations

import errno
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from knowledge import yamlfile
from knowledge.yamlfile import YamlError
from layers.agent_settings import CommandSection
from layers.agents.inner import Implemented, Task
from layers.agents.plan import Plan
from layers.agents.roles.prompting import prompt
from layers.agents.service.transcripts import Transcripts
from layers.agents.steps import words
from layers.agents.workbench.below import NotPlain, TooLarge
from layers.agents.workbench.configuration import HYPOTHESIS
from layers.agents.workbench.named import listed
from layers.agents.workbench.quoting import HOW_QUOTED, Seen
from layers.agents.workbench.workspace import Workspace, WorkspaceRefused
from layers.errors import InvalidInput, Missing, ToolFailed
from layers.loop.proposing import Checked
from layers.manifest import SandboxMode
from layers.places import without_places
from layers.programs import scrubbed_environment
from layers.redact import known_secrets, redact
from layers.sandbox.base import Confinement, Ending
from layers.sandbox.box import Sandbox
from layers.story import MOST_TEXT, Cost, Outcome, Role, Step

PROMPT = "FVEC_PROMPT"  # names the file that holds the prompt; it is standard input, too
MOST_CLAIM_BYTES = 32 * 1024
LEAST_S = 1.0  # for a program to begin, and be told that it was too slow
LAST_LINES, LINE = 12, 200  # of what a program printed, in a step's text

_HOME = Path("/", "tmp")  # of the sandbox: private, bounded, gone with it
_OF_THE_SYSTEM = tuple(map(Path, ("/usr", "/bin", "/sbin")))  # a sandbox shows them anyway
_HEAD, _TAIL = 8 * 1024, 48 * 1024  # bytes of an output that a transcript keeps
_MARGIN = 4096  # longer than a secret: where an output is cut no half of one is left

# Of a full disk, or one that may not be written to: no program's fault, and the run says so.
_OURS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO})

_ENDED = {
    Ending.TIME_LIMIT: "ran longer than it may",
    Ending.MEMORY_LIMIT: "used more memory than it may",
    Ending.PROCESS_LIMIT: "started more processes or threads than it may",
    Ending.OUTPUT_LIMIT: "printed or wrote more than it may",
    Ending.CRASHED: "was ended by a signal",
}


@dataclass(frozen=True, slots=True)
class _Ended:
    """How the program ended; `reason` is empty where it ended well."""

    reason: str
    text: str
    ending: Ending | None = None  # None: it did not start


@dataclass(frozen=True, slots=True)
class _Claim:
    """What the hypothesis file says: a plan, or what is wrong with it, for its author."""

    text: str = ""  # of the file, as far as it could be read
    plan: Plan | None = None
    reason: str = ""
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class _Done:
    """What one round came to."""

    outcome: Outcome
    reason: str
    text: str
    plan: Plan | None = None


class CommandImplementer:
    """An `Implementer` that runs a program once a round. The program plans, too."""

    plans = True

    def __init__(
        self,
        section: CommandSection,
        sandbox: Sandbox,
        transcripts: Transcripts,
        environ: Mapping[str, str],
        left_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """Take of `environ` what the settings name for the program; it gets nothing else of it.

        It runs as long as the settings let it, or as `left_s` says, where that is shorter.
        Raises InvalidInput or Missing for a program that would not be confined or that cannot run:
        said before anything is measured.
        """
        self._section, self._sandbox, self._transcripts = section, sandbox, transcripts
        self._left_s = left_s
        self._secrets = known_secrets(environ)
        named = {name: environ[name] for name in section.environment if name in environ}
        self._env = {**scrubbed_environment(home=_HOME), **named}
        self._shown = _shown(section, sandbox, self._env)
        self._before = (Path(), "")  # a workspace, and the claim of the last round in it
        sandbox.argv(section.run, _HOME, {}, self._confinement((), ()))  # what may not be shown

    def implement(
        self, task: Task, workspace: Workspace, check: Callable[[], Checked], seen: Seen
    ) -> Implemented:
        """Run the program, then take what it left. It cannot ask for checks: they follow."""
        del check
        started = time.monotonic()
        transcript = self._transcripts.begin(Role.IMPLEMENTER)
        told = self._prompt(task, workspace, seen)
        transcript.add("command", self._settings())
        transcript.add("prompt", told)
        try:
            ended, claim, printed = self._round(told, workspace)
        except OSError as error:
            if error.errno in _OURS:
                raise
            why = f"The round could not be carried out: {error.strerror}."
            ended, claim, printed = _Ended("round_failed", why), _Claim(), ""
        self._before = (workspace.root, claim.text)
        seen.configured(claim.text, HYPOTHESIS)
        done = self._done(ended, claim, workspace, seen)
        transcript.add("output", printed)
        transcript.add("hypothesis", claim.text)
        transcript.add("ended", {"outcome": done.outcome.value, "text": done.text})
        step = Step(
            role=Role.IMPLEMENTER,
            round=task.round,
            outcome=done.outcome,
            reason=done.reason,
            text=self._text(done.text, printed, workspace.root),
            cost=Cost(wall_s=time.monotonic() - started),  # what it spends itself is not known
            transcript=transcript.name,
        )
        return Implemented(step, done.plan)

    def _round(self, told: str, workspace: Workspace) -> tuple[_Ended, _Claim, str]:
        """Run the program once; return how it ended, what it claims and what it printed."""
        with tempfile.TemporaryDirectory(prefix="fvec-command-") as name:
            folder = Path(name).resolve()
            file, log, copy = folder / "prompt.md", folder / "output.log", folder / "claim.yaml"
            file.write_text(told, encoding="utf-8", errors="replace")
            # A repository that brings a claim of its own would speak for a program without one.
            with workspace.lent(HYPOTHESIS) as left:
                ended = self._run(file, log, workspace.root.resolve())
                claim = _claim(left, copy)
            if ended.ending is Ending.OUTPUT_LIMIT and not self._flooded(log):
                workspace.reset()  # of what filled it nothing is a change
            return ended, claim, _excerpt(log, self._secrets)

    def _prompt(self, task: Task, workspace: Workspace, seen: Seen) -> str:
        """Return the prompt of one round; the texts that a task brings are quoted already."""
        earlier = ""
        if task.feedback:
            earlier = f"## What became of the round before\n\n{task.feedback}\n"
            root, claim = self._before
            if claim and root == workspace.root:
                quoted = seen.quoted(claim, HYPOTHESIS)
                earlier += f"\nThe claim that was written in it:\n\n{quoted}\n"
        reach = "It has no network."
        if self._section.network:
            reach = "It has the network of this machine: fetch nothing into the change."
        return Template(prompt("command")).substitute(
            hypothesis=HYPOTHESIS,
            minutes=f"{self._time_s() / 60:.3g}",
            reach=reach,
            quoted=HOW_QUOTED,
            gates=prompt("gates"),
            brief=task.brief,
            earlier=earlier,
        )

    def _time_s(self) -> float:
        """Return how long the program may run now."""
        return min(self._section.timeout_s, max(LEAST_S, self._left_s()))

    def _settings(self) -> dict[str, object]:
        """Return what a reader of the transcript wants to know; no value of a variable."""
        section = self._section
        return {
            "run": list(section.run),
            "timeout_s": section.timeout_s,
            "network": section.network,
            "environment": sorted(section.environment),
            "sandbox": self._sandbox.mode.value,
        }

    def _confinement(self, read_only: Sequence[Path], writable: Sequence[Path]) -> Confinement:
        return Confinement(
            read_only=[*read_only, *self._shown],
            writable=writable,
            limits=self._sandbox.limits,
            network=self._section.network,
        )

    def _run(self, file: Path, log: Path, workspace: Path) -> _Ended:
        """Run the program to its end; all that it started is gone afterwards."""
        section, time_s = self._section, self._time_s()
        try:
            with (
                file.open("rb") as stdin,
                log.open("wb") as stream,
                self._sandbox.start(
                    section.run,
                    cwd=workspace,
                    env={**self._env, PROMPT: str(file)},
                    confinement=self._confinement([file], [workspace]),
                    stdin=stdin,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                ) as jail,
            ):
                code = jail.wait(time_s)
                return _ended(jail.ending(), code, time_s)
        except ToolFailed as error:
            return _Ended("not_started", f"The program could not be run: {error.message}.")

    def _flooded(self, log: Path) -> bool:
        """Whether it was the output that reached its limit, not what was written to the folders."""
        return log.stat().st_size >= self._sandbox.limits.output_bytes

    def _done(self, ended: _Ended, claim: _Claim, workspace: Workspace, seen: Seen) -> _Done:
        """Return what a round came to: how it ended goes first, then the edit, then the claim."""
        if ended.reason:
            late = ended.ending is Ending.TIME_LIMIT
            outcome = Outcome.OUT_OF_TIME if late else Outcome.BROKE
            return _Done(outcome, ended.reason, ended.text)
        try:
            files = workspace.edit()
        except WorkspaceRefused as refused:
            seen.refused(Role.IMPLEMENTER, "leave something else than files", str(refused))
            return _Done(Outcome.MALFORMED, "workspace_refused", f"{refused}. Take it out.")
        if not files:
            return _Done(Outcome.NO_EDIT, "no_op_edit", "The program changed nothing.")
        if any(secret in claim.text for secret in self._secrets):
            seen.refused(Role.IMPLEMENTER, f"write a credential into {HYPOTHESIS}", "it is public")
            told = f"{HYPOTHESIS} holds a credential. Write it without."
            return _Done(Outcome.MALFORMED, "holds_a_secret", told)
        if claim.plan is None:
            told = f"Nothing was checked: write {HYPOTHESIS} as the prompt says.\n{claim.wrong}"
            return _Done(Outcome.MALFORMED, claim.reason, told)
        _note_refusals(sorted(files), workspace, seen)
        return _Done(Outcome.EDITED, "", f"Changed: {listed(sorted(files))}.", claim.plan)

    def _text(self, text: str, printed: str, root: Path) -> str:
        """Return a step's text with the last lines that the program printed, within its bound."""
        places = {root.resolve(): "WORKSPACE"}
        text, printed = (without_places(said, places) for said in (text, printed))
        lines = [line[:LINE] for line in printed.splitlines() if line.strip()][-LAST_LINES:]
        said = "\n".join(["", "The last lines that it printed:", *lines]) if lines else ""
        return words(redact(text, self._secrets), MOST_TEXT - len(said)) + said


def _shown(section: CommandSection, sandbox: Sandbox, env: Mapping[str, str]) -> list[Path]:
    """Return what the program sees besides: the folders that it reads, and itself."""
    program = section.run[0]
    if sandbox.mode is SandboxMode.PROCESS:
        raise InvalidInput(
            "the sandbox mode 'process' confines nothing, and a program that writes candidates is "
            "run in a sandbox only",
            hint="take the mode 'strict', or 'no-cgroup' where there are no control groups",
        )
    if "/" in program and not Path(program).is_absolute():
        raise InvalidInput(
            f"command.run names {program!r}, which would be a file of the serving repository",
            hint="name the program by an absolute path, or by its name alone",
        )
    place = shutil.which(program, path=env["PATH"])
    if place is None:
        raise Missing(
            f"the program {program!r} of command.run is not on this machine",
            hint=f"it was looked for on {env['PATH']}: name it by its absolute path, or name PATH "
            "in command.environment",
        )
    reads = [Path(name) for name in section.reads]
    if any(Path(place).is_relative_to(folder) for folder in (*_OF_THE_SYSTEM, *reads)):
        return reads
    return [*reads, Path(place)]


def _note_refusals(files: Sequence[str], workspace: Workspace, seen: Seen) -> None:
    """Note what no candidate may change: the gate of paths rejects it, as anybody's."""
    for name in files:
        try:
            workspace.check_writable(name)
        except WorkspaceRefused as refused:
            seen.refused(Role.IMPLEMENTER, f"change {name}", str(refused))


def _ended(ending: Ending, code: int | None, timeout_s: float) -> _Ended:
    if ending is Ending.EXITED:
        if code == 0:
            return _Ended("", "", ending)
        return _Ended("exit_code", f"The program ended with exit code {code}.", ending)
    limit = f" ({timeout_s:g} s)" if ending is Ending.TIME_LIMIT else ""
    return _Ended(ending.value, f"The program {_ENDED[ending]}{limit}.", ending)


def _claim(left: Callable[[int], bytes | None], copy: Path) -> _Claim:
    """Read the hypothesis file. A link is not followed: it would lead out of the sandbox."""
    try:
        data = left(MOST_CLAIM_BYTES)
    except TooLarge:
        wrong = f"{HYPOTHESIS} is larger than {MOST_CLAIM_BYTES} bytes."
        return _Claim(reason="hypothesis_refused", wrong=wrong)
    except NotPlain:
        return _Claim(reason="hypothesis_refused", wrong=f"{HYPOTHESIS} is no plain file.")
    except OSError as error:
        wrong = f"{HYPOTHESIS} cannot be read: {error.strerror}."
        return _Claim(reason="hypothesis_refused", wrong=wrong)
    if data is None:
        return _Claim(reason="no_hypothesis", wrong=f"There is no {HYPOTHESIS}.")
    copy.write_bytes(data)
    text = ""
    try:
        text = yamlfile.read(copy)
        return _Claim(text, yamlfile.loads(text, Path(HYPOTHESIS), Plan))
    except YamlError as error:
        problems = [str(replace(one, path=Path(HYPOTHESIS))) for one in error.problems]
        return _Claim(text, reason="hypothesis_refused", wrong="\n".join(problems))


def _excerpt(log: Path, secrets: Sequence[str]) -> str:
    """Return how an output begins and how it ends, without secrets and without halves of them."""
    if not log.exists():
        return ""
    size = log.stat().st_size
    with log.open("rb") as stream:
        if size <= _HEAD + _TAIL + 2 * _MARGIN:
            return _redacted(stream.read(), secrets)
        head = _redacted(stream.read(_HEAD + _MARGIN), secrets)[:-_MARGIN]
        stream.seek(size - _TAIL - _MARGIN)
        tail = _redacted(stream.read(_TAIL + _MARGIN), secrets)[_MARGIN:]
    return f"{head}\n[... about {size - _HEAD - _TAIL} bytes left out ...]\n{tail}"


def _redacted(data: bytes, secrets: Sequence[str]) -> str:
    return redact(data.decode("utf-8", "replace"), secrets)
