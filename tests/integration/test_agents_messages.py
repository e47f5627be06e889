"""Asking a real server that speaks the Messages API, and breaks."""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from layers.agent_settings import AnthropicSection, BudgetSection
from layers.agents.service.budget import FEWEST_TOKENS, OutOfBudget, Purse, Usage
from layers.agents.service.messages import MessagesClient, ServiceFailed
from layers.agents.service.wire import MOST_WAIT_S
from layers.errors import InvalidInput, Missing
from layers.story import Cost, Outcome, Role
from tests.agents_service import KEY, LEDGER, MODEL, PRICES, Service, always, saying, service
from tests.messages_server import UNSEEN, Fault, MessagesServer, Say

ROOT = Path(__file__).parents[2]
TOOLS = [
    {"name": name, "description": f"Does {name}.", "input_schema": {"type": "object"}}
    for name in ("read_file", "submit")
]
REFUSING = ("429", "529", "500")  # nothing is billed
SYSTEM = "You are asked by a test."
FIRST = [{"role": "user", "content": "Look at the ß in a.py."}]


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request):
    return request.param


def _ask(one: Service, messages=FIRST, tools=TOOLS):
    return one.client.ask(MODEL, Role.PLANNER, SYSTEM, messages, tools)


def _failing(one: Service, messages=FIRST) -> ServiceFailed:
    with pytest.raises(ServiceFailed) as caught:
        _ask(one, messages)
    return caught.value


def _until_stopped(one: Service) -> OutOfBudget:
    for _ in range(100):
        try:
            _ask(one)
        except OutOfBudget as stopped:
            return stopped
    raise AssertionError("nothing stopped it")


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _spent(one: Service) -> Usage:
    cost = one.purse.spent
    return Usage(
        cost.input_tokens, cost.output_tokens, cost.cache_read_tokens, cost.cache_write_tokens
    )


# Replies


def test_a_reply_with_text_and_calls_arrives_whole_and_is_charged_as_billed(tmp_path, stream):
    said = Say("I look, twice.", [("read_file", {"path": "ß.py", "n": [1, None]}), ("submit", {})])
    with service(tmp_path, saying(said), stream=stream) as one:
        reply = _ask(one)
    text, read, submit = reply.content
    assert text == {"type": "text", "text": "I look, twice."}
    assert (read["name"], read["input"]) == ("read_file", {"path": "ß.py", "n": [1, None]})
    assert (submit["name"], submit["input"]) == ("submit", {})
    assert read["id"] != submit["id"]
    assert (reply.stop_reason, reply.unreadable) == ("tool_use", {})
    assert _spent(one) == one.server.billed
    assert one.server.billed.tokens > 50
    assert reply.cost == one.purse.spent
    assert reply.cost.calls == 1
    assert Purse(tmp_path / LEDGER, BudgetSection()).spent == one.purse.spent


def test_the_request_is_as_the_service_has_it(tmp_path, stream):
    to, see = ({"type": "text", "text": text} for text in ("To", "see."))
    messages = [
        *FIRST,
        {"role": "assistant", "content": [{"type": "text", "text": "What for?"}]},
        {"role": "user", "content": [to, see]},
    ]
    before = json.dumps([messages, TOOLS])
    with service(tmp_path, saying(Say("ok")), stream=stream) as one:
        _ask(one, messages)
    (asked,) = one.server.asked
    kept = {"cache_control": {"type": "ephemeral"}}
    assert asked.body == {
        "model": "scripted",
        "max_tokens": 1000,
        "stream": stream,
        "system": [{"type": "text", "text": SYSTEM, **kept}],
        "messages": [*messages[:2], {"role": "user", "content": [to, {**see, **kept}]}],
        "tools": [TOOLS[0], {**TOOLS[1], **kept}],
    }
    assert asked.headers["x-api-key"] == KEY
    assert "anthropic-version" in asked.headers
    assert json.dumps([messages, TOOLS]) == before, "what was passed in stays as it is"


def test_neither_tools_nor_a_system_prompt_are_needed(tmp_path):
    with service(tmp_path, saying(Say("ok"))) as one:
        one.client.ask(MODEL, Role.PLANNER, "", FIRST, [])
    assert set(one.server.asked[0].body) == {"model", "max_tokens", "stream", "messages"}


def test_what_was_read_once_is_read_from_the_cache(tmp_path, stream):
    with service(tmp_path, saying(Say("What for?"), Say("I see.")), stream=stream) as one:
        first = _ask(one)
        said = [*FIRST, {"role": "assistant", "content": first.content}]
        second = _ask(one, [*said, {"role": "user", "content": "To see."}])
    assert first.cost.cache_read_tokens == 0
    assert second.cost.cache_read_tokens == first.cost.cache_write_tokens > 0
    assert _spent(one) == one.server.billed


