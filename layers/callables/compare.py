"""A callable's outputs against the reference's, by change class. Pure.

The rules are those of `layers.gates.correctness`, for values that a served stack does not have:
nested outputs, bfloat16, complex numbers (pairs of floats here), and inputs whose outputs are large
or not finite; `deviation` has what floats may differ by. What a call made of its arguments is
compared by the same rules.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from layers.base import ChangeClass
from layers.callables import codec, memory
from layers.callables.codec import LAYOUTS, CodecError, Leaf, Tree, leaves, shape_of
from layers.callables.deviation import (
    BASE,
    EMPTY,
    LARGE_BATCH,
    TYPICAL,
    Compared,
    Errors,
    Failure,
    errors_beyond,
    kinds,
    limited,
    take_errors,
)
from layers.callables.probes import Inputs, float_bytes, floats, is_float, pairs
from layers.evidence import Gate, GateResult, OutputRow
from layers.gates.correctness import Limits
from layers.gates.tensors import Array, Floats, UpperTail, bits_differ, distance, rms

__all__ = ["BASE", "EMPTY", "LARGE_BATCH", "TYPICAL", "Answers", "Failure", "Judge", "gate"]

Truth: TypeAlias = Callable[[], "Answers | None"]  # the float64 outputs of a call, when asked for


@dataclass(frozen=True, slots=True)
class Answers:
    """What one call returned, as leaves by name."""

    shape: str
    leaves: Mapping[str, Leaf]

    @classmethod
    def of(cls, tree: Tree) -> Answers:
        """Return the answers of a call's outputs."""
        return cls(shape_of(tree), dict(leaves(tree)))

    @classmethod
    def of_arguments(cls, body: bytes) -> Answers:
        """Return what arguments hold, named as such. Raises CodecError."""
        tree = codec.decode(body)
        if not isinstance(tree, dict):
            raise CodecError("arguments are no dict")
        return cls("", {f"argument {name}": leaf for name, leaf in leaves(tree)})


@dataclass(slots=True)
class _Output:
    """What has been seen of one output."""

    leaf: Leaf
    limit: float | None
    usual: float = 0.0  # RMS on content as it is drawn, of the first call where it is not zero
    calls: int = 0
    elements: int = 0
    differing: int = 0
    outliers: int = 0
    deviation: UpperTail = field(default_factory=UpperTail)
    errors: dict[str, Errors] = field(default_factory=dict)  # by group
    refereed: int = 0

    def row(self, name: str) -> OutputRow:
        """Return the line of the equivalence table."""
        base = self.errors.get(BASE)
        return OutputRow(
            output=name,
            dtype=self.leaf.dtype if self.leaf.dtype != "O" else "BYTES",
            requests=self.calls,
            elements=self.elements,
            differing=self.differing,
            max_abs=self.deviation.largest,
            p999_abs=self.deviation.p999,
            outliers=self.outliers,
            limit=self.limit,
            referee_max_baseline=base.baseline.largest if base else None,
            referee_max_candidate=base.candidate.largest if base else None,
            referee_p999_baseline=base.baseline.p999 if base else None,
            referee_p999_candidate=base.candidate.p999 if base else None,
            referee_requests=self.refereed,
        )


@dataclass(frozen=True, slots=True)
class _Call:
    """Where and on what kind of content outputs are compared, and how float64 is had."""

    where: str
    group: str
    referee: Answers | None
    settle: Truth | None


