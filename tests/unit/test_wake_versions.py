import pytest

from bot.wake import versions

REQUIREMENTS = """\
# what the server runs on
Torch==2.8.0  # pinned
numpy>=2,<3
--index-url https://packages.example.org/simple
./local
tritonclient[grpc]==2.60 --hash=sha256:00
plain
"""
DOCKERFILE = """\
FROM --platform=linux/amd64 nvcr.io/nvidia/tritonserver:25.08-py3 AS base
RUN echo FROM nowhere
from python:3.11-slim
"""
CONFIG = """\
name: "ranker" # version_policy { nothing }
version_policy: { specific {
    versions: [ 2 , 3 ]  } }
max_batch_size: 8
"""


def test_packages_images_policies_and_models_are_read():
    files = {
        "requirements.txt": REQUIREMENTS,
        "docker/Dockerfile": DOCKERFILE,
        "models/ranker/config.pbtxt": CONFIG,
        "README.md": "torch==1",
    }
    paths = ["models/ranker/2/model.py", "models/ranker/10/model.py", "models/other/1/notes.md"]
    assert versions.read(files, paths) == {
        "torch (requirements.txt)": "==2.8.0",
        "numpy (requirements.txt)": "<3,>=2",
        "tritonclient (requirements.txt)": "==2.60",
        "plain (requirements.txt)": "any",
        "image 1 (docker/Dockerfile)": "nvcr.io/nvidia/tritonserver:25.08-py3",
        "image 2 (docker/Dockerfile)": "python:3.11-slim",
        "version_policy (models/ranker/config.pbtxt)": "specific { versions: [ 2 , 3 ] }",
        "models/ranker": "2, 10",
    }


@pytest.mark.parametrize("text", ["version_policy { latest {", 'name: "x"', "", "}{"])
def test_a_policy_that_is_not_there_or_not_closed_is_none(text):
    assert versions.read({"m/config.pbtxt": text}) == {}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("models/ranker/3/model.onnx", ("models/ranker", 3)),
        ("models/ranker/3/model.savedmodel/saved_model.pb", ("models/ranker", 3)),
        ("a/2024/b/3/model.py", ("a/2024/b", 3)),
        ("models/ranker/3/weights.bin", None),
        ("models/ranker/config.pbtxt", None),
        ("3/model.py", None),
        ("models/ranker/v3/model.py", None),
        ("models/ranker/\u0663/model.py", None),
        ("models/ranker/" + "9" * 30 + "/model.py", None),
        ("", None),
    ],
)
def test_the_version_of_a_model_is_the_folder_that_its_file_lies_in(path, found):
    assert versions.model_version(path) == found


@pytest.mark.parametrize(
    "path",
    [
        "requirements.txt",
        "server/requirements-gpu.txt",
        "requirements/base.in",
        "constraints.txt",
        "Dockerfile",
        "docker/Dockerfile.gpu",
        "serve.dockerfile",
        "Containerfile",
    ],
)
def test_files_of_packages_and_images_are_known_by_their_names(path):
    assert versions.names_packages(path)
    assert versions.is_read(path)


def test_a_model_configuration_is_read_and_names_no_packages():
    assert versions.is_read("models/ranker/config.pbtxt")
    assert not versions.names_packages("models/ranker/config.pbtxt")


@pytest.mark.parametrize("path", ["README.md", "models/a/1/model.py", "requirements.md", ""])
def test_other_files_are_not_read(path):
    assert not versions.is_read(path)


def test_what_moved_is_told_new_and_gone_among_it():
    before = {"torch (r.txt)": "==2.7", "numpy (r.txt)": "==2.0", "models/a": "1"}
    after = {"torch (r.txt)": "==2.8", "numpy (r.txt)": "==2.0", "models/b": "1"}
    assert versions.moved(before, after) == [
        "models/a from 1 to none",
        "models/b from none to 1",
        "torch (r.txt) from ==2.7 to ==2.8",
    ]


def test_what_is_read_is_bounded():
    many = "".join(f"p{n}==1\n" for n in range(3000)) + f"q=={'1' * 5000}\n"
    found = versions.read({"requirements.txt": many})
    assert len(found) == versions.MOST_ENTRIES
    assert max(map(len, found.values())) <= versions.MOST_VALUE


def test_the_same_files_of_a_commit_are_read_by_everybody_packages_before_models():
    models = [(f"models/m{n:03d}/config.pbtxt", "100644", 10) for n in range(60)]
    others = [
        ("requirements.txt", "100644", 10),
        ("Dockerfile", "100755", 10),
        ("README.md", "100644", 10),
        ("constraints.txt", "120000", 10),  # a link
        ("requirements", "160000", 0),  # a submodule
        ("large/requirements.txt", "100644", versions.MOST_FILE_BYTES + 1),
    ]
    found = versions.to_read([*models, *others])
    assert found[:3] == ["Dockerfile", "requirements.txt", "models/m000/config.pbtxt"]
    assert len(found) == versions.MOST_READ
    assert versions.to_read([*reversed(others), *reversed(models)]) == found
