"""`fvec init`: a first manifest and synthetic traffic for a serving repository without them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from bot.commands import arguments, engine
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from rich.text import Text

    from layers.scaffold.draft import Guess
    from layers.scaffold.models import Model
    from layers.scaffold.plan import Plan

_SHOWN_NAMES = 4


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "init", help="write a first manifest and synthetic traffic, and say what was guessed"
    )
    arguments.add_stack(parser)
    parser.add_argument(
        "--models", metavar="DIR", help="the model repository, relative to PATH (default: guessed)"
    )
    parser.add_argument(
        "--entry", metavar="NAME", help="the model that requests name (default: guessed)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be written; write nothing"
    )
    arguments.add_json(parser)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> Outcome:
    """Look at the repository, write the files unless told not to, and say what was guessed.

    Raises `InvalidInput` for a repository that has a manifest or no model that can be read.
    """
    module = engine.load("layers.scaffold.plan")
    models = str(PurePosixPath(args.models)) if args.models else None
    plan: Plan = module.make(args.path, repository=models, entry=args.entry)
    if not args.dry_run:
        module.write(plan)
    return Outcome(document(plan, dry_run=args.dry_run), view(plan, dry_run=args.dry_run))


def document(plan: Plan, *, dry_run: bool) -> dict[str, Any]:
    """Return the plan as data, schema `fvec.init/1`."""
    return {
        "schema": "fvec.init/1",
        "path": str(plan.root),
        "dry_run": dry_run,
        "repositories": [
            {"path": found.folder or ".", "models": [_model(model) for model in found.models]}
            for found in plan.repositories
        ],
        "models": plan.repository.folder,
        "entry": plan.entry.name,
        "uses": [model.name for model in plan.used],
        "files": [{"path": name, "text": text} for name, text in plan.files.items()],
        "guesses": [
            {"key": g.key, "value": g.value, "certainty": g.certainty.value, "why": g.why}
            for g in plan.guesses
        ],
        "correct_first": list(plan.correct_first),
        "skipped": [{"path": s.path, "reason": s.reason} for s in plan.skipped],
    }


def view(plan: Plan, *, dry_run: bool) -> Text:
    """Return the plan for people: what was written, found, guessed and is to be corrected."""
    from rich.text import Text

    lines = []
    if dry_run:
        for name, text in plan.files.items():
            lines += [f"--- {name}", text.rstrip("\n"), ""]
    else:
        lines += [f"wrote {name}" for name in plan.files]
    lines += ["", f"models in {plan.repository.folder}, of which requests use:"]
    lines += [f"  {model.name}  {_about(model)}" for model in plan.used]
    lines += ["", "guessed:", *(f"  {line}" for line in guessed(plan.guesses))]
    lines += ["", "correct first:"]
    lines += [f"  {number}. {line}" for number, line in enumerate(plan.correct_first, start=1)]
    if plan.skipped:
        lines += ["", "not read:", *(f"  {s.path}: {s.reason}" for s in plan.skipped)]
    if not dry_run:
        path = plan.root
        lines += ["", f"then: commit the files, fvec doctor --install {path}, fvec plan {path}"]
    return Text("\n".join(_printable(line) for line in lines))


def guessed(guesses: Sequence[Guess]) -> list[str]:
    """Return one line a guess; inputs that are filled alike share one."""
    groups: dict[tuple[str, str, str], list[Guess]] = {}
    for guess in guesses:
        what = guess.value if guess.key.startswith("traffic INPUTS ") else guess.key
        groups.setdefault((what, guess.certainty, guess.why), []).append(guess)
    lines = []
    for (what, certainty, why), alike in groups.items():
        first = alike[0]
        if first.key == what:
            lines.append(f"{certainty:<7} {what}: {first.value or 'none'}: {why}")
            continue
        names = [guess.key.removeprefix("traffic INPUTS ") for guess in alike]
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        lines.append(f"{certainty:<7} {', '.join(names[:_SHOWN_NAMES])}{more}: {what}: {why}")
    return lines


def _model(model: Model) -> dict[str, Any]:
    config = model.config
    return {
        "name": model.name,
        "path": model.folder,
        "backend": model.backend,
        "inputs": [] if config is None else [entry.name for entry in config.input],
        "calls": sorted(model.calls),
        "problems": list(model.problems),
        "notes": list(model.notes),
    }


def _about(model: Model) -> str:
    parts = [model.backend or "backend not known", *model.notes, *model.problems]
    return "; ".join(parts)


def _printable(text: str) -> str:
    """Return text with line breaks and nothing else that a terminal would obey."""
    shown = (c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text)
    return "".join(shown)
