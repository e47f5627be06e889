"""The card: one YAML file of knowledge, strict on the way in.

Three families share one envelope. *Fact* cards describe a workload or a machine (business,
server, feature_store, model, hardware); *cookbook* cards name one possible change that a layer can
write, *skill* cards one technique for who writes a change by hand; both carry the findings of every
run that tried them. `knowledge check` validates all, and a hardware card with peaks also as a
`DeviceCard`: what floors are computed from.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator

MAX_FINDINGS = 12  # per card: a card is read by people; older findings are summarised away
MAX_CHANGES = 256  # named by one finding: more than a run can accept
MAX_TAGS = 12
MAX_SKILL_BYTES = 8192  # of the whole file, findings and all: a model reads it
LEAST_RATIO, GREATEST_RATIO = 1e-3, 1e3  # of throughput: what lies beyond was mistyped
LEAST_SHARE = 1e-4  # of total time: no profile tells less, and what is divided by it stays finite

Text = Annotated[str, Field(min_length=1, max_length=2000)]
Ratio = Annotated[float, Field(ge=LEAST_RATIO, le=GREATEST_RATIO)]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]


class Strict(BaseModel):
    """Frozen, no unknown keys, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Source(Strict):
    """Where a statement comes from: a public address, a paper, or a run of this bot."""

    title: Text
    url: str | None = None


class GainRange(Strict):
    """Expected gain of the touched share, as 1 - 1/speedup."""

    expected: float = Field(ge=0, lt=1)
    best: float = Field(ge=0, lt=1)

    @model_validator(mode="after")
    def _ordered(self) -> GainRange:
        if self.best < self.expected:
            raise ValueError("best must not be below expected")
        return self


class Finding(Strict):
    """What one run learned by trying a card on one stack.

    `on_top` names the changes that the run had accepted before, `together` those that were
    measured as one candidate with this one ("card on model" each); gain and share are then those
    of the candidate as a whole. `fvec` and `code` say which rewrite met which code.
    """

    date: date
    stack: str
    commit: str  # the stack's commit that was the baseline
    model: str = ""  # that was changed; empty in findings older than this field
    issue: str = Field(default="", max_length=200)  # of a skill: what was made of it, by name
    verdict: Literal["accepted", "rejected", "inconclusive", "failed"]
    reason: str
    gain: Ratio | None = None  # end-to-end throughput ratio
    ci: tuple[Ratio, Ratio] | None = None
    share: float | None = Field(default=None, ge=LEAST_SHARE, le=1)  # of total time, at baseline
    hardware: str
    versions: dict[str, str] = Field(default_factory=dict)
    workload: str = ""  # fingerprint of model and traffic shape
    fvec: str = ""  # version of the bot; empty in findings older than this field, as is `code`
    code: dict[str, str] = Field(default_factory=dict)  # by changed model, as the run began: digest
    on_top: list[Text] = Field(default_factory=list, max_length=MAX_CHANGES)
    together: list[Text] = Field(default_factory=list, max_length=MAX_CHANGES)
    run: str = ""

    @field_validator("ci")
    @classmethod
    def _ordered(cls, ci: tuple[float, float] | None) -> tuple[float, float] | None:
        if ci is not None and ci[0] > ci[1]:
            raise ValueError("the lower end comes first")
        return ci

    @property
    def key(self) -> tuple[object, ...]:
        """What a later finding replaces this one by: the same thing tried on the same code."""
        place = (self.stack, self.commit, self.model, self.issue)
        return (*place, *map(frozenset, (self.on_top, self.together)))


class Earlier(Strict):
    """What is left of findings beyond MAX_FINDINGS: counts by verdict, the best and the last."""

    accepted: int = Field(default=0, ge=0)
    rejected: int = Field(default=0, ge=0)
    inconclusive: int = Field(default=0, ge=0)
    failed: int = Field(default=0, ge=0)
    since: date
    best: Finding | None = None  # of the accepted ones, the highest gain
    last: Finding

    @property
    def count(self) -> int:
        """How many findings this stands for."""
        return self.accepted + self.rejected + self.inconclusive + self.failed


