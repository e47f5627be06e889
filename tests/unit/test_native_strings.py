from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from layers.server.local_gain import NATIVE

STRINGS = [b"", b"a", b"\0", b"ends in nul\0", b"\xff\xfe not utf-8", "é😀".encode(), b"x" * 70_000]


def encode(strings: list[bytes]) -> bytes:
    """Return the wire format: for each string its length in 4 bytes, little end first, then it."""
    return b"".join(len(s).to_bytes(4, "little") + s for s in strings)


def copied(folder: Path) -> Path:
    package = folder / "fvec_native"
    package.mkdir()
    for name in ("__init__.py", "_bytes.c", "build.py"):
        shutil.copy(NATIVE / name, package)
    return package


def build(package: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(package / "build.py")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )


def load(package: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    package = copied(tmp_path_factory.mktemp("built"))
    done = build(package)
    assert (done.returncode, done.stderr) == (0, "")
    module = load(package, "fvec_native_built")
    assert module.IS_NATIVE
    return module


@pytest.mark.parametrize("strings", [STRINGS, [], [b""], [b"same"] * 3])
def test_both_ways_return_the_strings_as_a_one_dimensional_object_array(
    native: ModuleType, strings: list[bytes]
) -> None:
    encoded = np.frombuffer(encode(strings), dtype=np.uint8)
    for convert in (native.deserialize_bytes_tensor, native.deserialize_in_python):
        result = convert(encoded)
        assert type(result) is np.ndarray
        assert (result.dtype, result.shape) == (np.dtype(object), (len(strings),))
        assert list(map(type, result)) == [bytes] * len(strings)
        assert result.tolist() == strings
        assert result.flags.owndata
        assert result.flags.writeable


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (b"\1", "string tensor ends inside a length"),
        (b"\0\0\0\0\5\0\0", "string tensor ends inside a length"),
        (b"\1\0\0\0", "string tensor ends inside a string"),
        (b"\0\0\0\0\3\0\0\0ab", "string tensor ends inside a string"),
        (b"\xff\xff\xff\xff", "string tensor ends inside a string"),
        (b"\xff\xff\xff\x7fabc", "string tensor ends inside a string"),
        (b"\x00\x00\x00\x80abc", "string tensor ends inside a string"),
    ],
)
def test_a_tensor_that_is_cut_off_raises(native: ModuleType, encoded: bytes, message: str) -> None:
    for convert in (native.deserialize_bytes_tensor, native.deserialize_in_python):
        with pytest.raises(ValueError, match=f"^{message}$"):
            convert(np.frombuffer(encoded, dtype=np.uint8))


def test_the_extension_refuses_what_is_no_array_of_objects(native: ModuleType) -> None:
    deserialize = native._native.deserialize
    encoded = encode([b"a", b"b"])
    for array in (np.zeros(2), np.empty(3, object), bytearray(16), np.empty((2, 2), object)):
        with pytest.raises(TypeError, match="not one of objects"):
            deserialize(encoded, lambda _, array=array: array)
    for arguments in ((), (encoded,), (encoded, None, None)):
        with pytest.raises(TypeError):
            deserialize(*arguments)
    with pytest.raises(TypeError):
        deserialize(1, np.empty)
    with pytest.raises(ValueError, match="not C-contiguous"):
        deserialize(np.zeros(8, np.uint8)[::2], np.empty)
    frozen = np.empty(2, object)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        deserialize(encoded, lambda _: frozen)


def test_every_object_is_owned_once_and_freed(native: ModuleType) -> None:
    good = np.frombuffer(encode([bytes([i, i]) for i in range(250)]), dtype=np.uint8)
    bad = good[:-1]
    first = native.deserialize_bytes_tensor(good)
    assert {sys.getrefcount(value) for value in first} == {
        sys.getrefcount(value) for value in native.deserialize_in_python(good)
    }
    before = sys.getallocatedblocks()
    for _ in range(50):
        native.deserialize_bytes_tensor(good)
        with pytest.raises(ValueError, match="ends inside"):
            native.deserialize_bytes_tensor(bad)
    assert sys.getallocatedblocks() - before < 250  # one leaked result would be more


def test_without_a_build_the_package_reads_strings_in_python_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module = load(copied(tmp_path), "fvec_native_plain")
    assert not module.IS_NATIVE
    assert caplog.messages == ["not built, strings are read by Python: run build.py"]
    encoded = np.frombuffer(encode(STRINGS), dtype=np.uint8)
    assert module.deserialize_bytes_tensor(encoded).tolist() == STRINGS


def test_a_build_that_fails_exits_with_1_and_leaves_nothing(tmp_path: Path) -> None:
    package = copied(tmp_path)
    (package / "_bytes.c").write_text("#error broken\n")
    done = build(package)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("the string reader was not built: ")
    assert "broken" in done.stderr
    assert sorted(p.name for p in package.iterdir()) == ["__init__.py", "_bytes.c", "build.py"]


FUZZ = """
import importlib.util, random, sys
import numpy as np
spec = importlib.util.spec_from_file_location("_bytes", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
rng = random.Random(7)
outcomes = {True: 0, False: 0}
for _ in range(2000):
    strings = [rng.randbytes(rng.choice((0, 1, 3, 40))) for _ in range(rng.randrange(6))]
    data = bytearray(b"".join(len(s).to_bytes(4, "little") + s for s in strings))
    for _ in range(rng.choice((0, 0, 1, 4))):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    data = data[: len(data) - rng.choice((0, 0, 1, 5))]
    exact = np.empty(len(data), np.uint8)  # its end is the end of the allocation
    exact[:] = data
    try:
        module.deserialize(exact, lambda n: np.empty(n, object))
        outcomes[True] += 1
    except ValueError:
        outcomes[False] += 1
print(*outcomes.values())
"""


def test_no_read_is_out_of_bounds_under_the_address_sanitizer(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc with its address sanitizer")
    library = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("needs gcc's address sanitizer library (libasan)")
    extension = tmp_path / f"_bytes{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-std=c11"]
    include = f"-I{sysconfig.get_path('include')}"
    source = str(NATIVE / "_bytes.c")
    subprocess.run(
        [compiler, *flags, *warnings, "-fPIC", "-shared", include, source, "-o", str(extension)],
        check=True,
    )
    environment = {
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(extension)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    good, bad = map(int, done.stdout.split())
    assert good + bad == 2000
    assert min(good, bad) > 300