def test_a_reply_of_thinking_can_be_sent_back(tmp_path, stream):
    thinking = {"type": "thinking", "thinking": "It is about the ß.", "signature": "c2lnbmF0dXJl"}
    with service(tmp_path, saying(Say("Yes.", blocks=[thinking]), Say("ok")), stream=stream) as one:
        reply = _ask(one)
        said = [*FIRST, {"role": "assistant", "content": reply.content}, *FIRST]
        _ask(one, said)
    assert reply.content == [thinking, {"type": "text", "text": "Yes."}]
    assert one.server.asked[1].body["messages"][1]["content"] == reply.content


def test_an_input_that_is_not_json_is_told_and_can_be_sent_back(tmp_path, stream):
    broken = Say("", [("read_file", '{"path": "a.py"'), ("submit", {})])
    with service(tmp_path, saying(broken, Say("ok")), stream=stream) as one:
        reply = _ask(one)
        ids = [block["id"] for block in reply.content]
        results = [
            {"type": "tool_result", "tool_use_id": number, "content": "no"} for number in ids
        ]
        said = {"role": "assistant", "content": reply.content}
        _ask(one, [*FIRST, said, {"role": "user", "content": results}])
    assert [block["input"] for block in reply.content] == [{}, {}]
    assert list(reply.unreadable) == ids[:1]
    assert _spent(one) == one.server.billed


def test_half_a_character_reaches_nobody(tmp_path):
    said = Say("", [("read_file", '{"path": "\\ud800.py"}')])
    with service(tmp_path, saying(said, Say("ok"))) as one:
        content = _ask(one).content
        result = {"type": "tool_result", "tool_use_id": content[0]["id"], "content": "\udcff"}
        assistant = {"role": "assistant", "content": content}
        _ask(one, [*FIRST, assistant, {"role": "user", "content": [result]}])
    sent = one.server.asked[1].body["messages"]
    assert sent[1]["content"][0]["input"] == {"path": "?.py"}
    assert sent[2]["content"][0]["content"] == "?"


# What breaks


@pytest.mark.parametrize("kind", [*REFUSING, "504", "error_event", *UNSEEN])
def test_after_a_fault_the_same_is_asked_again(tmp_path, stream, kind):
    timeout_s = 0.5 if kind in ("timeout", "drip") else 30.0
    script = saying(Fault(kind), Say("Now."))
    with service(tmp_path, script, stream=stream, timeout_s=timeout_s) as one:
        reply = _ask(one)
    assert reply.content == [{"type": "text", "text": "Now."}]
    first, second = one.server.asked
    assert first.body == second.body
    assert len(one.slept) == 1
    assert one.purse.spent.calls == 2
    assert reply.cost == one.purse.spent, "with what nobody saw"
    assert one.purse.spent.tokens >= one.server.billed.tokens
    assert one.purse.spent.output_tokens >= one.server.billed.output_tokens
    if kind in REFUSING:
        assert _spent(one) == one.server.billed


@pytest.mark.parametrize("kind", [*REFUSING, "504", "error_event", *UNSEEN])
def test_what_never_works_ends_in_a_clear_failure(tmp_path, stream, kind):
    timeout_s = 0.5 if kind in ("timeout", "drip") else 30.0
    script = always(Fault(kind))
    with service(tmp_path, script, stream=stream, timeout_s=timeout_s, tries=3) as one:
        failed = _failing(one)
    malformed = kind == "malformed_json"
    assert failed.outcome is (Outcome.MALFORMED if malformed else Outcome.UNREACHABLE)
    assert failed.text
    assert len(one.server.asked) == 3
    assert len(one.slept) == 2
    assert one.purse.spent.tokens >= one.server.billed.tokens
    assert one.purse.spent.calls == 3
    assert Purse(tmp_path / LEDGER, BudgetSection()).spent == one.purse.spent


def test_half_a_stream_is_charged_with_what_the_service_said_it_read(tmp_path):
    with service(tmp_path, saying(Fault("half_stream"), Say("ok"))) as one:
        _ask(one)
    unseen, seen = one.server.bills
    assert _spent(one) == Usage(
        unseen.input_tokens + seen.input_tokens,
        MODEL.max_tokens + seen.output_tokens,
        unseen.cache_read_tokens + seen.cache_read_tokens,
        unseen.cache_write_tokens + seen.cache_write_tokens,
    )


@pytest.mark.parametrize(
    ("kind", "outcome"), [("401", Outcome.UNREACHABLE), ("400", Outcome.REFUSED)]
)
def test_what_no_second_try_mends_is_not_tried_again(tmp_path, stream, kind, outcome):
    with service(tmp_path, saying(Fault(kind)), stream=stream) as one:
        failed = _failing(one)
    assert failed.outcome is outcome
    assert f" {kind}: " in failed.text
    assert len(one.server.asked) == 1
    assert one.purse.spent.tokens == 0


