"""`fvec init`: which models are found, which one requests name, and what is written for them."""

import os
import subprocess
from pathlib import Path

import pytest

from bot.commands import config
from layers.errors import InvalidInput
from layers.manifest import Manifest
from layers.scaffold import checkout, models, plan
from layers.scaffold.checkout import Skipped
from layers.scaffold.entry import Certainty
from tests.init_repositories import ensemble, model, put, python_model

BLS = """
import triton_python_backend_utils as pb_utils
RERANKER = "reranker"

class TritonPythonModel:
    def execute(self, requests):
        pb_utils.InferenceRequest(model_name="embedder", requested_output_names=["y"], inputs=[])
        pb_utils.InferenceRequest(model_name=RERANKER, requested_output_names=["y"], inputs=[])
"""


def choice(made: plan.Plan, key: str) -> tuple[str, Certainty, str]:
    guess = next(guess for guess in made.guesses if guess.key == key)
    return guess.value, guess.certainty, guess.why


def manifest(made: plan.Plan) -> Manifest:
    """Write the files and return the manifest as `fvec config validate` reads it."""
    plan.write(made)
    path, root = config.locate(made.root)
    read = config.load(path)
    assert root is not None
    config.check_files(read, path, root)
    return read


def test_an_ensemble_that_nobody_calls_is_the_entry(tmp_path):
    made = plan.make(put(tmp_path / "Text Scoring", ensemble()))
    assert choice(made, "stack.entry") == (
        "pipeline", Certainty.SURE, "the only ensemble that no other model calls",
    )  # fmt: skip
    assert [model.name for model in made.used] == ["encoder", "pipeline", "scorer"]
    read = manifest(made)
    assert (read.stack.name, read.stack.models, read.stack.entry) == (
        "text-scoring", "models", "pipeline",
    )  # fmt: skip
    assert read.stack.build[0].run == ["python", "traffic/synthetic.py"]
    assert read.stack.build[0].outputs == [read.traffic.requests, read.traffic.arrivals]


def test_a_configuration_that_cannot_be_read_costs_its_model_alone(tmp_path):
    tree = checkout.walk(put(tmp_path, {**python_model("a"), **python_model("b")}))
    (tmp_path / "models" / "a" / "config.pbtxt").unlink()  # as one without the right to read it
    found, skipped = models.find(tree)
    assert [(model.name, model.readable) for model in found[0].models] == [
        ("a", False),
        ("b", True),
    ]
    assert skipped == [
        Skipped("models/a/config.pbtxt", "cannot be read: No such file or directory")
    ]


def test_nothing_but_new_files_is_written(tmp_path):
    root = put(tmp_path / "r", ensemble())
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    written = plan.write(plan.make(root))
    assert [path.relative_to(root).as_posix() for path in written] == [
        "traffic/synthetic.py", "traffic/.gitignore", ".github/fvec.yml",
    ]  # fmt: skip
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert {path: after.pop(path) for path in before} == before
    assert sorted(after) == sorted(written)


def test_a_single_model_is_the_entry(tmp_path):
    made = plan.make(put(tmp_path, python_model("only")))
    assert choice(made, "stack.entry") == ("only", Certainty.SURE, "the only model")


def test_a_model_that_calls_the_others_by_name_is_the_entry(tmp_path):
    files = {
        **python_model("embedder"),
        **python_model("reranker"),
        **python_model("api", code=BLS),
    }
    made = plan.make(put(tmp_path, files))
    assert choice(made, "stack.entry") == (
        "api", Certainty.LIKELY, "the only model that no other calls",
    )  # fmt: skip
    assert [model.name for model in made.used] == ["api", "embedder", "reranker"]
    why = "the code of api calls it by name"
    assert choice(made, "stack.load reranker") == ("reranker", Certainty.LIKELY, why)
    assert f"  load:\n    - embedder  # likely: {why}\n" in made.files[".github/fvec.yml"]
    assert manifest(made).stack.load == ["embedder", "reranker"]


def test_what_an_ensemble_is_made_of_is_not_loaded_by_name_beside_it(tmp_path):
    code = "".join(
        f"def {name}(pb):\n    pb.InferenceRequest(model_name={name!r}, inputs=[])\n"
        for name in ("pipeline", "scorer", "other")
    )
    files = {**ensemble(), **python_model("other"), **python_model("api", code=code)}
    made = plan.make(put(tmp_path, files))
    assert made.entry.name == "api"
    assert manifest(made).stack.load == ["other", "pipeline"]


