from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from layers.errors import InvalidInput
from layers.triton.pbtxt import Document, decode, parse

PATH = Path("models/m/config.pbtxt")


def document(text: str) -> Document:
    return parse(text, PATH)


def refusal(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        document(text)
    return str(caught.value)


TYPICAL = """\
# served to everybody
name: "features"   backend: 'python'
max_batch_size: 8 # rows
input [
  {
    name: "a"
    data_type: TYPE_FP32
    dims: [ -1 ]
  },
  { name: "b", data_type: TYPE_STRING, dims: [1,2] }
]
instance_group [ { kind: KIND_CPU } ]
parameters: { key: "k" value: { string_value: "one" # kept
  "two" } };
"""


def test_text_and_message_are_those_of_the_file():
    parsed = document(TYPICAL)
    assert parsed.text == TYPICAL
    assert parsed.message == text_format.Parse(TYPICAL, model_config_pb2.ModelConfig())


def test_a_change_of_the_message_copy_does_not_reach_the_document():
    parsed = document(TYPICAL)
    parsed.message.name = "other"
    assert parsed.get("name") == "features"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "features"),
        ("max_batch_size", 8),
        ("input[1].dims", [1, 2]),
        ("input[1].dims[1]", 2),
        ("input[0].data_type", "TYPE_FP32"),
        ("instance_group[0].kind", "KIND_CPU"),
        ("instance_group[0].count", None),
        ("instance_group[1].count", None),
        ("dynamic_batching", None),
        ("dynamic_batching.max_queue_delay_microseconds", None),
        ('parameters["k"].string_value', "onetwo"),
        ('parameters["absent"].string_value', None),
    ],
)
def test_get_returns_what_the_file_says(path, value):
    assert document(TYPICAL).get(path) == value


def test_get_of_a_block_returns_its_message():
    assert document(TYPICAL).get("instance_group[0]") == model_config_pb2.ModelInstanceGroup(
        kind="KIND_CPU"
    )
    assert list(document(TYPICAL).get("parameters")) == ["k"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("max_batch_size", "3:1"),
        ("input[1]", "10:3"),
        ("input[1].dims[1]", "10:49"),
        ("instance_group[0].count", "12:20"),  # not in the file: what it would follow
        ("dynamic_batching.priority_levels", "13:1"),
    ],
)
def test_location_is_the_line_and_column_of_the_field(path, place):
    assert str(document(TYPICAL).location(path)) == f"{PATH}:{place}"


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("max_batch_size", 16, "max_batch_size: 8 #", "max_batch_size: 16 #"),
        ("backend", "it's", "backend: 'python'", r"backend: 'it\'s'"),
        ("input[1].dims[0]", 7, "[1,2]", "[7,2]"),
        ("input[1].dims[2]", 3, "[1,2]", "[1,2,3]"),
        ("input[1].dims", [5], "[1,2]", "[5]"),
        ("input[1].optional", True, "dims: [1,2] }", "dims: [1,2], optional: true }"),
        ("instance_group[0].count", 2, "kind: KIND_CPU }", "kind: KIND_CPU count: 2 }"),
        ("instance_group[0]", {"count": 3}, "{ kind: KIND_CPU }", "{ count: 3 }"),
        ("instance_group[1].count", 4, "KIND_CPU } ]", "KIND_CPU }, { count: 4 } ]"),
        ('parameters["k"].string_value', "x", '"one" # kept\n  "two"', '"x"'),
    ],
)
def test_set_changes_only_the_value(path, value, old, new):
    assert TYPICAL.count(old) == 1
    assert document(TYPICAL).set(path, value).text == TYPICAL.replace(old, new)


def test_set_of_what_the_file_says_already_returns_the_document_itself():
    parsed = document("max_batch_size: 0x8\n")
    assert parsed.set("max_batch_size", 8) is parsed


def test_set_creates_missing_parents_in_triton_style_where_the_file_has_none():
    edited = (
        document('name: "x"')
        .set("dynamic_batching.max_queue_delay_microseconds", 500)
        .set("instance_group[0].count", 2)
        .set('parameters["threads"].string_value', "1")
    )
    assert edited.text == (
        'name: "x"\n'
        "dynamic_batching {\n  max_queue_delay_microseconds: 500\n}\n"
        "instance_group [\n  {\n    count: 2\n  }\n]\n"
        'parameters {\n  key: "threads"\n  value {\n    string_value: "1"\n  }\n}'
    )


