"""The command line as a contract: names, options, exit codes, one JSON document.

`run`, `plan` and `measure` drive a stand-in for `layers.run` here, at the seam where the engine
is handed its options; the engine itself runs in the integration tests.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bot import cli
from bot.commands import arguments, engine, run
from bot.publishing.local import ForgePublisher
from layers.agent_settings import AgentOptions, AgentSettings
from layers.base import LayerName
from layers.errors import Inconclusive, InvalidInput, Location, Missing, ToolFailed
from tests.render_fixture import evidence, measure_report, plan_report, run_report

MANIFEST = """\
schema: fvec.manifest/1
stack:
  name: tiny
  models: models
  entry: ensemble
traffic:
  requests: traffic/requests.bin
  arrivals: traffic/arrivals.csv
slo:
  p99_ms: 50
"""


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """Results and crash logs go to folders of the test."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def repository(tmp_path) -> Path:
    """A serving repository with a valid manifest."""
    root = tmp_path / "tiny"
    for name in (".github", "models/ensemble", "traffic"):
        (root / name).mkdir(parents=True)
    (root / ".github/fvec.yml").write_text(MANIFEST)
    for name in ("requests.bin", "arrivals.csv"):
        (root / "traffic" / name).write_text("")
    return root


@dataclass(frozen=True)
class RunOptions:
    out: Path
    layers: tuple[LayerName, ...] | None
    minutes: float | None
    seed: int
    cookbook: Path | None
    forge: Any
    resume: bool
    shard: Any
    proposers: tuple[str, ...]
    agents: Any = None


class Engine(ModuleType):
    """Stands in for `layers.run`: remembers its options, answers with fixed reports."""

    RunOptions = RunOptions

    def __init__(self, failure: BaseException | None = None) -> None:
        super().__init__("layers.run")
        self.failure = failure
        self.options: RunOptions | None = None
        self.path: Path | None = None

    def _called(self, path, options, events):
        self.path, self.options = path, options
        events.phase("noise", "4 pairs")
        sys.stdout.write("a library that prints\n")
        if self.failure is not None:
            raise self.failure

    def run(self, path, options, events):
        self._called(path, options, events)
        iteration = evidence().iteration
        record = options.forge(options.out).publish(evidence(), "diff\n", "main", iteration.branch)
        return run_report().model_copy(update={"pull_requests": [record]})

    def plan(self, path, options, events):
        self._called(path, options, events)
        return plan_report()

    def measure(self, path, options, events):
        self._called(path, options, events)
        return measure_report()


@pytest.fixture
def install(monkeypatch):
    """Put an engine in place and return it."""

    def put(failure: BaseException | None = None) -> Engine:
        stand_in = Engine(failure)
        monkeypatch.setitem(sys.modules, "layers.run", stand_in)
        return stand_in

    return put