def test_a_request_that_the_service_objects_to_is_refused(tmp_path):
    with service(tmp_path, saying()) as one:
        failed = _failing(one, [{"role": "assistant", "content": "me first"}])
    assert failed.outcome is Outcome.REFUSED
    assert "the first is not the user's" in failed.text


def test_where_nobody_listens_nothing_is_charged(tmp_path):
    with service(tmp_path, saying()) as one:
        pass
    failed = _failing(one)
    assert failed.outcome is Outcome.UNREACHABLE
    assert one.purse.spent.tokens == 0
    assert len(one.slept) == 2


# How long to wait


@pytest.mark.parametrize(
    ("asked_for", "waits"),
    [("7", 7.0), ("0.25", 0.25), ("0", 0.0), ("3600", MOST_WAIT_S), ("-5", 0.0)],
)
def test_what_the_service_asks_for_is_waited_within_bounds(tmp_path, stream, asked_for, waits):
    script = saying(Fault("429", asked_for), Fault("529", asked_for), Say("ok"))
    with service(tmp_path, script, stream=stream) as one:
        _ask(one)
    assert one.slept == [waits, waits]


def test_a_date_to_wait_for_is_understood(tmp_path):
    then = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    with service(tmp_path, saying(Fault("429", then), Fault("429", past), Say("ok"))) as one:
        _ask(one)
    assert one.slept == [MOST_WAIT_S, 0.0]


@pytest.mark.parametrize("asked_for", [None, "soon", "nan", "1e999", ""])
def test_otherwise_each_wait_is_longer_than_the_one_before(tmp_path, asked_for):
    script = saying(*[Fault("529", asked_for)] * 3, Say("ok"))
    with service(tmp_path, script, tries=4) as one:
        _ask(one)
    first, second, third = one.slept
    assert 0.5 <= first <= 1.0 <= second <= 1.5
    assert 2.0 <= third <= 2.5


# The budget


@pytest.mark.parametrize("limits", [BudgetSection(tokens=3000), BudgetSection(usd=0.02)])
def test_the_budget_is_exceeded_by_one_reply_at_most(tmp_path, stream, limits):
    say = Say("word " * 300)
    with service(tmp_path, always(say), stream=stream, limits=limits) as one:
        stopped = _until_stopped(one)
    assert stopped.outcome is Outcome.OUT_OF_BUDGET
    assert _spent(one) == one.server.billed
    before_the_last = sum(one.server.bills[:-1], Usage())
    assert len(one.server.bills) > 2
    if limits.usd is None:
        assert before_the_last.tokens < limits.tokens
    else:
        assert _usd(before_the_last) < limits.usd
    longest = [asked.body["max_tokens"] for asked in one.server.asked]
    assert longest[0] == 1000
    assert longest == sorted(longest, reverse=True)
    assert longest[-1] < 1000
    assert longest[-1] >= FEWEST_TOKENS


@pytest.mark.parametrize("kind", [kind for kind in UNSEEN if kind not in ("timeout", "drip")])
def test_tries_that_break_are_bounded_by_the_budget_too(tmp_path, stream, kind):
    limits = BudgetSection(tokens=5000)
    script = always(Fault(kind))
    with service(tmp_path, script, stream=stream, limits=limits, tries=10) as one:
        _until_stopped(one)
    assert 1 < len(one.server.bills) < 10
    assert sum(one.server.bills[:-1], Usage()).tokens < limits.tokens
    assert one.purse.spent.tokens >= one.server.billed.tokens


def test_a_spent_budget_asks_nobody(tmp_path):
    with service(tmp_path, saying(), limits=BudgetSection(tokens=1000)) as one:
        one.purse.charge(Role.PLANNER, Usage(input_tokens=1000), PRICES, 0.0)
        _until_stopped(one)
    assert one.server.asked == []


def test_a_model_without_prices_costs_tokens_alone(tmp_path):
    free = MODEL.model_copy(update={"prices": None})
    with service(tmp_path, saying(Say("ok"))) as one:
        reply = one.client.ask(free, Role.JUDGE, SYSTEM, FIRST, [])
    assert reply.cost.usd is None
    assert reply.cost.tokens == one.server.billed.tokens


