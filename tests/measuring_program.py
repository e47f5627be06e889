"""Stands where `fvec` does when a job measures: it leaves what a recorded run left.

    measuring_program.py FOLDER run CHECKOUT --resume --json --out OUT [--layer L]...
    measuring_program.py FOLDER verify EVIDENCE --stack CHECKOUT --json --out OUT
    measuring_program.py FOLDER judge CHECKOUT --patch FILE [--class C] --json --out OUT
    measuring_program.py FOLDER init ...                   the real `fvec init`
    measuring_program.py FOLDER doctor CHECKOUT --install --json

FOLDER holds `PROGRAM/`, which OUT becomes a copy of, and `branches`, a repository whose branches
the checkout gets. `FOLDER/asked.jsonl` gets one line for each start: what was asked, at which
commit, with which environment and inputs; `FOLDER/doctor.jsonl` is the same of `doctor`, which
answers what `FOLDER/doctor.json` holds, else that the model server is there. `FOLDER/error.json`
makes it end by that error instead; `FOLDER/hang` makes it wait.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path


def main(folder: Path, program: str, argv: list[str]) -> int:
    if program == "init":  # reads a checkout, and is quick: the real one
        return subprocess.call([str(Path(sys.executable).with_name("fvec")), "init", *argv])
    if program == "doctor":
        return _doctor(folder, argv)
    named = dict(pairwise(argv))
    checkout = Path(named["--stack"] if program == "verify" else argv[0])
    inputs = [argv[0]] if program == "verify" else [named["--patch"]] if program == "judge" else []
    _note(folder, program, argv, checkout, [Path(name) for name in inputs])
    error = folder / "error.json"
    if error.is_file():
        sys.stdout.write(error.read_text())
        return int(json.loads(error.read_text())["exit_code"])
    while (folder / "hang").exists():
        time.sleep(0.01)
    out = Path(named["--out"])
    shutil.copytree(folder / program, out, dirs_exist_ok=True)
    if program == "run":
        _git(
            checkout,
            "fetch",
            "--quiet",
            str(folder / "branches"),
            "+refs/heads/fvec/*:refs/heads/fvec/*",
        )
    sys.stdout.write((out / f"{program}.json").read_text())
    return int((folder / "code").read_text()) if (folder / "code").exists() else 0


def _doctor(folder: Path, argv: list[str]) -> int:
    _note(folder, "doctor", argv, Path(argv[0]), [])
    answer = folder / "doctor.json"
    there = {"name": "model server", "ok": True, "detail": "", "fix": ""}
    sys.stdout.write(answer.read_text() if answer.exists() else json.dumps({"checks": [there]}))
    return 0


def _note(folder: Path, program: str, argv: list[str], checkout: Path, inputs: list[Path]) -> None:
    told = {
        "program": program,
        "options": [part for part in argv if not part.startswith("/")],
        "commit": _git(checkout, "rev-parse", "HEAD"),
        "branch": _git(checkout, "rev-parse", "--abbrev-ref", "HEAD"),
        "environment": sorted(os.environ),
        "inputs": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in inputs},
    }
    with (folder / ("doctor.jsonl" if program == "doctor" else "asked.jsonl")).open("a") as file:
        file.write(json.dumps(told) + "\n")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
