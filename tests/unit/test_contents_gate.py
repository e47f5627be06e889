"""What the files of a patch may hold: text that is read, names of one word, settings alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName, StackView
from layers.gates.contents import STUB, contents_gate, unreadable
from layers.manifest import Manifest

MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {"name": "s", "models": "serving/models", "entry": "m"},
        "traffic": {"requests": "traffic/r.bin", "arrivals": "traffic/a.csv"},
        "slo": {"p99_ms": 10},
    }
)
CODE = "serving/models/m/1/model.py"
CONFIG = "serving/models/m/config.pbtxt"
TEXT = """\
name: "m"
backend: "python"
max_batch_size: 8
parameters { key: "threads" value { string_value: "4" } }
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


@pytest.fixture
def baseline(tmp_path: Path) -> StackView:
    """A checkout with one model."""
    for name, text in ((CODE, "x = 1\n"), (CONFIG, TEXT), ("serving/models/m/1/a b.txt", "a\n")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return StackView(tmp_path, "base", MANIFEST, Path("python"))


def judged(
    baseline: StackView,
    files: dict[str, bytes | None],
    change_class: ChangeClass = ChangeClass.EXACT,
) -> tuple[str, str] | None:
    hypothesis = Hypothesis(
        layer=LayerName.FEATURES,
        card="given-patch",
        model="m",
        title="Title",
        why="because",
        share=0.5,
        expected_gain=0.2,
        best_gain=0.4,
        change_class=change_class,
        transform="given_patch",
    )
    edit = Edit(files, "Do it", "It is right.")
    tried = Candidate(hypothesis, edit, "b", "c0", "c1", Path("w"), "patch")
    gate = contents_gate(tried, baseline)
    if gate is None:
        return None
    assert (gate.name, gate.result.value) == ("paths", "fail")
    return gate.reason, gate.detail


ELF = b"\x7fELF\x02\x01\x01\0"
BYTECODE = b"\xa7\r\r\n\x01\0\0\0"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("serving/models/m/1/__pycache__/model.cpython-311.pyc", BYTECODE),
        ("serving/models/m/1/__pycache__/model.py", b"x = 1\n"),
        ("serving/models/m/1/model.pyc", b""),
        ("serving/models/m/1/weights.bin", BYTECODE),
        (f"serving/models/m/{STUB}", b"#!/bin/sh\nexec true\n"),
        ("serving/models/m/1/fast.so", b""),
        ("serving/models/m/1/libfast.so.1.2", ELF),
        ("serving/models/m/1/table.bin", ELF),
        ("tools/run", b"MZ\x90\0\x03"),
        ("serving/models/m/1/objects", b"!<arch>\nfoo.o/ \0"),
    ],
)
def test_what_runs_and_cannot_be_read_is_refused_by_name_or_by_how_it_begins(baseline, name, data):
    found = judged(baseline, {CODE: b"x = 2\n", name: data})
    assert found == ("not_text", f"nobody can read what would run: {name}")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("serving/models/m/1/weights.bin", b"\0\x01\x02"),
        ("serving/models/m/1/model.pt", b"PK\x03\x04\0"),
        ("serving/models/m/1/so.py", b"MZ = 1\n"),
        ("serving/models/m/1/names.so.txt", b"Somalia\n"),
        ("serving/models/m/1/model.pyc", None),  # it goes
        ("serving/models/m/1/lines.txt", b"a\n\r\nb"),
    ],
)
def test_weights_text_and_what_is_deleted_are_let_through(baseline, name, data):
    assert judged(baseline, {name: data}) is None


def test_what_no_reviewer_can_read_is_named():
    assert unreadable({CODE: b"x = 2\n", "a.txt": None}) is None
    told = unreadable({CODE: b"x\n", "w/b.bin": b"\0", "w/a.bin": b"a\0"})
    assert told == "binary files, which no reviewer can read: w/a.bin, w/b.bin"


