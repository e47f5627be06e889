"""Floors as tables for a terminal, and as the document `fvec.floor/1`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bot.render import numbers
from bot.render.terminal import plain_table
from bot.render.text import one_line
from layers.floor import documents
from layers.floor.assumed import assumptions
from layers.floor.floors import Floor, links_s, times, utilisation
from layers.floor.model import Model
from layers.floor.modules import Step
from layers.floor.sensitivity import Answer, Sensitivity
from layers.floor.triage import Decision, Service, seconds
from layers.floor.walls import CAPACITY, COMPUTE, KV, NETWORK, WEIGHTS, bound

NAMES = {
    CAPACITY: "KV capacity",
    KV: "KV bandwidth",
    WEIGHTS: "weight bandwidth",
    COMPUTE: "compute",
    NETWORK: "network",
    "hbm": "HBM",
}
ACTIONS = {
    "suspect": "suspect account, constant or measurement",
    "stop": "stop",
    "overlap": "improve overlap",
    "nsight_systems": "open Nsight Systems",
    "repair": "repair what the timeline shows",
    "nsight_compute": "open Nsight Compute",
}
STYLES = {"suspect": "red", "stop": "green", "overlap": "yellow"}
NUMBER_OF = numbers.TIMES + " "
_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


@dataclass(frozen=True, slots=True)
class FloorReport:
    """All that `fvec floor` says: a floor, where a measurement lies, what the answers hang on."""

    model: Model
    answer: Answer
    moves: Sequence[Sensitivity]
    measured_s: float | None = None
    service: Service | None = None
    how: Sequence[str] = ()  # step and times were found in a file of results
    doubts: Sequence[str] = ()  # about that file

    @property
    def assumptions(self) -> list[str]:
        """What the configuration, the card and the layout leave open, and what was taken."""
        found = self.answer.floor
        return assumptions(self.model, found.place, found.step)


def floor(report: FloorReport) -> RenderableType:
    """Show floors by resource and by module, capacity, triage and sensitivity."""
    found = report.answer.floor
    whole = found.times
    lead = (
        f"t_opt {_time(whole.t_opt_s)}, t_sum {_time(whole.t_sum_s)}: bound by "
        f"{NAMES[bound(found)]}"
    )
    parts: list[RenderableType] = [
        Text(_asked(report), style="dim"),
        Text(lead, style="bold"),
        plain_table(["resource", "busy", "of t_opt", "for"], list(_resources(found)), right={1, 2}),
        plain_table(
            ["module", "HBM", "compute", "network", "t_opt"],
            list(_modules(found)),
            right={1, 2, 3, 4},
        ),
        _memory(found),
        Text(_ridges(found)),
    ]
    parts += [Text(f"from the file: {one_line(line)}", style="dim") for line in report.how]
    parts += [Text(f"doubt: {one_line(line)}", style="yellow") for line in report.doubts]
    if report.measured_s is not None and report.answer.decision is not None:
        parts += _measured(report.measured_s, report.answer.decision)
        parts += _compared(report.answer.decision, report.answer.flat)
    if report.service is not None:
        parts.append(Text(f"SLO {report.service.verdict}: {report.service.reason}"))
    if report.moves:
        parts.append(_sensitivity(report.moves))
    parts += assumed(report.assumptions)
    return Group(*parts)


def floor_document(report: FloorReport) -> dict[str, Any]:
    """Return the `fvec.floor/1` document; times in seconds, sizes in bytes, of the busiest device."""
    found = report.answer.floor
    account, place = found.whole, found.place
    measured = report.measured_s
    mfu, mbu = utilisation(account, place.hardware, measured) if measured else (None, None)
    return {
        **documents.floor_document(report.model, report.answer, measured),
        "devices": place.layout.devices,
        "batch": found.step.batch,
        "context": found.step.context,
        "new_tokens": found.step.new_tokens,
        "logits": found.step.new_tokens if found.step.logits is None else found.step.logits,
        "precision": asdict(place.precision),
        "active_params": report.model.active_parameters(),
        "state_bytes_per_sequence": account.state_bytes_per_sequence,
        "fits": _fits(found),
        "hbm_bytes": account.hbm_bytes,
        "kv_hbm_bytes": account.sequence_bytes,
        "flops": dict(account.flops),
        "net_bytes": dict(account.net_bytes),
        "net_messages": dict(account.net_messages),
        "parts": [{"name": name, **busy} for name, busy in _busy_parts(found)],
        "results": {"how": list(report.how), "doubts": list(report.doubts)} if report.how else None,
        "mfu": mfu,
        "mbu": mbu,
        "flat_decision": documents.decision_document(report.answer.flat),
        "service": documents.service_document(report.service),
        "sensitivity": documents.sensitivity_document(report.moves),
    }


def assumed(lines: Sequence[str]) -> list[RenderableType]:
    """Show assumptions."""
    return [Text(f"assumed: {one_line(line)}", style="dim") for line in lines]


def _asked(report: FloorReport) -> str:
    found = report.answer.floor
    step, place = found.step, found.place
    each = "" if step.new_tokens == 1 else f", {numbers.setting(step.new_tokens)} {_new(step)} each"
    return one_line(
        f"{report.model.name}, {_short(report.model.parameters())} parameters, on "
        f"{place.layout.devices} {NUMBER_OF}{place.hardware.name} as {place.layout}: "
        f"{numbers.setting(step.batch)} sequence{'' if step.batch == 1 else 's'} of "
        f"{numbers.setting(step.context)} tokens{each}"
    )


def _new(step: Step) -> str:
    """Return what the new tokens of a sequence are."""
    return "new tokens" if step.logits is None or step.logits > 1 else "tokens of a prompt"


def _resources(found: Floor) -> Iterator[list[str]]:
    """Yield a row a resource, each link by itself: its time and what it moves or computes."""
    whole, account = found.times, found.whole
    cache = account.sequence_bytes
    weights = account.hbm_bytes - cache
    moved = f"{_size(weights)} of weights, {_size(cache)} of cache and state"
    done = ", ".join(f"{_short(n)}FLOP in {dtype}" for dtype, n in account.flops.items())
    rows = [("HBM", whole.hbm_s, moved), ("compute", whole.compute_s, done)]
    for name, busy in links_s(account, found.place.hardware).items():
        messages = numbers.number(account.net_messages[name])
        sent = f"{_size(account.net_bytes[name])} in {messages} messages"
        rows.append((f"network, {_link(name)}", busy, sent))
    if not account.net_bytes:
        alone = found.place.layout.devices == 1
        rows.append(("network", 0.0, "one device" if alone else "nothing is sent"))
    for name, busy, what in rows:
        yield [name, _time(busy), numbers.percent(busy / whole.t_opt_s), what]


def _link(name: str) -> str:
    return name.replace("_", " ")


def _busy_parts(found: Floor) -> Iterator[tuple[str, dict[str, float]]]:
    for name, account in found.parts.items():
        taken = times(account, found.place.hardware)
        yield name, {**documents.busy(taken), "t_opt_s": taken.t_opt_s}


def _modules(found: Floor) -> Iterator[list[str]]:
    for name, busy in _busy_parts(found):
        yield [name, *(_time(value) for value in busy.values())]


def _memory(found: Floor) -> Text:
    """Show what fills the memory of a device, and whether the sequences asked for fit."""
    account, hardware = found.whole, found.place.hardware
    kept = (
        f"memory of a device: {_size(hardware.memory_bytes)}, {_size(hardware.reserve_bytes)} in "
        f"reserve, {_size(account.resident_bytes)} of weights, "
        f"{_size(account.cache_bytes_per_token)} a token of cache"
    )
    room = numbers.number(max(0.0, found.most_sequences))
    if _fits(found):
        return Text(f"{kept}: room for {room} sequences on all devices")
    asked = numbers.setting(found.step.batch)
    none = float(found.most_sequences) <= 0
    left = "not even the weights do" if none else f"there is room for {room}"
    makes = "" if none else "a shorter context, "
    return Text(
        f"{kept}: {asked} sequences do not fit, {left}; {makes}more devices or formats of fewer bits "
        "make room",
        style="bold red",
    )


def _fits(found: Floor) -> bool:
    return bool(found.most_sequences >= found.step.batch)


def _ridges(found: Floor) -> str:
    hardware, account = found.place.hardware, found.whole
    intensity = sum(account.flops.values()) / account.hbm_bytes
    ridges = ", ".join(
        f"{numbers.number(hardware.ridge(dtype))} {dtype}" for dtype in hardware.flops_per_s
    )
    return f"FLOPs per byte: {numbers.number(intensity)} of this step; ridge {ridges}"


def _measured(measured_s: float, decision: Decision) -> list[RenderableType]:
    """Show where a measurement lies and what to do."""
    read = [f"measured {seconds(measured_s)}", f"{decision.residual:.3g} times t_opt"]
    if decision.quality is not None:
        read.append(f"overlap quality {decision.quality:.2f}")
    read.append(f"{decision.metric} {numbers.percent(decision.utilisation)}")
    style = STYLES.get(decision.action, "bold")
    lines: list[RenderableType] = [
        Text(""),
        Text(", ".join(read)),
        Text(f"{ACTIONS[decision.action]}: {decision.reason}", style=style),
    ]
    return lines + [Text(f"  - {line}") for line in decision.advice]


def _compared(decision: Decision, flat: Decision | None) -> list[RenderableType]:
    """Show what the paper's threshold would have said, where another one was used."""
    if flat is None or flat.limit == decision.limit:
        return []
    return [Text(f"by {flat.limit}: {ACTIONS[flat.action]}", style="dim")]


