"""`fvec knowledge`: check the cards, or show what is known."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands import arguments
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from knowledge.store import Cards

INVALID = 3


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("knowledge", help="the cards")
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
    show = actions.add_parser("show", help="list the packaged cards, or print one")
    show.add_argument("id", metavar="ID", nargs="?", help="the card's id")
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
    """List the cards, or show one as it is in its file."""
    from rich.text import Text

    from bot.render.text import visible
    from knowledge import schema, store
    from layers.errors import InvalidInput

    cards = store.load_cards(store.builtin_directory(), *args.directories)
    if args.id is None:
        return _listed(cards)
    card = cards.get(args.id)
    if card is None:
        raise InvalidInput(f"there is no card {args.id!r}", hint=_nearest(args.id, cards))
    text = cards.path_of(card.id).read_text(encoding="utf-8")
    return Outcome(schema.show(card), Text(visible(text).rstrip()))


def _listed(cards: Cards) -> Outcome:
    from bot.render import terminal

    rows: list[tuple[str, str, str, int]] = [
        (card.id, card.layer, card.title, len(card.findings)) for card in cards.cookbook
    ]
    rows += [(card.id, card.kind, card.title, 0) for card in cards.facts]
    keys = ("id", "about", "title", "findings")
    document = {
        "schema": "fvec.knowledge/1",
        "cards": [dict(zip(keys, row, strict=True)) for row in rows],
    }
    cells = [[str(value) for value in row] for row in rows]
    return Outcome(document, terminal.plain_table(keys, cells, right={3}))


def _nearest(card_id: str, cards: Cards) -> str:
    import difflib

    close = difflib.get_close_matches(card_id, list(cards.paths), n=3)
    return f"did you mean {', '.join(close)}?" if close else "fvec knowledge show lists them"
