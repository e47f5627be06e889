"""What a service answers is read strictly, whatever it is."""

import json

import pytest

from layers.agents.service.budget import Usage
from layers.agents.service.replies import (
    BYTES_BESIDE,
    MOST_BLOCKS,
    MOST_COUNT,
    MOST_DEPTH,
    Failed,
    Streamed,
    Whole,
    clean,
)
from layers.story import Outcome

MOST = Usage(input_tokens=5000, output_tokens=1000)
USAGE = {
    "input_tokens": 70,
    "output_tokens": 31,
    "cache_read_input_tokens": 400,
    "cache_creation_input_tokens": 25,
    "service_tier": "standard",
    "cache_creation": {"ephemeral_5m_input_tokens": 25},
}
USED = Usage(input_tokens=70, output_tokens=31, cache_read_tokens=400, cache_write_tokens=25)
CALL = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a/ß.py"}}


def _event(kind, **data):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def _piece_of_input(piece):
    delta = {"type": "input_json_delta", "partial_json": piece}
    return _event("content_block_delta", index=1, delta=delta)


def _stream(given='{"path": "a/\\u00df.py"}', stop_reason="tool_use", ended=USAGE):
    """A text and a call, as a stream; `given` is the input of the call."""
    started = {"message": {"content": [], "usage": {**USAGE, "output_tokens": 1}}}
    call = {**CALL, "input": {}}
    return [
        _event("message_start", **started),
        _event("ping"),
        _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "I re"}),
        _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "ad."}),
        _event("content_block_delta", index=0, delta={"type": "citations_delta", "citation": {}}),
        _event("content_block_stop", index=0),
        _event("content_block_start", index=1, content_block=call),
        *(_piece_of_input(piece) for piece in ("", given[:5], given[5:])),
        _event("content_block_stop", index=1),
        _event("something_new", index=1),
        _event("message_delta", delta={"stop_reason": stop_reason}, usage=ended),
        _event("message_stop"),
    ]


def _streamed(data, size=None):
    reply = Streamed()
    for start in range(0, len(data), size or len(data)):
        reply.feed(data[start : start + (size or len(data))])
    return reply


def _whole(message):
    reply = Whole()
    reply.feed(json.dumps(message).encode())
    return reply.finish()


def _message(*content, **changed):
    message = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": USAGE}
    return message | changed


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, None])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_stream_is_read_whatever_pieces_it_comes_in(size, newline):
    data = b": hello\n\n" + b"".join(_stream())
    read = _streamed(data.replace(b"\n", newline), size).finish()
    assert read.content == [{"type": "text", "text": "I read."}, CALL]
    assert (read.stop_reason, read.usage, read.unreadable) == ("tool_use", USED, {})


def test_a_whole_reply_reads_as_the_same_stream_does():
    read = _whole(_message({"type": "text", "text": "I read.", "citations": None}, CALL))
    assert read == _streamed(b"".join(_stream())).finish()


def test_what_comes_after_the_end_of_a_stream_does_not_matter():
    reply = _streamed(b"".join(_stream()) + b"data: [DONE]\n\n", 10)
    assert reply.done
    assert reply.finish().content[-1] == CALL


def test_a_stream_that_ends_anywhere_before_its_end_is_no_reply():
    data = b"".join(_stream())
    end = data.rindex(b"\n")  # the empty line that ends the last event
    for cut in range(end + 1):
        reply = _streamed(data[:cut]) if cut else Streamed()
        assert not reply.done
        with pytest.raises(Failed) as caught:
            reply.finish()
        assert caught.value.again
        assert caught.value.billed
        charged = reply.at_most(MOST)
        assert charged.tokens >= USED.tokens
        assert charged.output_tokens == MOST.output_tokens
    assert _streamed(data[:cut]).at_most(MOST).tokens_in == USED.tokens_in, "known by then"


def test_where_the_first_event_does_not_count_the_most_is_charged():
    start = _event("message_start", message={"usage": {"input_tokens": 0, "output_tokens": 0}})
    assert _streamed(start).at_most(MOST) == MOST
    assert _streamed(_event("message_start", message={})).at_most(MOST) == MOST
    assert Whole().at_most(MOST) == MOST


def test_counts_of_a_stream_only_grow():
    lower = {"input_tokens": 0, "output_tokens": 31, "cache_read_input_tokens": None}
    assert _streamed(b"".join(_stream(ended=lower))).finish().usage == USED


@pytest.mark.parametrize("ended", [{}, {"output_tokens": None}, {"output_tokens": "many"}])
def test_a_stream_that_does_not_say_what_it_wrote_has_no_usage(ended):
    assert _streamed(b"".join(_stream(ended=ended))).finish().usage is None


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        {"input_tokens": -5, "output_tokens": 3},
        {"input_tokens": 3},
        *(
            {**USAGE, name: number}
            for name in list(USAGE)[:4]
            for number in (MOST_COUNT + 1, 10**308, 10**400, 1e308)
        ),
    ],
)
def test_usage_that_is_none_is_not_believed(usage):
    assert _whole(_message(usage=usage)).usage is None


