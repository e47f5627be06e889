"""Results that a caller writes into, and how functions are called: the child's part."""

import numpy as np
import pytest

from layers.callables import memory
from layers.callables.codec import encode
from layers.callables.compare import written


def _body(result: object) -> tuple[bytes, memory.Written]:
    there = memory.Written(result)
    return encode([there.writable, result]), there


def test_what_is_written_is_put_back_even_where_memory_is_shared() -> None:
    shared = np.arange(4.0)
    result = {"a": shared, "b": shared[1:3], "c": (np.array([b"x"], dtype=object), 7)}
    before = encode(result)
    there = memory.Written(result)
    assert there.writable.tolist() == [1, 1, 1, -1]
    assert encode(result) != before
    there.restore()
    assert encode(result) == before


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "g", "c8", "i1", "u1", "i8", "?", "S3", "U2", "M8[s]", "m8[D]", "O"]
)
def test_every_dtype_can_be_marked(dtype: str) -> None:
    array = np.zeros(3, dtype=dtype)
    array[...] = memory.mark(array.dtype, 2)
    array[1:] = memory.mark(array.dtype, 3)
    assert array.tolist()[0] != array.tolist()[1]


def _own(*, writable: bool = True) -> dict[str, np.ndarray]:
    result = {"shown": np.zeros((2, 3)), "logged": np.zeros((2, 3))}
    result["logged"].flags.writeable = writable
    return result


def test_outputs_of_one_memory_and_of_none_to_write_to_are_told_apart() -> None:
    one = np.zeros((2, 3))
    together, apart = {"shown": one, "logged": one}, _own()
    both = np.zeros((2, 2, 3))
    beside = {"shown": both[:, 0], "logged": both[:, 1]}
    found = {
        name: written("a call", _body(old)[0], _body(new)[0])
        for name, old, new in (
            ("together", apart, together),
            ("read-only", _own(), _own(writable=False)),
            ("both together", {"shown": one, "logged": one}, together),
            ("both read-only", _own(writable=False), _own(writable=False)),
            ("beside", _own(), beside),
            ("better", {"shown": one, "logged": one}, _own()),
        )
    }
    reasons = {name: failure and failure.reason for name, failure in found.items()}
    assert reasons == {
        "together": "outputs_share_memory",
        "read-only": "output_not_writable",
        "both together": None,
        "both read-only": None,
        "beside": None,
        "better": None,
    }


def test_nonsense_instead_of_what_was_written_is_a_failure() -> None:
    failure = written("a call", _body(_own())[0], encode([np.zeros(1, dtype=np.int8), 1, 2]))
    assert failure is not None
    assert failure.reason == "outputs_share_memory"


def _function(x: object, /, y: object, *, floor: float = 1.5) -> None: ...


def test_parameters_are_told_in_order_and_arguments_given_as_asked() -> None:
    assert memory.parameters(_function) == [
        ["x", "POSITIONAL_ONLY", False],
        ["y", "POSITIONAL_OR_KEYWORD", False],
        ["floor", "KEYWORD_ONLY", True],
    ]
    assert memory.parameters(min) == memory.parameters(None) == []
    arguments = {"x": 1, "y": 2, "floor": 3}
    assert memory.given(arguments, ["y", "x"], ["floor"]) == ([2, 1], {})
    assert memory.given(arguments, [], []) == ([], arguments)
