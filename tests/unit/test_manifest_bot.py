"""The section `bot` of the manifest: when the bot works, and how its pull requests look."""

import json
import re

import pytest
from pydantic import ValidationError

from bot.cli import main
from knowledge import yamlfile
from knowledge.yamlfile import YamlError
from layers.manifest import BotSection, Manifest

MANIFEST = """\
schema: fvec.manifest/1
stack: {name: tiny, models: models, entry: ensemble}
traffic: {requests: traffic/requests.bin, arrivals: traffic/arrivals.csv}
slo: {p99_ms: 50}
"""


def test_a_manifest_needs_no_section_for_the_bot(tmp_path):
    path = tmp_path / "fvec.yml"
    path.write_text(MANIFEST)
    assert yamlfile.load(path, Manifest).bot == BotSection(
        releases=True,
        stale_after_days=30,
        cooldown_hours=24,
        max_open_pull_requests=2,
        quiet_hours=None,
        jitter_minutes=60,
        serving=None,
        draft=True,
        labels=["fvec"],
    )


def test_a_section_for_the_bot_is_read(tmp_path):
    path = tmp_path / "fvec.yml"
    path.write_text(
        MANIFEST
        + "bot:\n"
        "  releases: false\n"
        "  stale_after_days: null\n"
        '  quiet_hours: "22:00-06:30"\n'
        "  serving: [python, tools/serves.py]\n"
        "  labels: [fvec, area: serving]\n".replace("area: serving", '"area: serving"')
    )
    assert yamlfile.load(path, Manifest).bot == BotSection(
        releases=False,
        stale_after_days=None,
        quiet_hours="22:00-06:30",
        serving=["python", "tools/serves.py"],
        labels=["fvec", "area: serving"],
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"stale_after_days": 0},
        {"cooldown_hours": -1},
        {"max_open_pull_requests": 0},
        {"quiet_hours": "22-6"},
        {"quiet_hours": "24:00-06:00"},
        {"quiet_hours": "22:00-06:60"},
        {"quiet_hours": "22:00-22:00"},
        {"quiet_hours": "22:00-06:00\n"},
        {"jitter_minutes": 1441},
        {"serving": []},
        {"serving": "python tools/serves.py"},
        {"labels": ["a,b"]},
        {"labels": [""]},
        {"labels": [" fvec"]},
        {"labels": ["x" * 51]},
        {"labels": ["fvec\n"]},
        {"labels": ["fvec"] * 11},
        {"merge": True},
    ],
)
def test_a_value_that_makes_no_sense_is_refused(fields):
    with pytest.raises(ValidationError):
        BotSection(**fields)


def test_a_wrong_value_is_told_with_its_place(tmp_path):
    path = tmp_path / "fvec.yml"
    path.write_text(MANIFEST + 'bot:\n  quiet_hours: "9:00-17:00"\n')
    with pytest.raises(YamlError, match=re.escape(f"{path}:6:")):
        yamlfile.load(path, Manifest)


def test_the_section_is_in_the_published_schema_and_every_key_is_described(capsys):
    assert main(["config", "validate", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    section = schema["$defs"]["BotSection"]
    assert schema["properties"]["bot"] == {"$ref": "#/$defs/BotSection"}
    assert section["additionalProperties"] is False
    assert set(section["properties"]) == set(BotSection.model_fields)
    assert all(value.get("description") for value in section["properties"].values())