def test_set_creates_missing_parents_in_the_style_of_the_file():
    text = 'input: {\r\n\tname: "a"\r\n\tdims: [1]\r\n}\r\ninput: {\r\n\tname: "b"\r\n}\r\n'
    edited = (
        document(text).set("instance_group[0].count", 2).set("dynamic_batching.priority_levels", 1)
    )
    assert edited.text == text + (
        "instance_group: {\r\n\tcount: 2\r\n}\r\ndynamic_batching: {\r\n\tpriority_levels: 1\r\n}\r\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dynamic_batching { }", "dynamic_batching { priority_levels: 1 }"),
        ("dynamic_batching {}", "dynamic_batching { priority_levels: 1 }"),
        ("dynamic_batching <>", "dynamic_batching < priority_levels: 1 >"),
        ("dynamic_batching {\n}\n", "dynamic_batching {\n  priority_levels: 1\n}\n"),
        (
            "dynamic_batching { # on\n  # more\n}",
            "dynamic_batching { # on\n  priority_levels: 1\n  # more\n}",
        ),
        (
            "dynamic_batching {\n    preserve_ordering: true; # why\n}",
            "dynamic_batching {\n    preserve_ordering: true; # why\n    priority_levels: 1;\n}",
        ),
        ("name: 'x', version_policy { all {} }, # e\n", None),
        ("# only a comment", "# only a comment\ndynamic_batching {\n  priority_levels: 1\n}\n"),
        ("", "dynamic_batching {\n  priority_levels: 1\n}\n"),
    ],
)
def test_set_inserts_a_field_beside_its_neighbours(text, expected):
    if expected is None:
        expected = text.replace("# e", "# e\ndynamic_batching {\n  priority_levels: 1\n},")
    assert document(text).set("dynamic_batching.priority_levels", 1).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input { name: 'a' dims: 1 dims: 2 }", "input { name: 'a' dims: 1 dims: 2 dims: [ 9 ] }"),
        ("input { dims: [1, 2] }", "input { dims: [1, 2, 9] }"),
        ("input { dims: [ ] }", "input { dims: [ 9 ] }"),
        ("input { dims: [\n  1, # one\n  2 # two\n] }", None),
        ("input { }", "input { dims: [ 9 ] }"),
    ],
)
def test_add_appends_in_the_form_that_the_field_has(text, expected):
    if expected is None:
        expected = "input { dims: [\n  1, # one\n  2, # two\n  9\n] }"
    assert document(text).add("input[0].dims", 9).text == expected


def test_add_appends_a_block_after_the_last_of_its_kind():
    text = "output [\n  {\n    name: 'a'\n  }\n]\ninput {\n  name: 'i'\n}\n"
    edited = document(text).add("output", {"name": "b"}).add("input", {"name": "j"})
    assert edited.text == (
        "output [\n  {\n    name: 'a'\n  },\n  {\n    name: \"b\"\n  }\n]\n"
        "input {\n  name: 'i'\n}\ninput {\n  name: \"j\"\n}\n"
    )


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("max_batch_size", "max_batch_size: 8 #", " #"),
        ("backend", "   backend: 'python'", ""),
        ("input[0]", TYPICAL[TYPICAL.index("\n  {\n") : TYPICAL.index("\n  { name")], ""),
        ("input[1]", ',\n  { name: "b", data_type: TYPE_STRING, dims: [1,2] }', ""),
        ("input[1].dims[1]", "[1,2]", "[1]"),
        ("input[1].dims[0]", "[1,2]", "[2]"),
        ("instance_group[0].kind", " kind: KIND_CPU", ""),
        ("instance_group[0]", "\ninstance_group [ { kind: KIND_CPU } ]", ""),
        ('parameters["k"]', TYPICAL[TYPICAL.index("\nparameters") : -1], ""),
        ("dynamic_batching", "", ""),
    ],
)
def test_remove_takes_away_only_the_field(path, old, new):
    assert document(TYPICAL).remove(path).text == TYPICAL.replace(old, new) if old else TYPICAL


