"""What the author of a draft is told: of paths, build, serving and recorded answers, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from layers.base import Candidate, ChangeClass, StackView
from layers.errors import Inconclusive, Missing, ToolFailed
from layers.events import Silent
from layers.evidence import Gate, GateResult, NoiseFloor, Verdict
from layers.gates.correctness import Limits
from layers.gates.paths import protected_files
from layers.loop.instruments import Live
from layers.loop.proposing import Checked
from layers.measure.launch import DoesNotServe
from layers.measure.stats import LookPlan
from layers.sandbox.base import Ending
from layers.sandbox.box import LimitReached
from layers.trial import equivalence
from layers.trial.public_checks import (
    MOST_DIFFERENCES,
    MOST_HEAD,
    MOST_LINE,
    MOST_REFUSED,
    MOST_TAIL,
    Answer,
    Told,
    answer,
    for_author,
    passed,
)
from layers.trial.trial import DRAFT, Trial, TrialEnded
from layers.trial.verify import Rules, Verifier
from tests.unit.test_activation import claimed, contract
from tests.unit.test_trial import MANIFEST, MODEL, candidate

SCORES = np.array([[0.25, 0.5, 0.75, 1.0]], dtype=np.float32)


def lines(new: object, old: object = SCORES, class_: ChangeClass = ChangeClass.EXACT) -> list[str]:
    """Return what is told of one request with one output."""
    told = Told(class_, Limits())
    told.add({"score": np.asarray(old)}, {"score": np.asarray(new)})
    return told.lines


def moved(*values: float, place: int = 1) -> np.ndarray:
    """Return the scores with other values from a place on."""
    new = SCORES.copy()
    new[0, place : place + len(values)] = values
    return new


def test_equal_answers_are_not_told():
    assert lines(SCORES.copy()) == []


def test_values_that_differ_are_told_with_their_places():
    assert lines(moved(0.5 + 2**-24, 7.0)) == [
        "request 0, output 'score': 2 of 4 elements: [0, 1] 0.50000006 instead of 0.5, "
        "[0, 2] 7 instead of 0.75"
    ]


def test_of_many_differences_some_are_told():
    told = Told(ChangeClass.EXACT, Limits())
    old, new = np.zeros(9, dtype=np.int64), np.arange(1, 10)
    for _ in range(MOST_DIFFERENCES + 2):
        told.add({"a": old}, {"a": old})
        told.add({"a": old, "b": old}, {"a": new, "b": old})
    shown = "9 of 9 elements: [0] 1 instead of 0, [1] 2 instead of 0, [2] 3 instead of 0, [3] 4 "
    assert told.lines == [
        f"request {number}, output 'a': {shown}instead of 0, ..." for number in (1, 3, 5)
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SCORES, SCORES.astype(np.float64), "float64 instead of float32"),
        (SCORES, SCORES[0], "shape (4,) instead of (1, 4)"),
        (np.array(1), np.array(2), "1 of 1 elements: [] 2 instead of 1"),
        (np.array([True]), np.array([False]), "1 of 1 elements: [0] False instead of True"),
        (
            np.array([b"a", b"b"], dtype=object),
            np.array([b"a", b"x" * 500], dtype=object),
            f"1 of 2 elements: [1] b'{'x' * 78} instead of b'b'",
        ),
    ],
)
def test_every_kind_of_output_is_told_bounded(old, new, said):
    assert lines(new, old) == [f"request 0, output 'score': {said}"]


def test_outputs_of_one_side_alone_are_told():
    told = Told(ChangeClass.EXACT, Limits())
    told.add({"a": SCORES}, {"b": SCORES})
    assert told.lines == [
        "request 0, output 'a': missing",
        "request 0, output 'b': not an output of the baseline",
    ]


def test_a_reordering_is_told_what_lies_beyond_its_limit():
    near, far = 0.5 + 1e-5, 0.5 + 1e-3
    assert lines(moved(near), class_=ChangeClass.REORDER) == []
    (line,) = lines(moved(far, np.nan), class_=ChangeClass.REORDER)
    assert "2 of 4 elements: [0, 1] 0.50" in line
    assert line.endswith("[0, 2] nan instead of 0.75")
    assert lines(np.array([2]), np.array([1]), ChangeClass.REORDER)  # whole numbers must match
    assert lines(moved(near), class_=ChangeClass.CONFIG)


def test_an_approximation_is_told_what_is_not_finite():
    assert lines(moved(9.0), class_=ChangeClass.APPROXIMATE) == []
    assert lines(np.array([2]), np.array([1]), ChangeClass.APPROXIMATE) == []
    (line,) = lines(moved(9.0, np.inf), class_=ChangeClass.APPROXIMATE)
    assert "1 of 4 elements: [0, 2] inf instead of 0.75" in line


# --- both arms --------------------------------------------------------------------------------


@dataclass
class Arms:
    """Both arms' answers one at a time, as `equivalence.Sequential` gives them."""

    refuses: bool = False
    told: str = ""
    refused_differently: int = 0
    sent: list[bytes] = field(default_factory=list)

    def answers(self, requests: Iterable[bytes]) -> Iterator[equivalence.Compared]:
        for request in requests:
            self.sent.append(request)
            if self.refuses:
                self.refused_differently += 1
                self.told = self.told or "the candidate refused a request with INTERNAL: boom"
            else:
                yield {"score": SCORES}, {"score": moved(2.0)}, None


