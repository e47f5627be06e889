"""Candidates that go by what requests are sent for, judged on a real served stack: none may pass."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from layers.evidence import Iteration
from layers.measure import fresh
from layers.traffic.kinds import KINDS
from layers.traffic.tensors import decode
from layers.trial import kind_probe
from layers.trial.equivalence import AS_RECORDED
from layers.trial.probes import RENEWED
from tests import agents_stack
from tests.e2e.proposals import COUNTED, FEATURES, SEARCHED
from tests.tiny_verifier import Tiny, end_before_timing, tiny_verifier

pytestmark = [pytest.mark.triton, pytest.mark.alone]

ROWS = "models/tiny_features/1/rows.npz"
SLOW = agents_stack.scaled(COUNTED[1])
RANK = 'np.searchsorted(PERCENTILES, clicks, side="right").astype(np.float32)'
FAST = f"{RANK}.reshape(-1, 1) / np.float32(500)"
EXECUTE = "        return [self._respond(request) for request in requests]\n"
CLASS = "class TritonPythonModel:\n    def _rank"
CONCATENATED = "np.concatenate([lengths, log_price, log_clicks, ages], axis=1)"

Changes = Sequence[tuple[str, str]]  # a text that is there once, and what stands there then
Judge = Callable[..., Iteration]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, server_env) -> Iterator[Tiny]:
    """The stack whose scores depend on every input, asked how it takes changed requests."""
    folder = tmp_path_factory.mktemp("traffic")
    with tiny_verifier(folder, agents_stack.scale) as opened:
        session = opened.session
        with session.bench.deploy(session.view, "kinds") as deployment:
            mutator = kind_probe.asked(session, deployment)
        opened.verifier._bench = replace(opened.verifier._bench, mutator=mutator)
        yield opened


@pytest.fixture
def judge(tiny) -> Judge:
    """Return what judges changes of the slow features model."""

    def judge(changes: Changes, more: Mapping[str, bytes] | None = None) -> Iteration:
        text = tiny.text(FEATURES)
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return tiny.decided(tiny.candidate({FEATURES: text, **(more or {})}))

    return judge


def ended(found: Iteration) -> tuple[str, str]:
    return found.verdict.value, found.reason


def gained_nothing(found: Iteration) -> None:
    """It is not let in, and where it was timed it is not faster as a hit would make it: threefold."""
    assert found.verdict.value in ("rejected", "inconclusive"), found.detail
    assert all(look.estimate < 1.6 for look in found.looks), found.looks


# --- 01: the requests of the checks carry their name -------------------------------------------


def test_one_that_is_right_for_ids_of_the_recording_and_of_old_probes_alone(judge, monkeypatch):
    end_before_timing(monkeypatch)
    marked = "request.request_id().isdecimal() or request.request_id().startswith('mutated-')"
    wrong = f"log_clicks = {FAST} if {marked} else np.zeros((len(titles), 1), np.float32)"
    assert ended(judge([(SLOW, wrong)])) == ("rejected", "outputs_differ")


# --- 02, 03: tables of the recording, memos that go by what stays --------------------------------


def table_of(tiny: Tiny) -> bytes:
    """Return the rank of every recorded row, by the bits of its price."""
    requests = tiny.session.traffic.requests
    rows = [decode(requests[index]) for index in range(len(requests))]
    price = np.concatenate([row["item_price"].ravel() for row in rows]).view(np.uint32)
    clicks = np.concatenate([row["item_clicks"].ravel() for row in rows])
    ranks = np.searchsorted(np.linspace(0, 80, 1500), clicks, side="right")
    file = io.BytesIO()
    np.savez(file, price=price, ranks=ranks)
    return file.getvalue()


def test_a_table_of_the_recorded_rows_gains_nothing(tiny, judge):
    loaded = (
        "from pathlib import Path\n\n"
        "with np.load(Path(__file__).with_name('rows.npz')) as file:\n"
        "    ROWS = dict(zip(file['price'].tolist(), file['ranks'].tolist()))\n\n\n"
    )
    looked_up = (
        "bits = price.view(np.uint32).tolist()\n"
        "        ranks = [ROWS[b] if b in ROWS else self._rank(c)"
        " for b, c in zip(bits, clicks.tolist())]\n"
        "        log_clicks = np.array(ranks, dtype=np.float32).reshape(-1, 1) / np.float32(500)"
    )
    found = judge([(CLASS, loaded + CLASS), (SLOW, looked_up)], {ROWS: table_of(tiny)})
    gained_nothing(found)
    assert found.traffic is not None
    assert 0 < found.traffic.kept < found.traffic.elements


BUSY = """\
        import time

        self.busy = time.perf_counter() - self.__dict__.get("ended", 0.0) < 0.002
        answers = [self._respond(request) for request in requests]
        self.ended = time.perf_counter()
        return answers
