"""What the service makes of a decision: the jobs that follow, and what is told."""

from datetime import timedelta

import pytest

from bot.github.auth import TokenCredentials
from bot.service import work
from bot.service.database import Database
from bot.service.dispatch import Dispatcher
from bot.service.store import Store
from bot.service.worker import Worker
from bot.wake import events
from tests.github_jobs import MANIFEST, MODEL, NOW, Bot, check, dashboard, model_of

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")

SOON = NOW + timedelta(hours=1)  # in the cooldown


@pytest.fixture
def store(tmp_path):
    database = Database(tmp_path / "jobs.sqlite3")
    yield Store(database)
    database.close()


@pytest.fixture
def worker(bot: Bot, store: Store, tmp_path) -> Worker:
    credentials = TokenCredentials(bot.fake.token, login=bot.fake.login, api_url=bot.fake.url)
    clock = SOON.timestamp
    dispatcher = Dispatcher(
        store,
        credentials,
        tmp_path / "service",
        server_url=bot.fake.url,
        throttle=False,
        clock=clock,
    )
    return Worker(store, dispatcher, "quick", clock=clock)


def delivered(store: Store, worker: Worker, event: tuple[str, dict]) -> list[tuple[str, str]]:
    """Let the service hear of an event; return kind and state of its jobs."""
    parsed = events.parse(*event)
    assert parsed is not None
    store.enqueue(work.works_of("guid-1", parsed), SOON.timestamp())
    while worker._round():
        pass
    with store.database.transaction() as db:
        return db.execute("SELECT kind, state FROM jobs ORDER BY id").fetchall()


def test_a_push_that_wakes_an_analysis_marks_stale_evidence_at_once(
    bot: Bot, store: Store, worker: Worker
) -> None:
    number = bot.published()
    old = bot.fake.sha()
    new = bot.fake.commit({MODEL: model_of(bot) + "# moved\n", "models/new/3/model.py": "x = 1\n"})
    found = delivered(store, worker, bot.fake.events.push("main", old, new))
    assert found == [("decide", "done"), ("analyse", "queued"), ("freshen", "done")]
    assert check(bot, bot.fake.pull(number).head_sha)[0] == "neutral"


def test_what_holds_an_analysis_back_is_on_the_dashboard(
    bot: Bot, store: Store, worker: Worker
) -> None:
    bot.published()
    manifest = bot.fake.git("show", f"main:{MANIFEST}")
    bot.fake.commit({MANIFEST: f"{manifest}\nbot:\n  releases: false\n"})
    bot.fake.release("v2")
    assert delivered(store, worker, bot.fake.events.release("v2")) == [("decide", "done")]
    told = "Now: a release was published; the manifest says `releases: false`."
    assert told in dashboard(bot)


@pytest.mark.parametrize(
    ("branch", "asked"),
    [
        ("main", 1),
        ("fvec/features/x", 1),
        ("fvec/evidence", 0),
        ("fvec/knowledge", 0),
        ("fvec/onboard", 0),
        ("topic", 0),
    ],
)
def test_pushes_that_no_pull_request_can_stand_on_are_not_asked_about(
    bot: Bot, branch: str, asked: int
) -> None:
    old = bot.fake.sha()
    new = bot.fake.commit({"a": "a"}, branch=branch)
    event = events.parse(*bot.fake.events.push(branch, old, new))
    assert event is not None
    assert len(work.works_of("guid-1", event)) == asked
