"""An event and the facts beside it, as tests of what wakes the bot share them."""

from datetime import UTC, datetime, timedelta

from bot.wake.events import Event
from bot.wake.facts import Facts, LastAnalysis

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HEAD, OLD, OTHER = "a" * 40, "b" * 40, "c" * 40
FACTS = Facts(
    now=NOW,
    last_analysis=LastAnalysis(OLD, NOW - timedelta(days=3)),
    open_pulls=0,
    live_jobs=frozenset(),
    still_serves=True,
    head_sha=HEAD,
    seed="seed",
)


def event(kind, action="", **fields):
    common = {
        "repository": "owner/serve",
        "installation": 42,
        "sender": "maintainer",
        "sender_is_bot": False,
        "default_branch": "main",
    }
    return Event(kind, action, **{**common, **fields})
