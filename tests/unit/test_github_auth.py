"""Credentials from the environment."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.github.api import Clock
from bot.github.auth import (
    PERMISSIONS,
    AppCredentials,
    Credentials,
    InstallationAuth,
    TokenCredentials,
    check_repository,
)
from bot.github.replies import TokenReply
from layers.errors import InvalidInput, Missing

TOKEN = "canary-" + "token-" + "0123456789"


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    pem = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, pem, serialization.NoEncryption()).decode()


@pytest.fixture
def key_file(tmp_path: Path, private_key: str) -> Path:
    path = tmp_path / "app.pem"
    path.write_text(private_key)
    return path


def test_a_token_is_read_from_the_environment() -> None:
    credentials = Credentials.from_environment({"FVEC_GITHUB_TOKEN": f" {TOKEN}\n"})

    assert isinstance(credentials, TokenCredentials)
    assert credentials.token("owner/serve") == TOKEN
    assert credentials.secrets() == (TOKEN,)
    assert credentials.login is None
    assert credentials.api_url == "https://api.github.com"


@pytest.mark.parametrize(
    ("environ", "login"),
    [
        ({}, None),
        ({"GITHUB_ACTIONS": "true"}, "github-actions[bot]"),
        ({"GITHUB_ACTIONS": "false"}, None),
        ({"GITHUB_ACTIONS": "true", "FVEC_GITHUB_LOGIN": "fvec[bot]"}, "fvec[bot]"),
        ({"FVEC_GITHUB_LOGIN": "octocat"}, "octocat"),
    ],
)
def test_whose_token_it_is_is_known_in_actions_or_told(environ, login) -> None:
    credentials = Credentials.from_environment({"FVEC_GITHUB_TOKEN": TOKEN, **environ})

    assert credentials.login == login


@pytest.mark.parametrize(
    ("environ", "api_url"),
    [
        ({"GITHUB_API_URL": "https://github.example/api/v3/"}, "https://github.example/api/v3"),
        ({"GITHUB_API_URL": ""}, "https://api.github.com"),
        ({"FVEC_GITHUB_API_URL": "http://127.0.0.1:4900"}, "http://127.0.0.1:4900"),
        (
            {"FVEC_GITHUB_API_URL": "http://localhost:1", "GITHUB_API_URL": "https://other"},
            "http://localhost:1",
        ),
    ],
)
def test_another_github_is_named_by_the_environment(environ, api_url) -> None:
    credentials = Credentials.from_environment({"FVEC_GITHUB_TOKEN": TOKEN, **environ})

    assert credentials.api_url == api_url


def test_credentials_go_nowhere_but_to_https() -> None:
    with pytest.raises(InvalidInput, match="not an address of GitHub's API"):
        Credentials.from_environment(
            {"FVEC_GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": "http://github.example/api/v3"}
        )


@pytest.mark.parametrize("environ", [{}, {"FVEC_GITHUB_TOKEN": " \n"}, {"GITHUB_TOKEN": TOKEN}])
def test_missing_credentials_are_told_with_how_to_get_them(environ) -> None:
    with pytest.raises(Missing, match="no credentials for GitHub") as caught:
        Credentials.from_environment(environ)

    assert caught.value.hint is not None
    for name in ("FVEC_GITHUB_TOKEN", "FVEC_APP_ID", "FVEC_APP_PRIVATE_KEY_FILE", "checks: write"):
        assert name in caught.value.hint


@pytest.mark.parametrize(
    ("environ", "lacking"),
    [
        ({"FVEC_APP_ID": "42"}, "FVEC_APP_PRIVATE_KEY_FILE"),
        ({"FVEC_APP_PRIVATE_KEY_FILE": "app.pem"}, "FVEC_APP_ID"),
    ],
)
def test_half_an_app_names_the_other_half(environ, lacking) -> None:
    with pytest.raises(Missing, match=f"^{lacking} is not set"):
        Credentials.from_environment(environ)


def test_a_token_and_an_app_together_are_refused(key_file: Path) -> None:
    with pytest.raises(InvalidInput, match="both FVEC_GITHUB_TOKEN and a GitHub App"):
        Credentials.from_environment(
            {
                "FVEC_GITHUB_TOKEN": TOKEN,
                "FVEC_APP_ID": "42",
                "FVEC_APP_PRIVATE_KEY_FILE": str(key_file),
            }
        )


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "t\u00f6ken", "nul\0", "x" * 5000])
def test_what_cannot_stand_in_a_header_is_no_token(token: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Credentials.from_environment({"FVEC_GITHUB_TOKEN": token})

    assert token not in str(caught.value)


@pytest.mark.parametrize("login", ["-dash", "a b", "[bot]", "x[BOT", "a/b"])
def test_a_login_is_checked(login: str) -> None:
    with pytest.raises(InvalidInput, match="FVEC_GITHUB_LOGIN is no login"):
        Credentials.from_environment({"FVEC_GITHUB_TOKEN": TOKEN, "FVEC_GITHUB_LOGIN": login})


def test_an_app_is_read_from_the_environment(key_file: Path) -> None:
    credentials = Credentials.from_environment(
        {"FVEC_APP_ID": "42", "FVEC_APP_PRIVATE_KEY_FILE": str(key_file)}
    )

    assert isinstance(credentials, AppCredentials)
    assert credentials.login is None
    assert credentials.secrets() == ()


def test_a_key_that_is_not_there_is_missing(tmp_path: Path) -> None:
    environ = {"FVEC_APP_ID": "42", "FVEC_APP_PRIVATE_KEY_FILE": str(tmp_path / "none.pem")}

    with pytest.raises(Missing, match="cannot be read: No such file"):
        Credentials.from_environment(environ)


def test_a_file_that_is_no_key_is_told_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "other.pem"
    path.write_text(TOKEN)

    with pytest.raises(InvalidInput, match="not a private key in PEM") as caught:
        Credentials.from_environment({"FVEC_APP_ID": "42", "FVEC_APP_PRIVATE_KEY_FILE": str(path)})

    assert TOKEN not in str(caught.value)


def test_a_damaged_key_does_not_sign(private_key: str) -> None:
    lines = private_key.splitlines()
    damaged = "\n".join([lines[0], *lines[3:]])

    with pytest.raises(InvalidInput, match="does not sign"):
        AppCredentials("42", damaged)


def test_an_app_id_is_checked(key_file: Path) -> None:
    with pytest.raises(InvalidInput, match="FVEC_APP_ID is no id"):
        Credentials.from_environment(
            {"FVEC_APP_ID": "42/../x", "FVEC_APP_PRIVATE_KEY_FILE": str(key_file)}
        )


def test_no_repr_shows_a_value(private_key: str) -> None:
    reply = TokenReply(token=TOKEN, expires_at=datetime(2026, 1, 1, tzinfo=UTC))
    held = InstallationAuth(lambda: reply, Clock())
    assert held.token == TOKEN

    shown = [
        f"{value!r} {value}"
        for value in (TokenCredentials(TOKEN), AppCredentials("42", private_key), reply, held)
    ]

    assert not any(TOKEN in text or "PRIVATE KEY" in text for text in shown)
    assert repr(TokenCredentials(TOKEN)) == "TokenCredentials(...)"


def test_an_app_asks_for_no_more_than_it_needs() -> None:
    assert dict(PERMISSIONS) == {
        "checks": "write",
        "contents": "write",
        "issues": "write",
        "metadata": "read",
        "pull_requests": "write",
    }


def test_an_installation_token_is_renewed_before_it_ends() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = [start]
    minted: list[str] = []

    def mint() -> TokenReply:
        minted.append(f"{TOKEN}{len(minted)}")
        return TokenReply(token=minted[-1], expires_at=times[0] + timedelta(hours=1))

    auth = InstallationAuth(mint, Clock(now=lambda: times[0]))
    got = []
    for minutes in (0, 30, 55, 56, 100, 120):
        times[0] = start + timedelta(minutes=minutes)
        got.append(auth.token)

    assert [minted.index(token) for token in got] == [0, 0, 0, 1, 1, 2]
    assert [auth.token_type] == ["token"]
    assert auth.held == minted[-1]


@pytest.mark.parametrize(
    "name", ["", "serve", "owner/", "/serve", "owner/..", "owner/a/b", "owner/a b", "-o/a", "o/a\n"]
)
def test_a_repository_is_an_owner_and_a_name(name: str) -> None:
    with pytest.raises(InvalidInput, match="not a repository"):
        check_repository(name)
