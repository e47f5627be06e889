"""What the batches of `ufunc_batches` once got wrong: steps, names and numbers of a loop."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from layers.features.codemod import File
from layers.features.codemods.columns.ufunc_batches import CODEMOD
from layers.features.sites import Refusal, sites


def find(text):
    return CODEMOD.find(File("m.py", text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def function(body):
    return "import numpy as np\n\n\n" + dedent(body)


def refusal(loop):
    text = function("\ndef f(self, x, names, out):\n    parts = []\n" + loop)
    (found,) = find(text)
    assert apply(text) == text
    assert isinstance(found, Refusal)
    return found.reason


STEPS = [
    *("v + 1.0", "v - 2.0", "2.0 - v", "v * 3.0", "v / 4.0", "1.0 / v", "-v"),
    *("v.astype(np.float32)", "np.abs(v)", "np.clip(v, -1.0, 1.0)", "np.nan_to_num(v, nan=0.0)"),
]


@pytest.mark.parametrize("first", STEPS)
@pytest.mark.parametrize("second", STEPS)
def test_two_steps_compute_what_they_did_one_after_the_other(first, second):
    before = function(f"""
        def f(x, names):
            parts = []
            for n in names:
                v = x[n]
                v = {first}
                v = {second}
                parts.append(v)
            return parts
        """)
    after = apply(before)
    assert "_batched(" in after
    x = {n: np.array([1.5, -2.0, 0.25, 7.0]) * (n + 1) for n in range(4)}
    made = []
    for text in (before, after):
        names = {}
        exec(text, names)  # noqa: S102  # the program of this test
        made.append([(v.dtype, v.tobytes()) for v in names["f"](x, list(x))])
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("open_", "close"),
    [
        ("try:", "except KeyError:\n        failed = True"),
        ("with suppress(KeyError):", ""),
    ],
)
@pytest.mark.parametrize("use", ["use(n)", "use(lambda: n)"])
def test_a_name_that_is_read_after_a_caught_error_stays(open_, close, use):
    chain = "np.log1p(np.abs(x[n]))"
    loop = f"""    {open_}
        for n in names:
            parts.append({chain})
    {close}
    {use}
"""
    assert refusal(loop) == "who handles an error asks at which column it happened"
    text = function("\ndef f(self, x, names, out):\n    parts = []\n" + loop)
    assert sites(find(text.replace(use, "use(parts)")))


def test_names_written_out_stay_one_argument_and_a_keyword_may_touch():
    before = function("""
        def f(x):
            parts = []
            for n in "A", "B":
                parts.append(np.log1p(np.abs(x[n])))
            return parts, [(np.log1p(np.abs(x[n])))for n in("A","B")]
        """)
    after = apply(before)
    assert after.replace(", ", ",").count('("A","B"),') == 2
    assert "(values)for n, values in _batched(" in after
    compile(after, "m.py", "exec")


def test_a_number_that_is_known_only_with_columns_stays():
    loop = """    if names:
        now = out()
    for n in names:
        parts.append(np.sqrt(np.abs(now - x[n])))
"""
    assert refusal(loop) == "a number may not be known before the loop"