def call(capsys, *argv: str) -> tuple[int, str, str]:
    code = cli.main([str(arg) for arg in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def test_the_commands_are_those_of_the_contract():
    commands = commands_of(cli.parser())
    assert list(commands) == [
        "init", "run", "plan", "judge", "measure", "verify", "floor", "walls", "publish", "respond",
        "serve", "config", "knowledge", "doctor",
    ]  # fmt: skip
    assert list(commands_of(commands["config"])) == ["validate"]
    assert list(commands_of(commands["knowledge"])) == ["check", "show"]


def test_run_has_the_options_of_the_contract():
    options = {o for a in commands_of(cli.parser())["run"]._actions for o in a.option_strings}
    assert options == {
        "-h", "--help", "--layer", "--proposer", "--agents", "--forge", "--repository", "--cookbook",
        "--resume", "--shard", "--out", "--seed", "--budget", "--json",
    }  # fmt: skip


def test_help_and_version_are_on_standard_output(capsys):
    code, out, err = call(capsys, "--help")
    assert (code, err) == (0, "")
    assert "exit codes: 0 done (judge and verify: accepted), 1 rejected, 2 wrong usage" in " ".join(
        out.split()
    )
    assert call(capsys, "--version") == (0, "fvec 0.1.0\n", "")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["run"],
        ["run", "x", "--budget", "0"],
        ["run", "x", "--budget", "soon"],
        ["run", "x", "--budget", "25h"],
        ["run", "x", "--seed", "-1"],
        ["run", "x", "--seed", "4294967296"],
        ["run", "x", "--layer", "bios"],
        ["run", "x", "--forge", "github"],
        ["run", "x", "--proposer", "anthropic"],
        ["run", "x", "--agents", "agents.yaml"],
        ["plan", "x", "--resume"],
        ["run", "x", "--shard", "3/2"],
        ["run", "x", "--shard", "half"],
        ["plan", "x", "--shards", "2"],
        ["plan", "x", "--matrix", "--shards", "-1"],
        ["knowledge"],
    ],
)
def test_wrong_usage_is_2_and_says_so_on_standard_error(capsys, argv):
    code, out, err = call(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith("usage: fvec")


@pytest.mark.parametrize(
    ("text", "value"),
    [("20", 20), ("20m", 20), ("90s", 1.5), ("1.5h", 90), (" 2 min ", 2), ("24h", 1440)],
)
def test_a_budget_is_in_minutes_unless_it_says_otherwise(text, value):
    assert arguments.minutes(text) == value


def test_run_hands_its_options_to_the_engine(capsys, install, repository, tmp_path):
    stand_in = install()
    out = tmp_path / "results"
    argv = ["--out", out, "--layer", "features", "--layer", "config", "--layer", "features"]
    argv += ["--budget", "90s", "--seed", "7", "--cookbook", tmp_path]
    code, _, _ = call(capsys, "run", repository, *argv)
    assert code == 0
    assert stand_in.path == repository
    assert stand_in.options is not None
    assert stand_in.options.out == out
    assert stand_in.options.layers == (LayerName.FEATURES, LayerName.CONFIG)
    assert (stand_in.options.minutes, stand_in.options.seed) == (1.5, 7)
    assert stand_in.options.cookbook == tmp_path
    assert stand_in.options.resume is False
    assert isinstance(stand_in.options.forge(out), ForgePublisher)


def test_run_hands_on_that_it_is_to_resume(capsys, install, repository, tmp_path):
    stand_in = install()
    assert call(capsys, "run", repository, "--out", tmp_path / "out", "--resume")[0] == 0
    assert stand_in.options is not None
    assert stand_in.options.resume is True


def test_what_proposers_are_given_is_hidden_but_for_what_every_program_needs(monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", "a-key")
    settings = AgentSettings.model_validate({"schema": "fvec.agents/1"})
    given = {name: os.environ[name] for name in ("SERVICE_KEY", "PATH")}
    with run._credentials_aside(AgentOptions(settings, given)) as whole:
        assert "SERVICE_KEY" not in os.environ
        assert os.environ["PATH"] == whole["PATH"]
    assert os.environ["SERVICE_KEY"] == "a-key"


def test_run_leaves_report_and_data_where_it_says(capsys, install, repository):
    install()
    code, out, err = call(capsys, "run", repository)
    folder = Path(".fvec/tiny")
    assert code == 0
    assert out.startswith("2 changes accepted, 3.92 times the sustained rate at the SLO")
    assert out.endswith("report: .fvec/tiny/report.html\n")
    assert err == "[00:00] noise: 4 pairs\na library that prints\n"
    assert json.loads((folder / "run.json").read_text())["schema"] == "fvec.run/1"
    page = (folder / "report.html").read_text()
    assert "Every block (24)" in page
    assert '<a href="forge/pulls/1/body.md">' in page
    assert sorted(p.name for p in folder.iterdir()) == ["forge", "report.html", "run.json"]


def test_results_inside_a_checkout_leave_it_clean(capsys, install, repository, monkeypatch):
    install()
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", repository]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.chdir(repository)
    assert call(capsys, "run", ".")[0] == 0
    assert (repository / ".fvec/tiny/run.json").is_file()
    status = subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True)
    assert status.stdout == b""


def test_a_refused_input_leaves_nothing_behind(capsys, install, repository):
    install(InvalidInput("no"))
    assert call(capsys, "run", repository)[0] == 3
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("command", "schema"),
    [("run", "fvec.run/1"), ("plan", "fvec.plan/1"), ("measure", "fvec.measure/1")],
)
def test_json_is_one_document_and_nothing_else(capsys, install, repository, command, schema):
    install()
    code, out, err = call(capsys, command, repository, "--json")
    assert code == 0
    assert json.loads(out)["schema"] == schema
    assert "a library that prints" in err


