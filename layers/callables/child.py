"""The process of one function: run by path, driven over its pipes.

Standard library and numpy only, as it runs in the environment of the code under judgement. It
reads commands on stdin (a byte, a length of 8 bytes little endian, a body) and answers on stdout
in the same form. The parent trusts nothing that comes back; it owns inputs, clock and verdict.

It runs as a copy in a folder of no telling name, and its modules cannot be imported: nothing that
code looks at in passing says that it is judged.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

LARGEST_KEPT_BYTES = 31 << 20  # below glibc's greatest threshold
Anything: TypeAlias = Any  # what code takes and returns


def _sibling(name: str) -> Anything:
    """Return the module beside this file, which nobody else can import."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look it up while it is executed
    spec.loader.exec_module(module)
    del sys.modules[name]  # the code may have a module of this name
    return module


codec = _sibling("codec")
memory = _sibling("memory")
snapshot = _sibling("snapshot")


class Pipe:
    """Frames over two descriptors that the code's own printing does not touch."""

    def __init__(self) -> None:
        self._in = os.dup(0)
        self._out = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)  # what the code prints goes to the log
        os.close(nothing)

    def read(self) -> tuple[bytes, memoryview]:
        """Return the next command and its body; ends the process when the parent is gone."""
        code, size = codec.FRAME.unpack(self._exactly(codec.FRAME.size))
        return code, self._exactly(size)

    def _exactly(self, size: int) -> memoryview:
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            count = os.readv(self._in, [view[got:]])
            if not count:
                os._exit(0)
            got += count
        return view

    def write(self, code: bytes, *blobs: bytes) -> None:
        """Write one answer."""
        size = sum(len(blob) for blob in blobs)
        for blob in (codec.FRAME.pack(code, size), *blobs):
            view = memoryview(blob)
            while view:
                view = view[os.write(self._out, view) :]


class Inputs:
    """The arguments of the next call, and how they got here."""

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}

    def put(self, tree: Anything, how: str) -> None:
        """Take new arguments in; those that are not named stay the very same objects.

        fresh: new objects. refill: new content in the same objects where their form allows it.
        read_only: numpy arrays that may not be written.
        """
        for name, leaf in tree.items():
            old = self.arguments.get(name)
            value = codec.revive(leaf)
            if how == "refill" and _refilled(old, value):
                continue
            if how == "read_only" and isinstance(value, np.ndarray):
                value.flags.writeable = False
            self.arguments[name] = value


def _refilled(old: Anything, value: Anything) -> bool:
    """Whether the old object could be given the new content."""
    if type(old) is not type(value) or not hasattr(old, "shape"):
        return False
    if old.dtype != value.dtype or old.shape != value.shape:
        return False
    if isinstance(old, np.ndarray):
        if not (old.ndim and old.flags.writeable):
            return False
        old[...] = value
        return True
    if type(old).__module__.partition(".")[0] != "torch":
        return False
    old.copy_(value)
    return True


def load(spec: dict[str, Any], own: dict[str, object]) -> tuple[Anything, dict[str, Any]]:
    """Return the function that a spec names, a class instantiated, and the state before it."""
    folder = str(spec["folder"])
    sys.path.insert(0, folder)
    for name in spec["preload"]:
        importlib.import_module(name)
    before = snapshot.take(own)
    if spec["file"]:
        found = getattr(_module(Path(spec["file"])), spec["function"])
    else:
        found = importlib.import_module(spec["module"])
        for name in spec["function"].split("."):
            found = getattr(found, name)
    function = found() if isinstance(found, type) else found
    if not callable(function):
        raise TypeError(f"{spec['function']} cannot be called")
    return function, before


