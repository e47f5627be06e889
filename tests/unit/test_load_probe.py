"""The memory gate under load: what is sent, in which order, and what is made of the times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.errors import ToolFailed
from layers.evidence import Gate
from layers.measure.fresh import Fresh, RequestSet
from layers.measure.launch import ARMS, DoesNotServe
from layers.measure.load import LoadResult
from layers.measure.records import OK, RECORD
from layers.traffic.envelope import ID_LENGTH, content
from layers.traffic.mutations import Mutator
from layers.traffic.salting import SALTS, UNSALTED, Salt, Salter
from layers.trial.equivalence import Unsent
from layers.trial.load_probe import MemoryProbe
from layers.trial.memory_probe import REQUESTS, ROUNDS
from tests.grpc_peer import request

WIDE = [request(i, rows=8 + i % 3) for i in range(100)]
IN_FLIGHT = 4


class Arms:
    """Both arms of a launch, and the generator that asks them: times are drawn, nothing is sent."""

    def __init__(self, folder: Path, spread: float = 0.3) -> None:
        self._folder, self._rng, self._spread = folder, np.random.default_rng(1), spread
        self.hit = {
            "baseline": 1.0,
            "candidate": 1.0,
        }  # how long a known request takes of a new one
        self.keys: Callable[[bytes], object] = content  # what a memo goes by
        self.seen: dict[str, set[object]] = {arm: set() for arm in ARMS}
        self.sent: list[tuple[str, list[bytes]]] = []
        self.failing: set[str] = set()
        self.disturbed: str | None = None  # the arm beside whose first requests others run, once

    def arm(self, arm: str) -> SimpleNamespace:
        return SimpleNamespace(grpc=arm, alive=lambda: None)

    @contextmanager
    def blaming(self, arm: str) -> Iterator[None]:
        yield

    @contextmanager
    def alone(self, arm: str) -> Iterator[bool]:
        yield True

    def closed(
        self, arm: str, order: np.ndarray, in_flight: int, *, requests: RequestSet
    ) -> LoadResult:
        assert in_flight == IN_FLIGHT
        data = requests.path.read_bytes()
        messages = [data[start : start + size] for start, size in requests.spans[order].tolist()]
        self.sent.append((arm, messages))
        records = np.zeros(len(messages), RECORD)
        for record, message in zip(records, messages, strict=True):
            key = self.keys(message)
            usual_s = 0.05 * self._rng.lognormal(0, self._spread)
            record["done_s"] = usual_s * (self.hit[arm] if key in self.seen[arm] else 1.0)
            self.seen[arm].add(key)
        if arm == self.disturbed:
            records["done_s"][: len(messages) // 3] *= 2
            self.disturbed = None
        records["code"] = 13 if arm in self.failing else OK
        return LoadResult(
            mode="closed",
            folder=self._folder,
            records=records,
            wall_s=1.0,
            generator_cpu_s=0.1,
            generator_wall_s=1.0,
            lag_p99_ms=None,
            errors=len(messages) if arm in self.failing else 0,
            messages=("INTERNAL: no",),
            request_set=requests.digest,
            sent_bytes=1,
        )


def asked(
    arms: Arms, folder: Path, salt: Salt = SALTS[0], wanted: int = REQUESTS
) -> tuple[Gate, int]:
    """Return the gate, and how many pairs of blocks were verified."""
    rng = np.random.default_rng(2)
    traffic = SimpleNamespace(requests=WIDE)
    axes = Mutator(WIDE).candidate_axes
    fresh = Fresh(Salter(WIDE, axes, salt), folder)
    manifest = SimpleNamespace(traffic=SimpleNamespace(in_flight=IN_FLIGHT))
    bench = SimpleNamespace(load=arms, manifest=manifest, log_dir=folder / "logs")
    verified = []
    unsent = Unsent(traffic, fresh, rng)
    probe = MemoryProbe(bench, arms, rng)
    found = probe.gate(unsent, wanted, lambda old, new: verified.append((old, new)))
    assert list((folder / "logs").glob("*")) == []  # the requests are gone once they were sent
    return found, len(verified)


def test_new_requests_come_before_their_repeats_under_ids_of_their_own(tmp_path):
    arms = Arms(tmp_path)
    found, rounds = asked(arms, tmp_path)
    assert found.reason == "no_memory_seen"
    assert [arm for arm, _ in arms.sent].count("baseline") == rounds
    (_, first), (_, second) = arms.sent[:2]
    assert first == second
    assert len(first) == 3 * REQUESTS
    marks = [content(message) for message in first]
    assert len(set(marks)) == REQUESTS
    assert not set(marks) & {content(message) for message in WIDE}
    ids = {service_pb2.ModelInferRequest.FromString(message).id for message in first}
    assert len(ids) == len(first)
    assert {len(one) for one in ids} == {ID_LENGTH}
    firsts = [marks.index(mark) for mark in set(marks)]
    assert max(firsts) > REQUESTS  # they are mixed


@pytest.mark.parametrize("hit", [0.02, 0.3])
def test_a_memo_that_works_under_load_is_seen(tmp_path, hit):
    arms = Arms(tmp_path)
    arms.hit["candidate"] = hit
    found, rounds = asked(arms, tmp_path)
    assert (found.result.value, found.reason) == ("fail", "answers_from_memory")
    assert rounds == 2


@pytest.mark.parametrize("disturbed", ARMS)
def test_load_that_ends_while_an_arm_is_asked_accuses_nobody(tmp_path, disturbed):
    arms = Arms(tmp_path, spread=0.1)
    arms.disturbed = disturbed
    found, rounds = asked(arms, tmp_path)
    assert found.reason != "answers_from_memory"
    assert rounds > 1 or disturbed == "baseline"


def test_a_memo_that_goes_by_what_the_salt_leaves_is_seen(tmp_path):
    """Its key are the strings of a request: every copy of an original has them."""

    def names(message: bytes) -> object:
        parsed = service_pb2.ModelInferRequest.FromString(message)
        inputs = zip(parsed.inputs, parsed.raw_input_contents, strict=True)
        return frozenset(raw for tensor, raw in inputs if tensor.datatype == "BYTES")

    arms = Arms(tmp_path)
    arms.keys = names
    arms.hit["candidate"] = 0.02
    assert asked(arms, tmp_path, SALTS[-1])[0].reason == "answers_from_memory"


def test_one_that_both_arms_have_is_none(tmp_path):
    arms = Arms(tmp_path)
    arms.hit.update(baseline=0.1, candidate=0.1)
    assert asked(arms, tmp_path)[0].reason == "no_memory_seen"


def test_a_noisy_machine_is_asked_more_and_then_not_believed(tmp_path):
    arms = Arms(tmp_path, spread=6.0)
    found, rounds = asked(arms, tmp_path)
    assert (found.result.value, found.reason) == ("inconclusive", "memory_undecided")
    assert rounds == ROUNDS
    assert f"medians of {ROUNDS * REQUESTS} requests" in found.detail


def test_too_few_new_requests_decide_nothing(tmp_path):
    arms = Arms(tmp_path)
    rng = np.random.default_rng(1)
    unsent = Unsent(SimpleNamespace(requests=WIDE[:5]), None, rng)
    manifest = SimpleNamespace(traffic=SimpleNamespace(in_flight=IN_FLIGHT))
    bench = SimpleNamespace(load=arms, manifest=manifest, log_dir=tmp_path)
    found = MemoryProbe(bench, arms, rng).gate(unsent, REQUESTS, lambda old, new: None)
    assert (found.result.value, found.reason) == ("inconclusive", "requests_not_new")
    assert len(arms.sent) == 2  # the five that there are, once


def test_without_any_salt_the_rest_of_the_recording_is_asked(tmp_path):
    arms = Arms(tmp_path)
    found, _ = asked(arms, tmp_path, UNSALTED)
    assert found.reason == "no_memory_seen"
    marks = {content(message) for _, messages in arms.sent for message in messages}
    assert marks <= {content(message) for message in WIDE}


def test_nothing_is_asked_where_nothing_is_wanted(tmp_path):
    arms = Arms(tmp_path)
    (tmp_path / "logs").mkdir()
    assert asked(arms, tmp_path, wanted=0)[0].reason == "memory_not_probed"
    assert arms.sent == []


def test_an_arm_that_fails_a_request_is_to_blame(tmp_path):
    arms = Arms(tmp_path)
    arms.failing = {"candidate"}
    with pytest.raises(DoesNotServe, match="the candidate broke under load: 144 of 144") as caught:
        asked(arms, tmp_path)
    assert caught.value.reason == "errors_under_load"
    arms.failing = {"baseline", "candidate"}
    with pytest.raises((ToolFailed, DoesNotServe)):
        asked(arms, tmp_path)