TRAFFIC = SimpleNamespace(requests=[b"%d" % i for i in range(30)])


def test_recorded_requests_alone_are_sent_each_once():
    told, arms = Told(ChangeClass.EXACT, Limits()), Arms()
    answers = list(told.answers(arms, TRAFFIC))
    assert len(answers) == len(arms.sent) == 30
    assert sorted(arms.sent) == sorted(TRAFFIC.requests)
    assert len(told.lines) == MOST_DIFFERENCES


def test_arms_that_refuse_differently_are_not_asked_much_more():
    told, arms = Told(ChangeClass.EXACT, Limits()), Arms(refuses=True)
    assert list(told.answers(arms, TRAFFIC)) == []
    assert len(arms.sent) == MOST_REFUSED
    assert told.lines == ["the candidate refused a request with INTERNAL: boom"]


def test_the_first_difference_in_what_is_refused_is_kept():
    sequential = equivalence.Sequential(None, None, None)
    refused, worse = equivalence.Refusal("INTERNAL", "boom"), equivalence.Refusal("INTERNAL", "x")
    assert sequential._answered(refused, worse) is None
    assert (sequential.refused_differently, sequential.told) == (0, "")  # alike but for the words
    assert sequential._answered({"score": SCORES}, refused) is None
    assert sequential._answered(refused, {"score": SCORES}) is None
    assert (sequential.refusals, sequential.refused_differently) == (3, 2)
    assert sequential.told == "the candidate refused a request with INTERNAL: boom"
    other = equivalence.Sequential(None, None, None)
    other._answered(refused, {"score": SCORES})
    assert other.told == "the candidate answered a request that the baseline refuses"


# --- what is answered -------------------------------------------------------------------------


def test_what_is_told_holds_no_place_of_this_machine_and_is_bounded():
    text = "failed\n  | /w/models/m.py:3: error\n  log: /somewhere/build.log\n"
    assert for_author(text, Path("/w")) == "failed\n  | models/m.py:3: error"
    assert for_author("x" * 9000, Path("/w")) == "x" * MOST_LINE
    long = for_author("\n".join(f"line {i}" for i in range(2000)), Path("/w"))
    assert long.startswith("line 0\n")
    assert long.endswith("line 1999")
    assert "\n[...]\n" in long
    assert len(long) == MOST_HEAD + MOST_TAIL + len("\n[...]\n")


def test_a_gate_that_failed_is_not_told_twice():
    trial = Trial(DRAFT, candidate())
    failed = Gate(name="correctness", result=GateResult.FAIL, reason="outputs_differ", detail="2")
    trial.gates += [passed("build", "builds"), failed]
    end = TrialEnded(Verdict.REJECTED, "outputs_differ", "2")
    found = answer(trial, end, ["request 0"])
    assert (found.passed, found.reason, found.detail) == (False, "outputs_differ", "2\nrequest 0")
    assert found.gates == tuple(trial.gates)


def checked(
    tried: Candidate,
    build_error: Exception | None = None,
    *,
    root: Path = Path("/b"),
    meanwhile: Callable[[], object] = lambda: None,
) -> Answer:
    """Check a draft whose checks end before a server starts."""

    def build(_view: StackView) -> None:
        meanwhile()
        if build_error:
            raise build_error

    noise = NoiseFloor(floor_pct=2.0, pair_sd_pct=1.0, pairs=8, launches=2)
    rules = Rules(noise, LookPlan(candidates=10), Limits(), frozenset(), protected_files(MANIFEST))
    traffic = SimpleNamespace(requests=SimpleNamespace(path=root / "traffic/requests.bin"))
    bench = SimpleNamespace(
        events=Silent(), manifest=MANIFEST, load=SimpleNamespace(traffic=traffic), fresh=None
    )
    verifier = Verifier(bench, rules, build, None, lambda look: None)
    return verifier.check(tried, StackView(root, "base", MANIFEST, Path("python")))


