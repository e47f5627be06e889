"""What may write into an input keeps its copies."""

from __future__ import annotations

import pytest

from layers.features.codemod import File
from layers.features.codemods.inputs.input_views import CODEMOD
from layers.features.sites import Refusal, Site

HEAD = """import numpy as np
import other
import triton_python_backend_utils as pb


class Held:
    def __init__(self, v, k):
        WRITE


class TritonPythonModel:
    def initialize(self, args):
        self.table = other.load(args)

    def kept(self, v):
        return v.max()

    def execute(self, request, g, rng, mask):
        x = pb.get_input_tensor_by_name(request, "X").as_numpy()
        raw = x.copy()
"""


def find(*lines, write="self.k = k + 1"):
    body = "".join(f"        {line}\n" for line in lines)
    text = HEAD.replace("WRITE", write) + body
    return CODEMOD.find(File("m.py", text, {"X": "TYPE_FP32"}))


@pytest.mark.parametrize(
    "write",
    [
        *("np.nan_to_num(x, copy=False)", "np.nan_to_num(x, False)", "np.nan_to_num(x, *g)"),
        *("np.copyto(x, 0.0)", "np.putmask(x, mask, 0.0)", "np.negative(x, x)"),
        *("np.abs(raw, raw)", "np.clip(raw, 0.0, 1.0, raw)", "np.nan_to_num(raw, False)"),
        *("raw.min(0, raw)", "raw.astype(np.float32, copy=False)", "x.byteswap(True)"),
        *("rng.shuffle(x)", "np.random.shuffle(x)", "other.scale([x])", "other.scale(request)"),
        *("x.flat = 7.0", "x.shape = (1, -1)", "raw.shape = (1, -1)", "x.real[0] = 1"),
        *("x[0], x[2] = x[2], x[0]", "[x[0], *x[1:]] = g", "(k, (x[0], j)) = g"),
        *("for x[0] in g: pass", "x[0]: float = 1.0", "setattr(x, 'shape', (1, -1))"),
        *("cols = {'a': x}; cols['a'][mask] = 0", "cols = {'a': x}; cols['a'] += 1"),
        *("cols = [x]; cols[0][0] = 0", "cols = {'a': x}; rng.shuffle(cols['a'])"),
        *("cols = [x]; cols[0] *= 2", "(x if g else raw)[0] = 1", "g(x)", "g[0](x)"),
        *("list(map(rng.shuffle, [x]))", "max([x], key=rng.shuffle)", "write = np.copyto; write(x, 0)"),
        *("self.table.fit(x)", "cols = np.empty(1, dtype=object); cols[0] = x; cols[0] += 1"),
    ],
)  # fmt: skip
def test_every_kind_of_write_keeps_the_copy(write):
    assert [type(item) for item in find(write, "return np.stack([raw, x])")] == [Refusal]


@pytest.mark.parametrize(
    "read",
    [
        *("z = np.zeros(3); z[0] += 1", "z = {}; z['a'] = x", "z = []; z.append(x)"),
        *("k = self.kept(x)", "k = Held(x, 1)", "k = np.sum(x, 0)", "k = len(x) + int(x[0])"),
        *("other.log('rows', len(x), x.shape, np.float32, x - 1.0)", "k = {'a': x}['a']"),
        *("t = pb.Tensor('Y', np.log1p(x)); k = pb.InferenceResponse([t])", "k = x.astype(np.float64)"),
    ],
)  # fmt: skip
def test_what_only_reads_hinders_nothing(read):
    assert [type(item) for item in find(read, "return np.stack([raw, x])")] == [Site]


def test_a_constructor_of_another_class_is_no_set_up():
    (found,) = find("k = Held(x, 1)", "return raw + 1", write="v[0] = k")
    assert found == Refusal("line 8 writes into what may be an input", 20)


@pytest.mark.parametrize(
    "later",
    [
        *("def f():\n            return raw + 1\n        return f", "return lambda: raw + 1"),
        *("return (raw + k for k in g)", "yield raw + 1"),
    ],
)
def test_a_copy_that_is_read_later_stays(later):
    assert [type(item) for item in find(later)] == [Refusal]


def test_a_parenthesis_that_touches_a_keyword_stays():
    text = HEAD.replace("WRITE", "pass").replace(
        "raw = x.copy()", "raw = 2*(x.copy())if g else(x.copy())*3"
    )
    after = CODEMOD.apply(File("m.py", text, {"X": "TYPE_FP32"}))
    assert "raw = 2*(_read_only(x, lambda values: values.copy()))if g else(_read_only(" in after
