import re

import pytest
from pydantic import ValidationError

from bot.wake.jobs import JobSpec

SHA, OTHER = "a" * 40, "b" * 40


def job(**fields):
    return JobSpec(
        **{"kind": "judge", "repository": "owner/serve", "number": 7, "sha": SHA, **fields}
    )


def test_a_job_survives_json():
    spec = job(
        installation=3,
        layers=("config", "server"),
        change_class="exact",
        comment_id=11,
        asked_by="maintainer",
        why="maintainer asked",
    )
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_the_key_is_kind_repository_number_commit_class_and_layers():
    same = job(comment_id=5, asked_by="owner", why="again", installation=9)
    assert same.key == job().key
    assert job(repository="Owner/Serve").key == job().key  # GitHub tells them not apart
    others = [
        job(kind="rerun"),
        job(repository="owner/other"),
        job(number=8),
        job(number=None),
        job(sha=OTHER),
        job(sha=None),
        job(change_class="exact"),
        job(layers=("config",)),
        job(layers=("server",)),
    ]
    assert len({spec.key for spec in [*others, job()]}) == len(others) + 1


def test_a_key_is_a_plain_name():
    assert re.fullmatch(r"[a-z]+-[0-9a-f]{20}-[0-9a-f]{20}", job().key)
    some = job(kind="recreate", layers=("config", "server"))
    assert re.fullmatch(r"[a-z]+-[0-9a-f]{20}-[0-9a-f]{20}-[0-9a-f]{8}", some.key)
    assert job(kind="recreate", layers=("server", "config")).key == some.key
    assert len(some.key) <= 64


def test_a_job_about_some_layers_supersedes_its_like_alone_and_a_whole_one_any():
    whole, part = job(sha=OTHER), job(sha=OTHER, layers=("config",))
    other = job(sha=OTHER, layers=("server",))
    live = [whole.key, part.key, other.key, job(layers=("config",)).key]
    assert job(layers=("config",)).supersedes(live) == (part.key,)
    assert job().supersedes(live) == tuple(sorted(live))
    assert job(layers=("config",)).whole_among(live)
    assert not job().whole_among([part.key, other.key, job(number=8).key])


def test_a_job_supersedes_the_same_work_at_another_commit():
    live = [
        job(sha=OTHER).key,
        job().key,
        job(number=8, sha=OTHER).key,
        job(kind="rerun", sha=OTHER).key,
        job(repository="owner/other", sha=OTHER).key,
        job(sha=OTHER, change_class="exact").key,
    ]
    assert job().supersedes(live) == tuple(sorted([live[0], live[5]]))


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "merge"},
        {"repository": "serve"},
        {"repository": "owner/serve/x"},
        {"repository": "owner/.."},
        {"repository": "../serve"},
        {"repository": "-o/serve"},
        {"repository": "owner/serve\n"},
        {"repository": "owner/-serve"},
        {"sha": "abc"},
        {"sha": "A" * 40},
        {"sha": f"{SHA}\n"},
        {"number": 0},
        {"number": 2**63},
        {"layers": ("network",)},
        {"layers": ("config",) * 6},
        {"change_class": "fast"},
        {"asked_by": "no one"},
        {"asked_by": "x" * 200},
        {"why": "x" * 1001},
        {"command": "rm"},
    ],
)
def test_anything_else_is_refused(fields):
    with pytest.raises(ValidationError):
        job(**fields)


@pytest.mark.parametrize("repository", ["a/b", "owner/.github", "my_org/my.repo-2", "owner/..."])
def test_every_name_that_github_has_is_taken(repository):
    assert job(repository=repository).repository == repository
