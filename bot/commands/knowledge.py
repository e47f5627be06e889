"""`fvec knowledge`: check the cards, or show what is known."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands import arguments
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from knowledge.cards import FactCard, SkillCard, TriedCard
    from knowledge.overview import Overview
    from knowledge.store import Cards

INVALID = 3
LAYERS = ("kernel", "graph", "server", "features", "config")


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("knowledge", help="check the cards, or show what is known")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser("check", help="check every card below the directories")
    check.add_argument(
        "directories",
        metavar="DIR",
        type=Path,
        nargs="*",
        help="folders of cards (default: the packaged ones)",
    )
    arguments.add_json(check)
    check.set_defaults(handler=run_check)
    show = actions.add_parser("show", help="show the cards and what was found with them")
    show.add_argument("id", metavar="ID", nargs="?", help="the card's id: show all of it")
    show.add_argument(
        "--layer", metavar="LAYER", choices=LAYERS, help=f"only cards of it: {', '.join(LAYERS)}"
    )
    show.add_argument(
        "--dir",
        dest="directories",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="read these cards too; they refine the packaged ones",
    )
    arguments.add_json(show)
    show.set_defaults(handler=run_show)


def run_check(args: argparse.Namespace) -> Outcome:
    """List everything wrong with the cards; exit code 3 if anything is."""
    from rich.text import Text

    from knowledge import schema, store

    directories: Sequence[Path] = args.directories or [store.builtin_directory()]
    problems = schema.check(directories)
    cards = sum(1 for directory in directories for _ in store.card_files(directory))
    found = [str(problem) for problem in problems]
    document = {
        "schema": "fvec.knowledge-check/1",
        "directories": [str(directory) for directory in directories],
        "cards": cards,
        "problems": found,
    }
    lines = [*found, f"{cards} cards, {len(problems)} problems"]
    return Outcome(document, Text("\n".join(lines)), INVALID if problems else 0)


def run_show(args: argparse.Namespace) -> Outcome:
    """Show the cards, one block each: what they say, what was found, what still holds."""
    from bot.render import knowledge as render
    from knowledge import schema, store
    from knowledge.overview import overviews
    from layers.errors import InvalidInput

    cards = store.load_cards(store.builtin_directory(), *args.directories)
    today = datetime.now(UTC).date()
    told = [o for o in overviews(cards.cookbook, today) if args.layer in {None, o.card.layer}]
    facts = [card for card in cards.facts if args.layer is None]
    skills = [card for card in cards.skills if args.layer is None]
    if args.id is None:
        listed = {"schema": "fvec.knowledge/1", "cards": _listed(told, facts, skills)}
        return Outcome(listed, render.blocks(told, facts, skills))
    told = [o for o in told if o.card.id == args.id]
    facts, skills = [c for c in facts if c.id == args.id], [c for c in skills if c.id == args.id]
    found: list[TriedCard | FactCard] = [*(o.card for o in told), *facts, *skills]
    if not found:
        where = f" of layer {args.layer}" if args.layer else ""
        raise InvalidInput(f"there is no card {args.id!r}{where}", hint=_nearest(args.id, cards))
    document = schema.show(found[0])
    if told:
        document["overview"] = told[0].data()
    return Outcome(document, render.blocks(told, facts, skills, whole=True))


def _listed(
    told: Sequence[Overview], facts: Sequence[FactCard], skills: Sequence[SkillCard]
) -> list[dict[str, object]]:
    """Return one row of plain data per card."""
    rows: list[dict[str, object]] = [
        {
            "id": overview.card.id,
            "about": overview.card.layer,
            "title": overview.card.title,
            "findings": len(overview.card.findings),
            **overview.data(),
        }
        for overview in told
    ]
    rows += [{"id": c.id, "about": c.kind, "title": c.title, "findings": 0} for c in facts]
    rows += [
        {
            "id": skill.id,
            "about": skill.kind,
            "tier": skill.tier,
            "tags": skill.tags,
            "title": skill.title,
            "findings": len(skill.findings),
        }
        for skill in skills
    ]
    return rows


def _nearest(card_id: str, cards: Cards) -> str:
    import difflib

    close = difflib.get_close_matches(card_id, list(cards.paths), n=3)
    return f"did you mean {', '.join(close)}?" if close else "fvec knowledge show lists them"