class CookbookCard(Strict):
    """One possible change: when to suspect it, what to do, why it is right, when not to."""

    schema_: Literal["fvec.card/1"] = Field(alias="schema")
    kind: Literal["cookbook"]
    id: Slug
    layer: Literal["kernel", "graph", "server", "features", "config"]
    title: Text
    symptom: Text
    why: Text
    change: Text
    transform: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="name of the layer's rewrite")
    parameters: dict[str, int | float | str | bool] = Field(default_factory=dict)
    change_class: Literal["exact", "reorder", "approximate", "config"]
    exactness: Text = Field(description="the argument why outputs stay as the class promises")
    gain: GainRange
    when_not: list[Text] = Field(default_factory=list)
    sources: list[Source] = Field(min_length=1)
    findings: list[Finding] = Field(default_factory=list, max_length=MAX_FINDINGS)
    earlier: Earlier | None = None  # the bot's own summary of findings that were dropped

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class SkillCard(Strict):
    """One technique of serving, for whoever writes a change by hand; a skill promises no gain.

    Findings are those of candidates whose contract named it.
    """

    schema_: Literal["fvec.card/1"] = Field(alias="schema")
    kind: Literal["skill"]
    id: Slug
    tier: Literal["model-architecture", "algorithm", "hardware", "framework"]
    title: Text
    tags: list[Slug] = Field(min_length=1, max_length=MAX_TAGS)
    when: Text
    how: list[Text] = Field(min_length=1)
    activation: Text = Field(description="how to see, under load, that the new path runs")
    pitfalls: list[Text] = Field(min_length=1, description="when not to, and what goes wrong")
    sources: list[Source] = Field(min_length=1)
    findings: list[Finding] = Field(default_factory=list, max_length=MAX_FINDINGS)
    earlier: Earlier | None = None  # the bot's own summary of findings that were dropped

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )

    @field_validator("sources")
    @classmethod
    def _public(cls, sources: list[Source]) -> list[Source]:
        if not any((source.url or "").startswith("https://") for source in sources):
            raise ValueError("none has a public https address")
        return sources


class FactCard(Strict):
    """Facts about a workload, a model, a feature store, a server or a machine."""

    schema_: Literal["fvec.card/1"] = Field(alias="schema")
    kind: Literal["business", "server", "feature_store", "model", "hardware"]
    id: Slug
    title: Text
    facts: dict[str, int | float | str | bool | list[str] | list[float] | dict[str, str]]
    notes: list[Text] = Field(default_factory=list)
    sources: list[Source] = Field(default_factory=list)

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


Family = Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,62}$")]
Positive = Annotated[float, Field(gt=0)]


class DeviceFacts(Strict):
    """What one device can do at most, and what ties it to others: what floors are computed from.

    Peaks are dense, links count one direction of one device's share. `source_of` names for each constant the
    first word of the title of one of the card's sources.
    """

    family: Family = ""
    memory_bytes: Positive
    hbm_bytes_per_s: Positive
    fp32_flops_per_s: Positive | None = None
    bf16_flops_per_s: Positive | None = None
    fp16_flops_per_s: Positive | None = None
    fp8_flops_per_s: Positive | None = None
    int8_flops_per_s: Positive | None = None
    fp4_flops_per_s: Positive | None = None
    cache_bytes: Positive | None = None
    cache_bytes_per_s: Positive | None = None
    scale_up_devices: int = Field(default=1, ge=1, le=65_536)
    scale_up_bytes_per_s: Positive | None = None
    scale_up_latency_s: Positive | None = None
    scale_up_reduces: bool = False
    scale_out_bytes_per_s: Positive | None = None
    scale_out_latency_s: Positive | None = None
    reserve_bytes: Positive | None = None
    source_of: dict[str, Text]

    @model_validator(mode="after")
    def _whole(self) -> DeviceFacts:
        if not self.peaks:
            raise ValueError(
                "no peak: give at least one of bf16_flops_per_s, fp16_flops_per_s, ..."
            )
        if self.scale_up_devices > 1 and self.scale_up_bytes_per_s is None:
            raise ValueError("scale_up_devices share a link: give its scale_up_bytes_per_s")
        if self.reserve_bytes is not None and self.reserve_bytes >= self.memory_bytes:
            raise ValueError("reserve_bytes leaves nothing of memory_bytes")
        return self

    @property
    def peaks(self) -> dict[str, float]:
        """FLOPs per second by dtype."""
        named = ((name, getattr(self, name)) for name in type(self).model_fields)
        suffix = "_flops_per_s"
        return {k.removesuffix(suffix): v for k, v in named if v and k.endswith(suffix)}

    @property
    def constants(self) -> frozenset[str]:
        """The names of what the card states and somebody has to have measured or published."""
        return frozenset(self.model_fields_set - {"family", "source_of"})


class DeviceCard(Strict):
    """A hardware card that floors can be computed from: every constant has its source."""

    schema_: Literal["fvec.card/1"] = Field(alias="schema")
    kind: Literal["hardware"]
    id: Slug
    title: Text
    facts: DeviceFacts
    notes: list[Text] = Field(default_factory=list)
    sources: list[Source] = Field(min_length=1)

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )

    @model_validator(mode="after")
    def _sourced(self) -> DeviceCard:
        source_of, constants = self.facts.source_of, self.facts.constants
        if without := sorted(constants - source_of.keys()):
            raise ValueError(f"source_of does not name the source of {', '.join(without)}")
        if unknown := sorted(source_of.keys() - constants):
            raise ValueError(f"source_of names what the card does not state: {', '.join(unknown)}")
        words = {source.title.partition(":")[0] for source in self.sources}
        if lost := sorted(set(source_of.values()) - words):
            raise ValueError(f"source_of names {', '.join(lost)}: no title in sources starts so")
        return self


Card = CookbookCard
TriedCard: TypeAlias = CookbookCard | SkillCard  # what findings are written to
AnyCard = Annotated[CookbookCard | FactCard | SkillCard, Field(discriminator="kind")]
TRIED: TypeAdapter[TriedCard] = TypeAdapter(Annotated[TriedCard, Field(discriminator="kind")])
