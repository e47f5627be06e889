"""What is refused before a model server is started on it: words that its backend's shell reads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from layers.base import StackView
from layers.errors import InvalidInput
from layers.events import Silent
from layers.manifest import Manifest
from layers.session import RunOptions, open_session
from layers.triton import starting

MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {"name": "s", "models": "models", "entry": "m"},
        "traffic": {"requests": "traffic/r.bin", "arrivals": "traffic/a.csv"},
        "slo": {"p99_ms": 10},
    }
)
CONFIG = "models/m/config.pbtxt"
TEXT = 'name: "m"\nbackend: "python"\ninstance_group [ { kind: KIND_CPU count: 1 } ]\n'
ENV = SimpleNamespace(backends=Path("/server/backends"))


def check(root: Path, text: str) -> None:
    file = root / CONFIG
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    starting.check(StackView(root, "base", MANIFEST, Path("python")), ENV, None)


def environment(path: str) -> str:
    return f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{path}" }} }}\n'


@pytest.mark.parametrize(
    "line",
    [
        "",
        'default_model_filename: "model.py"',
        'parameters { key: "columns" value { string_value: "[1, 2]; $(x)" } }',  # the model's own
        environment("$$TRITON_MODEL_DIRECTORY/env.tar.gz"),
        environment("/envs/one"),
    ],
)
def test_names_of_one_word_are_served(tmp_path, line):
    check(tmp_path, TEXT + line)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('default_model_filename: "$(sh x)/config.pbtxt"', "default_model_filename"),
        ('default_model_filename: "model.py\\n"', "default_model_filename"),
        ('cc_model_filenames { key: "8.0" value: "a;b" }', "cc_model_filenames"),
        ('instance_group { name: "a b" }', "the name of an instance group"),
        (environment("/envs/$(x)"), "EXECUTION_ENV_PATH"),
        (environment("/envs/$$TRITON_MODEL_DIRECTORY"), "EXECUTION_ENV_PATH"),
        ('runtime: "a|b"', "runtime"),
    ],
)
def test_what_the_shell_would_take_apart_is_refused_with_its_field(tmp_path, line, field):
    with pytest.raises(InvalidInput, match=f"cannot start by {field} ") as caught:
        check(tmp_path, TEXT + line)
    assert caught.value.message.startswith(f"{CONFIG}: the Python backend")
    assert str(tmp_path) not in caught.value.message


def test_a_configuration_that_cannot_be_read_starts_nothing(tmp_path):
    with pytest.raises(InvalidInput, match="has no field 'colour'") as caught:
        check(tmp_path, f"{TEXT}colour: 3\n")
    assert caught.value.message.startswith(f"{CONFIG}:4:")


def test_a_name_that_ends_a_line_is_no_word():
    assert starting.shell_safe("model.py")
    assert not starting.shell_safe("model.py\n")
    assert not starting.shell_safe("")


def test_a_folder_of_results_that_cannot_be_served_from_is_refused_before_anything_is_built(
    tiny_repo, tmp_path
):
    out = tmp_path / "my results"
    options = RunOptions(out, None, None, 0, None, lambda _: None)
    with (
        pytest.raises(InvalidInput, match=r"cannot serve from .*my results") as caught,
        open_session(tiny_repo, options, Silent(), lambda _: None),
    ):
        raise AssertionError("opened")
    assert caught.value.hint is not None
    assert "--out DIR" in caught.value.hint
    assert not out.exists()
