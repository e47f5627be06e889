from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from layers.features.codemod import File
from layers.features.codemods.inputs.lookups import CODEMOD
from layers.features.sites import Refusal, Site, refusals, sites

PROGRAMS = sorted((Path(__file__).parent / "test_features_programs" / "lookups").glob("*.txt"))
IMPORT = "import triton_python_backend_utils as pb\n"


def find(text, path="m.py"):
    return CODEMOD.find(File(path, text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def program(body):
    return IMPORT + dedent(body)


def test_builds_the_dict_where_the_first_lookup_stood_and_keeps_all_else():
    before = program("""
        NAMES = ["a", "b"]  # keep


        class Model:
            def execute(self, requests):
                out = []
                for request in requests:
                    # first the user
                    user = pb.get_input_tensor_by_name( request, "user" )   # spaced
                    for name in NAMES:
                        out.append(pb.get_input_tensor_by_name(request, name).as_numpy())
                return out
        """)
    assert apply(before) == program('''
        NAMES = ["a", "b"]  # keep


        def _inputs_by_name(request):
            """Return the input tensors of `request` by name; of equal names the first counts."""
            return {tensor.name(): tensor for tensor in reversed(request.inputs())}


        class Model:
            def execute(self, requests):
                out = []
                for request in requests:
                    inputs = _inputs_by_name(request)
                    # first the user
                    user = inputs.get("user")   # spaced
                    for name in NAMES:
                        out.append(inputs.get(name).as_numpy())
                return out
        ''')


def test_hands_the_dict_to_helpers_which_stay_callable_without_it():
    before = program("""

        def column(request, name):
            return pb.get_input_tensor_by_name(request, name)


        def execute(requests):
            for request in requests:
                yield column(request, "a"), column(
                    request,
                    "b",
                )
        """)
    assert apply(before) == program('''

        def _inputs_by_name(request):
            """Return the input tensors of `request` by name; of equal names the first counts."""
            return {tensor.name(): tensor for tensor in reversed(request.inputs())}


        def column(request, name, inputs=None):
            if inputs is None:
                inputs = _inputs_by_name(request)
            return inputs.get(name)


        def execute(requests):
            for request in requests:
                inputs = _inputs_by_name(request)
                yield column(request, "a", inputs=inputs), column(
                    request,
                    "b",
                    inputs=inputs,
                )
        ''')


def test_takes_names_that_the_file_does_not_use():
    text = program("""
        def execute(request, inputs, _inputs_by_name):
            return [pb.get_input_tensor_by_name(request, n) for n in inputs]
        """)
    assert "tensors = _tensors_by_name(request)" in apply(text)


def test_sites_name_the_lines_of_the_lookups():
    text = program("""
        def read(request):
            first = pb.get_input_tensor_by_name(request, "a")
            return first, pb.get_input_tensor_by_name(
                request, "b"
            )
        """)
    assert find(text, "m.py") == [
        Site("m.py", 4, [4, 5, 6, 7], "look-ups by name in 'request'", [4])
    ]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_rewritten_file_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert sites(find(after, path.name)) == []
    assert apply(after) == after


ONE = "a single look-up of this request: one pass saves nothing"
AGAIN = "the name of the request is bound again inside the loop"


@pytest.mark.parametrize(
    ("body", "reason", "line"),
    [
        ("def f(request):\n    return pb.get_input_tensor_by_name(request, 'a')\n", ONE, 3),
        (
            "def f(rs):\n    return [pb.get_input_tensor_by_name(r, 'a') for r in rs]\n",
            "the request is the variable of a comprehension",
            3,
        ),
        (
            "def f(rs):\n    return pb.get_input_tensor_by_name(rs[0], 'a')\n",
            "the request is an expression, not a name",
            3,
        ),
        (
            "def f(request):\n    request = g(request)\n"
            "    return pb.get_input_tensor_by_name(request, 'a')\n",
            "the name of the request is bound more than once",
            4,
        ),
        (
            "def f(rs):\n    for r in rs:\n        for r in r.parts:\n"
            "            pb.get_input_tensor_by_name(r, 'a')\n",
            AGAIN,
            5,
        ),
        (
            "def f(*args):\n    return pb.get_input_tensor_by_name(*args)\n",
            "the arguments are unpacked from a sequence",
            3,
        ),
        (
            "def f(request, names):\n    return map(partial(pb.get_input_tensor_by_name, request), names)\n",
            "the look-up function is passed on as a value",
            3,
        ),
        (
            "def f(names):\n    return [pb.get_input_tensor_by_name(request, n) for n in names]\n",
            "the request comes from outside this function's own names",
            3,
        ),
        (
            "def f(rs):\n    for r in rs: print([pb.get_input_tensor_by_name(r, n) for n in 'ab'])\n",
            "the body stands on the same line",
            3,
        ),
        (
            "def f(rs, qs):\n    for r in rs:\n        a(pb.get_input_tensor_by_name(r, 'a'))\n"
            "        a(pb.get_input_tensor_by_name(r, 'b'))\n        for q in qs:\n"
            "            pb.get_input_tensor_by_name(q, 'a')\n",
            "two requests are handled at once",
            7,
        ),
    ],
)
def test_leaves_what_is_not_certain_and_says_why(body, reason, line):
    assert refusals(find(IMPORT + body, "m.py")) == [Refusal(reason, line)]


def test_a_helper_that_another_class_also_defines_is_not_handed_the_dict():
    text = program("""
        class A:
            def get(self, request, name):
                return pb.get_input_tensor_by_name(request, name)

            def all(self, request):
                return self.get(request, "a"), self.get(request, "b")


        class B(A):
            def get(self, request, name):
                return None
        """)
    assert find(text, "m.py") == [Refusal(ONE, 5)]


@pytest.mark.parametrize(
    ("nest", "refusal"),
    [
        ("(" * 3000 + ")" * 3000, Refusal("not valid Python", 2)),
        ("[" * 150 + "]" * 150, Refusal("nested too deeply, or not text", 1)),
        ("-" * 5000 + "1", Refusal("nested too deeply, or not text", 1)),
        ("+".join("a" * 9000), Refusal("nested too deeply, or not text", 1)),
        ("x" + ".a" * 5000, Refusal("nested too deeply, or not text", 1)),
    ],
    ids=["parentheses", "lists", "minus", "sum", "attributes"],
)
def test_deep_nesting_is_refused_and_ends_nothing(nest, refusal):
    text = f"import triton_python_backend_utils as get_input_tensor_by_name\ny = {nest}\n"
    assert find(text, "m.py") == [refusal]


@pytest.mark.parametrize(
    "text", ["get_input_tensor_by_name(:\n", "\tget_input_tensor_by_name\n", "\0", ""]
)
def test_a_file_that_is_not_python_or_empty_has_no_site(text):
    assert sites(find(text, "m.py")) == []


def test_a_function_of_the_same_name_that_is_not_the_servers_is_left():
    text = "from mine import get_input_tensor_by_name\n" + dedent("""
        def f(request):
            return [get_input_tensor_by_name(request, n) for n in "ab"]
        """)
    assert find(text, "m.py") == []
    assert apply(text) == text


CONDITION = "a condition decides whether the request is looked into"
AT_TIMES = "a single look-up at times, where no caller hands the inputs in"


@pytest.mark.parametrize(
    "body",
    [
        """
            a = pb.get_input_tensor_by_name(request, "a") if request is not None else None
            b = pb.get_input_tensor_by_name(request, "b") if request is not None else None
        """,
        """
            a = request is not None and pb.get_input_tensor_by_name(request, "a")
            b = [pb.get_input_tensor_by_name(request, n) for n in "ab" if request is not None]
        """,
        """
            a = b = None
            if request is not None:
                a = pb.get_input_tensor_by_name(request, "a")
            if request is not None:
                b = [pb.get_input_tensor_by_name(request, n) for n in "bc"]
        """,
        """
            for n in "ab":
                if request is None:
                    return None, None
                a = b = pb.get_input_tensor_by_name(request, n)
        """,
        """
            try:
                a = pb.get_input_tensor_by_name(request, "a")
            except AttributeError:
                a = None
            with suppress(AttributeError):
                b = [pb.get_input_tensor_by_name(request, n) for n in "bc"]
        """,
    ],
)
def test_what_may_be_no_request_is_not_asked_for_inputs_on_a_condition_only(body):
    text = IMPORT + f"\n\ndef both(request):{body.rstrip()}\n            return a, b\n"
    text = text.replace("            ", "    ")
    found = find(text)
    assert sites(found) == []
    assert {refusal.reason for refusal in refusals(found)} <= {CONDITION, AT_TIMES}
    assert apply(text) == text


def test_a_request_that_the_server_made_may_be_asked_on_a_condition():
    text = program("""
        class TritonPythonModel:
            def execute(self, requests):
                for request in requests:
                    a = pb.get_input_tensor_by_name(request, "a") if self.a else None
                    b = pb.get_input_tensor_by_name(request, "b") if self.b else None
        """)
    assert len(sites(find(text))) == 1


def test_no_parameter_is_added_to_a_function_that_takes_any_keyword():
    text = program("""
        class TritonPythonModel:
            def _one(self, request, name, **options):
                return pb.get_input_tensor_by_name(request, name)

            def execute(self, requests):
                for request in requests:
                    yield self._one(request, "a"), self._one(request, "b", **OPTIONS)
        """)
    assert find(text) == [Refusal(ONE, 5)]
    plain = text.replace(", **options", "")
    assert find(plain) == [Refusal(ONE, 5)]
    assert len(sites(find(plain.replace(", **OPTIONS", "")))) == 2


def test_branches_that_exclude_each_other_are_one_look_up():
    text = program("""
        class TritonPythonModel:
            def execute(self, requests):
                for request in requests:
                    if self.first:
                        a = pb.get_input_tensor_by_name(request, "a")
                    else:
                        a = pb.get_input_tensor_by_name(request, "b")
        """)
    assert [item.reason for item in find(text)] == [ONE, ONE]
    early = program("""
        class TritonPythonModel:
            def execute(self, requests):
                for request in requests:
                    if self.first:
                        return pb.get_input_tensor_by_name(request, "a")
                    return pb.get_input_tensor_by_name(request, "b")
        """)
    assert [item.reason for item in find(early)] == [ONE, ONE]


def test_a_function_that_is_not_always_handed_the_inputs_walks_them_for_two_look_ups_alone():
    text = program("""

        def read(request, name):
            tensor = pb.get_input_tensor_by_name(request, name)
            if tensor is None:
                tensor = pb.get_input_tensor_by_name(request, name.lower())
            return tensor


        READERS = {"a": read}


        class TritonPythonModel:
            def execute(self, requests):
                for request in requests:
                    yield READERS["a"](request, "a"), read(request, "b"), read(request, "c")
        """)
    assert {item.reason for item in find(text)} == {AT_TIMES}
    assert sites(find(text)) == []
    handed = text.replace('READERS = {"a": read}', "READERS = {}")
    assert len(sites(find(handed))) == 2
