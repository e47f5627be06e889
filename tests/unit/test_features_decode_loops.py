from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import numpy as np
import pytest

from layers.features.codemod import File
from layers.features.codemods.text.decode_loops import CODEMOD
from layers.features.sites import Refusal, Site, sites

PROGRAMS = sorted((Path(__file__).parent / "test_features_programs" / "decode_loops").glob("*.txt"))
IMPORT = "import numpy as np\n"


def find(text):
    return CODEMOD.find(File("m.py", text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def function(body):
    return f"{IMPORT}\n\ndef execute(self, a, out):\n{indent(dedent(body), '    ')}"


def test_moves_the_loop_into_a_helper_that_decodes_at_once():
    before = function('b = [x.decode("utf-8") for x in a]  # texts\n')
    assert apply(before) == (
        IMPORT
        + '''

def _decode_texts(values):
    """Return the texts of `values`, in one call where it holds bytes in UTF-8 alone."""
    array = type(values) is np.ndarray and values.dtype.kind in "OS" and values.ndim == 1
    items = values.tolist() if array else values
    if type(items) is list:
        try:
            return list(map(bytes.decode, items))
        except (TypeError, UnicodeDecodeError):
            pass  # something is not bytes or not UTF-8: that is for the loop
    return [x.decode("utf-8") for x in values]


def execute(self, a, out):
    b = _decode_texts(a)  # texts
'''
    )


def test_a_loop_that_appends_extends_and_keeps_its_comments():
    before = function("""
        texts = []
        # above
        for row in a:
            for x in row:  # each
                texts.append(x.decode())
        """)
    assert apply(before).endswith("""
    texts = []
    # above
    # each
    texts.extend(_iterate_texts(a))
""")


def test_equal_loops_share_a_helper_and_others_have_their_own():
    before = function("""
        b = [x.decode() for x in a], [x.decode() for x in out]
        c = [x.decode().strip() for x in a]
        """)
    assert apply(before).endswith("""
    b = _decode_texts(a), _decode_texts(out)
    c = _decode_texts_2(a)
""")


def test_sites_name_the_lines_of_the_loop():
    text = function("""\
        b = [
            x[0].decode()
            for x in a
        ]
        """)
    assert find(text) == [
        Site("m.py", 5, [5, 6, 7, 8], "a loop that decodes the first element of each row")
    ]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_rewritten_file_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert after != path.read_text()
    assert sites(find(after)) == []
    assert apply(after) == after


LARGER = "the decoding is part of a larger expression"
MORE = "the loop does more than append what it decodes"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("b = [self.ids[x.decode()] for x in a]\n", LARGER),
        ("b = [x.decode().strip(out) for x in a]\n", LARGER),
        ("b = [x.decode() if out else x for x in a]\n", LARGER),
        ("b = {x.decode() for x in a}\n", "a set or a dict is built, not a list"),
        (
            "b = [x.decode() for x in a if x]\n",
            "the comprehension has conditions, or more than rows and elements",
        ),
        (
            "b = (x.decode() for x in a)\n",
            "the texts are decoded one by one as something asks for them",
        ),
        (
            "rows = a.tolist()\nb = [x[0].decode() for x in rows]\n",
            "the rows are lists already, which cost more than the decoding",
        ),
        ("for x in a:\n    print(x.decode())\n", MORE),
        (
            "for x in a:\n    out.append(x.decode())\n",
            "what is appended to is not certain to be a list",
        ),
        (
            "b = []\nfor x in a:\n    b.append(x.decode())\nreturn x\n",
            "the loop's variable is used after it",
        ),
        (
            "b = sorted(a, key=lambda x: x.decode())\n",
            "the lambda is not handed to map or np.vectorize",
        ),
        (
            "b = np.vectorize(lambda x: x.decode().split())(a)\n",
            "np.vectorize is told more than the lambda, or it gives no text",
        ),
        (
            "b = [  # texts\n    x.decode() for x in a\n]\n",
            "a comment stands inside the expression",
        ),
    ],
)
def test_says_why_a_loop_is_left(body, reason):
    found = find(function(body))
    assert [item.reason for item in found if isinstance(item, Refusal)] == [reason]
    assert apply(function(body)) == function(body)


