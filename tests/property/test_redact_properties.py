"""Redaction of anything: settled after one call, line by line, never longer but by its marks."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from layers.redact import MARK, redact
from tests import canaries

TOKENS = list(canaries.tokens().values())
PIECES = st.sampled_from(
    [
        *TOKENS,
        canaries.pem(),
        canaries.pem(end=" "),
        "-----BEGIN X-----",
        "-----END X-----",
        "https://",
        "user:pass@host",
        "Authorization: ",
        "Bearer ",
        "PASSWORD=",
        "password: ",
        "A_TOKEN=",
        "cookie: a=",
        MARK,
        canaries.body(30),
        "\\_",
        "\\n",
        '"',
        "\n",
        " ",
        "@",
        ".",
        "-",
        "&#8203;",
    ]
)
TEXT = st.lists(PIECES | st.text(max_size=8), max_size=12).map("".join)
SECRETS = st.lists(st.text(max_size=12) | st.just("REDACTED-x"), max_size=3)


@given(TEXT, SECRETS)
@example("-----BEGIN A-----" * 3 + "\n" + "A" * 70, [])
@example("://a@" * 5, [])
@example("A_TOKEN=" * 4 + "REDACTED", ["REDACTED-x"])
def test_the_result_of_a_result_is_itself(text, secrets):
    once = redact(text, secrets)
    assert redact(once, secrets) == once


@given(TEXT, SECRETS)
def test_lines_stay_lines(text, secrets):
    assert redact(text, secrets).count("\n") == text.count("\n")


@given(TEXT, SECRETS)
def test_a_text_grows_by_its_marks_at_most(text, secrets):
    redacted = redact(text, secrets)
    assert len(redacted) <= len(text) + redacted.count(MARK) * len(MARK)


@given(TEXT, st.sampled_from(TOKENS), TEXT)
def test_no_token_survives_between_blanks(before, token, after):
    assert f" {token} " not in redact(f"{before} {token} {after}")


@given(TEXT, st.text(min_size=6, max_size=30).filter(lambda secret: secret == secret.strip()))
def test_a_given_value_does_not_survive(text, secret):
    lines = [line.strip() for line in secret.splitlines() if len(line.strip()) >= 6]
    redacted = redact(f"{text} {secret} {text}", [secret])
    assert all(line not in redacted for line in lines if line not in MARK)


@given(
    st.dictionaries(TEXT, TEXT | st.integers() | st.lists(TEXT, max_size=3), max_size=4), SECRETS
)
def test_json_stays_json(document, secrets):
    written = json.dumps(document, ensure_ascii=False, indent=1)
    structure = [type(value) for value in document.values()]
    read = json.loads(redact(written, secrets))
    assert len(read) <= len(document)
    if len(read) == len(document):
        assert [type(value) for value in read.values()] == structure