class Judge:
    """Takes in calls one by one; ends in rows and gates."""

    def __init__(self, change_class: ChangeClass, limits: Limits | None = None) -> None:
        """`limits` are those of the reorder class."""
        self._class = change_class
        self._limits = limits or Limits()
        self._outputs: dict[str, _Output] = {}
        self._laid_out = 0  # floats that differ in another layout, where bits must match elsewhere
        self.calls = 0

    def add(
        self,
        where: str,
        reference: Answers,
        candidate: Answers,
        referee: Answers | None = None,
        group: str = BASE,
        settle: Truth | None = None,
    ) -> Failure | None:
        """Take in one call; `group` is its kind of content. Returns the failure it shows.

        `referee` has its float64 outputs, whose errors count; `settle` gives them only where nothing
        else can tell.
        """
        self.calls += 1
        return self._take(_Call(where, group, referee, settle), reference, candidate)

    def arguments(
        self,
        where: str,
        sent: Inputs | None,
        reference: bytes,
        candidate: bytes,
        referee: Answers | None = None,
        group: str = BASE,
        settle: Truth | None = None,
    ) -> Failure | None:
        """Compare what both made of their arguments, as bodies; those are outputs too.

        `sent` is what was in them before, None where nobody knows. `referee` and `settle` are of
        arguments, see `Answers.of_arguments`.
        """
        if reference == candidate:
            return None
        old = Answers.of_arguments(reference)
        try:
            new = Answers.of_arguments(candidate)
        except CodecError as error:
            return Failure("inputs_mutated", f"{where}: {error}")
        moved = [name for name, leaf in old.leaves.items() if _moved(leaf, new.leaves.get(name))]
        before = {f"argument {codec.part(name)}": leaf for name, leaf in plain(sent or {}).items()}
        mutated = [n for n in moved if n in before and not _moved(before[n], old.leaves[n])]
        if mutated or not moved:  # nothing moved, yet not the same: names or their order
            return Failure(
                "inputs_mutated", f"{where}: {', '.join(mutated)[:200] or 'their names'}"
            )
        call = _Call(where, group, referee, settle)
        theirs, mine = (
            Answers("", {n: side.leaves[n] for n in moved if n in side.leaves})
            for side in (old, new)
        )
        return self._take(call, theirs, mine)

    def _take(self, call: _Call, reference: Answers, candidate: Answers) -> Failure | None:
        """Compare leaf by leaf."""
        failure = _structure(call, reference, candidate)
        if failure:
            return failure
        for name, leaf in reference.leaves.items():
            found = self._compare(call, name, leaf, candidate.leaves[name])
            if found:
                return found
        return None

    def _compare(self, call: _Call, name: str, old: Leaf, new: Leaf) -> Failure | None:
        output = self._outputs.setdefault(name, _Output(old, self._limit(old)))
        output.calls += 1
        if call.group == EMPTY and not old.array.size and not new.array.size:
            return None
        differs = bits_differ(comparable(old), comparable(new))
        count = int(np.count_nonzero(differs))
        output.elements += differs.size
        truth = _truth(call.referee, name, old)
        if not count and truth is None and (output.usual or call.group != BASE):
            return None
        if not is_number(old) or self._must_match(call):
            output.differing += count
            return self._mismatch(call, name, (old, new), count) if count else None
        values = Compared(floats(old), floats(new), truth)
        if call.group == BASE and not output.usual:
            output.usual = rms(values.old[np.isfinite(values.old)])
        if truth is not None and call.group not in LAYOUTS:
            output.refereed += 1
            errors = output.errors.setdefault(call.group, Errors())
            take_errors(errors, old, values, call.group)
        return self._floats(call, name, old, values, count) if count else None

    def _must_match(self, call: _Call) -> bool:
        """Whether floats must match bit for bit.

        In another layout the libraries themselves add in another order: there they are held to the
        limits of a reordering.
        """
        exact = self._class in (ChangeClass.EXACT, ChangeClass.CONFIG)
        return exact and call.group not in LAYOUTS

    def _mismatch(
        self, call: _Call, name: str, sides: tuple[Leaf, Leaf], count: int
    ) -> Failure | None:
        """Return the failure of `count` elements that had to match bit for bit."""
        old, new = sides
        where = f"{name!r} of {call.where}"
        if is_number(old) and call.group in TYPICAL:
            if bool((np.isfinite(floats(old)) & ~np.isfinite(floats(new))).any()):
                return Failure("non_finite", f"{where}: NaN or infinity where there was none")
        elif self._class is ChangeClass.APPROXIMATE:
            return None
        size = comparable(old).size
        return Failure("outputs_differ", f"{where}: {count} of {size} elements differ")

    def _floats(
        self, call: _Call, name: str, leaf: Leaf, values: Compared, count: int
    ) -> Failure | None:
        """Judge floats that differ in `count` elements and may do so by little."""
        output, where = self._outputs[name], f"{name!r} of {call.where}"
        if self._class in (ChangeClass.EXACT, ChangeClass.CONFIG):
            self._laid_out += count
        else:
            output.differing += count
        output.deviation.add(distance(values.new[values.both], values.old[values.both]))
        failure, outliers = self._judged(call, where, leaf, values, output.usual)
        if failure and failure.for_referee and call.settle is not None:
            truth = _truth(call.settle(), name, leaf)
            if truth is not None:
                settled = Compared(values.old, values.new, truth)
                failure, outliers = self._judged(call, where, leaf, settled, output.usual)
        output.outliers += outliers
        return failure

    def _judged(
        self, call: _Call, where: str, leaf: Leaf, values: Compared, usual: float
    ) -> tuple[Failure | None, int]:
        """Return the failure that floats show, and how many are beyond the limit."""
        lenient = self._class is ChangeClass.APPROXIMATE  # what it repairs its metric judges
        sliced = self._class is ChangeClass.REORDER
        failure, outliers = kinds(where, values, lenient=lenient), 0
        if failure is None and not lenient:
            limit = self._limits.float16 if float_bytes(leaf) == 2 else self._limits.float32
            failure, outliers = limited(
                where, leaf, values, limit, call.group, sliced=sliced, usual=usual
            )
        if failure and failure.reason in _SETTLED_BY_FLOAT64:
            # A limit is a reordering's: without one, other floats are other outputs.
            reason = failure.reason if sliced else "outputs_differ"
            unsettled = sliced and values.truth is None
            failure = Failure(reason, failure.detail, for_referee=unsettled)
        return failure, outliers

    def _limit(self, leaf: Leaf) -> float | None:
        """Return the largest deviation of an output, None where bits must match or none is held."""
        if self._class is not ChangeClass.REORDER or not is_number(leaf):
            return None
        return self._limits.float16 if float_bytes(leaf) == 2 else self._limits.float32

    def rows(self) -> list[OutputRow]:
        """Return the equivalence table."""
        return [output.row(name) for name, output in self._outputs.items()]

    def gates(self) -> list[Gate]:
        """Return the gates of all calls together, once none of them failed by itself."""
        detail = f"{len(self._outputs)} outputs of {self.calls} calls"
        if self._laid_out:
            detail += f"; {self._laid_out} floats differ in other layouts, by rounding"
        moved = {n: o for n, o in self._outputs.items() if o.differing}
        if not moved:
            return [gate("correctness", GateResult.PASS, "outputs_identical", detail)]
        if self._class is ChangeClass.APPROXIMATE:
            return [gate("correctness", GateResult.PASS, "outputs_finite", detail)]
        within = gate("correctness", GateResult.PASS, "within_limits", detail)
        return [within, _referee_gate(moved)]


