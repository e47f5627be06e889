"""The plan of a change: what its author claims before a line of it counts. Pure.

A planner answers with it, a program writes it as `fvec-hypothesis.yaml`: one schema for both. The
share of time that the change can touch is never the author's word: it is what we profiled.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from knowledge.cards import Slug
from layers.base import (
    Activation,
    ChangeClass,
    Contract,
    Hypothesis,
    LayerName,
    Profile,
    Sign,
)
from layers.evidence import NoiseFloor
from layers.loop.sampling import rank
from layers.story import Told

MOST_RATIO = 20.0  # of throughput: whoever expects more has misread the profile
MOST_SIGNS = 4

_FUNCTION = re.compile(r"[^\s:/]{1,200}")
_FIELD = re.compile(r"[a-z_][a-z0-9_]*(\[\d{1,3}\])?(\.[a-z_][a-z0-9_]*(\[\d{1,3}\])?)*")


class PlanRefused(ValueError):
    """A plan that cannot be tried here; the reason is written for its author."""

    def __init__(self, reason: str) -> None:
        """Keep the reason: what is wrong, and what would not be."""
        super().__init__(reason)
        self.reason = reason


def _line(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("must be one line of printable characters, without spaces at its ends")
    return text


def plain_text(text: str) -> str:
    """Return text of several lines, all of it visible; raises ValueError for any other."""
    if not all(character.isprintable() or character in "\n\t" for character in text):
        raise ValueError("must be plain text, without control or invisible characters")
    return text


Line = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_line)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_line)]
Subject = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_line)]
Value = Annotated[str, Field(max_length=200), AfterValidator(_line)]
Prose = Annotated[str, Field(min_length=20, max_length=1500), AfterValidator(plain_text)]
Ratio = Annotated[float, Field(gt=1.0, le=MOST_RATIO)]


class Activates(Told):
    """One sign that the new path ran; see `layers.base.Activation`."""

    sign: Sign = Field(
        description="runs: a function is on a stack of the model's process under load, and was not "
        "before or is changed; gone: a function that took at least 0.5 % of the time takes at most "
        "half as much per request; loaded: a file is mapped by the model's process; served: "
        "the server reports this value of the model's configuration, and another one before"
    )
    model: Name = Field(description="in whose process, or whose configuration")
    subject: Subject = Field(
        description="runs, gone: FILE:FUNCTION, the file relative to the repository's root (one "
        "outside it by the end of its path, as the profile shows it); loaded: a file; served: a "
        "field such as dynamic_batching.max_queue_delay_microseconds"
    )
    value: Value = Field(
        default="", description="served: the value that the server reports; else empty"
    )


class Plan(Told):
    """One change, claimed so that a trial can prove it wrong."""

    issue: Slug = Field(description="short name of the issue: small letters, digits, hyphens")
    title: Line = Field(description="one imperative line: the commit's subject")
    layer: LayerName = Field(description="config: configuration files alone are edited")
    model: Name = Field(description="the served model whose process the change makes cheaper")
    change_class: ChangeClass = Field(
        description="exact: outputs equal bit for bit; reorder: floating-point operations in "
        "another order; approximate: intended, only where the manifest opts in; config: "
        "config.pbtxt alone"
    )
    claim: Prose = Field(description="the mechanism: what costs time, and why this takes it away")
    expected: tuple[Ratio, Ratio] = Field(
        description="throughput of the whole stack, after over before: low and high; 1.03 is 3 %"
    )
    activation: tuple[Activates, ...] = Field(
        min_length=1,
        max_length=MOST_SIGNS,
        description="how it will be seen, in the live server, that the new path ran",
    )
    falsifier: Prose = Field(description="the observation that would show the claim to be wrong")
    skill: str = Field(
        default="",
        pattern=r"^([a-z0-9][a-z0-9-]{0,62})?$",
        description="id of the skill that it applies; empty for none",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.expected[1] < self.expected[0]:
            raise ValueError("expected: the lower end comes first")
        return self

    def contract(self) -> Contract:
        """Return what a trial holds the change to."""
        signs = (Activation(s.sign, s.model, s.subject, s.value) for s in self.activation)
        return Contract(self.claim, self.expected, tuple(signs), self.falsifier, self.skill)


def share_of(plan: Plan, profile: Profile) -> float:
    """Return the share of all server CPU time that the change can touch, from our own profile."""
    if plan.layer is LayerName.CONFIG:
        return 1.0
    return min(1.0, profile.by_process.get(plan.model, 0.0))


def to_hypothesis(
    plan: Plan,
    profile: Profile,
    floor: NoiseFloor,
    known_models: Collection[str],
    proposer: str,
    *,
    layers: Collection[LayerName] = tuple(LayerName),
    approximate: bool = False,
) -> Hypothesis:
    """Return the plan as the loop knows hypotheses; raises PlanRefused, with what is wrong.

    `layers` are those that may be changed, `approximate` says that the manifest opts in to it. The
    expected gain is the middle of what the two ends of the range would save.
    """
    _check_place(plan, known_models, layers)
    _check_class(plan, approximate=approximate)
    for sign in plan.activation:
        _check_sign(sign, known_models)
    share = share_of(plan, profile)
    _check_low(plan, share)
    low, high = (1 - 1 / ratio for ratio in plan.expected)  # of all time
    hypothesis = Hypothesis(
        layer=plan.layer,
        card=plan.issue,
        model=plan.model,
        title=plan.title,
        why=plan.claim,
        share=share,
        expected_gain=min(1.0, (low + high) / 2 / share),
        best_gain=min(1.0, high / share),
        change_class=plan.change_class,
        transform="written",
        proposer=proposer,
        contract=plan.contract(),
    )
    _, skipped = rank([hypothesis], floor.floor_pct / 100)
    if skipped:
        raise PlanRefused(f"expected: {skipped[0].reason}, so that no trial could show it")
    return hypothesis


def _check_place(plan: Plan, models: Collection[str], layers: Collection[LayerName]) -> None:
    if plan.model not in models:
        raise PlanRefused(f"model: this stack serves {', '.join(sorted(models)) or 'no model'}")
    if plan.layer not in layers:
        allowed = ", ".join(sorted(layers))
        raise PlanRefused(f"layer: {plan.layer} may not be changed in this run, only {allowed}")


def _check_class(plan: Plan, *, approximate: bool) -> None:
    if plan.change_class is ChangeClass.APPROXIMATE and not approximate:
        raise PlanRefused(
            "change_class: the manifest does not opt in to approximate changes; outputs must stay "
            "as exact or reorder has them"
        )
    if (plan.change_class is ChangeClass.CONFIG) != (plan.layer is LayerName.CONFIG):
        raise PlanRefused(
            "change_class: config is for layer config, and the only class of that layer; code and "
            "configuration are two plans"
        )


def _check_low(plan: Plan, share: float) -> None:
    """Refuse a low end beyond what the model's process would give if all of it went away."""
    if share <= 0.0:
        raise PlanRefused(f"model: {plan.model} takes no time in the profile, so none can be saved")
    low = plan.expected[0]
    if share < 1.0 and low > (most := 1 / (1 - share)):
        raise PlanRefused(
            f"expected: {plan.model} takes {share:.1%} of the server's CPU time, so that a change "
            f"which took away all of it would give {most:.3f} times; the low end is {low:g}"
        )


