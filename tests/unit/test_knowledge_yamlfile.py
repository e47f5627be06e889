from __future__ import annotations

import contextlib
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from knowledge.cards import AnyCard
from knowledge.yamlfile import Problem, YamlError, load, loads
from knowledge.yamltree import MAX_BYTES, parse

HERE = Path("x.yml")


class Fruit(StrEnum):
    APPLE = "apple"
    PEAR = "pear"


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rate: float = Field(gt=0, description="per second")
    names: list[str] = []


class Doc(BaseModel):
    model_config = ConfigDict(extra="forbid")
    inner: Inner
    fruit: Fruit = Fruit.APPLE
    size: Literal["small", "large"] = "small"
    day: date | None = None
    pair: tuple[float, float] | None = None
    flag: bool = False
    count: int = 0
    title: str = ""


def problems(text: str, model: type[BaseModel] = Doc) -> list[tuple[int | None, int | None, str]]:
    with pytest.raises(YamlError) as caught:
        loads(text, HERE, model)
    return [(p.line, p.column, p.message) for p in caught.value.problems]


def test_a_valid_file_becomes_the_model(tmp_path: Path) -> None:
    path = tmp_path / "doc.yml"
    path.write_text(
        "# a comment\ninner: {rate: 1e3, names: [yes, 'on', 1_000, 2026-01-01]}\n"
        "fruit: pear\nsize: large\nday: 2026-11-29\npair: [1, 2.5]\nflag: True\ncount: 0x10\n"
    )
    assert load(path, Doc) == Doc(
        inner=Inner(rate=1000.0, names=["yes", "on", "1_000", "2026-01-01"]),
        fruit=Fruit.PEAR,
        size="large",
        day=date(2026, 11, 29),
        pair=(1.0, 2.5),
        flag=True,
        count=16,
    )


@pytest.mark.parametrize(
    ("block", "title"),
    [
        (">-\n  one\n  two\n\n  three\n    four", "one two\nthree\n  four"),
        (">\n  one\n  two", "one two\n"),
        ("|-\n  one\n  two", "one\ntwo"),
        ('"a bell \\a"', "a bell \a"),
    ],
)
def test_a_text_over_several_lines_has_no_character_that_is_not_written(block, title) -> None:
    assert loads(f"inner: {{rate: 1}}\ntitle: {block}\n", HERE, Doc).title == title


def test_a_folded_text_cannot_bring_a_bell() -> None:
    assert problems("inner: {rate: 1}\ntitle: >\n  one\n  t\awo\n") == [
        (4, 4, "unprintable character '\\x07'")
    ]


def test_every_error_is_listed_with_line_column_and_hint() -> None:
    text = "inner:\n  rat: 1\n  names: [a, 1e3]\nfruit: aple\nflag: yes\ncount: '3'\ntitle: 5\n"
    with pytest.raises(YamlError) as caught:
        loads(text, HERE, Doc)
    assert str(caught.value) == (
        "x.yml:1:1: inner.rate: is missing\n  hint: per second\n"
        "x.yml:2:3: inner.rat: unknown key\n  hint: did you mean 'rate'?\n"
        "x.yml:3:14: inner.names.1: input should be a valid string, not 1e3\n"
        '  hint: quote it: "1e3"\n'
        "x.yml:4:8: fruit: must be a known value, not aple\n  hint: did you mean 'apple'?\n"
        "x.yml:5:7: flag: input should be a valid boolean, not yes\n  hint: write true or false\n"
        "x.yml:6:8: count: input should be a valid integer, not 3\n  hint: remove the quotes\n"
        'x.yml:7:8: title: input should be a valid string, not 5\n  hint: quote it: "5"'
    )


def test_error_has_the_first_problem_as_its_fields() -> None:
    with pytest.raises(YamlError) as caught:
        loads("inner: {rate: 1}\nsize: huge\n", HERE, Doc)
    error = caught.value
    assert (error.path, error.line, error.column) == (HERE, 2, 7)
    assert (error.message, error.hint) == (
        "size: must be a known value, not huge",
        "allowed: small, large",
    )
    assert error.problems == (Problem(HERE, 2, 7, error.message, error.hint),)


def test_unknown_key_without_a_near_one_names_the_known_ones() -> None:
    with pytest.raises(YamlError) as caught:
        loads("inner: {rate: 1, zzzzzz: 1}\n", HERE, Doc)
    assert caught.value.hint == "known keys: rate, names"


