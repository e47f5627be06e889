"""Conversations with a real server: whatever the model does, they end in an answer or clearly."""

import json
import random
from dataclasses import dataclass, field
from enum import StrEnum

import pytest
from pydantic import BaseModel, ConfigDict, Field

from layers.agent_settings import BudgetSection
from layers.agents.service.budget import Purse, Usage
from layers.agents.service.conversation import (
    MOST_ALIKE,
    MOST_CALLS,
    MOST_MISSES,
    MOST_RESULT,
    AnswerTool,
    Conversed,
    Speaker,
    Tool,
    ToolRefused,
)
from layers.agents.service.transcripts import Transcripts
from layers.errors import JournalBroken, ToolFailed
from layers.story import MOST_TEXT, Outcome, Role, Step
from tests.agents_service import KEY, LEDGER, MODEL, Service, always, saying, service
from tests.messages_server import UNSEEN, Fault, Say

WORD = "THE-WORD-NOBODY-MAY-KNOW"  # what must not leave us
SYSTEM = "You plan."
FAULTS = ["429", "529", "500", "504", "error_event"]
FAULTS += [kind for kind in UNSEEN if kind not in ("timeout", "drip")]


class Where(BaseModel):
    """A model that does not say what becomes of unknown fields."""

    path: str = Field(max_length=30)
    lines: int = Field(default=10, ge=1)


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Plan(BaseModel):
    """As strict as a model can be."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    title: str = Field(max_length=40)
    expected: tuple[float, float] = (1.0, 2.0)
    size: Size = Size.SMALL


ANSWER = AnswerTool("plan", "Say what you plan.", Plan)
PLANNED = {"title": "Vectorise it", "expected": [1.1, 1.3], "size": "large"}
PLAN = Plan(title="Vectorise it", expected=(1.1, 1.3), size=Size.LARGE)
DONE = Say("That is it.", [("plan", PLANNED)])


@dataclass
class Files:
    """What the tools of these tests read; `asked` is what they were asked for."""

    contents: dict[str, str] = field(default_factory=lambda: {"a.py": "import numpy\n"})
    asked: list[Where] = field(default_factory=list)
    error: Exception | None = None

    def read(self, where: Where) -> str:
        self.asked.append(where)
        if self.error is not None:
            raise self.error
        if where.path not in self.contents:
            raise ToolRefused(f"there is no file {where.path}")
        return self.contents[where.path]

    @property
    def tools(self) -> list[Tool]:
        return [Tool("read_file", "Read a file.", Where, self.read)]


@dataclass(frozen=True)
class Held:
    """A conversation that was held."""

    conversed: Conversed[Plan]
    service: Service
    pieces: list[dict]  # of its transcript
    files: Files

    def of(self, kind: str) -> list:
        return [piece["content"] for piece in self.pieces if piece["kind"] == kind]

    @property
    def told(self) -> list[str]:
        """What the model was told before each reply but the first."""
        return [asked.last_text for asked in self.service.server.asked[1:]]


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request):
    return request.param


@pytest.fixture
def hold(tmp_path):
    """Hold a conversation with a scripted model, and check what holds for each of them."""

    def held(script, *, files=None, turns=20, first="Plan something.", **options) -> Held:
        files = files or Files()
        transcripts = Transcripts(tmp_path / "transcripts", [KEY, WORD])
        with service(tmp_path, script, **options) as one:
            before = one.purse.mark()
            speaker = Speaker(one.client, MODEL, one.purse, transcripts, turns, _redacted)
            conversed = speaker.converse(Role.PLANNER, SYSTEM, first, files.tools, ANSWER)
        assert conversed.cost == one.purse.since(before)
        text = (tmp_path / conversed.transcript).read_text(encoding="utf-8")
        pieces = [json.loads(line) for line in text.split("\n")[:-1]]
        whole = Held(conversed, one, pieces, files)
        _check(whole, text, Purse(tmp_path / LEDGER, BudgetSection()))
        return whole

    return held


def _redacted(text: str) -> str:
    return text.replace(WORD, "REDACTED")


def _check(held: Held, transcript: str, ledger: Purse) -> None:
    """Nothing is lost, nothing is free, and it ended in one of two ways."""
    conversed, one = held.conversed, held.service
    assert (conversed.answer is None) != (conversed.outcome is None)
    assert one.purse.spent == ledger.spent
    assert conversed.cost.tokens >= one.server.billed.tokens
    assert conversed.cost.calls == len(one.server.asked)
    assert [piece["kind"] for piece in held.pieces].count("ended") == 1
    assert held.pieces[0]["kind"] == "begun"
    assert WORD not in transcript
    assert KEY not in transcript
    assert WORD not in json.dumps([asked.body for asked in one.server.asked])
    ending = conversed.outcome or Outcome.PLANNED
    Step(role=Role.PLANNER, round=0, outcome=ending, text=conversed.text, cost=conversed.cost)


def _read(path="a.py", **more):
    return Say("", [("read_file", {"path": path, **more})])


# Answers


def test_an_answer_ends_a_conversation(hold, stream):
    held = hold(saying(DONE), stream=stream)
    assert held.conversed.answer == PLAN
    assert held.conversed.outcome is None
    assert held.conversed.text == "That is it."
    assert held.conversed.transcript == "transcripts/001-planner.jsonl"
    assert held.conversed.cost.tokens == held.service.server.billed.tokens


def test_what_the_tools_say_is_told_before_the_answer(hold, stream):
    held = hold(saying(_read(lines=3), DONE), stream=stream)
    assert held.conversed.answer == PLAN
    assert held.files.asked == [Where(path="a.py", lines=3)]
    assert held.told == ["import numpy\n"]
    assert [asked.turn for asked in held.service.server.asked] == [0, 1]


def test_the_transcript_has_all_of_it_in_order(hold):
    held = hold(saying(_read(), Say("Let me think."), DONE))
    kinds = [piece["kind"] for piece in held.pieces]
    assert kinds == ["begun", "reply", "results", "reply", "told", "reply", "results", "ended"]
    begun, ended = held.of("begun")[0], held.of("ended")[0]
    assert (begun["system"], begun["first"]) == (SYSTEM, "Plan something.")
    assert [tool["name"] for tool in begun["tools"]] == ["read_file", "plan"]
    assert held.of("reply")[0]["content"][0]["input"] == {"path": "a.py"}
    assert held.of("results")[0][0]["content"] == "import numpy\n"
    assert ended["answer"] == PLANNED
    assert sum(reply["cost"]["calls"] for reply in held.of("reply")) == 3


def test_tools_are_offered_with_what_they_take_and_the_answer_last(hold):
    held = hold(saying(DONE))
    (asked,) = held.service.server.asked
    assert asked.tools == ["read_file", "plan"]
    assert asked.answer_tool == "plan"
    read, plan = (tool["input_schema"] for tool in asked.body["tools"])
    assert read["required"] == ["path"]
    assert read["properties"]["lines"]["minimum"] == 1
    assert read["additionalProperties"] is False
    assert plan["additionalProperties"] is False


def test_calls_before_the_answer_in_one_reply_are_done_and_those_after_it_are_not(hold, stream):
    calls = [("read_file", {"path": "a.py"}), ("plan", PLANNED), ("read_file", {"path": "b.py"})]
    held = hold(saying(Say("", calls)), stream=stream)
    assert held.conversed.answer == PLAN
    assert [where.path for where in held.files.asked] == ["a.py"]


def test_no_answer_is_taken_that_does_not_know_of_a_failure(hold):
    calls = [("read_file", {"path": "b.py"}), ("plan", PLANNED)]
    held = hold(saying(Say("", calls), DONE))
    assert held.conversed.answer == PLAN
    assert "there is no file b.py" in held.told[0]
    assert "not taken: a call before it" in held.told[0]


# What is wrong with a call is told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "path: Field required"),
        ({"path": 7}, "path: Input should be a valid string"),
        ({"path": "a.py", "lines": 0}, "lines: Input should be greater than or equal to 1"),
        ({"path": "a.py", "line": 3}, "line: there is no such field"),
        ({"path": "x" * 31, "to": 1}, "to: there is no such field; path: String should have at"),
    ],
)
def test_an_input_that_is_wrong_is_told_field_by_field(hold, stream, given, told):
    held = hold(saying(Say("", [("read_file", given)]), DONE), stream=stream)
    assert held.conversed.answer == PLAN
    assert told in held.told[0]
    assert held.files.asked == []
    assert held.of("results")[0][0]["is_error"] is True


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"title": "t" * 41}, "title: String should have at most 40 characters"),
        ({**PLANNED, "size": "huge"}, "size: Input should be 'small' or 'large'"),
        ({**PLANNED, "expected": [1]}, "expected.1: Field required"),
        ({**PLANNED, "score": 10}, "score: there is no such field"),
    ],
)
def test_an_answer_that_is_wrong_can_be_mended(hold, given, told):
    held = hold(saying(Say("", [("plan", given)]), DONE))
    assert held.conversed.answer == PLAN
    assert told in held.told[0]


def test_a_tool_that_does_not_exist_is_told_with_those_that_do(hold):
    held = hold(saying(Say("", [("shell", {"command": "make bench"})]), DONE))
    assert held.conversed.answer == PLAN
    assert held.told == ["there is no tool of this name; there are: read_file, plan"]


def test_what_a_tool_refuses_is_told(hold):
    held = hold(saying(_read("b.py"), DONE))
    assert held.told == ["there is no file b.py"]
    assert held.of("results")[0][0]["is_error"] is True


@pytest.mark.parametrize(
    "error", [ValueError("embedded null byte in /secret/place"), PermissionError(13, "/secret")]
)
def test_a_tool_that_cannot_do_it_says_no_more_than_that(hold, error):
    held = hold(saying(_read(), DONE), files=Files(error=error))
    assert held.conversed.answer == PLAN
    assert held.told == [f"it could not be done: {type(error).__name__}"]
    assert "secret" in held.of("broke")[0]["error"]


def test_an_error_of_ours_is_not_the_model_s(hold):
    with pytest.raises(ZeroDivisionError):
        hold(saying(_read()), files=Files(error=ZeroDivisionError()))


def _speaking(folder, one: Service) -> Speaker:
    return Speaker(one.client, MODEL, one.purse, Transcripts(folder / "transcripts", []), 5, str)


def test_a_transcript_that_cannot_be_written_ends_it_by_name_with_what_it_cost(tmp_path, stream):
    place = tmp_path / "transcripts" / "001-planner.jsonl"

    def blocked(_: Where) -> str:
        place.unlink()
        place.mkdir()
        return "seen"

    tools = [Tool("read_file", "Read a file.", Where, blocked)]
    with service(tmp_path, saying(_read()), stream=stream) as one:
        ended = _speaking(tmp_path, one).converse(Role.PLANNER, SYSTEM, "Plan.", tools, ANSWER)
    assert (ended.answer, ended.outcome) == (None, Outcome.BROKE)
    assert ended.text.startswith("it could not go on: the transcript ")
    assert ended.text.endswith("cannot be written: Is a directory")
    assert ended.transcript == "transcripts/001-planner.jsonl"
    assert ended.cost == one.purse.spent
    assert ended.cost.calls == 1


def test_nobody_is_asked_where_no_transcript_can_be_made(tmp_path, stream):
    (tmp_path / "transcripts").write_text("")
    with service(tmp_path, saying(), stream=stream) as one:
        ended = _speaking(tmp_path, one).converse(Role.PLANNER, SYSTEM, "Plan.", [], ANSWER)
    assert (ended.answer, ended.outcome, ended.transcript) == (None, Outcome.BROKE, "")
    assert "no transcript can be made" in ended.text
    assert (one.server.asked, ended.cost.calls) == ([], 0)


def test_a_tool_of_ours_that_breaks_ends_it_by_name(hold):
    held = hold(saying(_read()), files=Files(error=ToolFailed("git is not there")))
    assert held.conversed.outcome is Outcome.BROKE
    assert held.conversed.text == "it could not go on: git is not there"
    assert held.of("reply")


def test_what_stops_the_run_passes_through(hold):
    with pytest.raises(JournalBroken):
        hold(saying(_read()), files=Files(error=JournalBroken("the ledger cannot be written")))


@pytest.mark.parametrize("given", ['{"path": "a.py"', '["a.py"]', "{'path': 'a.py'}"])
def test_an_input_that_is_no_json_object_is_told(hold, stream, given):
    held = hold(saying(Say("", [("read_file", given)]), DONE), stream=stream)
    assert held.conversed.answer == PLAN
    assert "not done: the input is not" in held.told[0]
    assert held.files.asked == []


def test_a_result_is_bounded_and_says_so(hold):
    files = Files({"a.py": "x" * 50_000})
    held = hold(saying(_read(), DONE), files=files)
    (told,) = held.told
    assert len(told) <= MOST_RESULT
    assert "more characters were left out" in told


@pytest.mark.parametrize("content", ["", " \n"])
def test_a_result_of_nothing_is_told_as_such(hold, content):
    held = hold(saying(_read(), DONE), files=Files({"a.py": content}))
    assert held.told == ["(nothing)"]


def test_too_many_calls_of_one_reply_are_not_done(hold):
    calls = [("read_file", {"path": "a.py", "lines": n + 1}) for n in range(MOST_CALLS + 2)]
    held = hold(saying(Say("", calls), DONE))
    assert held.conversed.answer == PLAN
    assert len(held.files.asked) == MOST_CALLS
    assert held.told[0].count(f"{MOST_CALLS} calls in one reply are the most") == 2


# Replies that were cut off


@pytest.mark.parametrize("given", ['{"path": "a.p', '{"path": "a.py"}'])
def test_a_call_that_was_cut_off_is_not_done(hold, stream, given):
    cut = Say("I read", [("read_file", given)], stop_reason="max_tokens")
    held = hold(saying(cut, DONE), stream=stream)
    assert held.conversed.answer == PLAN
    assert held.files.asked == []
    assert "your reply was cut off inside of this call" in held.told[0]


def test_an_answer_that_was_cut_off_is_not_taken(hold, stream):
    cut = Say("", [("plan", PLANNED)], stop_reason="max_tokens")
    held = hold(always(cut), stream=stream)
    assert held.conversed.answer is None
    assert held.conversed.outcome is Outcome.MALFORMED
    assert "cut off" in held.conversed.text
    assert len(held.service.server.asked) == MOST_ALIKE


def test_calls_before_the_one_that_was_cut_off_are_done(hold, stream):
    calls = [("read_file", {"path": "a.py"}), ("read_file", '{"path": "b')]
    held = hold(saying(Say("", calls, stop_reason="max_tokens"), DONE), stream=stream)
    assert [where.path for where in held.files.asked] == ["a.py"]
    assert "import numpy" in held.told[0]
    assert "cut off" in held.told[0]


def test_text_that_was_cut_off_is_told_as_such(hold, stream):
    held = hold(saying(Say("I think and", stop_reason="max_tokens"), DONE), stream=stream)
    assert held.conversed.answer == PLAN
    assert "was cut off, because it was too long" in held.told[0]


# Replies without a call


@pytest.mark.parametrize("text", ["I am done.", ""])
@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", "max_tokens", "pause_turn"])
def test_replies_without_a_call_end_after_the_third(hold, stream, text, reason):
    held = hold(always(Say(text, stop_reason=reason)), stream=stream, turns=10)
    if text and reason == "pause_turn":
        assert held.conversed.outcome is Outcome.OUT_OF_TURNS
        return
    assert held.conversed.outcome is Outcome.MALFORMED
    assert len(held.service.server.asked) == MOST_MISSES
    assert text in held.conversed.text
    assert "by calling `plan`" in held.told[0]


def test_a_call_in_between_begins_the_count_again(hold):
    silent = [Say("Hm."), Say("")]
    held = hold(saying(*silent, _read(), *silent, DONE))
    assert held.conversed.answer == PLAN
    assert "ended without a call" in held.told[0]
    assert "was empty" in held.told[1]


def test_a_pause_goes_on_with_what_was_said(hold, stream):
    pause = Say("One moment.", stop_reason="pause_turn")
    held = hold(saying(pause, DONE), stream=stream)
    assert held.conversed.answer == PLAN
    said = held.service.server.asked[1].body["messages"][-1]
    assert said == {"role": "assistant", "content": [{"type": "text", "text": "One moment."}]}


def test_thinking_goes_back_as_it_came(hold, stream):
    thinking = {"type": "thinking", "thinking": "Which file?", "signature": "c2lnbmF0dXJl"}
    said = Say("I read.", [("read_file", {"path": "a.py"})], blocks=[thinking])
    held = hold(saying(said, DONE), stream=stream)
    assert held.conversed.answer == PLAN
    assert held.service.server.asked[1].body["messages"][1]["content"][0] == thinking


# Ends without an answer


@pytest.mark.parametrize("text", ["I will not do that.", ""])
def test_a_refusal_ends_a_conversation(hold, stream, text):
    refusal = Say(text, [("plan", PLANNED)], stop_reason="refusal")
    held = hold(saying(refusal), stream=stream)
    assert held.conversed.outcome is Outcome.REFUSED
    assert held.conversed.text == (text or "the model refused, and did not say why")


def test_a_conversation_that_is_too_long_for_the_model_ends(hold):
    held = hold(saying(_read(), Say("I", stop_reason="model_context_window_exceeded")))
    assert held.conversed.outcome is Outcome.OUT_OF_TURNS
    assert "longer than the model can read" in held.conversed.text


def test_a_loop_of_calls_that_work_ends_with_the_turns(hold, stream):
    held = hold(always(_read()), stream=stream, turns=7)
    assert held.conversed.outcome is Outcome.OUT_OF_TURNS
    assert held.conversed.text == "no answer within 7 replies"
    assert len(held.service.server.asked) == 7
    assert len(held.files.asked) == 7


@pytest.mark.parametrize(
    "say",
    [
        _read("b.py"),
        Say("", [("shell", {})]),
        Say("", [("plan", {})]),
        Say("", [("read_file", '{"path": ')]),
    ],
)
def test_the_same_call_that_fails_again_and_again_ends_a_conversation(hold, stream, say):
    held = hold(always(say), stream=stream, turns=50)
    assert held.conversed.outcome is Outcome.MALFORMED
    assert f"failed {MOST_ALIKE} times in a row" in held.conversed.text
    assert len(held.service.server.asked) == MOST_ALIKE


def test_calls_that_fail_in_ever_new_ways_end_with_the_turns(hold):
    held = hold(lambda asked: _read(f"{asked.turn}.py"), turns=9)
    assert held.conversed.outcome is Outcome.OUT_OF_TURNS
    assert len(held.service.server.asked) == 9


def test_a_failure_now_and_then_is_no_loop(hold):
    nearly = [*[_read("b.py")] * (MOST_ALIKE - 1), _read()]
    assert hold(saying(*nearly, *nearly, DONE)).conversed.answer == PLAN


@pytest.mark.parametrize(
    ("kind", "tries", "outcome"),
    [
        ("529", 2, Outcome.UNREACHABLE),
        ("half_stream", 2, Outcome.UNREACHABLE),
        ("malformed_json", 2, Outcome.MALFORMED),
        ("400", 1, Outcome.REFUSED),
    ],
)
def test_a_service_that_fails_ends_a_conversation(hold, stream, kind, tries, outcome):
    held = hold(saying(_read(), *[Fault(kind)] * tries), stream=stream, tries=2)
    assert held.conversed.outcome is outcome
    assert held.conversed.text
    assert len(held.of("reply")) == 1


@pytest.mark.parametrize("limits", [BudgetSection(tokens=4000), BudgetSection(usd=0.02)])
def test_the_budget_is_exceeded_by_one_reply_at_most(hold, stream, limits):
    say = Say("word " * 200, [("read_file", {"path": "a.py"})])
    held = hold(always(say), stream=stream, limits=limits, turns=100)
    assert held.conversed.outcome is Outcome.OUT_OF_BUDGET
    bills = held.service.server.bills
    assert len(held.of("reply")) == len(bills) > 2
    before_the_last = sum(bills[:-1], Usage())
    if limits.usd is None:
        assert before_the_last.tokens < limits.tokens
    else:
        assert held.conversed.cost.usd - held.of("reply")[-1]["cost"]["usd"] < limits.usd


def test_no_reply_is_asked_for_once_the_time_is_up(hold):
    held = hold(saying(), limits=BudgetSection(minutes=1e-9))
    assert held.conversed.outcome is Outcome.OUT_OF_TIME
    assert held.service.server.asked == []


# Faults on the way


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_before_each_reply_changes_nothing_but_the_cost(hold, stream, kind):
    script = saying(*[Fault(kind), _read(), Fault(kind), Say("Hm."), Fault(kind), DONE])
    held = hold(script, stream=stream)
    assert held.conversed.answer == PLAN
    assert [where.path for where in held.files.asked] == ["a.py"]
    assert held.conversed.cost.calls == 6
    assert len(held.of("reply")) == 3


def _anything(draw: random.Random):
    """Return what a model and a service may come up with, good and bad."""
    calls = [
        ("read_file", {"path": "a.py"}),
        ("read_file", {"path": f"{draw.randrange(3)}.py"}),
        ("read_file", {"path": 3, "other": None}),
        ("read_file", '{"path": "\\ud800'),
        ("plan", {"title": "x" * draw.choice([50, 60])}),
        ("nothing", {}),
    ]
    pick = draw.random()
    if pick < 0.35:
        return Fault(draw.choice(FAULTS))
    if pick < 0.4:
        return DONE
    reason = draw.choice([None, None, None, "max_tokens", "pause_turn", "end_turn"])
    picked = draw.sample(calls, draw.randrange(3))
    return Say(draw.choice(["", "Hm.", "\u2028 ß"]), picked, stop_reason=reason)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_it_ends_with_all_of_it_written_down(hold, stream, seed):
    draw = random.Random(seed)
    limits = BudgetSection(tokens=draw.choice([5_000, 60_000, 2_000_000]))
    # What holds for each conversation is checked by `hold`.
    held = hold(lambda asked: _anything(draw), stream=stream, turns=12, tries=4, limits=limits)
    assert len(held.service.server.asked) <= 12 * 4
    before_the_last = sum(held.service.server.bills[:-1], Usage())
    assert before_the_last.tokens < limits.tokens


# Secrets


def test_nothing_that_leaves_us_holds_a_secret(hold):
    files = Files({"a.py": f"key = '{WORD}'"})
    script = saying(_read(), Say(f"I saw {WORD}.", [("plan", PLANNED)]))
    held = hold(script, files=files, first=f"Plan with {WORD}.")
    assert held.told == ["key = 'REDACTED'"]
    assert held.service.server.asked[0].last_text == "Plan with REDACTED."
    assert held.conversed.text == "I saw REDACTED."


def test_long_texts_of_a_model_fit_into_a_step(hold):
    held = hold(saying(Say("word " * 2000, [("plan", PLANNED)])))
    assert len(held.conversed.text) <= MOST_TEXT


def test_each_conversation_begins_afresh(hold):
    first, second = (hold(saying(_read(), DONE)) for _ in range(2))
    assert [asked.turn for asked in second.service.server.asked] == [0, 1]
    assert second.conversed.transcript == "transcripts/002-planner.jsonl"
    assert first.conversed.transcript == "transcripts/001-planner.jsonl"


def test_two_tools_of_one_name_are_a_mistake_of_ours(tmp_path):
    tools = [Tool("plan", "Another.", Where, str)]
    with service(tmp_path, saying()) as one:
        speaker = Speaker(one.client, MODEL, one.purse, Transcripts(tmp_path, []), 5, str)
        with pytest.raises(ValueError, match="two tools of one name"):
            speaker.converse(Role.PLANNER, SYSTEM, "Plan.", tools, ANSWER)
