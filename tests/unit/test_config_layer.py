from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from knowledge.cards import Card, Finding
from knowledge.store import builtin_directory, load_cards
from layers.base import ChangeClass, Ground, Hotspot, LayerName, Profile, StackView
from layers.config.code import ModelCode, analyse
from layers.config.layer import ConfigLayer
from layers.errors import InvalidInput
from layers.evidence import EndToEnd, HypothesisRecord, Iteration, Look, Verdict
from layers.manifest import Manifest, ServerSection

LOOPING = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]
"""
FIRST_ONLY = """
class TritonPythonModel:
    def execute(self, requests):
        request = requests[0]
        return [request]
"""
TORCH = LOOPING + "\n    def initialize(self, args):\n        import torch\n"
PINNED = TORCH + "        torch.set_num_threads(2)\n"
PARAMETER = (
    TORCH
    + """        parameters = json.loads(args["model_config"])["parameters"]
        torch.set_num_threads(int(parameters["intra_threads"]["string_value"]))
"""
)

BuildStack = Callable[..., StackView]


@pytest.fixture
def stack(tmp_path: Path) -> BuildStack:
    """Return a function that makes a stack of one Python model `m`."""

    def build(
        pbtxt: str,
        source: str | None = LOOPING,
        *,
        cpus: int = 2,
        p99_ms: float = 25,
        in_flight: int = 4,
        sandbox: Mapping[str, float] | None = None,
    ) -> StackView:
        version = tmp_path / "models" / "m" / "1"
        version.mkdir(parents=True, exist_ok=True)
        (version.parent / "config.pbtxt").write_bytes(pbtxt.encode())
        if source is not None:
            (version / "model.py").write_text(source)
        manifest = Manifest.model_validate(
            {
                "schema": "fvec.manifest/1",
                "stack": {"name": "tiny", "models": "models", "entry": "m"},
                "server": {"cpus": list(range(cpus))},
                "traffic": {
                    "requests": "requests.bin",
                    "arrivals": "arrivals.csv",
                    "in_flight": in_flight,
                },
                "slo": {"p99_ms": p99_ms},
                "sandbox": sandbox or {},
            }
        )
        return StackView(tmp_path, "c0ffee", manifest, Path("python"))

    return build


@pytest.fixture(scope="module")
def cards() -> tuple[Card, ...]:
    return load_cards(builtin_directory()).for_layer("config")


def profile(**shares: float) -> Profile:
    return Profile("py-spy", Path("raw"), 1.0, 10, shares, {}, ())


def hypotheses(stack: StackView, cards: tuple[Card, ...], share: float = 0.8):
    layer = ConfigLayer()
    spots = layer.profile(profile(m=share, tritonserver=1 - share), stack)
    return {h.card: h for h in layer.diagnose(spots, stack, cards)}


def edited(stack: StackView, cards: tuple[Card, ...], card: str) -> str:
    edit = ConfigLayer().optimize(hypotheses(stack, cards)[card], stack)
    assert edit is not None
    assert list(edit.files) == ["models/m/config.pbtxt"]
    return edit.files["models/m/config.pbtxt"].decode()


def refusal(stack: StackView, cards: tuple[Card, ...], card: str) -> str:
    assert card not in hypotheses(stack, cards)
    lines = [r for r in ConfigLayer().refusals(stack, cards) if r.startswith(f"{card} on m: ")]
    assert len(lines) == 1
    return lines[0].removeprefix(f"{card} on m: ")


PYTHON = 'name: "m"\nbackend: "python"\nmax_batch_size: 8\n'
ONE = PYTHON + "instance_group [\n  {\n    count: 1  # enough\n    kind: KIND_CPU\n  }\n]\n"
BATCHING = PYTHON + "dynamic_batching { max_queue_delay_microseconds: 500 }\n"


def test_there_is_one_card_per_rule(cards):
    assert [card.id for card in cards] == [
        "dynamic-batching",
        "instance-count",
        "intra-op-threads",
        "queue-delay",
        "queue-policy-from-slo",
    ]
    assert {card.change_class for card in cards} == {"config"}
    assert all(card.transform == card.id.replace("-", "_") for card in cards)


def test_profile_is_the_whole_process_of_each_model(stack):
    spots = ConfigLayer().profile(profile(m=0.7, tritonserver=0.3), stack(ONE))
    assert spots == (
        Hotspot("m", "models/m/config.pbtxt", "(whole process)", 0, 0.7, inclusive=True),
    )


def test_a_model_without_a_process_of_its_own_gets_no_hypothesis(stack, cards):
    view = stack(ONE)
    assert ConfigLayer().profile(profile(tritonserver=1.0), view) == ()
    assert ConfigLayer().diagnose((), view, cards) == ()


def test_instances_rise_to_the_cores_and_only_the_number_changes(stack, cards):
    view = stack(ONE)
    hypothesis = hypotheses(view, cards)["instance-count"]
    assert (hypothesis.layer, hypothesis.change_class) == (LayerName.CONFIG, ChangeClass.CONFIG)
    assert (hypothesis.model, hypothesis.share) == ("m", 0.8)
    assert (hypothesis.expected_gain, hypothesis.best_gain) == (0.29, 0.5)
    assert hypothesis.sites == ("models/m/config.pbtxt:6",)
    assert hypothesis.why.startswith("1 instance(s) of 1 thread(s) on 2 core(s)")
    assert edited(view, cards, "instance-count") == ONE.replace("count: 1 ", "count: 2 ")


def test_expected_gain_is_no_more_than_the_instances_allow(stack, cards):
    view = stack(ONE.replace("count: 1 ", "count: 3 "), cpus=4)
    hypothesis = hypotheses(view, cards)["instance-count"]
    assert (hypothesis.expected_gain, hypothesis.best_gain) == (0.25, 0.25)


def test_no_more_instances_than_load_and_limits_have_room_for(stack, cards):
    in_flight = stack(ONE, cpus=64)
    assert "count: 8 " in edited(in_flight, cards, "instance-count")
    three = stack(ONE.replace("count: 1 ", "count: 3 "), cpus=64)
    best = hypotheses(three, cards)["instance-count"].best_gain
    assert best == 0.25  # eight work in bursts alone: four requests are under way
    assert "count: 24 " in edited(stack(ONE, cpus=64, in_flight=12), cards, "instance-count")
    processes = stack(ONE, cpus=64, in_flight=64, sandbox={"processes": 180})
    assert "count: 10 " in edited(processes, cards, "instance-count")
    memory = stack(ONE, cpus=64, in_flight=64, sandbox={"memory_gib": 1.1})
    assert "count: 8 " in edited(memory, cards, "instance-count")
    weights = memory.root / "models" / "m" / "1" / "parts" / "weights.bin"
    weights.parent.mkdir()
    with weights.open("wb") as file:
        file.truncate(300 << 20)  # a hole: its size is what counts
    reason = "sandbox.memory_gib has room for 1 instance(s), and it has 1"
    assert refusal(memory, cards, "instance-count") == reason  # 364 MiB each, of 563


@pytest.mark.parametrize(
    ("count", "limits", "reason"),
    [
        (4, {}, "4 instance(s) already take the 4 request(s) in flight"),
        (2, {"memory_gib": 0.25}, "sandbox.memory_gib has room for 1 instance(s), and it has 2"),
        (2, {"processes": 36}, "sandbox.processes has room for 2 instance(s), and it has 2"),
    ],
)
def test_instances_that_could_never_work_are_refused(stack, cards, count, limits, reason):
    view = stack(ONE.replace("count: 1 ", f"count: {count} "), cpus=64, sandbox=limits)
    assert refusal(view, cards, "instance-count") == reason


def test_a_model_that_code_calls_may_have_more_requests_at_once_than_are_sent(stack, cards):
    view = stack(ONE.replace("count: 1 ", "count: 4 "), cpus=10)
    section = view.manifest.stack.model_copy(update={"entry": "api", "load": ["m"]})
    called = replace(view, manifest=view.manifest.model_copy(update={"stack": section}))
    assert "instance-count" not in hypotheses(view, cards)
    assert "count: 10 " in edited(called, cards, "instance-count")


def test_a_package_of_the_model_is_read_for_its_threads_too(stack, cards):
    view = stack(ONE, cpus=4)
    assert "instance-count" in hypotheses(view, cards)
    inner = view.root / "models" / "m" / "1" / "nets"
    inner.mkdir()
    (inner / "net.py").write_text("import torch\n")
    assert refusal(view, cards, "instance-count").startswith("nothing bounds its threads")


def test_instances_are_written_where_the_file_names_none(stack, cards):
    text = edited(stack(PYTHON), cards, "instance-count")
    assert text == PYTHON + "instance_group [\n  {\n    count: 2\n  }\n]\n"


@pytest.mark.parametrize(
    ("pbtxt", "source", "cpus", "reason"),
    [
        (ONE, LOOPING, 1, "1 x 1 thread(s) already match 1 core(s)"),
        (ONE, TORCH, 4, "nothing bounds its threads per instance"),
        (ONE, PINNED, 2, "1 x 2 thread(s) already match 2 core(s)"),
        (ONE, PARAMETER, 2, "nothing bounds its threads per instance"),
        (ONE, "def broken(:", 2, "nothing bounds its threads per instance"),
        (ONE, None, 2, "nothing bounds its threads per instance"),
        (ONE.replace("CPU", "GPU"), LOOPING, 2, "its instances are not on the CPU"),
        (ONE + "instance_group { count: 1 }\n", LOOPING, 2, "it has several instance groups"),
        (PYTHON + "sequence_batching { }\n", LOOPING, 2, "it is stateful"),
        ('platform: "ensemble"\nensemble_scheduling { }\n', None, 2, "an ensemble has no"),
        (ONE.replace("count: 1 ", "count: 9 "), LOOPING, 2, "9 single-threaded instances cost"),
    ],
)
def test_instance_count_is_refused_with_a_reason(stack, cards, pbtxt, source, cpus, reason):
    assert refusal(stack(pbtxt, source, cpus=cpus), cards, "instance-count").startswith(reason)


def test_instances_times_threads_beyond_the_cores_are_taken_back(stack, cards):
    view = stack(ONE.replace("count: 1 ", "count: 4 "), PINNED, cpus=4)
    assert "count: 2 " in edited(view, cards, "instance-count")


def test_dynamic_batching_is_switched_on_for_a_model_that_loops(stack, cards):
    assert edited(stack(PYTHON), cards, "dynamic-batching") == PYTHON + "dynamic_batching { }\n"


def test_dynamic_batching_raises_a_batch_size_that_allows_no_batch(stack, cards):
    text = edited(stack(PYTHON.replace("8", "1")), cards, "dynamic-batching")
    assert text == PYTHON + "dynamic_batching { }\n"


@pytest.mark.parametrize(
    ("pbtxt", "source", "reason"),
    [
        (BATCHING, LOOPING, "dynamic_batching is set already"),
        (PYTHON, FIRST_ONLY, "execute() does not loop over its requests"),
        (PYTHON, None, "its source cannot be checked"),
        (PYTHON.replace("8", "0"), LOOPING, "max_batch_size 0 says"),
        (PYTHON + "model_transaction_policy { decoupled: true }", LOOPING, "it is decoupled"),
        ('platform: "ensemble"\nensemble_scheduling { }', None, "ensemble_scheduling is set"),
    ],
)
def test_dynamic_batching_is_refused_with_a_reason(stack, cards, pbtxt, source, reason):
    assert refusal(stack(pbtxt, source), cards, "dynamic-batching").startswith(reason)


def test_a_queue_delay_is_set_to_zero(stack, cards):
    assert edited(stack(BATCHING), cards, "queue-delay") == BATCHING.replace("500", "0")
    assert refusal(stack(BATCHING.replace("500", "0")), cards, "queue-delay") == (
        "no request is delayed"
    )


def test_threads_follow_the_parameter_that_the_source_reads(stack, cards):
    entry = 'parameters { key: "intra_threads" value { string_value: "2" } }\n'
    pbtxt = ONE.replace("count: 1 ", "count: 2 ") + entry
    view = stack(pbtxt, PARAMETER)
    assert edited(view, cards, "intra-op-threads") == pbtxt.replace('"2"', '"1"')
    assert hypotheses(view, cards)["intra-op-threads"].best_gain == 0.9


def test_without_pinned_cpus_the_ones_that_this_process_may_use_count(stack, cards):
    def said(view: StackView) -> tuple[set[str], Sequence[str]]:
        return {*hypotheses(view, cards)}, ConfigLayer().refusals(view, cards)

    pinned = stack(ONE, cpus=1)
    free = replace(pinned, manifest=pinned.manifest.model_copy(update={"server": ServerSection()}))
    usable = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(usable)})
        assert said(free) == said(pinned)
    finally:
        os.sched_setaffinity(0, usable)
    assert said(pinned) != said(stack(ONE, cpus=2))


def test_a_configuration_that_leaves_the_backend_to_the_server_is_of_a_python_model(stack, cards):
    guessed = PYTHON.replace('backend: "python"\n', "")
    assert hypotheses(stack(guessed), cards).keys() == hypotheses(stack(PYTHON), cards).keys()


def test_threads_follow_the_parameter_of_a_backend(stack, cards):
    pbtxt = 'platform: "onnxruntime_onnx"\ninstance_group { count: 2 }\n'
    text = edited(stack(pbtxt, None), cards, "intra-op-threads")
    assert text == pbtxt + (
        'parameters {\n  key: "intra_op_thread_count"\n  value {\n    string_value: "1"\n  }\n}\n'
    )


@pytest.mark.parametrize(
    ("pbtxt", "source", "reason"),
    [
        (ONE, PINNED, "no parameter of its configuration sets its threads"),
        (ONE, LOOPING, "no parameter of its configuration sets its threads"),
        ('backend: "pytorch"', None, "by default its one instance uses every core already"),
        (
            'backend: "pytorch"\nparameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "2" }}',
            None,
            "1 x 2 thread(s) already match 2 core(s)",
        ),
        (
            'backend: "pytorch"\nparameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "x" }}',
            None,
            "its parameter INTRA_OP_THREAD_COUNT is not a number of threads",
        ),
    ],
)
def test_threads_are_refused_with_a_reason(stack, cards, pbtxt, source, reason):
    assert refusal(stack(pbtxt, source), cards, "intra-op-threads") == reason


def test_the_queue_policy_is_derived_from_the_slo_and_promises_nothing(stack, cards):
    view = stack(BATCHING, p99_ms=12.5)
    hypothesis = hypotheses(view, cards)["queue-policy-from-slo"]
    assert (hypothesis.score, hypothesis.best_case) == (0.0, 0.0)
    assert edited(view, cards, "queue-policy-from-slo") == BATCHING.replace(
        "500 }",
        "500 default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 12500 } }",
    )


@pytest.mark.parametrize(
    ("pbtxt", "reason"),
    [
        (PYTHON, "it has no dynamic batching, and so no queue that a policy could govern"),
        (
            PYTHON + "dynamic_batching { default_queue_policy { max_queue_size: 9 } }",
            "a queue policy is set already",
        ),
        (PYTHON + "dynamic_batching { priority_levels: 2 }", "a queue policy is set already"),
    ],
)
def test_the_queue_policy_is_refused_with_a_reason(stack, cards, pbtxt, reason):
    assert refusal(stack(pbtxt), cards, "queue-policy-from-slo") == reason


def test_optimize_returns_nothing_once_the_change_is_in_the_file(stack, cards):
    hypothesis = hypotheses(stack(ONE), cards)["instance-count"]
    after = stack(ONE.replace("count: 1 ", "count: 2 "))
    assert ConfigLayer().optimize(hypothesis, after) is None
    assert ConfigLayer().optimize(replace(hypothesis, model="gone"), after) is None
    assert ConfigLayer().optimize(replace(hypothesis, card="unknown"), after) is None


def test_cards_of_other_layers_and_unknown_rules_are_left_alone(stack, cards):
    other = cards[0].model_copy(update={"layer": "server"})
    unknown = cards[0].model_copy(update={"transform": "something_else"})
    assert hypotheses(stack(ONE), (other, unknown)) == {}


def test_bad_configuration_is_refused_with_line_and_column(stack, cards):
    with pytest.raises(InvalidInput, match=r"models/m/config\.pbtxt:2:17: unfilled template"):
        ConfigLayer().profile(profile(m=1.0), stack('name: "m"\nmax_batch_size: ${size}\n'))


def test_a_link_out_of_the_repository_is_refused(stack, cards, tmp_path_factory):
    view = stack(ONE)
    outside = tmp_path_factory.mktemp("outside") / "config.pbtxt"
    outside.write_text(ONE)
    inside = view.root / "models" / "m" / "config.pbtxt"
    inside.unlink()
    inside.symlink_to(outside)
    with pytest.raises(InvalidInput, match="leads out of the repository"):
        ConfigLayer().refusals(view, cards)


def test_the_newest_version_is_the_one_that_is_read(stack, cards):
    view = stack(PYTHON, LOOPING)
    newer = view.root / "models" / "m" / "10"
    newer.mkdir()
    (newer / "model.py").write_text(FIRST_ONLY)
    assert "does not loop" in refusal(view, cards, "dynamic-batching")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (LOOPING, ModelCode(loops_over_requests=True, threads=1, thread_parameter=None)),
        (FIRST_ONLY, ModelCode(loops_over_requests=False, threads=1, thread_parameter=None)),
        (TORCH, ModelCode(loops_over_requests=True, threads=None, thread_parameter=None)),
        (PINNED, ModelCode(loops_over_requests=True, threads=2, thread_parameter=None)),
        (
            PARAMETER,
            ModelCode(loops_over_requests=True, threads=None, thread_parameter="intra_threads"),
        ),
        (
            TORCH + "        torch.set_num_threads(1)\n        torch.set_num_threads(2)\n",
            ModelCode(loops_over_requests=True, threads=None, thread_parameter=None),
        ),
        (
            "import onnxruntime as ort\noptions.intra_op_num_threads = 4\n",
            ModelCode(loops_over_requests=False, threads=4, thread_parameter=None),
        ),
        (
            "import torch\ntorch.set_num_threads(self.params.get('num_threads', 1))",
            ModelCode(loops_over_requests=False, threads=None, thread_parameter="num_threads"),
        ),
        (
            "class TritonPythonModel:\n async def execute(self, rs):\n"
            "  for i, r in enumerate(rs):\n   pass",
            ModelCode(loops_over_requests=True, threads=1, thread_parameter=None),
        ),
    ],
)
def test_source_is_read_for_loops_and_threads(source, expected):
    assert analyse({"model.py": source}, "model.py") == expected


@pytest.mark.parametrize("source", ["def f(:", "x = '\0'", "-" * 200_000 + "1"])
def test_source_that_cannot_be_parsed_says_nothing(source):
    assert analyse({"model.py": source}, "model.py") is None


def iteration(**values) -> Iteration:
    hypothesis = HypothesisRecord(
        title="t",
        why="w",
        model="m",
        share=0.8,
        expected_gain=0.3,
        score=0.24,
        change_class=ChangeClass.CONFIG,
    )
    given = {"verdict": Verdict.REJECTED, "reason": "below_floor", **values}
    return Iteration(n=1, layer="config", card="instance-count", hypothesis=hypothesis, **given)


GROUND = Ground(date(2026, 1, 2), "tiny", "base", "2 cores", {"triton": "2.51.0"}, "w1", "r1")
LOOK = Look(
    k=1,
    pairs=4,
    estimate=1.1,
    ci=(1.0, 1.2),
    gain=0.09,
    floor=0.06,
    z=2.0,
    boundary=4.0,
    decision="reject",
    reason="below_floor",
)
END = EndToEnd(throughput_ratio=1.4, ci=(1.3, 1.5), cpu_ratio=1.0, cpu_ci=(0.9, 1.1), pairs=4)


@pytest.mark.parametrize(
    ("values", "gain", "ci", "commit"),
    [
        ({}, None, None, "base"),
        ({"looks": [LOOK]}, 1.1, (1.0, 1.2), "base"),
        ({"looks": [LOOK], "end_to_end": END, "base_commit": "b2"}, 1.4, (1.3, 1.5), "b2"),
    ],
)
def test_refine_tells_what_an_iteration_taught(values, gain, ci, commit):
    assert ConfigLayer().refine(iteration(**values), GROUND) == Finding(
        date=date(2026, 1, 2),
        stack="tiny",
        commit=commit,
        model="m",
        verdict="rejected",
        reason="below_floor",
        gain=gain,
        ci=ci,
        share=0.8,
        hardware="2 cores",
        versions={"triton": "2.51.0"},
        workload="w1",
        run="r1",
    )