def test_an_entry_that_is_an_ensemble_needs_nothing_loaded_that_its_parts_do_not_call(tmp_path):
    called = "def f(pb):\n    pb.InferenceRequest(model_name='helper', inputs=[])\n"
    files = {**ensemble(), **python_model("encoder", code=called), **python_model("helper")}
    made = plan.make(put(tmp_path, files))
    assert made.entry.name == "pipeline"
    assert manifest(made).stack.load == ["helper"]


def test_a_name_that_is_computed_counts_as_a_call_of_the_models_named_anywhere(tmp_path):
    code = 'N = {"a": "one"}\ndef f(pb, k):\n    pb.InferenceRequest(model_name=N[k], inputs=[])\n'
    made = plan.make(put(tmp_path, {**python_model("one"), **python_model("zero", code=code)}))
    assert made.entry.name == "zero"
    assert [model.name for model in made.used] == ["one", "zero"]
    value, certainty, why = choice(made, "stack.load one")
    assert (value, certainty) == ("one", Certainty.GUESS)
    assert f"stack.load: one; {why}" in made.correct_first
    assert manifest(made).stack.load == ["one"]


def test_among_equals_one_is_chosen_and_the_others_are_named(tmp_path):
    made = plan.make(put(tmp_path, {**python_model("b"), **python_model("a")}))
    why = "one of 2 that no other model calls; others: b"
    assert choice(made, "stack.entry") == ("a", Certainty.GUESS, why)
    assert f"# CORRECT FIRST: guess: {why}" in made.files[".github/fvec.yml"]
    assert f"stack.entry: {why}" in made.correct_first
    assert plan.make(tmp_path, entry="b").entry.name == "b"


def test_two_models_that_call_each_other_do_not_end_in_a_loop(tmp_path):
    def calls(name):
        return f"def f(pb):\n    pb.InferenceRequest(model_name={name!r})\n"

    files = {**python_model("a", code=calls("b")), **python_model("b", code=calls("a"))}
    assert plan.make(put(tmp_path, files)).entry.name == "a"


def test_of_several_model_repositories_the_product_is_chosen(tmp_path):
    files = {
        **python_model("toy", models="tests/models"),
        **python_model("other", models="tests/models"),
        **python_model("served", models="deploy/models"),
    }
    made = plan.make(put(tmp_path, files))
    assert made.repository.folder == "deploy/models"
    assert [found.folder for found in made.repositories] == ["deploy/models", "tests/models"]
    assert choice(made, "stack.models")[1] is Certainty.GUESS
    other = plan.make(tmp_path, repository="tests/models")
    assert choice(other, "stack.models") == ("tests/models", Certainty.SURE, "named by --models")


def test_a_model_completes_its_configuration_from_its_code(tmp_path):
    code = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        inputs = [{"name": "A", "data_type": "TYPE_FP32", "dims": [4]},
                  {"name": "B", "data_type": "TYPE_INT64", "dims": [-1], "optional": True}]
        outputs = [{"name": "Y", "data_type": "TYPE_FP32", "dims": [4]}]
        for tensor in inputs:
            auto_complete_model_config.add_input(tensor)
        for tensor in outputs:
            auto_complete_model_config.add_output(tensor)
        auto_complete_model_config.set_max_batch_size(16)
        return auto_complete_model_config
