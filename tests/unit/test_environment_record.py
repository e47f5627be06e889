"""The versions that numbers belong to, of an environment as it lies on the disk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from layers.places import usable_cpus
from layers.record.environment_record import hardware
from layers.session import Session


def test_findings_are_made_on_as_many_cores_as_the_server_may_use(tmp_path):
    env = SimpleNamespace(version="2.69.0", site_packages=tmp_path)
    stack = SimpleNamespace(name="tiny", commit="c" * 40, code=dict)
    traffic = SimpleNamespace(digest="0123456789abcdef")
    usable = usable_cpus()
    for pinned, said in (([0], "1 CPU"), ([], f"{usable} CPU")):
        environment = hardware(env, server_cpus=pinned)
        at = "2026-01-02T03:04:05+00:00"
        session = Session(stack, None, env, environment, traffic, None, Path("out"), at, "run")
        assert session.ground().hardware == f"{environment.cpu}, {said}"


def test_what_a_cut_short_installation_left_is_no_package(tmp_path):
    for folder, text in (
        ("Whole-1.2.dist-info", "Metadata-Version: 2.1\nName: Whole\nVersion: 1.2\n"),
        ("nameless-1.0.dist-info", "Metadata-Version: 2.1\nVersion: 1.0\n"),
        ("unversioned-1.0.dist-info", "Metadata-Version: 2.1\nName: unversioned\n"),
        ("empty-1.0.dist-info", None),
    ):
        (tmp_path / folder).mkdir()
        if text is not None:
            (tmp_path / folder / "METADATA").write_text(text)
    found = hardware(SimpleNamespace(version="2.69.0", site_packages=tmp_path))
    assert found.packages == {"whole": "1.2"}
    assert found.server == "Triton Inference Server 2.69.0"