@pytest.mark.parametrize("word", ["$(sh x)", "a;b", "a b", "a\nb", "a&b", "`x`", "a'b", "\u00e4"])
@pytest.mark.parametrize("change_class", list(ChangeClass))
def test_a_new_name_that_a_shell_takes_apart_is_refused(baseline, word, change_class):
    name = f"serving/models/m/1/{word}/config.pbtxt"
    found = judged(baseline, {name: b"x"}, change_class)
    config = change_class is ChangeClass.CONFIG
    assert found is not None
    assert found[0] == ("config_change_is_a_code_patch" if config else "unsafe_path")


def test_a_name_of_several_words_may_stay_where_it_was_and_be_elsewhere(baseline):
    assert judged(baseline, {"serving/models/m/1/a b.txt": b"b\n"}) is None
    assert judged(baseline, {"notes/a b.txt": b"b\n"}) is None
    assert judged(baseline, {"serving/models/m/1/a c.txt": None}) is None


# --- class config


def config(baseline: StackView, text: str | bytes, name: str = CONFIG) -> tuple[str, str] | None:
    data = text if isinstance(text, bytes) else text.encode()
    return judged(baseline, {name: data}, ChangeClass.CONFIG)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("count: 1", "count: 2"),
        ('"4"', '"2"'),
        ("max_batch_size: 8", "max_batch_size: 8\ndynamic_batching {}"),
        ('backend: "python"\n', ""),  # what the server takes it for then
        ('name: "m"\n', 'name: "m"  # the ranker\n'),
    ],
)
def test_settings_may_change(baseline, old, new):
    assert old in TEXT
    assert config(baseline, TEXT.replace(old, new)) is None


WARM = 'model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { %s } } }'


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('platform: "ensemble"', "platform"),
        ('runtime: "other"', "runtime"),
        ('default_model_filename: "other.py"', "default_model_filename"),
        ('cc_model_filenames { key: "8.0" value: "x" }', 'cc_model_filenames["8.0"]'),
        ('model_operations { op_library_filename: "x.so" }', "model_operations"),
        ('model_repository_agents { agents { name: "x" } }', "model_repository_agents"),
        (
            'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/e.tar.gz" } }',
            "EXECUTION_ENV_PATH",
        ),
        (
            WARM % 'data_type: TYPE_FP32 dims: 1 input_data_file: "f"',
            'model_warmup[0].inputs["x"]',
        ),
    ],
)
def test_a_configuration_that_names_other_code_is_a_code_patch(baseline, line, field):
    reason, detail = config(baseline, f"{TEXT}{line}\n") or ("", "")
    assert reason == "config_change_is_a_code_patch"
    assert detail.startswith(f"{CONFIG}: {field} names code: ")
    assert detail.endswith(", was nothing")
    assert judged(baseline, {CONFIG: f"{TEXT}{line}\n".encode()}) is None  # of another class


def test_another_backend_is_named_with_what_it_was(baseline):
    found = config(baseline, TEXT.replace('"python"', '"mine"'))
    told = f"{CONFIG}: backend names code: 'mine', was 'python'"
    assert found == ("config_change_is_a_code_patch", told)


def test_a_warm_up_without_a_file_is_a_setting(baseline):
    assert config(baseline, TEXT + WARM % "data_type: TYPE_FP32 dims: 1 zero_data: true") is None


@pytest.mark.parametrize(
    "name",
    [
        "serving/models/m/env/config.pbtxt",
        "serving/models/m/1/config.pbtxt",
        "serving/models/config.pbtxt",
        "other/m/config.pbtxt",
        CODE,
    ],
)
def test_a_file_that_is_no_models_configuration_is_a_code_patch(baseline, name):
    found = config(baseline, TEXT, name)
    told = f"{name} is no serving/models/MODEL/config.pbtxt"
    assert found == ("config_change_is_a_code_patch", told)


def test_what_the_server_would_refuse_is_left_to_it(baseline):
    assert config(baseline, f"{TEXT}colour: 3\n") is None
    assert config(baseline, b"name: \xff\n") is None


def test_a_new_configuration_of_a_model_that_the_server_guesses_is_a_setting(baseline):
    (baseline.root / CONFIG).unlink()
    assert config(baseline, TEXT) is None
    assert config(baseline, 'platform: "ensemble"\n') is not None
