"""What a command hands to the command line: data for programs and a view for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a command that ended by itself; `exit_code` is one of design's table."""

    document: BaseModel | Mapping[str, Any]  # printed with --json
    view: RenderableType  # printed without
    exit_code: int = 0

    def data(self) -> Mapping[str, Any]:
        """Return the document as JSON-ready data."""
        if isinstance(self.document, BaseModel):
            dumped: dict[str, Any] = self.document.model_dump(mode="json", by_alias=True)
            return dumped
        return self.document
