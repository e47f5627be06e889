"""What an installed fvec consists of: the wheel of a copy of this tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "README.md", "LICENSE", ".gitignore")
FOLDERS = ("bot", "layers", "knowledge", "examples", "tests/tiny_stack")
NO_BACKEND = "No matching distribution found for hatchling"
SHIPPED = {".py", ".yaml", ".yml", ".j2", ".css", ".c", ".h", ".md", ".passwd", ".typed"}


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> list[str]:
    """The names in the wheel, built in isolation as `pip install` does."""
    tree = tmp_path_factory.mktemp("tree")
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(out), "."]
    built = subprocess.run(argv, cwd=tree, capture_output=True, text=True, check=False)
    if NO_BACKEND in built.stderr:
        pytest.skip("the build backend cannot be fetched: no package index within reach")
    assert built.returncode == 0, built.stderr
    (wheel,) = out.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_the_top_level_names_are_the_three_packages(names):
    tops = {PurePosixPath(name).parts[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"bot", "layers", "knowledge"}


def test_every_file_of_the_packages_is_in_it(names):
    ours = {
        path.relative_to(ROOT).as_posix()
        for package in ("bot", "layers", "knowledge")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and (path.suffix in SHIPPED or path.name == ".gitignore")
    }
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert "layers/server/native/_bytes.c" in ours
    assert "knowledge/cookbook/features/lookups-one-pass.yaml" in ours
    assert "bot/render/templates/report.html.j2" in ours
    assert "layers/agents/roles/prompts/planner.md" in ours


def test_the_one_entry_is_the_console_script(names):
    assert [n for n in names if n.endswith("entry_points.txt")]
    assert "bot/__main__.py" not in names