def test_remove_of_a_repeated_field_takes_every_occurrence():
    text = "name: 'x'\ninput { name: 'a' }\n# between\ninput { name: 'b' }\nmax_batch_size: 1\n"
    assert document(text).remove("input").text == "name: 'x'\n# between\nmax_batch_size: 1\n"


@pytest.mark.parametrize("path", ["max_batch_size", 'parameters["new"]', "optimization", "runtime"])
def test_remove_undoes_set(path):
    value = {
        "max_batch_size": 4,
        "optimization": {"graph": {"level": 1}},
        "runtime": "python",
    }.get(path, {"string_value": "v"})
    for text in ("name: 'x'", "name: 'x' # c\n", "input [\r\n  {\r\n    name: 'a'\r\n  }\r\n]\r\n"):
        assert document(text).set(path, value).remove(path).text == text


def test_edits_of_the_same_field_follow_each_other():
    edited = document("").set("max_batch_size", 1).set("max_batch_size", 2).set("name", "é\n\x01")
    assert edited.text == 'max_batch_size: 2\nname: "é\\n\\001"\n'
    assert edited.get("name") == "é\n\x01"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("max_batch", 1, f"{PATH}: ModelConfig has no field 'max_batch'"),
        ("max_batch_size", "8", "takes an integer (int32, -2147483648 to 2147483647), not '8'"),
        ("max_batch_size", True, "not True"),
        ("max_batch_size", 2**31, "got '2147483648'"),
        ("dynamic_batching.max_queue_delay_microseconds", -1, "got '-1'"),
        ("instance_group[0].kind", "KIND_TPU", "takes one of KIND_AUTO, KIND_GPU, KIND_CPU"),
        ("instance_group[2].count", 1, "there is no instance_group[2]: the file has 1"),
        ("instance_group.count", 1, "instance_group is repeated: say which"),
        ("instance_group", {"count": 1}, "instance_group takes a list, not {'count': 1}"),
        ("max_batch_size.x", 1, "max_batch_size holds no other fields"),
        ("max_batch_size[0]", 1, "max_batch_size is not repeated"),
        ('input["a"].name', "x", "input is not a map: it has no entry 'a'"),
        ("input[0", "x", "'input[0' is not a path"),
        ("dynamic_batching", 3, "dynamic_batching takes a mapping of fields, not 3"),
        ("dynamic_batching", {"x": 3}, "ModelDynamicBatching has no field 'x'"),
        ("optimization.cuda.graphs", 1, "graphs takes true or false, not 1"),
        ("name", "\ud800", "not valid Unicode"),
    ],
)
def test_set_refuses_what_the_definition_does_not_allow(path, value, message):
    with pytest.raises(InvalidInput) as caught:
        document(TYPICAL).set(path, value)
    assert message in str(caught.value)


def test_set_refuses_a_second_scheduler():
    with pytest.raises(InvalidInput, match="sequence_batching and dynamic_batching exclude"):
        document("dynamic_batching { }").set("sequence_batching.direct", {})


