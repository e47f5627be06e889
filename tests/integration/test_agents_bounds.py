"""What a service or a model does without end is ended: by time, by size, by the purse."""

import pytest
from pydantic import BaseModel

from layers.agent_settings import BudgetSection
from layers.agents.service import messages
from layers.agents.service.budget import Purse, Usage
from layers.agents.service.conversation import AnswerTool, Speaker, Tool
from layers.agents.service.messages import MessagesClient, ServiceFailed
from layers.agents.service.transcripts import Transcripts
from layers.story import Outcome, Role
from tests.agents_service import KEY, LEDGER, MODEL, Service, always, saying, service
from tests.messages_server import MOST_DRIPS, STALLING, Fault, Say

FIRST = [{"role": "user", "content": "Look."}]


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request):
    return request.param


def _ask(one: Service, said=FIRST):
    return one.client.ask(MODEL, Role.PLANNER, "Short.", said, [])


def _failing(one: Service, said=FIRST) -> ServiceFailed:
    with pytest.raises(ServiceFailed) as caught:
        _ask(one, said)
    return caught.value


# An answer without end


@pytest.mark.parametrize("kind", STALLING)
def test_an_answer_that_never_begins_is_given_up_in_time(tmp_path, stream, kind):
    script = saying(Fault(kind), Fault(kind))
    with service(tmp_path, script, stream=stream, timeout_s=0.5, tries=2) as one:
        failed = _failing(one)
        assert one.server.dripped < MOST_DRIPS
    assert failed.outcome is Outcome.UNREACHABLE
    assert failed.text == "no reply within 0.5 s"
    assert one.purse.spent.calls == 2
    assert one.purse.spent.tokens >= one.server.billed.tokens > 0


@pytest.mark.parametrize("kind", ["endless_error", "slow_error"])
def test_of_an_error_without_end_the_beginning_is_read(tmp_path, stream, kind):
    timeout_s = 0.5 if kind == "slow_error" else 30.0
    with service(tmp_path, saying(Fault(kind)), stream=stream, timeout_s=timeout_s, tries=1) as one:
        failed = _failing(one)
        assert one.server.dripped < MOST_DRIPS
    assert failed.outcome is Outcome.UNREACHABLE
    assert failed.text.startswith("the service answered 500: error: xxx")
    assert len(failed.text) < 1000
    assert one.purse.spent.tokens == 0


def test_no_compressed_reply_is_asked_for_or_read(tmp_path, stream):
    with service(tmp_path, saying(Fault("packed"), Say("ok")), stream=stream) as one:
        _ask(one)
    assert {asked.headers["accept-encoding"] for asked in one.server.asked} == {"identity"}
    with service(tmp_path, always(Fault("packed")), stream=stream) as one:
        assert _failing(one).text == "the reply is compressed, which was not asked for"


# What a service says that it counted


@pytest.mark.parametrize("number", [10**308, 10**400])
def test_a_number_that_cannot_be_is_charged_with_the_most_and_breaks_nothing(
    tmp_path, stream, number
):
    said = Say("ok", usage=Usage(input_tokens=number, output_tokens=number))
    with service(tmp_path, saying(said), stream=stream) as one:
        reply = _ask(one)
    assert reply.content == [{"type": "text", "text": "ok"}]
    assert reply.cost == one.purse.spent == Purse(tmp_path / LEDGER, BudgetSection()).spent
    assert reply.cost.output_tokens == MODEL.max_tokens


# A conversation without end


def test_a_conversation_that_is_longer_than_any_model_reads_ends(tmp_path, stream, monkeypatch):
    monkeypatch.setattr(messages, "MOST_REQUEST", 20_000)
    free = Say("word " * 1000, [("look", {})], usage=Usage(input_tokens=1, output_tokens=1))
    with service(tmp_path, always(free), stream=stream) as one:
        speaker = _speaker(one.client, one.purse, tmp_path)
        ended = speaker.converse(Role.PLANNER, "Short.", "Go on.", [_tool(lambda: "seen")], ANSWER)
    assert ended.outcome is Outcome.OUT_OF_TURNS
    assert "longer than 20,000 bytes" in ended.text
    assert 2 < len(one.server.asked) < 5
    assert one.purse.spent.calls == len(one.server.asked), "nothing is charged for what is not sent"


# The tools of one reply


def test_tools_of_one_reply_are_not_begun_once_the_time_is_up(tmp_path, stream):
    now, ran = [0.0], []

    def slow() -> str:
        ran.append(now[0])
        now[0] += 25.0
        return "seen"

    purse = Purse(tmp_path / "clocked.jsonl", BudgetSection(minutes=1), clock=lambda: now[0])
    script = saying(Say(tools=[("look", {})] * 10))
    with service(tmp_path, script, stream=stream) as one:
        speaker = _speaker(one.client, purse, tmp_path)
        ended = speaker.converse(Role.PLANNER, "Short.", "Go on.", [_tool(slow)], ANSWER)
    assert ran == [0.0, 25.0, 50.0]
    assert ended.outcome is Outcome.OUT_OF_TIME
    assert "1.2 of 1 minutes" in ended.text


def test_an_answer_that_is_paid_for_is_taken_whatever_the_time(tmp_path):
    now = [0.0]

    def slow() -> str:
        now[0] += 120.0
        return "seen"

    purse = Purse(tmp_path / "clocked.jsonl", BudgetSection(minutes=1), clock=lambda: now[0])
    script = saying(Say(tools=[("look", {}), ("done", {"text": "It is."})]))
    with service(tmp_path, script) as one:
        speaker = _speaker(one.client, purse, tmp_path)
        ended = speaker.converse(Role.PLANNER, "Short.", "Go on.", [_tool(slow)], ANSWER)
    assert ended.answer == Done(text="It is.")


class Nothing(BaseModel):
    pass


class Done(BaseModel):
    text: str


ANSWER = AnswerTool("done", "Ends it.", Done)


def _tool(run) -> Tool:
    return Tool("look", "Looks.", Nothing, lambda _: run())


def _speaker(client: MessagesClient, purse: Purse, folder) -> Speaker:
    transcripts = Transcripts(folder / "transcripts", [KEY])
    return Speaker(client, MODEL, purse, transcripts, 20, str)