def _check_sign(sign: Activates, models: Collection[str]) -> None:
    where = f"activation {sign.sign} {sign.subject!r}"
    if sign.model not in models:
        raise PlanRefused(f"{where}: this stack serves {', '.join(sorted(models))}")
    if bool(sign.value) != (sign.sign is Sign.SERVED):
        raise PlanRefused(f"{where}: value is what the server reports of a served field, only that")
    match sign.sign:
        case Sign.SERVED:
            if not _FIELD.fullmatch(sign.subject):
                raise PlanRefused(f"{where}: name a field, such as instance_group[0].count")
        case Sign.LOADED:
            _check_file(where, sign.subject)
        case Sign.RUNS | Sign.GONE:
            file, _, function = sign.subject.rpartition(":")
            if not _FUNCTION.fullmatch(function):
                raise PlanRefused(f"{where}: must be FILE:FUNCTION, as the profile shows them")
            _check_file(where, file)


def _check_file(where: str, name: str) -> None:
    """Refuse what is no plain relative path: signs are looked for below the candidate's root."""
    path = PurePosixPath(name)
    inside = bool(path.parts) and not path.is_absolute() and ".." not in path.parts
    if not inside or str(path) != name or ":" in name:
        raise PlanRefused(f"{where}: name the file by its path from the repository's root")
