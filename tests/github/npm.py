"""Public npm packages as test data: fetched once into the user's cache, never committed."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 240.0


class Unavailable(Exception):
    """The package cannot be had here; the text says why (for `pytest.skip`)."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package at one version; `integrity` is npm's, of the tarball: "sha512-BASE64"."""

    name: str
    version: str
    integrity: str


OPENAPI = Package(
    "@octokit/openapi",
    "23.0.2",
    "sha512-pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
)
WEBHOOK_EXAMPLES = Package(
    "@octokit/webhooks-examples",
    "7.6.1",
    "sha512-De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ==",
)
WEBHOOK_SCHEMAS = Package(
    "@octokit/webhooks-schemas",
    "7.6.1",
    "sha512-qW0Bwtb76r4m2WzVhKDyfEeEnt1GEQoRjkCqmq2ZeB0nNVDJ+Z2LBDS9FDPyduuMXf/ZTWiCJp9PFFHgRfBe3A==",
)


def cache_folder() -> Path:
    """Return the folder in the user's cache where test data is kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fvec-tests"


def unpacked(package: Package, only: str = "") -> Path:
    """Return the folder that holds the files of a package whose names start with `only`.

    Raises `Unavailable` where npm is absent or the package cannot be fetched, and ValueError where
    what was fetched is not what it should be.
    """
    wanted = hashlib.sha256(f"{package.integrity} {only}".encode()).hexdigest()[:12]
    name = f"{package.name.replace('/', '-').removeprefix('@')}-{package.version}-{wanted}"
    place = cache_folder() / name
    if place.is_dir():
        return place
    with _locked(cache_folder() / f"{name}.lock"):
        if not place.is_dir():
            _fetch(package, only, place)
    return place


def _fetch(package: Package, only: str, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetch-") as folder:
        tarball = _packed(package, Path(folder))
        _check(package, tarball)
        contents = Path(folder) / "contents"
        _extract(tarball, only, contents)
        contents.rename(place)


def _packed(package: Package, folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed: GitHub's description of its API comes from there")
    command = [npm, "pack", "--silent", f"{package.name}@{package.version}"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm pack {package.name} took longer than {_TIMEOUT_S:g} s") from None
    found = list(folder.glob("*.tgz"))
    if done.returncode != 0 or len(found) != 1:
        # npm's own words may name a private registry: they stay out of the report.
        raise Unavailable(f"npm cannot fetch {package.name}@{package.version} here")
    return found[0]


def _check(package: Package, tarball: Path) -> None:
    digest = hashlib.sha512(tarball.read_bytes()).digest()
    found = f"sha512-{base64.b64encode(digest).decode()}"
    if found != package.integrity:
        raise ValueError(f"{package.name}@{package.version} has another content: {found}")


def _extract(tarball: Path, only: str, contents: Path) -> None:
    contents.mkdir()
    with tarfile.open(tarball) as archive:
        for member in archive:
            if member.isfile() and member.name.startswith(f"package/{only}"):
                archive.extract(member, contents, filter="data")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes: parallel tests fetch once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
