"""Workflows run by `act` on this machine, without docker: every step is a process here.

Real: the workflows, the composite actions, their shell, fvec, git. Stand-ins: the three actions of
others (checkout, upload and download of artifacts), which are no part of this repository. What act
does not know is not shown by it: `permissions`, `concurrency`, the runner's isolation.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STUBS = Path(__file__).parent / "stubs"
FOREIGN = {
    "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683": STUBS / "checkout",
    "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02": STUBS / "upload",
    "actions/download-artifact@d3f86a106a0bac45b974a628896c90dbdf5c8093": STUBS / "download",
}
LABELS = ("ubuntu-24.04", "self-hosted", "gpu")
TIMEOUT_S = 240


def tool(name: str) -> Path | None:
    """Return a program that was installed beside the interpreter, None where it was not."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    return Path(found) if found else None


@dataclass(frozen=True)
class Ran:
    """One run of a workflow: its exit code, what it said, and how each job ended."""

    code: int
    said: str
    jobs: Mapping[str, str]  # "success", "failure", by the last part of the job's name
    steps: Mapping[str, list[str]]  # names of steps that ended well, by job


@dataclass(frozen=True)
class Site:
    """A checkout with workflows in it, and where its runs keep what they make."""

    root: Path  # the folder that act works in, with .github/workflows
    repository: Path  # what the stand-in for actions/checkout clones
    place: Path  # for homes, artifacts and programs

    @property
    def artifacts(self) -> Path:
        return self.place / "artifacts"

    def run(
        self, event: str, payload: Mapping[str, Any], *, env: Mapping[str, str], token: str = ""
    ) -> Ran:
        """Run the workflows that an event starts."""
        for name in ("home", "artifacts", "bin"):
            (self.place / name).mkdir(parents=True, exist_ok=True)
        written = self.place / "event.json"
        written.write_text(json.dumps(payload))
        done = subprocess.run(
            [
                *self._argv(event, written),
                *(f"--env={name}={value}" for name, value in env.items()),
            ],
            cwd=self.root,
            env=self._environment(token),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        lines = list(_lines(done.stdout))
        return Ran(
            done.returncode,
            "\n".join(str(line.get("msg", "")) for line in lines) + done.stderr,
            {_job(line): str(line["jobResult"]) for line in lines if "jobResult" in line},
            _steps(lines),
        )

    def _argv(self, event: str, payload: Path) -> list[str]:
        act = tool("act")
        assert act is not None
        argv = [str(act), event, "-e", str(payload), "--json", "--no-cache-server"]
        argv += ["--no-skip-checkout", "--secret=GITHUB_TOKEN", f"--env=PATH={self._path()}"]
        argv += [f"--env=FVEC_TEST_ARTIFACTS={self.artifacts}"]
        argv += [f"--env=FVEC_TEST_REPOSITORY={self.repository}", f"--env=FVEC_TEST_SOURCE={ROOT}"]
        argv += [f"--platform={label}=-self-hosted" for label in LABELS]
        return argv + [f"--local-repository={name}={stub}" for name, stub in FOREIGN.items()]

    def _path(self) -> str:
        return f"{self.place / 'bin'}:/usr/local/bin:/usr/bin:/bin"

    def _environment(self, token: str) -> dict[str, str]:
        return {
            "PATH": self._path(),
            "HOME": str(self.place / "home"),
            "LC_ALL": "C.UTF-8",
            "GITHUB_TOKEN": token or "none",
            "XDG_CACHE_HOME": str(self.place / "home" / ".cache"),
        }

    def install(self, script: str) -> None:
        """Put a program named `fvec` on the path; `script` is what a shell runs for it."""
        program = self.place / "bin" / "fvec"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)


def replaying() -> str:
    """Return the script of fvec that replays what it measures; its caches are the user's own."""
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    program = Path(__file__).with_name("program.py")
    return (
        'export GITHUB_SERVER_URL="$FVEC_GITHUB_API_URL"\n'
        f"export XDG_CACHE_HOME='{cache}' PYTHONPATH='{ROOT}'\n"
        f"exec '{sys.executable}' -P '{program}' \"$@\""
    )


def _lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _job(line: Mapping[str, Any]) -> str:
    """Return the name of a job, without the number that act gives to those of a matrix."""
    name = str(line.get("job", "")).rpartition("/")[2].strip()
    own = (line.get("matrix") or {}).get("name")
    return f"{name.partition(own)[0]}{own}" if own else name


def _steps(lines: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.get("stepResult") == "success":
            found.setdefault(_job(line), []).append(str(line.get("step", "")))
    return found
