"""`fvec init` on repositories that hold anything: a valid manifest and script, or a refusal."""

import ast
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge import yamlfile
from layers.errors import InvalidInput
from layers.manifest import Manifest
from layers.scaffold import manifest, plan
from layers.scaffold.entry import Certainty, Choice
from tests.init_repositories import model, put

TYPES = ["BOOL", "UINT8", "INT8", "INT32", "INT64", "FP16", "FP32", "BF16", "STRING"]
NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["text", "x_len", "x", "input_ids", "a_b", "a_c", "b_d", "b_e"]
)
DIMS = st.lists(st.sampled_from([-1, 1, 3, 4]), min_size=1, max_size=3)


def quoted(text: str) -> str:
    """Return a string as the text format of protobuf writes it."""
    return '"' + "".join(f"\\{byte:03o}" for byte in text.encode()) + '"'


@st.composite
def configs(draw: st.DrawFn) -> str:
    inputs = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=5, unique=True)):
        dims = draw(DIMS)
        kind = draw(st.sampled_from(TYPES))
        optional = draw(st.sampled_from(["", "optional: true", "allow_ragged_batch: true"]))
        inputs.append(f"{{ name: {quoted(name)} data_type: TYPE_{kind} dims: {dims} {optional} }}")
    batch = draw(st.sampled_from([0, 1, 8]))
    return f'backend: "python" max_batch_size: {batch} input [ {", ".join(inputs)} ]'


def planned(text: str, code: str = "") -> plan.Plan | None:
    """Return the plan of a repository of one model; None where it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return plan.make(put(Path(folder), model("m", text, code=code)))
        except InvalidInput:
            return None


@settings(max_examples=40, deadline=None)
@given(configs())
def test_any_readable_configuration_gets_a_valid_manifest_and_script(text):
    made = planned(text)
    if made is None:
        return  # too large, which the message says
    yamlfile.loads(made.files[".github/fvec.yml"], Path("fvec.yml"), Manifest)
    ast.parse(made.files["traffic/synthetic.py"])
    assert {guess.certainty for guess in made.guesses} <= set(Certainty)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_any_text_as_configuration_and_code_is_read_or_refused(text):
    planned(text, code=text)


@given(st.text(min_size=1, max_size=40))
def test_any_string_is_read_back_from_the_manifest(text):
    if any("\ud800" <= character <= "\udfff" for character in text):
        return
    read = yamlfile.loads(f"x: {manifest.scalar(text)}\n", Path("x.yml"), dict[str, str])
    assert read == {"x": text}


@given(st.text(max_size=60))
def test_no_reason_can_leave_its_comment(why):
    choice = Choice("m", Certainty.GUESS, why)
    facts = manifest.Facts(
        name=choice,
        models=choice,
        entry=choice,
        load=[choice, Choice("n", Certainty.LIKELY, why)],
        requirements=Choice("", Certainty.UNKNOWN, why),
        owner=choice,
        traffic="traffic",
        script="traffic/synthetic.py",
        script_inputs=[],
        slow_start=why,
        foreign=[why],
        python=True,
    )
    read = yamlfile.loads(manifest.text(facts), Path("fvec.yml"), Manifest)
    assert (read.stack.entry, read.stack.requirements, read.server.address) == ("m", None, None)
    assert read.stack.load == ["m", "n"]


@pytest.mark.parametrize("depth", [100, 20_000])
def test_deep_json_and_python_are_skipped(tmp_path, depth):
    text = 'backend: "python" input [ { name: "a" data_type: TYPE_STRING dims: [ 1 ] } ]'
    files = model("m", text, code=f"x = {'[' * depth}{']' * depth}\n")
    files["models/m/1/a.json"] = json.dumps("[") + "[" * depth
    assert plan.make(put(tmp_path, files)).entry.name == "m"
