"""Signs of activation and public checks on real servers: what is seen, what is not, what is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from layers.base import Activation, ChangeClass, Contract, Sign
from layers.evidence import Iteration
from layers.trial.observing import Profiling
from layers.trial.public_checks import Answer
from tests.e2e.proposals import FEATURES, RANKER, SEARCHED
from tests.tiny_verifier import MODEL, Tiny, end_before_timing, tiny_verifier

# Repeats are timed against firsts on the way: other tests beside it make an honest change look like a memo.
pytestmark = [pytest.mark.triton, pytest.mark.alone]

CONFIG = "models/tiny_features/config.pbtxt"
TABLE = "models/tiny_features/1/percentiles.txt"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, server_env) -> Iterator[Tiny]:
    with tiny_verifier(tmp_path_factory.mktemp("activation")) as opened:
        yield opened


@pytest.fixture
def judge(tiny, monkeypatch):
    """Return what judges a candidate up to where it would be timed: that is not looked at here."""
    end_before_timing(monkeypatch)
    return tiny.decided


def contract(*signs: Activation) -> Contract:
    return Contract(
        claim="Each row walks the whole table of percentiles; a binary search reads eleven entries.",
        expected=(1.2, 3.0),
        activation=signs,
        falsifier="The rank takes as much CPU per request as before.",
    )


def searched(tiny: Tiny) -> str:
    """Return the model's source with the binary search."""
    text = tiny.text(FEATURES)
    assert text.count(SEARCHED[0]) == 1
    return text.replace(*SEARCHED)


def seen(found: Iteration) -> list[bool | None]:
    assert found.hypothesis.contract is not None
    return [sign.seen for sign in found.hypothesis.contract.activation]


RANK = f"{FEATURES}:_rank"
RUNS, GONE = Activation(Sign.RUNS, MODEL, RANK), Activation(Sign.GONE, MODEL, RANK)


def test_a_rewritten_function_is_seen_to_run_and_its_time_to_go(tiny, judge):
    found = judge(tiny.candidate({FEATURES: searched(tiny)}, contract(RUNS, GONE)))
    gates = {gate.name: (gate.result.value, gate.reason) for gate in found.gates}
    assert gates["activation"] == ("pass", "activation_seen"), found.detail
    assert found.reason == "not_timed_here"
    assert seen(found) == [True, True]
    assert found.profile is not None
    assert found.profile.requests > 0
    raw = tiny.session.out / found.profile.raw
    assert "_rank" in raw.read_text()


def test_a_path_that_never_runs_is_rejected_before_anything_is_timed(tiny, judge):
    """The change is right, and what it says about itself is not."""
    head = "class TritonPythonModel:"
    text = searched(tiny).replace(head, f"def vectorised(clicks):\n    return clicks\n\n\n{head}")
    never = Activation(Sign.RUNS, MODEL, f"{FEATURES}:vectorised")
    found = judge(tiny.candidate({FEATURES: text}, contract(RUNS, never)))
    assert (found.verdict.value, found.reason) == ("rejected", "activation_missing")
    assert seen(found) == [True, False]
    assert found.detail.startswith(f"not seen: runs {never.subject} of {MODEL} (on no stack ")
    assert f"Seen: runs {RANK}" in found.detail
    assert found.pairs == []
    assert found.profile is not None


def test_what_ran_before_and_is_left_as_it_is_is_no_sign(tiny, judge):
    kept = Activation(Sign.RUNS, MODEL, f"{FEATURES}:_respond")
    found = judge(tiny.candidate({FEATURES: searched(tiny)}, contract(kept)))
    assert (found.reason, seen(found)) == ("activation_missing", [False])
    assert "it ran before" in found.detail


def test_a_function_that_stays_as_slow_is_not_gone(tiny, judge):
    text = tiny.text(FEATURES) + "\n# The same as before.\n"
    found = judge(tiny.candidate({FEATURES: text}, contract(GONE)))
    assert (found.reason, seen(found)) == ("activation_missing", [False])
    assert "ms of CPU per request" in found.detail


def test_a_new_file_is_seen_in_the_memory_of_the_model(tiny, judge):
    text = searched(tiny)
    old = "PERCENTILES = np.linspace(0, 80, 1500)"
    assert text.count(old) == 1
    mapped = 'MAPPED = np.memmap(__file__.replace("model.py", "percentiles.txt"), "u1", "r")'
    files = {FEATURES: text.replace(old, f"{mapped}\n{old}"), TABLE: b"0 to 80\n" * 1024}
    loaded = [Activation(Sign.LOADED, MODEL, name) for name in (TABLE, "models/none.bin")]
    found = judge(tiny.candidate(files, contract(*loaded)))
    assert seen(found) == [True, False], found.detail
    assert found.reason == "activation_missing"
    assert TABLE in found.detail


