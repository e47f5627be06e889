"""The model server's own Python environment: NVIDIA Triton from a wheel, made once and cached.

The server's Python side needs numpy < 2 while the engine uses numpy 2, hence an environment of
its own. Pins: with numpy 2 the server of this wheel aborts on the first string tensor.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from layers.errors import InvalidInput, Missing, ToolFailed
from layers.programs import SYSTEM_PATH, Command, cache_root, exclusive, run_logged
from layers.triton import requirements as wanted_packages

PYTHON_SERIES = (3, 11)  # numpy 1.26 and the backend's stub exist for it
SERVER_VERSION = "2.51.0"
SERVER_WHEEL = "nvidia-pytriton==0.7.0"  # bundles tritonserver 2.51.0 and the Python backend
COMPANIONS = ("tritonclient[grpc]==2.51.0", "numpy==1.26.4")
_CONSTRAINTS = ("tritonclient==2.51.0", "numpy==1.26.4")
_INSTALL_TIMEOUT_S = 1800.0
_COMPLETE = ".complete"  # written last: a folder without it is the rest of a killed install
_STUB = "triton_python_backend_stub"
# The stub's embedded interpreter ignores every PYTHON* variable, so PYTHONDONTWRITEBYTECODE would
# not keep __pycache__ out of a checkout; a .pth file is read by it.
_NO_BYTECODE = ("fvec_no_bytecode.pth", "import sys; sys.dont_write_bytecode = True\n")
# What pip gets of the user's environment besides PIP_* and LC_*: no other program's credentials.
_PIP_SEES = frozenset(
    {"PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "NETRC"}
    | {"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
)
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})  # in either case
_INSTALL_HINT = "run `fvec doctor --install PATH`, where PATH is the serving repository"


@dataclass(frozen=True, slots=True)
class ServerEnvironment:
    """A complete environment: the interpreter, the server binary and its backends."""

    root: Path
    digest: str  # of pins, requirements and interpreter: equal digests behave alike

    @property
    def python(self) -> Path:
        """The interpreter of models and build steps."""
        return self.root / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Where the environment's packages lie."""
        series = ".".join(str(part) for part in PYTHON_SERIES)
        return self.root / "lib" / f"python{series}" / "site-packages"

    @property
    def bundle(self) -> Path:
        """The folder of the server inside the wheel."""
        return self.site_packages / "pytriton" / "tritonserver"

    @property
    def tritonserver(self) -> Path:
        """The server's binary."""
        return self.bundle / "bin" / "tritonserver"

    @property
    def backends(self) -> Path:
        """What `--backend-directory` gets."""
        return self.bundle / "backends"

    @property
    def caches(self) -> Path:
        """What `--cache-directory` gets (the local response cache)."""
        return self.bundle / "caches"

    @property
    def library_path(self) -> str:
        """Folder of the libpython that matches `python`; without it the stub finds another."""
        return str(sysconfig.get_config_var("LIBDIR"))

    @property
    def version(self) -> str:
        """Version of the model server."""
        return SERVER_VERSION


def ensure(requirements: Path | None, *, allow_install: bool) -> ServerEnvironment:
    """Return the server environment for a requirements file, made now where that is allowed.

    It lies under the user's cache folder, by a digest of the pins, the requirements' content and
    the interpreter. `torch==X` needs nothing special: pip's plain resolution takes what the
    configured index offers, so point pip at a CPU index where CUDA wheels are the default.

    Raises InvalidInput for a requirements file that holds more than packages by name or asks for
    what the server cannot run with, Missing when the environment is absent and may not be installed or
    this machine cannot hold it, and ToolFailed when pip fails (with its log).
    """
    text = read_requirements(requirements)
    _check_machine()
    environment = _of(text)
    if _is_complete(environment):
        return environment
    if not allow_install:
        what = f" with {requirements.name}" if requirements else ""
        raise Missing(
            f"the model server's environment ({SERVER_WHEEL}{what}) is not installed",
            hint=_INSTALL_HINT,
        )
    with exclusive(environment.root.with_suffix(".lock")):
        if not _is_complete(environment):
            _install(environment, text)
    return environment


def absent(requirements: Path | None) -> ServerEnvironment:
    """Return where the server environment for a requirements file would lie, for whoever needs none.

    That is who looks at a user's own running server, and builds nothing.
    """
    return _of(read_requirements(requirements))


def _of(requirements: str) -> ServerEnvironment:
    digest = _digest(requirements)
    return ServerEnvironment(cache_root() / "server" / digest, digest)


def read_requirements(requirements: Path | None) -> str:
    """Return the text of a requirements file of plain specifiers, empty for None.

    Raises InvalidInput for one with lines of another kind; see `layers.triton.requirements`.
    """
    return "" if requirements is None else wanted_packages.read(requirements)


