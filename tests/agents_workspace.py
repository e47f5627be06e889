"""A repository with what a workspace must be careful about, for the tests of agents."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

MODEL = "models/ranker/1/model.py"
SOURCE = """\
import numpy as np


class TritonPythonModel:
    def execute(self, requests):
        return [self._one(request) for request in requests]

    def _one(self, request):
        return np.sort(request)
"""
PROTECTED = (".github/fvec.yml", "traffic/requests.bin", "checks/*.py")
FILES: Mapping[str, bytes] = {
    ".github/fvec.yml": b"schema: fvec.manifest/1\n",
    ".gitignore": b"build/\n*.log\n",
    "README.md": b"# Ads\n",
    "checks/referee.py": b"def referee(inputs):\n    return inputs\n",
    "docs/windows.txt": b"one\r\ntwo\r\ntwo and a half\r\n",
    "latin.py": "# caf\xe9\n".encode("latin-1"),
    "models/ranker/config.pbtxt": b'name: "ranker"\n',
    MODEL: SOURCE.encode(),
    "tools/run.sh": b"#!/bin/sh\nexit 0\n",
    "traffic/requests.bin": b"\x00\x01\x02",
}
LINKS = {"data": "outside", f"{MODEL}.link": "outside/secret.txt"}  # to beside the repository
BEYOND = "nobody may read this\n"


def repository(root: Path, files: Mapping[str, bytes] = FILES) -> Path:
    """Make a checkout of one commit at `root`, and beside it a folder that links lead to."""
    outside = root.parent / "outside"
    outside.mkdir(parents=True)
    (outside / "secret.txt").write_text(BEYOND)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name, target in LINKS.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(root.parent / target)
    if (root / "tools/run.sh").exists():
        (root / "tools/run.sh").chmod(0o755)
    identity = ["-c", "user.name=Serving", "-c", "user.email=serving@example.com"]
    for arguments in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        [*identity, "commit", "--quiet", "--message", "The stack"],
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    return root


def applied(folder: Path, old: str, diff: str) -> str:
    """Return what git makes of a file called `file` by a diff."""
    (folder / "file").write_bytes(old.encode())
    subprocess.run(
        ["git", "apply", "-"], input=diff.encode(), cwd=folder, check=True, capture_output=True
    )
    return (folder / "file").read_bytes().decode()