@pytest.mark.parametrize("number", [MOST_COUNT + 1, 10**308, 10**400])
def test_a_stream_that_counts_what_cannot_be_is_charged_with_the_most(number):
    told = _streamed(b"".join(_stream(ended={"output_tokens": number})))
    assert told.finish().usage is None
    started = _event("message_start", message={"usage": {**USAGE, "input_tokens": number}})
    assert _streamed(started).at_most(MOST) == MOST


# Calls of tools


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('{"path": "a', "is not JSON: Unterminated string"),
        ("{'path': 'a'}", "is not JSON: Expecting property name"),
        ('["a"]', "is not a JSON object"),
        ("null", "is not a JSON object"),
        ('{"path": NaN}', "not finite"),
        ('{"path": 1e999}', "not finite"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 60 + "1" + "}" * 60, "nested too deeply"),
        ('{"a": ' + "1" * 5000 + "}", ""),
    ],
)
def test_the_input_of_a_call_that_cannot_be_read_is_told_and_empty(given, why):
    read = _streamed(b"".join(_stream(given))).finish()
    assert read.content[-1] == {**CALL, "input": {}}
    assert list(read.unreadable) == ["t1"]
    assert why in read.unreadable["t1"]
    assert len(read.unreadable["t1"]) < 300


def test_a_call_without_arguments_has_empty_ones():
    assert _streamed(b"".join(_stream(""))).finish().content[-1] == {**CALL, "input": {}}
    assert not _streamed(b"".join(_stream(""))).finish().unreadable


@pytest.mark.parametrize("given", [None, 7, ["a"], "{"])
def test_a_whole_reply_may_hold_a_broken_input_too(given):
    read = _whole(_message({**CALL, "input": given}))
    assert read.content == [{**CALL, "input": {}}]
    assert list(read.unreadable) == ["t1"]


def test_half_a_character_does_not_come_back_to_the_service():
    read = _streamed(b"".join(_stream('{"path": "\\ud800 \\ud83d\\ude00"}'))).finish()
    assert read.content[-1]["input"] == {"path": "? \U0001f600"}


# What is no reply


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": "text", "stop_reason": "end_turn"},
        {"content": [], "stop_reason": None},
        {"content": ["text"], "stop_reason": "end_turn"},
        {"content": [{"text": "no type"}], "stop_reason": "end_turn"},
        {"content": [{"type": "text"}], "stop_reason": "end_turn"},
        {"content": [{**CALL, "id": ""}], "stop_reason": "tool_use"},
        {"content": [{**CALL, "id": 7}], "stop_reason": "tool_use"},
        {"content": [{**CALL, "name": None}], "stop_reason": "tool_use"},
        {"content": [CALL, CALL], "stop_reason": "tool_use"},
    ],
)
def test_what_is_no_message_is_malformed(message):
    with pytest.raises(Failed) as caught:
        _whole(message)
    assert caught.value.outcome is Outcome.MALFORMED
    assert caught.value.again
    assert caught.value.billed


@pytest.mark.parametrize("body", [b"not JSON", b"[]", b"\xff\xfe", b"{", b"[" * 100_000, b"7"])
def test_what_is_no_json_object_is_malformed(body):
    reply = Whole()
    reply.feed(body)
    with pytest.raises(Failed) as caught:
        reply.finish()
    assert caught.value.outcome is Outcome.MALFORMED


@pytest.mark.parametrize(
    "event",
    [
        b"data: {\n\n",
        b"data: []\n\n",
        b"data: \xff\n\n",
        _event("content_block_start", content_block={"type": "text"}),
        _event("content_block_start", index=[], content_block={"type": "text"}),
        _event("content_block_start", index=0, content_block=None),
        _event("content_block_delta", index=5, delta={"type": "text_delta", "text": "x"}),
        _event("content_block_delta", index=5, delta=7),
        _event("message_delta", usage=USAGE),
    ],
)
def test_an_event_that_is_none_is_malformed(event):
    reply = _streamed(_stream()[0])
    with pytest.raises(Failed) as caught:
        reply.feed(event)
    assert caught.value.outcome is Outcome.MALFORMED


def test_nothing_at_all_is_an_empty_reply():
    for reply in (Whole(), Streamed()):
        with pytest.raises(Failed, match="the reply is empty") as caught:
            reply.finish()
        assert caught.value.outcome is Outcome.UNREACHABLE
        assert caught.value.billed


@pytest.mark.parametrize(
    ("reply", "most"),
    [(Whole(100), BYTES_BESIDE + 6400), (Streamed(100), BYTES_BESIDE + 51_200)],
    ids=["whole", "stream"],
)
def test_a_reply_without_end_is_given_up_by_how_long_it_may_be(reply, most):
    reply.feed(b"x" * most)
    with pytest.raises(Failed, match=f"longer than {most:,} bytes") as caught:
        reply.feed(b"x")
    assert caught.value.outcome is Outcome.MALFORMED


