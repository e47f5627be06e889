import html
import json

import pytest

from bot.render.text import code, fence, inline, one_line, prose, title
from layers.redact import MARK, known_secrets, redact
from tests import canaries

TOKENS = canaries.tokens()


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_is_taken_out_whatever_stands_around_it(name):
    token = TOKENS[name]
    for before, after in (("", ""), ("x ", " y"), ('"', '"'), ("(", ")"), ("=", "\n"), ("", ", y")):
        assert redact(f"{before}{token}{after}") == f"{before}{MARK}{after}"


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_is_taken_out_of_every_form_that_text_leaves_in(name):
    token = TOKENS[name]
    told = f"log: {token}, done"
    for written in (
        inline(told),
        code(told),
        fence(told),
        prose(told),
        title(told),
        one_line(told),
    ):
        assert token[-12:] not in written
        assert MARK in written


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_that_was_escaped_for_markdown_is_taken_out_of_a_body(name):
    escaped = TOKENS[name].replace("_", "\\_")
    assert redact(f"x {escaped} y") == f"x {MARK} y"


def test_a_token_is_taken_out_before_the_text_is_cut():
    token = TOKENS["github personal"]
    assert one_line(f"{'x' * 20} {token}", 40) == f"{'x' * 20} {MARK}"


def test_a_token_that_was_hidden_by_unseen_characters_is_taken_out():
    token = TOKENS["github personal"]
    assert one_line(f"{token[:10]}\u200b{token[10:20]}\u3164{token[20:]}") == MARK


@pytest.mark.parametrize(
    "label",
    ["PRIVATE" + " KEY", "RSA PRIVATE" + " KEY", "OPENSSH PRIVATE" + " KEY", "CERTIFICATE"],
)
def test_a_block_is_taken_out_and_its_lines_stay(label):
    block = canaries.pem(label)
    assert redact(f"a\n{block}\nb") == f"a\n{MARK}{chr(10) * block.count(chr(10))}\nb"


def test_a_block_with_headers_is_taken_out():
    block = canaries.pem("RSA PRIVATE" + " KEY")
    first, _, rest = block.partition("\n")
    headers = f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{'0' * 32}\n\n"
    assert redact(f"{first}\n{headers}{rest}").strip("\n") == MARK


@pytest.mark.parametrize("end", [" ", "\n  ", "\r\n", "\\n", "\n+"])
def test_a_block_that_was_folded_indented_or_escaped_is_taken_out(end):
    told = redact(f"x {canaries.pem(end=end)} y")
    assert told.replace("\n", "") == f"x {MARK} y"


def test_a_block_that_was_cut_off_is_taken_out_as_far_as_it_goes():
    block = canaries.pem()
    cut = block[: block.index(canaries.body(20) + "==") - 30]
    assert redact(f"x\n{cut}").rstrip("\n") == f"x\n{MARK}"


