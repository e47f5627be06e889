"""What code may not change in its process: defaults, patched functions, hooks, handlers.

Standard library and numpy only: the child loads this file by path, before the code under
judgement. The parent compares what the candidate changed with what the reference changed.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import hashlib
import json
import os
import random
import re
import resource
import signal
import struct
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

# Public functions and classes of these are compared by identity.
WATCHED = (
    "builtins",
    "time",
    "os",
    "posix",
    "sys",
    "gc",
    "json",
    "struct",
    "io",
    "threading",
    "_thread",
    "math",
    "random",
    "subprocess",
    "numpy",
    "numpy.linalg",
    "numpy.random",
    "numpy.testing",
    "torch",
    "torch.nn.functional",
    "torch.linalg",
    "torch.testing",
    "torch.Tensor",
)
MODULE = "module "  # begins the name of a loaded module's entry
STREAMS = {"stdin", "stdout", "stderr"}
VOLATILE = {"last_exc", "last_type", "last_value", "last_traceback", "path", "modules", "argv"}
WARNING = 30  # the level of a root logger that nobody has touched
KINDS_OF_WARNING = (UserWarning, RuntimeWarning, DeprecationWarning, FutureWarning)
MALLINFO = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)
# Above glibc's greatest thresholds, for a block of its own (32 MiB) and for free memory that it keeps
# (64 MiB), and above what usual temporaries leave free in between.
LARGE_BLOCK = 256 << 20
VOLATILE_ENVIRONMENT = {"KMP_INIT_AT_FORK", "KMP_DUPLICATE_LIB_OK", "TORCHINDUCTOR_CACHE_DIR"}


def take(extra: dict[str, object]) -> dict[str, Any]:
    """Return the state by name; `extra` are further objects whose attributes are watched."""
    return {
        **_python(),
        **_process(),
        **_allocator(),
        **_numpy(),
        **_torch(),
        **_attributes(extra),
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names of what differs; what appeared is ignored but for builtins."""
    changed = [name for name, value in before.items() if not _same(value, after.get(name))]
    added = [name for name in after if name not in before and name.startswith("builtins.")]
    return sorted(changed + added)


def _same(one: object, other: object) -> bool:
    """Whether two entries are equal: objects by identity, held alive so that ids stay unique."""
    if isinstance(one, _Identity):
        return isinstance(other, _Identity) and one.held is other.held
    return bool(type(one) is type(other) and one == other)


class _Identity:
    """An object that is compared by what it is, not by what it equals."""

    def __init__(self, held: object) -> None:
        self.held = held


def _python() -> dict[str, Any]:
    """Return hooks and switches of the interpreter."""
    return {
        "trace hook": _Identity(sys.gettrace()),
        "profile hook": _Identity(sys.getprofile()),
        "collector callbacks": [id(callback) for callback in gc.callbacks],
        "collector enabled": gc.isenabled(),
        "collector thresholds": gc.get_threshold(),
        "collector frozen objects": gc.get_freeze_count(),
        "switch interval": sys.getswitchinterval(),
        "recursion limit": sys.getrecursionlimit(),
        "digits of integers": getattr(sys, "get_int_max_str_digits", int)(),
        "import function": _Identity(builtins.__import__),
        "class builder": _Identity(builtins.__build_class__),
        "warnings shown": _Identity(warnings.showwarning),
        **_logged(),
        "display hook": _Identity(sys.displayhook),
        "exception hook": _Identity(sys.excepthook),
        "import hooks": [id(finder) for finder in sys.meta_path[:1]],
        "random state": _digest(repr(random.getstate()).encode()),
        **{f"sys.{name}": _Identity(getattr(sys, name)) for name in STREAMS},
        "table of modules": _Identity(sys.modules),
        # All that are loaded: one that is replaced or removed is a change, a lazy import is none.
        **{f"{MODULE}{name}": _Identity(module) for name, module in list(sys.modules.items())},
    }


def _logged() -> dict[str, Any]:
    """Return what becomes of warnings and log records that nobody has rules of their own for."""
    logging: Any = sys.modules.get("logging")
    root = getattr(logging, "root", None)
    return {
        "logging disabled": logging.root.manager.disable if root else 0,
        "logging level": logging.root.level if root else WARNING,
        **{f"warnings of {kind.__name__}": _action(kind) for kind in KINDS_OF_WARNING},
    }


