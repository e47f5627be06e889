"""Result files of four load generators: what is read, what a reader is warned of, which step was measured.

The files are written here after the schemas that the readers name; none is copied.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layers.bench_files.measured import measured_step
from layers.bench_files.read import read_all, read_benchmark
from layers.errors import InvalidInput

# 64 sequences, 20 ms a step, answers of 101 tokens: 64 of them take 2 s of decoding each.
VLLM: dict[str, Any] = {
    "date": "20260101-000000",
    "backend": "openai",
    "model_id": "org/model",
    "tokenizer_id": "org/model",
    "num_prompts": 6400,
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 80,
    "duration": 200.0,
    "completed": 6400,
    "failed": 0,
    "total_input_tokens": 6400 * 1000,
    "total_output_tokens": 6400 * 101,
    "output_throughput": 3232.0,
    "mean_ttft_ms": 500.0,
    "median_ttft_ms": 400.0,
    "p99_ttft_ms": 900.0,
    "mean_tpot_ms": 20.0,
    "median_tpot_ms": 21.0,
    "p99_tpot_ms": 30.0,
    "mean_itl_ms": 20.1,
    "median_itl_ms": 18.0,
    "p99_itl_ms": 90.0,
}
SGLANG: dict[str, Any] = {
    **{k: v for k, v in VLLM.items() if k not in {"model_id", "tokenizer_id", "failed"}},
    "request_rate": 40.0,
    "max_concurrency": None,
    "dataset_name": "random",
    "random_range_ratio": 1.0,
    "total_output_tokens_retokenized": 640_000,
    "mean_e2e_latency_ms": 2500.0,
    "accept_length": None,
}


def metric(mean: float, unit: str = "ms", *, varies: bool = True, **more: float) -> dict[str, Any]:
    spread = {"min": 0.5 * mean, "max": 2 * mean} if varies else {"min": mean, "max": mean}
    return {"unit": unit, "avg": mean, "p50": mean, "p99": 1.5 * mean, **spread, **more}


AIPERF: dict[str, Any] = {
    "schema_version": "1.4",
    "aiperf_version": "0.13.0",
    "request_count": {"unit": "requests", "avg": 6400.0},
    "time_to_first_token": metric(500.0),
    "inter_token_latency": metric(20.0),
    "inter_chunk_latency": metric(20.0, p50=18.0),
    "output_sequence_length": metric(101.0, "tokens", varies=False),
    "input_sequence_length": metric(1000.0, "tokens"),
    "benchmark_duration": {"unit": "sec", "avg": 200.0},
    "input_config": {
        "models": {"items": [{"name": "org/model"}]},
        "phases": [
            {"name": "warmup", "type": "concurrency", "concurrency": 1},
            {"name": "profiling", "type": "poisson", "rate": 32.0, "concurrency": None},
        ],
    },
}
AIPERF_CSV = """\
Metric,avg,min,max,sum,p1,p50,p99,std
Inter Chunk Latency (ms),20.00,0.00,60.00,,1.00,18.00,50.00,3.00
Inter Token Latency (ms),20.00,10.00,40.00,,10.00,20.00,30.00,3.00
Input Sequence Length (tokens),1000.00,500.00,2000.00,,500.00,1000.00,1900.00,3.00
Output Sequence Length (tokens),101.00,101.00,101.00,,101.00,101.00,101.00,0.00
Time to First Token (ms),500.00,100.00,900.00,,100.00,500.00,800.00,3.00

