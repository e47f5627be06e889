"""The webhook over real HTTP: what is taken, what is refused, and that nothing breaks it."""

import http.client
import json
import threading
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings

from bot.service.app import Settings, create_app
from bot.service.database import Database
from bot.service.signature import HEADER, Secrets, sign
from bot.service.store import Store
from bot.service.vitals import Vitals
from bot.service.work import works_of
from bot.wake.events import parse
from bot.wake.facts import Facts, LastAnalysis
from bot.wake.policy import Sleep, on_event
from layers.manifest import BotSection
from tests.service_on_loopback import SIGNED_WITH, Sender, served

pytest_plugins = ["tests.github.fixtures"]

NOW_S = 1_750_000_000.0
CREATED_AT = "2026-01-01T00:00:00Z"


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "jobs.sqlite3")
    yield opened
    opened.close()


@pytest.fixture
def sender(database):
    limits = Settings(Secrets([SIGNED_WITH, "the-older-secret"]), 2, 1_000_000, clock=lambda: NOW_S)
    with served(create_app(Store(database), limits)) as url:
        sender = Sender(url)
        with sender.session:
            yield sender


def jobs(database):
    with database.transaction() as db:
        return db.execute("SELECT kind, lane, state FROM jobs ORDER BY id").fetchall()


def comment(body, n=1, *, action="created", sender="maintainer", kind="User"):
    return {
        "action": action,
        "issue": {"number": 3, "pull_request": {}},
        "comment": {"id": n, "body": body, "created_at": CREATED_AT},
        "repository": {"full_name": "owner/serve", "default_branch": "main"},
        "sender": {"login": sender, "type": kind},
        "installation": {"id": 7},
    }


PING = {"zen": "Non-blocking is better than blocking.", "hook_id": 1}


def test_every_real_payload_is_taken_once_and_refused_when_altered_or_unsigned(sender, payloads):
    assert len(payloads) == 329
    answers = {"genuine": set(), "repeated": set(), "altered": set(), "unsigned": set()}
    for name, payload in payloads:
        body = json.dumps(payload).encode()
        headers = sender.headers(name, body)
        unsigned = {key: value for key, value in headers.items() if key != HEADER}
        for kind, sent, shown in (
            ("altered", body + b" ", headers),
            ("unsigned", body, unsigned),
            ("genuine", body, headers),
            ("repeated", body, headers),
        ):
            answer = sender.post(sent, shown)
            answers[kind].add((answer.status_code, answer.json().get("result")))
    assert answers["genuine"] <= {(202, "accepted"), (202, "ignored"), (202, "limited")}
    assert (202, "accepted") in answers["genuine"]
    assert answers["repeated"] == {(202, "duplicate")}
    assert answers["altered"] == answers["unsigned"] == {(401, None)}


def test_a_delivery_is_on_disk_with_its_job_when_it_is_answered(sender, database):
    answer = sender.deliver("issue_comment", comment("/fvec rerun"), "guid-1")
    assert (answer.status_code, answer.json()) == (202, {"result": "accepted"})
    assert jobs(database) == [("decide", "quick", "queued")]
    with database.transaction() as db:
        kept = db.execute("SELECT id, event, received_s FROM deliveries").fetchall()
    assert kept == [("guid-1", "issue_comment", NOW_S)]


@pytest.mark.parametrize(
    "payload",
    [
        comment("a remark"),
        comment("see above: /fvec rerun"),
        comment("/fvec rerun", action="edited"),
        comment("/fvec rerun", sender="fvec[bot]", kind="Bot"),
    ],
)
def test_a_comment_that_is_no_new_command_of_a_person_makes_no_job(sender, database, payload):
    assert sender.deliver("issue_comment", payload).json() == {"result": "ignored"}
    assert jobs(database) == []


