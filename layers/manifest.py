"""The manifest of a serving repository, `.github/fvec.yml`.

Published as JSON schema by `fvec config validate --schema`. Unknown keys are errors.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from layers.base import LayerName

MANIFEST_PATH = PurePosixPath(".github/fvec.yml")


def _inside(path: str) -> str:
    """Reject paths that leave the repository, and write each as git does: they are compared."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or pure.parts[0] == ".git":
        raise ValueError("must be a relative path inside the repository")
    return str(pure)


def _glob_inside(pattern: str) -> str:
    whole = _inside(pattern)
    if any("**" in part and part != "**" for part in PurePosixPath(whole).parts):
        raise ValueError(
            "`**` stands for whole folders: write it between slashes, as in a/**/*.txt"
        )
    return whole


def _function_inside(spec: str) -> str:
    file, _, function = spec.rpartition(":")
    return f"{_inside(file)}:{function}"


RepoPath = Annotated[str, AfterValidator(_inside)]
RepoGlob = Annotated[str, AfterValidator(_glob_inside)]
RepoFunction = Annotated[
    str,
    Field(pattern=r"^[\w./-]+\.py:[A-Za-z_]\w*$"),
    AfterValidator(_function_inside),
]


# Of a model that a server is told to load: a folder's name, a word of a shell, and no pattern.
MODEL_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.@+,:=-]*$"
ModelName = Annotated[str, Field(pattern=MODEL_NAME)]


class SandboxMode(StrEnum):
    """How far code under judgement is shut in."""

    STRICT = "strict"
    NO_CGROUP = "no-cgroup"
    PROCESS = "process"


class Section(BaseModel):
    """Base of the manifest's sections: frozen and strict about keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BuildStep(Section):
    """One command that makes files which git does not hold; cached by its inputs' content."""

    run: list[str] = Field(min_length=1, description="argv, no shell; 'python' is the server's")
    inputs: list[RepoGlob] = Field(min_length=1, description="files or globs the result depends on")
    outputs: list[RepoGlob] = Field(min_length=1, description="files that it writes")
    timeout_s: float = Field(default=600, gt=0, le=3600)


