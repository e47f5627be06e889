from __future__ import annotations

import runpy
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from layers.features.codemod import File
from layers.features.codemods.columns import concat, fill_missing
from layers.features.codemods.columns.batch_helper import helper_code
from layers.features.codemods.columns.ufunc_batches import CODEMOD
from layers.features.codemods.inputs import lookups
from layers.features.sites import Refusal, Site, sites

PROGRAMS = Path(__file__).parent / "test_features_programs" / "ufunc_batches"


def find(text):
    return CODEMOD.find(File("m.py", text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def function(body):
    return "import numpy as np\n\n\n" + dedent(body)


@pytest.fixture(scope="module")
def batched(tmp_path_factory):
    path = tmp_path_factory.mktemp("helper") / "m.py"
    path.write_text("import numpy as np\n" + helper_code("batched", "np"))
    return runpy.run_path(str(path))["batched"]


def test_a_loop_over_names_becomes_one_over_batches():
    before = function("""
        def f(x, NAMES):
            parts = []
            for n in NAMES:
                parts.append(np.log1p(np.nan_to_num(x[n])))  # each on its own
            return parts
        """)
    assert apply(before).partition("def f(")[2] == dedent("""\
        x, NAMES):
            parts = []
            for n, values in _batched(
                NAMES,
                lambda n: x[n],
                lambda values: np.log1p(np.nan_to_num(values)),
            ):
                parts.append(values)  # each on its own
            return parts
        """)
    what = "2 elementwise operations per column of 'n'"
    assert find(before) == [Site("m.py", 7, [7, 8], what)]


def test_a_function_of_the_file_is_handed_on_and_its_lines_are_the_site():
    before = function("""
        def scaled(v):
            return np.log1p(v / 3.0)


        def f(x, names):
            return [scaled(x[n]) for n in names]
        """)
    after = apply(before)
    assert "[values for n, values in _batched(names, lambda n: x[n], scaled)]" in after
    assert find(before) == [Site("m.py", 10, [6], "2 elementwise operations per column of 'n'")]


def test_a_number_from_outside_is_checked_at_run_time():
    before = function("""
        def f(x, names, now):
            return [np.sqrt(now - x[n]) for n in names]
        """)
    assert "lambda values: np.sqrt(now - values),\n        now,\n" in apply(before)


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.txt")), ids=lambda path: path.name)
def test_a_batched_file_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert after != path.read_text()
    assert [item for item in find(after) if isinstance(item, Site)] == []
    assert apply(after) == after


@pytest.mark.parametrize(
    "expression",
    [
        "np.log1p(x[n] - x[n].mean())",  # a column's mean is not of one element
        "np.fmax(np.log1p(x[n]), 0.0)",  # its bits depend on the position
        "np.exp(x[n]).astype(np.int64)",  # so do a NaN's as an integer
        "np.log1p(np.sort(x[n]))",
        "np.log1p(np.exp(x[n], out=buffer))",
        "np.sin(np.cos(x[n]))",
        "np.log1p(x[n])",  # one operation alone does not pay
        "other(other(x[n]))",
        "np.maximum(np.log1p(x[n]), np.nan)",  # which NaN is kept depends on the position
    ],
)
def test_what_is_not_elementwise_for_certain_stays(expression):
    text = function(f"""
        def f(x, names, buffer, other):
            return [{expression} for n in names]
        """)
    assert apply(text) == text


def refusal(loop):
    text = function("\ndef f(self, x, names, out):\n    parts = []\n" + loop)
    (found,) = find(text)
    assert apply(text) == text
    assert isinstance(found, Refusal)
    return found.reason


def test_a_loop_whose_order_could_be_noticed_stays():
    chain = "np.log1p(np.abs(x[n]))"
    assert refusal(f"    for n in names:\n        parts.append((read(n), {chain}))\n") == (
        "another part of the statement is computed before or after the column"
    )
    assert refusal(f"    for n in names:\n        last = {chain}\n") == (
        "the loop keeps only its last column, or assigns to several"
    )
    assert refusal("    for n in names:\n        parts.append(np.log1p(np.abs(pop(n))))\n") == (
        "reading the column calls what is not known only to read"
    )
    assert refusal(f"    for n in names:\n        parts.append(lambda: {chain})\n") == (
        "the column is computed only sometimes, or later than it stands"
    )
    assert refusal(f"    for n in names:\n        parts.append(pop({chain}))\n") == (
        "a call around the column may change what other columns are read from"
    )
    assert refusal(f"    for n in names:\n        out.append({chain})\n") == (
        "what collects the columns is not a list or dict of this function"
    )
    assert refusal("    for n in names:\n        parts.append(np.log1p(np.abs(parts[n])))\n") == (
        "columns may be read from what collects them"
    )
    handled = f"""\
    try:
        for n in names:
            parts.append({chain})
    except ValueError:
        raise KeyError(n)
"""
    assert refusal(handled) == "who handles an error asks at which column it happened"
    module = function(f"""
        x = {{}}
        parts = [{chain} for n in x]
        """)
    assert find(module) == [Refusal("the loop is not in a function", 6)]


def columns(rows, dtype, count=5, seed=0):
    draw = np.random.default_rng(seed).integers
    size = np.dtype(dtype).itemsize
    return [draw(0, 256, rows * size, np.uint8).view(dtype) for _ in range(count)]


def scaled(values):
    return np.log1p(np.maximum(np.nan_to_num(values, nan=0.0), 0.0))


def test_columns_that_are_alike_are_computed_in_one_call(batched):
    x = {f"c{n}": values for n, values in enumerate(columns(9, np.float32))}
    x["other"] = np.arange(9.0)
    sizes = []

    def compute(values):
        sizes.append(values.shape)
        return scaled(values)

    with np.errstate(all="ignore"):
        found = list(batched(list(x), lambda name: x[name], compute))
        expected = [(name, scaled(values)) for name, values in x.items()]
    assert sizes == [(5, 9), (9,)]
    assert [name for name, _ in found] == list(x)
    for (_, one), (_, other) in zip(found, expected, strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())


def test_long_columns_are_computed_a_few_at_a_time_and_longer_ones_alone(batched):
    sizes = []

    def compute(values):
        sizes.append(values.shape)
        return -values

    for rows in (5000, 9000):
        x = [np.full(rows, n) for n in range(7)]
        found = list(batched(list(range(7)), x.__getitem__, compute))
        assert [(name, values[-1]) for name, values in found] == [(n, -n) for n in range(7)]
    assert sizes == [(3, 5000), (3, 5000), (1, 5000), *[(9000,)] * 7]


def test_errors_come_in_the_order_of_the_columns(batched):
    log = []

    def fetch(name):
        log.append(name)
        return {"a": np.ones(3), "b": np.array([b"x"], object), "c": np.ones(3)}[name]

    found = batched(["a", "b", "missing"], fetch, np.negative)
    assert next(found)[0] == "a"
    with pytest.raises(TypeError, match="unary -"):
        next(found)
    found = batched(["a", "c", "missing"], fetch, np.negative)
    assert [next(found)[0], next(found)[0]] == ["a", "c"]
    with pytest.raises(KeyError, match="missing"):
        next(found)
    assert log == ["a", "b", "missing", "a", "c", "missing"]  # nothing is read twice


def test_an_iterator_and_a_number_that_is_none_are_walked_as_before(batched):
    log = []

    def fetch(name):
        log.append(name)
        return np.ones(2)

    walked = batched(iter("ab"), fetch, np.negative)
    assert (next(walked)[0], log) == ("a", ["a"])
    for number in (np.float64(2), float("nan"), True, "2"):
        log.clear()
        walked = batched(["a", "b"], fetch, np.negative, number)
        assert (next(walked)[0], log) == ("a", ["a"])


UNARY = [
    *("log1p", "log", "log2", "log10", "exp", "expm1", "sqrt", "sign", "negative"),
    *("abs", "fabs", "floor", "ceil", "rint", "trunc", "isnan", "isinf", "isfinite", "signbit"),
]
OPERATIONS = {
    **{name: getattr(np, name) for name in UNARY},
    "maximum": lambda x: np.maximum(x, 0.0),
    "minimum": lambda x: np.minimum(-0.0, x),
    "clip": lambda x: np.clip(x, 0.0, 1.0),
    "add": lambda x: x + 1.5,
    "subtract": lambda x: 2.5 - x,
    "multiply": lambda x: -0.0 * x,
    "divide": lambda x: 1.0 / x,
    "where": lambda x: np.where(x > 0, x, -1.0),
    "fill": lambda x: np.nan_to_num(x, nan=0.0, posinf=1.0),
    "single": lambda x: x.astype(np.float32),
    "double": lambda x: x.astype(np.float64),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_bits_do_not_depend_on_the_position_in_the_array(name, dtype):
    operation = OPERATIONS[name]
    special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-40, 88.9, -0.5])
    for rows in (1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 33, 63, 250):
        made = columns(rows * 40, dtype, count=1, seed=rows)[0].copy()
        if made.dtype.kind == "f":
            with np.errstate(all="ignore"):
                made[:: rows % 4 + 2] = np.resize(special.astype(dtype), len(made[:: rows % 4 + 2]))
        matrix = made.reshape(40, rows)
        with np.errstate(all="ignore"):
            try:
                alone = [operation(row.copy()) for row in matrix]
            except TypeError:
                return  # the operation is not for integers
            together = operation(matrix)
        assert together.tobytes() == b"".join(row.tobytes() for row in alone)


def test_the_examples_loops_are_found_before_and_after_the_other_rewrites():
    example = Path(__file__).parents[2] / "examples" / "ads-serving" / "models" / "features"
    text = (example / "1" / "model.py").read_text()
    assert len(sites(find(text))) == 14
    for codemod in (lookups, concat, fill_missing):
        text = codemod.CODEMOD.apply(File("m.py", text))
    assert len(sites(find(text))) == 14
    text = apply(text)
    assert sites(find(text)) == []
    first = apply((example / "1" / "model.py").read_text())
    for codemod in (lookups, concat, fill_missing):
        assert len(sites(codemod.CODEMOD.find(File("m.py", first)))) >= 1


def test_steps_in_the_loop_become_one_function_and_their_comments_stay():
    before = function("""
        def f(x, names):
            parts = []
            for n in names:
                # as it came
                v = x[n]
                v = np.abs(v)  # never negative
                v = np.log1p(v / 3.0)
                parts.append(v)
            return parts, v
        """)
    assert apply(before).partition("parts = []\n")[2] == (
        """\
    for n, v in _batched(
        names,
        lambda n: x[n],
        lambda values: np.log1p(np.abs(values) / 3.0),
    ):
        # as it came
        # never negative
        parts.append(v)
    return parts, v
"""
    )


@pytest.mark.parametrize(
    "steps",
    [
        "v = x[n]\n        w = np.abs(np.exp(v))",  # two names
        "v = np.abs(np.exp(x[n]))\n        print(v)",
        "v = np.abs(np.exp(x[n]))\n        v += 1",
        "v = x[n]\n        v = np.abs(v) + np.exp(v)",  # two arrays meet
        "v = np.abs(np.exp(x[n] + v))",  # of the column before
    ],
)
def test_steps_that_do_anything_else_stay(steps):
    text = function("""
        def f(x, names, v=0):
            parts = []
            for n in names:
                STEPS
                parts.append(v)
            return parts
        """).replace("STEPS", steps)
    assert apply(text) == text
