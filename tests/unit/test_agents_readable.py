"""Whether all of an edit can be read: what is hidden, no text, or oddly encoded is named."""

from __future__ import annotations

from functools import partial

import pytest

from layers.agents.workbench.quoting import hidden_lines
from layers.agents.workbench.readable import Unreadable, unreadable
from layers.redact import redact

OLD = b"import os\nPAD_TOKEN = lookup_of_the_padding\nprint(1)\n"
KEY = "hunter2-is-no-password"
PEM = "\n".join(["-----BEGIN PRIVATE KEY-----", "eval/x" * 6, "-----END PRIVATE KEY-----"])


def found(
    new: bytes | None, old: bytes | None = OLD, path: str = "models/m.py"
) -> Unreadable | None:
    return unreadable({path: new}, {path: old}.get, partial(redact, secrets=[KEY]))


@pytest.mark.parametrize(
    "new",
    [
        b"def f():\n    return 1\n",
        b"# -*- coding: utf-8 -*-\n",
        b"#!/usr/bin/env python\n# vim: set fileencoding=latin-1 :\n",
        "n\u00e4me = 1\n".encode(),
        OLD + b"print(2)\n",  # what was hidden before is nothing that the edit adds
        OLD.replace(b"import os\n", b""),
        b"",
        None,
    ],
)
def test_text_that_hides_nothing_new_can_be_read(new: bytes | None) -> None:
    assert found(new) is None


@pytest.mark.parametrize(
    ("new", "lines"),
    [
        (b"x = 1\nLAST_TOKEN = _memo[k]if[k][0]in[*_memo]else[f][0](x\n", "models/m.py:2"),
        (b"hf_aaaaaaaaaaaaaaaaaaaaaaaa = 1\n", "models/m.py:1"),
        (f"x\n{PEM}\n".encode(), "models/m.py:2, models/m.py:3, models/m.py:4"),
        (OLD.replace(b"the_padding", b"a_memo[k]"), "models/m.py:2"),  # as many as before
        (OLD + OLD, "models/m.py:5"),
        (f"x = '{KEY}'\n".encode(), "models/m.py:1"),
        ("gh\u200bp_aaaaaaaaaaaaaaaaaaaaaaaaaa = 1\n".encode(), "models/m.py:1"),
    ],
)
def test_lines_that_would_be_taken_out_are_named_and_not_repeated(new: bytes, lines: str) -> None:
    problem = found(new)

    assert problem is not None
    assert problem.reason == "looks_like_a_secret"
    assert problem.detail.endswith(f": {lines}")
    assert KEY not in problem.detail


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (OLD, b"x\0y", "models/m.py is binary"),
        (None, b"\0", "models/m.py is binary"),
        (b"\0weights", None, "models/m.py is binary"),
        (OLD, b"caf\xe9\n", "models/m.py is not UTF-8"),
        (OLD, b"# coding: utf-7\n", "models/m.py declares another encoding than UTF-8"),
        (OLD, b"\n#" + b" " * 400 + b"coding=raw_unicode_escape\n", "another encoding"),
        (OLD, b"#\r# coding: utf-7\n", "another encoding"),
    ],
)
def test_what_is_no_plain_text_is_refused(old: bytes | None, new: bytes | None, why: str) -> None:
    problem = found(new, old)

    assert problem is not None
    assert problem.reason == "unreadable"
    assert why in problem.detail


def test_a_third_line_declares_nothing() -> None:
    assert found(b"\n\n# coding: utf-7\n") is None


def test_a_name_that_looks_like_a_secret_is_refused_without_it() -> None:
    problem = found(b"x\n", None, f"models/{KEY}.txt")

    assert problem == Unreadable(
        "looks_like_a_secret", "the name of a file looks like one: models/REDACTED.txt"
    )


def test_hidden_lines_are_those_that_change() -> None:
    text = "a\r\nAPI_KEY=0123456789abcdef\r\nb\n"
    assert hidden_lines(text) == [(2, "API_KEY=0123456789abcdef\r")]
