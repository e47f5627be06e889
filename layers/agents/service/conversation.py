"""One conversation with a model: from a fresh context, with tools, to an answer or a clear failure.

The answer is a tool too: a model that has one to give calls it. What a tool is given is checked
first, and what is wrong with it is told to the model, which may try again, within bounds. All of it
is in the transcript before anything follows from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from layers.agents.service import broken
from layers.agents.service.budget import OutOfBudget, Purse
from layers.agents.service.messages import MessagesClient, Reply, ServiceFailed
from layers.agents.service.transcripts import Transcript, Transcripts, bounded
from layers.errors import RunStopped
from layers.story import MOST_TEXT, Cost, Outcome, Role

if TYPE_CHECKING:
    from layers.agent_settings import ModelSection

MOST_RESULT = 20_000  # characters of what a tool returns
MOST_CALLS = 32  # of one reply
MOST_MISSES = 3  # replies in a row without any call
MOST_ALIKE = 5  # calls in a row that are the same, and fail
MOST_PROBLEMS = 10  # with one input
_CUT = "max_tokens"

A = TypeVar("A", bound=BaseModel)
_M = TypeVar("_M", bound=BaseModel)


class ToolRefused(Exception):
    """A tool will not do what it was asked; its text goes back to the model."""


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model may call. `run` gets an instance of `parameters`, and returns what is told."""

    name: str
    description: str
    parameters: type[BaseModel]
    run: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class AnswerTool(Generic[A]):
    """What a model calls when it is done; its input is the answer."""

    name: str
    description: str
    model: type[A]


@dataclass(frozen=True, slots=True)
class Conversed(Generic[A]):
    """How a conversation ended: with an answer, or with an outcome that says why there is none."""

    answer: A | None
    outcome: Outcome | None
    text: str  # what the model said last, or what went wrong; redacted, fit for a `Step`
    cost: Cost
    transcript: str


@dataclass(frozen=True, slots=True)
class _End(Generic[A]):
    answer: A | None
    outcome: Outcome | None
    text: str


def _broke(error: Exception) -> _End[Any]:
    return _End(None, Outcome.BROKE, f"it could not go on: {broken.told(error)}")


class Speaker:
    """Holds conversations with one model."""

    def __init__(
        self,
        client: MessagesClient,
        model: ModelSection,
        purse: Purse,
        transcripts: Transcripts,
        turns: int,
        redacted: Callable[[str], str],
    ) -> None:
        """Bound the replies of a conversation by `turns`; `redacted` cleans what leaves us."""
        self._client = client
        self._model = model
        self._purse = purse
        self._transcripts = transcripts
        self._turns = turns
        self._redacted = redacted

    def converse(
        self, role: Role, system: str, first: str, tools: Sequence[Tool], answer: AnswerTool[A]
    ) -> Conversed[A]:
        """Hold one conversation, which `first` opens, and return how it ended.

        Never raises for what the service or the model did, nor for a disk or a tool of ours: what
        broke is how it ended then, with what it had cost. What stops the run passes through.
        """
        mark, name = self._purse.mark(), ""
        end: _End[A]
        try:
            transcript = self._transcripts.begin(role)
            name = transcript.name
            in_time = self._purse.check_time
            talk = _Talk(self._redacted(first), tools, answer, self._redacted, transcript, in_time)
            end = self._held(role, system, talk)
        except RunStopped:
            raise
        except broken.BROKEN as error:
            end = _broke(error)
        return Conversed(end.answer, end.outcome, self._last(end), self._purse.since(mark), name)

    def _held(self, role: Role, system: str, talk: _Talk[A]) -> _End[A]:
        """Hold a conversation that is all told in its transcript, its end among it."""
        begun = {"model": self._model.name, "system": system, "tools": talk.offered}
        talk.note("begun", {**begun, "first": talk.messages[0]["content"]})
        try:
            with self._purse.working():
                end = self._until_the_end(role, system, talk)
        except RunStopped:
            raise
        except broken.BROKEN as error:
            end = _broke(error)
        told = {"outcome": end.outcome, "text": self._last(end), "answer": end.answer}
        talk.note("ended", told)
        return end

    def _last(self, end: _End[Any]) -> str:
        return bounded(self._redacted(end.text), MOST_TEXT)

    def _until_the_end(self, role: Role, system: str, talk: _Talk[A]) -> _End[A]:
        for _ in range(self._turns):
            try:
                reply = self._client.ask(self._model, role, system, talk.messages, talk.offered)
            except (ServiceFailed, OutOfBudget) as failed:
                return _End(None, failed.outcome, failed.text)
            if (end := talk.take(reply)) is not None:
                return end
        return _End(None, Outcome.OUT_OF_TURNS, f"no answer within {self._turns} replies")