def _module(file: Path) -> types.ModuleType:
    """Return the module of a file; what lies beside the file can be imported by it.

    A file that is called as a loaded module is (random.py) does not take its place.
    """
    name = file.stem if file.stem not in sys.modules else f"{file.stem}_file"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Caught:
    """Catches what code under judgement may raise; exits and interrupts pass and end the process."""

    def __init__(self) -> None:
        self.text: str | None = None

    def __enter__(self) -> Caught:
        """Return itself: `text` is set once something was caught."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        """Keep the error as text."""
        if isinstance(error, Exception):
            self.text = f"{type(error).__name__}: {error}"[:500]
            return True
        return False

    @property
    def blob(self) -> bytes:
        """The text in bytes."""
        return (self.text or "").encode("utf-8", "replace")


class Session:
    """One loaded function and its current arguments; every method answers one command."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._inputs = Inputs()
        self._function: Any = None
        self._before: dict[str, Any] = {}
        self._result: Any = None
        self._earlier: Any = None
        self._kept: list[Any] = []
        self._given: tuple[list[Any], dict[str, Any]] = ([], {})  # of the next call
        self._written: Any = None  # what the last result held before the parent wrote into it
        self._raised = Caught()  # by the last call
        self._commands: dict[bytes, Callable[[memoryview], None]] = {
            b"L": self._load,
            b"P": self._put,
            b"G": self._go,
            b"N": self._no_op,
            b"F": self._fetch,
            b"M": self._make,
            b"S": self._score,
            b"I": self._report_inputs,
            b"E": self._report_earlier,
            b"K": self._keep,
            b"H": self._report_kept,
            b"W": self._write,
            b"A": self._report_aliases,
            b"C": self._report_changes,
        }

    def serve(self) -> None:
        """Answer commands until the parent closes the pipe."""
        while True:
            code, body = self._pipe.read()
            self._commands[code](body)

    def _json(self, value: object) -> None:
        self._pipe.write(b"J", json.dumps(value).encode())

    def _load(self, body: memoryview) -> None:
        with Caught() as caught:
            self._function, self._before = load(json.loads(bytes(body)), self._own())
        if caught.text is not None:
            self._json({"error": caught.text})
            return
        attributes = {
            name: getattr(self._function, name, None)
            for name in ("batch", "state", "batches", "probes")
        }
        self._json(
            {
                "attributes": _plain(attributes),
                "parameters": memory.parameters(self._function),
                "changes": self._changes(),
                "versions": {
                    name: str(getattr(sys.modules[name], "__version__", ""))
                    for name in ("numpy", "torch")
                    if name in sys.modules
                },
            }
        )

    def _changes(self) -> list[str]:
        return list(snapshot.changes(self._before, snapshot.take(self._own())))

    def _own(self) -> dict[str, object]:
        """Return what this process is driven by, to be watched: hidden names and code too."""
        parts: dict[str, object] = {f"command {n!r}": m for n, m in self._commands.items()}
        for name, thing in (("session", self), ("pipe", self._pipe), ("inputs", self._inputs)):
            parts |= _methods(name, thing)
        for module in (sys.modules[__name__], codec, memory, snapshot):
            parts |= _contents(module)
        return {"the caller": types.SimpleNamespace(**parts)}

    def _put(self, body: memoryview) -> None:
        (size,) = codec.HEADER.unpack_from(body)
        options = json.loads(bytes(body[codec.HEADER.size : codec.HEADER.size + size]))
        self._inputs.put(
            codec.decode(body[codec.HEADER.size + size :]), options.get("how", "fresh")
        )
        if "poison" in options:
            self._earlier = self._result = None
            gc.collect(0)
            memory.poison(options["poison"], options["byte"])
        by_position, left_out = options.get("by_position", []), options.get("left_out", [])
        self._given = memory.given(self._inputs.arguments, by_position, left_out)
        self._pipe.write(b"R")

    def _go(self, _body: memoryview) -> None:
        """Call the function; the clock stops at its return, before anything of ours is done."""
        self._earlier, self._result = self._result, None
        args, named = self._given
        with Caught() as self._raised:
            self._result = self._function(*args, **named)
        self._pipe.write(b"D")

    def _no_op(self, _body: memoryview) -> None:
        """Do what a call does, without calling."""
        self._pipe.write(b"D")

    def _fetch(self, _body: memoryview) -> None:
        """Copy out and hand over what the last call returned, or what it raised."""
        if self._raised.text is not None:
            self._pipe.write(b"X", self._raised.blob)
            return
        blobs: list[bytes] = []
        with Caught() as caught:
            _refuse_leaves(self._result)
            node, copies = codec.copied(self._result)
            blobs = [codec.header(node), *copies]
        if caught.text is not None:
            self._pipe.write(b"U", caught.blob)
        else:
            self._pipe.write(b"V", *blobs)

    def _make(self, body: memoryview) -> None:
        """Draw the arguments of one call: all of them, or without or only with the state's."""
        request = json.loads(bytes(body))
        blob = b""
        with Caught() as caught:
            drawn = self._function(np.random.default_rng(request["seed"]), request["batch"])
            if not isinstance(drawn, dict) or not drawn:
                raise TypeError("the inputs' maker must return a dict of keyword arguments")
            names = [n for n in drawn if (n in request["state"]) in request["parts"]]
            blob = codec.encode({name: drawn[name] for name in names})
        self._answer(blob, caught)

    def _answer(self, blob: bytes, caught: Caught) -> None:
        """Answer with a value, or with what was caught instead."""
        if caught.text is not None:
            self._pipe.write(b"X", caught.blob)
        else:
            self._pipe.write(b"V", blob)

    def _score(self, body: memoryview) -> None:
        """Return the metric of one call's inputs and outputs."""
        blob = b""
        with Caught() as caught:
            given = codec.revive(codec.decode(body))
            blob = codec.encode(float(self._function(given["inputs"], given["outputs"])))
        self._answer(blob, caught)

    def _report_inputs(self, _body: memoryview) -> None:
        self._pipe.write(b"V", codec.encode(self._inputs.arguments))

    def _report_earlier(self, _body: memoryview) -> None:
        """Read again what the call before the last returned."""
        self._pipe.write(b"V", codec.encode(self._earlier))

    def _keep(self, _body: memoryview) -> None:
        """Hold the last result until the end: later calls may not change it."""
        self._kept.append(self._result)

    def _report_kept(self, body: memoryview) -> None:
        """Read one of the results again that were kept."""
        self._pipe.write(b"V", codec.encode(self._kept[codec.HEADER.unpack(body)[0]]))

    def _write(self, body: memoryview) -> None:
        """Write into the last result as a caller may, and tell it then; or put back what was there."""
        if json.loads(bytes(body)):
            self._written = memory.Written(self._result)
            self._pipe.write(b"V", codec.encode([self._written.writable, self._result]))
        else:
            self._written.restore()
            self._written = None
            self._pipe.write(b"R")

    def _report_aliases(self, _body: memoryview) -> None:
        self._json(memory.shared(self._result, self._inputs.arguments))

    def _report_changes(self, _body: memoryview) -> None:
        self._json(self._changes())