_SETTLED_BY_FLOAT64 = ("outputs_differ", "beyond_ten_times", "too_many_outliers")


def gate(name: str, result: GateResult, reason: str, detail: str = "") -> Gate:
    """Return one gate's answer; names that a candidate chose are made printable."""
    return Gate(name=name, result=result, reason=reason, detail=codec.printable(detail))


def raised_failure(where: str, reference: str | None, candidate: str | None) -> Failure | None:
    """Return how errors differ, as "Type: text"; None each where nothing was raised.

    Whoever catches the reference's error must catch the candidate's.
    """
    if reference is None and candidate is None:
        return None
    if reference is None:
        return Failure("raises", f"{where}: {candidate}")
    if candidate is None:
        return Failure("does_not_raise", f"{where}: the reference raises {reference}")
    theirs, mine = reference.partition(":")[0], candidate.partition(":")[0]
    if theirs == mine or _is_kind_of(mine, theirs):
        return None
    return Failure("raises", f"{where}: {candidate[:200]}; the reference raises {reference[:200]}")


def _is_kind_of(name: str, other: str) -> bool:
    """Whether one built-in error is a kind of another one."""
    kinds = [getattr(builtins, text, None) for text in (name, other)]
    one, of = (kind if isinstance(kind, type) else None for kind in kinds)
    return one is not None and of is not None and issubclass(one, of)


def written(where: str, reference: bytes, candidate: bytes) -> Failure | None:
    """Compare results that were written into, leaf by leaf: what is writable, what is shared.

    Both are bodies of `Process.write_results`. Only where the reference's leaves are writable, and
    each has memory of its own, must the candidate's be so.
    """
    states, old = _after_writing(reference)
    try:
        found, new = _after_writing(candidate)
    except CodecError as error:
        return Failure("outputs_share_memory", f"{where}: {error}")
    for place, (name, leaf) in enumerate(old.items()):
        if states[place] != memory.WRITABLE:
            continue
        marked = np.full(leaf.array.shape, memory.mark(leaf.array.dtype, place), leaf.array.dtype)
        if bits_differ(comparable(leaf), comparable(Leaf(leaf.kind, leaf.dtype, marked))).any():
            continue
        mine = new.get(name)
        if found[place : place + 1] == [memory.READ_ONLY]:
            return Failure("output_not_writable", f"{where}: {name!r}")
        if mine is None or _moved(leaf, mine):
            what = f"{name!r} changes when another output is written to"
            return Failure("outputs_share_memory", f"{where}: {what}")
    return None