def _check_machine() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise Missing(
            f"the model server's wheel exists for Linux on x86_64, not for {sys.platform} "
            f"on {platform.machine()}",
            hint="nothing can be changed or judged here; `fvec plan` and `fvec measure` can look at a "
            "running server (server.address) of a stack without build steps",
        )
    if sys.version_info[:2] != PYTHON_SERIES:
        found = ".".join(str(part) for part in sys.version_info[:2])
        raise Missing(
            f"the model server's environment needs Python 3.11, this is {found}",
            hint="install fvec in a virtual environment of Python 3.11",
        )


def _digest(requirements: str) -> str:
    """Digest of all that decides the environment's content and behaviour."""
    parts = (
        *_NO_BYTECODE,
        SERVER_WHEEL,
        *COMPANIONS,
        requirements,
        sys.version,
        sys.base_prefix,
        str(sysconfig.get_config_var("LIBDIR")),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _is_complete(environment: ServerEnvironment) -> bool:
    # `python` is a link into the base installation, which may have gone since.
    return (environment.root / _COMPLETE).is_file() and environment.python.exists()


def _install(environment: ServerEnvironment, requirements: str) -> None:
    """Make the environment in its final place, because scripts inside carry its path.

    Completeness is the marker file, written last; an incomplete folder is removed first.
    """
    root = environment.root
    log = root.with_suffix(".log")
    shutil.rmtree(root, ignore_errors=True)
    log.unlink(missing_ok=True)
    _create_venv(root, log)
    # --no-deps: the wheel's own Python side (and its dependencies) is not used.
    _pip(environment, ["--no-deps", SERVER_WHEEL], log)
    _install_requirements(environment, requirements, log)
    series = ".".join(str(part) for part in PYTHON_SERIES)
    shutil.copy2(
        environment.bundle / "python_backend_stubs" / series / _STUB,
        environment.backends / "python" / _STUB,
    )
    name, text = _NO_BYTECODE
    (environment.site_packages / name).write_text(text, "utf-8")
    _check_libraries(environment)
    (root / _COMPLETE).write_text(f"{SERVER_VERSION}\n", "utf-8")


def _install_requirements(environment: ServerEnvironment, requirements: str, log: Path) -> None:
    """Install the stack's packages together with what the server's Python side must have."""
    constraints = environment.root / "constraints.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in _CONSTRAINTS), "utf-8")
    wanted = environment.root / "requirements.txt"
    wanted.write_text(wanted_packages.plain(requirements), "utf-8")
    try:
        _pip(environment, ["-c", str(constraints), *COMPANIONS, "-r", str(wanted)], log)
    except ToolFailed as error:
        if "ResolutionImpossible" not in error.message:
            raise
        raise InvalidInput(
            f"the stack's requirements do not go together: {error.message}",
            hint=f"the model server itself needs {' and '.join(_CONSTRAINTS)}",
        ) from error


def _create_venv(root: Path, log: Path) -> None:
    argv = [sys.executable, "-m", "venv", str(root)]
    command = Command(argv, root.parent, pip_environment(), 300.0)
    root.parent.mkdir(parents=True, exist_ok=True)
    try:
        run_logged(command, log, "creating a virtual environment")
    except ToolFailed as error:
        raise Missing(
            f"a virtual environment cannot be made: {error.message}",
            hint="on Debian: apt-get install python3.11-venv",
        ) from error


def _pip(environment: ServerEnvironment, arguments: list[str], log: Path) -> None:
    """Run pip with the user's own settings (index, proxy, certificates), and no more of theirs."""
    argv = [str(environment.python), "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
    argv += ["--disable-pip-version-check", *arguments]
    command = Command(argv, environment.root, pip_environment(), _INSTALL_TIMEOUT_S)
    run_logged(command, log, "pip, for the model server's environment,")


def pip_environment() -> dict[str, str]:
    """Return what pip, and the packages that it builds, see of the user's environment."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _PIP_SEES or name.lower() in _PROXIES or name.startswith(("PIP_", "LC_"))
    }
    return {"PATH": SYSTEM_PATH, **kept}


def _check_libraries(environment: ServerEnvironment) -> None:
    """Let the loader say what the server and the backend's stub lack on this machine."""
    env = {"LD_LIBRARY_PATH": environment.library_path, "PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    for program in (environment.tritonserver, environment.backends / "python" / _STUB):
        answer = subprocess.run(
            ["ldd", str(program)], env=env, capture_output=True, text=True, check=False
        )
        lacking = [
            line.strip()
            for line in (answer.stdout + answer.stderr).splitlines()
            if "not found" in line
        ]
        if lacking:
            raise Missing(
                f"{program.name} cannot be loaded on this machine: {'; '.join(lacking)}",
                hint="libpython3.11 comes with a Python built with --enable-shared "
                "(Debian: apt-get install libpython3.11); GLIBC 2.35 or newer is needed",
            )
