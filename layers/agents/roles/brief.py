"""What agents are told of a stack: where its time goes, what was tried, what is remembered. Pure.

Numbers are ours. Names, titles and reasons are not: file and function names come from the
repository, claims and notes from models, so every list is quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import PurePosixPath

from knowledge.memory import Memory, MemoryFinding
from layers.agents.memory import backlog
from layers.agents.plan import Plan
from layers.agents.workbench.quoting import Seen
from layers.base import Hotspot, LayerName, Profile
from layers.evidence import Iteration, ProfileRecord, Verdict
from layers.loop.proposing import Situation
from layers.measure.boundaries import LookPlan
from layers.places import without_places

MOST_HOTSPOTS = 30  # of each kind
MOST_LINES = 120  # of a list that grows with runs
MOST_DETAIL = 300  # characters of one reason
LEAST_SHARE = 0.002  # of a hotspot that is told
MOST_NOTES = 3000  # characters of the notes that a role may leave

_LIBRARY = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+)/")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a change of this run may be."""

    layers: tuple[LayerName, ...]
    models: tuple[str, ...]  # that are served
    approximate: bool  # the manifest opts in to it


def situation_told(
    situation: Situation,
    memory: Memory,
    allowed: Allowed,
    *,
    offered: Sequence[str],
    hints: Sequence[str],
    seen: Seen,
) -> str:
    """Return all that the author of a change may know, as one text with its lists quoted."""
    lists: Mapping[str, tuple[Iterable[str], str]] = {
        "What this run tried": (tried_lines(situation.iterations), "the run so far"),
        "What the rules found and could not do": (situation.not_tried, "the cookbook's findings"),
        "Backlog": (backlog.lines(memory), "the backlog"),
        "Found before": (map(finding_line, memory.findings), "the findings"),
        "Hints of the performance evaluator": (hints, "the hints"),
        "Notes": (memory.notes.splitlines(), "the notes"),
        "Skills and cards": (offered, "the skills and cards"),
    }
    told = [_stack_told(situation, allowed, seen), _profile_told(situation, seen)]
    told += [f"# {title}\n{_quoted(*shown, seen)}" for title, shown in lists.items()]
    return "\n\n".join(told)


def _stack_told(situation: Situation, allowed: Allowed, seen: Seen) -> str:
    manifest, floor = situation.base.manifest, situation.noise.work.floor_pct
    looks = LookPlan(candidates=1).looks[-1]
    served = f"entry: {manifest.stack.entry}\nmodels: {', '.join(allowed.models)}"
    return f"""\
# The stack
Commit {situation.base.commit[:12]}, with all that this run accepted so far.
Layers that may be changed: {", ".join(sorted(allowed.layers))}.
The manifest {"opts in" if allowed.approximate else "does not opt in"} to approximate changes.
{manifest.traffic.in_flight} requests are in flight while a gain is measured; the objective is a p99 of \
{manifest.slo.p99_ms:g} ms.
Noise: the unmodified stack differs from itself by {floor:.2f} %; after {looks} launches a gain of \
{floor / sqrt(looks):.2f} % is the least that can be told from it.
Candidates that may still be tried in this run: {situation.left}.
{seen.quoted(served, "the model repository")}"""


def _profile_told(situation: Situation, seen: Seen) -> str:
    profile = situation.profile
    return f"""\
# Where the time goes
{profile.tool} at commit {situation.base.commit[:12]}: {profile.cpu_s:.1f} s of CPU time for \
{profile.requests} requests. Shares are of all CPU time of the server.
{seen.quoted(chr(10).join(profile_lines(profile)), "the profile")}"""


def situation_words(situation: Situation) -> str:
    """Return the words by which skills are found for a situation."""
    return "\n".join([*profile_lines(situation.profile), *situation.not_tried])


def plan_told(plan: Plan, seen: Seen) -> str:
    """Return a plan as its implementer and its judge read it."""
    text = json.dumps(plan.model_dump(mode="json"), indent=1, ensure_ascii=False)
    return seen.quoted(text, "the plan")


