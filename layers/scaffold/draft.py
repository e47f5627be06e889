"""The guesses about one stack, and the texts that hold them."""

from __future__ import annotations

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from tritonclient.grpc import model_config_pb2

from knowledge import yamlfile
from layers.errors import InvalidInput, Location, ToolFailed
from layers.manifest import MANIFEST_PATH, Manifest, TrafficSection
from layers.repository import git
from layers.scaffold import generator, inputs, manifest, models, needs, owner, script, vocabulary
from layers.scaffold.checkout import Checkout
from layers.scaffold.entry import Certainty, Choice, to_load
from layers.scaffold.inputs import Input
from layers.scaffold.models import Model, Repository
from layers.traffic import recorded as traffic
from layers.triton.requirements import HINT

TRAFFIC_BYTES = 1 << 26  # of all requests, as far as there are MIN_REQUESTS
MIN_REQUESTS = 16
_TRIED = (2, 8)  # requests made and checked before anything is written; few if large
_NAMED = 3  # files of one folder that a build step names, before a pattern does
_HEAVY = {"torch", "tensorflow", "transformers", "jax", "onnxruntime", "sentence_transformers"}
_NOT_IN_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Guess:
    """One value that was not given."""

    key: str  # of the manifest, or of a table of the script
    value: str
    certainty: Certainty
    why: str