def test_what_the_blocks_of_a_stream_hold_is_bounded_as_that_of_a_whole_reply():
    text = _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    delta = {"type": "text_delta", "text": "ß" * 5000}
    reply = Streamed(100)
    reply.feed(_stream()[0] + text)
    piece = _event("content_block_delta", index=0, delta=delta).replace(b"\\u00df", "ß".encode())
    for _ in range((BYTES_BESIDE + 6400) // 10_000):
        reply.feed(piece)
    with pytest.raises(Failed, match=f"longer than {BYTES_BESIDE + 6400:,} bytes"):
        reply.feed(piece)


def test_a_stream_cannot_begin_one_block_again_and_again():
    block = {"type": "text", "text": "x" * 1000}
    again = _event("content_block_start", index=0, content_block=block)
    reply = Streamed(1000)
    reply.feed(_stream()[0])
    with pytest.raises(Failed, match=f"longer than {BYTES_BESIDE + 64_000:,} bytes"):
        reply.feed(again * 150)


@pytest.mark.parametrize("count", [MOST_BLOCKS, MOST_BLOCKS + 1])
def test_a_reply_has_so_many_blocks_at_most(count):
    blocks = [{"type": "text", "text": "x"}] * count
    stream = [
        _stream()[0],
        *(_event("content_block_start", index=i, content_block=b) for i, b in enumerate(blocks)),
        *_stream()[-2:],
    ]
    for read in (lambda: _whole(_message(*blocks)), lambda: _streamed(b"".join(stream)).finish()):
        if count <= MOST_BLOCKS:
            assert len(read().content) == count
            continue
        with pytest.raises(Failed, match="more than 256 blocks") as caught:
            read()
        assert caught.value.outcome is Outcome.MALFORMED


class Counted(dict):
    """A dictionary that counts how often it is walked over."""

    walked = 0

    def items(self):
        self.walked += 1
        return super().items()


def test_a_block_is_put_together_without_looking_at_those_of_others():
    blocks = [{"type": "text", "text": ""}] * 100
    delta = {"type": "text_delta", "text": "x"}
    reply = _streamed(
        _stream()[0]
        + b"".join(
            _event("content_block_start", index=i, content_block=b)
            + _event("content_block_delta", index=i, delta=delta)
            for i, b in enumerate(blocks)
        )
        + b"".join(_stream()[-2:])
    )
    pieces = reply._pieces = Counted(reply._pieces)
    assert len(reply.finish().content) == 100
    assert pieces.walked == 0


@pytest.mark.parametrize(
    ("kind", "again", "outcome"),
    [
        ("overloaded_error", True, Outcome.UNREACHABLE),
        ("api_error", True, Outcome.UNREACHABLE),
        ("invalid_request_error", False, Outcome.REFUSED),
        ("authentication_error", False, Outcome.UNREACHABLE),
    ],
)
def test_an_error_within_an_answer_is_told(kind, again, outcome):
    error = {"error": {"type": kind, "message": "m" * 5000}}
    with pytest.raises(Failed, match=kind) as whole:
        _whole({"type": "error", **error})
    started = _streamed(_stream()[0])
    with pytest.raises(Failed, match=kind) as streamed:
        started.feed(_event("error", **error))
    for caught in (whole, streamed):
        assert (caught.value.again, caught.value.outcome) == (again, outcome)
        assert len(caught.value.text) < 500
    assert streamed.value.billed
    assert not whole.value.billed


# What a reply may hold


def test_text_without_any_is_left_out_and_other_blocks_stay_as_they_are():
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    other = {"type": "redacted_thinking", "data": "xyz"}
    read = _whole(_message(thinking, {"type": "text", "text": " \n"}, other, CALL))
    assert read.content == [thinking, other, CALL]


def test_thinking_is_put_together_with_its_signature():
    block = {"type": "thinking", "thinking": "", "signature": ""}
    signature = {"type": "signature_delta", "signature": "c2"}
    events = [
        _stream()[0],
        _event("content_block_start", index=0, content_block=block),
        _event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "h"}),
        _event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "m"}),
        _event("content_block_delta", index=0, delta=signature),
        _event("message_delta", delta={"stop_reason": "end_turn"}, usage=USAGE),
        _event("message_stop"),
    ]
    read = _streamed(b"".join(events)).finish()
    assert read.content == [{"type": "thinking", "thinking": "hm", "signature": "c2"}]


def test_clean_keeps_plain_data_and_refuses_the_rest():
    plain = {"a": [1, 2.5, None, True, "ß"], "b": {}}
    assert clean(plain) == plain
    assert clean(("a", "\udc80")) == ["a", "?"]
    deep = 1
    for _ in range(MOST_DEPTH):
        deep = [deep]
    assert clean(deep) == deep
    with pytest.raises(ValueError, match="nested"):
        clean([deep])
    with pytest.raises(ValueError, match="finite"):
        clean({"a": [float("inf")]})