def test_plan_and_measure_print_tables_for_people(capsys, install, repository):
    install()
    assert "native-string-tensors" in call(capsys, "plan", repository)[1]
    assert "gain in reach" in call(capsys, "measure", repository)[1]


PLACE = Location(Path("models/x/config.pbtxt"), 3, 7)


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (
            InvalidInput("unknown field", at=PLACE, hint="remove it"),
            3,
            "fvec: models/x/config.pbtxt:3:7: unknown field\n  hint: remove it\n",
        ),
        (Missing("no compiler", hint="apt-get install gcc"), 4,
         "fvec: no compiler\n  hint: apt-get install gcc\n"),
        (Inconclusive("too noisy"), 5, "fvec: too noisy\n"),
        (ToolFailed("the server died"), 70, "fvec: the server died\n"),
        (KeyboardInterrupt(), 130, "fvec: interrupted\n"),
    ],
)  # fmt: skip
def test_an_error_has_its_exit_code_and_says_what_to_do(
    capsys, install, repository, failure, code, message
):
    install(failure)
    returned, out, err = call(capsys, "run", repository)
    assert (returned, out) == (code, "")
    assert err.endswith(message)
    assert "Traceback" not in err


def test_an_error_with_json_is_one_document_too(capsys, install, repository):
    install(InvalidInput("unknown field", at=PLACE, hint="remove it"))
    code, out, _ = call(capsys, "run", repository, "--json")
    assert code == 3
    assert json.loads(out) == {
        "schema": "fvec.error/1",
        "exit_code": 3,
        "error": {
            "kind": "InvalidInput",
            "message": "models/x/config.pbtxt:3:7: unknown field",
            "hint": "remove it",
        },
    }


def test_an_unexpected_error_is_our_bug_and_keeps_its_traceback(
    capsys, install, repository, tmp_path
):
    install(ZeroDivisionError("oh"))
    code, _, err = call(capsys, "run", repository)
    assert code == 70
    assert "this is a bug of fvec: ZeroDivisionError: oh" in err
    (log,) = (tmp_path / "cache/fvec/logs").iterdir()
    assert str(log) in err
    assert log.read_text().rstrip().endswith("ZeroDivisionError: oh")


