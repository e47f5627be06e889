"""GitHub's own captured payloads: each is an event of ours or none, and never an error."""

from collections import Counter

from bot.wake.events import Event, parse
from bot.wake.policy import Facts, Sleep, Wake, on_event
from layers.manifest import BotSection
from tests.wake import FACTS

pytest_plugins = ["tests.github.fixtures"]


def test_every_real_payload_is_an_event_or_none(payloads):
    assert len(payloads) == 329
    read = [(name, parse(name, payload)) for name, payload in payloads]
    assert Counter(event.kind for _, event in read if event) == {
        "comment": 9,
        "dispatch": 4,
        "installation": 10,
        "ping": 4,
        "pull_request": 29,
        "push": 7,
        "release": 13,
    }
    for name, event in read:
        if event is not None and event.kind not in ("ping", "installation"):
            assert event.repository, name
            assert event.sender, name


def test_what_is_read_is_what_the_payload_says(payloads):
    comments = [payload for name, payload in payloads if name == "issue_comment"]
    for payload in comments:
        event = parse("issue_comment", payload)
        assert event is not None
        assert event.number == payload["issue"]["number"]
        assert event.is_pull == ("pull_request" in payload["issue"])
        assert event.body == payload["comment"]["body"]
        assert event.created_at == payload["comment"]["created_at"]
        assert event.sender == payload["sender"]["login"]
    for name, payload in payloads:
        if name == "pull_request":
            event = parse(name, payload)
            assert event is not None
            assert event.sha == payload["pull_request"]["head"]["sha"]
            assert event.merged == bool(payload["pull_request"].get("merged"))


def test_the_policy_has_an_answer_to_every_real_payload(payloads):
    facts: Facts = FACTS
    for name, payload in payloads:
        event = parse(name, payload)
        if isinstance(event, Event):
            decision = on_event(event, BotSection(), facts)
            assert isinstance(decision, Wake | Sleep)
            assert decision.why
