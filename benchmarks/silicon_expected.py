"""Expected times against aiconfigurator-core's own, on rows that neither saw: `python -m benchmarks.silicon_expected [--write]`.

Held-out shapes, one in five of each system's by arithmetic: single shapes (`points`), whole values of the size along which
tables are interpolated (`sizes`), and whole layers, all sizes of them (`models`). Ours is fitted on the rest; theirs
answers from a copy of its tables without the held-out rows (mode HYBRID: measured where it can interpolate, else
SOL over the utilisation near by). Held-out systems, each in turn: ours is fitted on the others; theirs is SOL, its analytic mode,
because EMPIRICAL refuses without rows of the system.

A row is compared where theirs, with all tables, gives it back within 1 %: it keeps one row of several for the same call
(versions, kernels), and names a few classes differently. Its context attention adds a constant for writing the
cache, which is taken off. Prints |log(estimate / measured)|: median and 90th percentile. `--write` keeps our few
numbers in a card. Needs the dependency group `silicon` and the extra `engine`.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks import silicon_near as near
from benchmarks.silicon_rows import Array, Table, installed
from benchmarks.silicon_tables import TABLES
from bot.render.markdown import table
from knowledge.store import builtin_directory
from layers.floor.expected import Efficiency

CARD = builtin_directory() / "hardware" / "expected-times.yaml"
PROTOCOLS = ("points", "sizes", "models")
GROUP = ("dtype", "family")
GIVEN_BACK = 0.01  # relative
LAYER = {
    "GEMM": ("n", "k"),
    "context attention": ("num_heads", "num_key_value_heads", "head_dim", "window_size"),
    "decode attention": ("num_heads", "num_key_value_heads", "head_dim", "window_size"),
    "encoder attention": ("num_heads", "head_dim"),
    "MLA context": ("num_heads",),
    "MLA decode": ("num_heads",),
    "MLA expansion": ("num_heads",),
    "experts": ("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"),
}
CLASSES = tuple(entry for entry in TABLES if entry.operation in near.AXES)


@dataclass(frozen=True, slots=True)
class Compared:
    """Errors of the same rows: |log(estimate / measured)|."""

    operation: str
    held_out: str
    theirs: Array
    near: Array
    few: Array


def main(argv: Sequence[str]) -> int:
    """Print the comparison; return 2 without the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="held-out rows of a class")
    parser.add_argument("--only", help="one class")
    parser.add_argument("--write", action="store_true", help=f"write {CARD.name}")
    options = parser.parse_args(argv)
    root = installed()
    if root is None or importlib.util.find_spec("scipy") is None:
        sys.stderr.write(
            "aiconfigurator-core and scipy are needed: --group silicon, extra engine\n"
        )
        return 2
    classes = [entry for entry in CLASSES if options.only in (None, entry.operation)]
    found, kept = [], {}
    with tempfile.TemporaryDirectory() as folder:
        trees = {name: _tree(root, Path(folder) / name, name, classes) for name in PROTOCOLS}
        for entry in classes:
            frame = near.with_terms(root, entry)
            for each in compared(root, entry, frame, trees, options.rows):
                found.append(each)
                sys.stdout.write(report([each]).splitlines()[-1] + "\n")
                sys.stdout.flush()
            kept[entry.operation] = near.fits(frame, GROUP)
    sys.stdout.write(report(found))
    if options.write:
        CARD.write_text(card(kept))
    return 0


def compared(
    root: Path, entry: Table, frame: pl.DataFrame, trees: dict[str, Path], rows: int
) -> list[Compared]:
    """Return the errors of one class under each protocol."""
    found = []
    for protocol in PROTOCOLS:
        if protocol == "models" and entry.operation not in LAYER:
            continue
        marked = frame.with_columns(held_out=held_out(entry, protocol, frame))
        test, theirs = _asked(root, entry, marked.filter("held_out"), trees[protocol], rows)
        ours = _by_shape(marked.filter(~pl.col("held_out")), test, entry.operation)
        found.append(_errors(entry, protocol, test, theirs, ours))
    test, theirs = _asked(root, entry, frame, None, rows)
    found.append(_errors(entry, "systems", test, theirs, _by_system(frame, test)))
    return [each for each in found if each.theirs.size]


def held_out(entry: Table, protocol: str, frame: pl.DataFrame) -> pl.Series:
    """Return which rows of a table, as read or with floors, are held out."""
    if protocol == "points":
        words = {*entry.words, *entry.dtype, "op_name", "num_gpus"}
        names = [name for name in entry.shape if name not in words]
    else:
        layer = LAYER.get(entry.operation, ())
        names = list(near.AXES[entry.operation][:1] if protocol == "sizes" else layer)
    one_in_five = near.fifth(names, frame) == 0 if names else pl.lit(value=False)
    return frame.select(pl.repeat(0, pl.len()).alias("_"), held=one_in_five)["held"]


def _tree(root: Path, target: Path, protocol: str, classes: Sequence[Table]) -> Path:
    """Return a copy of the package's tables without the held-out rows of the classes."""
    from benchmarks.silicon_other import without

    held = {name: partial(held_out, entry, protocol) for entry in classes for name in entry.files}
    without(root.parent, target, held)
    return target


