from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from layers.features.codemod import File
from layers.features.codemods.lists.astype_roundtrips import CODEMOD
from layers.features.codemods.lists.roundtrip_helper import helper_code
from layers.features.sites import Refusal, Site

PROGRAMS = Path(__file__).parent / "test_features_programs" / "astype_roundtrips"
HEAD = "import numpy as np\n\n\ndef f(x, d, t):\n    y = np.zeros(3)\n    return "


def find(expression):
    return CODEMOD.find(File("m.py", HEAD + expression + "\n"))


def apply(expression):
    return CODEMOD.apply(File("m.py", HEAD + expression + "\n")).rpartition("return ")[2].strip()


@pytest.fixture(scope="module")
def array_of(tmp_path_factory):
    path = tmp_path_factory.mktemp("helper") / "m.py"
    path.write_text("import numpy as np\n" + helper_code("array_of", "np"))
    return runpy.run_path(str(path))["array_of"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "np.array(x.tolist())",
            '_array_of(x, "tolist", lambda values: np.array(values.tolist()))',
        ),
        (
            "np.asarray(x.squeeze().tolist(), dtype=np.float32)",
            '_array_of(x.squeeze(), "tolist", lambda values: '
            "np.asarray(values.tolist(), dtype=np.float32), np.float32)",
        ),
        (
            "np.array(list(y))",
            '_array_of(y, "elements", lambda values: np.array(list(values)))',
        ),
        (
            "np.array([float(v) for v in y], d)",
            '_array_of(y, "float", lambda values: np.array([float(v) for v in values], d), d)',
        ),
        ("y.astype(np.float32).astype(np.float32)", "y.astype(np.float32)"),
        ("np.array(y.astype(np.float32))", "y.astype(np.float32)"),
        ("np.array(y.astype(d).astype(d)) + 1", "y.astype(d) + 1"),
    ],
)
def test_round_trip_is_replaced(before, after):
    assert apply(before) == after
    (site,) = find(before)
    assert isinstance(site, Site)
    assert (site.line, site.lines) == (6, [6])


@pytest.mark.parametrize(
    "expression",
    [
        "np.array(list(x))",  # no array for certain
        "np.array([float(v) for v in x])",
        "x.astype(d).astype(d)",
        "np.array(x.tolist(), copy=False)",
    ],
)
def test_what_is_not_certain_is_refused(expression):
    (found,) = find(expression)
    assert isinstance(found, Refusal)
    assert apply(expression) == expression


@pytest.mark.parametrize(
    "expression",
    [
        "np.array([str(v) for v in y])",
        "np.array([float(v) for v in y if v])",
        "np.array(y)",
        "y.astype(np.float64).astype(np.float32)",  # rounds
        "x.tolist()",
        "list(y)",
    ],
)
def test_what_is_no_round_trip_is_left(expression):
    assert find(expression) == []


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.txt")), ids=lambda path: path.name)
def test_a_converted_file_is_not_proposed_again(path):
    after = CODEMOD.apply(File("m.py", path.read_text()))
    assert after != path.read_text()
    assert [item for item in CODEMOD.find(File("m.py", after)) if isinstance(item, Site)] == []


def outcome(make, values, *arguments, **keywords):
    try:
        made = make(values, *arguments, **keywords)
    except (ValueError, OverflowError) as error:
        return type(error).__name__, str(error)
    return made.dtype, made.shape, np.shares_memory(made, values), made.tobytes()


WAYS = {
    "tolist": lambda values: values.tolist(),
    "elements": list,
    "float": lambda values: [float(v) for v in values],
    "int": lambda values: [int(v) for v in values],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("code", "fdbhilBHI?eQ")
@pytest.mark.parametrize("wanted", [None, np.float32, np.float64, np.int64, np.int32, "f4"])
def test_every_pair_of_types_gives_what_the_list_gave(array_of, way, code, wanted):
    bits = np.random.default_rng(0).integers(0, 256, 4096, np.uint8)
    values = bits.view(np.bool_) if code == "?" else bits.view(code)
    if code == "?":
        values = bits > 127
    arguments = {} if wanted is None else {"dtype": wanted}

    def original(values):
        return np.array(WAYS[way](values), **arguments)

    with np.errstate(all="ignore"):
        assert outcome(array_of, values, way, original, **arguments) == outcome(original, values)


def test_arrays_of_numbers_never_become_a_list(array_of):
    def original(values):
        raise AssertionError("the slow path was taken")

    single = np.full((2, 16), -0.0, np.float32)
    assert array_of(single, "tolist", original).dtype == np.float64
    assert array_of(single, "tolist", original, np.float32).dtype == np.float32
    whole = np.arange(16, dtype=np.int32)
    assert array_of(whole, "int", original, np.int64).tolist() == list(range(16))
    with pytest.raises(AssertionError):
        array_of(single, "elements", original)  # a list of arrays


def test_floats_that_become_integers_overflow_as_they_did(array_of):
    values = np.full(20, 2**63 - 1)
    with pytest.raises(OverflowError):
        array_of(values, "float", lambda v: np.array([float(e) for e in v], np.int64), np.int64)


def test_a_parenthesis_that_touches_a_keyword_stays():
    assert apply("(np.array(list(y)))if d else(np.array(y.astype(t)))") == (
        '(_array_of(y, "elements", lambda values: (np.array(list(values)))))if d else(y.astype(t))'
    )
