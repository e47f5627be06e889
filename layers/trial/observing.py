"""What both arms of a trial show under the work load: profiles, mapped files, configurations.

Looked at from outside, by the framework; nothing of a candidate is executed or asked for it. What
it means for a candidate's contract is decided in `layers.trial.activation`.
"""

from __future__ import annotations

import filecmp
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

from layers.base import Activation, Contract, Profile, Sign, StackView
from layers.errors import InvalidInput, Missing, ToolFailed
from layers.evidence import ProfileRecord
from layers.measure.launch import Arm, Launch, Served
from layers.trial.activation import Shown, gate, signs, undecided, unsampled, with_earlier
from layers.trial.sameness import bodies, own_name
from layers.trial.trial import Trial
from layers.triton.client import Refused

MOST_VALUE = 200  # characters of a value that a server reports
MOST_SOURCE_BYTES = 2 << 20  # of a file whose functions are compared: as large as an edit may be
MOST_LOOKS = 3  # profiles of each arm: one that samples may miss what runs for a short while
MOST_SOURCES = 64  # files of one process that a function is looked for in


@dataclass(frozen=True, slots=True)
class Looked:
    """One arm, as functions are looked for in it: its checkout, and its profile."""

    root: Path
    profile: Profile


@dataclass(frozen=True, slots=True)
class Profiling:
    """How a trial profiles a running arm, and how the profile becomes evidence."""

    profile: Callable[[Served, StackView, str], Profile]  # the name is that of its raw files
    record: Callable[[Profile], ProfileRecord]


def station(
    trial: Trial, launch: Launch, views: Mapping[Arm, StackView], profiling: Profiling | None
) -> None:
    """Profile both running arms, one after the other; end the trial where a sign is not seen.

    Both are profiled again where a function that should run is on no stack. A candidate that cannot
    be profiled where the baseline can is undecided: nothing of it was refuted, and nothing shown.
    Raises DoesNotServe where it dies meanwhile, ToolFailed where the baseline cannot be profiled.
    """
    contract = trial.candidate.hypothesis.contract
    if contract is None:
        return
    if profiling is None:
        raise ToolFailed("nothing profiles here, and the candidate's contract asks for it")

    def shown(arm: Arm, look: int) -> Shown:
        with launch.blaming(arm):
            served, view = launch.arm(arm), views[arm]
            name = f"candidate-{trial.n}-{f'look-{look}-' if look > 1 else ''}{arm}"
            profiled = profiling.profile(served, view, name)
            served.alive()  # the stacks of what has died meanwhile are no evidence
            return observe(served, view, profiled, contract)

    try:
        baseline, candidate = _both(shown, contract)
    except _NotProfiledError as error:
        detail = f"the candidate could not be profiled, the baseline could: {error}"
        trial.pass_or_end(undecided(detail))
        return
    roots = {arm: view.root for arm, view in views.items()}
    changed = changed_subjects(contract, roots["baseline"], roots["candidate"])
    same = doubles(
        contract,
        Looked(roots["baseline"], baseline.profile),
        Looked(roots["candidate"], candidate.profile),
    )
    trial.profile = profiling.record(candidate.profile)
    trial.signs = signs(contract, baseline, candidate, changed, same)
    trial.pass_or_end(gate(trial.signs))


def _both(shown: Callable[[Arm, int], Shown], contract: Contract) -> tuple[Shown, Shown]:
    """Return what baseline and candidate showed, looked at as often as it takes."""
    seen = _pair(shown, 1)
    for look in range(2, MOST_LOOKS + 1):
        if not unsampled(contract, seen[1]):
            break
        again = _pair(shown, look)
        seen = with_earlier(again[0], seen[0]), with_earlier(again[1], seen[1])
    return seen


def _pair(shown: Callable[[Arm, int], Shown], look: int) -> tuple[Shown, Shown]:
    baseline = shown("baseline", look)
    try:
        return baseline, shown("candidate", look)
    except (InvalidInput, Missing, ToolFailed) as error:  # names of its functions may be anything
        raise _NotProfiledError(error.message.partition("\n")[0]) from error


class _NotProfiledError(Exception):
    """The candidate could not be profiled."""


def observe(served: Served, view: StackView, profiled: Profile, contract: Contract) -> Shown:
    """Return what a running arm shows besides its profile, of what the signs ask for."""
    pids = served.pids()
    asked = {one.model for one in contract.activation if one.sign is Sign.LOADED}
    mapped = {model: mapped_files(pids[model], view.root) for model in sorted(asked & pids.keys())}
    values: dict[tuple[str, str], str] = {}
    for one in contract.activation:
        value = _value_of(served, one) if one.sign is Sign.SERVED else None
        if value is not None:
            values[one.model, one.subject] = value
    return Shown(profiled, mapped, values)


def _value_of(served: Served, one: Activation) -> str | None:
    try:
        return reported(served.config(one.model), one.subject)
    except Refused:
        served.alive()  # a server that has died is another answer than one without such a model
        return None