def profile_lines(profile: Profile) -> list[str]:
    """Return a profile as lines: processes, layers, phases, then the hotspots by kind."""
    lines = [
        f"by process: {_shares(profile.by_process)}",
        "what each layer could touch: "
        + _shares({layer.value: share for layer, share in profile.by_layer.items()}),
    ]
    lines += [f"phases of {model}: {_shares(parts)}" for model, parts in profile.by_phase.items()]
    own = [spot for spot in profile.hotspots if not spot.inclusive]
    below = [spot for spot in profile.hotspots if spot.inclusive and spot.line == 0]
    lines += _spots("functions, with all that they call", below)
    return [*lines, *_spots("lines, by themselves", own)]


def record_lines(profile: ProfileRecord) -> list[str]:
    """Return the profile of a candidate as lines; it keeps its largest hotspots."""
    lines = [
        f"by process: {_shares(profile.by_process)}",
        f"what each layer could touch: {_shares(profile.by_layer)}",
    ]
    lines += [f"phases of {model}: {_shares(parts)}" for model, parts in profile.by_phase.items()]
    spots = [f"{s.share:.1%}  {s.process}  {s.place}" for s in profile.hotspots]
    return [*lines, "functions, by themselves:", *spots]


def tried_lines(iterations: Sequence[Iteration]) -> list[str]:
    """Return one line for each candidate of the run, the newest last."""
    return [_tried(one) for one in iterations[-MOST_LINES:]]


def finding_line(one: MemoryFinding) -> str:
    """Return what one earlier candidate showed; its gain belongs to its commit."""
    gain = f", {ratio_told(one.gain, one.ci)}" if one.gain is not None else ""
    why = f": {one.why}" if one.why else ""
    return f"{one.issue}: {one.change}: {one.verdict}{gain} at {one.commit[:12]}{why}"


def gain_line(iteration: Iteration) -> str:
    """Return the gain of a candidate as far as it is known, with what it was measured by."""
    if iteration.end_to_end is not None:
        fresh = iteration.end_to_end
        return f"{ratio_told(fresh.throughput_ratio, fresh.ci)} in {fresh.pairs} fresh pairs"
    if iteration.looks:
        look = iteration.looks[-1]
        gain = ratio_told(look.estimate, look.ci)
        return f"{gain} in {look.pairs} pairs, against a floor of {look.floor:.2%}"
    return "no gain was measured"


def ratio_told(ratio: float, ci: tuple[float, float] | None) -> str:
    """Return a throughput ratio with its interval."""
    return f"{ratio:.3f} times" + (f" ({ci[0]:.3f} to {ci[1]:.3f})" if ci else "")


def place(file: str) -> str:
    """Return a file as agents name it: without the folders of this machine."""
    if not file.startswith("/"):
        return file
    short = _LIBRARY.sub("", file)
    return short if short != file else PurePosixPath(file).name


def _quoted(lines: Iterable[str], where: str, seen: Seen) -> str:
    shown = list(lines)
    if not shown:
        return "Nothing."
    more = len(shown) - MOST_LINES
    rest = [f"(and {more} more)"] if more > 0 else []
    return seen.quoted("\n".join([*shown[:MOST_LINES], *rest]), where)


def _shares(shares: Mapping[str, float]) -> str:
    largest = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {share:.1%}" for name, share in largest)


def _spots(title: str, spots: Sequence[Hotspot]) -> list[str]:
    shown = [spot for spot in spots if spot.share >= LEAST_SHARE][:MOST_HOTSPOTS]
    return [f"{title}:", *map(_spot, shown)] if shown else []


def _spot(spot: Hotspot) -> str:
    where = f"{place(spot.file)}:{spot.function}" if spot.file else spot.function
    line = f" line {spot.line}" if spot.line else ""
    return f"{spot.share:.1%}  {spot.process}  {where}{line}"


def _tried(one: Iteration) -> str:
    hypothesis = one.hypothesis
    told = f"{one.n}. {one.card} of {hypothesis.model} ({one.layer}, {hypothesis.change_class}, by "
    told += f"{hypothesis.proposer}): {hypothesis.title}: {one.verdict}, {one.reason}"
    if one.verdict is Verdict.ACCEPTED or one.looks:
        told += f"; {gain_line(one)}"
    told += f"; commit {(one.commit or 'none')[:12]}"
    detail = " ".join(without_places(one.detail).split())[:MOST_DETAIL]
    return f"{told}; {detail}" if detail and one.verdict is not Verdict.ACCEPTED else told
