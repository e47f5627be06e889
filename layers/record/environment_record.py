"""The machine and the versions that a run's numbers belong to."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import psutil

from layers.evidence import Environment
from layers.triton.environment import ServerEnvironment


def hardware(
    env: ServerEnvironment,
    *,
    sandbox: str | None = None,
    server_cpus: Sequence[int] = (),
    generator_cpus: Sequence[int] = (),
) -> Environment:
    """Describe this machine, and the packages of the model server's environment.

    `sandbox` says what code under judgement runs in; `server_cpus` and `generator_cpus` are the
    CPU numbers that a run pinned them to.
    """
    return Environment(
        cpu=processor(),
        cores=psutil.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        server=f"Triton Inference Server {env.version}",
        packages=_packages(env.site_packages),
        server_cpus=list(server_cpus),
        generator_cpus=list(generator_cpus),
        sandbox=sandbox,
    )


def processor() -> str:
    """Return the processor's name as Linux gives it, else its architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8", "replace").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _packages(site_packages: Path) -> dict[str, str]:
    """Return the versions of all packages of an environment, by name.

    What an installation that was cut short left has neither.
    """
    found = metadata.distributions(path=[str(site_packages)])
    named = ((package.metadata["Name"], package.metadata["Version"]) for package in found)
    return dict(sorted((name.lower(), version) for name, version in named if name and version))