def _refuse_leaves(value: Anything, depth: int = 0) -> None:
    """Raise CodecError where a result holds what values travel as: it is ours to make."""
    if isinstance(value, codec.Leaf):
        raise codec.CodecError("a leaf is no array, tensor, number, text or bytes")
    if depth > codec.MAX_DEPTH:
        raise codec.CodecError(f"nested deeper than {codec.MAX_DEPTH}")
    if isinstance(value, dict | tuple | list):
        for item in value.values() if isinstance(value, dict) else value:
            _refuse_leaves(item, depth + 1)


def _contents(module: Anything) -> dict[str, object]:
    """Return what a module of ours is made of: all its names, and what its functions run."""
    found: dict[str, object] = {}
    for key, value in list(vars(module).items()):
        if key.startswith("__"):
            continue
        name = f"{module.__name__.strip('_')} {key}"
        found[name] = value
        if getattr(value, "__module__", None) != module.__name__:
            continue
        found |= _code(name, value)
        parts: Mapping[str, object] = vars(value) if isinstance(value, type) else {}
        for part, function in list(parts.items()):
            found |= _code(f"{name} {part}", function)
    return found


def _methods(name: str, thing: object) -> dict[str, object]:
    """Return an object of ours and the functions that its methods are now."""
    found: dict[str, object] = {name: thing}
    for key in vars(type(thing)):
        if not key.startswith("__"):
            method = getattr(thing, key)
            found[f"{name} {key}"] = getattr(method, "__func__", method)
    return found


def _code(name: str, function: object) -> dict[str, object]:
    """Return a function with what it runs; another attribute of a class as it is."""
    found = {name: function}
    if isinstance(function, types.FunctionType):
        found[f"{name} code"] = function.__code__
        found[f"{name} defaults"] = function.__defaults__
        found[f"{name} keyword defaults"] = function.__kwdefaults__
    return found


def _plain(value: Anything) -> Anything:
    """Return settings as JSON knows them; what it does not know is described."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | range | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, np.integer):
        return int(value)
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def main() -> None:
    """Serve one function. What it may see of us is an argv of one word, the parent's to choose."""
    sys.argv[:] = sys.argv[1:2] or ["main"]
    # Freeing one large block teaches glibc to keep all smaller ones: else code that happened to
    # do so at import would look faster by the page faults of every call.
    np.empty(LARGEST_KEPT_BYTES, dtype=np.uint8)
    Session(Pipe()).serve()


if __name__ == "__main__":
    main()
