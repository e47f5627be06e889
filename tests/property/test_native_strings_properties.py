"""The native reader, its fallback and the wire format, on any strings and any bytes."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layers.server.local_gain import NATIVE


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = tmp_path_factory.mktemp("native") / "fvec_native"
    folder.mkdir()
    for name in ("__init__.py", "_bytes.c", "build.py"):
        shutil.copy(NATIVE / name, folder)
    subprocess.run([sys.executable, "-I", str(folder / "build.py")], check=True)
    spec = importlib.util.spec_from_file_location("fvec_native_any", folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fvec_native_any"] = module
    spec.loader.exec_module(module)
    assert module.IS_NATIVE
    return module


def wire(strings: list[bytes]) -> bytes:
    return b"".join(len(s).to_bytes(4, "little") + s for s in strings)


def read(data: bytes) -> list[bytes] | None:
    """Read the wire format from its definition; None where it is cut off."""
    strings = []
    while data:
        length = int.from_bytes(data[:4], "little")
        if len(data) < 4 + length or len(data) < 4:
            return None
        strings.append(data[4 : 4 + length])
        data = data[4 + length :]
    return strings


def outcomes(package: ModuleType, data: bytes) -> list[list[bytes] | None]:
    """Return what each implementation makes of the tensor; None where it raises ValueError."""
    found: list[list[bytes] | None] = []
    for convert in (package.deserialize_bytes_tensor, package.deserialize_in_python):
        try:
            result = convert(np.frombuffer(data, dtype=np.uint8))
        except ValueError:
            found.append(None)
            continue
        assert (result.dtype, result.ndim) == (np.dtype(object), 1)
        assert {type(value) for value in result} <= {bytes}
        found.append(result.tolist())
    return found


@given(strings=st.lists(st.binary(max_size=40), max_size=40))
def test_all_strings_come_back(package: ModuleType, strings: list[bytes]) -> None:
    assert outcomes(package, wire(strings)) == [strings, strings]


@given(data=st.binary(max_size=80))
def test_any_bytes_are_read_alike_or_refused_alike(package: ModuleType, data: bytes) -> None:
    assert outcomes(package, data) == [read(data)] * 2


@given(
    strings=st.lists(st.binary(max_size=12), min_size=1, max_size=12),
    cut=st.integers(0, 200),
    at=st.integers(0, 200),
    value=st.integers(0, 255),
)
def test_a_damaged_tensor_is_read_alike_or_refused_alike(
    package: ModuleType, strings: list[bytes], cut: int, at: int, value: int
) -> None:
    data = bytearray(wire(strings))
    data[at % len(data)] = value
    del data[len(data) - cut % len(data) :]
    assert outcomes(package, bytes(data)) == [read(bytes(data))] * 2
