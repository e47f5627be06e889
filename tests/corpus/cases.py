"""The cases of both corpora, read without running them.

A case is one file, `reject/<layer>_<name>.py` or `accept/<layer>_<name>.py`:

    docstring                what it does, and how it would fool a naive check
    CLASS                    change class that the candidate claims
    EXPECT                   reason codes, one of which the judge must give
    ref, new, make           reference, candidate, maker of inputs (the callable contract)
    make.state, make.batch   optional attributes of the maker
    metric, MARGIN           needed by class `approximate`
    referee                  optional: the float64 reference
    TORCH = True             runs in the model server's environment, which has torch
    UNSAFE = "why"           must not run outside the sandbox: the naive check skips it
    BESIDE = {"NAME": SIZE}  files of so many bytes of noise that lie beside it

A full-stack case, `stack/<layer>_<name>.py`, is a docstring, CLASS, EXPECT and EDITS, which are
(path, old text, new text) on `tests/tiny_stack`; an empty old text makes a new file.

Must-reject files are hostile on purpose, so nothing here imports them: declarations are read
from the syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from layers.base import ChangeClass

HERE = Path(__file__).parent
LAYERS = ("kernel", "graph", "features", "config", "load")
ACCEPTED = "gain_confirmed"
# What the judge says of a candidate that is right and not faster.
NO_GAIN = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")
REASONS = frozenset(
    {
        ACCEPTED,
        *NO_GAIN,
        # loading and the process
        "does_not_load",
        "global_state_changed",
        "starts_threads",
        "starts_processes",
        "crashed",
        "hangs",
        "memory_limit",
        "process_limit",
        "output_limit",
        # how it is called
        "raises",
        "does_not_raise",
        "inputs_mutated",
        "output_aliases_input",
        "output_buffer_reused",
        "outputs_depend_on_history",
        "outputs_share_memory",
        "output_not_writable",
        "works_outside_the_call",
        "answers_from_memory",
        # what it returns
        "outputs_differ",
        "beyond_ten_times",
        "too_many_outliers",
        "non_finite",
        "dtype_differs",
        "shape_differs",
        "output_missing",
        "output_extra",
        "response_missing",
        "worse_than_referee_allows",
        "no_referee",
        "metric_worse",
        "metric_undecided",
        # the measurement
        "gain_not_confirmed",
        "launches_differ",
        "memory_undecided",
        "memory_grows",
        "reference_slowed",
        "faster_than_possible",
        "too_short_to_time",
        # a whole stack
        "touches_protected_files",
        "no_op_edit",
        "served_from_cache",
        "model_did_not_run",
        "died_under_load",
        "does_not_serve",
        "refused_differently",
    }
)
Corpus = Literal["reject", "accept"]


class BadCase(ValueError):
    """A case file that does not keep to the conventions; the text names the file."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case's declarations."""

    corpus: Corpus
    name: str  # `<layer>_<what>`, the file's stem
    layer: str
    path: Path
    summary: str  # first line of the docstring
    change_class: ChangeClass
    expect: tuple[str, ...]
    margin: float | None
    has_metric: bool
    has_referee: bool
    torch: bool
    unsafe: str | None  # why it must not run outside the sandbox
    beside: tuple[tuple[str, int], ...] = ()  # files of noise beside it: name, bytes


@dataclass(frozen=True, slots=True)
class StackCase:
    """One patch on the tiny stack."""

    name: str
    layer: str
    path: Path
    summary: str
    change_class: ChangeClass
    expect: tuple[str, ...]
    edits: tuple[tuple[str, str, str], ...]  # path, old text, new text
    corpus: Corpus = "reject"


def load_stack() -> list[StackCase]:
    """Return the full-stack cases by name; raises BadCase."""
    return [_read_stack(path) for path in sorted((HERE / "stack").glob("*.py"))]


def _read_stack(path: Path) -> StackCase:
    """Return the declarations of one full-stack case; raises BadCase."""
    tree = ast.parse(path.read_bytes(), path.name)
    constants = _constants(tree)
    expect, edits = tuple(constants.get("EXPECT", ())), tuple(constants.get("EDITS", ()))
    summary = (ast.get_docstring(tree) or "").partition("\n")[0]
    layer = path.stem.split("_")[0]
    if not (summary and expect and edits and layer in LAYERS and REASONS.issuperset(expect)):
        raise BadCase(f"{path.name}: needs a docstring, CLASS, known EXPECT, EDITS and a layer")
    return StackCase(path.stem, layer, path, summary, _change_class(path, constants), expect, edits)


def load(corpus: Corpus) -> list[Case]:
    """Return a corpus' cases by name; raises BadCase."""
    return [read(path, corpus) for path in sorted((HERE / corpus).glob("*.py"))]


def load_all() -> list[Case]:
    """Return the cases of both corpora; raises BadCase."""
    return [*load("reject"), *load("accept")]


def read(path: Path, corpus: Corpus) -> Case:
    """Return the declarations of one file; raises BadCase."""
    tree = ast.parse(path.read_bytes(), path.name)
    constants = _constants(tree)
    names = _defined(tree)
    layer = path.stem.split("_")[0]
    expect = constants.get("EXPECT", ())
    margin = constants.get("MARGIN")
    case = Case(
        corpus=corpus,
        name=path.stem,
        layer=layer,
        path=path,
        summary=(ast.get_docstring(tree) or "").partition("\n")[0],
        change_class=_change_class(path, constants),
        expect=expect if isinstance(expect, tuple) else (expect,),
        margin=float(margin) if margin is not None else None,
        has_metric="metric" in names,
        has_referee="referee" in names,
        torch=bool(constants.get("TORCH", False)),
        unsafe=constants.get("UNSAFE"),
        beside=tuple(constants.get("BESIDE", {}).items()),
    )
    _check(case, names)
    return case


def _check(case: Case, names: Iterable[str]) -> None:
    """Raise BadCase for what a case lacks or contradicts."""
    missing = {"ref", "new", "make"} - set(names)
    unknown = set(case.expect) - REASONS
    approximate = case.change_class is ChangeClass.APPROXIMATE
    for wrong, what in (
        (case.layer not in LAYERS, f"the layer is one of {', '.join(LAYERS)}"),
        (not case.summary, "a docstring says what it does"),
        (bool(missing), f"{', '.join(sorted(missing))} missing"),
        (not case.expect, "EXPECT names a reason code"),
        (bool(unknown), f"unknown reason codes: {', '.join(sorted(unknown))}"),
        (
            (case.corpus == "accept") != (ACCEPTED in case.expect),
            f"EXPECT is {ACCEPTED} in `accept` alone",
        ),
        (
            approximate != (case.has_metric and case.margin is not None),
            "metric and MARGIN belong to class approximate",
        ),
    ):
        if wrong:
            raise BadCase(f"{case.path.name}: {what}")


def _change_class(path: Path, constants: dict[str, Any]) -> ChangeClass:
    try:
        return ChangeClass(constants.get("CLASS", ""))
    except ValueError as error:
        raise BadCase(f"{path.name}: CLASS is one of {', '.join(ChangeClass)}") from error


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Return what is assigned to names in capitals, as far as it is literal."""
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in {"CLASS", "EXPECT", "MARGIN", "TORCH", "UNSAFE", "BESIDE", "EDITS"}:
                found[name] = ast.literal_eval(node.value)
    return found


def _defined(tree: ast.Module) -> set[str]:
    """Return the module's functions, classes and assigned names."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return names