class StackSection(Section):
    """What is served and how it is built."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    models: RepoPath = Field(description="Triton model repository")
    entry: str = Field(description="the model that requests name")
    load: list[ModelName] = Field(
        default_factory=list,
        description="models that code calls by name: loaded beside the entry, and beside what an "
        "ensemble is made of, which is loaded with it",
    )
    requirements: RepoPath | None = Field(
        default=None, description="packages of the model server's Python environment"
    )
    build: list[BuildStep] = Field(default_factory=list)


class ServerSection(Section):
    """The model server."""

    address: str | None = Field(
        default=None,
        pattern=r"^(127\.0\.0\.1|localhost|\[::1\]|[A-Za-z0-9.-]+):\d{1,5}$",
        description="gRPC address of a running server; it is then measured, never restarted",
    )
    cpus: list[int] | None = Field(default=None, min_length=1, description="pin the server here")
    start_timeout_s: float = Field(default=90, gt=0, le=1800)


class TrafficSection(Section):
    """Recorded traffic."""

    requests: RepoPath = Field(description="size-delimited KServe v2 ModelInferRequest messages")
    arrivals: RepoPath = Field(description="CSV: offset_s,request (0-based index)")
    in_flight: int = Field(default=4, ge=1, le=256, description="load of the work measure")


class PeakSection(Section):
    """The busiest load: what a gain means in replicas is counted from it."""

    rate: float = Field(gt=0, description="requests per second at peak, all replicas together")
    replicas: int = Field(ge=1, le=1_000_000, description="that carry it today")


class SloSection(Section):
    """The service level objective."""

    p99_ms: float = Field(gt=0)
    peak: PeakSection | None = Field(
        default=None, description="without it a pull request counts per ten replicas"
    )


class FloorSection(Section):
    """What any right answer to a request needs, however it is computed: the floor rests on it.

    State the least. What several requests share (weights read once for a batch) and what caches
    hold does not belong here, nor what an approximation could leave out.
    """

    flops_per_request: float | None = Field(
        default=None, gt=0, description="a multiplication and an addition count as two"
    )
    dtype: Literal["fp32", "bf16", "fp16", "int8"] = Field(
        default="fp32", description="of that arithmetic"
    )
    bytes_per_request: float | None = Field(
        default=None, gt=0, description="that must come from memory, beside request and answer"
    )
    stop_at: float = Field(
        default=1.3, ge=1, le=10, description="nearer the floor than this many times, no profiler"
    )

    @property
    def declared(self) -> bool:
        """Whether it says more than the messages do."""
        return self.flops_per_request is not None or self.bytes_per_request is not None


class ReorderLimits(Section):
    """Tighter limits for the reorder class; looser ones are refused."""

    abs: float = Field(default=1e-4, gt=0, le=1e-4)


class CorrectnessSection(Section):
    """How outputs are judged."""

    referee: RepoFunction | None = Field(
        default=None,
        description="FILE.py:FUNCTION, a float64 reference run in a process of its own",
    )
    metric: RepoFunction | None = Field(
        default=None,
        description="FILE.py:FUNCTION, the business metric of one request's inputs and outputs "
        "(higher is better); needed for approximate",
    )
    reorder: ReorderLimits = Field(default_factory=ReorderLimits)
    approximate_margin: float | None = Field(
        default=None,
        ge=0,
        description="opts in to approximate changes: how much the mean metric may fall",
    )
    approximate_outputs: list[str] | None = Field(
        default=None,
        min_length=1,
        description="all that an approximation may move, integers and strings among them; other "
        "floats stay within the reorder limits. Without it: every float, and nothing else",
    )


class SandboxSection(Section):
    """What code under judgement runs in. Weaker modes than `strict` must be named here."""

    mode: SandboxMode = Field(
        default=SandboxMode.STRICT,
        description="strict: bubblewrap and cgroup limits; no-cgroup: bubblewrap without limits that "
        "bind root; process: a process of its own, with your rights and your network",
    )
    memory_gib: float = Field(default=8, gt=0, le=4096, description="of one server or build")
    processes: int = Field(default=512, ge=16, le=100_000, description="and threads, of one")


class BudgetSection(Section):
    """When a run stops."""

    minutes: float = Field(default=20, gt=0, le=24 * 60)
    candidates: int = Field(default=10, ge=1, le=100)


QUIET_HOURS = r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$"


def _two_moments(hours: str) -> str:
    start, _, end = hours.partition("-")
    if start == end:
        raise ValueError("start and end are the same: nothing would be left to run in")
    return hours


QuietHours = Annotated[str, Field(pattern=QUIET_HOURS), AfterValidator(_two_moments)]


class BotSection(Section):
    """When the bot works by itself on GitHub, and how its pull requests look."""

    releases: bool = Field(default=True, description="analyse when a release is published")
    stale_after_days: float | None = Field(
        default=30,
        gt=0,
        le=3650,
        description="analyse again when the last analysis is older; null: never for its age",
    )
    cooldown_hours: float = Field(
        default=24, ge=0, le=24 * 90, description="rest between two analyses that nobody asked for"
    )
    max_open_pull_requests: int = Field(
        default=2, ge=1, le=20, description="of the bot; no analysis starts while as many are open"
    )
    quiet_hours: QuietHours | None = Field(
        default=None,
        description="HH:MM-HH:MM in UTC, over midnight too: nothing that measures starts then",
    )
    jitter_minutes: float = Field(
        default=60, ge=0, le=24 * 60, description="spread of the start of what nobody waits for"
    )
    serving: list[str] | None = Field(
        default=None,
        min_length=1,
        description="argv, no shell; exit 0 says that this stack still serves: else it is not "
        "analysed for its age. Run by a workflow, never by the service. Without it a stack counts "
        "as serving",
    )
    draft: bool = Field(default=True, description="open pull requests as drafts")
    labels: list[Annotated[str, Field(pattern=r"^[^\s,](?:[^\n\r\t,]{0,48}[^\s,])?$")]] = Field(
        default_factory=lambda: ["fvec"], max_length=10, description="of every pull request"
    )


class Manifest(Section):
    """A serving repository's contract with the bot."""

    schema_: Literal["fvec.manifest/1"] = Field(alias="schema")
    stack: StackSection
    server: ServerSection = Field(default_factory=ServerSection)
    traffic: TrafficSection
    slo: SloSection
    correctness: CorrectnessSection = Field(default_factory=CorrectnessSection)
    floor: FloorSection = Field(default_factory=FloorSection)
    layers: list[LayerName] = Field(
        default_factory=lambda: [LayerName.FEATURES, LayerName.SERVER, LayerName.CONFIG],
        min_length=1,
        description="layers the bot may change",
    )
    budget: BudgetSection = Field(default_factory=BudgetSection)
    knowledge: RepoPath = Field(default="knowledge", description="this repository's own cards")
    sandbox: SandboxSection = Field(default_factory=SandboxSection)
    bot: BotSection = Field(default_factory=BotSection)
    owner: str | None = Field(default=None, description="who answers for the bot's pull requests")

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def manifest_file(root: Path) -> Path:
    """Return where the manifest of the repository at `root` lies."""
    return root / MANIFEST_PATH


def measured_paths(manifest: Manifest) -> tuple[str, str, str]:
    """Return the folder and the files of a repository that are served and replayed."""
    return manifest.stack.models, manifest.traffic.requests, manifest.traffic.arrivals


def judging_paths(manifest: Manifest) -> list[str]:
    """Return the files and folders of a repository that only judge it, relative to its root.

    Its `.git` and `.github`, the referee, the metric and the recorded traffic: the folder of it
    where it has one of its own, for what generates it lies there. None lies in another.
    """
    specs = (manifest.correctness.referee, manifest.correctness.metric)
    judges = [PurePosixPath(spec.rpartition(":")[0]) for spec in specs if spec]
    files = [PurePosixPath(manifest.traffic.requests), PurePosixPath(manifest.traffic.arrivals)]
    models = PurePosixPath(manifest.stack.models)
    own = [
        file.parent
        for file in files
        if file.parent.parts
        and not (models.is_relative_to(file.parent) or file.parent.is_relative_to(models))
    ]
    found = {PurePosixPath(".git"), PurePosixPath(MANIFEST_PATH.parts[0]), *files, *own, *judges}
    return sorted(str(path) for path in found if not found.intersection(path.parents))