_ASKING = """
import sys
from pathlib import Path
from layers.agents.service.budget import Purse
from layers.agents.service.messages import MessagesClient
from layers.agent_settings import AnthropicSection, BudgetSection
from layers.story import Role
from tests.agents_service import KEY, MODEL
section = AnthropicSection(model=MODEL, base_url=sys.argv[1])
purse = Purse(Path(sys.argv[2]), BudgetSection())
client = MessagesClient(section, KEY, purse)
for _ in range(2):
    client.ask(MODEL, Role.PLANNER, "", [{"role": "user", "content": "hello"}], [])
"""


def test_a_process_that_is_killed_within_a_call_has_it_in_its_ledger(tmp_path):
    ledger = tmp_path / LEDGER
    with MessagesServer(saying(Say("Hello."), Fault("timeout"))) as server:
        asking = subprocess.Popen(
            [sys.executable, "-c", _ASKING, server.url, str(ledger)], cwd=ROOT
        )
        try:
            server.wait_for(2)
        finally:
            asking.kill()
            asking.wait()
    assert asking.returncode == -signal.SIGKILL
    spent = Purse(ledger, BudgetSection()).spent
    assert spent.calls == 2
    assert spent.tokens >= server.billed.tokens
    assert spent.output_tokens == server.billed.output_tokens, "the second with all it may write"
    assert Purse(ledger, BudgetSection()).spent == spent


# The key


@pytest.mark.parametrize("kind", ["401", "400", "429", "500"])
def test_the_key_is_in_no_error_whatever_the_service_says(tmp_path, stream, kind):
    with service(tmp_path, always(Fault(kind)), stream=stream) as one:
        error = _failing(one)
    assert "REDACTED" in error.text
    assert KEY not in f"{error!r} {error.text} {one.client!r}"
    assert error.__context__ is None
    assert error.__cause__ is None
    assert KEY not in (tmp_path / LEDGER).read_text()


def test_the_key_goes_to_no_other_address(tmp_path, stream):
    with MessagesServer(always(Say("Give me your key."))) as elsewhere:
        script = saying(Fault("redirect", f"{elsewhere.url}/v1/messages"))
        with service(tmp_path, script, stream=stream) as one:
            failed = _failing(one)
    assert elsewhere.asked == []
    assert "307" in failed.text
    assert failed.outcome is Outcome.UNREACHABLE


def test_no_credential_or_address_of_the_environment_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-somebody-else-12345")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-somebody-else")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with service(tmp_path, saying(Say("ok"))) as one:
        _ask(one)
    headers = one.server.asked[0].headers
    assert headers["x-api-key"] == KEY
    assert "authorization" not in headers
    assert "somebody" not in json.dumps(headers)


@pytest.mark.parametrize("key", ["", "  \n"])
def test_without_a_key_it_is_said_which_variable_is_missing(tmp_path, key):
    section = AnthropicSection(model=MODEL, api_key_from="MY_KEY")
    with pytest.raises(Missing, match=r"\$MY_KEY is not set"):
        MessagesClient(section, key, Purse(tmp_path / LEDGER, BudgetSection()))


@pytest.mark.parametrize("key", ["two words-12345", "line\nbreak-12345", "naïve-12345"])
def test_what_is_no_key_is_not_sent_and_not_shown(tmp_path, key):
    section = AnthropicSection(model=MODEL)
    with pytest.raises(InvalidInput, match="is not a key") as caught:
        MessagesClient(section, key, Purse(tmp_path / LEDGER, BudgetSection()))
    assert "12345" not in str(caught.value)


def test_a_line_break_at_the_end_of_a_key_is_not_of_it(tmp_path):
    with service(tmp_path, saying(Say("ok"))) as one:
        section = AnthropicSection(model=MODEL, base_url=one.server.url)
        client = MessagesClient(section, f"{KEY}\n", one.purse)
        client.ask(MODEL, Role.PLANNER, "", FIRST, [])
    assert one.server.asked[0].headers["x-api-key"] == KEY


def test_nothing_is_left_open_whoever_stops_asking(tmp_path, stream):
    before = _open_files()
    script = saying(Say("ok"), Fault("half_stream"), Fault("disconnect"), Say("ok"))
    with service(tmp_path, script, stream=stream) as one:
        listening = _open_files()
        _ask(one)
        _ask(one)
    assert listening > before
    assert _open_files() == before


def _usd(usage: Usage) -> float:
    return (
        usage.input_tokens * PRICES.input
        + usage.output_tokens * PRICES.output
        + usage.cache_read_tokens * PRICES.cache_read
        + usage.cache_write_tokens * PRICES.cache_write
    ) / 1e6


def test_costs_add_up_over_a_run(tmp_path, stream):
    with service(tmp_path, always(Say("ok")), stream=stream) as one:
        costs = [_ask(one).cost for _ in range(3)]
    assert sum(costs, Cost(usd=0.0)) == one.purse.spent
    assert one.purse.spent.usd == pytest.approx(_usd(one.server.billed))
