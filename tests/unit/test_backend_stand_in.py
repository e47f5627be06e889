"""The stand-in for the server's Python module does what the server's own module does."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layers.programs import cache_root

HERE = Path(__file__).parent
STAND_IN = runpy.run_path(str(HERE / "test_features_programs" / "triton_python_backend_utils.py"))
Tensor = STAND_IN["Tensor"]
ITEMS = st.one_of(
    st.binary(max_size=6),
    st.text(max_size=4, alphabet="a\0\N{LATIN SMALL LETTER E WITH ACUTE}"),
    st.integers(),
    st.floats(),
    st.none(),
    st.booleans(),
)


@pytest.fixture(scope="module")
def server():
    """The real module, from a server's environment that is installed already."""
    pattern = "server/*/lib/python*/site-packages/**/backends/python/triton_python_backend_utils.py"
    path = next(cache_root().glob(pattern), None)
    if path is None:
        pytest.skip("no model server is installed here: fvec doctor --install")
    spec = importlib.util.spec_from_file_location("the_servers_utils", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def objects(items, shape):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


@given(items=st.lists(ITEMS, max_size=6), tall=st.booleans())
def test_objects_are_serialised_as_the_server_does(server, items, tall):
    array = objects(items, (-1, 1) if tall else (-1,))
    assert Tensor("x", array).sent() == bytes(server.serialize_byte_tensor(array) or b"")


@given(items=st.lists(st.binary(max_size=5), min_size=1, max_size=6))
def test_fixed_width_bytes_are_serialised_as_the_server_does(server, items):
    array = np.array(items)
    assert Tensor("x", array).sent() == bytes(server.serialize_byte_tensor(array))


@given(items=st.lists(st.binary(max_size=5), min_size=1, max_size=6))
def test_strings_are_read_as_the_server_does(server, items):
    encoded = Tensor("x", objects(items, -1)).sent()
    ours = STAND_IN["deserialize_bytes_tensor"](encoded)
    assert ours.tolist() == server.deserialize_bytes_tensor(encoded).tolist() == items


def test_types_are_named_as_the_server_does(server):
    assert STAND_IN["TRITON_STRING_TO_NUMPY"] == server.TRITON_STRING_TO_NUMPY


def test_strings_are_taken_when_the_tensor_is_made_and_numbers_when_it_leaves():
    texts, numbers = objects([b"old"], -1), np.array([1.0])
    tensors = Tensor("t", texts), Tensor("n", numbers)
    texts[0], numbers[0] = b"new", 2.0
    assert tensors[0].sent() == b"\x03\0\0\0old"
    assert tensors[1].sent() == np.array([2.0]).tobytes()


def test_an_array_that_is_not_contiguous_is_copied():
    numbers = np.arange(6.0).reshape(2, 3).T
    assert Tensor("n", numbers).as_numpy() is not numbers
    assert Tensor("n", numbers).sent() == np.ascontiguousarray(numbers).tobytes()
    plain = np.arange(3)
    assert Tensor("n", plain).as_numpy() is plain


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("", np.zeros(1), "Tensor name cannot be an empty string."),
        ("x", np.array(["a"]), "NumPy dtype is not supported."),
        ("x", np.zeros(1, ">f4"), "NumPy dtype is not supported."),
        ("x", np.zeros(1, complex), "NumPy dtype is not supported."),
    ],
)
def test_what_the_server_refuses_is_refused(name, array, text):
    with pytest.raises(STAND_IN["TritonModelException"], match=text):
        Tensor(name, array)


def test_another_model_answers_as_recorded_or_not_at_all():
    request = STAND_IN["InferenceRequest"](
        model_name="m", requested_output_names=["y"], inputs=[Tensor("x", np.zeros(1))]
    )
    refused = request.exec()
    assert refused.has_error()
    assert "'m'" in refused.error().message()
    type(request).answer = lambda model, names, inputs: [Tensor(names[0], inputs[0].as_numpy() + 1)]
    try:
        answered = request.exec()
    finally:
        type(request).answer = None
    found = STAND_IN["get_output_tensor_by_name"](answered, "y")
    assert found.as_numpy().tolist() == [1.0]
    assert STAND_IN["get_output_tensor_by_name"](answered, "z") is None