@pytest.mark.parametrize(
    "body",
    [
        "b = [x.decode('latin-1') for x in a]\n",
        "b = [x.decode(out) for x in a]\n",
        "b = [x.decode('utf-8', 'own handler') for x in a]\n",
        "b = self.tokenizer.decode(a)\n",
        "b = a[0].decode()\n",
    ],
)
def test_other_decoding_is_no_loop_of_this_kind(body):
    assert find(function(body)) == []


def test_needs_numpy_and_the_builtins():
    loop = "def f(a):\n    return [x.decode() for x in a]\n"
    (no_numpy,) = find(f"{loop}import os\n")
    (shadowed,) = find(f"{IMPORT}def map(x):\n    return x\n{loop}")
    (derived,) = find(f"{IMPORT}class B(bytes):\n    pass\n{loop}")
    assert no_numpy == Refusal("numpy is not imported before the first function, nor can it be", 2)
    other = "the file gives names like `map` or `list` another meaning"
    assert [shadowed.reason, derived.reason] == [other, other]


def test_imports_numpy_where_the_file_does_not():
    text = '"""Doc."""\nfrom __future__ import annotations\n\nimport os\n\n\n'
    after = apply(f"{text}def f(a):\n    return [x.decode() for x in a]\n")
    assert after.startswith(
        '"""Doc."""\nfrom __future__ import annotations\nimport numpy\n\nimport os'
    )
    assert "type(values) is numpy.ndarray" in after


def test_what_runs_once_is_left_alone():
    assert (
        find(f"{IMPORT}class M:\n    def initialize(self, a):\n        [x.decode() for x in a]\n")
        == []
    )
    assert find(f"{IMPORT}NAMES = [x.decode() for x in RAW]\n") == []


def run(text, values):
    """Return what `execute` gives for `values` and what it appended to its list, or its error."""
    names, out = {}, []
    exec(text, names)  # noqa: S102  # a program of this file
    try:
        return names["execute"](None, values, out), out
    except Exception as error:  # noqa: BLE001  # whatever it is, it must stay
        return type(error), str(error), out


@pytest.mark.parametrize(
    "body",
    [
        'return [x.decode("utf-8", "replace") for x in a]\n',
        'return [x.decode(errors="ignore").strip() for x in a.tolist()]\n',
        'return [x.decode("utf-8", errors="backslashreplace") for x in a if 1 or x][:0] or '
        'list(map(lambda x: x.decode("utf8", "surrogateescape"), a))\n',
        "texts = []\ntry:\n    for x in a:\n        texts.append(x.decode('utf-8', 'replace'))\n"
        "except AttributeError:\n    pass\nreturn texts\n",
        "texts = []\nfor x in a:\n"
        "    texts.append(x.decode('utf-8', 'replace') if isinstance(x, bytes) else x)\n"
        "return texts\n",
    ],
)
def test_goes_on_after_a_text_that_is_not_utf_8(body):
    before = function(body)
    after = apply(before)
    assert "values[len(texts):]" in after
    for bad in ([], [b"\xff"], [b"\xff", b"d"], ["text"], [b"\xff", "text", b"e"], [None, b"e"]):
        values = np.array([b"a ", b"b", b"", *bad] * 4, dtype=object)
        for given in (values, values.tolist(), tuple(values), values.reshape(-1, 1)):
            assert run(after, given) == run(before, given)
        assert run(after, iter(values)) == run(before, iter(values))


def test_a_loop_variable_that_another_function_reads_is_left():
    before = function("""
        texts = []
        def describe():
            return row
        for row in a:
            texts.append(row.decode())
        return texts, describe()
        """)
    assert [item.reason for item in find(before)] == [
        "a function of its own uses the loop's variable"
    ]
    assert apply(before) == before
    shared = before.replace("def describe():", "global row\n    def describe():")
    shared = shared.replace("return row", "return 1")
    assert apply(shared) == shared


@pytest.mark.parametrize(
    "body",
    [
        "return [s for s in[v.decode()for v in a]if s]\n",
        "return ([v.decode()for v in a])if len(a)else([v.decode() for v in a])\n",
        "return [v.decode()for v in(a)]if len(a)else[v.decode()for v in(a)]\n",
    ],
)
def test_tight_spelling_stays_python(body):
    before = function(body)
    after = apply(before)
    values = np.array([b"a", b""], dtype=object)
    assert after != before
    assert run(after, values) == run(before, values)
