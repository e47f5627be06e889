"""What a decision needs beside the event, as data: the caller looks it up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from layers.base import LayerName

Layers = tuple[LayerName, ...]


@dataclass(frozen=True, slots=True)
class LastAnalysis:
    """An analysis that ended: its commit, when, and the versions that the commit named.

    `versions` are of `bot.wake.versions.read`, None where they are not known. `layers` are those
    that it was about; empty: all that the manifest names.
    """

    sha: str
    at: datetime  # aware; when it ended
    versions: Mapping[str, str] | None = None
    layers: Layers = ()
    began: datetime | None = None  # aware; None: not known

    @property
    def since(self) -> datetime:
        """Return from when on it knows nothing of what happened."""
        return self.began or self.at


@dataclass(frozen=True, slots=True)
class Attempt:
    """An analysis that ended by an error, after the last that ended well."""

    sha: str
    at: datetime  # aware
    failures: int  # one after the other at that commit


@dataclass(frozen=True, slots=True)
class Release:
    """The release that was published last, and its commit; "" where that is not known."""

    tag: str
    sha: str
    at: datetime  # aware


@dataclass(frozen=True, slots=True)
class Merge:
    """The change of ours that was merged into the default branch last."""

    number: int
    at: datetime  # aware


@dataclass(frozen=True, slots=True)
class Facts:
    """What a decision needs beside the event.

    `head_sha` is the commit that the work would be about: the head of the default branch, and for
    a comment on a pull request the head of that pull request, both as they are now.
    `versions` are those that `head_sha` names (`bot.wake.versions.read`), None where not looked up.
    `last_analysis` was about all layers; `partial` are the last ones about some. `release`, `merge`
    and `awaiting` are looked up for a tick alone.
    """

    now: datetime  # aware
    last_analysis: LastAnalysis | None
    open_pulls: int  # of ours
    live_jobs: frozenset[str]  # keys of queued and running jobs
    still_serves: bool | None  # None: nobody can tell
    head_sha: str
    seed: str  # of the jitter
    versions: Mapping[str, str] | None = None
    layers: Layers = tuple(LayerName)  # that the manifest allows
    bases: frozenset[str] = frozenset()  # branches that open pull requests of ours go to
    partial: tuple[LastAnalysis, ...] = ()
    attempt: Attempt | None = None
    release: Release | None = None
    merge: Merge | None = None
    awaiting: int = 0  # accepted changes for which there was no room