class _Talk(Generic[A]):
    """A conversation as it stands."""

    def __init__(
        self,
        first: str,
        tools: Sequence[Tool],
        answer: AnswerTool[A],
        redacted: Callable[[str], str],
        transcript: Transcript,
        in_time: Callable[[], None],  # raises OutOfBudget
    ) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": first}]
        self.offered = [
            *(_offer(tool.name, tool.description, tool.parameters) for tool in tools),
            _offer(answer.name, answer.description, answer.model),
        ]
        self._tools = {tool.name: tool for tool in tools}
        if len({*self._tools, answer.name}) < len(self.offered):
            raise ValueError("two tools of one name")
        self._answer = answer
        self._redacted = redacted
        self._transcript = transcript
        self._in_time = in_time
        self._misses = 0
        self._alike = 0
        self._failing = ""  # the call that failed last, in one line

    def note(self, kind: str, content: object) -> None:
        """Write a piece of it into its transcript."""
        self._transcript.add(kind, content)

    def take(self, reply: Reply) -> _End[A] | None:
        """Take in a reply and carry out what it asks for; returns the end once it is reached."""
        self.note(
            "reply",
            {"content": reply.content, "stop_reason": reply.stop_reason, "cost": reply.cost},
        )
        said = "\n".join(block["text"] for block in reply.content if block["type"] == "text")
        if reply.stop_reason == "refusal":
            return _End(None, Outcome.REFUSED, said or "the model refused, and did not say why")
        if reply.stop_reason == "model_context_window_exceeded":
            text = "the conversation has become longer than the model can read"
            return _End(None, Outcome.OUT_OF_TURNS, text)
        content, problems = _without_cut_call(reply)
        if content:
            self.messages.append({"role": "assistant", "content": content})
        calls = [block for block in content if block["type"] == "tool_use"]
        if calls:
            self._misses = 0
            return self._carry_out(calls, problems, said)
        if content and reply.stop_reason == "pause_turn":
            return None  # what it said so far is sent back, and it goes on
        return self._missed(reply, said)

    def _carry_out(
        self, calls: Sequence[dict[str, Any]], problems: Mapping[str, str], said: str
    ) -> _End[A] | None:
        """Carry out the calls of one reply, in order."""
        results: list[dict[str, Any]] = []
        end: _End[A] | None = None
        for call in calls:
            try:
                if len(results) >= MOST_CALLS:
                    raise ToolRefused(f"not done: {MOST_CALLS} calls in one reply are the most")
                if call["id"] in problems:
                    raise ToolRefused(problems[call["id"]])
                done = self._done(call, failed=any("is_error" in result for result in results))
            except ToolRefused as refused:
                text = self._told(str(refused))
                results.append({**_result(call, text), "is_error": True})
                end = self._failed(call, text)
            except OutOfBudget as over:
                end = _End(None, over.outcome, over.text)
            else:
                self._failing, self._alike = "", 0
                if not isinstance(done, str):
                    end = _End(done, None, said)
                else:
                    results.append(_result(call, self._told(done)))
            if end is not None:
                break
        self.note("results", results)
        self.messages.append({"role": "user", "content": results})
        return end

    def _done(self, call: Mapping[str, Any], *, failed: bool) -> A | str:
        """Return the answer, or what a tool says; raises ToolRefused with what is wrong.

        No tool begins once the time is up: raises OutOfBudget. An answer is taken at any time.
        `failed`: a call before it in the same reply did, which the model has not seen yet.
        """
        if call["name"] == self._answer.name:
            if failed:
                raise ToolRefused("not taken: a call before it, in the same reply, failed")
            return validated(self._answer.model, call["input"])
        tool = self._tools.get(call["name"])
        if tool is None:
            names = ", ".join([*self._tools, self._answer.name])
            raise ToolRefused(f"there is no tool of this name; there are: {names}")
        given = validated(tool.parameters, call["input"])
        self._in_time()
        try:
            return tool.run(given)
        except (OSError, ValueError) as error:
            self.note("broke", {"tool": tool.name, "error": repr(error)})
            raise ToolRefused(f"it could not be done: {type(error).__name__}") from error

    def _failed(self, call: Mapping[str, Any], why: str) -> _End[A] | None:
        """Count a call that failed; the end where it is always the same one."""
        failing = json.dumps([call["name"], call["input"]], sort_keys=True)
        self._alike = self._alike + 1 if failing == self._failing else 1
        self._failing = failing
        if self._alike < MOST_ALIKE:
            return None
        text = f"the same call of {call['name']} failed {self._alike} times in a row: {why}"
        return _End(None, Outcome.MALFORMED, text)

    def _missed(self, reply: Reply, said: str) -> _End[A] | None:
        """Tell the model that it is asked for a call; the end where it was told often enough."""
        self._misses += 1
        if self._misses >= MOST_MISSES:
            text = f"{self._misses} replies in a row without a call of a tool. {said}".rstrip()
            return _End(None, Outcome.MALFORMED, text)
        why = "ended without a call of a tool"
        if reply.stop_reason == _CUT:
            why = "was cut off, because it was too long, before it came to a call of a tool"
        elif not reply.content:
            why = "was empty"
        told = (
            f"Your last reply {why}. Only calls are read: when you are done, give your answer by "
            f"calling `{self._answer.name}`; until then, go on with the other tools."
        )
        self.note("told", told)
        self.messages.append({"role": "user", "content": told})
        return None

    def _told(self, text: str) -> str:
        """Return what a tool says as the model gets it."""
        told = bounded(self._redacted(text), MOST_RESULT)
        return told if told.strip() else "(nothing)"


