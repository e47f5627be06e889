from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from layers.features.codemod import File
from layers.features.codemods.text.regex_per_call import CODEMOD
from layers.features.sites import Refusal, Site, sites

PROGRAMS = sorted(
    (Path(__file__).parent / "test_features_programs" / "regex_per_call").glob("*.txt")
)


def find(text):
    return CODEMOD.find(File("m.py", text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def function(body):
    return f"import re\n\n\ndef clean(self, text):\n{indent(dedent(body), '    ')}"


def test_compiles_literals_once_and_shares_equal_ones():
    before = function(r"""
        text = re.sub(r"\s+", " ", text)  # blanks
        if re.match("a", text, re.I) or re.match(pattern="a", flags=re.I, string=text):
            return re.split(r"\s+", text, 2)
        """)
    assert apply(before) == dedent(r"""
        import re

        _PATTERN = re.compile(r"\s+")
        _PATTERN_2 = re.compile("a", re.I)


        def clean(self, text):

            text = _PATTERN.sub(" ", text)  # blanks
            if _PATTERN_2.match(text) or _PATTERN_2.match(string=text):
                return _PATTERN.split(text, 2)
        """).lstrip("\n")


def test_computed_patterns_go_through_a_cache():
    before = function("return [re.sub(self, '', one) for one in text]\n")
    assert (
        apply(before)
        == '''import functools
import re


@functools.lru_cache(maxsize=1024)
def _compiled(pattern, flags=0):
    """Return the compiled pattern: like re's own cache, which is slower and holds 512."""
    return re.compile(pattern, flags)


def clean(self, text):
    return [_compiled(self).sub('', one) for one in text]
'''
    )


def test_a_local_name_of_a_literal_counts_where_it_was_bound_before():
    bound = function("p = 'a+'\nif text:\n    return re.match(p, text)\n")
    branch = function("if self:\n    p = 'a+'\nreturn re.match(p, text)\n")
    assert "return _PATTERN.match(text)" in apply(bound)
    assert "return _compiled(p).match(text)" in apply(branch)


def test_sites_name_the_lines_of_the_call():
    text = function("return re.sub(\n    'a', '', text\n)\n")
    assert find(text) == [Site("m.py", 5, [5, 6, 7], "a literal pattern")]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_rewritten_file_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert after != path.read_text()
    assert sites(find(after)) == []
    assert apply(after) == after


LOCALE = "the flags are computed, or depend on the locale"
FAILS = "the pattern does not compile without an error or a warning"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("re.match('(', text)\n", FAILS),
        ("re.match('[[a]', text)\n", FAILS),
        ("re.match(b'a', text, re.LOCALE)\n", LOCALE),
        ("re.match('a', text, self)\n", LOCALE),
        ("re.match('a', text, re.DEBUG)\n", LOCALE),
        ("re.match(b'(?L)a', text)\n", "the pattern depends on the locale"),
        (
            "re.compile('|'.join(text))\n",
            "what is compiled is computed, which costs more than finding it",
        ),
        (
            "re.match(self, text.lower())\n",
            "the pattern is computed, and arguments after it may fail before it",
        ),
        ("re.match(*text)\n", "the arguments are unpacked from a sequence"),
        ("re.sub('a', '')\n", "not a call with a pattern and what it is matched with"),
    ],
)
def test_says_why_a_call_is_left(body, reason):
    found = find(function(body))
    assert [item.reason for item in found if isinstance(item, Refusal)] == [reason]
    assert apply(function(body)) == function(body)


def test_re_must_be_imported_where_the_file_begins():
    inside = "def f(t):\n    import re\n    return re.sub('a', '', t)\n"
    reason = "the file does not import re at module level before its first function"
    assert find(inside) == [Refusal(reason, 3)]


def test_without_an_import_nothing_is_known_of_re():
    assert find("def f(t):\n    return re.sub('a', '', t)\n") == []


def test_a_function_that_runs_before_the_constants_could_is_left_alone():
    text = "import re\nif re:\n    def f(t):\n        return re.sub('a', '', t)\nX = f('a')\n"
    assert find(text) == []


def test_what_runs_once_is_left_alone():
    text = "import re\nP = re.compile('a')\nclass M:\n    def __init__(self):\n        re.compile('b')\n"
    assert find(text) == []