def test_the_two_lines_of_a_block_do_not_swallow_what_stands_between_them():
    told = f"-----BEGIN X{'-' * 5}\nThe change was slower.\n-----END X{'-' * 5}"
    assert redact(told) == f"{MARK}\nThe change was slower.\n-----END X-----"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("https://user:{s}@example.org/x", "https://REDACTED@example.org/x"),
        ("https://{s}@example.org", "https://REDACTED@example.org"),
        (
            "https:&#8203;//user:{s}@&#8203;example.org",
            "https:&#8203;//REDACTED@&#8203;example.org",
        ),
        ("postgres://u:p{s}@db:5432/x?y=z@w", "postgres://REDACTED@db:5432/x?y=z@w"),
        ("Authorization: Bearer {s}", "Authorization: Bearer REDACTED"),
        ("AUTHORIZATION: basic {s}==", "AUTHORIZATION: basic REDACTED"),
        ('{{"Authorization": "token {s}"}}', '{{"Authorization": "token REDACTED"}}'),
        ("http.extraHeader=Authorization: {s}", "http.extraHeader=Authorization: REDACTED"),
        ("-H 'X-Api-Key: {s}'", "-H 'X-Api-Key: REDACTED'"),
        ("sent bearer {s} to", "sent bearer REDACTED to"),
        ("Set-Cookie: session={s}; Path=/", "Set-Cookie: REDACTED; Path=/"),
        ("GITHUB_TOKEN={s}", "GITHUB_TOKEN=REDACTED"),
        ("DB_PASSWORD='{s}'", "DB_PASSWORD='REDACTED'"),
        (
            "export FVEC_WEBHOOK_SECRET={s}\nPATH=/bin",
            "export FVEC_WEBHOOK_SECRET=REDACTED\nPATH=/bin",
        ),
        ("WANDB\\_API\\_KEY={s}", "WANDB\\_API\\_KEY=REDACTED"),
        ("aws_secret_access_key = {s}/+", "aws_secret_access_key = REDACTED"),
        ('"SecretAccessKey": "{s}"', '"SecretAccessKey": "REDACTED"'),
        ("password: {s}", "password: REDACTED"),
        ("client_secret={s}&x=y", "client_secret=REDACTED&x=y"),
    ],
)
def test_what_a_name_says_is_secret_is_taken_out(text, redacted):
    secret = canaries.body(20)
    assert redact(text.replace("{s}", secret)) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "tokens: 1048576, max_tokens=4096, MAX_TOKENS=1048576000",
        "TOKENIZERS_PARALLELISM=disabled-by-us",
        "the password is asked for, and authorization: required",
        "token = get_token(request.headers)",
        "api_key=os.environ['X']",
        "GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}",
        "3f1d2c" + "0" * 34,
        "sha256:" + "0123456789abcdef" * 4,
        "https://example.org/a@b",
        "git@example.org:owner/serve.git",
        "sk-learn and task-" + "a" * 40,
        "models/ranker/1/model.py: decode in preprocess",
        "highs_and_lows_of_a_very_long_name, self_attention_of_github_pages",
        "-----BEGIN nothing",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


def test_given_values_are_taken_out_in_every_form():
    value = 'pa"ss&wo<rd\\_$1@x#2'
    document = json.dumps({"log": f"it was {value}."})
    assert json.loads(redact(document, [value])) == {"log": f"it was {MARK}."}
    for written in (value, html.escape(value), inline(value), code(value)):
        assert MARK in redact(f"a {written} b", [value])
        assert "wo" not in redact(f"a {written} b", [value])


def test_a_given_value_of_several_lines_goes_line_by_line():
    secret = f"first-{canaries.body(8)}\nsecond-{canaries.body(8)}\n\nx"
    assert redact(f"  {secret}", [secret]) == f"  {MARK}\n{MARK}\n\nx"


def test_the_longest_of_two_given_values_goes_first():
    assert redact("abcdefgh-1234", ["abcdefgh", "abcdefgh-1234"]) == MARK


@pytest.mark.parametrize("secret", ["", "a", "fvec", "ACTED", MARK, "REDACT"])
def test_a_value_that_is_hardly_one_is_left(secret):
    assert redact("fvec acted, REDACTED", [secret]) == "fvec acted, REDACTED"


def test_the_secrets_of_an_environment_are_those_whose_names_say_so():
    environment = {
        "GITHUB_TOKEN": "one-secret-value",
        "FVEC_WEBHOOK_SECRET": "new-secret-value,old-secret-value",
        "DB_PASSWORD": "short",
        "API_KEY": "another-value",
        "FVEC_APP_PRIVATE_KEY_FILE": "/somewhere/key.pem",
        "SSH_AUTH_SOCK": "/run/agent.sock",
        "HOME": "/home/someone",
        "MONKEY": "not-a-secret",
        "AWS_ACCESS_KEY_ID": "name-of-a-key",
        "GITHUB_PAT": "a-personal-token",
        "DB_CREDENTIALS": "name-and-word",
        "AGENT_AUTH": "who-is-asking",
        "SESSION_COOKIE": "a-long-session",
        "REPORTS_DSN": "db://name:word@host",
        "USER": "the-runner",
    }
    assert set(known_secrets(environment)) == {
        "one-secret-value",
        "new-secret-value,old-secret-value",
        "new-secret-value",
        "old-secret-value",
        "another-value",
        "a-personal-token",
        "name-and-word",
        "who-is-asking",
        "a-long-session",
        "db://name:word@host",
    }
    assert redact("it is old-secret-value.", known_secrets(environment)) == f"it is {MARK}."
