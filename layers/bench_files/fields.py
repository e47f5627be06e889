"""What readers share: strict numbers, any further keys, errors that name the place in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from layers.bench_files.result import Latency
from layers.errors import InvalidInput, Location

Count = Annotated[int, Field(ge=0, le=10**12)]
Positive = Annotated[float, Field(gt=0, le=1e12)]
Amount = Annotated[float, Field(ge=0, le=1e15)]


class Loose(BaseModel):
    """Frozen; numbers are numbers and finite; keys that are not used are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Place:
    """One document of a file: a line of it, or all of it."""

    path: Path
    line: int | None = None
    inside: tuple[str | int, ...] = ()  # keys that lead to it

    def below(self, *keys: str | int) -> Place:
        """Return a place deeper in the same document."""
        return Place(self.path, self.line, (*self.inside, *keys))

    def refuse(self, message: str, hint: str | None = None) -> InvalidInput:
        """Return the error that says what is wrong here."""
        where = ".".join(str(key)[:40] for key in self.inside)
        return InvalidInput(
            f"{where}: {message}" if where else message,
            at=Location(self.path, self.line),
            hint=hint,
        )


def validated(model: type[M], document: Mapping[str, Any], place: Place, tool: str) -> M:
    """Return a document as `model`; raises InvalidInput naming the first key that is wrong."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        more = error.error_count() - 1
        message = first["msg"][:1].lower() + first["msg"][1:]
        if more:
            message += f" ({more} more)"
        hint = f"read as a result of {tool}: is the file whole, and of a run that finished?"
        raise place.below(*first["loc"]).refuse(message, hint) from error


def milliseconds(mean: float | None, median: float | None, p99: float | None) -> Latency:
    """Return a latency that a file states in milliseconds."""
    mean, median, p99 = (None if value is None else value / 1e3 for value in (mean, median, p99))
    return Latency(mean, median, p99)
