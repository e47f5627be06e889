"""What writes candidates beside the layers' own rewrites. Pure: values and a protocol.

The loop asks a proposer once the cookbook has nothing left that is worth a trial. It writes; it
never measures, never runs an official check and never decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from layers.base import Edit, Hypothesis, Profile, StackView
from layers.evidence import Gate, Iteration, Noise
from layers.story import Step, Story


@dataclass(frozen=True, slots=True)
class Situation:
    """What a proposer may know when it is asked for a candidate."""

    base: StackView  # the stack with all that was accepted so far
    profile: Profile  # of `base`
    noise: Noise
    iterations: Sequence[Iteration]  # of this run
    not_tried: Sequence[str]  # what the cookbook found and could not do, one line each
    number: int  # of this request, from 1
    left: int  # candidates that the run may still try


@dataclass(frozen=True, slots=True)
class Checked:
    """What the public checks say of a draft: paths, build, serving, recorded answers.

    The hidden ones (changed requests, the referee, the metric, all that is timed) are the trial's.
    """

    gates: tuple[Gate, ...]
    passed: bool
    reason: str = ""  # of the first gate that failed
    detail: str = ""  # for the author: lines of a build log, the first outputs that differ


Check: TypeAlias = Callable[[Hypothesis, Edit], Checked]


@dataclass(frozen=True, slots=True)
class Written:
    """A candidate, or the story of why there is none; and what the proposer knows afterwards."""

    story: Story
    state: Mapping[str, Any]  # plain data, for `Proposer.restore`
    hypothesis: Hypothesis | None = None
    edit: Edit | None = None
    ended: str = ""  # why this proposer is not to be asked again in this run
    backlog: tuple[str, ...] = ()  # one line an issue, as it stands now


@dataclass(frozen=True, slots=True)
class Heard:
    """What a proposer made of a verdict on what it wrote."""

    state: Mapping[str, Any]
    steps: tuple[Step, ...] = ()  # to be told at the end of the candidate's story
    ended: str = ""
    backlog: tuple[str, ...] = ()


class Proposer(Protocol):
    """One author of candidates, with a memory of its own."""

    name: str

    def write(self, situation: Situation, check: Check) -> Written:
        """Write one candidate that passes the public checks, or say why there is none.

        Never raises for what a model, a program or a service did; RunStopped passes through.
        """

    def heard(self, iteration: Iteration, situation: Situation) -> Heard:
        """Take the verdict on the candidate that it wrote last."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what an earlier process of the run had: the newest state that it returned."""

    def kept(self) -> Mapping[str, bytes]:
        """Return the files that outlive the run, by path below the repository's folder of cards."""