def test_a_terminated_run_cleans_up_and_is_143(capsys, install, repository):
    stand_in = install()
    cleaned = []

    def killed(path, options, events):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            cleaned.append("yes")

    stand_in.run = killed
    before = signal.getsignal(signal.SIGTERM)
    assert call(capsys, "run", repository)[0] == 143
    assert cleaned == ["yes"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_host_without_the_engine_is_told_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "needs_it.py").write_text("import numpy_that_is_absent\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Missing) as caught:
        engine.load("needs_it")
    assert caught.value.hint == "pip install 'fvec[engine]'"


def test_a_module_of_ours_that_is_absent_is_a_bug_and_not_a_missing_extra():
    with pytest.raises(ModuleNotFoundError):
        engine.load("layers.no_such_module")


def test_help_needs_neither_the_engine_nor_numpy():
    program = "import sys, bot.cli as c; c.main(['--help']); print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    for heavy in ("numpy", "matplotlib", "scipy", "gevent", "libcst", "grpc"):
        assert f"'{heavy}'" not in done.stdout


def test_a_valid_manifest_is_valid_by_folder_and_by_file(capsys, repository):
    path = repository / ".github/fvec.yml"
    for argument in (repository, path):
        assert call(capsys, "config", "validate", argument) == (0, f"{path}: valid\n", "")


def test_a_missing_manifest_is_3_and_says_where_it_belongs(capsys, tmp_path):
    code, _, err = call(capsys, "config", "validate", tmp_path)
    assert code == 3
    assert err == (
        f"fvec: {tmp_path} has no manifest\n"
        f"  hint: run `fvec init {tmp_path}`, which writes a first .github/fvec.yml\n"
    )


def test_an_unknown_key_is_3_with_its_place_and_the_nearest_key(capsys, repository):
    path = repository / ".github/fvec.yml"
    path.write_text(MANIFEST.replace("entry:", "entri:"))
    code, _, err = call(capsys, "config", "validate", repository)
    assert code == 3
    assert f"{path}:5:3" in err
    assert "entry" in err


def test_a_file_that_the_manifest_names_must_exist(capsys, repository):
    (repository / "traffic/arrivals.csv").unlink()
    code, _, err = call(capsys, "config", "validate", repository)
    assert code == 3
    assert "traffic.arrivals: traffic/arrivals.csv does not exist in the repository" in err


BUILT = """\
  build:
    - run: [python, make.py]
      inputs: [make.py]
      outputs: ["traffic/*.bin", judge, models/ensemble/1/model.py]
"""
JUDGED = "correctness: {referee: judge/ref.py:answer, metric: metric.py:value}\n"


def test_a_model_to_be_loaded_must_exist_and_errors_name_its_line_and_the_nearest(
    capsys, repository
):
    path = repository / ".github/fvec.yml"
    (repository / "models/embedder").mkdir()
    path.write_text(MANIFEST.replace("traffic:\n", "  load: [embeder]\ntraffic:\n", 1))
    code, _, err = call(capsys, "config", "validate", repository)
    assert code == 3
    assert f"{path}:6:10: stack.load: models/embeder does not exist" in err
    assert "did you mean 'embedder'?" in err
    path.write_text(MANIFEST.replace("traffic:\n", "  load: [embedder]\ntraffic:\n", 1))
    assert call(capsys, "config", "validate", repository)[0] == 0


def test_what_a_build_step_makes_need_not_exist(capsys, repository):
    (repository / "traffic/requests.bin").unlink()
    (repository / "models/ensemble").rmdir()
    (repository / "metric.py").write_text("")
    text = MANIFEST.replace("traffic:\n", f"{BUILT}traffic:\n") + JUDGED
    (repository / ".github/fvec.yml").write_text(text)
    assert call(capsys, "config", "validate", repository)[0] == 0


@pytest.mark.parametrize(
    ("change", "absent"),
    [
        (lambda root: (root / "models/ensemble").rmdir(), "stack.entry: models/ensemble"),
        (lambda root: (root / "judge/ref.py").unlink(), "correctness.referee: judge/ref.py"),
        (lambda root: (root / "metric.py").unlink(), "correctness.metric: metric.py"),
    ],
)
def test_what_serves_and_what_judges_must_exist(capsys, repository, change, absent):
    (repository / "judge").mkdir()
    for name in ("judge/ref.py", "metric.py"):
        (repository / name).write_text("")
    (repository / ".github/fvec.yml").write_text(MANIFEST + JUDGED)
    assert call(capsys, "config", "validate", repository)[0] == 0
    change(repository)
    code, _, err = call(capsys, "config", "validate", repository)
    assert code == 3
    assert f"{absent} does not exist in the repository" in err


def test_the_manifest_s_schema_is_published(capsys):
    code, out, _ = call(capsys, "config", "validate", "--schema")
    schema = json.loads(out)
    assert code == 0
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"schema", "stack", "traffic", "slo"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_the_packaged_cards_are_right(capsys):
    code, out, _ = call(capsys, "knowledge", "check")
    assert (code, out.rsplit(",", 1)[1]) == (0, " 0 problems\n")


def test_a_wrong_card_is_3_with_its_place(capsys, tmp_path):
    (tmp_path / "server").mkdir()
    card = tmp_path / "server/x.yaml"
    card.write_text("schema: fvec.card/1\nkind: server\nid: x\ntitle: X\nfactz: {}\n")
    code, out, _ = call(capsys, "knowledge", "check", tmp_path)
    assert code == 3
    assert f"{card}:5:1" in out
    code, out, _ = call(capsys, "knowledge", "check", tmp_path, "--json")
    assert (code, json.loads(out)["cards"]) == (3, 1)


def test_a_card_is_listed_and_shown(capsys):
    assert "native-string-tensors" in call(capsys, "knowledge", "show")[1]
    code, out, _ = call(capsys, "knowledge", "show", "native-string-tensors")
    assert (code, out.splitlines()[0]) == (0, "native-string-tensors  server, exact")
    out = call(capsys, "knowledge", "show", "native-string-tensors", "--json")[1]
    assert json.loads(out)["id"] == "native-string-tensors"


def test_an_unknown_card_is_3_with_the_nearest(capsys):
    code, _, err = call(capsys, "knowledge", "show", "native-string-tensor")
    assert code == 3
    assert "did you mean native-string-tensors" in err


def test_doctor_says_what_is_there_and_what_is_missing(capsys, monkeypatch, tmp_path):
    code, out, _ = call(capsys, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert list(checks) == [
        "python", "git", "cc", "engine", "py-spy", "model server", "sandbox", "cores", "load average",
        "free disk",
    ]  # fmt: skip
    # The cache folder of this test is empty, so the server's environment is what is missing.
    assert checks["model server"]["ok"] is False
    assert "--install" in checks["model server"]["fix"]
    assert code == 4
    assert checks["python"]["ok"]
    assert checks["git"]["ok"]
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, _ = call(capsys, "doctor")
    assert code == 4
    assert "apt-get install git" in out


def test_doctor_refuses_a_git_that_is_too_old(capsys, monkeypatch, tmp_path):
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    monkeypatch.setenv("PATH", str(old.parent))
    for version, fine in (("2.25.1", False), ("2.33.0", True), ("3.0.0", True)):
        old.write_text(f"#!/bin/sh\necho git version {version}\n")
        old.chmod(0o755)
        checks = json.loads(call(capsys, "doctor", "--json")[1])["checks"]
        git = next(check for check in checks if check["name"] == "git")
        assert (git["ok"], git["detail"]) == (fine, f"git version {version}")
        assert "2.33 or newer" in git["fix"]


def test_doctor_reads_the_requirements_of_the_stack_and_its_errors(capsys, repository):
    code, out, _ = call(capsys, "doctor", repository, "--json")
    fixes = {check["name"]: check["fix"] for check in json.loads(out)["checks"]}
    assert code == 4
    assert "--install" in fixes["model server"]
    (repository / ".github/fvec.yml").unlink()
    assert call(capsys, "doctor", repository)[0] == 3


def test_a_reader_that_goes_away_ends_the_command_quietly():
    program = "import sys, bot.cli as c; sys.exit(c.main(['config', 'validate', '--schema']))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_output_in_another_encoding_is_escaped_and_not_a_bug(tmp_path):
    program = "import sys, bot.cli as c; sys.exit(c.main(sys.argv[1:]))"
    argv = [sys.executable, "-c", program, "config", "validate", str(tmp_path / "se\u00f1al")]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "se\\xf1al" in done.stderr
    assert "Traceback" not in done.stderr
