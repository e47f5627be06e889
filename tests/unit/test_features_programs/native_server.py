"""Serves the programs here as the server does: string inputs arrive encoded, no Python code waits.

The server's native half calls `deserialize_bytes_tensor` of its Python module and shapes what that
returns before `execute` runs; a thread that runs nothing else stands in for it.
"""

import _thread
import importlib.machinery
import shutil
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import numpy as np

from layers.features.codemods.vocabulary.native_vocabulary import CODEMOD

HERE = Path(__file__).parent
SERVER = "triton_python_backend_utils"
PACKAGE = "fvec_vocabulary"
ERRORS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)


def built(folder):
    """Write the package into a folder and build it; return the folder."""
    for name, content in CODEMOD.package.files().items():
        path = folder / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    build = folder / PACKAGE / "fvec_native" / "build.py"
    subprocess.run([sys.executable, "-I", build], check=True, capture_output=True)
    return folder


def copied(folder, to):
    """Copy a built package, without what was built."""
    shutil.copytree(folder / PACKAGE, to / PACKAGE, ignore=shutil.ignore_patterns("*.so"))
    return to


def imported(folder):
    """Import a package of this name afresh, with state of its own."""
    forget()
    sys.path.insert(0, str(folder))
    try:
        return __import__(PACKAGE)
    finally:
        sys.path.remove(str(folder))
        forget()


def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def wire(strings):
    """Return the bytes of a string tensor: each length in four bytes, then the string."""
    return b"".join(len(s).to_bytes(4, "little") + s for s in strings)


def without_python_below(function, argument):
    """Call a function so that nothing in Python has called it."""
    results = []
    _thread.start_new_thread(results.extend, (map(function, [argument]),))
    for _ in range(10_000):
        if results:
            return results[0]
        time.sleep(0.001)
    raise TimeoutError("the call did not return")


def module_of(name, path):
    """Run a file as a module that nothing else knows."""
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module = types.ModuleType(name)
    module.__loader__ = loader
    loader.exec_module(module)
    return module


class Served:
    """A program's text, loaded beside a server's module of its own."""

    def __init__(self, text, folder=None):
        self.utilities = module_of(SERVER, HERE / f"{SERVER}.py")
        forget()
        sys.modules[SERVER] = self.utilities
        sys.path[:0] = [str(folder)] if folder else []
        try:
            with tempfile.TemporaryDirectory() as home:
                path = Path(home, "model.py")
                path.write_text(text)
                module = module_of("model", path)
        finally:
            sys.path[:] = sys.path[1:] if folder else sys.path
            del sys.modules[SERVER]
            self.package = sys.modules.get(PACKAGE)
            forget()
        self.model = module.TritonPythonModel()
        self.model.initialize({})

    def tensor(self, name, array):
        """Make an input as the server does, of an array of bytes or of numbers."""
        if array.dtype == object:
            encoded = np.frombuffer(wire(array.ravel()), dtype=np.uint8)
            found = without_python_below(self.utilities.deserialize_bytes_tensor, encoded)
            array = found.reshape(array.shape)
        return self.utilities.Tensor.received(name, array)

    def answer(self, inputs):
        """Return what one request gives: names, dtypes, shapes and bytes, or the error."""
        request = self.utilities.InferenceRequest(
            inputs=[self.tensor(name, array) for name, array in inputs]
        )
        try:
            (response,) = self.model.execute([request])
        except ERRORS as error:
            return type(error).__name__, str(error)
        return [
            (t.name(), t.given.dtype, t.given.shape, t.sent()) for t in response.output_tensors()
        ]