def _action(kind: type[Warning]) -> str:
    """Return what is done with a warning of one kind, of no particular text and module."""
    for action, text, category, module, line in warnings.filters:
        anywhere = not line and _fits(text) and _fits(module)
        if anywhere and issubclass(kind, category):
            return str(action)
    return "default"


def _fits(pattern: str | re.Pattern[str] | None) -> bool:
    """Whether a filter's pattern is for any text."""
    return pattern is None or bool(re.match(pattern, "any text at all"))


def _process() -> dict[str, Any]:
    """Return what the kernel keeps for this process, and its environment."""
    handlers = {s.name: _Identity(signal.getsignal(s)) for s in signal.Signals}
    umask = os.umask(0o77)
    os.umask(umask)
    kinds = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        "cwd": str(Path.cwd()),
        "umask": umask,
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "cpus": sorted(os.sched_getaffinity(0)),
        "timers": [signal.getitimer(kind) for kind in (0, 1, 2)],
        **{f"limit {name}": resource.getrlimit(getattr(resource, name)) for name in kinds},
        **{f"signal {name}": handler for name, handler in handlers.items()},
        **{
            f"environment {name}": value
            for name, value in os.environ.items()
            if name not in VOLATILE_ENVIRONMENT
        },
        "environment": sorted(set(os.environ) - VOLATILE_ENVIRONMENT),
    }


class _Mallinfo(ctypes.Structure):
    """What glibc tells of its allocator, mallinfo2(3)."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in MALLINFO)


def _allocator() -> dict[str, Any]:
    """Return whether the largest blocks of memory are apart from all others, and go back at once."""
    mapped, pages = _mapped(), _pages()
    try:
        block = np.empty(LARGE_BLOCK, dtype=np.uint8)  # never touched
    except MemoryError:
        return {}  # a limit of address space, which is looked at by itself
    apart = _mapped() > mapped
    del block
    left = (_pages() - pages) * os.sysconf("SC_PAGE_SIZE")
    return {"large blocks": (apart, 2 * left < LARGE_BLOCK)}


def _mapped() -> int:
    """Return how many blocks are mapped by themselves; 0 where the allocator does not tell."""
    tell = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if tell is None:
        return 0
    tell.restype = _Mallinfo
    return int(tell().hblks)


def _pages() -> int:
    """Return the pages of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0])


def _numpy() -> dict[str, Any]:
    """Return numpy's switches, and whether the processor still keeps denormal numbers."""
    tiny = np.full(1, 1e-40, dtype=np.float32)
    return {
        "numpy error state": tuple(sorted(np.geterr().items())),
        "numpy buffer size": np.getbufsize(),
        "numpy random state": _digest(repr(tuple(np.random.get_state())[1:]).encode()),
        "denormal numbers": bool((tiny * np.float32(0.5))[0] != 0),
        "rounding": float(np.float32(1) + np.float32(2**-24) * np.float32(1.5)),
    }


def _torch() -> dict[str, Any]:
    """Return torch's defaults, where it is loaded."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype"):
        return {}
    return {
        "torch default dtype": str(torch.get_default_dtype()),
        "torch threads": torch.get_num_threads(),
        "torch inter-op threads": torch.get_num_interop_threads(),
        "torch grad mode": torch.is_grad_enabled(),
        "torch inference mode": torch.is_inference_mode_enabled(),
        "torch deterministic": torch.are_deterministic_algorithms_enabled(),
        "torch matmul precision": torch.get_float32_matmul_precision(),
        "torch mkldnn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        "torch random state": _digest(bytes(torch.get_rng_state().numpy())),
    }


def _attributes(extra: dict[str, object]) -> dict[str, Any]:
    """Return public attributes of watched modules and objects, by identity."""
    objects: dict[str, object] = {n: sys.modules[n] for n in WATCHED if n in sys.modules}
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "Tensor"):
        objects["torch.Tensor"] = torch.Tensor
    found: dict[str, Any] = {}
    for name, owner in {**objects, **extra}.items():
        for key, value in list(vars(owner).items()):
            watched = not key.startswith("_") and key not in STREAMS | VOLATILE
            if watched and (callable(value) or name in extra):
                found[f"{name}.{key}"] = _Identity(value)
    return found


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


_KEPT = (builtins, json, struct, threading, time)  # loaded before the code, hence watched
