"""The station that compares outputs: the same inputs in both processes, by kinds of content.

Inputs are drawn after the candidate has loaded. What a call may not do besides returning is
looked at after every call: change its inputs, keep its outputs' memory, leave work behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from layers.base import ChangeClass
from layers.callables import codec, probes
from layers.callables.audit import Sample
from layers.callables.cases import Case
from layers.callables.cell import Answer, Ended, Loaded
from layers.callables.codec import CodecError, Tree
from layers.callables.compare import Answers, Judge, gate
from layers.callables.maker import Drawn, ours
from layers.callables.process import Process
from layers.callables.snapshot import MODULE
from layers.callables.station import Record, Stopped
from layers.errors import InvalidInput
from layers.evidence import Gate, GateResult, Verdict

MOST_KEPT_BYTES = 1 << 28  # of results that a process holds to the end
FRAME_ROOM = 1 << 22  # bytes that an answer may have beyond eight times the reference's
LEAST_LIMIT_S, LIMIT_FACTOR = 10.0, 20.0  # of a candidate's call, in calls of the reference
IDLE_S, IDLE_SHARE = 2e-3, 0.05  # CPU that a process may use outside its calls
REFUSED = ("BlockingIOError", "MemoryError", "RuntimeError: can't start", "OSError")


@dataclass
class Calls:
    """What the calls of one station have shown so far."""

    reference_s: list[float] = field(default_factory=list)  # wall time at the timed size
    candidate_s: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # bytes of the outputs' leaves
    row_bytes: list[int] = field(default_factory=list)  # of inputs with one row per example
    scored: list[Sample] = field(default_factory=list)


class Correctness:
    """Runs cases through both processes and judges them as they come."""

    def __init__(
        self,
        reference: Process,
        candidate: Process,
        referee: Process | None,
        change_class: ChangeClass,
        record: Record,
    ) -> None:
        """All processes have loaded their functions."""
        self._reference, self._candidate, self._referee = reference, candidate, referee
        self._class = change_class
        self._judge = Judge(change_class)
        self._record = record
        self._sent: Drawn = {}
        self._previous: tuple[bytes, bytes] | None = None  # outputs of the last case
        self._first: tuple[bytes, bytes] | None = None
        self._kept: list[tuple[bytes, bytes]] = []
        self._kept_bytes = 0
        self._idle_s = 0.0  # CPU of the candidate while the reference was called
        self.calls = Calls()

    def run(self, cases: Iterable[Case]) -> None:
        """Run cases; Stopped ends the judgement, InvalidInput names the reference."""
        for case in cases:
            self._case(case)

    def settle(self) -> None:
        """End the judgement where all calls so far, together, show too large an error."""
        for answer in self._judge.gates():
            if answer.result is GateResult.FAIL:
                self._record.take(answer)

    def finish(self) -> None:
        """Close the station: nothing left behind, and the gates of all calls together."""
        self._left_behind()
        for answer in self._judge.gates():
            self._record.take(answer)

    def rows(self) -> None:
        """Leave the equivalence table in the record."""
        self._record.equivalence = self._judge.rows()
        self._record.outputs_compared += self._judge.calls

    def fail(self, reason: str, detail: str) -> NoReturn:
        """End the judgement: the candidate is wrong."""
        answer = gate("correctness", GateResult.FAIL, reason, detail)
        self._record.gates.append(answer)
        raise Stopped(Verdict.REJECTED, reason, detail)

    def _case(self, case: Case) -> None:
        """Run one case in the reference, then in the candidate, and compare."""
        self._sent = {**self._sent, **case.inputs} if case.kept else dict(case.inputs)
        body = codec.encode({n: x for n, x in case.inputs.items() if n not in case.kept})
        before = self._candidate.cpu_s()
        old = ours(lambda: self._call(self._reference, body, case))
        self._idle_s += self._candidate.cpu_s() - before
        if old.raised is not None and not self._judge.calls:
            raise InvalidInput(f"the reference raises {old.raised}", hint="mend it or its inputs")
        if case.optional and old.raised is not None:
            self._previous = None
            return
        self._candidate.time_limit_s = LEAST_LIMIT_S + LIMIT_FACTOR * old.wall_s
        self._candidate.frame_limit = 8 * len(old.body) + FRAME_ROOM
        new = self._call(self._candidate, body, case)
        self._around(case, old, new)
        if old.raised is None and new.raised is None:
            self._compare(case, old, new)
        else:
            self._compare_raised(case, old, new)

    def _call(self, process: Process, body: bytes, case: Case) -> Answer:
        """Call one arm."""
        poison = (self.calls.sizes, case.poison) if case.poison is not None else None
        process.put(body, case.how, poison)
        return process.call()

    def _compare_raised(self, case: Case, old: Answer, new: Answer) -> None:
        """Where one arm raises the other must too."""
        self._previous = None
        if old.raised is None and new.raised is not None:
            if new.raised.startswith(REFUSED) and (ended := self._candidate.refused_something()):
                raise ended
            self.fail("raises", f"{case.name}: {new.raised}")
        if old.raised is not None and new.raised is None:
            self.fail("does_not_raise", f"{case.name}: the reference raises {old.raised}")

    def _compare(self, case: Case, old: Answer, new: Answer) -> None:
        """Compare what was returned; keep what later cases are held against."""
        first = self._first
        if case.again and first and old.body == first[0] and new.body != first[1]:
            self.fail(
                "outputs_depend_on_history", f"{case.name}: not the outputs of the first time"
            )
        reference = ours(lambda: _outputs(self._reference, old))
        try:
            candidate = _outputs(self._candidate, new)
            failure = self._judge.add(
                case.name,
                Answers.of(reference),
                Answers.of(candidate),
                self._refereed(case),
                case.group,
            )
        except InvalidInput as error:  # an object array of something else
            self.fail("dtype_differs", f"{case.name}: {error.message}")
        if failure:
            self.fail(failure.reason, failure.detail)
        self._first = first or (old.body, new.body)
        self._keep(old, new)
        self._previous = (old.body, new.body)
        if case.timed:
            self.calls.reference_s.append(old.busy_s)
            self.calls.candidate_s.append(new.busy_s)
            self.calls.scored.append(Sample(case.inputs, reference, candidate))
        if not self.calls.sizes:
            self.calls.row_bytes = _row_bytes(case.inputs)
            self.calls.sizes = [x.array.nbytes for _, x in codec.leaves(reference)][:64]

    def _keep(self, old: Answer, new: Answer) -> None:
        """Have both processes hold what they returned, as far as memory allows."""
        self._kept_bytes += len(new.body)
        if self._kept_bytes <= MOST_KEPT_BYTES:
            self._reference.keep()
            self._candidate.keep()
            self._kept.append((old.body, new.body))

    def _results_kept(self) -> None:
        """Read all held results again: any number of buffers used in turn shows."""
        for index, (old, new) in enumerate(self._kept):
            if self._candidate.kept(index) != new and self._reference.kept(index) == old:
                detail = f"a later call changed what call {index + 1} returned"
                self.fail("output_buffer_reused", detail)

    def _refereed(self, case: Case) -> Answers | None:
        """Return the float64 outputs of a case; None without a referee, or where it raises."""
        if self._referee is None or case.how != "fresh":
            return None
        referee = self._referee
        referee.put(codec.encode(probes.upcast(self._sent)))
        answer = referee.call()
        return None if answer.raised is not None else Answers.of(_outputs(referee, answer))

    def _around(self, case: Case, old: Answer, new: Answer) -> None:
        """Look at what the call did besides returning."""
        mine = self._candidate
        if mine.threads() > self._reference.threads():
            self.fail("starts_threads", f"{case.name}: {mine.threads()} threads after it returned")
        if mine.processes() > self._reference.processes():
            self.fail("starts_processes", f"{case.name}: processes run after it returned")
        self._inputs_kept(case)
        if old.raised is not None or new.raised is not None:
            return
        extra = mine.aliases() - self._reference.aliases()
        if extra:
            output, argument = min(extra)
            detail = f"{case.name}: {output!r} lies in the memory of {argument!r}"
            self.fail("output_aliases_input", detail)
        if self._previous is None or case.poison is not None:
            return
        if mine.earlier() != self._previous[1] and self._reference.earlier() == self._previous[0]:
            self.fail(
                "output_buffer_reused", f"{case.name}: it changed what the call before returned"
            )

    def _inputs_kept(self, case: Case) -> None:
        """Compare the arguments' bytes with what was sent, or with what the reference made of them."""
        found = self._candidate.arguments()
        if found == codec.encode(self._sent):
            return
        if found == self._reference.arguments():
            self._record.warn("the reference changes its inputs, and the candidate as it does")
            return
        names = ", ".join(_differing(self._sent, found))
        self.fail("inputs_mutated", f"{case.name}: {names}")

    def _left_behind(self) -> None:
        """Look at the process once the calls are over."""
        self._results_kept()
        same = self._reference.changes()
        extra = own_changes(self._candidate.changes(), same, self._candidate, self._reference)
        if extra:
            self.fail("global_state_changed", f"by calls: {', '.join(sorted(extra)[:5])}")
        used = sum(self.calls.candidate_s)
        if self._idle_s > IDLE_S + IDLE_SHARE * used:
            detail = f"{1e3 * self._idle_s:.3g} ms of CPU while it was not called"
            self.fail("works_outside_the_call", detail)


