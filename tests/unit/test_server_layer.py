from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knowledge.store import builtin_directory, load_cards
from layers.base import (
    Candidate,
    ChangeClass,
    Edit,
    Hotspot,
    Hypothesis,
    LayerName,
    Profile,
    StackView,
)
from layers.manifest import Manifest
from layers.profile.profiler import CONVERSION
from layers.repository.stack import Stack
from layers.sandbox.box import Sandbox
from layers.server.hook import hooked
from layers.server.layer import ServerLayer
from layers.server.local_gain import NATIVE, summarise
from layers.traffic.recorded import decode_response
from layers.triton.client import Client
from layers.triton.environment import ServerEnvironment
from layers.triton.server import Deployment

UTILS = "/srv/backends/python/triton_python_backend_utils.py"
MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    pass
"""
HOOKED = """\
import triton_python_backend_utils as pb_utils
import fvec_native

# Called by the server for each string input: one native pass instead of a Python loop.
pb_utils.deserialize_bytes_tensor = fvec_native.deserialize_bytes_tensor


class TritonPythonModel:
    pass
"""
CARDS = load_cards(builtin_directory()).for_layer("server")


@pytest.fixture
def stack(tmp_path: Path) -> StackView:
    for version in ("1", "2", "10", "old"):
        add_model(tmp_path, "features", MODEL, version=version)
    manifest = Manifest.model_validate(
        {
            "schema": "fvec.manifest/1",
            "stack": {"name": "s", "models": "models", "entry": "features"},
            "traffic": {"requests": "r.bin", "arrivals": "a.csv"},
            "slo": {"p99_ms": 10},
        }
    )
    return StackView(tmp_path, "c" * 40, manifest, Path(sys.executable))


def add_model(root: Path, name: str, text: str, version: str = "1", config: str = "") -> None:
    folder = root / "models" / name / version
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(text)
    (folder.parent / "config.pbtxt").write_text(config or f'name: "{name}" backend: "python"\n')


def spot(
    process: str, share: float, function: str = CONVERSION, file: str = UTILS, **changes: bool
) -> Hotspot:
    line = 0 if changes.get("inclusive", True) else 7
    return Hotspot(process, file, function, line, share, changes.get("inclusive", True))


def test_the_profile_of_the_layer_is_the_conversion_in_python_models(stack: StackView) -> None:
    wanted = spot("features", 0.4)
    spots = [
        wanted,
        spot("features", 0.3, inclusive=False),
        spot("features", 0.2, "execute", "models/features/1/model.py"),
        spot("features", 0.1, file="models/features/1/fvec_native/__init__.py"),
        spot("tritonserver", 0.1),
        spot("../features", 0.1),
    ]
    profile = Profile("py-spy", stack.root / "raw", 1.0, 10, {"features": 1.0}, {}, spots)
    assert ServerLayer().profile(profile, stack) == (wanted,)


def test_a_model_that_converts_strings_in_python_gets_one_hypothesis(stack: StackView) -> None:
    found = ServerLayer().diagnose([spot("features", 0.4), spot("none", 0.2)], stack, CARDS)
    assert found == (
        Hypothesis(
            layer=LayerName.SERVER,
            card="native-string-tensors",
            model="features",
            title="Read string tensors in one native pass (features)",
            why="deserialize_bytes_tensor takes 40.0% of all server CPU time, in the process of "
            "features, before its code runs",
            share=0.4,
            expected_gain=0.95,
            best_gain=0.97,
            change_class=ChangeClass.EXACT,
            transform="native_string_tensors",
            sites=("models/features/10/model.py:1",),
        ),
    )


def test_without_a_card_there_is_no_hypothesis(stack: StackView) -> None:
    other = CARDS[0].model_copy(update={"transform": "something_else"})
    assert ServerLayer().diagnose([spot("features", 0.4)], stack, [other]) == ()


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (HOOKED, ""),
        (MODEL, 'name: "m" backend: "onnxruntime"\n'),
        (MODEL, 'name: "m" backend: "python" default_model_filename: "other.py"\n'),
        ("import numpy\n", ""),
        ("from triton_python_backend_utils import Tensor\n", ""),
        ("def f():\n    import triton_python_backend_utils\n", ""),
        ("def f(:\n", ""),
        ("# coding: nonsense\n", ""),
        (f"{MODEL}X = {'(' * 3000}{')' * 3000}\n", ""),  # too deep for a parser,
        (f"{MODEL}X = {'+'.join('1' * 9000)}\n", ""),  # for its tree,
        (f"{MODEL}X = {'[' * 150}{']' * 150}\n", ""),  # for a copy of that
        (MODEL, 'name: "m" platform: "ensemble"\n'),
        (MODEL, 'name: "m" ensemble_scheduling { }\n'),
    ],
)
def test_a_model_without_a_place_for_the_hook_is_left_alone(
    stack: StackView, text: str, config: str
) -> None:
    add_model(stack.root, "m", text, config=config)
    assert ServerLayer().diagnose([spot("m", 0.4)], stack, CARDS) == ()


def test_a_model_whose_configuration_leaves_its_backend_to_the_server_is_found(
    stack: StackView,
) -> None:
    add_model(stack.root, "m", MODEL, config='name: "m" max_batch_size: 8\n')
    found = ServerLayer().diagnose([spot("m", 0.4)], stack, CARDS)
    assert [hypothesis.sites for hypothesis in found] == [("models/m/1/model.py:1",)]


def hypothesis(stack: StackView) -> Hypothesis:
    return ServerLayer().diagnose([spot("features", 0.4)], stack, CARDS)[0]


def test_the_edit_adds_the_package_and_two_lines(stack: StackView) -> None:
    edit = ServerLayer().optimize(hypothesis(stack), stack)
    assert edit is not None
    folder = "models/features/10"
    assert edit.files == {
        f"{folder}/model.py": HOOKED.encode(),
        f"{folder}/fvec_native/__init__.py": (NATIVE / "__init__.py").read_bytes(),
        f"{folder}/fvec_native/_bytes.c": (NATIVE / "_bytes.c").read_bytes(),
        f"{folder}/fvec_native/build.py": (NATIVE / "build.py").read_bytes(),
        f"{folder}/fvec_native/.gitignore": b"# built by build.py for one interpreter\n*.so\n",
    }
    assert edit.summary == "Read the string inputs of features in one native pass"
    assert f"\n    RUN python {folder}/fvec_native/build.py\n" in edit.explanation


def test_an_edited_model_is_not_proposed_again(stack: StackView) -> None:
    first = hypothesis(stack)
    edit = ServerLayer().optimize(first, stack)
    assert edit is not None
    for name, content in edit.files.items():
        path = stack.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content or b"")
    assert ServerLayer().diagnose([spot("features", 0.4)], stack, CARDS) == ()
    assert ServerLayer().optimize(first, stack) is None


def test_a_folder_of_that_name_is_not_overwritten(stack: StackView) -> None:
    (stack.root / "models/features/10/fvec_native").mkdir()
    assert ServerLayer().optimize(hypothesis(stack), stack) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import json\nimport triton_python_backend_utils\n\nimport numpy as np\nX = 1\n",
            "import json\nimport triton_python_backend_utils\nimport fvec_native\n\n"
            "import numpy as np\n\n# C\ntriton_python_backend_utils.deserialize_bytes_tensor"
            " = fvec_native.deserialize_bytes_tensor\nX = 1\n",
        ),
        (
            "import json, triton_python_backend_utils as u  # both\r\nfrom a import (\r\n  b,\r\n)\r\n",
            "import json, triton_python_backend_utils as u  # both\r\nimport fvec_native\r\n"
            "from a import (\r\n  b,\r\n)\r\n\r\n# C\r\n"
            "u.deserialize_bytes_tensor = fvec_native.deserialize_bytes_tensor\r\n",
        ),
        (
            "# -*- coding: latin-1 -*-\nimport triton_python_backend_utils as u\nA = '\xe9'",
            "# -*- coding: latin-1 -*-\nimport triton_python_backend_utils as u\n"
            "import fvec_native\n\n# C\n"
            "u.deserialize_bytes_tensor = fvec_native.deserialize_bytes_tensor\nA = '\xe9'",
        ),
        ("import json\n", None),
    ],
)
def test_the_hook_leaves_the_rest_of_the_module_as_it_is(before: str, after: str | None) -> None:
    comment = (
        "# Called by the server for each string input: one native pass instead of a Python loop."
    )
    expected = None if after is None else after.replace("# C", comment).encode("latin-1")
    assert hooked(before.encode("latin-1")) == expected


def test_the_local_gain_is_the_median_ratio_with_its_interval() -> None:
    rounds = [[ratio * 1e-5, 1e-5] for ratio in (30, 10, 20, 25, 15, 22, 18, 21, 19)]
    gain = summarise({"is_native": True, "strings": 2000, "cpu_s": rounds})
    assert gain.model_dump() == {
        "what": "read a tensor of 2000 strings in C, CPU time per call, interleaved",
        "speedup": pytest.approx(20),
        "ci": (pytest.approx(15), pytest.approx(25)),
        "n": 9,
    }


@pytest.fixture(scope="session")
def candidate(
    tiny_view: StackView,
    server_env: ServerEnvironment,
    sandbox: Sandbox,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Candidate]:
    """The layer's edit of the tiny stack, committed and built as the engine does it."""
    found = ServerLayer().diagnose([spot("tiny_features", 0.2)], tiny_view, CARDS)[0]
    edit = ServerLayer().optimize(found, tiny_view)
    assert isinstance(edit, Edit)
    under = tmp_path_factory.mktemp("candidate")
    with Stack.open(tiny_view.root) as stack:
        commit, patch, worktree = stack.commit_edit(stack.commit, "fvec/strings", edit, under)
        stack.build(worktree, server_env, sandbox)
        yield Candidate(found, edit, "fvec/strings", stack.commit, commit, worktree, patch)


