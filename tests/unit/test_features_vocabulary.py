from __future__ import annotations

import collections
import runpy
import tempfile
from pathlib import Path
from textwrap import dedent

import pytest

from layers.features.codemod import File
from layers.features.codemods.vocabulary.vocabulary_lookups import CODEMOD
from layers.features.sites import refusals, sites

PROGRAMS = sorted((Path(__file__).parent / "test_features_programs" / "vocabulary").glob("*.txt"))


def find(body):
    return CODEMOD.find(File("m.py", dedent(body)))


def apply(body):
    return CODEMOD.apply(File("m.py", dedent(body)))


def run(text):
    """Return the names that a file defines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.py")
        path.write_text(text)
        return runpy.run_path(str(path))


def reasons(body):
    found = find(body)
    assert sites(found) == []
    assert apply(body) == dedent(body)
    return [refusal.reason for refusal in refusals(found)]


def test_one_call_replaces_the_comprehension_and_keeps_all_else():
    before = '''\
        """Encodes words."""
        import numpy as np

        TABLE = {"a": 1}  # keep


        def encode(words, extra):
            """Return ids."""
            return np.array([ TABLE[ w ] for w in words ] + extra, dtype=np.int64)  # ids
        '''
    assert apply(before) == dedent('''\
        """Encodes words."""
        import numpy as np
        from operator import itemgetter

        TABLE = {"a": 1}  # keep


        def _plain_keys(keys):
            """Return keys that find what those of `keys` find, for C to walk; None where unsure."""
            if type(keys) is np.ndarray:
                return keys.tolist() if keys.ndim == 1 and keys.dtype.kind in "OUSiu" else None
            return keys if type(keys) in (list, tuple) else None


        def _look_up(keys, vocabulary):
            """Return [vocabulary[key] for key in keys], in one call."""
            if type(keys) is np.ndarray:
                plain = _plain_keys(keys) if type(vocabulary) in (dict, list, tuple) else None
                many = plain is not None and len(plain) > 1
            else:
                plain, many = keys, type(vocabulary) is dict and type(keys) is list and len(keys) >= 32
            if many:
                try:
                    return list(itemgetter(*plain)(vocabulary))
                except (LookupError, TypeError):
                    pass  # raised below, for the key as it is in `keys`
            return [vocabulary[key] for key in keys]


        def encode(words, extra):
            """Return ids."""
            return np.array(_look_up(words, TABLE) + extra, dtype=np.int64)  # ids
        ''')


def test_a_loop_becomes_one_statement_with_its_comment():
    before = """\
        import numpy as np


        def encode(words, table):
            ids = []
            # unknown words count as 0
            for word in words:
                try:
                    ids.append(table[word])
                except KeyError:
                    ids.append(0)
            out = np.zeros(len(words), np.int64)
            for i, word in enumerate(words):
                out[i] = table.get(word, -1)
            return ids, out
        """
    body = apply(before).partition("def encode")[2]
    assert body == dedent("""\
        (words, table):
            ids = []
            # unknown words count as 0
            ids.extend(_found_or(words, table, 0))
            out = np.zeros(len(words), np.int64)
            _fill_with(out, words, table, -1)
            return ids, out
        """)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_rewritten_program_is_not_proposed_again(path):
    after = CODEMOD.apply(File("m.py", path.read_text()))
    assert sites(CODEMOD.find(File("m.py", after))) == []
    assert CODEMOD.apply(File("m.py", after)) == after


def test_names_that_the_file_uses_are_left_alone():
    before = """\
        from operator import itemgetter as repeat

        _look_up = itemgetter = np = None


        def encode(words, table):
            return [table[w] for w in words]
        """
    after = apply(before)
    assert "import numpy\n" in after
    assert "from operator import itemgetter as _itemgetter\n" in after
    assert "return _look_up_keys(words, table)" in after
    space = run(after)
    assert space["encode"](["a", "b"], {"a": 1, "b": 2}) == [1, 2]


def test_vectorize_of_get_becomes_one_call():
    before = """\
        import numpy as np


        def encode(words, table):
            a = np.vectorize(table.get)(words[0])
            return a, np.vectorize(lambda w: table.get(w, -1), otypes=[int])(words), np.vectorize(
                lambda w: table.get(w, -1)
            )(words)
        """
    body = apply(before).partition("def encode")[2]
    assert body == dedent("""\
        (words, table):
            a = _look_up_array(words[0], table)
            return a, np.vectorize(lambda w: table.get(w, -1), otypes=[int])(words), _look_up_array(words, table, -1)
        """)


def test_a_dictionary_that_the_module_imports_is_certain():
    before = "from tables import TABLE\n\n\ndef f(keys):\n    return [TABLE[k] for k in keys]\n"
    assert "    return _look_up(keys, TABLE)\n" in apply(before)
    for other in (before + "    TABLE = 1\n", before + "\n\nTABLE = {}\n"):
        assert reasons(other) == [UNSTEADY]


UNSTEADY = "the dictionary or its default is not certain to be the same for every key"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return [self.tables['x'][k] for k in keys]", UNSTEADY),
        ("return [self.later[k] for k in keys]", UNSTEADY),
        ("return [self.sometimes[k] for k in keys]", UNSTEADY),
        ("return [table()[k] for k in keys]", UNSTEADY),
        ("return [d[k] if k in d else make() for k in keys]", UNSTEADY),
        (
            "return [d.get(k, 0) for k in keys]",
            "a comprehension of get over what is no array: map() was hardly faster when measured",
        ),
        (
            "return [d.get(k.decode(), 0) for k in keys]",
            "each key is made (decoded, say) in the same pass: map() over both was not faster when "
            "measured",
        ),
        (
            "return [d[k] for k in (keys := list(keys))]",
            "the keys are an expression that binds a name or waits",
        ),
        (
            "return [[d[k] for k in row] for row in keys]",
            "look-ups of a few keys for each row: a call for each row was slower when measured",
        ),
        ("return [d[k]  # one\n for k in keys]", "a comment stands inside the loop"),
    ],
)
def test_what_is_not_certain_or_not_faster_is_left_with_a_reason(body, reason):
    text = f"""\
