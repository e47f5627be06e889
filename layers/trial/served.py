"""What both arms serve, by their own word, before they are asked anything: files, and interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from layers.base import StackView
from layers.gates.exercised import aside, served_gate
from layers.gates.interface import Offer, interface_gate
from layers.measure.launch import ARMS, Arm, DoesNotServe, Launch
from layers.trial.trial import Trial
from layers.triton.client import Client, Refused

Versions: TypeAlias = Mapping[str, frozenset[str]]  # that are ready, by model


def station(trial: Trial, launch: Launch, views: Mapping[Arm, StackView]) -> None:
    """End the trial where a changed file was run by neither arm, or the entry offers less.

    Raises DoesNotServe where the candidate cannot be asked, ToolFailed where the baseline cannot.
    """
    manifest, files = views["baseline"].manifest, trial.candidate.edit.files
    offers: dict[Arm, Offer] = {}
    loaded: dict[str, frozenset[str]] = {}
    for arm in ARMS:
        versions, offers[arm] = _asked(launch, arm, manifest.stack.entry)
        loaded |= {name: found | loaded.get(name, frozenset()) for name, found in versions.items()}
    roots = (views["baseline"].root, views["candidate"].root)
    gates = (
        served_gate(files, manifest, loaded, roots),
        interface_gate(offers["baseline"], offers["candidate"]),
    )
    told = aside(files, manifest, loaded)
    trial.warnings += [told] if told else []
    for gate in gates:
        if gate is not None:
            trial.pass_or_end(gate)


def _asked(launch: Launch, arm: Arm, entry: str) -> tuple[Versions, Offer]:
    """Return what one arm says that it has loaded, and what it offers."""
    try:
        with launch.blaming(arm), Client(launch.arm(arm).grpc) as client:
            versions = client.loaded_versions()
            return versions, Offer(client.config(entry), versions.get(entry, frozenset()))
    except Refused as error:
        if arm == "baseline":
            raise
        raise DoesNotServe(error.message) from error
