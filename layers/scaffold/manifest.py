"""The text of a first manifest, each guess beside the value it is about. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from layers.scaffold.entry import Certainty, Choice
from layers.scaffold.script import CORRECT, one_line

P99_MS = 500
START_TIMEOUT_S = 300  # of models that load large libraries
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a manifest is made of."""

    name: Choice
    models: Choice
    entry: Choice
    load: Sequence[Choice]  # models that code calls by name
    requirements: Choice  # an empty name: none
    owner: Choice  # an empty name: nobody is named
    traffic: str  # folder of the traffic, relative to the root
    script: str
    script_inputs: Sequence[str]  # further files that the script reads
    slow_start: str  # why the server may start slowly; empty: it does not
    foreign: Sequence[str]  # models that the Python backend does not serve, with their backends
    python: bool  # whether any model is Python


def text(facts: Facts) -> str:
    """Return the manifest."""
    blocks = [
        [
            "# Written by `fvec init`: a first draft. Beside every guess stands how sure it is: sure,",
            f"# likely or guess. What says {CORRECT} decides whether results mean anything.",
            "schema: fvec.manifest/1",
        ],
        _owner(facts.owner),
        _stack(facts),
        _server(facts),
        [
            "traffic:",
            f"  # {CORRECT}: made up by {facts.script}; record real requests where you can",
            f"  requests: {scalar(f'{facts.traffic}/requests.bin')}",
            f"  arrivals: {scalar(f'{facts.traffic}/arrivals.csv')}",
            "  in_flight: 4  # guess: how many requests wait at once under load",
        ],
        [
            "slo:",
            f"  # {CORRECT}: guess, nothing was measured. Your service's objective, or ten times the",
            "  # p99 of requests sent one at a time.",
            f"  p99_ms: {P99_MS}",
        ],
        _layers(facts),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _owner(owner: Choice) -> list[str]:
    """Name who answers for what the bot writes."""
    told = f"# who answers for the bot's pull requests; {owner.certainty}: {one_line(owner.why)}"
    return [told, f"owner: {scalar(owner.name)}" if owner.name else '# owner: "@your-team"']


def _stack(facts: Facts) -> list[str]:
    inputs = ", ".join(scalar(name) for name in [facts.script, *facts.script_inputs])
    outputs = ", ".join(scalar(f"{facts.traffic}/{n}") for n in ("requests.bin", "arrivals.csv"))
    return [
        "stack:",
        *_chosen("name", facts.name),
        *_chosen("models", facts.models),
        *_chosen("entry", facts.entry),
        *_load(facts.load),
        *_chosen("requirements", facts.requirements),
        "  build:",
        "    # the synthetic traffic; the tables of this script say what requests hold",
        f"    - run: [python, {scalar(facts.script)}]",
        f"      inputs: [{inputs}]",
        f"      outputs: [{outputs}]",
    ]


def _load(load: Sequence[Choice]) -> list[str]:
    """Name the models that code calls by name, each with its reason."""
    if not load:
        return []
    lines = ["  # models that code calls by name: a server loads them because they stand here"]
    lines.append("  load:")
    for choice in load:
        mark = f"{CORRECT}: " if choice.certainty is Certainty.GUESS else ""
        remark = f"# {mark}{choice.certainty}: {one_line(choice.why)}"
        lines.append(f"    - {scalar(choice.name)}  {remark}")
    return lines


def _chosen(key: str, choice: Choice) -> list[str]:
    """Return one key with its reason in front; a key without a value only as a remark."""
    mark = f"{CORRECT}: " if choice.certainty in (Certainty.GUESS, Certainty.UNKNOWN) else ""
    if key == "name":
        mark = ""  # a name that is not the best measures the same
    remark = f"  # {mark}{choice.certainty}: {one_line(choice.why)}"
    if not choice.name:
        return [remark.replace("# ", f"# {key}: ", 1)]
    return [remark, f"  {key}: {scalar(choice.name)}"]


def _server(facts: Facts) -> list[str]:
    remarks = []
    if facts.foreign:
        remarks = [
            f"# {CORRECT}: the server that fvec starts has the Python backend alone, and these models",
            f"# need another: {one_line(', '.join(facts.foreign))}.",
            "# `fvec run`, `judge` and `verify` cannot work on this stack. `fvec plan` and `fvec measure`",
            "# can look at a running server of yours, which is never restarted:",
            "#     server:",
            "#       address: 127.0.0.1:8001",
        ]
    if not facts.slow_start:
        return remarks
    slow = f"  # guess: {one_line(facts.slow_start)}"
    return [*remarks, "server:", slow, f"  start_timeout_s: {START_TIMEOUT_S}"]


def _layers(facts: Facts) -> list[str]:
    if facts.python:
        return []
    return ["# no model is written in Python, so there is no code to change", "layers: [config]"]


def scalar(text: str) -> str:
    """Return a string as a YAML scalar that is read back as that string."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    # json.dumps writes surrogate pairs, which YAML takes for two characters that are none
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