def own_changes(
    new: frozenset[str], old: frozenset[str], candidate: Process, reference: Process
) -> list[str]:
    """Return the changes of global state that are the candidate's own.

    What the reference changes as well does not count, but for patched functions, replaced modules
    and hooks where both lie in one file: its import patches for both.
    """
    mine, other = candidate.spec, reference.spec
    if (mine.file, mine.module) != (other.file, other.module):
        return sorted(new - old)
    shared = sorted(n for n in new & old if "." in n or n.endswith("hook") or n.startswith(MODULE))
    return sorted(new - old) + shared


def loads_gate(old: Loaded, new: Loaded, reference: Process, candidate: Process) -> Gate:
    """Hold what loading the candidate did to its process to what loading the reference did."""
    changed = own_changes(new.changes, old.changes, candidate, reference)
    if changed:
        detail = f"by the import: {', '.join(changed[:5])}"
        return gate("loads", GateResult.FAIL, "global_state_changed", detail)
    threads, processes = candidate.threads(), candidate.processes()
    if threads > reference.threads():
        return gate("loads", GateResult.FAIL, "starts_threads", f"{threads} after the import")
    if processes > reference.processes():
        return gate("loads", GateResult.FAIL, "starts_processes", "they run after the import")
    return gate("loads", GateResult.PASS, "loads")


def _outputs(process: Process, answer: Answer) -> Tree:
    """Return the outputs of a call. Raises Ended for a body that follows no format."""
    try:
        return answer.outputs()
    except CodecError as error:
        raise Ended(process.role, "crashed", f"its answer is broken: {error}") from error


def _row_bytes(inputs: Drawn) -> list[int]:
    """Return the bytes of the inputs that lead with the batch: a table need not be read whole."""
    arrays = [leaf.array for leaf in inputs.values() if leaf.array.ndim]
    lengths = [len(array) for array in arrays]
    batch = max(set(lengths), key=lengths.count, default=0)
    return [a.nbytes for a in arrays if len(a) == batch and a.dtype.kind != "O"]


def _differing(sent: Drawn, found: bytes) -> list[str]:
    """Return the names of arguments whose content changed."""
    try:
        now = codec.decode(found)
        return [n for n, x in sent.items() if codec.encode(now[n]) != codec.encode(x)] or ["order"]
    except (CodecError, KeyError, TypeError):
        return ["all"]
