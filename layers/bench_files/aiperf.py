"""Results of NVIDIA AIPerf: profile_export_aiperf.json and the CSV beside it.

Schema: `JsonExportData` and `JsonMetricResult` in aiperf/common/models/export_models.py, phases in
aiperf/config/phases.py, CSV in aiperf/exporters/metrics_csv_exporter.py, all of AIPerf 0.13.0 (PyPI); before 0.8
`input_config.loadgen` says what phases say now. Its inter_token_latency is a request's decode time over its
tokens after the first (TPOT elsewhere), inter_chunk_latency the time between chunks. The CSV says no load.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from layers.bench_files.fields import Amount, Loose, Place, Positive, validated
from layers.bench_files.result import BenchmarkResult, Latency, Lengths

TOOL = "AIPerf"
HEADER = ("Metric", "avg", "min", "max")  # how the CSV begins
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
_TAGS = {
    "Time to First Token": "time_to_first_token",
    "Inter Token Latency": "inter_token_latency",
    "Inter Chunk Latency": "inter_chunk_latency",
    "Output Sequence Length": "output_sequence_length",
    "Input Sequence Length": "input_sequence_length",
    "Request Count": "request_count",
    "Benchmark Duration": "benchmark_duration",
    "Error Request Count": "error_request_count",
}


class Metric(Loose):
    """Statistics of one metric."""

    unit: str = ""
    avg: Amount | None = None
    p50: Amount | None = None
    p99: Amount | None = None
    min: Amount | None = None
    max: Amount | None = None
    count: int | None = Field(default=None, ge=0)


class Phase(Loose):
    """How a phase of a run makes load."""

    name: str = ""
    type: str
    exclude_from_results: bool = False
    concurrency: int | None = Field(default=None, ge=1)
    rate: Positive | None = None


class LoadGenerator(Loose):
    """The same, as older versions say it."""

    concurrency: int | None = Field(default=None, ge=1)
    request_rate: Positive | None = None


class Named(Loose):
    """A model."""

    name: str


class Models(Loose):
    """The models of a run."""

    items: list[Named] = Field(default_factory=list)


class Endpoint(Loose):
    """Where older versions name the models."""

    model_names: list[str] = Field(default_factory=list)


class Config(Loose):
    """What was asked for."""

    models: Models = Models()
    endpoint: Endpoint = Endpoint()
    phases: list[Phase] = Field(default_factory=list)
    loadgen: LoadGenerator | None = None


class Export(Loose):
    """What is used of a run."""

    time_to_first_token: Metric = Metric()
    inter_token_latency: Metric = Metric()
    inter_chunk_latency: Metric = Metric()
    output_sequence_length: Metric
    input_sequence_length: Metric
    request_count: Metric
    error_request_count: Metric | None = None
    benchmark_duration: Metric | None = None
    input_config: Config | None = None


def matches(document: Mapping[str, Any]) -> bool:
    """Whether it is such an export."""
    return (
        "aiperf_version" in document
        or {"request_count", "output_sequence_length"} <= document.keys()
    )


def is_csv(text: str) -> bool:
    """Whether a text is the CSV export."""
    return text.startswith(",".join(HEADER))


def read_csv(text: str, place: Place) -> list[BenchmarkResult]:
    """Return the run of a CSV export; raises InvalidInput."""
    document: dict[str, dict[str, Any]] = {}
    columns: Sequence[str] = ()
    for line, row in _rows(text, place):
        if row and row[0] == "Metric":
            columns = ["avg"] if row[1:2] == ["Value"] else row[1:]
        elif row:
            name, _, unit = row[0].partition(" (")
            if name in _TAGS:
                at = Place(place.path, line)
                stated = zip(columns, row[1:], strict=False)
                values = {key: _number(value, at) for key, value in stated if value}
                document[_TAGS[name]] = {"unit": unit.rstrip(")"), **values}
    return read(document, place, 1)


def _rows(text: str, place: Place) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line that it ends on; raises InvalidInput."""
    rows = csv.reader(io.StringIO(text))
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise Place(place.path, rows.line_num).refuse(f"is no CSV: {error}") from error


def read(document: Mapping[str, Any], place: Place, number: int) -> list[BenchmarkResult]:
    """Return the run of a document; raises InvalidInput."""
    export = validated(Export, document, place, TOOL)
    completed = int(export.request_count.avg or 0)
    if not completed:
        raise place.below("request_count").refuse("no request was completed")
    concurrency, rate, known = _load(export.input_config)
    failed = export.error_request_count
    duration = export.benchmark_duration
    return [
        BenchmarkResult(
            TOOL,
            place.path,
            number,
            _model(export.input_config),
            completed,
            None if failed is None else int(failed.avg or 0),
            _seconds(duration, duration.avg, place.below("benchmark_duration"))
            if duration
            else None,
            _lengths(export.input_sequence_length, place.below("input_sequence_length")),
            _lengths(export.output_sequence_length, place.below("output_sequence_length")),
            _latency(export.inter_token_latency, place.below("inter_token_latency")),
            _latency(export.inter_chunk_latency, place.below("inter_chunk_latency")),
            _latency(export.time_to_first_token, place.below("time_to_first_token")),
            concurrency,
            rate,
            known,
        )
    ]


def _load(config: Config | None) -> tuple[int | None, float | None, bool]:
    """Return the limit of requests in flight, the rate, and whether the file says them."""
    if config is None:
        return None, None, False
    measured = [p for p in config.phases if not p.exclude_from_results and p.name != "warmup"]
    if measured:
        phase = measured[-1]
        return phase.concurrency, phase.rate, phase.type != "fixed_schedule"
    if config.loadgen:
        return config.loadgen.concurrency, config.loadgen.request_rate, True
    return None, None, False


def _model(config: Config | None) -> str:
    if config is None:
        return ""
    return next((one.name for one in config.models.items), "") or next(
        iter(config.endpoint.model_names), ""
    )


def _lengths(metric: Metric, place: Place) -> Lengths:
    if metric.avg is None:
        raise place.below("avg").refuse("field required")
    known = metric.min is not None and metric.max is not None
    return Lengths(metric.avg, metric.min == metric.max if known else None)


def _latency(metric: Metric, place: Place) -> Latency:
    mean, median, p99 = (_seconds(metric, v, place) for v in (metric.avg, metric.p50, metric.p99))
    return Latency(mean, median, p99)


def _seconds(metric: Metric, value: float | None, place: Place) -> float | None:
    if value is None:
        return None
    if metric.unit not in _SECONDS:
        hint = f"one of {', '.join(_SECONDS)}"
        raise place.below("unit").refuse(f"{metric.unit[:20]!r} is no unit of time", hint)
    return value * _SECONDS[metric.unit]


def _number(text: str, place: Place) -> float:
    try:
        return float(text)
    except ValueError:
        raise place.refuse(f"{text[:40]!r} is not a number") from None