@pytest.mark.alone
@pytest.mark.triton
def test_the_local_gain_is_measured_in_the_servers_interpreter(
    tiny_view: StackView, candidate: Candidate
) -> None:
    patched = replace(tiny_view, root=candidate.worktree, commit=candidate.commit)
    gain = ServerLayer().verify(candidate, tiny_view, patched)
    assert gain is not None
    assert gain.what == "read a tensor of 2000 strings in C, CPU time per call, interleaved"
    assert gain.n == 31
    assert gain.ci[0] <= gain.speedup <= gain.ci[1]
    assert gain.ci[0] > 10  # 28 to 30 alone on a core; the loop in Python reaches 3


@pytest.mark.triton
def test_a_real_server_answers_alike_with_the_reader_installed(
    tiny_view: StackView,
    tiny_deployment: Deployment,
    tiny_request: bytes,
    candidate: Candidate,
    server_env: ServerEnvironment,
    sandbox: Sandbox,
    tmp_path: Path,
) -> None:
    patched = replace(tiny_view, root=candidate.worktree, commit=candidate.commit)
    with (
        Deployment(
            patched, server_env, sandbox=sandbox, cpus=None, log_dir=tmp_path, probe=tiny_request
        ) as server,
        Client(server.grpc) as new,
        Client(tiny_deployment.grpc) as old,
    ):
        answers = [decode_response(client.infer(tiny_request)) for client in (new, old)]
        maps = Path(f"/proc/{server.pids()['tiny_features']}/maps").read_text()
    # Tensors, not messages: the server writes the outputs of an ensemble in any order.
    assert answers[0].keys() == answers[1].keys()
    for name, values in answers[0].items():
        np.testing.assert_array_equal(values, answers[1][name], strict=True)
    assert "/fvec_native/_bytes.cpython-311-" in maps
    assert not any("not built" in log.read_text() for log in tmp_path.glob("*.log"))