def table(): return {{}}
class Model:
    def initialize(self, args):
        self.tables = {{}}
        if args:
            self.sometimes = {{}}
    def reload(self):
        self.later = {{}}
    def execute(self, keys, d):
        {body}
"""
    assert reasons(text) == [reason]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["out = []", "LOOP", "return out, k"], "'k' is used outside the loop"),
        (["LOOP", "return out"], "'out' is not certain to be a list of this function's own"),
        (["out = make()", "LOOP"], "'out' is not certain to be a list of this function's own"),
        (
            ["out = []", "LOOP", "out = [1]"],
            "'out' is not certain to be a list of this function's own",
        ),
    ],
)
def test_a_loop_that_would_leave_a_trace_is_left(lines, reason):
    loop = "for k in keys:\n        if k in d: out.append(d[k])\n        else: out.append(None)"
    body = "".join(f"    {loop if line == 'LOOP' else line}\n" for line in lines)
    assert reasons(
        f"def f(keys, d, out=None):\n{body}".replace(
            ", out=None", ", out" if lines[0] == "LOOP" else ""
        )
    ) == [reason]


@pytest.mark.parametrize(
    "body",
    [
        "[d[k] for k in keys if k]",
        "[d[k] for j in keys for k in j]",
        "[k[d] for k in keys]",
        "[d[k:] for k in keys]",
        "[d[k, 0] for k in keys]",
        "[d.get(k, default=0) for k in keys]",
        "[d.get(*k) for k in keys]",
        "np.vectorize(d.get, otypes=[int])(keys)",
        "[k.get(k) for k in keys]",
        "[d[k] if k in e else 0 for k in keys]",
        "{d[k] for k in keys}",
        "sum(d[k] for k in keys)",
        "[d[k] for k, v in keys]",
    ],
)
def test_other_loops_are_none_of_its_business(body):
    assert reasons(f"def f(keys, d, e):\n    return {body}\n") == []


def test_a_dictionary_that_fills_itself_still_does():
    after = apply("def f(keys, d):\n    return [d[k] for k in keys]\n")
    space = run(after)
    table = collections.defaultdict(list)
    assert space["f"](["a", "b", "a"], table) == [[], [], []]
    assert dict(table) == {"a": [], "b": []}


def test_what_an_appending_loop_had_found_before_it_failed_stays():
    text = """\
def f(keys, d):
    out = []
    try:
        for k in keys:
            try:
                out.append(d[k])
            except KeyError:
                out.append(None)
    except TypeError:
        pass
    return out
