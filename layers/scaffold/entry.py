"""Which model repository of a checkout is served, and which of its models requests name. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from layers.errors import InvalidInput
from layers.manifest import MODEL_NAME
from layers.scaffold.models import Model, Repository

_ASIDE = (
    "test",
    "qa",
    "example",
    "docs",
    "sample",
    "benchmark",
    "tutorial",
    "mock",
    "archive",
    "old",
)
_SHOWN = 4


class Certainty(StrEnum):
    """How sure a guess is."""

    SURE = "sure"  # the repository says so
    LIKELY = "likely"  # names or shapes suggest it
    GUESS = "guess"  # nothing says so
    UNKNOWN = "unknown"  # not even guessed: a person has to say it


@dataclass(frozen=True, slots=True)
class Choice:
    """A repository or a model, and why it is the one."""

    name: str
    certainty: Certainty
    why: str


def usable(model: Model) -> bool:
    """Return whether requests can be made for a model at all."""
    return model.readable and not (model.decoupled or model.stateful)


def choose_repository(
    repositories: Sequence[Repository], wanted: str | None
) -> tuple[Repository, Choice]:
    """Return the model repository to measure; InvalidInput where there is none.

    `wanted` is the folder that a person named, relative to the root.
    """
    if wanted is not None:
        named = next((found for found in repositories if found.folder == wanted), None)
        if named is None:
            known = ", ".join(found.folder or "." for found in repositories[:_SHOWN])
            raise InvalidInput(
                f"{wanted} holds no model", hint=f"model repositories here: {known or 'none'}"
            )
        return named, Choice(wanted, Certainty.SURE, "named by --models")
    best = min(repositories, key=_worth)
    if len(repositories) == 1:
        why = "the only folder with models"
        return best, Choice(best.folder, Certainty.SURE, why)
    others = _listed([found.folder or "." for found in repositories if found is not best])
    why = f"of {len(repositories)} model repositories the one with most that can be served here"
    return best, Choice(best.folder, Certainty.GUESS, f"{why}; others: {others}")


def _worth(found: Repository) -> tuple[bool, bool, bool, bool, int, int, str]:
    """Sort key: the model repository that is most probably the product comes first."""
    whole = [model for model in found.models if usable(model) and not model.problems]
    parts = found.folder.lower().split("/")
    aside = any(part.startswith(_ASIDE) or part.endswith("tests") for part in parts)
    return (
        not any(usable(model) for model in found.models),
        not found.folder,
        aside,
        not any(model.backend == "python" for model in whole),
        -len(whole),
        len(parts),
        found.folder,
    )


def call_graph(repository: Repository) -> dict[str, set[str]]:
    """Return, by model, the models of the repository that it calls."""
    names = {model.name for model in repository.models}
    return {
        model.name: ((model.calls | model.source.strings) & names) - {model.name}
        for model in repository.models
    }


def reach(graph: Mapping[str, set[str]], name: str) -> set[str]:
    """Return a model and all that it calls, directly or not."""
    seen, waiting = {name}, [name]
    while waiting:
        new = graph.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += sorted(new)
    return seen


def to_load(repository: Repository, entry: Model) -> list[Choice]:
    """Return the models that the code of a stack calls by name, by name: no server knows of them.

    What an ensemble is made of is left out: a server loads it with the ensemble.
    """
    names = {model.name for model in repository.models}
    reached = reach(call_graph(repository), entry.name)
    steps = {
        model.name: {step.model_name for step in model.config.ensemble_scheduling.step} & names
        for model in repository.models
    }
    loaded, found = reach(steps, entry.name), list[Choice]()
    # Ensembles first: what they are made of need not be named beside them.
    for model in sorted(repository.models, key=lambda one: (one.backend != "ensemble", one.name)):
        choice = _called_by_code(model.name, [m for m in repository.models if m.name in reached])
        if model.name in reached - loaded and choice and re.fullmatch(MODEL_NAME, model.name):
            found.append(choice)
            loaded |= reach(steps, model.name)
    return sorted(found, key=lambda choice: choice.name)


def _called_by_code(name: str, models: Sequence[Model]) -> Choice | None:
    """Return a model as what the code of others calls, None where none does."""
    for model in models:
        if model.name != name and name in model.source.calls:
            return Choice(name, Certainty.LIKELY, f"the code of {model.name} calls it by name")
    for model in models:
        if model.name != name and name in model.source.strings:
            why = f"the code of {model.name} computes whom it calls, and has this name in it"
            return Choice(name, Certainty.GUESS, why)
    return None


def choose_entry(repository: Repository, wanted: str | None) -> tuple[Model, Choice]:
    """Return the model that requests name; InvalidInput where none can be."""
    candidates = [model for model in repository.models if model.readable]
    if wanted is not None:
        named = repository.find(wanted)
        if named is None or not named.readable:
            why = "has no readable configuration" if named else f"is not in {repository.folder}"
            hint = f"models: {_listed([model.name for model in candidates]) or 'none'}"
            raise InvalidInput(f"the model {wanted!r} {why}", hint=hint)
        return named, Choice(wanted, Certainty.SURE, "named by --entry")
    if not candidates:
        first = repository.models[0]
        raise InvalidInput(
            f"no model of {repository.folder or 'the checkout'} can be read: {first.name}: "
            f"{first.problems[0]}",
            hint="fill the templates in or correct the configuration, then try again",
        )
    if len(repository.models) == 1:
        return candidates[0], Choice(candidates[0].name, Certainty.SURE, "the only model")
    graph = call_graph(repository)
    model, certainty, why = _entry(candidates, graph)
    return model, Choice(model.name, certainty, why)


def _entry(
    candidates: Sequence[Model], graph: Mapping[str, set[str]]
) -> tuple[Model, Certainty, str]:
    """Choose among several models; `graph` says who calls whom."""
    called = set().union(*graph.values())
    roots = [model for model in candidates if model.name not in called] or list(candidates)
    ensembles = [model for model in roots if model.backend == "ensemble"]

    def worth(model: Model) -> tuple[bool, bool, int, bool, str]:
        return (
            not usable(model),
            not model.config.input,
            -len(reach(graph, model.name)),
            model.backend != "python",
            model.name,
        )

    best = min(ensembles or roots, key=worth)
    others = _listed(sorted(model.name for model in ensembles or roots if model is not best))
    if len(ensembles) == 1 and usable(best):
        return best, Certainty.SURE, "the only ensemble that no other model calls"
    if ensembles:
        return best, Certainty.GUESS, f"the ensemble that uses most models; others: {others}"
    if len(roots) == 1:
        return best, Certainty.LIKELY, "the only model that no other calls"
    if not any(model.name in called for model in [best]) and graph[best.name]:
        return best, Certainty.LIKELY, f"it calls most other models; not called either: {others}"
    return best, Certainty.GUESS, f"one of {len(roots)} that no other model calls; others: {others}"


def _listed(names: Sequence[str]) -> str:
    """Return a few names as text."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
