"""Where a callable's function may lie, how a judgement is asked for again, what its processes see."""

from pathlib import Path

import pytest

from layers.base import ChangeClass
from layers.callables.cell import Cell, environment
from layers.callables.spec import Spec
from layers.callables.station import CallableOptions
from layers.errors import InvalidInput
from layers.manifest import SandboxMode, SandboxSection
from layers.sandbox.box import Sandbox


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home that holds a file of functions and a folder with another one."""
    place = tmp_path / "users" / "me"
    (place / "kernels").mkdir(parents=True)
    for folder in (place, place.parent, place / "kernels"):
        (folder / "functions.py").write_text("def f(): ...\n")
    monkeypatch.setenv("HOME", str(place))
    return place


@pytest.mark.parametrize("text", ["functions.py:f", "functions:f"])
def test_a_folder_that_holds_the_home_is_refused(text: str, home: Path) -> None:
    for base in (home, home.parent):
        with pytest.raises(InvalidInput, match="holds all of your home") as caught:
            Spec.parse(text, base, "--candidate")
        assert "a folder of its own" in str(caught.value.hint)
    assert Spec.parse(text, home / "kernels", "--candidate").folder == home / "kernels"


def test_a_link_to_the_home_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(InvalidInput, match="holds all of your home"):
        Spec.parse("link/functions.py:f", tmp_path, "--inputs")


def test_the_root_is_refused(home: Path) -> None:
    assert home.is_absolute()
    with pytest.raises(InvalidInput, match="holds all of your home"):
        Spec.parse("functions:f", Path("/"), "--reference")


def test_a_judgement_is_asked_for_again_with_all_that_it_was_given() -> None:
    options = CallableOptions(
        "a:f",
        "a:g",
        "a:make",
        ChangeClass.APPROXIMATE,
        metric="a:m",
        margin=0.01,
        sandbox=SandboxSection(mode=SandboxMode.NO_CGROUP),
    )
    assert options.reproduce(7) == [
        *("fvec", "judge", "--reference", "a:f", "--candidate", "a:g", "--inputs", "a:make"),
        *("--class", "approximate", "--metric", "a:m", "--margin", "0.01"),
        *("--sandbox-mode", "no-cgroup", "--seed", "7"),
    ]
    assert "--sandbox-mode" not in CallableOptions("a:f", "a:g", "a:make").reproduce(7)


def test_processes_hash_by_the_seed_of_their_cell(tmp_path: Path) -> None:
    section = SandboxSection(mode=SandboxMode.PROCESS)
    sandbox = Sandbox.open(section)
    python = tmp_path / "bin" / "python"
    cell = Cell(sandbox, python, sandbox.limits, tmp_path, cpu=0, spin=False, hash_seed=12345)
    assert environment(cell)["PYTHONHASHSEED"] == "12345"