Metric,Value
Benchmark Duration (sec),200.00
Request Count,6400
"""


def summary(mean: float, *, varies: bool = True) -> dict[str, Any]:
    found = metric(mean, varies=varies)
    kept = {"mean": mean, "median": mean, "min": found["min"], "max": found["max"], "count": 6400}
    return {"successful": {**kept, "percentiles": {"p99": found["p99"]}}}


def guidellm(strategy: dict[str, Any], section: str = "config") -> dict[str, Any]:
    metrics = {
        "request_totals": {"successful": 6400, "errored": 3, "incomplete": 0, "total": 6403},
        "prompt_token_count": summary(1000.0),
        "output_token_count": summary(101.0, varies=False),
        "inter_token_latency_ms": summary(20.0),
        "time_per_output_token_ms": summary(25.0),  # the first token is in it
        "time_to_first_token_ms": summary(500.0),
        "iter_tokens_per_iteration": summary(1.0),
    }
    benchmark = {"duration": 200.0, section: {"strategy": strategy}, "metrics": metrics}
    return {"metadata": {"version": 2}, "benchmarks": [benchmark]}


POISSON = {"type_": "poisson", "rate": 32.0, "max_concurrency": None}


def written(folder: Path, *documents: object, name: str = "result.json") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(one) for one in documents))
    return path


def without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


@pytest.mark.parametrize(
    ("document", "tool"),
    [
        (VLLM, "vLLM"),
        (SGLANG, "SGLang"),
        (AIPERF, "AIPerf"),
        (guidellm(POISSON), "GuideLLM"),
        (guidellm(POISSON, "scheduler"), "GuideLLM"),
        (guidellm(POISSON, "args"), "GuideLLM"),
    ],
)
def test_each_tools_file_yields_the_same_batch_and_context(
    tmp_path: Path, document: dict[str, Any], tool: str
) -> None:
    result = read_benchmark(written(tmp_path, document))
    step = measured_step(result)
    assert result.tool == tool
    assert result.completed == 6400
    assert step.batch == pytest.approx(64.0)
    assert step.context == pytest.approx(1050.5)
    assert step.new_tokens == 1


def test_the_csv_of_aiperf_says_the_same_as_its_json_but_for_the_load(tmp_path: Path) -> None:
    path = tmp_path / "profile_export_aiperf.csv"
    path.write_text(AIPERF_CSV)
    from_csv = measured_step(read_benchmark(path))
    from_json = measured_step(read_benchmark(written(tmp_path, AIPERF)))
    assert (from_csv.batch, from_csv.context) == (from_json.batch, from_json.context)
    assert from_csv.measured_s == from_json.measured_s == pytest.approx(0.018)
    assert any("does not say how load was made" in line for line in from_csv.doubts)


@pytest.mark.parametrize("end", ['"' + "x" * 200_000, "a\rb"])
def test_what_is_no_csv_behind_the_head_of_one_is_refused_with_its_line(tmp_path, end) -> None:
    path = tmp_path / "profile_export_aiperf.csv"
    path.write_bytes(f"{AIPERF_CSV.rstrip()}\n{end}".encode())
    with pytest.raises(InvalidInput, match="is no CSV: ") as refused:
        read_benchmark(path)
    assert refused.value.at is not None
    assert refused.value.at.line == AIPERF_CSV.rstrip().count("\n") + 2


def test_the_step_is_the_median_between_tokens_where_each_chunk_is_one(tmp_path: Path) -> None:
    step = measured_step(read_benchmark(written(tmp_path, VLLM)))
    assert step.measured_s == pytest.approx(0.018)
    assert step.p99_s == pytest.approx(0.030)
    assert any("median TPOT is 21 ms" in line for line in step.how)


@pytest.mark.parametrize("gaps", [{"mean_itl_ms": 40.0}, {"median_itl_ms": 0.2}])
def test_chunks_of_several_tokens_or_that_arrive_together_are_no_steps(
    tmp_path: Path, gaps: dict[str, float]
) -> None:
    step = measured_step(read_benchmark(written(tmp_path, {**VLLM, **gaps})))
    assert step.measured_s == pytest.approx(0.021)


def test_accepted_drafts_lengthen_the_step_and_are_tokens_of_it(tmp_path: Path) -> None:
    drafts = {**VLLM, "spec_decode_acceptance_length": 2.5}
    for document in (drafts, {**SGLANG, "accept_length": 2.5}):
        step = measured_step(read_benchmark(written(tmp_path, document)))
        assert step.measured_s == pytest.approx(2.5 * 0.021)
        assert step.new_tokens == 2.5


def test_a_file_without_tpot_is_read_by_its_gaps(tmp_path: Path) -> None:
    old = without(SGLANG, "mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms", "mean_itl_ms")
    step = measured_step(read_benchmark(written(tmp_path, old)))
    assert step.measured_s == pytest.approx(0.018)
    assert step.batch == pytest.approx(64 * 18 / 20)


def test_a_server_that_idles_between_requests_decodes_one_sequence_when_it_decodes(
    tmp_path: Path,
) -> None:
    step = measured_step(read_benchmark(written(tmp_path, {**VLLM, "duration": 1e6})))
    assert step.batch == 1


@pytest.mark.parametrize(
    ("document", "closed"),
    [
        (VLLM, True),
        ({**VLLM, "max_concurrency": None}, True),
        ({**VLLM, "request_rate": math.inf}, True),
        ({**VLLM, "request_rate": 32.0}, False),
        (SGLANG, False),
        ({**SGLANG, "request_rate": "trace"}, False),
        (AIPERF, False),
        ({**AIPERF, "input_config": {"loadgen": {"concurrency": 8}}}, True),
        ({**AIPERF, "input_config": {"loadgen": {"request_rate": 8.0}}}, False),
        (guidellm(POISSON), False),
        (guidellm({"type_": "concurrent", "streams": 8}), True),
        (guidellm({"type_": "synchronous"}), True),
        (guidellm({"type_": "throughput", "max_concurrency": 8}), True),
    ],
)
def test_closed_loops_are_told_from_arrivals_at_a_rate(
    tmp_path: Path, document: dict[str, Any], *, closed: bool
) -> None:
    result = read_benchmark(written(tmp_path, document))
    assert result.closed_loop is closed
    assert any("closed loop" in line for line in result.doubts) is closed


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({**VLLM, "request_rate": 32.0}, "held back above 80 in flight"),
        (without(VLLM, "p99_tpot_ms", "p99_ttft_ms"), "no P99 of TPOT and TTFT"),
        (without(VLLM, "p99_ttft_ms"), "no P99 of TTFT"),
        ({**VLLM, "completed": 640, "duration": 20.0}, "P99 of 640 requests"),
        ({**VLLM, "failed": 7}, "7 requests failed"),
        ({**VLLM, "request_rate": 50.0}, "the server fell behind"),
        ({**VLLM, "input_lens": [10, 10], "output_lens": [5, 5]}, "prompts and answers of one"),
        (SGLANG, "prompts and answers of one length"),
        (AIPERF, "answers of one length"),
        (guidellm(POISSON), "3 requests failed"),
    ],
)
def test_a_reader_is_warned(tmp_path: Path, document: dict[str, Any], says: str) -> None:
    assert any(says in line for line in read_benchmark(written(tmp_path, document)).doubts)


def test_open_load_with_varied_lengths_and_a_tail_leaves_no_doubt(tmp_path: Path) -> None:
    lengths = {"input_lens": [10, 20], "output_lens": [5, 6]}
    for never_reached in (None, 10_000):
        load = {"request_rate": 32.0, "max_concurrency": never_reached}
        assert read_benchmark(written(tmp_path, {**VLLM, **lengths, **load})).doubts == ()


@pytest.mark.parametrize("documents", [[SGLANG, SGLANG], [[VLLM, VLLM]]])
def test_of_several_runs_one_has_to_be_named(tmp_path: Path, documents: list[object]) -> None:
    path = written(tmp_path, *documents)
    with pytest.raises(InvalidInput, match=r"holds 2 runs(.|\n)*name one: 1: .*; 2: "):
        read_benchmark(path)
    assert read_benchmark(path, 2).number == 2
    with pytest.raises(InvalidInput, match="has no run 3"):
        read_benchmark(path, 3)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({**VLLM, "mean_tpot_ms": "20"}, "mean_tpot_ms: input should be a valid number"),
        ({**VLLM, "mean_tpot_ms": math.nan}, "mean_tpot_ms: input should be"),
        ({**VLLM, "median_tpot_ms": -1.0}, "median_tpot_ms: input should be greater than"),
        ({**VLLM, "completed": 0}, "completed: no request was completed"),
        (without(VLLM, "duration"), "duration: field required"),
        ({**VLLM, "duration": True}, "duration: input should be a valid number"),
        ({**VLLM, "request_rate": -math.inf}, "request_rate"),
        (without(AIPERF, "input_sequence_length"), "input_sequence_length: field required"),
        ({**AIPERF, "time_to_first_token": metric(1.0, "days")}, "unit: 'days' is no unit"),
        ({"benchmarks": []}, "benchmarks: the report holds no benchmark"),
        ({"benchmarks": [{"metrics": {}}]}, r"benchmarks.0.metrics.prompt_token_count: field"),
        ({"results": []}, "no result of a load generator that is known"),
        ([], "is empty"),
        ([3], "0: is no result"),
    ],
)
def test_a_wrong_value_is_refused_with_file_and_place(
    tmp_path: Path, document: object, says: str
) -> None:
    path = written(tmp_path, document)
    with pytest.raises(InvalidInput, match=says) as refused:
        read_benchmark(path)
    assert str(path) in str(refused.value)


def test_a_wrong_line_of_several_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, SGLANG, {**SGLANG, "duration": 0})
    with pytest.raises(InvalidInput) as refused:
        read_all(path)
    assert f"{path}:2: duration" in str(refused.value)


def test_answers_of_one_token_have_no_step(tmp_path: Path) -> None:
    none = {"mean_tpot_ms": 0.0, "median_tpot_ms": 0.0, "median_itl_ms": 0.0, "mean_itl_ms": 0.0}
    with pytest.raises(InvalidInput, match=r"no TPOT(.|\n)*give --batch"):
        measured_step(read_benchmark(written(tmp_path, {**VLLM, **none})))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON that can be read"),
        (b'{"completed": ' + b"9" * 5000 + b"}", "not JSON that can be read"),
        (b"\xff\xfe", "not UTF-8"),
        (b"{}\n{}", "no result of a load generator"),
        (b"{}\n{", ":2:"),
    ],
)
def test_what_is_no_result_at_all_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=says):
        read_all(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_all(tmp_path / "none.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@given(data=st.data())
def test_any_value_in_any_place_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    document = json.loads(json.dumps(data.draw(st.sampled_from(SAMPLES))))
    node: Any = document
    while isinstance(node, dict | list) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or data.draw(st.booleans()):
            node[key] = data.draw(JSON)
            break
        node = node[key]
    path = written(tmp_path_factory.mktemp("any"), document)
    steps, said = [], str(path)
    try:
        steps = [measured_step(result) for result in read_all(path)]
    except InvalidInput as refused:
        said = str(refused)
    assert str(path) in said
    assert all(math.isfinite(step.measured_s) and step.measured_s > 0 for step in steps)
    assert all(math.isfinite(step.batch) and step.batch >= 1 for step in steps)


SAMPLES = [VLLM, SGLANG, AIPERF, guidellm(POISSON)]