class Draft:
    """The guesses about one stack, and the texts that hold them."""

    def __init__(
        self,
        tree: Checkout,
        repository: Repository,
        entry: Model,
        used: Sequence[Model],
        models_choice: Choice,
        entry_choice: Choice,
    ) -> None:
        """Guess all of it; InvalidInput for an entry whose requests would be too large."""
        self._load = to_load(repository, entry)
        self._tree = tree
        self._repository = repository
        self._entry = entry
        self._used = used
        self._models_choice = models_choice
        self._entry_choice = entry_choice
        self._folder = _free_folder(tree.root)
        self._needs = needs.find(tree, used)
        self._owner = owner.find(tree)
        aliases = _aliases(entry)
        known = vocabulary.find(tree, used)
        ragged = any(given.allow_ragged_batch for model in used for given in model.config.input)
        self._inputs, self._sizes = inputs.plan(entry, known, aliases, ragged=ragged)
        self._requests = self._checked_traffic()

    def files(self) -> dict[str, str]:
        """Return the texts, by path; the manifest last, because it makes the repository a stack."""
        facts = self._facts()
        depth = len(PurePosixPath(facts.script).parts) - 1
        name = self._entry.name
        made = script.text(name, self._inputs, self._sizes, depth=depth, requests=self._requests)
        text = manifest.text(facts)
        try:
            yamlfile.loads(text, Path(MANIFEST_PATH), Manifest)
        except yamlfile.YamlError as error:
            raise ToolFailed(f"the manifest drafted is not valid: {error}") from error
        return {
            facts.script: made,
            f"{self._folder}/.gitignore": "requests.bin\narrivals.csv\n",
            str(MANIFEST_PATH): text,
        }

    def guesses(self) -> list[Guess]:
        """Return all that was guessed, the manifest's keys first."""
        facts = self._facts()
        chosen = {
            "stack.name": facts.name,
            "stack.models": facts.models,
            "stack.entry": facts.entry,
            "stack.requirements": facts.requirements,
            "owner": facts.owner,
        }
        rate = f"{generator.RATE:g} requests per second"
        found = [Guess(key, c.name, c.certainty, c.why) for key, c in chosen.items()]
        found += [Guess(f"stack.load {c.name}", c.name, c.certainty, c.why) for c in self._load]
        found += [
            Guess("slo.p99_ms", str(manifest.P99_MS), Certainty.GUESS, "nothing was measured"),
            Guess("traffic RATE", rate, Certainty.GUESS, "nothing in the repository says it"),
        ]
        found += [
            Guess(
                f"traffic SIZES {size.name}", f"{size.low} to {size.high}", size.certainty, size.why
            )
            for size in self._sizes
        ]
        if not self._inputs:
            why = f"nothing says what {self._entry.name} takes"
            found.append(Guess("traffic INPUTS", "", Certainty.UNKNOWN, why))
        return [
            *found,
            *(
                Guess(f"traffic INPUTS {entry.name}", _shown(entry), entry.certainty, entry.why)
                for entry in self._inputs
            ),
        ]

    def correct_first(self) -> list[str]:
        """Return what a person should look at: who answers for it, then what stops a run first."""
        where = self._facts().script
        listed = [self._whose()]
        listed += [f"{model.name}: {p}" for model in self._used for p in model.problems]
        lost = sorted(self._entry.calls - {model.name for model in self._repository.models})
        listed += [f"{self._entry.name} calls {name}, which is not in the folder" for name in lost]
        listed += [*self._untracked(), *self._unsupported()]
        if not self._inputs:
            listed.append(f"INPUTS in {where}: write what {self._entry.name} takes")
        if self._entry_choice.certainty is Certainty.GUESS:
            listed.append(f"stack.entry: {self._entry_choice.why}")
        listed += [
            f"stack.load: {choice.name}; {choice.why}"
            for choice in self._load
            if choice.certainty is Certainty.GUESS
        ]
        if self._models_choice.certainty is Certainty.GUESS:
            listed.append(f"stack.models: {self._models_choice.why}")
        listed += self._requirements_remarks()
        listed += [
            f"slo.p99_ms in {MANIFEST_PATH}: your service's objective",
            f"RATE in {where}: your requests per second",
        ]
        blind = [entry.name for entry in self._inputs if entry.certainty is Certainty.GUESS]
        if blind:
            listed.append(f"INPUTS in {where}: the made-up values of {_some(blind)}")
        if varying := [size.name for size in self._sizes if size.low < size.high]:
            listed.append(f"SIZES in {where}: the real sizes of {_some(varying)}")
        return listed

    def _whose(self) -> str:
        """Ask for the owner."""
        asked = f"owner in {MANIFEST_PATH}: who answers for the bot's pull requests"
        if not self._owner.name:
            return f"{asked}, a person or a team; nobody is named yet"
        return f"{asked}; {self._owner.name} is from CODEOWNERS"

    def _untracked(self) -> list[str]:
        """Say which files of the models git does not hold: a run serves a commit."""
        if not (self._tree.root / ".git").exists():
            return ["the folder is no git checkout: git init, and commit it"]
        held = set(git.tracked(self._tree.root, self._repository.folder))
        if not held:
            return [f"git holds nothing of {self._repository.folder}: commit it"]
        listed = []
        for model in self._used:
            lost = [path for path in models.served_files(self._tree, model) if path not in held]
            if lost:
                listed.append(f"git does not hold {_some(lost)}: commit them, or add a build step")
        return listed

    def _unsupported(self) -> list[str]:
        """Say which models this machine's server cannot serve, or a measurement cannot judge."""
        foreign = self._foreign()
        listed = []
        if foreign:
            listed.append(
                f"server.address: the server that fvec starts runs Python models only, not "
                f"{_some(foreign)}; `fvec plan` and `fvec measure` can look at a running one, and "
                "nothing can be changed or judged here"
            )
        for model in self._used:
            if model.decoupled:
                listed.append(f"{model.name} is decoupled: one request must give one answer here")
            if model.stateful:
                listed.append(f"{model.name} batches sequences: requests are independent here")
            if model.source.reads_json and self._holds_strings():
                listed.append(f"the code of {model.name} reads JSON: give its strings real values")
        return listed

    def _holds_strings(self) -> bool:
        return any(entry.datatype == "BYTES" for entry in self._inputs)

    def _requirements_remarks(self) -> list[str]:
        found = self._needs
        if found.refused:
            return [f"stack.requirements: {line}; {HINT}" for line in found.refused]
        if found.lacking:
            lacking = _some(list(found.lacking))
            where = f"{found.file} does not list" if found.file else "no requirements file lists"
            return [f"stack.requirements: {where} {lacking}"]
        return []

    def _foreign(self) -> list[str]:
        return [
            f"{model.name} ({model.backend or 'backend not known'})"
            for model in self._used
            if model.readable and model.backend not in ("python", "ensemble")
        ]

    def _facts(self) -> manifest.Facts:
        name = _NOT_IN_NAME.sub("-", self._tree.root.name.lower()).strip("-")[:63].strip("-")
        heavy = sorted(_HEAVY.intersection(self._needs.imports))
        files_read = {entry.draw[1] for entry in self._inputs if entry.draw[0] == "lines"}
        return manifest.Facts(
            name=Choice(name or "stack", Certainty.GUESS, "the name of the folder"),
            models=self._models_choice,
            entry=self._entry_choice,
            load=self._load,
            requirements=self._requirements(),
            owner=self._owner,
            traffic=self._folder,
            script=f"{self._folder}/synthetic.py",
            script_inputs=_patterns(files_read),
            slow_start=f"loading {' and '.join(heavy)} takes long" if heavy else "",
            foreign=self._foreign(),
            python=any(model.backend == "python" for model in self._used),
        )

    def _requirements(self) -> Choice:
        found = self._needs
        if not found.imports:
            return Choice("", Certainty.SURE, "the models import nothing that needs installing")
        wanted = _some(list(found.imports))
        if found.refused:
            lines = "; ".join(found.refused)
            return Choice("", Certainty.UNKNOWN, f"the models import {wanted}, but {lines}")
        if found.file is None:
            return Choice("", Certainty.UNKNOWN, f"the models import {wanted}; no file lists them")
        if found.lacking:
            lacking = _some(list(found.lacking))
            return Choice(found.file, Certainty.GUESS, f"lists most imports, but not {lacking}")
        return Choice(found.file, Certainty.LIKELY, f"lists what the models import: {wanted}")

    def _checked_traffic(self) -> int:
        """Make some requests and check them as a run does; return how many to make in all.

        Raises InvalidInput where one request would be too large to be made.
        """
        if not self._inputs:
            return MIN_REQUESTS
        largest = inputs.largest_bytes(self._inputs, self._sizes)
        if largest > inputs.MAX_REQUEST_BYTES:
            raise InvalidInput(
                f"{self._entry.name} would take {largest} bytes a request; "
                f"more than {inputs.MAX_REQUEST_BYTES} are not made up",
                at=Location(Path(self._entry.folder, models.CONFIG)),
                hint="name another model by --entry",
            )
        tables = script.tables(self._entry.name, self._inputs, self._sizes, self._tree.root)
        tried = min(max(TRAFFIC_BYTES // max(1, largest), _TRIED[0]), _TRIED[1])
        made = list(generator.requests(np.random.default_rng(0), tables, tried))
        with tempfile.TemporaryDirectory(prefix="fvec-init-") as folder:
            traffic.write(Path(folder), made, [(0.0, 0), (1.0, tried - 1)])
            section = TrafficSection(requests="requests.bin", arrivals="arrivals.csv")
            traffic.Traffic.load(Path(folder), section).check(_named(self._entry))
        mean_bytes = max(1, sum(map(len, made)) // len(made))
        return min(generator.REQUESTS, max(MIN_REQUESTS, TRAFFIC_BYTES // mean_bytes))


def _free_folder(root: Path) -> str:
    """Return the name of a folder for the traffic that does not exist yet."""
    names = ["traffic", "fvec_traffic", *(f"fvec_traffic_{number}" for number in range(2, 100))]
    for name in names:
        if not os.path.lexists(root / name):
            return name
    raise InvalidInput("there are a hundred traffic folders already", at=Location(root))


def _patterns(paths: Iterable[str]) -> list[str]:
    """Return a build step's inputs: files, or one pattern for many text files of a folder."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        groups[path.rpartition("/")[0]].append(path)
    return [
        name
        for folder, names in groups.items()
        for name in ([f"{folder}/*.txt"] if len(names) > _NAMED else names)
    ]


def _aliases(entry: Model) -> dict[str, str]:
    """Return what an ensemble's inputs are called by the models that take them."""
    found: dict[str, str] = {}
    for step in entry.config.ensemble_scheduling.step:
        for inner, outer in step.input_map.items():
            found.setdefault(outer, inner)
    return found


def _named(entry: Model) -> models.Message:
    """Return the entry's configuration under the name of its folder, which the server uses."""
    config = model_config_pb2.ModelConfig()
    config.CopyFrom(entry.config)
    config.name = entry.name
    return config


def _shown(entry: Input) -> str:
    kind, *arguments = entry.draw
    text = ", ".join(str(argument) for argument in arguments)
    shape = "x".join(str(size) for size in entry.dims)
    return f"{entry.datatype} [{shape}] {kind}({text if len(text) < 60 else text[:57] + '...'})"


def _some(names: Sequence[str]) -> str:
    """Return the first names of a list as text."""
    shown = 6
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
