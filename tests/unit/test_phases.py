from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layers.profile.collapsed import Frame
from layers.profile.phases import Phase, phase_of, roles_of

UTILS = "/server/triton_python_backend_utils.py"
MODEL = "/stack/models/m/1/model.py"


def roles(body):
    """Return the phases by what stands on the lines, absent ones included."""
    text = dedent(body).strip()
    found = roles_of(text)
    return [found.get(n, Phase.COMPUTE).value for n, _ in enumerate(text.splitlines(), start=1)]


def test_a_statement_that_only_looks_up_and_decodes_receives():
    assert roles("""
        def execute(self, requests):
            for request in requests:
                tensor = pb_utils.get_input_tensor_by_name(request, "a")
                rows = tensor.as_numpy().reshape(-1).tolist()
                texts = [
                    row.decode("utf-8")
                    for row in rows
                ]
    """) == ["compute", "compute", "receive", "receive", "receive", "receive", "receive", "receive"]


def test_a_statement_that_only_builds_tensors_and_the_response_assembles():
    assert roles("""
        def execute(self, requests):
            names = np.array([name.encode() for name in names], dtype=object)
            out = pb_utils.Tensor("y", scores.astype(np.float32))
            responses.append(
                pb_utils.InferenceResponse(output_tensors=[out])
            )
            return responses
    """) == ["compute", "assemble", "assemble", "assemble", "assemble", "assemble", "compute"]


@pytest.mark.parametrize(
    "statement",
    [
        "scores = self.model.predict(tensor.as_numpy())",  # the time is the model's
        "out = pb_utils.Tensor('y', np.log1p(pb_utils.get_input_tensor_by_name(r, 'x').as_numpy()))",
        "text = tokenizer.decode(ids)",  # no bytes
        "ids = tokenizer.encode(text, add_special_tokens=True, max_length=limit)",
        "x = y + 1",
    ],
)
def test_a_statement_that_does_something_else_too_computes(statement):
    assert roles(statement) == ["compute"]


def test_the_head_of_a_block_says_nothing_about_its_body():
    assert roles("""
        for name in get_input_tensor_by_name(r, "names").as_numpy():
            total = total + weigh(name)
        else:
            out = Tensor("total", total)
    """) == ["receive", "compute", "compute", "assemble"]


def test_a_function_of_the_file_has_lines_of_its_own():
    assert roles("""
        def scale(x):
            return np.log1p(x)
        y = scale(tensor.as_numpy())
    """) == ["compute", "compute", "receive"]


@pytest.mark.parametrize("text", ["def f(:\n", "x = '\0'", "(" * 5000])
def test_a_file_that_is_no_python_has_no_roles(text):
    assert roles_of(text) == {}


@given(st.text(alphabet="afx()[]{}.:=,\n '\"#\\", max_size=60))
def test_any_text_has_roles_on_lines_that_it_has(text):
    assert all(1 <= line <= text.count("\n") + 1 for line in roles_of(text))


def test_the_innermost_known_frame_decides():
    known = {MODEL: {2: Phase.RECEIVE, 4: Phase.ASSEMBLE}}
    execute = Frame("execute", MODEL, 4)
    library = Frame("dumps", "/lib/json.py", 9)
    lookup = Frame("get_input_tensor_by_name", UTILS, 139)
    assert phase_of([execute, library], known) is Phase.ASSEMBLE
    assert phase_of([execute, Frame("helper", MODEL, 9)], known) is Phase.COMPUTE
    assert phase_of([execute, Frame("read", MODEL, 2)], known) is Phase.RECEIVE
    assert phase_of([execute, lookup], known) is Phase.RECEIVE
    assert phase_of([Frame("serialize_byte_tensor", UTILS, 70)], known) is Phase.ASSEMBLE


def test_a_function_of_that_name_in_another_file_is_not_the_servers():
    assert phase_of([Frame("deserialize_bytes_tensor", "/x/other.py", 3)], {}) is Phase.OUTSIDE


def test_what_reaches_no_line_of_the_model_is_outside():
    assert phase_of([Frame("run", "/lib/threading.py", 3)], {MODEL: {}}) is Phase.OUTSIDE
    assert phase_of([], {MODEL: {}}) is Phase.OUTSIDE
