"""The versions that a commit names: packages, base images, and which versions of models it serves.

Two analyses of the same versions find the same things; when one has moved, the old answer is no
longer about what is served. Files are data of a stranger's repository: they are read, bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

MOST_READ = 50  # files of one commit: through GitHub's API each is a request
MOST_FILE_BYTES = 2**20
MOST_ENTRIES = 1_000
MOST_TEXT = 1_000_000  # characters read of one file
MOST_VALUE = 200  # characters of one version
_REQUIREMENTS = re.compile(r"(requirements|constraints)[\w.-]*\.(txt|in)", re.ASCII)
_DOCKERFILE = re.compile(r"(Dockerfile|Containerfile)(\.[\w.-]+)?|[\w.-]+\.[Dd]ockerfile", re.ASCII)
_FROM = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)", re.IGNORECASE | re.MULTILINE)
_MODEL_CONFIG = "config.pbtxt"
_POLICY = re.compile(r"\bversion_policy\s*:?\s*\{")
_COMMENT = re.compile(r"#[^\n]*")
_PLAIN_FILES = frozenset({"100644", "100755"})


def names_packages(path: str) -> bool:
    """Say whether a file of this path names packages or a base image."""
    pure = PurePosixPath(path)
    listed = pure.suffix in (".txt", ".in") and pure.parent.name == "requirements"
    return bool(listed or _REQUIREMENTS.fullmatch(pure.name) or _DOCKERFILE.fullmatch(pure.name))


def is_read(path: str) -> bool:
    """Say whether `read` looks into a file of this path."""
    return names_packages(path) or PurePosixPath(path).name == _MODEL_CONFIG


def to_read(files: Iterable[tuple[str, str, int]]) -> list[str]:
    """Return which files of a commit `read` is given, at most `MOST_READ`, of plain files alone.

    `files` are path, mode (as git writes it) and size of every file. Whoever looks at a commit, by
    git or through GitHub, has to read the same ones: else versions would seem to move.
    """
    plain = [
        path
        for path, mode, size in files
        if mode in _PLAIN_FILES and size <= MOST_FILE_BYTES and is_read(path)
    ]
    return sorted(plain, key=lambda path: (not names_packages(path), path))[:MOST_READ]


def model_version(path: str) -> tuple[str, int] | None:
    """Return folder and version of the model that a file is, None for any other file.

    `models/ranker/3/model.onnx` is version 3 of `models/ranker`.
    """
    parts = PurePosixPath(path).parts
    for place in range(1, len(parts) - 1):
        if re.fullmatch(r"[0-9]{1,18}", parts[place]) and parts[place + 1].startswith("model."):
            return "/".join(parts[:place]), int(parts[place])
    return None


def read(files: Mapping[str, str], paths: Iterable[str] = ()) -> dict[str, str]:
    """Return every version that the files name, by what it is the version of, at most `MOST_ENTRIES`.

    `files` maps the path of a file that `is_read` to its text, `paths` are those of all files of
    the commit. Keys: `torch (requirements.txt)`, `image 1 (Dockerfile)`, `version_policy
    (models/ranker/config.pbtxt)`, `models/ranker`. Lines that are not understood are left out.
    """
    found: dict[str, str] = {}
    for path in sorted(files):
        text = files[path][:MOST_TEXT]
        if PurePosixPath(path).name == _MODEL_CONFIG:
            entries = _version_policy(text)
        elif names_packages(path):
            name = PurePosixPath(path).name
            entries = _images(text) if _DOCKERFILE.fullmatch(name) else _packages(text)
        else:
            continue
        found |= {f"{name} ({path})": version for name, version in entries.items()}
    found |= _models(paths)
    kept = sorted(found.items())[:MOST_ENTRIES]
    return {key[-MOST_VALUE:]: version[:MOST_VALUE] for key, version in kept}


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Say in words which versions differ, sorted; a new and a gone one among them."""
    told = {
        name: f"{name} from {before.get(name, 'none')} to {after.get(name, 'none')}"
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }
    return [told[name] for name in sorted(told)]


def _packages(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        asked = line.partition("#")[0].partition(" --")[0].strip(" \t\\")
        try:
            requirement = Requirement(asked)
        except InvalidRequirement:
            continue
        found[canonicalize_name(requirement.name)] = str(requirement.specifier) or "any"
    return found


def _images(text: str) -> dict[str, str]:
    named = (image for image in _FROM.findall(text))
    return {f"image {n}": image for n, image in enumerate(named, start=1)}


def _version_policy(text: str) -> dict[str, str]:
    """Return the text of `version_policy`, white space folded; nothing where it is not closed."""
    plain = _COMMENT.sub("", text)
    start = _POLICY.search(plain)
    if start is None:
        return {}
    depth = 1
    for place in range(start.end(), len(plain)):
        depth += {"{": 1, "}": -1}.get(plain[place], 0)
        if depth == 0:
            return {"version_policy": " ".join(plain[start.end() : place].split())}
    return {}


def _models(paths: Iterable[str]) -> dict[str, str]:
    versions: dict[str, set[int]] = {}
    for path in paths:
        if served := model_version(path):
            versions.setdefault(served[0], set()).add(served[1])
    return {folder: ", ".join(map(str, sorted(found))) for folder, found in versions.items()}
