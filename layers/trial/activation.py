"""Activation: did the new path of a candidate run? By signs that its author named before. Pure.

A gain without them has another cause than the one that was claimed, and the claim is not shown. The
framework looks for them on both arms while each serves the work load (`layers.trial.observing`): an
agent is never asked whether its change ran. What the baseline shows alike is no sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from layers.base import COOKBOOK, Activation, Contract, Hotspot, Hypothesis, Profile, Sign
from layers.evidence import Gate, GateResult
from layers.story import SignRecord
from layers.trial.sameness import own_name
from layers.trial.trial import sign_record

LEAST_SHARE = 0.005  # of the baseline's CPU: what takes less cannot be seen to go
GONE_SHARE = 0.5  # of the CPU that a function takes per request in the baseline, at most
MOST_TOLD = 400  # characters about one sign
MOST_NAMED = 3  # functions or files that are named where a sign is not seen
_NO_DOUBLES: Mapping[Activation, frozenset[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Shown:
    """What one arm showed under load, as far as the signs of a contract ask for it."""

    profile: Profile
    mapped: Mapping[str, frozenset[str]] = field(default_factory=dict)  # own files, by model
    served: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by model and field


def unsampled(contract: Contract, candidate: Shown) -> bool:
    """Whether a function that should run is on no stack: a profile that samples may have missed it."""
    return any(
        one.sign is Sign.RUNS and _share(one, candidate.profile) is None
        for one in contract.activation
    )


def with_earlier(now: Shown, earlier: Shown) -> Shown:
    """Return what an arm showed now, and of its functions those that only an earlier profile has."""
    known = {_function_of(spot) for spot in now.profile.hotspots}
    rare = [spot for spot in earlier.profile.hotspots if _function_of(spot) not in known]
    return replace(now, profile=replace(now.profile, hotspots=(*now.profile.hotspots, *rare)))


def _function_of(spot: Hotspot) -> tuple[str, str, str]:
    return spot.process, spot.file, spot.function


def unnamed(hypothesis: Hypothesis) -> Gate | None:
    """Return the gate that fails where a change that needs signs names none, else None."""
    contract = hypothesis.contract
    if contract is None and hypothesis.proposer == COOKBOOK:
        return None
    if contract is not None and contract.activation:
        return None
    detail = "it names no sign by which its new path could be seen to run"
    return _gate(GateResult.FAIL, "activation_missing", detail)


def signs(
    contract: Contract,
    baseline: Shown,
    candidate: Shown,
    changed: frozenset[str],
    doubles: Mapping[Activation, frozenset[str]] = _NO_DOUBLES,
) -> list[SignRecord]:
    """Return every sign of the contract with whether it was seen, and what was seen.

    `changed` are the subjects whose own content differs between the arms; `doubles` are by sign the
    functions of the other arm that do the same under another name, see `layers.trial.observing`.
    """
    found = []
    for one in contract.activation:
        same = sorted(doubles.get(one, ()))
        seen, told = _looked(one, baseline, candidate, same, changed=one.subject in changed)
        found.append(sign_record(one, seen=seen, detail=told[:MOST_TOLD]))
    return found


def gate(found: Sequence[SignRecord]) -> Gate:
    """Pass where every sign was seen. Reasons: activation_seen, activation_missing."""
    missing = "; ".join(_line(one) for one in found if not one.seen)
    seen = "; ".join(_line(one) for one in found if one.seen)
    if found and not missing:
        return _gate(GateResult.PASS, "activation_seen", seen)
    detail = f"not seen: {missing or 'no sign is named'}" + (f". Seen: {seen}" if seen else "")
    return _gate(GateResult.FAIL, "activation_missing", detail)


def undecided(detail: str) -> Gate:
    """Return the gate of a candidate on which no sign could be looked for: activation_undecided."""
    return _gate(GateResult.INCONCLUSIVE, "activation_undecided", detail)


def _gate(result: GateResult, reason: str, detail: str) -> Gate:
    return Gate(name="activation", result=result, reason=reason, detail=detail)


def _line(sign: SignRecord) -> str:
    value = f" = {sign.value}" if sign.value else ""
    return f"{sign.sign} {sign.subject}{value} of {sign.model} ({sign.detail})"


def _looked(
    one: Activation, baseline: Shown, candidate: Shown, same: Sequence[str], *, changed: bool
) -> tuple[bool, str]:
    """Return whether one sign was seen, and what was."""
    match one.sign:
        case Sign.RUNS:
            return _runs(one, baseline.profile, candidate.profile, same, changed=changed)
        case Sign.GONE:
            return _gone(one, baseline.profile, candidate.profile, same)
        case Sign.LOADED:
            return _loaded(one, baseline.mapped, candidate.mapped, changed=changed)
        case Sign.SERVED:
            return _served(one, baseline.served, candidate.served)


def _runs(
    one: Activation, baseline: Profile, candidate: Profile, same: Sequence[str], *, changed: bool
) -> tuple[bool, str]:
    """Whether a function runs that did not before, or that the change rewrites.

    One that the baseline runs under another name is none: it was renamed, or moved.
    """
    old, new = _share(one, baseline), _share(one, candidate)
    if new is None:
        return False, f"on no stack of its process; {_busiest(one.model, candidate)}"
    told = f"on {new:.2%} of the CPU"
    before = [name for name in same if _share_of(one.model, name, baseline) is not None]
    if before:
        return False, f"{told}, but the baseline runs the same code as {_few(before)}"
    if old is None:
        return True, f"{told}, in the baseline on no stack"
    if changed:
        return True, f"{told}, rewritten by the change; {old:.2%} in the baseline"
    return False, f"{told}, but it ran before ({old:.2%}) and the change leaves it as it is"


def _gone(
    one: Activation, baseline: Profile, candidate: Profile, same: Sequence[str]
) -> tuple[bool, str]:
    """Whether a function takes at most half of its CPU per request, by whatever name.

    Not of its share: once a function that took most of the time is fast, it takes much of less.
    """
    old, new = _share(one, baseline) or 0.0, _share(one, candidate) or 0.0
    if old < LEAST_SHARE:
        told = f"on {old:.2%} of the baseline's CPU; {LEAST_SHARE:.1%} are needed to see it go"
        return False, f"{told}; {_busiest(one.model, baseline)}"
    if one.model not in candidate.by_process:
        return False, "the candidate has no process of that model to look into"
    grown = {name: _grown_ms(one.model, name, baseline, candidate) for name in same}
    moved = [name for name, more in grown.items() if more > 0.0]
    before = _per_request_ms(old, baseline)
    after = _per_request_ms(new, candidate) + sum(grown.values())
    told = f"{after:.3g} ms of CPU per request, {before:.3g} ms in the baseline"
    if moved:
        told += f"; of that {sum(grown.values()):.3g} ms in the same code as {_few(moved)}"
    return after <= GONE_SHARE * before, told


def _loaded(
    one: Activation,
    baseline: Mapping[str, frozenset[str]],
    candidate: Mapping[str, frozenset[str]],
    *,
    changed: bool,
) -> tuple[bool, str]:
    """Whether the process maps a file that it did not map before, or whose content is new."""
    mapped = candidate.get(one.model, frozenset())
    if one.subject not in mapped:
        others = ", ".join(sorted(mapped)[:MOST_NAMED]) or "none"
        return False, f"not mapped by its process; of the repository's files are: {others}"
    if one.subject not in baseline.get(one.model, frozenset()):
        return True, "mapped by its process, in the baseline not"
    if changed:
        return True, "mapped by its process, with other content than in the baseline"
    return False, "mapped by its process, but the same file is in the baseline"


def _served(
    one: Activation,
    baseline: Mapping[tuple[str, str], str],
    candidate: Mapping[tuple[str, str], str],
) -> tuple[bool, str]:
    """Whether the server reports the value that was named, and reported another one before."""
    key = (one.model, one.subject)
    old, new = baseline.get(key), candidate.get(key)
    told = f"the server reports {_named(new)}, in the baseline {_named(old)}"
    return new is not None and new != old and _equal(new, one.value), told


def _named(value: str | None) -> str:
    return "nothing for it" if value is None else repr(value)


def _equal(reported: str, wanted: str) -> bool:
    """Whether two values are the same text, in any case, or the same number."""
    if reported.strip().casefold() == wanted.strip().casefold():
        return True
    try:
        return float(reported) == float(wanted)
    except ValueError:
        return False


def _share(one: Activation, profile: Profile) -> float | None:
    return _share_of(one.model, one.subject, profile)


def _share_of(model: str, subject: str, profile: Profile) -> float | None:
    """Return the share of all CPU that the stacks with a function took, None where there is none.

    The row of the function as a whole is the largest; a rare one has rows of its lines alone.
    """
    file, _, function = subject.rpartition(":")
    shares = (
        spot.share
        for spot in profile.hotspots
        if spot.process == model
        and own_name(spot.function) == own_name(function)
        and _is_file(spot, file)
    )
    return max(shares, default=None)


def _grown_ms(model: str, subject: str, baseline: Profile, candidate: Profile) -> float:
    """Return by how much more CPU per request a function takes than in the baseline."""
    before = _per_request_ms(_share_of(model, subject, baseline) or 0.0, baseline)
    after = _per_request_ms(_share_of(model, subject, candidate) or 0.0, candidate)
    return max(0.0, after - before)


def _few(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _is_file(spot: Hotspot, file: str) -> bool:
    """Whether a row is of a file: one of the stack by its path, another by the path's end."""
    return spot.file == file or (spot.file.startswith("/") and spot.file.endswith(f"/{file}"))


def _per_request_ms(share: float, profile: Profile) -> float:
    return 1e3 * share * profile.cpu_s / max(1, profile.requests)


def _busiest(model: str, profile: Profile) -> str:
    """Say which of the stack's own functions take most of a model's time."""
    own = [
        spot
        for spot in profile.hotspots
        if spot.process == model
        and spot.inclusive
        and not spot.line
        and spot.file[:1] not in ("", "/", "<")
    ]
    if not own:
        return f"of the stack's own functions none was seen in {model}"
    largest = sorted(own, key=lambda spot: (-spot.share, spot.file, spot.function))[:MOST_NAMED]
    named = ", ".join(f"{spot.file}:{spot.function} ({spot.share:.1%})" for spot in largest)
    return f"seen in {model}: {named}"
