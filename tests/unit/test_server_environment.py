"""The model server's environment: what is refused before anything is installed; log reasons."""

from pathlib import Path

import pytest

from layers.errors import InvalidInput, Missing
from layers.triton import serverlog
from layers.triton.environment import ensure


def test_an_absent_environment_is_missing_with_the_command_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("six==1.16.0\n")

    with pytest.raises(Missing) as caught:
        ensure(requirements, allow_install=False)

    assert caught.value.exit_code == 4
    assert "nvidia-pytriton==0.7.0 with requirements.txt" in caught.value.message
    assert "fvec doctor --install PATH" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["requirements.txt"]


@pytest.mark.parametrize("line", ["-r more.txt", "-e .", "./local", "/x.whl", "-c pins.txt"])
def test_requirements_that_refer_to_other_files_are_refused_by_line(
    tmp_path: Path, line: str
) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"numpy==1.26.4\n  {line}\n")

    with pytest.raises(InvalidInput, match=f"{requirements}:2:1"):
        ensure(requirements, allow_install=False)


def test_a_requirements_file_that_is_not_there_is_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        ensure(tmp_path / "none.txt", allow_install=False)


LOG = (
    'E1129 17:52:51.109686 12582 server.cc:241] "CudaDriverHelper has not been initialized."\n'
    'I1129 17:52:51.2 12582 server.cc:1] "fine"\n'
    "E1129 17:52:51.456540 12582 model_lifecycle.cc:642] \"failed to load 'm' version 1: Internal: "
    "KeyError: 'x'\\n\\nAt:\\n  /e/lib/python3.11/site-packages/numpy/a.py(4): load\\n"
    '  /r/models/m/1/model.py(6): <module>\\n  <frozen importlib._bootstrap>(241): _call\\n"\n'
)


def test_reasons_are_the_errors_with_the_models_own_line(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG)

    assert serverlog.problems(log) == [
        "failed to load 'm' version 1: Internal: KeyError: 'x' (at /r/models/m/1/model.py(6): <module>)"
    ]
    assert serverlog.problems(log, since=len(LOG)) == []


def test_without_errors_the_logs_last_lines_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("one\n\ntwo\n")

    assert serverlog.reasons(log) == f"  | one\n  | two\n  log: {log}"