def validated(model: type[_M], given: Mapping[str, Any]) -> _M:
    """Return the input of a call as its model; ToolRefused says what is wrong, field by field.

    No field may be in it that the model does not know, whatever the model says about that.
    """
    known = set(model.model_fields)
    known |= {field.alias for field in model.model_fields.values() if field.alias}
    problems = [f"{name}: there is no such field" for name in given if name not in known]
    try:
        # As JSON, which has no tuples and no enumerations: a strict model takes them from it.
        found = model.model_validate_json(json.dumps({k: given[k] for k in given if k in known}))
    except ValidationError as error:
        problems += [
            f"{'.'.join(map(str, one['loc'])) or 'all of it'}: {one['msg']}"
            for one in error.errors(include_url=False)
        ]
    else:
        if not problems:
            return found
    listed = "; ".join(problems[:MOST_PROBLEMS])
    raise ToolRefused(f"not done, the input is wrong: {listed}")


def _offer(name: str, description: str, model: type[BaseModel]) -> dict[str, Any]:
    """Return a tool as the Messages API has it."""
    schema = {**model.model_json_schema(), "additionalProperties": False}
    return {"name": name, "description": description, "input_schema": schema}


def _result(call: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text}


def _without_cut_call(reply: Reply) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return what a reply holds, and by the id of a call why it is not carried out.

    Where the reply was cut off inside of a call, nobody knows what is missing of its input.
    """
    content = list(reply.content)
    problems = {number: f"not done: {why}" for number, why in reply.unreadable.items()}
    if content and reply.stop_reason == _CUT and content[-1]["type"] == "tool_use":
        content[-1] = {**content[-1], "input": {}}
        problems[content[-1]["id"]] = (
            "not done: your reply was cut off inside of this call, because it was too long. "
            "Make it shorter: write a long text in several calls, change a file in parts."
        )
    return content, problems
