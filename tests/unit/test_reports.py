"""A report of `verify` or `judge`, held to what was asked and to its own record."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from bot.publishing import reports
from bot.publishing.reports import Asked
from layers import reverify
from layers.base import ChangeClass
from layers.errors import InvalidInput
from layers.evidence import JudgeReport, Verdict, VerifyReport
from tests.e2e.proposals import git
from tests.render_fixture import evidence
from tests.unit.test_judge_rendering import accepted, rejected

MODEL = "models/features/1/model.py"
MANIFEST = {
    "schema": "fvec.manifest/1",
    "stack": {"name": "ads-serving", "models": "models", "entry": "ads_ensemble"},
    "traffic": {"requests": "traffic/r.bin", "arrivals": "traffic/a.csv"},
    "slo": {"p99_ms": 60},
}
PATCH = (
    f"diff --git a/{MODEL} b/{MODEL}\n--- a/{MODEL}\n+++ b/{MODEL}\n@@ -1 +1 @@\n-slow\n+fast\n"
).encode()
ABOUT = {"patch_sha256": hashlib.sha256(PATCH).hexdigest()}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose manifest is that of the rendered stack."""
    root = tmp_path_factory.mktemp("stack")
    for name, content in {".github/fvec.yml": json.dumps(MANIFEST), MODEL: "slow\n"}.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(content)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Serve ads")
    return root


@pytest.fixture
def base(stack: Path) -> str:
    return git(stack, "rev-parse", "HEAD").strip()


@pytest.fixture
def asked(stack: Path, base: str) -> Asked:
    return Asked(stack, base, PATCH)


def at(base: str, report: JudgeReport, **changes: Any) -> JudgeReport:
    """A report about the patch on a commit."""
    told = report.stack.model_copy(update={"commit": base})
    return report.model_copy(update={**ABOUT, "stack": told, **changes})


def test_a_report_of_what_was_asked_is_believed(asked, base) -> None:
    reports.check(at(base, accepted()), asked)
    reports.check(at(base, rejected()), asked)


def test_a_report_about_another_commit_is_refused(asked) -> None:
    with pytest.raises(InvalidInput, match="about another commit than") as caught:
        reports.check(at("1" * 40, rejected()), asked)
    assert caught.value.hint
    with pytest.raises(InvalidInput, match="about another commit than"):
        reports.check(accepted().model_copy(update={"stack": None}), asked)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [("exact", "approximate"), ("reorder", "exact"), (None, "approximate"), (None, "config")],
)
def test_a_report_of_another_class_is_refused(stack, base, wanted, told) -> None:
    report = at(base, accepted(), change_class=ChangeClass(told))
    with pytest.raises(InvalidInput, match="about another class than"):
        reports.check(report, Asked(stack, base, PATCH, wanted))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gates": []}, "it is accepted, and the gate paths is not there"),
        ({"gates": accepted().gates[:-1]}, "the gate confirm is not there"),
        ({"equivalence": []}, "no outputs were compared"),
        ({"end_to_end": None}, "it claims no gain"),
        ({"load_test": None}, "without a load test that counts"),
        ({"looks": []}, "no look accepted its gain"),
        ({"confirm": []}, "of 4 fresh pairs, and 0 are there"),
        ({"blocks": []}, "the blocks of pair 1.1 are not there"),
        ({"noise": None}, "says nothing of the noise"),
        ({"files_changed": ["docs/harmless.md"]}, "it names other files than the patch changes"),
    ],
)
def test_an_acceptance_without_its_grounds_is_refused(asked, base, changes, said) -> None:
    with pytest.raises(InvalidInput, match="does not bear its verdict out") as caught:
        reports.check(at(base, accepted(), **changes), asked)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [("name", "other", "name"), ("entry", "other", "entry"), ("slo_p99_ms", 600.0, "SLO")],
)
def test_an_acceptance_of_another_stack_is_refused(asked, base, field, value, what) -> None:
    report = at(base, accepted())
    other = report.stack.model_copy(update={field: value})
    with pytest.raises(InvalidInput, match=f"its stack has another {what} than the manifest"):
        reports.check(report.model_copy(update={"stack": other}), asked)


def test_a_stack_without_a_manifest_is_refused(stack, asked) -> None:
    git(stack, "checkout", "--quiet", "--orphan", "bare")
    git(stack, "rm", "--quiet", "--cached", ".github/fvec.yml")
    git(stack, "commit", "--quiet", "--message", "No manifest")
    commit = git(stack, "rev-parse", "HEAD").strip()
    git(stack, "checkout", "--quiet", "--force", "main")
    with pytest.raises(InvalidInput, match=r"has no \.github/fvec\.yml that can be read"):
        reports.check(at(commit, accepted()), Asked(stack, commit, PATCH))


# Evidence that was measured again


@pytest.fixture
def kept(base: str) -> bytes:
    """The evidence of the patch, as it is kept."""
    document = evidence().model_dump(mode="json", by_alias=True)
    document["iteration"] |= ABOUT | {"base_commit": base}
    document["stack"] |= {"commit": base}
    return json.dumps(document).encode()


def again(kept: bytes, judged: JudgeReport) -> VerifyReport:
    return reverify.compare(reverify.read(kept, PATCH, Path("evidence.json")), judged)


def test_evidence_that_was_measured_again_is_believed(stack, base, kept) -> None:
    for judged in (accepted(), rejected()):
        found = again(kept, at(base, judged))
        reports.check(found, Asked(stack, base, PATCH, evidence=kept))


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": Verdict.ACCEPTED, "reason": "reproduced"},
        {"reason": "gain_differs"},
        {"recorded": None},
        {"again": accepted().end_to_end},
        {"evidence": "run other, fvec/features/other"},
    ],
)
def test_a_comparison_that_the_measurements_do_not_give_is_refused(
    stack, base, kept, changes
) -> None:
    found = again(kept, at(base, rejected())).model_copy(update=changes)
    with pytest.raises(InvalidInput, match="what the two measurements say together"):
        reports.check(found, Asked(stack, base, PATCH, evidence=kept))


def test_evidence_measured_again_by_another_class_is_refused(stack, base, kept) -> None:
    found = again(kept, at(base, rejected(), change_class=ChangeClass.APPROXIMATE))
    with pytest.raises(InvalidInput, match="about another class than"):
        reports.check(found, Asked(stack, base, PATCH, evidence=kept))