"""
    before, after = run(text), run(apply(text))
    assert apply(text) != text
    for keys in (["a", "b", [], "a"], [*["a"] * 40, {}, "a"], iter(["a", []])):
        given = list(keys)
        assert after["f"](iter(given), {"a": 1}) == before["f"](iter(given), {"a": 1})
        assert after["f"](given, {"a": 1}) == before["f"](given, {"a": 1})


def outcome(text, *arguments):
    """Return what `f` of the file returns, with types, or its error."""
    try:
        made = run(text)["f"](*arguments)
    except Exception as error:  # noqa: BLE001  # whatever it is, it must stay
        return type(error), str(error)
    return type(made), getattr(made, "dtype", None), repr(made)


@pytest.mark.parametrize(
    "lines",
    [
        'return [d[k] for k in ("a", "b")]',
        'return [d[k]for k in("a", "b")]',
        "return [y for y in[d[k]for k in keys]if y]",
        "return [d[k]if k in d else(0)for k in keys]",
        'for k in "a", "zz":\n        out.append(d[k] if k in d else 0)\n    return out',
        "for k in (w := keys), keys:\n        out.append(d[k] if k in d else 0)\n    return out",
        "return [d[k] for k in (s.lower() for s in keys)]",
        "for i, k in enumerate(s.lower() for s in keys):\n        out[i] = d.get(k, -1)\n    return out",
    ],
)
def test_keys_of_any_spelling_stay_one_argument(lines):
    before = f"def f(keys, d):\n    out = []\n    {lines}\n"
    assert outcome(apply(before), ["a", "b"], {"a": 1, "b": 2}) == outcome(
        before, ["a", "b"], {"a": 1, "b": 2}
    )


@pytest.mark.parametrize(
    "keys",
    [
        [[b"a"], [b"b"]],
        [1, "a"],
        ["a\0", "a"],
        [2**63 + 1, -1],
        [True, 1],
        ("a", "b"),
        [1, 3],
        [],
        None,
        "a",
        [b"a", "a"],
    ],
)
def test_what_numpy_makes_of_a_list_of_keys_stays(keys):
    before = "import numpy as np\n\n\ndef f(keys, d):\n    return np.vectorize(d.get)(keys)\n"
    d = {1: 5, "a": 7, "b": 8, 3: 2.5, b"a": 1, b"b": 2, "a\0": 1.5, 2.0**63: 0.5}
    assert apply(before) != before
    assert outcome(apply(before), keys, d) == outcome(before, keys, d)


@pytest.mark.parametrize(
    ("owner", "first", "left"),
    [
        ("TritonPythonModel", "if not args:\n            return", True),
        ("TritonPythonModel", "if not args:\n            raise ValueError(args)", False),
        ("Reader", "if not args:\n            raise ValueError(args)", True),
        ("TritonPythonModel", "self.off = lambda: (yield)", False),
    ],
)
def test_an_attribute_that_may_not_be_set_is_not_certain(owner, first, left):
    text = f"""\
class {owner}:
    def initialize(self, args):
        {first}
        self.v = load(args)

    def execute(self, keys):
        return [self.v[k] if k in self.v else 0 for k in keys]
"""
    assert (sites(CODEMOD.find(File("m.py", text))) == []) is left


@pytest.mark.parametrize(
    "after", ["k += 1", "del k", "use(lambda: k)", "global k", "def read():\n        return k"]
)
def test_a_loop_whose_name_lives_on_is_left(after):
    first, last = (after, "pass") if after.startswith("global") else ("pass", after)
    body = f"def f(keys, d):\n    {first}\n    out = []\n    for k in keys:\n"
    body += f"        out.append(d[k] if k in d else 0)\n    {last}\n"
    assert reasons(body) == ["'k' is used outside the loop"]


def test_tight_spelling_stays_python():
    line = "return [y for y in[d[k]if k in d else(0)for k in np.array(keys)]if y]"
    before = f"import numpy as np\n\n\ndef f(keys, d):\n    {line}\n"
    after = apply(before)
    assert "in(_look_up_or(np.array(keys), d, 0))if y]" in after
    assert outcome(after, ["a", "b"], {"a": 1}) == outcome(before, ["a", "b"], {"a": 1})
