"""`fvec judge` as a contract: what goes together, exit codes, files; the engine stands aside."""

import io
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from bot import cli
from layers.base import ChangeClass
from layers.evidence import Verdict
from layers.manifest import SandboxMode
from tests.unit.test_judge_rendering import accepted

CALLABLE = ["--reference", "m:ref", "--candidate", "m:new", "--inputs", "m:make"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Engine(ModuleType):
    """Stands in for `layers.judge` and `layers.callables.judge`: keeps what it was asked."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.report = accepted()
        self.options: SimpleNamespace | None = None
        self.rest: tuple = ()
        self.JudgeOptions = self.CallableOptions = SimpleNamespace

    def judge_patch(self, path, options, patch, change_class, events):
        self.options, self.rest = options, (path, patch, change_class)
        return self.report

    def judge_callable(self, options, events):
        self.options = options
        return self.report


@pytest.fixture
def engine(monkeypatch) -> Engine:
    stand_in = Engine("layers.judge")
    for name in ("layers.judge", "layers.callables.judge"):
        monkeypatch.setitem(sys.modules, name, stand_in)
    return stand_in


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "name PATH and --patch, or callables by --reference, --candidate, --inputs"),
        (["x"], "a patch needs both: PATH and --patch FILE"),
        (["--patch", "p"], "a patch needs both: PATH and --patch FILE"),
        (["x", "--patch", "p", "--reference", "m:f"], "--reference is about callables"),
        (["x", "--patch", "p", "--sandbox-mode", "process"], "--sandbox-mode is about callables"),
        (["--reference", "m:f"], "callables need --candidate, --inputs"),
        ([*CALLABLE, "--class", "config"], "a callable has no configuration"),
        ([*CALLABLE, "--class", "approximate"], "--class approximate, --metric and --margin"),
        ([*CALLABLE, "--metric", "m:f", "--margin", "0"], "--class approximate, --metric and"),
        ([*CALLABLE, "--margin", "-1"], "'-1' is not a number of zero or more"),
        ([*CALLABLE, "--margin", "nan"], "'nan' is not a number of zero or more"),
        (["x", "--patch", "p", "--class", "perfect"], "invalid choice: 'perfect'"),
        (["x", "--patch", "p", "--seed", str(2**64)], "is not a whole number from 0 to"),
    ],
)
def test_arguments_that_do_not_go_together_are_wrong_usage(capsys, engine, argv, said):
    assert cli.main(["judge", *argv]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.startswith("usage: fvec judge PATH --patch FILE [options]\n")
    assert (told.out, engine.options) == ("", None)


def test_a_patch_is_handed_over_with_its_name_and_its_bytes(tmp_path, capsys, engine):
    (tmp_path / "their.diff").write_bytes(b"\xffdiff")
    argv = ["judge", "stack", "--patch", str(tmp_path / "their.diff"), "--seed", "7"]
    assert cli.main([*argv, "--class", "reorder"]) == 0
    assert engine.options == SimpleNamespace(
        out=Path(".fvec/stack/judge"), seed=7, name="their.diff"
    )
    assert engine.rest == (Path("stack"), b"\xffdiff", ChangeClass.REORDER)
    assert capsys.readouterr().out.startswith("accepted: gain_confirmed  their.diff on ")
    kept = tmp_path / ".fvec/stack/judge"
    assert sorted(path.name for path in kept.iterdir()) == ["judge.json", "judge.md"]
    assert (tmp_path / ".fvec/.gitignore").read_text() == "*\n"


def test_without_a_class_the_engine_chooses_it(tmp_path, capsys, engine):
    (tmp_path / "p").write_bytes(b"")
    assert cli.main(["judge", "stack", "--patch", "p", "--out", "o"]) == 0
    assert engine.rest == (Path("stack"), b"", None)


def test_a_patch_can_come_from_standard_input(monkeypatch, capsys, engine):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"diff\n")))
    assert cli.main(["judge", "stack", "--patch", "-", "--out", "o"]) == 0
    assert engine.rest[1] == b"diff\n"
    assert engine.options.name == "patch.diff"


def test_a_patch_that_is_not_there_is_invalid_input(capsys, engine):
    assert cli.main(["judge", "stack", "--patch", "absent.diff", "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["message"] == "absent.diff: cannot be read: No such file or directory"
    assert error["hint"] == "--patch FILE is a git diff; --patch - reads standard input"
    assert not Path(".fvec").exists()


@pytest.mark.parametrize(
    ("verdict", "code"), [("accepted", 0), ("rejected", 1), ("inconclusive", 5), ("failed", 70)]
)
def test_every_verdict_has_its_exit_code_and_one_json_document(capsys, engine, verdict, code):
    engine.report = accepted().model_copy(update={"verdict": Verdict(verdict)})
    Path("p").write_bytes(b"")
    assert cli.main(["judge", "stack", "--patch", "p", "--out", "o", "--json"]) == code
    shown = json.loads(capsys.readouterr().out)
    assert (shown["schema"], shown["verdict"]) == ("fvec.judge/1", verdict)
    assert json.loads(Path("o/judge.json").read_text()) == shown


def test_callables_are_handed_over_exact_and_strict_by_default(capsys, engine):
    assert cli.main(["judge", *CALLABLE, "--seed", str(2**63)]) == 0
    options = engine.options
    assert (options.reference, options.candidate, options.inputs) == ("m:ref", "m:new", "m:make")
    assert (options.change_class, options.seed) == (ChangeClass.EXACT, 2**63)
    assert (options.referee, options.metric, options.margin) == (None, None, None)
    assert (options.python, options.sandbox.mode) == (Path(sys.executable), SandboxMode.STRICT)
    assert options.logs == Path(".fvec/judge/logs")


def test_every_option_of_callables_reaches_the_engine(capsys, engine):
    argv = ["--class", "approximate", "--metric", "m:auc", "--margin", "0.01", "--referee", "m:f64"]
    argv += ["--python", "other/python", "--sandbox-mode", "no-cgroup", "--out", "o"]
    assert cli.main(["judge", *CALLABLE, *argv]) == 0
    options = engine.options
    assert (options.change_class, options.metric, options.margin, options.referee) == (
        ChangeClass.APPROXIMATE, "m:auc", 0.01, "m:f64",
    )  # fmt: skip
    assert (options.python, options.sandbox.mode) == (Path("other/python"), SandboxMode.NO_CGROUP)
