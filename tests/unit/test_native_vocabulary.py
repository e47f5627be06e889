from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import weakref
from pathlib import Path

import numpy as np
import pytest

from layers.features.codemods.vocabulary.native_vocabulary import CODEMOD

_spec = importlib.util.spec_from_file_location(
    "native_server", Path(__file__).parent / "test_features_programs" / "native_server.py"
)
server = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(server)

STRINGS = [b"", b"a", b"\0", b"ends in nul\0", b"\xff\xfe not utf-8", "é😀".encode(), b"x" * 70_000]
TABLE = {"": 0, "a": -1, "\0": 2**63 - 1, "ends in nul\0": -(2**63), "é😀": 5, "�� not utf-8": 6}


def encoded(strings):
    return np.frombuffer(server.wire(strings), dtype=np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return server.built(tmp_path_factory.mktemp("package"))


@pytest.fixture
def package(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = server.imported(folder)
    assert found.IS_NATIVE
    found.FEW_BYTES = 0
    yield found
    found._images._leave()


@pytest.fixture
def native(package):
    return package._native


# the extension


@pytest.mark.parametrize("strings", [STRINGS, [], [b""], [b"same"] * 3])
def test_strings_are_counted_read_and_decoded(native, strings):
    tensor = encoded(strings)
    assert native.count(tensor) == len(strings)
    array = np.empty(len(strings), dtype=object)
    assert native.fill(tensor, array) is None
    assert [(type(value), value) for value in array] == [(bytes, s) for s in strings]
    for errors in ("replace", "ignore"):
        assert native.texts(tensor, errors) == [s.decode("utf-8", errors) for s in strings]
    assert native.are_texts(tensor) is (strings is not STRINGS)


def test_what_is_no_utf_8_raises_as_decode_does(native):
    with pytest.raises(UnicodeDecodeError) as ours:
        native.texts(encoded([b"fine", b"caf\xc3"]), "strict")
    with pytest.raises(UnicodeDecodeError) as pythons:
        b"caf\xc3".decode()
    assert ours.value.args == pythons.value.args
    with pytest.raises(LookupError, match="unknown error handler name 'other'"):
        native.texts(encoded([b"\xff"]), "other")


@pytest.mark.parametrize("errors", ["replace", "ignore"])
@pytest.mark.parametrize("default", [None, 0, 2**70, "unknown"])
def test_look_ups_give_what_the_dict_gives(native, errors, default):
    strings = [*STRINGS, *STRINGS, b"missing", b"en", "\N{EURO SIGN}".encode(), b"\xff\xffa"]
    expected = [TABLE.get(s.decode("utf-8", errors), default) for s in strings]
    assert native.look_up(native.build(TABLE), encoded(strings), errors, default) == expected
    assert native.look_up(native.build({}), encoded(strings), errors, default) == [
        default for _ in strings
    ]


def test_every_key_of_a_large_vocabulary_is_found_and_no_other(native):
    table = {f"{'k' * (n % 19)}{n}": n - 500 for n in range(5000)}
    image = native.build(table)
    assert [native.find(image, key) for key in table] == list(table.values())
    assert [native.find(image, f"{key}?") for key in table] == [None] * 5000
    assert native.look_up(image, encoded([key.encode() for key in table]), "strict", None) == list(
        table.values()
    )
    assert native.find(image, "\ud800") is None


@pytest.mark.parametrize(
    "table",
    [
        {"a": 1.0},
        {"a": True},
        {"a": np.int64(1)},
        {"a": 2**63},
        {b"a": 1},
        {1: 1},
        {"\ud800": 1},
        {np.str_("a"): 1},
        [("a", 1)],
    ],
)
def test_what_is_not_text_to_numbers_of_64_bits_has_no_image(native, table):
    assert native.build(table) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\1", "string tensor ends inside a length"),
        (b"\0\0\0\0\5\0\0", "string tensor ends inside a length"),
        (b"\0\0\0\0\3\0\0\0ab", "string tensor ends inside a string"),
        (b"\xff\xff\xff\xff", "string tensor ends inside a string"),
        (b"\x00\x00\x00\x80abc", "string tensor ends inside a string"),
    ],
)
def test_a_tensor_that_is_cut_off_raises_everywhere(native, data, message):
    tensor, image = np.frombuffer(data, dtype=np.uint8), native.build(TABLE)
    for call in (
        lambda: native.count(tensor),
        lambda: native.fill(tensor, np.empty(1, object)),
        lambda: native.texts(tensor, "replace"),
        lambda: native.are_texts(tensor),
        lambda: native.look_up(image, tensor, "replace", 0),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            call()


def test_what_is_no_image_is_refused(native):
    image = native.build(TABLE)
    tensor = encoded([b"a"])
    for wrong in (b"", image[:15], b"x" * len(image), image[:40], bytes(len(image))):
        with pytest.raises(ValueError, match=r"^not the image of a vocabulary$"):
            native.look_up(wrong, tensor, "strict", 0)
        with pytest.raises(ValueError, match=r"^not the image of a vocabulary$"):
            native.find(wrong, "a")


def test_wrong_arguments_are_refused(native):
    for name, count in {"count": 1, "fill": 2, "texts": 2, "are_texts": 1, "look_up": 4}.items():
        with pytest.raises(TypeError, match=f"takes {count} arguments, not 9"):
            getattr(native, name)(*range(9))
        with pytest.raises(TypeError):
            getattr(native, name)(*[1] * count)
    for array in (np.zeros(1), np.empty(2, object), bytearray(8)):
        with pytest.raises(TypeError, match=r"^not an array of as many objects$"):
            native.fill(encoded([b"a"]), array)


# inputs that wait


def served(package):
    utilities = server.module_of(server.SERVER, server.HERE / f"{server.SERVER}.py")
    package.install(utilities)
    return utilities


def received(utilities, strings, shape):
    made = server.without_python_below(utilities.deserialize_bytes_tensor, encoded(strings))
    return utilities.Tensor.received("x", made.reshape(shape))


def test_an_input_is_read_when_it_is_asked_for_and_not_before(package):
    utilities = served(package)
    tensor = received(utilities, STRINGS, (1, -1))
    assert set(tensor._array.ravel()) == {None}
    assert len(package._unread) == 1
    array = tensor.as_numpy()
    assert type(array) is np.ndarray
    assert (array.dtype, array.shape) == (np.dtype(object), (1, len(STRINGS)))
    assert array.ravel().tolist() == STRINGS
    assert package._unread == {}
    array[0, 0] = b"changed"
    assert tensor.as_numpy()[0, 0] == b"changed"


def test_texts_of_an_unread_input_are_looked_up_without_reading_it(package):
    utilities = served(package)
    tensor = received(utilities, STRINGS, (1, -1))
    words = package.texts(package.encoded(tensor)[0], "utf-8", errors="replace")
    vocabulary = package.shared(dict(TABLE))
    assert type(vocabulary) is package.Vocabulary
    expected = [s.decode("utf-8", "replace") for s in STRINGS]
    assert package.found(words, vocabulary, 9) == [TABLE.get(e, 9) for e in expected]
    assert package.found(words, vocabulary) == [TABLE.get(e) for e in expected]
    assert set(tensor._array.ravel()) == {None}
    assert (list(words), len(words), words[1], "a" in words) == (expected, 7, "a", True)
    assert package.found(words, TABLE, 9) == [TABLE.get(e, 9) for e in expected]


def test_whatever_has_another_shape_is_read_and_shaped(package):
    utilities = served(package)
    two_rows = package.encoded(received(utilities, [b"a", b"b", b"c", b"d"], (2, 2)))
    assert two_rows[0].tolist() == [b"a", b"b"]
    flat = package.encoded(received(utilities, [b"a", b"b"], (2,)))
    assert flat[0] == b"a"
    assert list(package.texts(flat.reshape(-1))) == ["a", "b"]
    with pytest.raises(AttributeError, match=r"'numpy.ndarray' object has no attribute 'decode'"):
        package.texts(package.encoded(received(utilities, [b"a", b"b"], (2, 1))))
    with pytest.raises(IndexError):
        package.encoded(received(utilities, [], (0,)))[0]
    assert list(package.texts(package.encoded(received(utilities, [], (1, 0)))[0])) == []


def test_strict_text_that_is_none_raises_at_once(package):
    utilities = served(package)
    strings = package.encoded(received(utilities, [b"a", b"\xff"], (-1,)))
    with pytest.raises(UnicodeDecodeError):
        package.texts(strings)


def test_a_call_from_python_and_few_bytes_are_read_at_once(package):
    utilities = served(package)
    assert utilities.deserialize_bytes_tensor(encoded(STRINGS)).tolist() == STRINGS
    package.FEW_BYTES = 100
    assert received(utilities, [b"few"], (1,))._array.tolist() == [b"few"]
    assert package._unread == {}


def test_an_input_that_nobody_asks_for_is_forgotten_with_its_tensor(package):
    utilities = served(package)
    tensor = received(utilities, STRINGS, (-1,))
    kept = package.texts(package.encoded(tensor), errors="ignore")
    del tensor
    gc.collect()
    assert list(kept) == [s.decode("utf-8", "ignore") for s in STRINGS]
    del kept
    gc.collect()
    assert package._unread == {}


def arrived(utilities):
    """Receive an input and let it go; return a reference to its array that does not hold it."""
    return weakref.ref(received(utilities, STRINGS, (-1,))._array.base)


def test_what_is_read_later_is_released_without_the_collector(package):
    utilities = served(package)
    gc.disable()
    try:
        for few_bytes in (0, 10**9):  # read later, and at once
            package.FEW_BYTES = few_bytes
            arrays = [arrived(utilities) for _ in range(3)]
            assert [array() for array in arrays[:-1]] == [None, None]
            assert len(package._unread) <= 1
    finally:
        gc.enable()


def test_more_than_may_wait_are_read_at_once(package):
    utilities = served(package)
    package.MOST_WAITING = 10
    tensors = [received(utilities, [b"a", b"b"], (2,)) for _ in range(30)]
    assert len(package._unread) == 10
    assert [t.as_numpy().tolist() for t in tensors] == [[b"a", b"b"]] * 30
    assert package._unread == {}


class Fixed(type):
    def __setattr__(cls, name, value):
        raise TypeError("cannot set")


def test_where_the_tensors_class_cannot_be_changed_inputs_are_read_at_once(package):
    utilities = server.module_of(server.SERVER, server.HERE / f"{server.SERVER}.py")
    utilities.Tensor = Fixed("Tensor", (utilities.Tensor,), {})
    package.install(utilities)
    tensor = received(utilities, STRINGS, (-1,))
    assert tensor._array.tolist() == STRINGS
    words = package.texts(package.encoded(tensor), errors="replace")
    assert words == [s.decode("utf-8", "replace") for s in STRINGS]


def test_install_takes_effect_once(package):
    utilities = served(package)
    original = utilities.Tensor.as_numpy
    received(utilities, STRINGS, (-1,))
    hooks = (utilities.Tensor.as_numpy, utilities.deserialize_bytes_tensor)
    assert hooks[0] is not original
    package.install(utilities)
    received(utilities, STRINGS, (-1,))
    assert (utilities.Tensor.as_numpy, utilities.deserialize_bytes_tensor) == hooks


def test_the_tensors_class_may_come_after_the_model(package):
    utilities = server.module_of(server.SERVER, server.HERE / f"{server.SERVER}.py")
    kind = vars(utilities).pop("Tensor")
    package.install(utilities)
    made = server.without_python_below(utilities.deserialize_bytes_tensor, encoded(STRINGS))
    assert made.tolist() == STRINGS
    utilities.Tensor = kind
    assert set(received(utilities, STRINGS, (-1,))._array) == {None}


def test_other_tensors_and_none_are_left_to_their_own_as_numpy(package):
    served(package)
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'as_numpy'"):
        package.encoded(None)


# vocabularies


def test_a_vocabulary_answers_as_the_dict_did(package):
    table = {"a": 1, "": 2, "é": 3}
    vocabulary = package.shared(dict(table))
    for key in ("a", "", "é", "b", "\ud800", None, 1, b"a", np.str_("a"), (1,)):
        assert vocabulary.get(key) == table.get(key)
        assert vocabulary.get(key, "other") == table.get(key, "other")
    with pytest.raises(TypeError, match=r"^unhashable type: 'list'$"):
        vocabulary.get([])


def test_a_dict_that_others_hold_stays_one(package):
    held = {"a": 1}
    assert package.shared(held) is held
    outer = {"own": {"a": 1}, "held": held, "floats": {"a": 1.5}}
    assert package.shared_each(outer) is outer
    assert type(outer["own"]) is dict
    made = package.shared_each({"own": {"a": 1}, "held": held, "floats": {"a": 1.5}})
    assert [type(value) for value in made.values()] == [package.Vocabulary, dict, dict]
    assert made["held"] is held


def test_what_is_no_dict_stays_what_it_is(package):
    for value in ([("a", 1)], None, {"a": {"b": 1}}, {1: 2}):
        assert package.shared(value) is value
    assert package.shared(dict.fromkeys([1], 2)) == {1: 2}
    assert package.shared_each([]) == []


# memory that processes share

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import fvec_vocabulary
vocabulary = fvec_vocabulary.shared({"a": 1, "b": int(sys.argv[2])})
print(type(vocabulary.image).__name__, vocabulary.get("b"), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def child(folder, home, value=2):
    """Run a process that holds a vocabulary until it is told to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(value)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(home)},
    )
    try:
        assert process.stdout.readline() == f"mmap {value}\n"
        yield process
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=60)


def files(home):
    return sorted(home.glob("fvec-vocabulary-*/*"))


def test_processes_read_one_file_which_the_last_removes(folder, tmp_path):
    with child(folder, tmp_path):
        (first,) = files(tmp_path)
        with child(folder, tmp_path), child(folder, tmp_path, value=3):
            assert len(files(tmp_path)) == 2
            assert first.stat().st_mode & 0o777 == 0o400
        assert files(tmp_path) == [first]
    assert files(tmp_path) == []


def test_the_file_survives_a_killed_process_and_goes_with_the_next(folder, tmp_path):
    with child(folder, tmp_path) as killed:
        (path,) = files(tmp_path)
        with child(folder, tmp_path):
            killed.send_signal(signal.SIGKILL)
            killed.wait(timeout=60)
            assert files(tmp_path) == [path]
    assert files(tmp_path) == []
    with child(folder, tmp_path) as killed:
        killed.send_signal(signal.SIGKILL)
        killed.wait(timeout=60)
        assert files(tmp_path) == [path]
    with child(folder, tmp_path, value=3):
        assert path not in files(tmp_path)


def test_a_file_with_other_content_is_replaced_and_a_foreign_folder_not_used(package, tmp_path):
    shared = package._images.shared
    content = package._native.build(TABLE)
    assert bytes(shared(content)) == content
    (path,) = files(tmp_path)
    package._images._leave()
    assert files(tmp_path) == []
    path.write_bytes(b"damaged")
    assert bytes(shared(content)) == content
    package._images._leave()
    path.parent.chmod(0o777)
    assert shared(content) is content
    shutil.rmtree(path.parent)
    path.parent.symlink_to(tmp_path)
    assert shared(content) is content


# without a build, and the build itself


def test_without_a_build_all_is_as_it_was(folder, tmp_path, caplog):
    package = server.imported(server.copied(folder, tmp_path))
    assert not package.IS_NATIVE
    assert caplog.messages == ["not built, strings are read by Python: run build.py"]
    utilities = server.module_of(server.SERVER, server.HERE / f"{server.SERVER}.py")
    hook = utilities.deserialize_bytes_tensor
    package.install(utilities)
    assert utilities.deserialize_bytes_tensor is hook
    tensor = received(utilities, [b"a", b"b"], (1, 2))
    words = package.texts(package.encoded(tensor)[0])
    assert words == ["a", "b"]
    assert package.found(words, package.shared({"a": 1}), 0) == [1, 0]


def test_the_shipped_package_is_complete():
    assert sorted(CODEMOD.package.files()) == [
        "__init__.py",
        "fvec_native/.gitignore",
        "fvec_native/_vocabulary.c",
        "fvec_native/build.py",
        "fvec_native/image.h",
        "fvec_native/tensor.h",
        "images.py",
    ]


# hostile bytes, and a long run

FUZZ = """
import importlib.util, random, sys
import numpy as np
spec = importlib.util.spec_from_file_location("_vocabulary", sys.argv[1])
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
rng = random.Random(7)
words = ["", "a", "b\\0", "caf\\u00e9", "x" * 40, "12345678", "1234"]
table = {word: n for n, word in enumerate(words)}
image = native.build(table)
assert len(image) > 100

def damaged(data):
    data = bytearray(data)
    for _ in range(rng.choice((0, 0, 1, 4))):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return exact(data[: len(data) - rng.choice((0, 0, 1, 5))])

def exact(data):
    made = np.empty(len(data), np.uint8)  # its end is the end of the allocation
    made[:] = data
    return made

outcomes = {True: 0, False: 0}
for _ in range(3000):
    known = [rng.choice(words).encode() for _ in range(rng.randrange(6))]
    strings = known + [rng.randbytes(rng.choice((0, 1, 3, 8, 40))) for _ in range(rng.randrange(4))]
    tensor = damaged(b"".join(len(s).to_bytes(4, "little") + s for s in strings))
    broken = damaged(image)
    calls = [
        lambda: native.count(tensor),
        lambda: native.fill(tensor, np.empty(native.count(tensor), object)),
        lambda: native.texts(tensor, "replace"),
        lambda: native.texts(tensor, "strict"),
        lambda: native.are_texts(tensor),
        lambda: native.look_up(exact(image), tensor, "ignore", None),
        lambda: native.look_up(broken, tensor, "replace", 0),
        lambda: native.find(broken, rng.choice(words)),
        lambda: native.build({rng.choice(words): rng.choice((1, 2**64, "x"))}),
    ]
    for call in calls:
        try:
            call()
            outcomes[True] += 1
        except ValueError:
            outcomes[False] += 1
print(*outcomes.values())
"""


def test_no_read_is_out_of_bounds_under_the_address_sanitizer(tmp_path):
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc with its address sanitizer")
    library = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("needs gcc's address sanitizer library (libasan)")
    extension = tmp_path / f"_vocabulary{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = CODEMOD.package.folder / "fvec_native" / "_vocabulary.c"
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-std=c11"]
    include = f"-I{sysconfig.get_path('include')}"
    argv = [compiler, *flags, *warnings, "-fPIC", "-shared", include, source, "-o", extension]
    subprocess.run(argv, check=True)
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(extension)],
        capture_output=True,
        text=True,
        check=False,
        env={
            "LD_PRELOAD": library,
            "ASAN_OPTIONS": "detect_leaks=0",
            "PYTHONMALLOC": "malloc",
            "PATH": os.environ["PATH"],
        },
    )
    assert (done.returncode, done.stderr) == (0, "")
    good, bad = map(int, done.stdout.split())
    assert good + bad == 27_000
    assert min(good, bad) > 5000


SOAK = """
import sys
sys.path.insert(0, sys.argv[1])
import fvec_vocabulary
import numpy as np
native = fvec_vocabulary._native
strings = [b"a", b"missing", b"caf\\xc3", b"x" * 70]
tensor = b"".join(len(s).to_bytes(4, "little") + s for s in strings)
image = native.build({"a": 1, "x" * 70: 10**6})
array = np.empty(len(strings), object)

def resident_bytes():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096

def calls(count):
    for _ in range(count):
        native.look_up(image, tensor, "replace", 0)
        native.fill(tensor, array)
        native.texts(tensor, "ignore")
        native.find(image, "a")
        try:
            native.texts(tensor, "strict")
        except UnicodeDecodeError:
            pass

calls(10_000)
before = resident_bytes()
calls(200_000)
print(resident_bytes() - before)
"""


def test_a_million_calls_leave_nothing_behind(folder):
    done = subprocess.run(
        [sys.executable, "-c", SOAK, str(folder)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 2_000_000