def mapped_files(pid: int, root: Path) -> frozenset[str]:
    """Return the files below `root` that a process maps, relative to it; none of one that has gone."""
    start = f"{root}/"
    found: set[str] = set()
    try:
        with Path(f"/proc/{pid}/maps").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:  # address, permissions, offset, device, inode, path
                parts = line.rstrip("\n").split(maxsplit=5)
                if len(parts) == 6 and parts[5].startswith(start):
                    found.add(parts[5].removeprefix(start))
    except OSError:
        return frozenset()
    return frozenset(found)


def reported(config: Message, path: str) -> str | None:
    """Return what a configuration says at a path, None where nothing is set there.

    Steps are names of fields, keys of a map and places in a list, as in `instance_group[0].count`;
    a list of one item needs no place.
    """
    value = _walked(config, [step for step in re.split(r"[.\[\]]+", path) if step])
    return None if value is None else value[:MOST_VALUE]


def _walked(value: object, steps: Sequence[str]) -> str | None:
    """Follow the steps into a message, a map, a list or a plain value."""
    if isinstance(value, Message):
        return _in_message(value, steps)
    if isinstance(value, Mapping):
        return _in_map(value, steps)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return _in_list(value, steps)
    if steps:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_message(message: Message, steps: Sequence[str]) -> str | None:
    if not steps:
        return text_format.MessageToString(message, as_one_line=True).strip()
    described = message.DESCRIPTOR.fields_by_name.get(steps[0])
    if described is None:
        return None
    value: Any = getattr(message, steps[0])
    if isinstance(value, Message) and not message.HasField(steps[0]):
        return None
    if described.enum_type is not None and isinstance(value, int):
        known = described.enum_type.values_by_number.get(value)
        value = known.name if known is not None else value
    return _walked(value, steps[1:])


def _in_map(value: Mapping[Any, Any], steps: Sequence[str]) -> str | None:
    """Follow a key, which may hold dots itself: the longest one that is there."""
    keys = {str(key): key for key in value}
    for count in range(len(steps), 0, -1):
        name = ".".join(steps[:count])
        if name in keys:
            return _walked(value[keys[name]], steps[count:])
    return None


def _in_list(value: Sequence[Any], steps: Sequence[str]) -> str | None:
    if not steps:
        texts = [_walked(item, ()) for item in value]
        return ", ".join(text for text in texts if text is not None) if texts else None
    if steps[0].isdecimal():
        place = int(steps[0])
        return _walked(value[place], steps[1:]) if place < len(value) else None
    return _walked(value[0], steps) if len(value) == 1 else None


def changed_subjects(contract: Contract, baseline: Path, candidate: Path) -> frozenset[str]:
    """Return the subjects of signs whose own content differs between two checkouts.

    Of `runs` that is the function, by what it does (`layers.trial.sameness`): a remark in it, another
    name of a variable, or a change elsewhere in the file, does not count. Where a file is no Python
    any change of it does. Nothing is executed.
    """
    return frozenset(_changed(contract, baseline, candidate))


def _changed(contract: Contract, baseline: Path, candidate: Path) -> Iterator[str]:
    for one in contract.activation:
        if one.sign is Sign.LOADED:
            if not _same_content(baseline / one.subject, candidate / one.subject):
                yield one.subject
        elif one.sign is Sign.RUNS:
            file, _, function = one.subject.rpartition(":")
            if _rewritten(_source(baseline / file), _source(candidate / file), own_name(function)):
                yield one.subject


def _same_content(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _source(path: Path) -> bytes | None:
    """Return a file's content, None of what is no plain file of a size to be read."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_SOURCE_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _rewritten(old: bytes | None, new: bytes | None, function: str) -> bool:
    if old is None or new is None or old == new:
        return old != new
    before, after = (bodies(source).get(function) for source in (old, new))
    return before is None or after is None or before != after


def doubles(
    contract: Contract, baseline: Looked, candidate: Looked
) -> dict[Activation, frozenset[str]]:
    """Return by sign where the other arm does the same as its function, under another name.

    Of `runs` that is the baseline, where such code is nothing new; of `gone` the candidate, where it
    has not gone. Looked through are the files of the stack on the stacks of the model's process.
    """
    found: dict[Activation, frozenset[str]] = {}
    for one in contract.activation:
        if one.sign is Sign.RUNS:
            found[one] = frozenset(_doubles(one, candidate, baseline))
        elif one.sign is Sign.GONE:
            found[one] = frozenset(_doubles(one, baseline, candidate))
    return found


def _doubles(one: Activation, here: Looked, there: Looked) -> Iterator[str]:
    file, _, function = one.subject.rpartition(":")
    function = own_name(function)
    own = bodies(_source(here.root / file) or b"").get(function)
    for name in _own_files(one.model, there.profile) if own else ():
        for other, digests in bodies(_source(there.root / name) or b"").items():
            if (name, other) != (file, function) and not digests.isdisjoint(own or ()):
                yield f"{name}:{other}"


def _own_files(model: str, profile: Profile) -> list[str]:
    """Return the Python files of the stack that a process ran, those that took the most first.

    Their names are the process's own words: none leads out of the checkout.
    """
    names = (spot.file for spot in profile.hotspots if spot.process == model)
    own = (name for name in dict.fromkeys(names) if _is_own(PurePosixPath(name)))
    return list(islice(own, MOST_SOURCES))


def _is_own(path: PurePosixPath) -> bool:
    return path.suffix == ".py" and not path.is_absolute() and ".." not in path.parts
