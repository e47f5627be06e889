"""The model server's environment: what is refused before anything is installed; log reasons."""

import platform
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from layers import session
from layers.errors import InvalidInput, Missing
from layers.triton import environment, requirements, serverlog
from layers.triton.environment import ensure


def test_an_absent_environment_is_missing_with_the_command_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "requirements.txt"
    file.write_text("six==1.16.0\n")

    with pytest.raises(Missing) as caught:
        ensure(file, allow_install=False)

    assert caught.value.exit_code == 4
    assert "nvidia-pytriton==0.7.0 with requirements.txt" in caught.value.message
    assert "fvec doctor --install PATH" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["requirements.txt"]


@pytest.mark.parametrize(
    "line",
    [
        *("-r more.txt", "-rmore.txt", "-e .", "-c pins.txt", "-f https://e.example/"),
        *("--index-url https://e.example/", "-i https://e.example/", "--pre", "--no-binary :all:"),
        *("--extra-index-url=https://e.example/", "--trusted-host e.example", "-U six"),
        *("./local", "/x.whl", "../x", "local/folder", "file:///x.whl", "C:\\x.whl", "~/x"),
        *("git+https://e.example/x.git", "https://e.example/x.tar.gz", "x.tar.gz@ file:///x"),
        *("x @ file:///x", "x@https://e.example/${GITHUB_TOKEN}/x.tar.gz", "x[a] @ git+ssh://x/y"),
        *("x==1 ; platform_machine == '${TOKEN}'", "${TOKEN}", "x==${TOKEN}"),
        *("x==1 --hash=sha256:00", "x==1 --global-option=a", "x==1 \\", "x \ufeff", "+AAo-x"),
    ],
)
def test_requirements_that_are_no_packages_by_name_are_refused_by_line(
    tmp_path: Path, line: str
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"numpy==1.26.4\n  {line}\n")

    with pytest.raises(InvalidInput, match=f"{file}:2:1"):
        ensure(file, allow_install=False)


def test_every_refused_line_is_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("-i https://e.example/\nsix\nx @ file:///x\n")

    with pytest.raises(InvalidInput) as caught:
        ensure(file, allow_install=False)

    assert caught.value.message.splitlines() == [
        f"{file}:1:1: '-i https://e.example/' is an option of pip; "
        "it may refer to another file or index",
        f"{file}:3:1: 'x @ file:///x' refers to another file or address",
    ]


def test_pip_gets_what_was_understood_and_no_byte_of_the_file(tmp_path: Path) -> None:
    text = (
        "\ufeff# coding: utf-7 +AAo--index-url+ACA-https://e.example/\n\n"
        "torch==2.4.0   # CPU\n  Six >= 1.16,<2 ; python_version<'4'\nuvicorn[standard]\n"
    )
    file = tmp_path / "requirements.txt"
    file.write_text(text, "utf-8")

    assert requirements.read(file) == text
    assert requirements.plain(text).splitlines() == [
        "torch==2.4.0",
        'Six<2,>=1.16; python_version < "4"',
        "uvicorn[standard]",
    ]


def test_pip_sees_the_user_s_settings_of_pip_and_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Mapping[str, str]] = []
    monkeypatch.setattr(environment, "run_logged", lambda command, *_: seen.append(command.env))
    kept = {
        "HOME": "/home/x",
        "PIP_INDEX_URL": "https://own.example/simple",
        "https_proxy": "http://proxy:1",
        "NO_PROXY": "own.example",
        "SSL_CERT_FILE": "/ca.pem",
        "LC_ALL": "C.UTF-8",
    }
    secrets = ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD")
    for name, value in kept.items() | {(name, "s3cret") for name in secrets}:
        monkeypatch.setenv(name, value)

    made = environment.ServerEnvironment(tmp_path, "digest")
    environment._pip(made, ["six"], tmp_path / "log")
    environment._create_venv(tmp_path / "venv", tmp_path / "log")

    assert len(seen) == 2
    for variables in seen:
        assert kept.items() <= variables.items()
        assert "PATH" in variables
        assert not set(secrets) & set(variables)
        assert "s3cret" not in variables.values()


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


def stack(*, address: str | None, build: list[str]) -> SimpleNamespace:
    """A stack as far as its environment depends on it."""
    section = SimpleNamespace(requirements=None, build=build)
    server = SimpleNamespace(address=address)
    return SimpleNamespace(
        root=Path("stack"), manifest=SimpleNamespace(stack=section, server=server)
    )


def test_a_machine_that_cannot_serve_looks_at_a_running_server_of_a_stack_that_needs_no_build(
    monkeypatch,
):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    own = session._environment(stack(address="127.0.0.1:8001", build=[]))
    assert own == environment.absent(None)
    for needs_it in (
        stack(address=None, build=[]),
        stack(address="127.0.0.1:8001", build=["a step"]),
    ):
        with pytest.raises(Missing, match="not for linux on aarch64") as caught:
            session._environment(needs_it)
        assert "without build steps" in (caught.value.hint or "")