def _sensitivity(moves: Sequence[Sensitivity]) -> RenderableType:
    """Show the answers at both ends of each range; decisions only where there are any."""
    head = ["if", "is", "t_opt", "binds", "room for", "decision", "flips"]
    rows = [
        [
            one.name,
            _value(value, one.unit),
            _time(answer.floor.times.t_opt_s),
            NAMES[answer.floor.times.binding],
            numbers.number(max(0.0, answer.floor.most_sequences)),
            answer.decision.action if answer.decision else "",
            ", ".join(one.flips),
        ]
        for one in moves
        for value, answer in ((one.low, one.at_low), (one.high, one.at_high))
    ]
    if all(one.at_low.decision is None for one in moves):
        head.remove("decision")
        rows = [[*row[:-2], row[-1]] for row in rows]
    return plain_table(head, rows, right={2, 4})


def _time(value: float) -> str:
    return seconds(value) if value else "0"


def _size(size_bytes: float) -> str:
    return _scaled(size_bytes, _UNITS)


def _short(count: float) -> str:
    return _scaled(count, ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")))


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    scale, unit = next((u for u in units if value >= 0.9995 * u[0]), units[-1])
    return f"{value / scale:.3g} {unit}".rstrip()


def _value(value: float, unit: str) -> str:
    if unit == "s":
        return _time(value)
    if unit.startswith("bytes"):
        return _size(value) + unit.removeprefix("bytes")
    return f"{numbers.setting(value)} {unit}"
