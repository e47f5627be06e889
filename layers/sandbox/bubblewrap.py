"""bubblewrap: is it here and does it work, and the command line that shuts a program in.

The program gets namespaces of its own (user, process ids, network without an interface unless it
is let out, mounts, IPC, host name, cgroup), no capability, a read-only view of the system and of
what is named, and private, bounded /tmp and /dev/shm. The environment travels as `--setenv`:
bubblewrap itself must not see variables such as LD_PRELOAD.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layers.errors import InvalidInput, Missing
from layers.sandbox.base import Confinement

HINT = (
    "apt-get install bubblewrap (0.8 or newer), and allow user namespaces; or name a weaker mode "
    "in .github/fvec.yml: 'sandbox: {mode: process}' judges only code that you trust"
)
NOBODY = "65534"
_DEV, _TMP = (str(Path("/", name)) for name in ("dev", "tmp"))
_PROBE_S = 20.0
_OLDEST = (0, 8)  # the first with --disable-userns
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# What the dynamic linker, update-alternatives and libraries that count processors read.
_READ_IF_THERE = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
)
# What resolving a name and TLS read. Never /etc/ssl or /etc/pki whole: private keys lie there too.
_READ_FOR_NETWORK = (
    *("/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/nsswitch.conf", "/etc/resolv.conf"),
    *("/etc/services", "/etc/protocols", "/etc/crypto-policies"),
    *("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf"),
    *("/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf"),
    *("/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted"),
)
_PYTHON = ("bin", "include", "lib", "lib64")  # of an installed Python
_OURS = tuple(map(Path, ("/proc", "/dev", "/sys")))
_ACCOUNTS = Path(__file__).with_name("nobody.passwd")


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap that works on this machine."""

    program: Path
    version: str

    def argv(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], confinement: Confinement
    ) -> list[str]:
        """Return the command line that runs `argv` confined, with `env` and nothing else.

        Raises InvalidInput for a path that is not there, is not absolute, leads through a link
        where it may be written, or would show all of the machine.
        """
        size = ["--size", str(confinement.limits.tmp_bytes)]
        variables = [part for item in env.items() for part in ("--setenv", *item)]
        return [
            *(str(self.program), "--unshare-user", "--unshare-all", "--disable-userns"),
            *(("--share-net",) if confinement.network else ()),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--uid", NOBODY, "--gid", NOBODY, "--hostname", "localhost"),
            *_system(network=confinement.network),
            # Started by root, the program is still root to the files of /proc: core_pattern and such.
            *(
                "--proc",
                "/proc",
                "--remount-ro",
                "/proc",
                "--dev",
                _DEV,
                *size,
                "--tmpfs",
                f"{_DEV}/shm",
            ),
            *("--remount-ro", _DEV, *size, "--tmpfs", _TMP),
            *_binds(argv[0], confinement),
            *("--remount-ro", "/"),
            *("--chdir", str(cwd), "--clearenv", *variables, "--", *argv),
        ]


def find() -> Bubblewrap:
    """Return the bubblewrap on PATH.

    Raises Missing when there is none, when it is too old, or when this machine (a container
    without user namespaces, say) does not let it work.
    """
    place = shutil.which("bwrap")
    if place is None:
        raise Missing("bubblewrap (bwrap) is not on PATH", hint=HINT)
    program = Path(place).absolute()
    version = _answer([str(program), "--version"]).removeprefix("bubblewrap").strip()
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers < _OLDEST:
        raise Missing(f"bubblewrap {version or 'of unknown version'} is too old", hint=HINT)
    return Bubblewrap(program, version)


def _answer(argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_PROBE_S, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"bubblewrap does not start: {error}", hint=HINT) from error
    return done.stdout


def _system(*, network: bool) -> Iterator[str]:
    """Yield what shows the system; /bin and the like are links on some machines, not on all."""
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), name)
        elif path.is_dir():
            yield from ("--ro-bind", name, name)
    for name in (*_READ_IF_THERE, *(_READ_FOR_NETWORK if network else ())):
        yield from ("--ro-bind-try", name, name)
    yield from ("--ro-bind", str(_ACCOUNTS), "/etc/passwd")


def _binds(program: str, confinement: Confinement) -> Iterator[str]:
    """Yield the binds of the confinement, outer folders before those inside them."""
    read_only = [*_interpreters(program), *map(_checked, confinement.read_only)]
    modes = {path.resolve(): "--ro-bind" for path in read_only}
    modes |= dict.fromkeys(map(_without_links, confinement.writable), "--bind")
    for path in sorted(modes, key=lambda path: len(path.parts)):
        yield from (modes[path], str(path), str(path))
    links = {path: path.resolve() for path in read_only if path.resolve() != path}
    for path, target in links.items():
        if not any(path.is_relative_to(bound) for bound in modes):  # else the link is there already
            yield from ("--symlink", str(target), str(path))
    for path in {_checked(path).resolve() for path in confinement.hidden if path.exists()}:
        hide = (
            ("--tmpfs", str(path), "--remount-ro") if path.is_dir() else ("--ro-bind", "/dev/null")
        )
        yield from (*hide, str(path))


def _interpreters(program: str) -> Iterator[Path]:
    """Yield our base Python, and what the interpreter of a virtual environment needs to start."""
    yield from _of_python(Path(sys.base_prefix))
    environment = Path(program).parent.parent
    if not Path(program).is_absolute() or not (environment / "pyvenv.cfg").is_file():
        return
    yield environment
    base = Path(program).resolve().parent.parent
    if any((base / "lib").glob("python3*")) and not Path.home().is_relative_to(base):
        yield from _of_python(base)


def _of_python(base: Path) -> Iterator[Path]:
    """Yield a base Python; of one in a home folder what is Python's alone: keys may lie beside it."""
    home, real = Path.home().resolve(), base.resolve()
    if real.is_relative_to(home) or home.is_relative_to(real):
        yield from (base / part for part in _PYTHON if (base / part).is_dir())
    else:
        yield base


def _checked(path: Path) -> Path:
    """Return a path that may be shown."""
    if not path.is_absolute() or ".." in path.parts:
        raise InvalidInput(f"{path} of a sandbox is not an absolute path without '..'")
    real = path.resolve()
    if real == Path("/") or any(real.is_relative_to(own) for own in _OURS):
        raise InvalidInput(f"a sandbox cannot show {path} of this machine")
    if not path.exists():
        raise InvalidInput(f"{path}, which a sandbox is to show, is not there")
    return path


def _without_links(path: Path) -> Path:
    """Return a path that may be written: a link in it may have been planted by what ran before."""
    real = _checked(path).resolve()
    if real != path:
        raise InvalidInput(
            f"{path} leads through a symbolic link to {real}",
            hint="a folder that a sandbox may write to must be named without links",
        )
    return path