# What people really hand in; each is refused by protobuf's own parser too.
REFUSED = {
    "name: 'x'\nmax_batch_size: ${triton_max_batch_size}": (
        "2:17: unfilled template placeholder ${triton_max_batch_size}\n  hint: this file is a"
    ),
    "max_batch_size: {{ size }}": "1:18: expected the name of a field, got '{'\n  hint: '{{' looks",
    "input [\n {name: 'a'}\n {name: 'b'}\n]": (
        "3:2: expected ',' or ']' in a list, got '{'\n  hint: separate the items of a list by ','"
    ),
    "input [ {name: 'a'}, ]": "1:20: nothing follows this ',' in the list\n  hint: remove the ','",
    "instance_group [{ kind: 'KIND_CPU' }]": (
        "1:25: kind takes one of KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL, got ''KIND_CPU''\n"
        "  hint: remove the quotes"
    ),
    "instance_group [{ kind: KIND_CUP }]": "got 'KIND_CUP'\n  hint: did you mean KIND_CPU?",
    "name: \u201cx\u201d": '1:7: typographic quotation mark \u201c\n  hint: write a plain "',
    "optimization { cuda { graphs: yes } }": "1:31: graphs takes true or false, got 'yes'",
    "dynamic_batching { max_queue_delay_microseconds: 1.5 }": (
        "1:50: max_queue_delay_microseconds takes an integer (uint64, 0 to 18446744073709551615),"
        " got '1.5'"
    ),
    "max_batch_size: 2147483648": "1:17: max_batch_size takes an integer (int32",
    "max_batch_size: -": "1:17: '-' is not a number",
    "max_batch_size: 8x": "1:17: '8x' is not a number",
    "max_batch_size: 08": "1:17: max_batch_size takes an integer",
    "max_batch_size: '8'": "1:17: max_batch_size takes an integer",
    "max_batch_size: [8]": "1:17: max_batch_size takes one value, not a list",
    "max_batch_size: 1\nmax_batch_size: 2": (
        "2:1: max_batch_size is given twice\n  hint: the first is in line 1"
    ),
    "max_batch_size 1": "1:16: expected ':' after max_batch_size, got '1'",
    "max_batch_size = 1": "1:16: unexpected character '='\n  hint: a name and its value",
    "max_batchsize: 1": (
        "1:1: ModelConfig has no field 'max_batchsize'\n  hint: did you mean max_batch_size?"
    ),
    "instance_group { dims: 1 }": "ModelInstanceGroup has no field 'dims'\n  hint: it has: count,",
    "name: x": "1:7: name takes a string in quotes, got 'x'\n  hint: write \"x\"",
    "name: 'x": "1:7: this string is not closed on its line\n  hint: close it with '",
    r"name: '\xff'": "1:",
    "name: { }": "1:7: name takes a string in quotes, not a block",
    "dynamic_batching: 3": "1:19: dynamic_batching takes a block, got '3'",
    "dynamic_batching {": "1:18: this '{' is never closed",
    "input [ { }": "1:7: this '[' is never closed",
    "dynamic_batching { } }": "1:22: expected the name of a field, got '}'\n  hint: there is a '}'",
    "dynamic_batching { >": "1:20: expected the name of a field, got '>'",
    "'name': 'x'": "1:1: expected the name of a field, got ''name''\n  hint: names are not quoted",
    "name:": "1:6: expected a value for name, got the end of the file",
    "// x\nname: 'x'": "1:1: unexpected character '/'\n  hint: a comment starts with #",
    "input { dims [1] }": "1:14: expected ':' after dims",
    "dynamic_batching { } sequence_batching { }": "1:22: sequence_batching and dynamic_batching",
    "name: 'a'\x00": "1:10: unexpected character U+0000",
    "[google.any]: 1": "1:1: expected the name of a field, got '['",
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_text_is_refused_with_place_and_hint(text):
    assert refusal(text).startswith(f"{PATH}:")
    assert REFUSED[text] in refusal(text)
    with pytest.raises((text_format.ParseError, ValueError)):
        text_format.Parse(text, model_config_pb2.ModelConfig())


@pytest.mark.parametrize(
    ("text", "place"), [(r"name: 'a\q'", "1:9: there is no escape \\q"), (r"name: '\777'", "1:8")]
)
def test_an_escape_that_protobuf_reads_in_two_ways_is_refused(text, place):
    assert place in refusal(text)


def test_white_space_that_only_the_python_parser_takes_is_refused():
    expected = f"{PATH}:1:6: unexpected character U+00A0\n  hint: write a plain space"
    assert refusal("name:\u00a0'x'") == expected


def test_a_byte_order_mark_is_refused_as_triton_refuses_it():
    expected = f"{PATH}:1:1: a byte order mark\n  hint: save it without one"
    assert refusal("\ufeffname: 'x'\n").startswith(expected)


def test_deep_and_long_files_are_refused_without_recursion_or_delay():
    assert "nested deeper than 32 levels" in refusal("a {" * 100_000)
    assert "nested deeper than 32 levels" in refusal("a [" + "{a [" * 100_000)
    assert "longer than 1,000,000 characters" in refusal("#" * 1_000_001)


def test_bytes_that_are_not_utf8_are_refused_with_their_place():
    with pytest.raises(InvalidInput) as caught:
        decode(b"name: 'x'\n# caf\xe9\n", PATH)
    assert str(caught.value) == f"{PATH}:2:6: byte 0xe9 is not UTF-8\n  hint: save it as UTF-8"
    assert decode("name: 'é'\r\n".encode(), PATH) == "name: 'é'\r\n"