def _asked(
    root: Path, entry: Table, frame: pl.DataFrame, tree: Path | None, rows: int
) -> tuple[pl.DataFrame, Array]:
    """Return rows that theirs gives back with all tables, and its seconds from the tree (None: by SOL)."""
    from benchmarks.silicon_other import estimates

    test = frame.sample(min(rows, len(frame)), seed=near.SEED)
    took = test["latency_s"].to_numpy()
    whole = estimates(test, entry.operation, root.parent, "SILICON")
    held, mode = (root.parent, "SOL") if tree is None else (tree, "HYBRID")
    found = estimates(test, entry.operation, held, mode)
    if entry.operation == "context attention":
        extra = test.select("system", extra=pl.Series(whole - took))
        constant = extra.select(pl.col("extra").median().over("system"))["extra"].to_numpy()
        whole = whole - constant
        found = found if tree is None else found - constant
    kept = (np.abs(whole / took - 1.0) < GIVEN_BACK) & (found > 0)
    return test.filter(pl.Series(kept)), found[kept]


def _by_shape(train: pl.DataFrame, test: pl.DataFrame, operation: str) -> tuple[Array, Array]:
    """Return our seconds of test rows from other shapes: with what is near by, and from few numbers alone."""
    own = near.own_table(train)
    alike, of_table = near.fits(train, GROUP), near.fits(train, own)

    def expected_s(frame: pl.DataFrame) -> Array:
        found = near.expected(frame, of_table, own)
        return np.where(np.isfinite(found), found, near.expected(frame, alike, GROUP))

    asked = test.with_columns(expected_s=expected_s(test))
    factors = near.by_lines(_known(train, expected_s(train)), asked, operation)
    return asked["expected_s"].to_numpy() * factors, near.expected(test, alike, GROUP)


def _by_system(frame: pl.DataFrame, test: pl.DataFrame) -> tuple[Array, Array]:
    """Return our seconds of test rows from other systems: by the same call there, and from few numbers alone."""
    both = np.full((2, len(test)), np.nan)
    placed = test.with_row_index("place")
    for (system,), part in placed.group_by("system", maintain_order=True):
        others = frame.filter(pl.col("system") != system)
        own = part["family"][0]
        alike, any_family = near.fits(others, GROUP), near.fits(others, GROUP[:1])
        found = {key: alike.get((key[0], own), value) for key, value in any_family.items()}
        few = near.expected(part, found, GROUP[:1])
        same = others.join(part, on=near.CALL, how="semi")
        train = _known(same, near.expected(same, found, GROUP[:1]))
        both[:, part["place"].to_numpy()] = few * near.by_systems(train, part), few
    return both[0], both[1]


def _known(frame: pl.DataFrame, expected_s: Array) -> pl.DataFrame:
    """Return the rows that have an expected time, with it."""
    return frame.with_columns(expected_s=expected_s).filter(pl.col("expected_s").is_finite())


def _errors(
    entry: Table,
    name: str,
    test: pl.DataFrame,
    theirs: Array,
    ours: tuple[Array, Array],
) -> Compared:
    took = test["latency_s"].to_numpy()
    kept = np.isfinite(ours[0])
    errors = (np.abs(np.log(each[kept] / took[kept])) for each in (theirs, *ours))
    return Compared(entry.operation, name, *errors)


def report(found: Sequence[Compared]) -> str:
    """Return the comparison as a table."""
    head = (
        *("class", "held out", "rows", "theirs: median", "90th"),
        *("ours, near by: median", "90th", "ours, few numbers: median", "90th"),
    )
    rows = [
        (
            each.operation,
            each.held_out,
            f"{each.theirs.size:,}",
            *(
                f"{np.quantile(errors, share):.3f}"
                for errors in (each.theirs, each.near, each.few)
                for share in (0.5, 0.9)
            ),
        )
        for each in found
    ]
    return table(head, rows) + "\n"


def card(found: dict[str, dict[tuple[str, ...], Efficiency]]) -> str:
    """Return the efficiencies as a card of knowledge: four numbers by dtype and family."""
    facts = []
    for operation, groups in found.items():
        facts.append(f"  {'_'.join(re.findall('[a-z0-9]+', operation.lower()))}:")
        for (dtype, family), each in groups.items():
            spelt = " ".join(f"{number:.3g}" for number in near.numbers_of(each))
            facts.append(f"    {dtype or 'any'} {family}: {spelt}")
    return "\n".join([*CARD_HEAD, *facts, *CARD_FOOT, ""])


CARD_HEAD = (
    "schema: fvec.card/1",
    "kind: hardware",
    f"id: {CARD.stem}",
    "title: What a measured operation takes over the seconds that its floor is made of",
    "facts:",
    "  rule: fixed + root of (moved * moved_s + kept * kept_s)^2 + (math * math_s)^2",
    "  order: moved kept math fixed_s",
)
CARD_FOOT = (
    "notes:",
    '  - "Each entry is fitted on all systems, frameworks, versions and kernels of one class, dtype and family, so it '
    "is what the middle of them takes. moved_s: bytes from memory or over a link at its rate; kept_s: bytes that the "
    'last-level cache kept from the call before, at the rate of memory; math_s: FLOPs at the peak."',
    "sources:",
    "  - title: aiconfigurator-core 0.12.0 (PyPI), systems/data; fitted by benchmarks/silicon_expected.py",
    "    url: https://pypi.org/project/aiconfigurator-core/0.12.0/",
)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