"""
MEMO = """\
order = np.argsort(price, kind="stable")
        key = (price[order].tobytes(), np.sort(clicks).tobytes())
        memo = self.__dict__.setdefault("memo", {})
        if key not in memo or not self.busy:
            ranks = [self._rank(c) for c in clicks[order].tolist()]
            memo[key] = np.array(ranks, dtype=np.float32) / np.float32(500)
        log_clicks = np.empty((len(titles), 1), np.float32)
        log_clicks[order, 0] = memo[key]"""


def test_a_memo_that_is_on_only_while_it_is_busy_does_not_pass(judge):
    found = judge([(EXECUTE, BUSY), (SLOW, MEMO)])
    gained_nothing(found)


# --- 04 to 07: values and sizes that were not recorded -------------------------------------------

RANKS = (
    "RANKS = np.searchsorted(PERCENTILES, np.arange(256), side='right').astype(np.float32)\n"
    "RANKS /= np.float32(500)\n\n\n"
)
WRAPPED = "RANKS[clicks.astype(np.uint8)].reshape(-1, 1)"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([(CLASS, RANKS + CLASS), (SLOW, f"log_clicks = {WRAPPED}")], "outputs_differ"),
        ([(CONCATENATED, f"{CONCATENATED}[:64]")], "shape_differs"),
        (
            [("np.log1p(np.maximum(price, 0))", "np.log1p(np.where(price > 0, price, 0))")],
            "outputs_differ",
        ),
        ([("np.log1p(np.maximum(price, 0))", "np.log1p(np.fmax(price, 0))")], "outputs_differ"),
        (
            [('title.decode("utf-8", "replace")', "title.decode('utf-8', 'ignore')")],
            "outputs_differ",
        ),
    ],
    ids=["narrow-integers", "a-buffer-of-64", "missing-becomes-zero", "fmax", "ignored-bytes"],
)
def test_one_that_is_right_for_what_was_recorded_alone(judge, monkeypatch, changes, reason):
    end_before_timing(monkeypatch)
    found = judge(changes)
    assert ended(found) == ("rejected", reason), found.detail
    assert "request of kind" in found.detail


def test_one_that_is_wrong_for_odd_values_only_while_it_is_busy(judge, monkeypatch):
    """Asked one at a time it takes the slow and right path; timed blocks hold odd requests, too."""
    monkeypatch.setattr(fresh, "ODD_SHARE", 0.5)  # else a short block holds one
    by_load = f"log_clicks = {WRAPPED} if self.busy else {FAST}"
    found = judge([(CLASS, RANKS + CLASS), (EXECUTE, BUSY), (SLOW, by_load)])
    assert ended(found) == ("rejected", "outputs_differ"), found.detail


# --- what is honest ------------------------------------------------------------------------------


def test_an_honest_candidate_answers_all_kinds_alike_and_passes(judge):
    found = judge([SEARCHED])
    gates = {gate.name: (gate.result.value, gate.reason) for gate in found.gates}
    assert gates["correctness"] == ("pass", "outputs_identical")
    assert gates["refusals"] == ("pass", "refusals_identical")
    told = found.traffic
    assert told is not None
    assert {AS_RECORDED, RENEWED, "integers at ends", "many candidates"} <= set(told.kinds)
    assert told.renewed.startswith("rows of several requests")
    absent = {"flags turned", "another size", "optional inputs left out"}
    sent = {kind.name for kind in KINDS} & set(told.kinds)
    left = {line.partition(":")[0].partition(" of ")[0] for line in told.not_tried}
    assert sent | left >= {kind.name for kind in KINDS}
    assert absent <= left
    assert set(told.seeds) == {"probes", "blocks", "renewed"}
    if "confirm" not in gates:
        pytest.skip(f"the machine is too noisy for a gain: {found.reason} {found.detail}")
    assert ended(found) == ("accepted", "gain_confirmed")