def told(found: Answer) -> list[tuple[str, str, str]]:
    return [(gate.name, gate.result.value, gate.reason) for gate in found.gates]


PATHS = ("paths", "pass", "paths_allowed")
PLAN = ("plan", "pass", "within_its_plan")


@pytest.mark.parametrize(
    ("tried", "error", "gates", "detail"),
    [
        (
            candidate(MODEL, "judge/referee.py"),
            None,
            [("paths", "fail", "touches_protected_files")],
            "judge/referee.py",
        ),
        (candidate(patch=""), None, [("paths", "fail", "no_op_edit")], ""),
        (
            candidate(change_class=ChangeClass.APPROXIMATE),
            None,
            [PATHS, ("class", "fail", "approximate_not_allowed")],
            "",
        ),
        (
            claimed(contract()),
            None,
            [PATHS, PLAN, ("activation", "fail", "activation_missing")],
            "it names no sign by which its new path could be seen to run",
        ),
        (
            candidate(),
            ToolFailed("step 1 ended with exit code 2\n  | /w/x.py: no\n  log: /logs/x.log"),
            [PATHS, ("build", "fail", "build_failed")],
            "step 1 ended with exit code 2\n  | x.py: no",
        ),
        (
            candidate(),
            LimitReached("step 1 used more memory than it may", Ending.MEMORY_LIMIT),
            [PATHS, ("build", "fail", "memory_limit")],
            "step 1 used more memory than it may",
        ),
        (
            candidate(),
            Missing("no compiler"),
            [PATHS, ("machine", "inconclusive", "tool_failed")],
            "no compiler",
        ),
        (
            candidate(),
            Inconclusive("7 void"),
            [PATHS, ("machine", "inconclusive", "machine_too_noisy")],
            "7 void",
        ),
    ],
)
def test_a_draft_that_fails_before_it_serves_is_told_why(tried, error, gates, detail):
    found = checked(tried, error)
    assert told(found) == gates
    assert (found.passed, found.reason, found.detail) == (False, gates[-1][2], detail)


def test_a_draft_during_whose_checks_a_file_of_the_evaluator_changed_has_failed(tmp_path):
    file = tmp_path / "judge/metric.py"
    file.parent.mkdir()
    file.write_text("as it was")
    found = checked(
        candidate(),
        ToolFailed("no"),
        root=tmp_path,
        meanwhile=lambda: file.write_text("easier"),
    )
    assert found.reason == "evaluator_changed"
    assert told(found)[-1] == ("evaluator", "fail", "evaluator_changed")
    assert "judge/metric.py" in found.detail


def test_a_draft_that_does_not_serve_is_told_what_the_server_said(monkeypatch):
    def launch(*_: object) -> None:
        raise DoesNotServe("not ready\n  | /w/models/m/1/model.py(3): NameError\n  log: /l/t.log")

    monkeypatch.setattr(Verifier, "_launch", launch)
    found = checked(candidate())
    assert told(found) == [
        PATHS,
        ("build", "pass", "builds"),
        ("serves", "fail", "does_not_serve"),
    ]
    assert found.detail == "not ready\n  | models/m/1/model.py(3): NameError"


def test_a_draft_is_compared_without_a_referee_and_nothing_of_it_is_timed(monkeypatch):
    asked = []

    def compared(_verifier, trial, sequential, _answers, *, refereed):
        asked.append((trial.n, refereed, sequential._referee))

    def hidden(*_: object) -> None:
        raise AssertionError("a hidden check was made")

    monkeypatch.setattr(Verifier, "_launch", lambda *_: nullcontext())
    monkeypatch.setattr("layers.trial.served.station", lambda *_: None)
    monkeypatch.setattr(Verifier, "_compare_probes", compared)
    for name in ("_correctness", "_measure", "_looks", "_activation", "_commit_gate", "_confirm"):
        monkeypatch.setattr(Verifier, name, hidden)
    found = checked(candidate())
    assert asked == [(DRAFT, False, None)]
    assert told(found) == [PATHS, ("build", "pass", "builds"), ("serves", "pass", "serves")]
    assert found == Answer(found.gates)
    assert found.passed


def test_the_instruments_hand_the_answer_on():
    gate = Gate(name="build", result=GateResult.FAIL, reason="build_failed", detail="no")
    given = SimpleNamespace(check=lambda *_: Answer((gate,), "build_failed", "no"))
    live = Live(None, 1, lambda look: None, verifier=given)
    assert live.check(candidate(), None) == Checked(
        gates=(gate,), passed=False, reason="build_failed", detail="no"
    )
    with pytest.raises(RuntimeError, match="check before calibrate"):
        Live(None, 1, lambda look: None).check(candidate(), None)
