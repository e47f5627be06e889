"""The grammar of the commands that people write in comments.

    /fvec rerun [SHA]            measure the evidence of this pull request again
    /fvec judge [CLASS] [SHA]    hold any pull request against the gates
    /fvec recreate               start over a pull request that was edited or closed
    /fvec help                   say these lines

`/fvec` has to be the first characters of the comment and a word by itself, else the comment is
not for us. A command is one line: only white space may follow it, for a line below a command could
be read as belonging to it, or be hidden in a long comment. Verbs and classes are in any case; SHA
is all 40 digits, for an abbreviation is not one commit for ever.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from layers.base import ChangeClass

Verb = Literal["rerun", "judge", "recreate", "help"]

PREFIX = "/fvec"
VERBS: tuple[Verb, ...] = ("rerun", "judge", "recreate", "help")
MOST_BLANKS = 1000  # characters of white space that may surround a command
_CHOICES = "say `/fvec rerun`, `/fvec judge`, `/fvec recreate` or `/fvec help`"
_CLASSES = tuple(str(kind) for kind in ChangeClass)
_BY_NAME: dict[str, Verb] = {verb: verb for verb in VERBS}
_FULL_SHA = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED = re.compile(r"[0-9a-f]{4,39}")
_WORD = re.compile(r"[a-z][a-z-]{0,19}")  # harmless to repeat in an answer
_WRITERS = frozenset({"admin", "maintain", "write"})


@dataclass(frozen=True, slots=True)
class Command:
    """A command; `sha` in lower case, `change_class` only of `judge`."""

    verb: Verb
    sha: str | None = None
    change_class: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A comment that starts with `/fvec` and is no command; `reason` is one line for people."""

    reason: str


def parse(body: str) -> Command | Refused | None:
    """Return the command of a comment, why it is none, or None where it is not for us.

    Total: any text has an answer. A reason repeats nothing of the comment but a plain word.
    """
    if not body.startswith(PREFIX):
        return None
    line, _, below = body[len(PREFIX) :].replace("\r\n", "\n").partition("\n")
    if line[:1] not in ("", " ", "\t"):
        return None  # another word that begins alike
    if below.strip(" \t\r\n"):
        return Refused("a command is one line, and nothing may stand below it")
    if len(body) > len(PREFIX) + MOST_BLANKS:
        return Refused("a command is one short line")
    words = [word.lower() for word in re.split(r"[ \t]+", line.strip(" \t")) if word]
    if not words:
        return Refused(f"no command is named: {_CHOICES}")
    return _command(words[0], words[1:])


def who_may(
    command: Command,
    permission: str,
    *,
    is_fork: bool,
    own_branch: bool,
    is_bot: bool = False,
    in_workflow: bool = False,
) -> str | None:
    """Return why this person may not give this command here, in one line; None where they may.

    `permission` is what GitHub's API answers for the repository: `admin`, `maintain`, `write`,
    `triage`, `read` or `none`. `own_branch`: the head is a branch of ours in this repository.
    `in_workflow`: a workflow of the repository follows it, and measures no fork, whoever asks.
    """
    if is_bot or permission not in _WRITERS:
        who = "only" if is_bot else "who may write to this repository"
        return f"commands are taken from people {who}"
    if command.verb == "help":
        return None
    if is_fork and in_workflow:
        return (
            "this comes from a fork, whose code a workflow would run on your runners: push the "
            "branch to this repository and open a pull request from there"
        )
    if command.verb in ("rerun", "recreate") and not own_branch:
        return (
            f"`{PREFIX} {command.verb}` is for pull requests that fvec opened; "
            f"`{PREFIX} judge` judges any"
        )
    if is_fork and command.sha is None:
        return (
            "this comes from a fork: look at the commit and name it, "
            f"`{PREFIX} {command.verb} SHA` with all 40 digits"
        )
    return None


def _command(word: str, words: list[str]) -> Command | Refused:
    verb = _BY_NAME.get(word)
    if verb is None:
        named = f"`{word}` is" if _WORD.fullmatch(word) else "that is"
        return Refused(f"{named} no command: {_CHOICES}")
    sha = change_class = None
    for argument in words:
        if sha is None and _FULL_SHA.fullmatch(argument) and verb in ("rerun", "judge"):
            sha = argument
        elif change_class is None and argument in _CLASSES and verb == "judge":
            change_class = argument
        else:
            return Refused(_wrong_argument(verb, argument))
    return Command(verb, sha, change_class)


def _wrong_argument(verb: Verb, argument: str) -> str:
    if _ABBREVIATED.fullmatch(argument) and verb in ("rerun", "judge"):
        return "a commit is named by all its 40 digits"
    takes = {
        "rerun": "takes one commit at most, of 40 digits",
        "judge": f"takes a class ({', '.join(_CLASSES)}) and a commit of 40 digits, each once",
        "recreate": "stands alone",
        "help": "stands alone",
    }[verb]
    return f"`{PREFIX} {verb}` {takes}"
