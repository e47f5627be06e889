from datetime import datetime
from pathlib import Path
from textwrap import dedent

import pytest

from layers.features.codemod import File
from layers.features.codemods.frames.fixed_datetimes import CODEMOD
from layers.features.sites import Refusal, Site, sites

PROGRAMS = sorted(
    (Path(__file__).parent / "test_features_programs" / "fixed_datetimes").glob("*.py.txt")
)


def find(text):
    return CODEMOD.find(File("m.py", text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def function(body):
    imports = "import pandas as pd\nfrom datetime import datetime\n"
    return f"{imports}\n\ndef f(x, xs):\n    {body}\n"


def test_adds_a_function_that_reads_the_fields_where_they_are():
    after = apply(function('return datetime.strptime(x, "%d/%m/%Y %H:%M").hour'))
    assert after.partition("def _parsed")[2] == dedent(
        '''\
        _datetime(text):
            """Read dates as _datetime.strptime(text, "%d/%m/%Y %H:%M"), by the places of their fields."""
            if (
                type(text) is str
                and len(text) == 16
                and text[2] == text[5] == "/"
                and text[10] == " "
                and text[13] == ":"
                and text[11:13] != "24"
            ):
                try:
                    return _datetime.fromisoformat(text[6:10] + "-" + text[3:5] + "-" + text[0:2] + " " + text[11:13] + ":" + text[14:16])
                except ValueError:
                    pass  # not such a date: the original call says so, or knows better
            return _datetime.strptime(text, "%d/%m/%Y %H:%M")


        def f(x, xs):
            return _parsed_datetime(x).hour
        '''
    )


def test_calls_of_one_format_share_a_function():
    body = 'a = datetime.strptime(x, "%Y-%m-%d")\n    b = datetime.strptime(xs, "%Y-%m-%d")\n'
    body += '    c = datetime.strptime(x, "%Y%m%d")\n    return pd.to_datetime(x).dayofweek'
    after = apply(function(body))
    assert after.partition("def f")[2] == dedent("""\
        (x, xs):
            a = _parsed_datetime(x)
            b = _parsed_datetime(xs)
            c = _parsed_datetime_2(x)
            return _parsed_datetime_3(x).dayofweek
        """)


def test_a_column_of_texts_has_a_function_of_its_own():
    body = 'return pd.to_datetime(xs, format="%d/%m/%Y").dt.hour, pd.to_datetime(x, format="%Y").a'
    text = "import numpy as np\n" + function(body)
    assert "return _parsed_datetimes(xs).dt.hour, pd.to_datetime(x, format=" in apply(text)
    assert find(text) == [
        Site("m.py", 7, [7], "texts read as %d/%m/%Y"),
        Refusal("the format lacks a part of the date or the time", 7),
    ]


def test_names_the_line_and_the_format():
    text = function('return datetime.strptime(x, "%Y-%m-%d")')
    assert find(text) == [Site("m.py", 6, [6], "a text read as %Y-%m-%d")]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_rewritten_file_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert after != path.read_text()
    assert sites(find(after)) == []
    assert apply(after) == after


FIELDS = "the result is used for more than its fields, or is not one moment"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('return datetime.strptime(x, "%d %b %Y")', "the format's %b has no fixed width"),
        ('return datetime.strptime(x, "%Y-%m-%d %z")', "the format's %z has no fixed width"),
        ('return datetime.strptime(x, "%Y-%m-%d %")', "the format's % has no fixed width"),
        ('return datetime.strptime(x, "%H:%M")', "the format lacks a part of the date or the time"),
        (
            'return datetime.strptime(x, "%Y-%m-%d %H")',
            "the format lacks a part of the date or the time",
        ),
        ('return datetime.strptime(x, "%Y-%Y-%m-%d")', "the format names a field twice"),
        ('return datetime.strptime(x, "on %Y-%m-%d")', "the format has 'o' between its fields"),
        ("return datetime.strptime(x, xs)", "an argument is not text written where the call is"),
        ("return datetime.strptime(*xs)", "the text is not the first argument"),
        ("return pd.to_datetime(x)", FIELDS),
        (
            'return pd.to_datetime(x, format="%Y-%m-%d")',
            "pandas reads whole columns of this format in C",
        ),
        ("return pd.to_datetime(xs).dt.hour", FIELDS),
        ("return pd.to_datetime(x).timestamp()", FIELDS),
        ("t = pd.to_datetime(x)\n    return t.hour, t - xs", FIELDS),
        ("return pd.to_datetime(x, utc=True).hour", "pandas is given more than a format"),
        ('return pd.to_datetime(x, errors="ignore").hour', "pandas is given more than a format"),
    ],
)
def test_leaves_what_is_not_certain_and_says_why(body, reason):
    text = "import numpy as np\n" + function(body)
    assert [item.reason for item in find(text)] == [reason]
    assert apply(text) == text


def test_leaves_what_runs_once():
    text = 'from datetime import datetime\n\nSTART = datetime.strptime("2020-01-01", "%Y-%m-%d")\n'
    assert [item.reason for item in find(text)] == ["this runs once, when the model is loaded"]


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d %H:%M:%S.%f", "%d.%m.%Y %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M"]
)
@pytest.mark.parametrize(
    "call", ['datetime.strptime(x, "F")', 'pd.to_datetime(x, format="F").hour']
)
def test_no_other_character_is_read_as_part_of_the_date(form, call):
    before = function(f"return {call}".replace("F", form))
    after = apply(before)
    assert after != before
    names, others = {}, {}
    exec(before, names)  # noqa: S102  # a program of this file
    exec(after, others)  # noqa: S102

    def seen(function, text):
        try:
            return repr(function(text, None))
        except ValueError as error:
            return str(error)

    good = datetime(2024, 1, 2, 12, 30, 45, 123456).strftime(form)  # noqa: DTZ001
    endings = ["+01", "+0100", "-0100", "Z", "+1", "+01:00", ".1", " ", "1²", "٣"]
    texts = [good[: len(good) - len(end)] + end for end in endings]
    texts += [good[:n] + odd + good[n + 1 :] for n in range(len(good)) for odd in "+-Z.:T W7"]
    for text in texts:
        assert seen(others["f"], text) == seen(names["f"], text), text
