"""Whether what judges a candidate is still what it was: digests before and after a trial."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import layers

ENGINE = Path(layers.__file__).parent
_OURS, _IN_USE = "fvec:", "in use: "  # how names begin


@dataclass(frozen=True, slots=True)
class Evaluator:
    """The files that a verdict rests on, by the name under which a reader knows them."""

    files: Mapping[str, Path]

    @classmethod
    def of(cls, root: Path, protected: Iterable[str], more: Sequence[Path] = ()) -> Evaluator:
        """Take the engine's own code, `protected` files and globs under `root`, and `more`."""
        files = {
            f"{_OURS}{p.relative_to(ENGINE).as_posix()}": p for p in sorted(ENGINE.rglob("*.py"))
        }
        for pattern in protected:
            for path in sorted(root.glob(pattern)):
                if path.is_file():
                    files[path.relative_to(root).as_posix()] = path
        files |= {f"{_IN_USE}{path.name}": path for path in more}
        return cls(files)

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file; "absent" for one that is gone or is no plain file."""
        seen: dict[Path, str] = {}  # the traffic is named twice, and large
        return {name: _digest(path.resolve(), seen) for name, path in self.files.items()}


def of_no_base(digests: Mapping[str, str]) -> dict[str, str]:
    """Return those of the engine's code and of what is in use: the same for every candidate."""
    return {n: sha for n, sha in digests.items() if n.startswith((_OURS, _IN_USE))}


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names whose digest differs, in order; new and missing ones too."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def _digest(path: Path, seen: dict[Path, str]) -> str:
    if path not in seen:
        try:
            with path.open("rb") as file:
                seen[path] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            seen[path] = "absent"
    return seen[path]
