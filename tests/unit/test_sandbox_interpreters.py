"""What a sandbox shows of the Python that it starts, where that is installed in a home folder."""

import sys
from pathlib import Path

import pytest

from layers.sandbox.base import MIB, Confinement, Limits
from layers.sandbox.bubblewrap import Bubblewrap

SHUT = Confinement((), (), Limits(memory_bytes=64 * MIB, processes=32))
BWRAP = Bubblewrap(Path("/usr/bin/bwrap"), "0.8.0")


def _python(prefix: Path) -> Path:
    """Make the folders of an installed Python, and keys beside it; return its program."""
    for name in ("bin", "include", "lib/python3.11", "share/keyrings"):
        (prefix / name).mkdir(parents=True)
    program = prefix / "bin" / "python3.11"
    program.touch()
    return program


def _environment(folder: Path, program: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    inside = folder / "bin" / "python"
    inside.symlink_to(program)
    return inside


def _shown(program: Path) -> set[str]:
    argv = BWRAP.argv([str(program)], Path("/"), {}, SHUT)
    return {argv[n + 1] for n, word in enumerate(argv) if word == "--ro-bind"}


@pytest.mark.parametrize("prefix", [".local", ".pyenv/versions/3.11.7"])
def test_of_a_python_in_the_home_folder_its_own_parts_alone_are_shown(
    prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home, base = tmp_path / "home", tmp_path / "home" / prefix
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "base_prefix", str(base))
    inside = _environment(tmp_path / "venv", _python(base))

    shown = _shown(inside)

    own = {str(base / part) for part in ("bin", "include", "lib")}
    assert own | {str(tmp_path / "venv")} <= shown
    assert {path for path in shown if Path(path).is_relative_to(home)} == own


def test_a_python_elsewhere_is_shown_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "python"))
    inside = _environment(tmp_path / "venv", _python(tmp_path / "python"))

    assert {str(tmp_path / "python"), str(tmp_path / "venv")} <= _shown(inside)