def test_an_event_that_makes_no_job_is_one_that_the_policy_sleeps_on(payloads):
    """Whatever the facts: before the first analysis, after one, with and without pull requests."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    last = LastAnalysis("a" * 40, now - timedelta(days=400), {"numpy": "1"})
    facts = [
        Facts(
            now,
            analysis,
            open_pulls,
            frozenset(),
            still_serves=True,
            head_sha="b" * 40,
            seed="seed",
            versions={"numpy": "2"},
        )
        for analysis, open_pulls in product((None, last), (0, 1))
    ]
    events = [parse(name, payload) for name, payload in payloads]
    silent = [event for event in events if event and not works_of("guid", event)]
    decisions = [on_event(event, BotSection(), fact) for event in silent for fact in facts]
    assert decisions == [Sleep(decision.why, answer=False) for decision in decisions]
    assert len(silent) > 10


def test_an_event_that_is_not_used_is_taken_and_ignored(sender, database):
    answers = [sender.deliver(name, {"anything": True}) for name in ("star", "no_such_event")]
    answers.append(sender.deliver("ping", PING))
    assert [(a.status_code, a.json()) for a in answers] == [(202, {"result": "ignored"})] * 3
    assert jobs(database) == []


def test_a_person_over_the_limit_is_answered_by_one_reaction(sender, database):
    answers = [sender.deliver("issue_comment", comment("/fvec rerun", n)) for n in range(1, 6)]
    assert [a.json()["result"] for a in answers] == ["accepted"] * 2 + ["limited"] * 3
    assert [kind for kind, _, _ in jobs(database)] == ["decide", "decide", "react"]
    other = sender.deliver("issue_comment", comment("/fvec rerun", 9, sender="owner"))
    assert other.json() == {"result": "accepted"}


def test_an_installation_is_decided_about_for_each_of_its_repositories(sender, database):
    payload = {
        "action": "created",
        "installation": {"id": 7},
        "repositories": [{"full_name": "owner/one"}, {"full_name": "owner/two"}],
        "sender": {"login": "owner", "type": "User"},
    }
    sender.deliver("installation", payload)
    sender.deliver("installation", {**payload, "action": "deleted"})
    assert [kind for kind, _, _ in jobs(database)] == ["decide", "decide"]
    with database.transaction() as db:
        known = db.execute("SELECT name, installation FROM repositories ORDER BY name").fetchall()
    assert known == [("owner/one", 7), ("owner/two", 7)]


def test_either_secret_signs_while_one_replaces_the_other(sender):
    body = json.dumps(PING).encode()
    headers = sender.headers("ping", body)
    old = sender.post(body, {**headers, HEADER: sign(body, "the-older-secret")})
    none = sender.post(body, {**headers, HEADER: sign(body, "the-oldest-secret")})
    assert (old.status_code, none.status_code) == (202, 401)


def test_a_signature_that_is_not_ascii_is_refused_and_breaks_nothing(sender):
    body = json.dumps(PING).encode()
    headers = {**sender.headers("ping", body), HEADER: "sha256=ümlaut".encode()}
    assert sender.post(body, headers).status_code == 401


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 202),
        ({"X-GitHub-Delivery": ""}, 400),
        ({"X-GitHub-Delivery": "a b"}, 400),
        ({"X-GitHub-Delivery": "x" * 65}, 400),
        ({"X-GitHub-Event": "../ping"}, 400),
    ],
)
def test_headers_are_those_that_github_sends(sender, changed, status):
    body = json.dumps(PING).encode()
    answer = sender.post(body, {**sender.headers("ping", body), **changed})
    assert answer.status_code == status


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"action": ' + b"9" * 5_000 + b"}",
        b"[]",
        b"null",
        b'{"action": "created", "comment": {"body": 7}}',
    ],
)
def test_what_is_signed_but_no_such_payload_is_refused(sender, database, body):
    answer = sender.post(body, sender.headers("issue_comment", body))
    assert answer.status_code == 400
    assert len(answer.json()["error"]) < 200
    assert jobs(database) == []


def test_half_a_surrogate_pair_in_a_comment_is_kept_as_it_came(sender, database):
    answer = sender.deliver("issue_comment", comment("/fvec help \ud800"))
    assert answer.json() == {"result": "accepted"}
    with database.transaction() as db:
        ((payload,),) = db.execute("SELECT payload FROM jobs").fetchall()
    assert json.loads(payload)["body"] == "/fvec help \ud800"


def test_a_payload_that_is_too_large_is_not_read(sender):
    connection = http.client.HTTPConnection(sender.url.removeprefix("http://"), timeout=30)
    connection.putrequest("POST", "/webhook")
    connection.putheader("Content-Length", "1000001")
    connection.endheaders()  # the body never comes
    assert connection.getresponse().status == 413
    connection.close()


def test_a_payload_that_hides_its_size_is_read_up_to_the_limit(sender):
    pieces = (b"x" * 50_000 for _ in range(21))
    try:
        status = sender.post(pieces, {"Content-Type": "application/json"}).status_code
    except requests.ConnectionError:  # it closed while we were still sending
        status = 413
    assert status == 413


def test_one_delivery_that_comes_many_times_at_once_is_one_job(sender, database):
    results = []

    def deliver():
        with requests.Session() as session:
            one = Sender(sender.url, session=session)
            results.append(one.deliver("issue_comment", comment("/fvec rerun"), "guid-1").json())

    threads = [threading.Thread(target=deliver) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r["result"] for r in results) == ["accepted", *["duplicate"] * 7]
    assert len(jobs(database)) == 1


def test_a_delivery_that_cannot_be_kept_is_not_taken(sender, database):
    database.close()
    answer = sender.deliver("issue_comment", comment("/fvec rerun"))
    assert (answer.status_code, answer.json()) == (
        503,
        {"error": "it cannot be kept now: deliver it again"},
    )


def test_health_says_what_is_wrong_and_no_more(sender, database):
    first = sender.session.get(f"{sender.url}/healthz", timeout=30)
    for lane in ("quick", "measure"):
        Vitals(database).beat(lane, lane, NOW_S)
    second = sender.session.get(f"{sender.url}/healthz", timeout=30)
    assert (first.status_code, first.json()) == (
        503,
        {"error": "no worker of the lane quick or measure has been heard of lately"},
    )
    assert (second.status_code, second.json()) == (200, {"status": "ok"})


def test_metrics_tell_what_came_and_what_waits(sender):
    sender.deliver("issue_comment", comment("/fvec rerun"))
    sender.post(b"{}", {"Content-Type": "application/json"})
    text = sender.session.get(f"{sender.url}/metrics", timeout=30).text
    for line in (
        'fvec_deliveries_total{result="accepted"} 1.0',
        'fvec_deliveries_total{result="unsigned"} 1.0',
        'fvec_jobs{kind="decide",state="queued"} 1.0',
        'fvec_queue_depth{lane="quick"} 1.0',
        'fvec_queue_depth{lane="measure"} 0.0',
        'fvec_queue_oldest_seconds{lane="quick"} 0.0',
        "fvec_store_usable 1.0",
    ):
        assert line in text.splitlines()
    assert "owner/serve" not in text


@pytest.mark.parametrize("signed", [False, True])
def test_fuzzing_the_service_by_its_own_description_finds_no_answer_that_it_does_not_name(
    sender, signed
):
    schema = schemathesis.openapi.from_url(f"{sender.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert sorted(operation.label for operation in operations) == [
        "GET /healthz",
        "GET /metrics",
        "POST /webhook",
    ]
    for operation in operations:
        fuzz(sender, operation, signed=signed)


def fuzz(sender, operation, *, signed):
    described = {int(status) for status in operation.definition.raw["responses"]}

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def check(case):
        sent = requests.Request(**case.as_transport_kwargs(base_url=sender.url)).prepare()
        if signed:
            body = sent.body if isinstance(sent.body, bytes) else (sent.body or "").encode()
            sent.headers[HEADER] = sign(body, SIGNED_WITH)
        answer = sender.session.send(sent, timeout=30)
        assert answer.status_code in described
        assert answer.status_code != 500

    check()


def test_the_service_describes_itself_and_shows_no_page_that_loads_from_elsewhere(sender):
    answers = [
        sender.session.get(f"{sender.url}{path}", timeout=30).status_code
        for path in ("/docs", "/redoc", "/", "/webhook", "/openapi.json")
    ]
    assert answers == [404, 404, 404, 405, 200]
