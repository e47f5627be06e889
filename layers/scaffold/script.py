"""The traffic script of one stack: a copy of `generator` with its tables filled in. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from layers.scaffold import generator
from layers.scaffold.entry import Certainty
from layers.scaffold.inputs import BATCH, Input, Size

BEGIN, END = "# --- tables ---\n", "# --- end of tables ---\n"
CORRECT = "CORRECT FIRST"


def tables(
    model: str, inputs: Sequence[Input], sizes: Sequence[Size], root: Path
) -> generator.Tables:
    """Return what the script will hold, to be drawn from at once."""
    return generator.Tables(
        model,
        {entry.name: (entry.datatype, list(entry.dims), entry.draw) for entry in inputs},
        {size.name: (size.low, size.high) for size in sizes},
        BATCH if any(size.name == BATCH for size in sizes) else None,
        frozenset(entry.name for entry in inputs if entry.optional),
        root=root,
    )


def text(
    model: str, inputs: Sequence[Input], sizes: Sequence[Size], *, depth: int, requests: int
) -> str:
    """Return the script; it lies `depth` folders below the repository's root."""
    source = Path(generator.__file__).read_text("utf-8")
    head, _, rest = source.partition(BEGIN)
    tail = rest.partition(END)[2]
    return head + BEGIN + _tables(model, inputs, sizes, depth, requests) + END + tail


def _tables(
    model: str, inputs: Sequence[Input], sizes: Sequence[Size], depth: int, requests: int
) -> str:
    batch = BATCH if any(size.name == BATCH for size in sizes) else None
    optional = {entry.name for entry in inputs if entry.optional}
    lines = [
        "# Written by `fvec init`. Behind every guess stands how sure it is: sure, likely, guess.",
        f"MODEL = {model!r}",
        "SEED = 18",
        f"ROOT = Path(__file__).resolve().parents[{depth}]  # what files below are relative to",
        f"RATE = {generator.RATE!r}  # {CORRECT}: requests per second, on average; a guess",
        f"ARRIVALS = {generator.ARRIVALS}",
        f"REQUESTS = {requests}  # different requests among them",
        f"OPTIONAL_SHARE = {generator.OPTIONAL_SHARE}  # of requests that hold an optional input",
        f"BATCH: str | None = {batch!r}  # the size in front of all dims",
        "# sizes that vary, smallest and largest",
        "SIZES: dict[str, tuple[int, int]] = {",
        *(f"    {s.name!r}: ({s.low}, {s.high}),{_remark(s.certainty, s.why)}" for s in sizes),
        "}",
        *(() if inputs else [f"# {CORRECT}: config.pbtxt does not say what the model takes"]),
        "# input: (datatype, dims without the batch, how values are drawn: see NUMBERS and STRINGS)",
        "INPUTS: dict[str, tuple[Any, ...]] = {",
        *(_row(entry) for entry in inputs),
        "}",
        f"OPTIONAL: set[str] = {'{' + ', '.join(map(repr, sorted(optional))) + '}' if optional else 'set()'}",
    ]
    return "\n".join(lines) + "\n"


def _row(entry: Input) -> str:
    value = (entry.datatype, list(entry.dims), entry.draw)
    return f"    {entry.name!r}: {value!r},{_remark(entry.certainty, entry.why)}"


def _remark(certainty: Certainty, why: str) -> str:
    return f"  # {one_line(f'{certainty}: {why}')}"


def one_line(text: str) -> str:
    """Return text that cannot end a comment: names from a repository may hold anything."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
