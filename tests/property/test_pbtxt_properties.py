"""Edits over real files, and random edits and damage; protobuf's own parser is the referee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from layers.errors import InvalidInput
from layers.triton.pbtxt import Document, decode, parse

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "config_pbtxt"
FILES = sorted(CORPUS.glob("*.pbtxt"))
needs_corpus = pytest.mark.skipif(
    not FILES, reason="the collection of real config.pbtxt files is not beside this checkout"
)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [parse(decode(file.read_bytes(), file), Path(file.name)) for file in FILES]


def reference(text: str):
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def middle(old: str, new: str) -> tuple[str, str]:
    """Return what differs once the common beginning and end are taken off."""
    shorter = min(len(old), len(new))
    begin = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - begin
    end = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    return old[begin : len(old) - end], new[begin : len(new) - end]


def attempt(action: Callable[[], Document]) -> Document | InvalidInput:
    try:
        return action()
    except InvalidInput as error:
        return error


@needs_corpus
def test_every_real_file_parses_as_protobuf_parses_it():
    refused: Counter[str] = (
        Counter()
    )  # reason: files; empty, all 443 are valid for this tritonclient
    for file in FILES:
        text = decode(file.read_bytes(), file)
        document = attempt(lambda text=text, file=file: parse(text, file))
        if isinstance(document, InvalidInput):
            assert document.at is not None
            assert None not in (document.at.line, document.at.column)
            refused[document.message.split(": ", 1)[1]] += 1
        else:
            assert (document.text, document.message) == (text, reference(text))
    assert refused == {}


def _max_batch_size(message) -> None:
    message.max_batch_size = 77


def _count(message) -> None:
    group = message.instance_group[0] if message.instance_group else message.instance_group.add()
    group.count = 77


def _delay(message) -> None:
    message.dynamic_batching.max_queue_delay_microseconds = 77


def _parameter(message) -> None:
    message.parameters["fvec threads"].string_value = "77"


def _policy(message) -> None:
    message.dynamic_batching.default_queue_policy.timeout_action = 1


def _name(message) -> None:
    message.name = "o'ther"


def _first_input(message) -> None:
    (message.input[0] if message.input else message.input.add()).optional = True


def _version(message) -> None:
    message.version_policy.latest.num_versions = 77


# path, value, the same edit through protobuf
SETS = [
    ("max_batch_size", 77, _max_batch_size),
    ("instance_group[0].count", 77, _count),
    ("dynamic_batching.max_queue_delay_microseconds", 77, _delay),
    ('parameters["fvec threads"].string_value', "77", _parameter),
    ("dynamic_batching.default_queue_policy.timeout_action", "DELAY", _policy),
    ("name", "o'ther", _name),
    ("input[0].optional", True, _first_input),
    ("version_policy.latest.num_versions", 77, _version),
]


@needs_corpus
@pytest.mark.parametrize(("path", "value", "change"), SETS, ids=[s[0] for s in SETS])
def test_set_on_real_files_changes_only_what_was_asked(documents, path, value, change):
    exclusive = 0
    for document in documents:
        edited = attempt(lambda document=document: document.set(path, value))
        if isinstance(edited, InvalidInput):  # another member of the oneof is in the file
            assert "exclude each other" in str(edited)
            exclusive += 1
            continue
        expected = document.message
        change(expected)
        assert edited.message == expected, document.path
        assert edited.get(path) == value
        taken, put = middle(document.text, edited.text)
        if document.get(path) is None:
            assert taken == "", document.path  # only inserted
            assert put
        else:  # only the value
            assert not set(taken + put) & set("{}[]#:\n"), document.path
    assert exclusive < len(documents) / 2


@needs_corpus
def test_adding_and_removing_a_field_gives_back_the_bytes_of_real_files(documents):
    tried = Counter()
    for number, document in enumerate(documents):
        path, value = [
            ("runtime", "python"),
            ("response_cache", {"enable": True}),
            ('parameters["fvec"]', {"string_value": "x"}),
            ("model_operations.op_library_filename", ["a", "b"]),
        ][number % 4]
        top = path.split(".", maxsplit=1)[0]
        if document.get(top) is None:
            added = document.set(path, value)
            assert added.remove(top).text == document.text, document.path
            tried[top] += 1
    assert min(tried.values()) > len(documents) / 5


@needs_corpus
def test_adding_and_removing_an_item_gives_back_the_bytes_of_real_files(documents):
    kinds = [("output", {"name": "fvec", "dims": [1]}), ("input[0].dims", 9)]
    for number, document in enumerate(documents):
        path, item = kinds[number % 2]
        items = document.get(path)
        if items:
            added = document.add(path, item)
            assert middle(document.text, added.text)[0] == "", document.path
            assert added.remove(f"{path}[{len(items)}]").text == document.text, document.path


@needs_corpus
@pytest.mark.parametrize("path", ["max_batch_size", "instance_group", "input[0]"])
def test_remove_on_real_files_only_takes_away(documents, path):
    for document in documents:
        edited = document.remove(path)
        expected = document.message
        if path == "input[0]":
            del expected.input[:1]
        else:
            expected.ClearField(path)
        assert edited.message == expected, document.path
        head = [line for line in document.text.splitlines() if line.startswith("#")]
        assert [line for line in edited.text.splitlines() if line.startswith("#")] == head


GAPS = st.sampled_from(["", " ", "\n", "\r\n", "\t", "  # a comment {[,\n", "\n\n"])
SEPARATORS = st.sampled_from(["", "", ",", ";"])


@st.composite
def fields(draw, names: dict[str, st.SearchStrategy[str]], depth: int = 0) -> str:
    """Return some of the named fields, each once, in some order and lay-out."""
    written = []
    for name in draw(st.permutations(list(names))):
        if draw(st.booleans()):
            gap, value = draw(GAPS), draw(names[name])
            colon = "" if value[0] in "{<" and draw(st.booleans()) else ":"
            written.append(f"{name}{gap}{colon}{draw(GAPS)}{value}{draw(GAPS)}{draw(SEPARATORS)}")
    return draw(GAPS) + "".join(f"{field} {draw(GAPS)}" for field in written)


@st.composite
def blocks(draw, names: dict[str, st.SearchStrategy[str]]) -> str:
    opener, closer = draw(st.sampled_from(["{}", "<>"]))
    return f"{opener}{draw(fields(names))}{closer}"


def lists(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(st.lists(items, max_size=3), GAPS, GAPS).map(
        lambda t: f"[{t[1]}{(t[1] + ',' + t[2]).join(t[0])}{t[2]}]"
    )


INTEGERS = st.sampled_from(["0", "1", "17", "0x1F", "017"])
STRINGS = st.sampled_from(["'a'", '"b"', "\"it's\" # c\n 'x'", '"\\303\\251"', "''"])
BOOLS = st.sampled_from(["true", "false", "t", "1"])
TENSORS = blocks(
    {"name": STRINGS, "data_type": st.sampled_from(["TYPE_FP32", "11"]), "dims": lists(INTEGERS)}
)
GROUPS = blocks({"count": INTEGERS, "kind": st.sampled_from(["KIND_CPU", "2"])})
POLICY = blocks({"max_queue_size": INTEGERS, "timeout_action": st.just("REJECT")})
BATCHING = blocks(
    {
        "preferred_batch_size": lists(INTEGERS),
        "max_queue_delay_microseconds": INTEGERS,
        "preserve_ordering": BOOLS,
        "default_queue_policy": POLICY,
    }
)
ENTRIES = blocks({"value": blocks({"string_value": STRINGS})}).map(
    lambda e: f"{e[0]}key:'k' {e[1:]}"
)
CONFIGS = fields(
    {
        "name": STRINGS,
        "max_batch_size": INTEGERS,
        "input": lists(TENSORS) | TENSORS,
        "instance_group": lists(GROUPS) | GROUPS,
        "dynamic_batching": BATCHING,
        "parameters": ENTRIES | lists(ENTRIES),
    }
)
EDITS = st.sampled_from(
    [
        *[(path, value, change) for path, value, change in SETS],
        (
            'parameters["k"].string_value',
            "v",
            lambda m: m.parameters["k"].__setattr__("string_value", "v"),
        ),
    ]
)


@settings(max_examples=100, deadline=None)
@given(CONFIGS, st.lists(EDITS, min_size=1, max_size=4))
def test_random_edits_do_what_protobuf_does(text, edits):
    document = parse(text, Path("config.pbtxt"))
    expected = reference(text)
    assert document.message == expected
    for path, value, change in edits:
        document = document.set(path, value)
        change(expected)
        assert document.message == expected
    for path, _, _ in edits:
        document = document.remove(path)
        assert document.get(path) is None


@settings(max_examples=100, deadline=None)
@given(CONFIGS)
def test_comments_survive_edits_outside_of_their_field(text):
    document = parse("# head\n" + text + "\n# foot\n", Path("config.pbtxt"))
    edited = document.set("max_batch_size", 77).set("runtime", "x").remove("max_batch_size")
    assert edited.text.startswith("# head\n")
    assert "# foot\n" in edited.text


@settings(max_examples=200, deadline=None)
@given(CONFIGS, st.data())
def test_damaged_text_is_refused_with_a_place_or_read_as_protobuf_reads_it(text, data):
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 3))
    put = data.draw(st.sampled_from([*"{}[]<>:,;#\"'\n -.0x$é", "nan", "\\", "KIND_CPU", "1.5"]))
    damaged = text[:at] + put + text[at + cut :]
    document = attempt(lambda: parse(damaged, Path("config.pbtxt")))
    if isinstance(document, InvalidInput):
        assert document.at is not None
        assert document.at.line is not None
    else:
        assert document.message == reference(damaged)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    document = attempt(lambda: parse(text, Path("config.pbtxt")))
    assert isinstance(document, InvalidInput) or document.text == text
