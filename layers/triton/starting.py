"""What a model server is started with: its arguments, its environment, the guard around it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from tritonclient.grpc.model_config_pb2 import ModelConfig

from layers.base import StackView
from layers.errors import InvalidInput, Location, Missing
from layers.programs import ONE_THREAD, scrubbed_environment
from layers.triton import endpoint, guard, loading, pbtxt
from layers.triton.environment import ServerEnvironment

EXIT_TIMEOUT_S = 5  # the server's own default is 30 s with a stopped stub
ENVIRONMENT = "EXECUTION_ENV_PATH"  # a parameter: what the Python backend sources before it starts
# The Python backend starts its processes by a shell line in which it quotes nothing.
_SHELL_SAFE = re.compile(r"[A-Za-z0-9_./@+,:=-]+")
_OF_MODEL = "$$TRITON_MODEL_DIRECTORY"  # the backend puts the model's folder in its place
_HINT = "use a path of ASCII letters, digits and _ . / @ + , : = - only"


def check(view: StackView, env: ServerEnvironment, cpus: Sequence[int] | None) -> None:
    """Raise InvalidInput for a model repository that cannot be served, Missing for absent CPUs."""
    models = repository(view)
    if not models.is_dir():
        raise InvalidInput(
            f"{view.manifest.stack.models} is not a folder of the stack",
            hint="stack.models of the manifest names the Triton model repository",
        )
    names = [models.resolve(), env.backends, *models.iterdir()]
    unsafe = [str(name) for name in names if not shell_safe(str(name))]
    if unsafe:
        raise InvalidInput(f"the Python backend cannot serve from {unsafe[0]!r}", hint=_HINT)
    for file in sorted(models.glob("*/config.pbtxt")):
        if file.is_file():
            _check_words(view.root, file)
    absent = set(cpus or ()) - os.sched_getaffinity(0)
    if absent:
        raise Missing(
            f"CPUs {sorted(absent)} cannot be used by this process",
            hint=f"server.cpus may name any of {sorted(os.sched_getaffinity(0))}",
        )


def check_folder(folder: Path) -> None:
    """Raise InvalidInput for a folder of results below which no checkout could be served."""
    if not shell_safe(str(folder)):
        raise InvalidInput(
            f"the Python backend cannot serve from {str(folder)!r}, where checkouts would lie",
            hint=f"name another folder with --out DIR: {_HINT}",
        )


def shell_safe(text: str) -> bool:
    """Whether a shell takes the text, as it stands, for one word."""
    return _SHELL_SAFE.fullmatch(text) is not None


def _check_words(root: Path, file: Path) -> None:
    """Raise InvalidInput where a configuration writes more than words into the backend's line."""
    relative = file.relative_to(root)
    config = pbtxt.parse(pbtxt.decode(file.read_bytes(), relative), relative).message
    for field, text in _words(config):
        if text and not shell_safe(text):
            raise InvalidInput(
                f"the Python backend cannot start by {field} {text!r}",
                at=Location(relative),
                hint=_HINT,
            )


def _words(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Yield what of a configuration stands in the line that starts a process, each by its field."""
    yield "name", config.name
    yield "backend", config.backend
    yield "runtime", config.runtime
    yield "default_model_filename", config.default_model_filename
    yield from (("cc_model_filenames", name) for name in config.cc_model_filenames.values())
    yield from (("the name of an instance group", one.name) for one in config.instance_group)
    if ENVIRONMENT in config.parameters:
        path: str = config.parameters[ENVIRONMENT].string_value
        yield ENVIRONMENT, path.removeprefix(_OF_MODEL)


def repository(view: StackView) -> Path:
    """Return the model repository of a stack."""
    return view.root / view.manifest.stack.models


def steps(config: Path) -> list[str]:
    """Return the models that a configuration's ensemble is made of; none where it cannot be read."""
    try:
        message = pbtxt.parse(pbtxt.decode(config.read_bytes(), config), config).message
    except (InvalidInput, OSError):
        return []  # said, with its place, by whoever serves it
    return [step.model_name for step in message.ensemble_scheduling.step]


def server_argv(view: StackView, env: ServerEnvironment, shm_prefix: str) -> list[str]:
    """Return the server's command line: a unix socket in its current folder, nothing else open."""
    return [
        *(str(env.tritonserver), "--model-repository", str(repository(view))),
        *("--backend-directory", str(env.backends)),
        *("--cache-directory", str(env.caches)),
        *("--backend-config", f"python,shm-region-prefix-name={shm_prefix}"),
        # An ensemble takes the models it is made of with it; code that names others does not.
        *("--model-control-mode", "explicit"),
        *(word for name in loading.told(view.manifest) for word in ("--load-model", name)),
        *("--grpc-address", "unix", "--grpc-port", endpoint.SOCKET),
        *("--allow-http", "false", "--allow-metrics", "false"),
        *("--exit-timeout-secs", str(EXIT_TIMEOUT_S)),
    ]


def server_environment(env: ServerEnvironment, home: Path) -> dict[str, str]:
    """Return the server's environment: nothing of ours, one thread for each numeric library."""
    environment = scrubbed_environment(path_first=env.python.parent, home=home)
    return {**environment, **ONE_THREAD, "LD_LIBRARY_PATH": env.library_path}


def start_guard(
    plan: guard.Plan,
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: IO[bytes],
) -> subprocess.Popen[bytes]:
    """Start the guard, and with it `command` in `folder`; the server's output goes to `log`."""
    return subprocess.Popen(
        [sys.executable, "-I", guard.__file__, plan.dumps(), *command],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,  # ctrl-C at the terminal is ours to handle
    )
