"""Who signed a delivery."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.service.signature import Secrets, sign

BODY = b'{"zen": "Keep it logically awesome."}'


def _plain(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def test_a_signature_is_hmac_sha256_over_the_raw_bytes_in_hex():
    expected = hmac.new(b"first", BODY, hashlib.sha256).hexdigest()
    assert sign(BODY, "first") == f"sha256={expected}"


def test_while_secrets_rotate_either_of_them_signs():
    secrets = Secrets.parse("new-one\n old-one\n")
    answers = [secrets.signed(BODY, sign(BODY, one)) for one in ("new-one", "old-one", "other")]
    assert answers == [True, True, False]


def test_a_comma_is_part_of_a_secret():
    secrets = Secrets.parse("aZ,kk93-and-more-of-it")
    answers = [
        secrets.signed(BODY, sign(BODY, one))
        for one in ("aZ,kk93-and-more-of-it", "aZ", "kk93-and-more-of-it")
    ]
    assert answers == [True, False, False]


def test_several_long_ones_on_one_line_count_each_and_together():
    first, second = "a-first-of-16-bytes", "a-second-of-16-bytes"
    secrets = Secrets.parse(f"{first}, {second}")
    answers = [
        secrets.signed(BODY, sign(BODY, one))
        for one in (first, second, f"{first}, {second}", "other")
    ]
    assert answers == [True, True, True, False]
    assert secrets.shortest == len(first)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "sha256=",
        sign(BODY, "first").removeprefix("sha256="),
        sign(BODY, "first").upper(),
        sign(BODY, "first").replace("sha256=", "sha1="),
        sign(BODY, "first") + "0",
        sign(BODY, "first") + "\n",
        sign(BODY + b" ", "first"),
        "sha256=ümlaut",
        "sha256=\udcff",
    ],
)
def test_anything_but_the_exact_header_is_refused_and_raises_nothing(header):
    assert not Secrets(["first"]).signed(BODY, header)


@given(body=st.binary(max_size=200), header=st.text(max_size=100))
def test_no_text_signs_a_body_by_chance(body, header):
    assert not Secrets(["first"]).signed(body, header)


@given(body=st.binary(max_size=200), secret=st.text(min_size=1, max_size=40).filter(_plain))
def test_what_was_signed_is_recognised(body, secret):
    assert Secrets(["another", secret]).signed(body, sign(body, secret))


@pytest.mark.parametrize("text", ["", " ", ",", "\n,\r\n "])
def test_no_secret_is_no_way_to_begin(text):
    with pytest.raises(ValueError, match="a webhook needs a secret that is not empty"):
        Secrets.parse(text)


def test_secrets_show_how_many_they_are_and_nothing_else():
    secrets = Secrets.parse("first-canary\r\n\r\nsecond-canary\nthird")
    assert (repr(secrets), str(secrets), len(secrets), secrets.shortest) == (
        "<3 webhook secrets>",
        "<3 webhook secrets>",
        3,
        5,
    )
