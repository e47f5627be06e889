"""Fixtures for tests that need a serving repository or the real model server."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.internal.decoder import _DecodeVarint32
from hypothesis import settings

from layers.base import StackView
from layers.errors import Missing
from layers.manifest import SandboxSection
from layers.repository.stack import Stack
from layers.sandbox.box import Sandbox
from layers.triton.environment import ServerEnvironment, ensure
from layers.triton.server import Deployment
from tests.tcp_server import OwnedServer, owned_server

# CI judges a change by the same examples every time; new ones are looked for elsewhere.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")

# Their files take minutes, those of the other folders seconds.
_LONG = ("survival", "e2e", "integration")

TINY_STACK = Path(__file__).parent / "tiny_stack"
_UNTRACKED = shutil.ignore_patterns("__pycache__", "*.bin", "*.csv")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long files first where processes share them: what is handed out last should be short."""
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return _LONG.index(folder) if folder in _LONG else len(_LONG)


def _commit_all(root: Path) -> None:
    """Make `root` a repository of one commit."""
    identity = ["-c", "user.name=Serving", "-c", "user.email=serving@example.com"]
    for arguments in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        [*identity, "commit", "--quiet", "--message", "The stack"],
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)


def _first_request(view: StackView) -> bytes:
    """Return the first recorded request of a built stack."""
    data = (view.root / view.manifest.traffic.requests).read_bytes()
    length, start = _DecodeVarint32(data, 0)
    return data[start : start + length]


def _copy_of_tiny(root: Path) -> Path:
    shutil.copytree(TINY_STACK, root, ignore=_UNTRACKED)
    _commit_all(root)
    return root


@pytest.fixture
def tiny_repo(tmp_path: Path) -> Path:
    """A git checkout of the tiny stack, one commit, clean."""
    return _copy_of_tiny(tmp_path / "tiny")


@pytest.fixture(scope="session")
def server_env() -> ServerEnvironment:
    """The model server's environment, installed on first use (cached between runs)."""
    return ensure(None, allow_install=True)


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    """The strict sandbox: what everything under judgement runs in unless a manifest says else."""
    try:
        return Sandbox.open(SandboxSection())
    except Missing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def tiny_view(
    tmp_path_factory: pytest.TempPathFactory, server_env: ServerEnvironment, sandbox: Sandbox
) -> Iterator[StackView]:
    """The tiny stack, checked out and built: read it, change nothing in it."""
    folder = tmp_path_factory.mktemp("tiny")
    with Stack.open(_copy_of_tiny(folder / "repository")) as stack:
        worktree = stack.worktree(stack.commit, folder / "worktrees")
        stack.build(worktree, server_env, sandbox)
        yield stack.view(worktree, server_env)


@pytest.fixture(scope="session")
def tiny_request(tiny_view: StackView) -> bytes:
    """One recorded request of the tiny stack."""
    return _first_request(tiny_view)


@pytest.fixture(scope="session")
def tiny_deployment(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_view: StackView,
    tiny_request: bytes,
    server_env: ServerEnvironment,
    sandbox: Sandbox,
) -> Iterator[Deployment]:
    """A running server of the tiny stack, shared by tests that leave it as it was."""
    with Deployment(
        tiny_view,
        server_env,
        sandbox=sandbox,
        cpus=None,
        log_dir=tmp_path_factory.mktemp("server"),
        probe=tiny_request,
    ) as deployment:
        yield deployment


@pytest.fixture(scope="session")
def running_server(
    tmp_path_factory: pytest.TempPathFactory, tiny_view: StackView, server_env: ServerEnvironment
) -> Iterator[OwnedServer]:
    """A server of the tiny stack on a TCP port, as somebody else runs it."""
    with owned_server(tiny_view, server_env, tmp_path_factory.mktemp("owned")) as server:
        yield server