"""
    made = plan.make(put(tmp_path, {"models/m/1/model.py": code}))
    config_ = made.entry.config
    assert [(i.name, list(i.dims), i.optional) for i in config_.input] == [
        ("A", [4], False), ("B", [-1], True),
    ]  # fmt: skip
    assert [output.name for output in config_.output] == ["Y"]
    assert config_.max_batch_size == 16
    assert made.entry.notes == [
        "has no config.pbtxt: the server completes its configuration",
        "its inputs are those that auto_complete_config of its model.py names",
    ]


def test_inputs_that_nothing_names_are_left_for_a_person(tmp_path):
    made = plan.make(put(tmp_path, {"models/m/1/model.onnx": b"\0"}))
    assert (made.entry.backend, list(made.entry.config.input)) == ("onnxruntime", [])
    assert "INPUTS in traffic/synthetic.py: write what m takes" in made.correct_first
    assert choice(made, "traffic INPUTS")[1] is Certainty.UNKNOWN
    assert manifest(made).stack.entry == "m"
    done = subprocess.run(
        [os.sys.executable, tmp_path / "traffic/synthetic.py"], capture_output=True, text=True
    )
    assert done.stderr.endswith("INPUTS is empty: write the inputs of the model there\n")


def test_templates_are_named_and_not_guessed(tmp_path):
    files = {
        **python_model("good"),
        "models/bare/config.pbtxt.template": 'name: "bare"',
        "models/bare/1/model.py": "",
        "models/jinja/config.pbtxt.j2": "{{ x }}",
        "models/filled/config.pbtxt": "max_batch_size: ${max_batch}\n",
        "models/filled/1/model.py": "",
    }
    made = plan.make(put(tmp_path, files))
    assert made.entry.name == "good"
    assert made.skipped == [
        Skipped("models/bare/config.pbtxt.template", "a template, to be filled in"),
        Skipped(
            "models/filled/config.pbtxt", "a template, to be filled in: line 1 has '${max_batch}'"
        ),
        Skipped("models/jinja/config.pbtxt.j2", "a template, to be filled in"),
    ]
    assert [m.name for m in made.repository.models if not m.readable] == ["bare", "filled"]


def test_templates_alone_are_refused(tmp_path):
    files = {"models/a/config.pbtxt": "name: ${name}", "models/a/1/model.py": ""}
    with pytest.raises(InvalidInput, match="no model of models can be read: a: its config"):
        plan.make(put(tmp_path, files))


def test_a_configuration_in_a_version_folder_makes_no_model(tmp_path):
    files = {**python_model("good"), "models/odd/1/config.pbtxt": 'name: "odd"'}
    made = plan.make(put(tmp_path, files))
    assert [m.name for m in made.repository.models] == ["good"]
    reason = "it lies in a version folder; servers read it one folder above"
    assert made.skipped == [Skipped("models/odd/1/config.pbtxt", reason)]


def test_a_broken_configuration_is_skipped_with_its_place(tmp_path):
    files = {**python_model("good"), **model("bad", 'name: "bad"\ninput [ { nam: "x" } ]\n')}
    made = plan.make(put(tmp_path, files))
    assert [skipped.path for skipped in made.skipped] == ["models/bad/config.pbtxt"]
    assert made.skipped[0].reason.startswith("2:11: ")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ('name: "x" dims: [ 0 ] data_type: TYPE_FP32', "input 'x' has dims [0]: positive numbers, or -1"),
        ('name: "x" dims: [ -7 ] data_type: TYPE_FP32', "input 'x' has dims [-7]: positive numbers, or -1"),
        ('name: "x" dims: [ 1 ]', "input 'x' has no data_type"),
        ("dims: [ 1 ] data_type: TYPE_FP32", "input 0 has no name"),
        ('name: "x" dims: [ 1 ] data_type: TYPE_FP32 } ] max_batch_size: -2 output [ {', "max_batch_size is -2"),
    ],
)  # fmt: skip
def test_an_input_that_no_request_can_hold_disqualifies_its_model(tmp_path, given, problem):
    files = {**python_model("good"), **model("bad", f'backend: "python" input [ {{ {given} }} ]')}
    made = plan.make(put(tmp_path, files))
    assert made.entry.name == "good"
    assert [list(m.problems) for m in made.repository.models if m.name == "bad"] == [[problem]]


def test_what_a_server_would_refuse_is_said_first(tmp_path):
    files = ensemble()
    del files["models/pipeline/1/.gitkeep"], files["models/scorer/1/model.py"]
    files["models/scorer/config.pbtxt"] = files["models/scorer/config.pbtxt"].replace("python", "onnxruntime")  # fmt: skip
    files["models/encoder/config.pbtxt"] = files["models/encoder/config.pbtxt"].replace("encoder", "coder", 1)  # fmt: skip
    made = plan.make(put(tmp_path, files))
    assert made.correct_first[1:5] == [
        "encoder: its config.pbtxt calls it 'coder', its folder 'encoder'",
        "pipeline: it has no version folder such as models/pipeline/1 (git keeps no empty folder: commit a .gitkeep in it)",
        "scorer: it has no version folder such as models/scorer/1",
        "the folder is no git checkout: git init, and commit it",
    ]  # fmt: skip
    text = made.files[".github/fvec.yml"]
    assert "CORRECT FIRST: the server that fvec starts has the Python backend alone" in text
    assert "scorer (onnxruntime)" in text


def test_a_stack_without_python_has_only_its_configuration_to_change(tmp_path):
    files = {
        "models/m/config.pbtxt": 'platform: "onnxruntime_onnx" max_batch_size: 4 '
        'input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]',
        "models/m/1/model.onnx": b"\0",
    }
    assert manifest(plan.make(put(tmp_path, files))).layers == ["config"]


def test_models_that_answer_many_times_or_keep_state_are_second_choice(tmp_path):
    decoupled = 'backend: "python" model_transaction_policy { decoupled: true } input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]'  # fmt: skip
    stateful = 'backend: "python" sequence_batching { } input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]'  # fmt: skip
    files = {**model("a", decoupled), **model("b", stateful), **python_model("c")}
    made = plan.make(put(tmp_path, files))
    assert made.entry.name == "c"
    told = plan.make(tmp_path, entry="a").correct_first
    assert "a is decoupled: one request must give one answer here" in told
    told = plan.make(tmp_path, entry="b").correct_first
    assert "b batches sequences: requests are independent here" in told


def test_requirements_are_those_that_list_what_models_import(tmp_path):
    code = "import torch\nimport numpy\nfrom sklearn.base import X\nimport helper\nimport os\n"
    files = {
        **python_model("m", code=code),
        "models/m/1/helper.py": "",
        "requirements.txt": "flask==3.0\n",
        "docker/requirements-serving.txt": "torch==2.4.0\nscikit-learn==1.5\n",
    }
    made = plan.make(put(tmp_path, files))
    assert choice(made, "stack.requirements") == (
        "docker/requirements-serving.txt",
        Certainty.LIKELY,
        "lists what the models import: sklearn, torch",
    )
    read = manifest(made)
    assert read.stack.requirements == "docker/requirements-serving.txt"
    assert read.server.start_timeout_s == 300


def test_requirements_that_fvec_would_refuse_are_not_named(tmp_path):
    listed = "-r x.txt\ntorch\nx @ https://e.example/${TOKEN}/x.tar.gz\nsix\n./local\n"
    files = {**python_model("m", code="import torch"), "requirements.txt": listed}
    made = plan.make(put(tmp_path, files))
    value, certainty, why = choice(made, "stack.requirements")
    assert (value, certainty) == ("", Certainty.UNKNOWN)
    lines = [
        "requirements.txt:1:1: '-r x.txt' is an option of pip",
        "requirements.txt:3:1: 'x @ https://e.example/${TOKEN}/x.tar.gz' names a variable",
        "requirements.txt:5:1: './local' is no package by its name",
    ]
    assert all(line in why for line in lines)
    remarks = [told for told in made.correct_first if told.startswith("stack.requirements: ")]
    assert len(remarks) == len(lines)
    for told, line in zip(remarks, lines, strict=True):
        assert line in told
        assert told.endswith("; list the packages themselves, pinned: NAME==VERSION")
    assert manifest(made).stack.requirements is None


def test_files_that_git_does_not_hold_are_named(tmp_path):
    root = put(tmp_path, {**python_model("m"), ".gitignore": "model.py\n"})
    for arguments in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", root, *arguments], check=True)
    made = plan.make(root)
    assert made.correct_first[1] == (
        "git does not hold models/m/1/model.py: commit them, or add a build step"
    )


def test_a_manifest_is_never_overwritten(tmp_path):
    root = put(tmp_path, {**python_model("m"), ".github/fvec.yml": "mine"})
    with pytest.raises(InvalidInput, match="exists already; it is never overwritten") as caught:
        plan.make(root)
    assert caught.value.hint is not None
    assert (root / ".github/fvec.yml").read_text() == "mine"


def test_a_manifest_that_appears_meanwhile_stays_and_nothing_is_left(tmp_path):
    root = put(tmp_path, python_model("m"))
    made = plan.make(root)
    put(root, {".github/fvec.yml": "mine"})
    with pytest.raises(InvalidInput, match="File exists"):
        plan.write(made)
    assert (root / ".github/fvec.yml").read_text() == "mine"
    assert sorted(path.name for path in root.iterdir()) == [".github", "models"]


def test_a_traffic_folder_of_the_repository_stays_as_it_is(tmp_path):
    root = put(tmp_path, {**python_model("m"), "traffic/synthetic.py": "mine"})
    read = manifest(plan.make(root))
    assert read.traffic.requests == "fvec_traffic/requests.bin"
    assert (root / "traffic/synthetic.py").read_text() == "mine"


def test_links_out_of_the_checkout_are_not_followed(tmp_path):
    outside = put(tmp_path / "outside", python_model("stranger"))
    (tmp_path / "outside/secret").write_text('name: "secret"')
    root = put(tmp_path / "r", {**python_model("m"), "models/n/1/model.py": ""})
    (root / "models/linked").symlink_to(outside / "models/stranger")
    (root / "models/n/config.pbtxt").symlink_to(outside / "secret")
    (root / "models/loop").symlink_to(root / "models/loop")
    made = plan.make(root)
    assert [m.name for m in made.repository.models] == ["m", "n"]
    assert "secret" not in str(made)
    reason = "a link that leads out of the repository"
    assert Skipped("models/linked", reason) in made.skipped
    assert Skipped("models/n/config.pbtxt", reason) in made.skipped


def test_nothing_is_written_through_a_linked_folder(tmp_path):
    (tmp_path / "outside").mkdir()
    root = put(tmp_path / "r", python_model("m"))
    (root / ".github").symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidInput, match="is a link; nothing is written through it"):
        plan.make(root)


def test_a_version_folder_may_be_a_link_inside_the_checkout(tmp_path):
    files = python_model("m")
    root = put(tmp_path, {"shared/v1/model.py": files.pop("models/m/1/model.py"), **files})
    (root / "models/m/1").symlink_to(root / "shared/v1")
    assert list(plan.make(root).entry.problems) == []


def test_python_files_are_parsed_only(tmp_path):
    code = f"open({str(tmp_path / 'ran')!r}, 'w')\nimport os\nos._exit(1)\n"
    plan.make(put(tmp_path / "r", python_model("m", code=code)))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("code", ["def (", "\0", "(" * 5000, "x = " + "-" * 100_000 + "1"])
def test_python_that_cannot_be_parsed_is_skipped_with_the_reason(tmp_path, code):
    made = plan.make(put(tmp_path, python_model("m", code=code)))
    assert made.entry.name == "m"
    assert [skipped.path for skipped in made.skipped] == ["models/m/1/model.py"]


def test_a_repository_without_models_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="holds no model that can be read") as caught:
        plan.make(put(tmp_path, {"README.md": "x"}))
    assert caught.value.exit_code == 3


def test_models_at_the_root_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(InvalidInput, match="the root of the checkout, which no manifest can name"):
        plan.make(put(tmp_path, python_model("m", models=".")))


def test_a_folder_inside_a_checkout_is_refused(tmp_path):
    root = put(tmp_path, python_model("m", models="service/models"))
    (root / ".git").mkdir()
    with pytest.raises(InvalidInput, match="is not the root of its checkout"):
        plan.make(root / "service")


def test_a_request_that_would_fill_the_memory_is_refused(tmp_path):
    text = 'backend: "python" input [ { name: "x" data_type: TYPE_FP32 dims: [ 99999999, 99999999 ] } ]'
    with pytest.raises(InvalidInput, match="would take 39999999200000004 bytes a request"):
        plan.make(put(tmp_path, model("m", text)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"entry": "none"}, "the model 'none' is not in models"),
        ({"repository": "nowhere"}, "nowhere holds no model"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused(tmp_path, options, message):
    with pytest.raises(InvalidInput, match=message):
        plan.make(put(tmp_path, python_model("m")), **options)


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="is not a folder"):
        plan.make(Path(tmp_path / "none"))


def test_the_owner_is_asked_for_first_and_guessed_from_codeowners(tmp_path):
    nobody = plan.make(put(tmp_path / "a", python_model("m")))
    asked = "owner in .github/fvec.yml: who answers for the bot's pull requests"
    assert nobody.correct_first[0] == f"{asked}, a person or a team; nobody is named yet"
    assert '# owner: "@your-team"' in nobody.files[".github/fvec.yml"]
    assert manifest(nobody).owner is None

    rules = "# owners\n*  person@example.com @ads/oncall @x # all\n/docs @writers\n"
    files = {**python_model("m"), "CODEOWNERS": rules, "docs/CODEOWNERS": "* @writers\n"}
    named = plan.make(put(tmp_path / "b", files))
    assert named.correct_first[0] == f"{asked}; @ads/oncall is from CODEOWNERS"
    assert manifest(named).owner == "@ads/oncall"


def test_codeowners_that_name_nobody_for_everything_suggest_nobody(tmp_path):
    for name, rules in (("a", "*.py @x\n"), ("b", "*\n"), ("c", "* $(id)\n* @x\n*\n")):
        made = plan.make(put(tmp_path / name, {**python_model("m"), "CODEOWNERS": rules}))
        assert manifest(made).owner is None
