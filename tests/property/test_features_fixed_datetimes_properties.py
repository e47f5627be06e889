"""A text cut by the places of its fields gives the moment, or the error, that its format gives."""

import importlib.util
import runpy
import warnings
from datetime import datetime
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.features.codemod import File
from layers.features.codemods.frames.fixed_datetimes import CODEMOD

PROGRAMS = Path(__file__).parents[1] / "unit" / "test_features_programs"
_spec = importlib.util.spec_from_file_location("features_harness", PROGRAMS / "harness.py")
harness = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(harness)

FORMATS = [
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%d",
    "%d/%m/%Y %H:%M",
    "%Y%m%d%H%M%S",
    "%Y-%m-%d %H:%M:%S.%f",
    "%m.%d.%Y",
]
EDGES = ["2020-02-30", "1900-02-29 00:00:00", "2020-01-01 24:00:00", "2020-01-01 23:59:60"]
EDGES += ["0000-01-01", "1677-09-21 00:12:43", "2262-04-12", "9999-12-31 23:59:59", "NaT"]
EDGES += ["2020-W01-1", "20200102T030405.123", "2020-01-02\t03:04:05", "٢٠٢٠-01-02", "2020-001"]
OTHERS = st.sampled_from([b"2020-01-02", None, 0, 1.5, float("nan"), np.str_("2020-01-02"), ["x"]])


@st.composite
def texts(draw):
    """Moments written in one of the formats, with one character changed, and odd texts."""
    moment = draw(st.datetimes())
    text = moment.strftime(draw(st.sampled_from(FORMATS)))
    text = text.zfill(len(text)) if draw(st.booleans()) else f"{moment.year:04d}{text[4:]}"
    if draw(st.booleans()) and text:
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + draw(st.sampled_from("0123456789 -:/T.Z+\0a٣\ud800")) + text[at + 1 :]
    return draw(st.sampled_from([text, text, text, np.str_(text)]))


ANY = st.one_of(texts(), texts(), st.sampled_from(EDGES), st.text(max_size=20), OTHERS)


def functions(tmp_path, lines, imports):
    """Return the same function before and after the rewrite."""
    text = f"{imports}\n\n\ndef read(x):\n" + "".join(f"    {line}\n" for line in lines)
    made = []
    for n, code in enumerate((text, CODEMOD.apply(File("m.py", text)))):
        path = tmp_path / f"m{n}.py"
        path.write_text(code)
        made.append(runpy.run_path(str(path))["read"])
    assert code != text
    return made


def seen(function, text):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = function(text)
    except (*harness.ERRORS, RuntimeError) as error:
        return type(error), str(error)
    return type(made), repr(made)


@pytest.mark.parametrize("layout", FORMATS)
def test_strptime_gives_the_same_moment_or_error(tmp_path, layout):
    imports = "import numpy as np\nfrom datetime import datetime"
    before, after = functions(tmp_path, [f'return datetime.strptime(x, "{layout}")'], imports)

    @settings(max_examples=80, deadline=None)
    @given(text=ANY | st.datetimes().map(lambda moment: moment.strftime(layout)))
    def check(text):
        assert seen(after, text) == seen(before, text)

    check()


FIELDS = "t.year, t.month, t.day, t.hour, t.minute, t.second, t.microsecond, t.quarter, t.dayofweek"
FIELDS += ", t.day_of_week, t.dayofyear, t.day_of_year, t.weekday(), t.isoweekday(), t.date()"
FIELDS += ", t.time(), t.toordinal()"
CALLS = ["to_datetime(x)", 'to_datetime(x, errors="coerce")']
CALLS += [f'to_datetime(x, format="{layout}")' for layout in (*FORMATS, "%m%d%YT%H:%M:%SZ")]


@pytest.mark.parametrize("call", CALLS)
def test_pandas_gives_the_same_fields_or_error(tmp_path, call):
    pytest.importorskip("pandas", reason="pandas is what the rewrite is compared with")
    lines = [f"t = pd.{call}", f"return [(type(v), v) for v in ({FIELDS})]"]
    before, after = functions(tmp_path, lines, "import numpy as np\nimport pandas as pd")
    years = st.datetimes(*map(datetime.fromisoformat, ("1600-01-01", "2400-01-01")))

    @settings(max_examples=50, deadline=None)
    @given(text=ANY | years.flatmap(lambda m: st.sampled_from(FORMATS).map(m.strftime)))
    def check(text):
        assert seen(after, text) == seen(before, text)

    check()


def column(made):
    """Return all that a caller can tell of a column of moments."""
    name, index = made.name, list(made.index) if hasattr(made, "index") else made.freq
    return type(made), made.dtype, name, index, made.to_numpy().tobytes()


COLUMNS = ["%d/%m/%Y %H:%M", "%m.%d.%Y", "%d-%m-%Y %H:%M:%S.%f", "%m%d%YT%H:%M:%SZ"]


@pytest.mark.parametrize("layout", COLUMNS)
def test_pandas_gives_the_same_column_or_error(tmp_path, layout):
    pd = pytest.importorskip("pandas", reason="pandas is what the rewrite is compared with")
    lines = [f'made = pd.to_datetime(x, format="{layout}")', "return made"]
    before, after = functions(tmp_path, lines, "import numpy as np\nimport pandas as pd")
    kinds = [list, np.array, lambda xs: np.array(xs, dtype=object), tuple]
    kinds += [lambda xs: pd.Series(xs, index=range(3, 3 + len(xs)), name="at", dtype=object)]
    kinds += [lambda xs: pd.Series(xs, name=3), pd.Index]
    written = st.datetimes().map(
        lambda m: f"{m.year:04d}".join(m.strftime(layout.replace("%Y", "|")).split("|"))
    )
    edges = st.sampled_from(["0", "13", "29", "30", "31", "24", "60"])

    @settings(max_examples=60, deadline=None)
    @given(
        texts=st.lists(written, min_size=7, max_size=70),
        odd=st.one_of(st.just(None), ANY, edges),
        at=st.integers(0, 15),
        kind=st.sampled_from(kinds),
    )
    def check(texts, odd, at, kind):
        if odd in ("0", "13", "29", "30", "31", "24", "60"):
            texts = [texts[0][:at] + odd.zfill(2) + texts[0][at + 2 :], *texts[1:]]
        elif odd is not None:
            texts = [*texts[1:], odd]
        seen_both = []
        for function in (before, after):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    seen_both.append(column(function(kind(texts))))
            except (*harness.ERRORS, RuntimeError) as error:
                seen_both.append((type(error), str(error)))
        assert seen_both[0] == seen_both[1]

    check()


@cache
def rewritten(path):
    before = path.read_text()
    return before, CODEMOD.apply(File(path.name, before))


@pytest.mark.parametrize("path", harness.programs("fixed_datetimes"), ids=lambda path: path.name)
@settings(max_examples=60, deadline=None)
@given(
    batch=st.lists(st.one_of(texts(), st.sampled_from(EDGES)), max_size=4)
    | st.lists(st.datetimes().map(lambda m: m.strftime("%d/%m/%Y %H:%M")), min_size=8, max_size=12)
)
def test_rewritten_program_gives_the_same_bits(path, batch):
    if "pandas" in path.name:
        pytest.importorskip("pandas", reason="pandas is what the rewrite is compared with")
    before, after = rewritten(path)
    assert after != before
    cells = [text.encode("utf-8", "surrogatepass") for text in batch]
    asked = [harness.request([("at", np.array(cells, dtype=object))])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert harness.outcome(after, asked, texts=True) == harness.outcome(
            before, asked, texts=True
        )
