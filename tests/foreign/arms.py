"""Versions of one program side by side in this process: loading, calling, what a caller sees."""

import contextlib
import importlib.util
import io
import json
import os
import random
import re
import runpy
import sys
import time
from pathlib import Path

import numpy as np
from caught import Caught

HERE = Path(__file__).parent
SERVER_MODULE = "triton_python_backend_utils"
SERVER = runpy.run_path(str(HERE.parent / f"unit/test_features_programs/{SERVER_MODULE}.py"))
TRACE = re.compile(r'  File ".*", line \d+, in .*\n(?:    .*\n)*')  # names lines of the source


class Arm:
    """One version of a program, with its own copies of the modules beside it."""

    def __init__(self, folder, config):
        self.folder = Path(folder)
        names = {path.stem for path in self.folder.glob("*.py")} | {
            path.parent.name for path in self.folder.glob("*/__init__.py")
        }
        self._own = sorted(names - {"model"})
        with self.active():
            spec = importlib.util.spec_from_file_location(
                f"model_{self.folder.name}".replace("-", "_"), self.folder / "model.py"
            )
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module  # dataclasses and pickle look it up
            spec.loader.exec_module(module)
            self.model = module.TritonPythonModel()
            if hasattr(self.model, "initialize"):
                self.model.initialize(_arguments(config, self.folder))

    @contextlib.contextmanager
    def active(self):
        """Let the modules beside this version be found, and those of no other."""
        saved_path, saved_folder = sys.path[:], Path.cwd()
        saved = {name: sys.modules.pop(name) for name in self._own if name in sys.modules}
        sys.modules |= getattr(self, "_modules", {})
        sys.path.insert(0, str(self.folder))
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
        finally:
            self._modules = {
                name: sys.modules.pop(name) for name in self._own if name in sys.modules
            }
            sys.modules |= saved
            sys.path[:] = saved_path
            os.chdir(saved_folder)

    def outcome(self, drawn, seed):
        """Return what one batch of requests led to: answers or the error, and inputs afterwards."""
        requests = [request_of(inputs) for inputs in drawn]
        with self.active():
            seen = self._execute(requests, seed)
        after = [[_bits(tensor.as_numpy()) for tensor in r.inputs()] for r in requests]
        return seen, after

    def _execute(self, requests, seed):
        random.seed(seed)
        np.random.seed(seed)
        with Caught() as caught:
            responses = self.model.execute(requests)
            return [_response(response) for response in responses]
        return type(caught.error).__name__, TRACE.sub("", str(caught.error))

    def cpu_s(self, drawn, seed, calls):
        """Return the CPU seconds of this thread for one call; inputs are fresh for each."""
        batches = [[request_of(inputs) for inputs in drawn] for _ in range(calls)]
        random.seed(seed)
        np.random.seed(seed)
        with self.active():
            execute = self.model.execute
            begun = time.thread_time()
            for requests in batches:
                execute(requests)
            return (time.thread_time() - begun) / calls


def install(stubs):
    """Put the stand-in where programs import it, and `stubs` behind all that is installed."""
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(SERVER_MODULE, loader=None)
    )
    vars(module).update(SERVER)
    sys.modules[SERVER_MODULE] = module
    sys.path.append(str(stubs))


def request_of(inputs):
    """Build a request whose arrays are as the server's: numbers are views of memory not theirs."""
    tensors = [SERVER["Tensor"].received(name, _received(array)) for name, array in inputs]
    return SERVER["InferenceRequest"](inputs=tensors)


def _received(array):
    if array.dtype.kind == "O":
        return array.copy()
    buffer = bytearray(array.tobytes())
    return np.frombuffer(buffer, array.dtype).reshape(array.shape)


def _response(response):
    if response.has_error():
        error = response.error()
        text = error.message() if hasattr(error, "message") else str(error)
        return "error", TRACE.sub("", text)
    return [(t.name(), t.kind, t.as_numpy().shape, t.sent()) for t in response.output_tensors()]


def _bits(array):
    if array.dtype.kind == "O":
        return [(type(item).__name__, repr(item)) for item in array.ravel()]
    return array.dtype.str, array.shape, array.tobytes()


def _arguments(config, folder):
    return {
        "model_config": json.dumps(config),
        "model_instance_kind": "CPU",
        "model_instance_name": f"{config.get('name', 'model')}_0",
        "model_instance_device_id": "0",
        "model_repository": str(folder.parent),
        "model_version": "1",
        "model_name": config.get("name", "model"),
    }