def _after_writing(body: bytes) -> tuple[list[int], dict[str, Leaf]]:
    """Return what could be written, and the leaves by name, after writing. Raises CodecError."""
    tree = codec.decode(body)
    if not isinstance(tree, list) or len(tree) != 2 or not isinstance(tree[0], Leaf):
        raise CodecError("what was written is no pair")
    found = dict(leaves(tree[1]))
    states = tree[0].array.reshape(-1).tolist()
    if len(states) != len(found):
        raise CodecError(f"{len(states)} states of {len(found)} outputs")
    return states, found


def plain(inputs: Inputs) -> dict[str, Leaf]:
    """Return inputs as they look once they are told, however they lie in memory."""
    return {n: Leaf(x.kind, x.dtype, x.array) if x.layout else x for n, x in inputs.items()}


def _moved(old: Leaf, new: Leaf | None) -> bool:
    """Whether a leaf is another one in form or content."""
    return new is None or codec.encode(old) != codec.encode(new)


def is_number(leaf: Leaf) -> bool:
    """Whether a leaf holds floats, whatever holds them; complex numbers are pairs of them."""
    return is_float(leaf) or leaf.kind in {"float", "complex"}


def comparable(leaf: Leaf) -> Array:
    """Return the content as `bits_differ` takes it: complex numbers as pairs of floats."""
    array = pairs(np.atleast_1d(leaf.array))
    return array.view("<i8") if array.dtype.kind in "mM" else array


def _structure(call: _Call, old: Answers, new: Answers) -> Failure | None:
    """Return how names, nesting, dtypes or shapes differ, if they do."""
    where = call.where
    missing, extra = old.leaves.keys() - new.leaves.keys(), new.leaves.keys() - old.leaves.keys()
    for reason, names in (("output_missing", missing), ("output_extra", extra)):
        if names:
            return Failure(reason, f"{where}: {', '.join(sorted(names)[:5])}")
    if old.shape != new.shape:
        return Failure("dtype_differs", f"{where}: {new.shape[:200]}, was {old.shape[:200]}")
    for name, leaf in old.leaves.items():
        other = new.leaves[name]
        if call.group == EMPTY and not leaf.array.size and not other.array.size:
            continue  # a list of no rows has lost their form
        if (leaf.kind, leaf.dtype) != (other.kind, other.dtype):
            was = f"{other.kind} {other.dtype}, was {leaf.kind} {leaf.dtype}"
            return Failure("dtype_differs", f"{name!r} of {where}: {was}")
        if leaf.array.shape != other.array.shape:
            was = f"{other.array.shape}, was {leaf.array.shape}"
            return Failure("shape_differs", f"{name!r} of {where}: {was}")
    return None


def _truth(referee: Answers | None, name: str, leaf: Leaf) -> Floats | None:
    """Return the float64 content of one output, where the referee has it."""
    if referee is None or name not in referee.leaves or not is_number(leaf):
        return None
    truth = referee.leaves[name]
    if not is_number(truth) or float_bytes(truth) < 8 or truth.array.shape != leaf.array.shape:
        return None
    alike = (truth.array.dtype.kind == "c") == (leaf.array.dtype.kind == "c")
    return floats(truth) if alike else None


def _referee_gate(moved: Mapping[str, _Output]) -> Gate:
    """Hold the float64 error of outputs that moved to twice the baseline's own, group by group."""
    for name, output in moved.items():
        for group, errors in output.errors.items():
            beyond = errors_beyond(errors, output.leaf, group, output.limit or 0.0, output.usual)
            if beyond:
                where = "" if group == BASE else f" on {group} content"
                detail = f"{name!r}{where}: {beyond}"
                return gate("referee", GateResult.FAIL, "worse_than_referee_allows", detail)
    unjudged = [name for name, output in moved.items() if not output.refereed]
    if unjudged:
        detail = f"no float64 of {', '.join(unjudged)[:200]}"
        return gate("referee", GateResult.INCONCLUSIVE, "no_referee", detail)
    return gate("referee", GateResult.PASS, "within_referee_error")
