"""The versions that numbers belong to, of an environment as it lies on the disk."""

from __future__ import annotations

from types import SimpleNamespace

from layers.record.environment_record import hardware


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
