"""Values travel unchanged, and bytes that are no value are refused."""

import struct
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest

from layers.callables import codec
from layers.callables.codec import CodecError, Leaf, decode, encode, leaves, revive, shape_of


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.zeros((0, 4), dtype=np.int16),
        np.array([True, False]),
        np.array(["a", "bc"]),
        np.array([1 + 2j], dtype=np.complex64),
        np.float16(0.5),
        np.array([1.5, -0.0], dtype=np.longdouble),
    ],
)
def test_arrays_come_back_with_their_bits_dtype_and_shape(value: np.ndarray) -> None:
    back = revive(decode(encode(value)))
    assert (back.dtype, back.shape, encode(back)) == (value.dtype, value.shape, encode(value))


@pytest.mark.parametrize("value", [None, True, 7, -(1 << 80), 0.1, "naïve\udce9", b"\x00\xff"])
def test_plain_scalars_come_back_as_they_were(value: object) -> None:
    back = revive(decode(encode(value)))
    assert (type(back), back) == (type(value), value)


def test_strings_keep_whether_they_are_text_or_bytes() -> None:
    value = np.array([b"\x00a\x00", "é", "", b""], dtype=object)
    assert revive(decode(encode(value))).tolist() == [b"\x00a\x00", "é", "", b""]


def test_nesting_and_names_survive() -> None:
    tree = decode(encode({"a": (np.zeros(1), [1, "x"])}))
    assert [name for name, _ in leaves(tree)] == ["a.0", "a.1.0", "a.1.1"]
    assert shape_of(tree) == "{a: (*, [*, *])}"


def test_equal_values_have_equal_bytes_whatever_their_layout() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert encode(array) == encode(np.asfortranarray(array))


def test_a_subclass_is_no_plain_array() -> None:
    kinds = [decode(encode(x)).kind for x in (np.zeros(1), np.zeros(1).view(np.matrix))]
    assert kinds == ["ndarray", "ndarray matrix"]


@pytest.mark.parametrize(
    "value", [object(), (x for x in ()), {1: 2}, np.array([object()], dtype=object), {1}]
)
def test_what_is_no_value_does_not_travel(value: object) -> None:
    with pytest.raises(CodecError):
        encode(value)


def _body(head: bytes, blob: bytes = b"") -> bytes:
    return struct.pack("<I", len(head)) + head + blob


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xff\xff\xff",
        _body(b"[]"),
        _body(b"nonsense"),
        _body(b'{"k":"ndarray","t":"<f4","s":[2],"b":4}', b"1234"),
        _body(b'{"k":"ndarray","t":"<f4","s":[-1],"b":4}', b"1234"),
        _body(b'{"k":"ndarray","t":"<f4","s":[1],"b":-4}', b"1234"),
        _body(b'{"k":"ndarray","t":"|O8","s":[1],"b":8}', b"12345678"),
        _body(b'{"k":"ndarray","t":"O","s":[1],"b":8}', struct.pack("<q", 5)),
        _body(b'{"k":"ndarray","t":"<f4","s":[1],"b":4}', b"1234extra"),
        _body(b'{"k":"ndarray","t":"<f8","s":[99999999999999],"b":0}'),
        _body(b'{"c":"set","i":[]}'),
        _body(b'{"c":"list","i":[' * 40 + b"]}" * 40),
    ],
)
def test_hostile_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(CodecError):
        decode(body)


def test_bfloat16_travels_as_its_bits() -> None:
    leaf = Leaf("torch", "bfloat16", np.array([0x3F80, 0x7FC0], dtype="<u2"))
    back = decode(codec.encode(leaf))
    assert (back.kind, back.dtype, back.array.tolist()) == ("torch", "bfloat16", [0x3F80, 0x7FC0])


def test_an_empty_text_is_a_value_like_any_other() -> None:
    for value in (np.str_(""), np.str_("a"), np.bytes_(b""), np.array(["", ""])):
        back = revive(decode(encode(value)))
        assert (type(back), np.asarray(back).tolist()) == (type(value), np.asarray(value).tolist())


def test_what_lies_beside_an_extended_float_is_no_part_of_it() -> None:
    raw = np.ones(2, dtype=np.longdouble).tobytes()
    size = np.dtype(np.longdouble).itemsize
    other = bytearray(raw)
    for place in range(size):
        if place >= codec.EXTENDED_BYTES:
            other[place] = other[size + place] = 0xAA
    bodies = {encode(np.frombuffer(bytes(data), dtype=np.longdouble)) for data in (raw, other)}
    assert len(bodies) == 1


class Found(NamedTuple):
    scores: np.ndarray
    sizes: dict


def test_containers_of_other_types_keep_their_names() -> None:
    scores = np.zeros(2)
    named = decode(encode(Found(scores, {"b": 1, "a": 2})))
    assert shape_of(named) == "Found(scores, sizes)(*, {b: *, a: *})"
    assert [name for name, _ in leaves(named)] == ["0", "1.b", "1.a"]
    plain = decode(encode((scores, {"a": 2, "b": 1})))
    assert shape_of(plain) == "(*, {a: *, b: *})"
    assert shape_of(decode(encode(OrderedDict(a=1)))) == "OrderedDict{a: *}"
    assert encode(named) == encode(Found(scores, {"b": 1, "a": 2}))
    assert type(revive(named)) is tuple


def test_no_two_outputs_have_one_name() -> None:
    tree = decode(encode({"user": {"scores": 1}, "user.scores": 2, "": 3, "\ud800": 4, "é ä": 5}))
    names = [name for name, _ in leaves(tree)]
    assert names == ["user.scores", '"user.scores"', '""', '"\\ud800"', "é ä"]
    assert all(name.encode() for name in names)


def test_text_that_no_file_can_hold_is_written_out() -> None:
    assert codec.printable("a\ud800é") == "a\\ud800é"


@pytest.mark.parametrize("shape", [(7,), (6, 5), (3, 4, 5)])
@pytest.mark.parametrize("layout", codec.LAYOUTS)
def test_a_layout_keeps_content_and_changes_where_it_lies(
    layout: str, shape: tuple[int, ...]
) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    there = revive(decode(encode(Leaf("ndarray", "<f4", array, layout))))
    assert there.tolist() == array.tolist()
    assert there.flags.writeable
    if layout == codec.FORTRAN:
        assert there.flags.f_contiguous
    elif layout == "offset" or (layout in codec.OF_COLUMNS[:1] and len(shape) == 1):
        assert there.base.size > there.size  # a part of more
    else:
        assert not there.flags.c_contiguous
    assert encode(there) == encode(array)


def test_layouts_are_for_whatever_arrays_hold() -> None:
    for array in (np.array(["a", None][:1] * 4, dtype=object), np.zeros((0, 3)), np.array(1.0)):
        for layout in codec.LAYOUTS:
            assert codec.laid_out(array, layout).tolist() == array.tolist()
