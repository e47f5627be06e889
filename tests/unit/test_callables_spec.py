"""Where a callable's function may lie, how a judgement is asked for again, what its processes see."""

from pathlib import Path

import pytest

from layers.base import ChangeClass
from layers.callables.cell import CHILD, Cell, confinement, environment, laid_out
from layers.callables.spec import Spec
from layers.callables.station import CallableOptions
from layers.errors import InvalidInput
from layers.manifest import SandboxMode, SandboxSection
from layers.programs import ONE_THREAD
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


def _cell(tmp_path: Path, **settings: object) -> Cell:
    sandbox = Sandbox.open(SandboxSection(mode=SandboxMode.PROCESS))
    python = tmp_path / "bin" / "python"
    return Cell(sandbox, python, sandbox.limits, tmp_path, cpu=0, spin=False, **settings)


def test_processes_hash_by_the_seed_of_their_cell(tmp_path: Path) -> None:
    assert environment(_cell(tmp_path, hash_seed=12345))["PYTHONHASHSEED"] == "12345"


def test_elsewhere_one_thread_is_said_otherwise_and_the_word_is_another(tmp_path: Path) -> None:
    usual, other = _cell(tmp_path), _cell(tmp_path, elsewhere=True)
    assert set(ONE_THREAD) <= set(environment(usual))
    assert not set(ONE_THREAD) & set(environment(other))
    assert environment(other)["OMP_THREAD_LIMIT"] == "1"
    assert usual.word != other.word


def test_what_drives_a_function_lies_where_no_name_tells_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    caller = laid_out(folder)
    assert caller.read_bytes() == CHILD.read_bytes()
    assert {path.name for path in folder.glob("*.py")} == {
        *("main.py", "codec.py", "memory.py", "snapshot.py")
    }
    spec = Spec("f.py:f", tmp_path / "code", tmp_path / "code" / "f.py", None, "f")
    shown = confinement(_cell(tmp_path, caller=caller), spec).read_only
    assert folder in shown
    assert CHILD.parent not in shown