@pytest.mark.parametrize("kind", ["model", "hardware", "server"])  # some are values elsewhere
def test_unknown_key_of_a_discriminated_union_is_compared_with_its_branch_alone(kind: str) -> None:
    adapter = TypeAdapter(AnyCard)
    text = f"schema: fvec.card/1\nkind: {kind}\nid: x\ntitle: t\nfacts: {{}}\nwhy_not: 1\n"
    with pytest.raises(YamlError) as caught:
        loads(text, HERE, adapter)
    assert str(caught.value) == (
        "x.yml:6:1: why_not: unknown key\n"
        "  hint: known keys: schema, kind, id, title, facts, notes, sources"
    )
    assert problems_of_kind("kind: modle\n") == (1, 7, "did you mean 'model'?")


def problems_of_kind(text: str) -> tuple[int | None, int | None, str | None]:
    with pytest.raises(YamlError) as caught:
        loads(text, HERE, TypeAdapter(AnyCard))
    return caught.value.line, caught.value.column, caught.value.hint


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "is empty"),
        ("a: 1\na: 2\n", 2, 1, "duplicate key 'a', first in line 1"),
        ("{a: 1, a: 2}", 1, 8, "duplicate key 'a', first in line 1"),
        ("a: &x 1\n", 1, 4, "anchors are not allowed"),
        ("a: *x\n", 1, 4, "aliases are not allowed"),
        ("a: !!str 1\n", 1, 4, "tags are not allowed"),
        ("a: !!python/object/apply:os.system [id]\n", 1, 4, "tags are not allowed"),
        ("%YAML 1.1\n---\na: 1\n", 2, 1, "directives are not allowed"),
        ("a: 1\n---\nb: 2\n", 2, 1, "a second document"),
        ("<<: {a: 1}\n", 1, 1, "merge keys are not allowed"),
        ("1: x\n", 1, 1, "the key 1 is not a string"),
        ("true: x\n", 1, 1, "the key true is not a string"),
        ("? [a]\n: b\n", 1, 3, "a key must be a string"),
        ("[" * 100_000, 1, 34, "nested deeper than 32 levels"),
        ("a: [1\n", 2, 1, "expected ',' or ']', but got '<stream end>'"),
        ("a: b: c\n", 1, 5, "mapping values are not allowed here"),
        ("a:\n\t- b\n", 2, 1, "found character '\\t' that cannot start any token"),
        ("a: \x01\n", 1, 4, "unprintable character '\\x01'"),
        ('a: "\\ud800"\n', 1, 4, "a lone surrogate is no character"),
        ('a: "\\U00110000"\n', None, None, "is not YAML: chr() arg not in range(0x110000)"),
        ("a: " + "9" * 500, 1, 4, "a number of 500 characters"),
    ],
)
def test_what_lies_outside_the_subset_is_refused_with_its_place(
    text: str, line: int | None, column: int | None, message: str
) -> None:
    assert problems(text)[0] == (line, column, message)


def test_control_characters_of_a_file_do_not_reach_the_terminal() -> None:
    assert problems('inner: {rate: 1}\nsize: "\\e[31m"\n"\\e": 1\n') == [
        (2, 7, "size: must be a known value, not '\\x1b[31m'"),
        (3, 1, "'\\x1b': unknown key"),
    ]


def test_files_that_cannot_be_read_are_errors_without_a_line(tmp_path: Path) -> None:
    big, latin = tmp_path / "big.yml", tmp_path / "latin.yml"
    big.write_bytes(b"#" * (MAX_BYTES + 1))
    latin.write_bytes(b"a: 1\nb: \xff\n")
    for path, text in (
        (tmp_path / "none.yml", "none.yml: not found"),
        (tmp_path, f"{tmp_path.name}: is not a file"),
        (big, "big.yml: is larger than 1048576 bytes"),
        (latin, "latin.yml:2:4: is not UTF-8"),
    ):
        with pytest.raises(YamlError) as caught:
            load(path, Doc)
        assert str(caught.value) == f"{path.parent}/{text}"


@settings(deadline=None)
@given(st.text(alphabet="ab01.:-?#&*!|>'\"[]{},% \n\t\\~e\x85\u2028\ud800é", max_size=40))
def test_any_text_is_a_tree_or_a_yaml_error(text: str) -> None:
    with contextlib.suppress(YamlError):
        parse(text, HERE).data()