def test_a_value_that_the_server_reports(tiny, judge):
    text = tiny.text(CONFIG) + "dynamic_batching { max_queue_delay_microseconds: 100 }\n"
    delay = "dynamic_batching.max_queue_delay_microseconds"
    signs = [Activation(Sign.SERVED, MODEL, delay, value) for value in ("100", "200")]
    signs.append(Activation(Sign.SERVED, MODEL, "max_batch_size", "8"))  # as it was before
    found = judge(tiny.candidate({CONFIG: text}, contract(*signs), ChangeClass.CONFIG))
    assert seen(found) == [True, False, False], found.detail


def test_an_agent_that_names_no_sign_is_rejected_before_a_server_starts(tiny, judge):
    found = judge(tiny.candidate({FEATURES: searched(tiny)}, contract()))
    assert (found.verdict.value, found.reason) == ("rejected", "activation_missing")
    assert [gate.name for gate in found.gates] == ["paths", "plan", "activation"]


def test_a_model_that_dies_while_it_is_profiled_does_not_serve(tiny, judge, monkeypatch):
    """What a profile finds dead is the candidate's end, never a failure of the tool."""
    real = tiny.verifier._profiling

    def killing(served, view, name):
        profiled = real.profile(served, view, name)
        if name.endswith("-candidate"):
            kill(served.pids()[MODEL])
        return profiled

    monkeypatch.setattr(tiny.verifier, "_profiling", Profiling(killing, real.record))
    found = judge(tiny.candidate({FEATURES: searched(tiny)}, contract(RUNS)))
    assert (found.verdict.value, found.reason) == ("rejected", "died_under_load"), found.detail


def kill(pid: int) -> None:
    """Kill a process and wait until it has ended; its parent may not have noticed."""
    process = psutil.Process(pid)
    process.kill()
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


# --- public checks ----------------------------------------------------------------------------


def check(tiny: Tiny, files: dict[str, str], **options: object) -> Answer:
    return tiny.verifier.check(tiny.candidate(files, **options), tiny.session.view)


def test_a_good_draft_passes_the_public_checks(tiny):
    found = check(tiny, {FEATURES: searched(tiny)}, contract=contract(RUNS))
    assert found.passed, found.detail
    assert [(gate.name, gate.reason) for gate in found.gates] == [
        ("paths", "paths_allowed"),
        ("plan", "within_its_plan"),
        ("build", "builds"),
        ("serves", "serves"),
        ("refusals", "refusals_identical"),
        ("correctness", "outputs_identical"),
    ]


def test_a_wrong_draft_is_told_the_first_values_that_differ(tiny):
    old, new = "score.astype(np.float32)", "(score * 0.5).astype(np.float32)"
    text = tiny.text(RANKER)
    assert text.count(old) == 1
    found = check(tiny, {RANKER: text.replace(old, new)})
    assert found.reason == "outputs_differ"
    first, *shown = found.detail.splitlines()
    assert first.startswith("output 'score' of request 0: ")
    assert len(shown) == 3
    assert all(line.startswith("request ") for line in shown)
    assert "[0, 0] 0.5 instead of 1" in shown[0]


def test_a_draft_that_cannot_be_imported_is_told_by_the_words_of_the_server(tiny):
    text = searched(tiny)
    assert text.count("import numpy as np") == 1
    found = check(tiny, {FEATURES: text.replace("import numpy as np", "import nunpy as np")})
    assert found.reason == "does_not_serve"
    assert "nunpy" in found.detail
    assert "log: " not in found.detail
    assert found.gates[-1].name == "serves"


def test_a_draft_that_breaks_on_some_requests_is_told_the_error(tiny):
    """Served well while it is warmed, it refuses what it is asked one at a time."""
    old = "        titles = "
    raising = (
        "        self.asked = self.__dict__.get('asked', 0) + 1\n"
        "        if self.asked > 40:\n"
        "            raise ValueError('no title was expected')\n"
    )
    text = searched(tiny)
    assert text.count(old) == 1
    found = check(tiny, {FEATURES: text.replace(old, raising + old)})
    assert found.reason == "refusals_differ", found.detail
    assert "no title was expected" in found.detail


def test_what_only_the_trial_would_find_is_not_told(tiny, judge):
    """All recorded titles are UTF-8; the changed requests, which stay hidden, hold others."""
    old, new = 'title.decode("utf-8", "replace")', 'title.decode("utf-8")'
    text = searched(tiny)
    assert text.count(old) == 1
    files = {FEATURES: text.replace(old, new)}
    assert check(tiny, files, contract=contract(RUNS)).passed
    found = judge(tiny.candidate(files, contract(RUNS)))
    assert (found.verdict.value, found.reason) == ("rejected", "refusals_differ"), found.detail
