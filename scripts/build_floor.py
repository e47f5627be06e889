"""Build `floor.pyz`: floors as one file that Python runs by itself, with SKILL.md beside it.

`python scripts/build_floor.py FOLDER`. Packed are `layers.floor`, the program, every hardware card with the
sources of its constants, and the stop thresholds; nothing that is not in the standard library.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipapp
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from bot.commands.deployment import thresholds
from knowledge.store import builtin_directory, load_cards, load_device
from layers.floor_program.inputs import PACKED
from layers.hardware_cards import devices

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("floor", "floor_program")
SKILL = ROOT / "skills" / "floor-first" / "SKILL.md"
MAIN = "import sys\n\nfrom layers.floor_program.main import main\n\nsys.exit(main())\n"


def build(folder: Path) -> Path:
    """Write floor.pyz and SKILL.md to a folder and return the program's path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "floor.pyz"
    with tempfile.TemporaryDirectory() as temporary:
        _lay_out(Path(temporary))
        zipapp.create_archive(temporary, program, "/usr/bin/env python3", compressed=True)
    shutil.copyfile(SKILL, folder / SKILL.name)
    return program


def _lay_out(tree: Path) -> None:
    layers = tree / "layers"
    for package in PACKAGES:
        sources = ROOT / "layers" / package
        for source in sorted(sources.rglob("*.py")):
            target = layers / package / source.relative_to(sources)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    (layers / "__init__.py").write_text("")
    (tree / "__main__.py").write_text(MAIN)
    (layers / "floor_program" / PACKED).write_text(json.dumps(_packed()))


def _packed() -> dict[str, object]:
    table = thresholds(())
    limits = {
        name: {key: asdict(limit) for key, limit in rows.items()} for name, rows in table.items()
    }
    return {"cards": list(_cards()), "thresholds": limits}


def _cards() -> Iterator[dict[str, object]]:
    cards = load_cards(builtin_directory())
    for card_id in devices(cards):
        card = load_device(cards.path_of(card_id))
        yield card.model_dump(
            mode="json", exclude_none=True, include={"id", "title", "facts", "sources"}
        )


if __name__ == "__main__":
    sys.stdout.write(f"{build(Path(sys.argv[1]))}\n")
