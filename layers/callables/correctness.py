"""The station that compares outputs: the same inputs in both processes, by kinds of content.

Inputs are drawn after the candidate has loaded. What a call does besides returning is looked at
after every call: what it makes of its arguments is compared as its outputs are, and it may not keep
its outputs' memory or leave work behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NoReturn

import numpy as np

from layers.base import ChangeClass
from layers.callables import codec, probes
from layers.callables.audit import Sample
from layers.callables.cases import Calls, Case
from layers.callables.ceilings import written_bytes
from layers.callables.cell import Answer, Ended, Loaded
from layers.callables.codec import CodecError, Tree
from layers.callables.compare import (
    BASE,
    EMPTY,
    Answers,
    Failure,
    Judge,
    gate,
    plain,
    raised_failure,
    written,
)
from layers.callables.maker import Drawn, ours
from layers.callables.process import Process
from layers.callables.snapshot import MODULE
from layers.callables.station import Record, Stopped
from layers.errors import InvalidInput
from layers.evidence import Gate, GateResult, Verdict

MOST_KEPT_BYTES = 1 << 28  # of results that a process holds to the end
EXPECTED_CALLS = 64  # of one judgement, about: a sample of all is held where they are large
MOST_SCORED_BYTES = 1 << 27  # of calls of one kind that a metric is asked about
MOST_SIZES = 64  # of outputs whose memory is spoiled before a call
MOST_SPOILED_BYTES = 1 << 26  # of the outputs of another size
FRAME_ROOM = 1 << 22  # bytes that an answer may have beyond eight times the reference's
LEAST_LIMIT_S, LIMIT_FACTOR = 10.0, 20.0  # of a candidate's call, in calls of the reference
IDLE_S, IDLE_SHARE = 2e-3, 0.05  # CPU that a process may use outside its calls
REFUSED = ("BlockingIOError", "MemoryError", "RuntimeError: can't start", "OSError")


class Correctness:
    """Runs cases through both processes and judges them as they come."""

    def __init__(
        self,
        reference: Process,
        candidate: Process,
        referee: Process | None,
        change_class: ChangeClass,
        record: Record,
        rng: np.random.Generator,
    ) -> None:
        """All processes have loaded their functions. `rng` chooses the results that are held."""
        self._reference, self._candidate, self._referee = reference, candidate, referee
        self._class = change_class
        self._judge = Judge(change_class)
        self._record, self._rng = record, rng
        self._sent: Drawn = {}  # what lay in the arguments before the last call
        self._found: Drawn = {}  # what the reference made of them
        self._previous: tuple[bytes, bytes] | None = None  # outputs of the last case
        self._first: tuple[bytes, bytes] | None = None
        self._kept: list[tuple[int, bytes, bytes]] = []  # which call, what it returned
        self._kept_bytes = 0
        self._float64: tuple[Case, Answers | None] | None = None  # the last case that was refereed
        self._idle_s = 0.0  # CPU of the candidate while the reference was called
        self.calls = Calls()

    def run(self, cases: Iterable[Case]) -> None:
        """Run cases; Stopped ends the judgement, InvalidInput names the reference."""
        for case in cases:
            self._case(case)

    def writes(self, case: Case) -> None:
        """Write into what a case returned, in both arms, as a caller may do.

        Nothing else may change by it: no other output, no argument, not the next answer on the same
        inputs. A reference that hands out what it uses again gets it back, and its next answer is
        not asked of the candidate.
        """
        self._case(case)
        if self._previous is None:
            return
        before, self._previous = self._previous, None
        body = codec.encode(case.inputs)
        old, theirs = ours(self._reference.write_results), ours(self._reference.arguments)
        answer = ours(lambda: self._call(self._reference, body, case))
        ours(self._reference.restore_results)
        new, mine = self._candidate.write_results(), self._candidate.arguments()
        self._fail_if(written(case.name, old, new))
        float64 = partial(self._refereed_arguments, case)
        if self._judge.arguments(case.name, self._sent, theirs, mine, settle=float64):
            self.fail("output_aliases_input", f"{case.name}: an argument changes with an output")
        again = self._call(self._candidate, body, case)
        self._candidate.restore_results()
        kept = answer.raised is None and answer.body == before[0]
        if kept and self._class is not ChangeClass.APPROXIMATE and again.body != before[1]:
            detail = f"{case.name}: what a caller writes there is in the next answer"
            self.fail("output_buffer_reused", detail)

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
        raise Stopped(Verdict.REJECTED, reason, answer.detail)

    def _fail_if(self, failure: Failure | None) -> None:
        if failure:
            self.fail(failure.reason, failure.detail)

    # --- one case ---

    def _case(self, case: Case) -> None:
        """Run one case in the reference, then in the candidate, and compare."""
        self._sent = {**(self._found if case.kept else {}), **_new(case)}
        body = codec.encode(_new(case))
        before = self._candidate.cpu_s()
        old = ours(lambda: self._call(self._reference, body, case, self.calls.sizes))
        self._idle_s += self._candidate.cpu_s() - before
        if not self._judge.calls:
            self._reproducible(case, body, old)
        if case.optional and old.raised is not None:
            self._previous, self._found = None, self._sent
            self.calls.skipped += 1
            return
        self._candidate.time_limit_s = LEAST_LIMIT_S + LIMIT_FACTOR * old.wall_s
        self._candidate.frame_limit = 8 * len(old.body) + FRAME_ROOM
        new = self._call(self._candidate, body, case, self._sizes(case, old))
        self._around(case, old, new)
        if old.raised is None and new.raised is None:
            self._compare(case, old, new)
        else:
            self._compare_raised(case, old, new)

    def _call(self, process: Process, body: bytes, case: Case, sizes: Sequence[int] = ()) -> Answer:
        """Call one arm; memory of `sizes` is spoiled before, where the case asks for it."""
        poison = (sizes, case.poison) if case.poison is not None and sizes else None
        process.put(body, case.how, poison, case.by_position, case.left_out)
        return process.call()

    def _sizes(self, case: Case, old: Answer) -> list[int]:
        """Return the bytes of what the reference returned, leaf by leaf, where memory is spoiled.

        Larger batches may leave no room for that.
        """
        if case.poison is None or old.raised is not None:
            return []
        if case.batch and len(old.body) > MOST_SPOILED_BYTES:
            return []
        outputs = codec.leaves(ours(lambda: _outputs(self._reference, old)))
        return [leaf.array.nbytes for _, leaf in outputs][:MOST_SIZES]

    def _reproducible(self, case: Case, body: bytes, old: Answer) -> None:
        """Call the reference once more: what it does not tell twice it cannot be asked for.

        Raises InvalidInput, also where it raises at all. A metric may judge what varies.
        """
        if old.raised is not None:
            raise InvalidInput(f"the reference raises {old.raised}", hint="mend it or its inputs")
        if self._class is ChangeClass.APPROXIMATE:
            return
        again = ours(lambda: self._call(self._reference, body, case))
        if again.body == old.body:
            return
        names = [again.raised] if again.raised else self._unlike(old, again)
        raise InvalidInput(
            f"the reference is not the same twice on the same inputs: {', '.join(names)[:200]}",
            hint="leave out of its outputs what depends on time, chance or earlier calls",
        )

    def _unlike(self, old: Answer, new: Answer) -> list[str]:
        """Return the outputs of two calls of the reference that are not the same."""
        one, other = (dict(codec.leaves(_outputs(self._reference, x))) for x in (old, new))
        shared = one.keys() & other.keys()
        same = {name for name in shared if codec.encode(one[name]) == codec.encode(other[name])}
        return sorted((one.keys() | other.keys()) - same) or ["their order"]

    def _compare_raised(self, case: Case, old: Answer, new: Answer) -> None:
        """Where one arm raises the other must too, and an error of the same type."""
        self._previous = None
        if old.raised is None and new.raised is not None and new.raised.startswith(REFUSED):
            ended = self._candidate.refused_something()
            if ended:
                raise ended
        self._fail_if(raised_failure(case.name, old.raised, new.raised))

    def _compare(self, case: Case, old: Answer, new: Answer) -> None:
        """Compare what was returned; keep what later cases are held against."""
        first, varies = self._first, self._class is ChangeClass.APPROXIMATE
        if case.again and first and old.body == first[0] and new.body != first[1] and not varies:
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
                self._refereed(case) if case.how == "fresh" else None,
                case.group,
                partial(self._refereed, case),
            )
        except InvalidInput as error:  # an object array of something else
            self.fail("dtype_differs", f"{case.name}: {error.message}")
        self._fail_if(failure)
        self._first = first or (old.body, new.body)
        self._keep(old, new)
        self._previous = (old.body, new.body)
        self._note(case, (old, new), (reference, candidate))

    def _note(self, case: Case, answers: tuple[Answer, Answer], outputs: tuple[Tree, Tree]) -> None:
        """Keep the times of a case, the sizes of its outputs, and what a metric is asked about."""
        calls, sample = self.calls, Sample(case.inputs, *outputs)
        if case.timed:
            calls.reference_s.append(answers[0].busy_s)
            calls.candidate_s.append(answers[1].busy_s)
            calls.scored.append(sample)
        elif self._class is ChangeClass.APPROXIMATE and case.group != EMPTY:
            sample = Sample(dict(self._sent), *outputs)
            kind = "other calls" if case.group == BASE else "other content"
            held = calls.others.setdefault("other sizes" if case.batch else kind, [])
            size = sum(len(answer.body) for answer in answers) + len(codec.encode(sample.inputs))
            if (len(held) + 1) * size <= MOST_SCORED_BYTES or len(held) < 2:
                held.append(sample)
        if case.batch:
            calls.seconds[case.batch] = answers[0].busy_s
        if not calls.sizes:
            self._measure(outputs[0])

    def _measure(self, outputs: Tree) -> None:
        """Keep how large the outputs of a call are."""
        found = dict(codec.leaves(outputs))
        views = {output for output, _ in ours(self._reference.aliases)}
        self.calls.leaves = len(found)
        self.calls.sizes = [leaf.array.nbytes for leaf in found.values()][:MOST_SIZES]
        own = [leaf.array for name, leaf in found.items() if name not in views]
        self.calls.written_bytes = sum(map(written_bytes, own))

    def _keep(self, old: Answer, new: Answer) -> None:
        """Have both processes hold a sample of what they return, all of it where memory allows."""
        size = max(1, len(new.body))
        share = MOST_KEPT_BYTES / (EXPECTED_CALLS * size)
        if self._kept_bytes + size <= MOST_KEPT_BYTES and self._rng.random() < share:
            self._kept_bytes += size
            self._reference.keep()
            self._candidate.keep()
            self._kept.append((self._judge.calls, old.body, new.body))

    def _results_kept(self) -> None:
        """Read all held results again: any number of buffers used in turn shows."""
        for index, (call, old, new) in enumerate(self._kept):
            if self._candidate.kept(index) != new and self._reference.kept(index) == old:
                self.fail("output_buffer_reused", f"a later call changed what call {call} returned")

    # --- the referee ---

    def _refereed(self, case: Case) -> Answers | None:
        """Return the float64 outputs of a case; None without a referee, or where it raises."""
        if self._referee is None:
            return None
        if self._float64 is None or self._float64[0] is not case:
            self._referee.put(codec.encode(probes.upcast(self._sent)), left_out=case.left_out)
            answer = self._referee.call()
            outputs = None if answer.raised is not None else _outputs(self._referee, answer)
            self._float64 = case, None if outputs is None else Answers.of(outputs)
        return self._float64[1]

    def _refereed_arguments(self, case: Case) -> Answers | None:
        """Return what a case makes of its arguments in float64."""
        if self._referee is None or self._refereed(case) is None:
            return None
        return Answers.of_arguments(ours(self._referee.arguments))

    # --- what a call does besides returning ---

    def _around(self, case: Case, old: Answer, new: Answer) -> None:
        """Look at what the call did besides returning."""
        mine = self._candidate
        if mine.threads() > self._reference.threads():
            self.fail("starts_threads", f"{case.name}: {mine.threads()} threads after it returned")
        if mine.processes() > self._reference.processes():
            self.fail("starts_processes", f"{case.name}: processes run after it returned")
        self._arguments(case, raised=old.raised is not None or new.raised is not None)
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

    def _arguments(self, case: Case, *, raised: bool) -> None:
        """Compare what both made of their arguments, as the class compares outputs."""
        sent = codec.encode(plain(self._sent))
        old, new = ours(self._reference.arguments), self._candidate.arguments()
        self._found = self._sent if old == sent else codec.decode(old)
        if new == old == sent:
            return
        if raised and old != sent:
            return  # how far either got is nobody's to ask
        float64 = partial(self._refereed_arguments, case)
        truth = float64() if case.how == "fresh" and new != old else None
        self._fail_if(
            self._judge.arguments(case.name, self._sent, old, new, truth, case.group, float64)
        )
        if old != sent:
            self._record.warn("the reference changes its inputs, and the candidate as it does")

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


def _new(case: Case) -> Drawn:
    """Return the arguments that a case hands over."""
    return {name: leaf for name, leaf in case.inputs.items() if name not in case.kept}
