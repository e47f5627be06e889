"""What a platform engineer decides about agents: `fvec.agents/1`, the file of `fvec run --agents`.

It never comes from the serving repository: it decides what is spent, and what a program may reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MOST_PRICE = 1_000_000.0  # a dollar a token: what a reply costs stays a number
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def _address(url: str) -> str:
    parts = urlsplit(url)
    local = parts.hostname in LOOPBACK
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise ValueError("must be an https address, or http on this machine's loopback")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must be an address alone: no credentials, query or fragment")
    return url


class Section(BaseModel):
    """Base: frozen, strict about keys, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Prices(Section):
    """US dollars per million tokens, of the model that is named beside them."""

    input: float = Field(ge=0, le=MOST_PRICE)
    output: float = Field(ge=0, le=MOST_PRICE)
    cache_read: float = Field(ge=0, le=MOST_PRICE)
    cache_write: float = Field(ge=0, le=MOST_PRICE)


class ModelSection(Section):
    """One model of the service."""

    name: str = Field(min_length=1, max_length=200)
    max_tokens: int = Field(default=16_000, ge=256, le=200_000, description="of one reply")
    prices: Prices | None = Field(default=None, description="needed where money is bounded")


class AnthropicSection(Section):
    """A service that speaks the Messages API."""

    model: ModelSection
    judge: ModelSection | None = Field(
        default=None, description="reads the diffs; by default the same model, in a fresh context"
    )
    base_url: Annotated[str, AfterValidator(_address)] | None = None
    api_key_from: str = Field(
        default="ANTHROPIC_API_KEY",
        pattern=r"^[A-Z][A-Z0-9_]{0,63}$",
        description="name of the environment variable that holds the key",
    )
    stream: bool = True
    timeout_s: float = Field(default=600, gt=0, le=3600, description="of one reply")
    tries: int = Field(default=4, ge=1, le=10, description="of one request")


class CommandSection(Section):
    """A program that edits a workspace: a coding agent's command line, or a person's editor."""

    run: list[str] = Field(min_length=1, description="argv, no shell")
    timeout_s: float = Field(default=1800, gt=0, le=6 * 3600, description="of one round")
    network: bool = Field(
        default=False,
        description="let it reach the network, as programs must that ask a model themselves; it "
        "sees the repository then, and what the network lets out",
    )
    environment: list[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]] = Field(
        default_factory=list, max_length=20, description="names of variables that it gets"
    )
    reads: list[str] = Field(
        default_factory=list, max_length=20, description="absolute folders that it needs besides"
    )


class BudgetSection(Section):
    """The hard stops: no call begins once one is reached."""

    usd: float | None = Field(default=None, gt=0)
    tokens: int = Field(default=2_000_000, ge=1000)
    minutes: float = Field(
        default=60, gt=0, le=24 * 60, description="of writing, trials not counted"
    )
    rounds: int = Field(default=3, ge=1, le=10, description="of the inner loop, per candidate")
    turns: int = Field(default=60, ge=2, le=500, description="of one conversation")


class AgentSettings(Section):
    """The whole file."""

    schema_: Literal["fvec.agents/1"] = Field(alias="schema")
    anthropic: AnthropicSection | None = None
    command: CommandSection | None = None
    budget: BudgetSection = Field(default_factory=BudgetSection)

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )

    @model_validator(mode="after")
    def _priced(self) -> Self:
        service = self.anthropic
        if service is None or self.budget.usd is None:
            return self
        models = [service.model, *([service.judge] if service.judge else [])]
        if unpriced := [model.name for model in models if model.prices is None]:
            raise ValueError(f"budget.usd bounds money: give prices for {', '.join(unpriced)}")
        return self


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What agents may spend and reach, and what of the environment is for them alone."""

    settings: AgentSettings
    environ: Mapping[str, str]  # the key of a service, variables that a program is to get

    def __repr__(self) -> str:
        """Return it without values: they are secrets."""
        return f"AgentOptions({', '.join(sorted(self.environ))})"


def names_of(settings: AgentSettings, proposers: Sequence[str]) -> list[str]:
    """Return the names of the environment variables that these proposers get."""
    names: list[str] = []
    if "anthropic" in proposers and settings.anthropic is not None:
        names.append(settings.anthropic.api_key_from)
    if "command" in proposers and settings.command is not None:
        names += settings.command.environment
    return list(dict.fromkeys(names))
