"""The GitHub App of the fake: its key, its id, and the check of its JWT."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.github.shapes import APP_SLUG
from tests.github.state import Delivery


class App:
    """A GitHub App with one installation; its key is made when it is first asked for."""

    id = 4242
    installation = 77_001
    slug = APP_SLUG

    def __init__(self, redeliver: Callable[[Delivery], None]) -> None:
        """Use `redeliver` for what the API asks to be delivered again."""
        self.redeliver = redeliver

    @functools.cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65_537, key_size=2048)

    @property
    def private_key(self) -> str:
        """Return the private key, PEM."""
        return self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ).decode()

    def signed(self, token: str) -> bool:
        """Say whether a JWT is signed with the App's key, of this App and not expired."""
        try:
            jwt.decode(
                token, self._key.public_key(), algorithms=["RS256"], issuer=str(self.id), leeway=60
            )
        except jwt.PyJWTError:
            return False
        return True
