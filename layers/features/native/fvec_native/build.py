"""Compiles `_vocabulary.c` for the interpreter that runs this file: `python build.py`.

Needs a C compiler and Python's headers, no package. The extension lies beside the source
afterwards. Exit code 1 when it could not be built; the package then leaves everything to Python.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = ("-O3", "-std=c11", "-fPIC", "-shared", "-Wall", "-Wextra")
TIMEOUT_S = 300


def main() -> int:
    """Build the extension in place; say what was done or what is missing."""
    target = HERE / f"_vocabulary{sysconfig.get_config_var('EXT_SUFFIX') or '.so'}"
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        return _fail(f"{headers}/Python.h is missing; install Python's headers (python3-dev)")
    compiler = _compiler()
    if compiler is None:
        return _fail("no C compiler was found; install gcc or set CC")
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        built = Path(folder) / target.name
        source = HERE / "_vocabulary.c"
        argv = [*compiler, *FLAGS, f"-I{headers}", str(source), "-o", str(built)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return _fail(f"the compiler ran longer than {TIMEOUT_S} s")
        if done.returncode != 0:
            return _fail(f"{shlex.join(argv)}\n{done.stderr}")
        built.replace(target)  # in one step: a server that starts meanwhile sees all or none
    sys.stdout.write(f"built {target}\n")
    return 0


def _compiler() -> Sequence[str] | None:
    """Return the compiler's argv: $CC, the one that built this Python, else the system's."""
    candidates = (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc", "clang")
    for candidate in candidates:
        argv = shlex.split(candidate or "")
        if argv and shutil.which(argv[0]):
            return argv
    return None


def _fail(reason: str) -> int:
    sys.stderr.write(f"the vocabulary was not built: {reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
